"""How long a run will take, and a bar that shows how far it is; what draws the bar is imported when one is shown."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from sottovoce.algorithms import Algorithm
from sottovoce.resources import LONG, in_time
from sottovoce.simulation.resources import run_size
from sottovoce.topologies import Topology


def expected_seconds(
    problem: Any, topology: Topology, algorithms: tuple[Algorithm, ...], *, schemes: int, rounds: int, repeats: int, batch_size: int | None
) -> float:  # fmt: skip
    """About how long a run takes."""
    return run_size(
        problem, topology, algorithms, schemes=schemes, rounds=rounds, repeats=repeats, batch_size=batch_size, dtype="float32", metrics=0,
        together=repeats,
    ).seconds  # fmt: skip


@contextlib.contextmanager
def round_bar(
    rounds: int, *, done: int = 0, shown: bool = True, expected: float | None = None
) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr with rounds per second and time left; gives a function to call with the last round done.

    Where it is `expected` to take long, that is said first.
    """
    if not shown or not _can_draw():
        yield lambda last_round: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TimeRemainingColumn
    from rich.text import Text

    class Speed(ProgressColumn):
        def render(self, task: Any) -> Text:
            return Text(f"{task.speed:.0f} rounds/s" if task.speed else "compiling")

    if expected is not None and expected >= LONG:
        Console(stderr=True).print(f"{in_time(expected)} for {rounds - done:,} rounds, by estimate", highlight=False)
    columns = (BarColumn(), MofNCompleteColumn(), "rounds", Speed(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("rounds", total=rounds, completed=done)
        yield lambda last_round: bar.update(task, completed=last_round)


def _can_draw() -> bool:
    """Whether bars can be drawn: a machine with no more than JAX, NumPy and SciPy runs without them."""
    try:
        import rich  # noqa: F401
    except ModuleNotFoundError:
        return False
    return True
