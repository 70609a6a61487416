"""How the benchmarks measure: CPU seconds of all threads, competitors in turn inside one process.

A ratio is formed within each turn, and the median and the worst over the turns are reported, because a shared machine can change by a
factor of two from one minute to the next.
"""

import resource
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Timed(NamedTuple):
    """Seconds."""

    cpu: float
    wall: float


def timed(work: Callable[[], Any]) -> tuple[Timed, Any]:
    """Run once; CPU seconds count every thread of the process."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = work()
    return Timed(time.process_time() - cpu, time.perf_counter() - wall), result


def peak_mb() -> float:
    """The largest resident memory of this process so far, in 10^6 bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def compare(slow: Sequence[float], fast: Sequence[float], target: float | None = None) -> dict[str, float]:
    """How many times less the second needs, turn by turn; with a target, whether the median and the worst turn reach it."""
    ratios = [s / f for s, f in zip(slow, fast, strict=True)]
    result = {"median": statistics.median(ratios), "worst": min(ratios), "best": max(ratios)}
    if target is not None:
        result |= {
            "target": target,
            "reached": result["median"] >= target,
            "reached_in_worst_turn": result["worst"] >= target,
        }
    return result


def milliseconds(turns: Sequence[Timed], rounds: int) -> dict[str, float]:
    """The median over the turns, per round."""
    return {name: 1e3 / rounds * statistics.median(getattr(t, name) for t in turns) for name in Timed._fields}
