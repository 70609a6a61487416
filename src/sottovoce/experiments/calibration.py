"""Of noise, epsilon and delta, the one that is not given, and what the other observers then learn.

A delta that is not given is the file's, and 0 for a Laplace law whose file has none. What is found is rounded upwards: with more noise, a larger
epsilon or a larger delta than necessary the promise still holds.
"""

import decimal
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from sottovoce.accounting import Guarantee
from sottovoce.errors import ConfigError, IncompatibleChoice, UnsupportedClaim
from sottovoce.experiments.build import build
from sottovoce.experiments.config.config import Config
from sottovoce.experiments.config.noise import GopaNoise, LawSection
from sottovoce.experiments.config.overrides import silent
from sottovoce.experiments.config.privacy import asked, same_view
from sottovoce.experiments.config.toml_file import read
from sottovoce.experiments.experiment import Experiment
from sottovoce.experiments.privacy import calibrated, guarantees, size, stated_delta, statement
from sottovoce.noise import Gaussian
from sottovoce.numbers import checked
from sottovoce.observers import coalitions, observer_named, view
from sottovoce.rounding import upwards

SMALLEST_DELTA = 1e-300  # below, floating point runs out of digits, then of numbers
_SIZE_DIGITS = _EPSILON_DIGITS = 7
_DELTA_DIGITS = 6  # as many as tables and JSON keys show of a delta


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Two of the three numbers, or one of them where the file has the delta; None for what is not given."""

    epsilon: float | None
    delta: float | None
    noise: float | None

    def __post_init__(self) -> None:
        if self.epsilon is not None:
            checked("epsilon", self.epsilon, "(0, inf)" if self.noise is None else "[0, inf)")
        if self.delta is not None:
            checked("delta", self.delta, "[0, 1)")
        if self.noise is not None:
            checked("noise", self.noise, "(0, inf)")

    @property
    def asked_for(self) -> Literal["noise", "epsilon", "delta"]:
        """The number to find."""
        return "noise" if self.noise is None else "epsilon" if self.epsilon is None else "delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """All three numbers, and what holds with them."""

    given: Given
    section: LawSection  # the file's noise
    epsilon: float
    delta: float
    size: float
    experiment: Experiment  # with this noise and delta
    guarantees: Sequence[Guarantee]  # of its observers, the one asked about first

    @property
    def holds(self) -> bool:
        """Whether the numbers promise anything."""
        return self.epsilon < math.inf and self.delta < 1

    @property
    def too_small(self) -> bool:
        """Whether the smallest delta is smaller than floating point holds, so that a larger one is stated."""
        return self.given.asked_for == "delta" and self.delta == SMALLEST_DELTA

    def statement(self) -> dict[str, Any]:
        """What holds for all observers; at delta = 1, where epsilon means nothing, for the first alone."""
        if self.delta == 1:
            return {"delta": self.delta, "guarantees": [self.guarantees[0].describe()], "notes": []}
        stated = statement(self.experiment, self.guarantees)
        if self.too_small:
            stated["notes"].append(f"The smallest delta is below {self.delta:g}, which is stated instead.")
        return stated

    def overrides(self) -> list[str]:
        """What to put behind `sottovoce run FILE`; a section that gives an epsilon is replaced as a whole."""
        section = self.section
        in_file = self.given.asked_for != "delta" and self.given.delta is None and section.delta is None
        stated = [f"privacy.delta={self.delta!r}"] if not in_file and 0 < self.delta < 1 else []
        sized = _sized(section, self.size).model_dump(exclude_none=True)
        if section.epsilon is None:
            keys = (section.size_key, "pairwise_std")
            return [f"noise.{key}={sized[key]!r}" for key in keys if key in sized] + stated
        whole = ", ".join(f"{key}={json.dumps(value)}" for key, value in sized.items())
        return [f"'noise={{{whole}}}'", *stated]


def calibrate_file(
    file: Path,
    overrides: Sequence[str],
    given: Given,
    observer: str | None,
    *,
    say: Callable[[str], None] = silent,
) -> Calibrated:
    """Find the number that is not given.

    Args:
        file: a configuration with a section [privacy].
        overrides: `section.key=value`, used instead of what the file says.
        given: the numbers that are known.
        observer: for whom, by name; None: the first of the file.
        say: told what of the file was left out because another kind was chosen.

    Raises:
        ConfigError: a file that cannot be read, or nobody to calibrate for.
        IncompatibleChoice: noise that has no size.
        UnsupportedClaim: Gaussian noise without a delta, or no size gives the observer this epsilon.
    """
    config = _read(file, overrides, given, say)
    section = config.noise
    if not isinstance(section, LawSection):
        raise IncompatibleChoice(
            f'noise "{section.kind}" has no size to calibrate. Choose another kind, such as "independent".'
        )
    return _found(_asking_first(build(_with(config, section, given)), observer), section, given)


def _read(file: Path, overrides: Sequence[str], given: Given, say: Callable[[str], None]) -> Config:
    """The file's configuration. It need not have the delta that is given or asked for, so one stands in."""
    stand_in = 0.5 if given.asked_for == "delta" else given.delta
    return read(file, [*overrides, *([f"privacy.delta={stand_in!r}"] if stand_in else [])], say=say)


