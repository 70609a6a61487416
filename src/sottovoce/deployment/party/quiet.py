"""A process whose memory stays its own, and no larger than it needs: no core dumps, nobody else who reads it; it alone says what it uses."""

import contextlib
import ctypes
import resource
import sys
from pathlib import Path

_SET_DUMPABLE = 4  # PR_SET_DUMPABLE of Linux


def keep_memory_private() -> None:
    """Ask the operating system to write no memory of this process to disk when it dies, and to let no debugger in, where it can.

    A core dump would hold keys, records and states without noise. The limit is set for children too.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_SET_DUMPABLE, 0, 0, 0, 0)


def memory_kb() -> dict[str, int]:
    """KB of this process where the system says so: all that it maps (rss), and its share of it, where others use the same pages (pss)."""
    try:
        lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    return {line.split(":")[0].lower(): int(line.split()[1]) for line in lines if line.startswith(("Rss:", "Pss:"))}


def give_back_free_memory() -> None:
    """Hand memory that was freed back to the operating system, where it can be asked to.

    A party is largest before its first exchange, when it reads, accounts for the run and compiles; what is free afterwards would stay with it.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
