"""`sottovoce calibrate`: two of epsilon, delta and noise give the third, and what the other observers then learn.

    --epsilon E [--delta D]      the smallest noise with which the observer has at most epsilon E at delta D
    --noise SIZE [--delta D]     the smallest proven epsilon at delta D
    --epsilon E --noise SIZE     the smallest proven delta at epsilon E

A delta that is not given is the file's, and 0 for a Laplace law whose file has none. What is found is rounded upwards:
with more noise, a larger epsilon or a larger delta than necessary the promise still holds.
"""

import decimal
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from sottovoce.accounting.guarantee import Guarantee
from sottovoce.accounting.mechanisms.rounding import upwards
from sottovoce.cli.guarantees import guarantee_table
from sottovoce.cli.output import JsonOption, show
from sottovoce.cli.run import OverridesArgument
from sottovoce.errors import ConfigError, IncompatibleChoice, UnsupportedClaim
from sottovoce.experiments import Config, Experiment, build, privacy, read
from sottovoce.experiments.config.noise import GopaNoise, LawSection
from sottovoce.experiments.config.privacy import asked, same_view
from sottovoce.noise import Gaussian
from sottovoce.numbers import checked
from sottovoce.observers import view

_SMALLEST_DELTA = 1e-300  # below, floating point runs out of digits, then of numbers
_SIZE_DIGITS = _EPSILON_DIGITS = 7
_DELTA_DIGITS = 6  # as many as tables and JSON keys show of a delta
_USES = """Give two and have the third found:
  --epsilon E [--delta D]    finds the noise
  --noise SIZE [--delta D]   finds epsilon
  --epsilon E --noise SIZE   finds delta
Without --delta, the delta of the file counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """What the command line gives; None for what it does not."""

    epsilon: float | None
    delta: float | None
    noise: float | None

    def __post_init__(self) -> None:
        values = {"--epsilon": self.epsilon, "--delta": self.delta, "--noise": self.noise}
        names = [name for name, value in values.items() if value is not None]
        if len(names) == 3 or names in ([], ["--delta"]):
            how_many = {0: "none of --epsilon, --delta and --noise is given", 1: "--delta alone is given"}
            raise ConfigError(f"{how_many.get(len(names), '--epsilon, --delta and --noise are all given')}. {_USES}")
        if self.epsilon is not None:
            checked("epsilon", self.epsilon, "(0, inf)" if self.noise is None else "[0, inf)")
        if self.delta is not None:
            checked("delta", self.delta, "[0, 1)")
        if self.noise is not None:
            checked("noise", self.noise, "(0, inf)")

    @property
    def asked_for(self) -> Literal["noise", "epsilon", "delta"]:
        return "noise" if self.noise is None else "epsilon" if self.epsilon is None else "delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """All three numbers, and what holds with them."""

    epsilon: float
    delta: float
    size: float
    experiment: Experiment  # with this noise and delta
    guarantees: Sequence[Guarantee]  # of its observers, the one asked about first

    @property
    def holds(self) -> bool:
        """Whether the numbers promise anything."""
        return self.epsilon < math.inf and self.delta < 1


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
) -> None:
    r"""Of noise, epsilon and delta, find the one that is not given; the file stays as it is.

    --epsilon E \[--delta D] finds the noise that gives an observer this epsilon.

    --noise SIZE \[--delta D] finds the epsilon that this size of the noise gives.

    --epsilon E --noise SIZE finds the delta at which both hold.
    """
    given = _Given(epsilon=epsilon, delta=delta, noise=noise)
    config = _read(file, overrides or (), given)
    section = _section(config)
    found = _find(_asking_first(build(_with(config, section, given)), observer), given)
    stated = _stated(found, given)
    in_file = given.asked_for != "delta" and delta is None and section.delta is None
    pasted = _overrides(section, found.size, delta=None if in_file else found.delta)
    if not as_json:
        typer.echo(_sentence(found, given, size_key=section.size_key))
        if found.holds:
            typer.echo(f"To use it, add\n  {' '.join(pasted)}")
    answer = {
        "observer": found.guarantees[0].observer,
        "asked_for": given.asked_for,
        "epsilon": found.epsilon if found.epsilon < math.inf else None,
        section.size_key: found.size,
        "overrides": pasted,
        **stated,  # with delta
    }
    show(answer, as_json=as_json, text=guarantee_table(stated) if found.delta < 1 else _why(found.guarantees[0]))


def _read(file: Path, overrides: Sequence[str], given: _Given) -> Config:
    """The file's configuration. It need not have the delta that is given or asked for, so one stands in."""
    stand_in = 0.5 if given.asked_for == "delta" else given.delta
    return read(file, [*overrides, *([f"privacy.delta={stand_in!r}"] if stand_in else [])])


def _with(config: Config, section: LawSection, given: _Given) -> Config:
    """The configuration with the size and delta that count; an epsilon that the file gives to its noise does not."""
    start = getattr(section, section.size_key) or 1.0  # calibration may start from any size
    update: dict[str, Any] = {"noise": _sized(section, start if given.noise is None else given.noise)}
    if config.privacy is not None:
        listed = (given.delta, config.privacy.delta, section.delta)
        delta = next((each for each in listed if each is not None), None)
        update["privacy"] = config.privacy.model_copy(update={"delta": delta})
    return config.model_copy(update=update)


