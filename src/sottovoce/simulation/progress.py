"""How long a run will take, and a bar that shows how far it is; what draws the bar is imported when one is shown."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from sottovoce.algorithms import Algorithm
from sottovoce.resources import LONG, in_time
from sottovoce.simulation.resources import run_size
from sottovoce.simulation.settings import Settings
from sottovoce.topologies import Topology


def expected_seconds(
    problem: Any, topology: Topology, algorithms: tuple[Algorithm, ...], settings: Settings, *, schemes: int
) -> float:
    """About how long a run takes, with all its repeats in one pass.

    Args:
        problem: the data and the loss.
        topology: who talks to whom.
        algorithms: those that run in one program.
        settings: the numbers of the run.
        schemes: how many noise schemes each of them runs with.
    """
    together = replace(settings, repeats_together=settings.repeats)
    return run_size(problem, topology, algorithms, together, schemes=schemes, metrics=0).seconds


@contextlib.contextmanager
def round_bar(
    rounds: int, *, done: int = 0, shown: bool = True, expected: float | None = None
) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr with rounds per second and time left; gives a function to call with the last round done.

    Where it is `expected` to take long, that is said first. Nothing is drawn where stderr is no terminal.
    """
    if not shown or not _can_draw():
        yield lambda last_round: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn
    from rich.text import Text

    class Speed(ProgressColumn):
        def render(self, task: Any) -> Text:
            return Text(_speed(task.speed))

    class Left(ProgressColumn):
        def render(self, task: Any) -> Text:
            return Text(_left(task.time_remaining))

    console = Console(stderr=True)
    if expected is not None and expected >= LONG:
        console.print(f"{in_time(expected)} for {rounds - done:,} rounds, by estimate", highlight=False)
    if not console.is_terminal:
        yield lambda last_round: None
        return
    columns = (BarColumn(30), MofNCompleteColumn(), "rounds", Speed(), Left())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("rounds", total=rounds, completed=done)
        yield lambda last_round: bar.update(task, completed=last_round)


@contextlib.contextmanager
def working_on(what: str, *, shown: bool) -> Iterator[None]:
    """Say on a terminal's error stream what is being done, with a sign that moves, while it is being done."""
    if not shown or not _can_draw():
        yield
        return
    from rich.console import Console

    console = Console(stderr=True)
    with console.status(what) if console.is_terminal else contextlib.nullcontext():
        yield


def _speed(rounds_per_second: float | None) -> str:
    if not rounds_per_second:
        return "compiling"
    return f"{rounds_per_second:.0f} rounds/s" if rounds_per_second >= 10 else f"{rounds_per_second:.2g} rounds/s"


def _left(seconds: float | None) -> str:
    """The time left in words that need no heading, such as 1:05 left; nothing while it is not known."""
    if seconds is None:
        return ""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d} left" if hours else f"{minutes}:{rest:02d} left"


def _can_draw() -> bool:
    """Whether bars can be drawn: a machine with no more than JAX, NumPy and SciPy runs without them."""
    try:
        import rich  # noqa: F401
    except ModuleNotFoundError:
        return False
    return True