def _with(config: Config, section: LawSection, given: Given) -> Config:
    """The configuration with the size and delta that count; an epsilon that the file gives to its noise does not."""
    start = getattr(section, section.size_key) or 1.0  # calibration may start from any size
    update: dict[str, Any] = {"noise": _sized(section, start if given.noise is None else given.noise)}
    if config.privacy is not None:
        listed = (given.delta, config.privacy.delta, section.delta)
        delta = next((each for each in listed if each is not None), None)
        update["privacy"] = config.privacy.model_copy(update={"delta": delta})
    return config.model_copy(update=update)


def _found(experiment: Experiment, section: LawSection, given: Given) -> Calibrated:
    """The number asked for, and the other two."""
    promised, law, delta = experiment.privacy, experiment.noise.law, stated_delta(experiment)
    assert promised is not None  # its observers were found
    if isinstance(law, Gaussian) and delta == 0:
        raise UnsupportedClaim(
            "Gaussian noise has no finite epsilon at delta = 0. Give a --delta above 0, or use a Laplace law."
        )
    epsilon, wanted = given.epsilon, given.noise
    if wanted is None:
        assert epsilon is not None  # one of the two is given
        noise = calibrated(experiment, promised.observers[0], epsilon=epsilon, delta=delta)
        assert noise.law is not None  # rescaling keeps the law
        wanted = float(f"{size(noise.law):.{_SIZE_DIGITS}g}")
        experiment = replace(experiment, noise=noise)
    found = guarantees(experiment)
    if epsilon is None:
        epsilon = upwards(found[0].epsilon(delta), _EPSILON_DIGITS)
    elif given.asked_for == "delta":
        delta = _delta(found[0], epsilon)
    experiment = replace(experiment, privacy=replace(promised, delta=delta))
    return Calibrated(
        given=given,
        section=section,
        epsilon=epsilon,
        delta=delta,
        size=wanted,
        experiment=experiment,
        guarantees=found,
    )


def _sized(section: LawSection, wanted: float) -> LawSection:
    """The same noise with this size; that of a pair's source keeps its proportion, rounded upwards."""
    values: dict[str, Any] = {section.size_key: wanted, "epsilon": None, "delta": None}
    if isinstance(section, GopaNoise):
        pairwise, std, new = (decimal.Decimal(repr(value)) for value in (section.pairwise_std, section.std, wanted))
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
    first = listed[0] if name is None else observer_named(name)
    view(
        coalitions(first, experiment.topology.num_agents)[0], experiment.topology
    )  # refuses one that this topology does not have
    everybody = asked([first, *(each for each in listed if not same_view(each, first))])
    return replace(experiment, privacy=replace(experiment.privacy, observers=tuple(everybody), budget=None))


def _delta(found: Guarantee, epsilon: float) -> float:
    """A proven delta; where floating point cannot hold the smallest one, a larger one that it can."""
    value = found.delta(epsilon)
    truly_zero = found.pure_epsilon is not None or found.mu == 0
    return upwards(value if truly_zero else max(value, SMALLEST_DELTA), _DELTA_DIGITS)
