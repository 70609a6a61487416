"""`sottovoce calibrate`: two of epsilon, delta and noise give the third, and what the other observers then learn.

--epsilon E [--delta D]      the smallest noise with which the observer has at most epsilon E at delta D
--noise SIZE [--delta D]     the smallest proven epsilon at delta D
--epsilon E --noise SIZE     the smallest proven delta at epsilon E
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group

from sottovoce.cli.guarantees import guarantee_table
from sottovoce.cli.output import JsonOption, Notes, OverridesArgument, QuietOption, show, verbatim, wrapped
from sottovoce.errors import ConfigError

if TYPE_CHECKING:
    from sottovoce.accounting import Guarantee
    from sottovoce.experiments import Calibrated

_USES = """Give two and have the third found:
  --epsilon E [--delta D]    finds the noise
  --noise SIZE [--delta D]   finds epsilon
  --epsilon E --noise SIZE   finds delta
Without --delta, the delta of the file counts."""


def calibrate(
    file: Annotated[Path, typer.Argument(help="A TOML configuration with a section \\[privacy].")],
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="What the observer may learn at most.")] = None,
    overrides: OverridesArgument = None,
    delta: Annotated[float | None, typer.Option("--delta", help="Instead of the delta in \\[privacy].")] = None,
    noise: Annotated[
        float | None, typer.Option("--noise", help="Size of the noise: std, or scale for l2_laplace.")
    ] = None,
    observer: Annotated[
        str | None, typer.Option("--observer", help="For whom (default: the first in \\[privacy]).")
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    r"""Of noise, epsilon and delta, find the one that is not given; the file stays as it is.

    --epsilon E \[--delta D] finds the noise that gives an observer this epsilon.

    --noise SIZE \[--delta D] finds the epsilon that this size of the noise gives.

    --epsilon E --noise SIZE finds the delta at which both hold.
    """
    from sottovoce.experiments import Given, calibrate_file

    _require_two(epsilon, delta, noise)
    notes, given = Notes(), Given(epsilon=epsilon, delta=delta, noise=noise)
    found = calibrate_file(file, overrides or (), given, observer, say=notes)
    stated, pasted = found.statement(), found.overrides()
    answer = {
        "observer": found.guarantees[0].observer,
        "asked_for": found.given.asked_for,
        "epsilon": found.epsilon if found.epsilon < math.inf else None,
        found.section.size_key: found.size,
        "overrides": pasted,
        **stated,  # holds the delta too
    }
    use = [wrapped("To use it, add"), verbatim(f"  {' '.join(pasted)}")] if found.holds else []
    what = guarantee_table(stated) if found.delta < 1 else wrapped(_why(found.guarantees[0]))
    show(answer, as_json=as_json, text=Group(wrapped(_sentence(found)), *use, what), notes=notes)


def _require_two(epsilon: float | None, delta: float | None, noise: float | None) -> None:
    values = {"--epsilon": epsilon, "--delta": delta, "--noise": noise}
    names = [name for name, value in values.items() if value is not None]
    if len(names) == 3 or names in ([], ["--delta"]):
        how_many = {0: "none of --epsilon, --delta and --noise is given", 1: "--delta alone is given"}
        raise ConfigError(f"{how_many.get(len(names), '--epsilon, --delta and --noise are all given')}. {_USES}")


def _sentence(found: "Calibrated") -> str:
    """What was given and what was found."""
    subject = f"{found.section.size_key} = {_plain(found.size)} gives {found.guarantees[0].observer}"
    if found.epsilon == math.inf:
        return f"{subject} no guarantee: epsilon is infinite."
    if found.delta == 1:
        return f"{subject} no guarantee: at epsilon = {_plain(found.epsilon)}, delta is 1."
    sign = "below" if found.too_small else "="
    return f"{subject} epsilon = {_plain(found.epsilon)} at delta {sign} {_plain(found.delta)}."


def _why(found: "Guarantee") -> str:
    return found.reason if found.validity == "infinite" else "So little noise hides nothing at this epsilon."


def _plain(value: float) -> str:
    """All digits, and no more."""
    return repr(value).removesuffix(".0")