def _find(experiment: Experiment, given: _Given) -> _Found:
    """The number asked for, and the other two.

    Raises:
        UnsupportedClaim: Gaussian noise without a delta, or no size gives the observer this epsilon.
    """
    promised, law, delta = experiment.privacy, experiment.noise.law, privacy.stated_delta(experiment)
    assert promised is not None  # its observers were found
    if isinstance(law, Gaussian) and delta == 0:
        raise UnsupportedClaim(
            "Gaussian noise has no finite epsilon at delta = 0. Give a --delta above 0, or use a Laplace law."
        )
    epsilon, size = given.epsilon, given.noise
    if size is None:
        assert epsilon is not None  # one of the two is given
        calibrated = privacy.calibrated(experiment, promised.observers[0], epsilon=epsilon, delta=delta)
        assert calibrated.law is not None  # rescaling keeps the law
        size = float(f"{privacy.size(calibrated.law):.{_SIZE_DIGITS}g}")
        experiment = replace(experiment, noise=calibrated)
    guarantees = privacy.guarantees(experiment)
    if epsilon is None:
        epsilon = upwards(guarantees[0].epsilon(delta), _EPSILON_DIGITS)
    elif given.asked_for == "delta":
        delta = _delta(guarantees[0], epsilon)
    experiment = replace(experiment, privacy=replace(promised, delta=delta))
    return _Found(epsilon=epsilon, delta=delta, size=size, experiment=experiment, guarantees=guarantees)


def _section(config: Config) -> LawSection:
    if not isinstance(config.noise, LawSection):
        raise IncompatibleChoice(
            f'noise "{config.noise.kind}" has no size to calibrate. Choose another kind, such as "independent".'
        )
    return config.noise


def _sized(section: LawSection, size: float) -> LawSection:
    """The same noise with this size; that of a pair's source keeps its proportion, rounded upwards."""
    values: dict[str, Any] = {section.size_key: size, "epsilon": None, "delta": None}
    if isinstance(section, GopaNoise):
        pairwise, std, new = (decimal.Decimal(repr(value)) for value in (section.pairwise_std, section.std, size))
        values["pairwise_std"] = (
            section.pairwise_std if new == std else upwards(float(pairwise * new / std), _SIZE_DIGITS)
        )
    return section.model_copy(update=values)


def _asking_first(experiment: Experiment, name: str | None) -> Experiment:
    """The experiment with the observer to calibrate for in front, and no budget to hold the old noise against."""
    if experiment.privacy is None or (name is None and not experiment.privacy.observers):
        raise ConfigError(
            "there is nobody to calibrate for. Add a section [privacy] with observers, or name one with --observer."
        )
    listed = experiment.privacy.observers
    first = listed[0] if name is None else privacy.observer_named(name)
    view(first, experiment.topology)  # refuses one that this topology does not have
    everybody = asked([first, *(each for each in listed if not same_view(each, first))])
    return replace(experiment, privacy=replace(experiment.privacy, observers=tuple(everybody), budget=None))


def _delta(found: Guarantee, epsilon: float) -> float:
    """A proven delta; where floating point cannot hold the smallest one, a larger one that it can."""
    value = found.delta(epsilon)
    truly_zero = found.pure_epsilon is not None or found.mu == 0
    return upwards(value if truly_zero else max(value, _SMALLEST_DELTA), _DELTA_DIGITS)


def _stated(found: _Found, given: _Given) -> dict[str, Any]:
    """The statement for all observers; at delta = 1, where epsilon means nothing, about the first alone."""
    if found.delta == 1:
        return {"delta": found.delta, "guarantees": [found.guarantees[0].describe()], "notes": []}
    stated = privacy.statement(found.experiment, found.guarantees)
    if _too_small(found, given):
        stated["notes"].append(f"The smallest delta is below {found.delta:g}, which is stated instead.")
    return stated


def _too_small(found: _Found, given: _Given) -> bool:
    return given.asked_for == "delta" and found.delta == _SMALLEST_DELTA


def _sentence(found: _Found, given: _Given, *, size_key: str) -> str:
    """What was given and what was found."""
    subject = f"{size_key} = {_plain(found.size)} gives {found.guarantees[0].observer}"
    if found.epsilon == math.inf:
        return f"{subject} no guarantee: epsilon is infinite."
    if found.delta == 1:
        return f"{subject} no guarantee: at epsilon = {_plain(found.epsilon)}, delta is 1."
    sign = "below" if _too_small(found, given) else "="
    return f"{subject} epsilon = {_plain(found.epsilon)} at delta {sign} {_plain(found.delta)}."


def _why(found: Guarantee) -> str:
    return found.reason if found.validity == "infinite" else "So little noise hides nothing at this epsilon."


def _plain(value: float) -> str:
    """All digits, and no more."""
    return repr(value).removesuffix(".0")


def _overrides(section: LawSection, size: float, *, delta: float | None) -> list[str]:
    """What to put behind `sottovoce run FILE`; a section that gives an epsilon is replaced as a whole."""
    sized = _sized(section, size).model_dump(exclude_none=True)
    stated = [f"privacy.delta={delta!r}"] if delta is not None and 0 < delta < 1 else []
    if section.epsilon is None:
        return [f"noise.{key}={sized[key]!r}" for key in (section.size_key, "pairwise_std") if key in sized] + stated
    whole = ", ".join(f"{key}={json.dumps(value)}" for key, value in sized.items())
    return [f"'noise={{{whole}}}'", *stated]
