"""What this machine can hold and finish: sizes are estimated before anything is allocated, and what cannot fit is refused in one sentence.

    free memory     the least of what the operating system calls available and what a container leaves to its processes
    time            estimated operations over a cautious speed; above a year a run is refused

An estimate is for choosing sizes: memory to a factor of two, time to an order of magnitude.
"""

import math
from collections.abc import Iterator
from pathlib import Path

from sottovoce.errors import ConfigError

LONGEST = 365 * 86400.0  # seconds after which nobody waits for an answer
LONG = 60.0  # seconds from which on it is said beforehand how long something takes
ROUND_BYTES = 40.0  # of one round in lists of steps, noise factors and which round is which, however it is computed
_MEMORY = Path("/proc/meminfo")
_GROUPS = Path("/proc/self/cgroup")
_MOUNTED = Path("/sys/fs/cgroup")
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_PERIODS = ((86400.0 * 365, "year"), (86400.0, "day"), (3600.0, "hour"), (60.0, "minute"), (1.0, "second"))


def free_memory() -> int | None:
    """Bytes that can still be allocated; None where the operating system does not say."""
    found = [*_available(), *_left_by_groups()]
    return min(found) if found else None


def refuse_too_large(what: str, needed: float, remedy: str) -> None:
    """Refuse what needs more memory than is free.

    Args:
        what: would be made, as the subject of a sentence with its numbers: "3 x 4 records".
        needed: bytes.
        remedy: what to do, a whole sentence.

    Raises:
        ConfigError: it does not fit.
    """
    free = free_memory()
    if free is not None and needed > free:
        raise ConfigError(f"{what} would need {in_bytes(needed)} of memory and {in_bytes(free)} are free. {remedy}")


def refuse_too_many_rounds(rounds: int) -> None:
    """Refuse a number of rounds whose list alone does not fit; it comes before any loop over rounds.

    Raises:
        ConfigError: it does not fit.
    """
    refuse_too_large(
        f"rounds = {rounds:,}: the list of rounds alone", ROUND_BYTES * rounds, "Lower the number of rounds."
    )


def refuse_too_long(what: str, seconds: float, remedy: str) -> None:
    """Refuse what would take more than a year.

    Args:
        what: would be computed, as the subject of a sentence with its numbers.
        seconds: about how long.
        remedy: what to do, a whole sentence.

    Raises:
        ConfigError: it takes too long.
    """
    if seconds > LONGEST:
        raise ConfigError(f"{what} would take {in_time(seconds)}, and more than a year is refused. {remedy}")


def in_bytes(size: float) -> str:
    """A size for people: "109 TiB"."""
    power = min(len(_UNITS) - 1, max(0, int(math.log(max(size, 1.0), 1024) + 1e-9)))
    value = size / 1024**power
    return f"{value:.3g} {_UNITS[power]}" if value < 999.5 else f"{value:,.0f} {_UNITS[power]}"


def in_time(seconds: float) -> str:
    """A duration for people: "about 3 hours"."""
    length, name = next(period for period in _PERIODS if seconds >= period[0] or period[0] == 1.0)
    number = max(1, round(seconds / length))
    shown = f"{number:,}" if number < 10**9 else f"{number:.0e}"
    return f"about {shown} {name}{'' if number == 1 else 's'}"


def _available() -> Iterator[int]:
    """What the whole machine has left."""
    try:
        lines = _MEMORY.read_text(encoding="ascii").splitlines()
    except OSError:
        return
    for line in lines:
        if line.startswith("MemAvailable:"):
            yield int(line.split()[1]) * 1024


def _left_by_groups() -> Iterator[int]:
    """What each limit on this process and its relatives leaves; version 2 of control groups first, then version 1."""
    try:
        entries = [line.split(":", 2) for line in _GROUPS.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return
    for _, controllers, path in (entry for entry in entries if len(entry) == 3):
        if controllers == "":
            root, names = _MOUNTED, ("memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            root, names = _MOUNTED / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes")
        else:
            continue
        # Inside a container the path of the group may be that of the host; its own files then lie at the root.
        folder = root / path.lstrip("/")
        for place in (folder, *folder.parents):
            yield from _left_by(place, *names)
            if place == root:
                break


def _left_by(folder: Path, limit: str, used: str) -> Iterator[int]:
    try:
        most, now = (folder / limit).read_text().strip(), (folder / used).read_text().strip()
    except OSError:
        return
    if most.isdigit() and now.isdigit():
        yield max(0, int(most) - int(now))
