"""Noise designed for a file: what the table [design] asks for, beside schemes that were picked and the bound that no noise passes.

    independent      every agent draws noise alone, of one size, as small as the targets allow
    best gopa        own noise, and noise that linked pairs add and take back, in the proportion that is best for the error
    designed         what `sottovoce.design` finds
    central bound    less than any noise that keeps the targets can do, that of a trusted curator included

All keep the same targets. Errors are the noise's part of the error that [design] names, tr(G S) with the gains of `theory.noise_gains`. Every mu is stated
by the accountant for this run, for the scheme as it is printed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sottovoce.accounting import Guarantee
from sottovoce.design import Design, Limits, design, limits_of, read_targets
from sottovoce.design.baselines import best_pairwise_ratio, central_bound
from sottovoce.errors import ConfigError, SottovoceError, UnsupportedClaim
from sottovoce.experiments.build import build
from sottovoce.experiments.config.config import Config
from sottovoce.experiments.config.design import DesignSection
from sottovoce.experiments.config.overrides import silent
from sottovoce.experiments.config.toml_file import parse, read_toml
from sottovoce.experiments.experiment import Experiment
from sottovoce.experiments.privacy import guarantee, question, sensitivities
from sottovoce.noise import Gaussian, Noise, gopa, independent
from sottovoce.observers import Observer
from sottovoce.problems import Problem
from sottovoce.theory import noise_gains
from sottovoce.topologies import Topology

INDEPENDENT, GOPA, DESIGNED, CENTRAL = "independent", "best gopa", "designed", "central bound"
QUADRATIC = ("linear_regression", "mean_estimation")  # kinds whose error without clipping is known exactly
_NEARLY = (
    1 + 1e-12
)  # by how much more noise is added than the accountant asks for, so that rounding stays on the safe side
_KEPT = 1 + 1e-9  # by how much rounding may let a stated mu exceed its target


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemeRow:
    """One scheme that keeps the targets, or the bound.

    Attributes:
        scheme: its name.
        error: the noise's part of the error that was asked for.
        gain: the error of independent noise over it.
        guarantees: what is proven for every target, by the observer's name; none for the bound.
        gap: how far above the least possible the error is at most, relative to that; None: not known.
        largest_std: of what is added to a message; None for the bound.
        noise: the scheme; None for the bound.
        covariance: [K, K] of what agents add in a round; None for the bound, and where it changes with the round.
    """

    scheme: str
    error: float
    gain: float
    guarantees: Mapping[str, Guarantee]
    gap: float | None = None
    largest_std: float | None = None
    noise: Noise | None = None
    covariance: np.ndarray | None = None

    def describe(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "scheme": self.scheme,
            "error": self.error,
            "gain": self.gain,
            "mu": {name: stated.mu for name, stated in self.guarantees.items()},
            "gap": self.gap,
            "largest_std": self.largest_std,
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DesignedFile:
    """What was found for a file.

    Attributes:
        name: of the experiment.
        section: what was asked for.
        experiment: with the designed noise.
        design: the design itself.
        rows: schemes beside each other, and the bound where there is one.
        frontier: (weight of the centroid, error of an agent, error of the centroid), for every weight that the file lists.
        others: scheme -> (error of an agent, error of the centroid), where the file lists weights.
        gains: network -> scheme -> gain: this one, and those that the file lists.
        limits: what to know beside the numbers.
    """

    name: str
    section: DesignSection
    experiment: Experiment
    design: Design
    rows: tuple[SchemeRow, ...]
    frontier: tuple[tuple[float, float, float], ...]
    others: Mapping[str, tuple[float, float]]
    gains: Mapping[str, Mapping[str, float]]
    limits: tuple[str, ...]

    def describe(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "name": self.name,
            "agents": self.experiment.topology.num_agents,
            "rounds": self.experiment.rounds,
            "keys": self.section.keys,
            "when": self.section.when,
            "objective": self.section.weights,
            "time": self.section.time,
            "targets": dict(self.design.targets),
            "schemes": [row.describe() for row in self.rows],
            "bound": self.design.bound,
            "guarantees": [each.describe() for each in self.row(DESIGNED).guarantees.values()],
            "frontier": [
                {"weight": weight, "average": average, "centroid": centroid} for weight, average, centroid in self.frontier
            ],
            "gains": {name: dict(row) for name, row in self.gains.items()},
            "limits": list(self.limits),
        }  # fmt: skip

    def row(self, scheme: str) -> SchemeRow:
        """The row of a scheme."""
        return next(row for row in self.rows if row.scheme == scheme)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Asked:
    """What is asked of one network; `problem` is that of the experiment without clipping, whose error is known exactly."""

    experiment: Experiment
    problem: Problem
    section: DesignSection
    targets: Mapping[Observer, float | tuple[float, float]]

    @classmethod
    def of(cls, config: Config, experiment: Experiment) -> "_Asked":
        """What a configuration with [design] and [privacy] asks for."""
        assert config.design is not None  # both are there: the file is refused otherwise
        assert config.privacy is not None
        problem = build(config.model_copy(update={"privacy": None, "design": None})).problem
        targets = config.design.asked_for(config.privacy.delta)
        return cls(experiment=experiment, problem=problem, section=config.design, targets=targets)

    @property
    def mus(self) -> list[tuple[Observer, float]]:
        """Observers with the mu that each may reach."""
        return [(target.observer, target.mu) for target in read_targets(self.targets)]

    @property
    def weights(self) -> dict[str, float]:
        """The objective as weights."""
        given = self.section.weights
        return {given: 1.0} if isinstance(given, str) else given

    @property
    def curvature(self) -> dict[str, Any]:
        """How noise turns into error: by the problem, or by the curvature that the file gives."""
        given = self.section.curvature
        return {"problem": self.problem} if given is None else {"curvature": given}

    def gains(self, weights: Mapping[str, float]) -> np.ndarray:
        """[K, K] the gains of these weights."""
        return noise_gains(
            self.experiment.topology, self.experiment.algorithm, objective=weights, when=self.section.when,
            rounds=self.experiment.rounds, **self.curvature,
        ).total  # fmt: skip

    def limits(self) -> Limits:
        """What the targets allow a covariance."""
        run = self.experiment
        return limits_of(run.topology, run.algorithm, read_targets(self.targets), question(run))


def read_design_file(
    path: str | Path, overrides: Sequence[str] = (), *, say: Callable[[str], None] = silent
) -> tuple[Config, Experiment]:
    """The configuration and its experiment, without noise: that of the file, if any, is what the design replaces.

    Raises:
        ConfigError: naming the file, and what is wrong in it.
    """
    data = read_toml(Path(path), overrides, say=say)
    if "design" not in data:
        raise ConfigError(
            f'{path}: [design]: this section is missing; say who may learn how much: targets = {{ "eavesdropper+final_model" = 1.0 }}.'
        )
    config = parse({**data, "noise": {"kind": "none"}}, source=str(path))
    return config, build(config)


def design_file(
    path: str | Path, overrides: Sequence[str] = (), *, say: Callable[[str], None] = silent, progress: Callable[[str], None] = silent
) -> DesignedFile:  # fmt: skip
    """Design the noise that a file asks for, and everything that is printed and drawn beside it.

    Args:
        path: a configuration with a section [design].
        overrides: `section.key=value`, used instead of what the file says.
        say: told what of the file was left out because another kind was chosen.
        progress: told what comes next.

    Raises:
        ConfigError: a file that cannot be read.
        IncompatibleChoice: choices that do not go together, or targets that no such noise meets.
        UnsupportedClaim: nothing is proved for this kind of run.
    """
    config, experiment = read_design_file(path, overrides, say=say)
    assert config.design is not None  # refused above
    asked = _Asked.of(config, experiment)
    progress(f"{experiment.topology.num_agents} agents, {len(asked.targets)} target(s)")
    found, rows = _designed(asked)
    weights = config.design.frontier or ()
    frontier = tuple(_frontier_point(asked, weight, progress) for weight in weights)
    others = {row.scheme: _both_errors(asked, row.covariance) for row in rows if weights and row.covariance is not None}
    gains = {_title(experiment.topology): {row.scheme: row.gain for row in rows if row.scheme != INDEPENDENT}}
    for label, table in (config.design.graphs or {}).items():
        progress(f"network {label}")
        gains[label] = _gains_elsewhere(config, label, table.model_dump(exclude_none=True))
    return DesignedFile(
        name=config.experiment.name,
        section=config.design,
        experiment=replace(experiment, noise=found.noise),
        design=found,
        rows=tuple(rows),
        frontier=frontier,
        others=others,
        gains=gains,
        limits=_limits(asked, found, rows),
    )


def designed_noise(config: Config, experiment: Experiment) -> Noise:
    """The noise that the table [design] of a configuration asks for, for an experiment that was built from it.

    Raises:
        ConfigError: no such table.
        IncompatibleChoice: choices that do not go together, or targets that no such noise meets.
        UnsupportedClaim: nothing is proved for this kind of run.
    """
    if config.design is None or config.privacy is None:
        raise ConfigError(
            '[design]: this section is missing; a noise of kind "designed" needs it, or a file of `sottovoce design`.'
        )
    return _design(_Asked.of(config, experiment)).noise


def _design(asked: _Asked, weights: Mapping[str, float] | None = None) -> Design:
    run, section = asked.experiment, asked.section
    privacy = run.privacy
    assert privacy is not None  # a file with [design] has it
    if section.curvature is None and (run.batch is not None or run.batch_size is not None):
        raise UnsupportedClaim(
            "the error of a design is exact for full gradients, and this run takes batches. Give [design] curvature = h, one number that stands for all "
            "second derivatives, or leave the batches out."
        )
    if section.curvature is None and asked.problem.kind not in QUADRATIC:
        raise UnsupportedClaim(
            f"the losses of '{asked.problem.kind}' are not quadratic, so that their error is not known exactly. Give [design] curvature = h, "
            f"one number that stands for all second derivatives; guarantees hold for these losses all the same."
        )
    return design(
        run.topology, run.algorithm, asked.targets, rounds=run.rounds, sensitivity=sensitivities(run, norm="l2"), unit=privacy.unit,
        adjacency=privacy.adjacency, participation=privacy.participation, objective=asked.weights if weights is None else weights,
        when=section.when, keys=section.keys, own_floor=section.own_floor, cap=section.cap, time=section.time, **asked.curvature,
    )  # fmt: skip


def _designed(asked: _Asked) -> tuple[Design, list[SchemeRow]]:
    """The design, and the rows of the table."""
    found = _design(asked)
    gains, limits = asked.gains(asked.weights), asked.limits()
    rows = [_picked(asked, INDEPENDENT, independent(Gaussian(std=1.0)), np.eye(len(gains)), gains)]
    pairwise = best_pairwise_ratio(
        gains, limits.everybody, asked.experiment.topology.pairs, coalitions=limits.coalitions
    )
    if pairwise.ratio > 0:
        noise = gopa(Gaussian(std=1.0), pairwise_std=pairwise.ratio)
        # What pairs share cancels in the sum over agents, so that the sum of a row is the variance of own noise.
        rows.append(_picked(asked, GOPA, noise, pairwise.covariance / pairwise.covariance[0].sum(), gains))
    else:  # no shared noise helps: the best proportion is none at all
        rows.append(replace(rows[0], scheme=GOPA))
    rows.append(
        SchemeRow(
            scheme=DESIGNED,
            error=found.error,
            gain=1.0,
            guarantees=_kept(asked, found.noise),
            gap=found.gap,
            largest_std=found.largest_std,
            noise=found.noise,
        )
    )
    if asked.section.time == "white":  # the bound speaks of rounds alike
        central = central_bound(gains, limits.strictest, asked.experiment.topology.perron)
        rows += [SchemeRow(scheme=CENTRAL, error=central, gain=1.0, guarantees={})] if central > 0 else []
    return found, [replace(row, gain=rows[0].error / row.error) for row in rows]


def _picked(asked: _Asked, scheme: str, noise: Noise, covariance: np.ndarray, gains: np.ndarray) -> SchemeRow:
    """A scheme in the smallest size that keeps the targets; `covariance` is that of size one."""
    run = replace(asked.experiment, noise=noise)
    factor = 0.0
    for observer, mu in asked.mus:
        stated = guarantee(run, observer)
        if stated.mu is None or math.isinf(stated.mu):
            raise UnsupportedClaim(f"{scheme} noise has no finite mu for {observer}: {stated.reason}")
        factor = max(factor, stated.mu / mu)
    sized = noise.scaled(factor * _NEARLY)
    sized_covariance = covariance * (factor * _NEARLY) ** 2
    return SchemeRow(
        scheme=scheme, error=float(np.sum(gains * sized_covariance)), gain=1.0, guarantees=_kept(asked, sized),
        largest_std=math.sqrt(float(np.diag(sized_covariance).max())), noise=sized, covariance=sized_covariance,
    )  # fmt: skip


def _kept(asked: _Asked, noise: Noise) -> dict[str, Guarantee]:
    """What is proven for every target with this noise, in this run.

    Raises:
        UnsupportedClaim: a target is not kept.
    """
    run = replace(asked.experiment, noise=noise)
    found = {}
    for observer, mu in asked.mus:
        stated = guarantee(run, observer)
        if stated.mu is None or stated.mu > mu * _KEPT:
            raise UnsupportedClaim(
                f"for this run the accountant states mu = {stated.mu} for {observer}, more than the {mu:.6g} asked for: {stated.reason} Nothing is "
                f"returned."
            )
        found[observer.name] = stated
    return found


def _frontier_point(asked: _Asked, weight: float, progress: Callable[[str], None]) -> tuple[float, float, float]:
    """The two errors of the design for this weight of the centroid."""
    progress(f"weight {weight:g} of the common model")
    covariance = _design(asked, {"average": 1.0, "centroid": weight}).keys().covariance
    return weight, *_both_errors(asked, covariance)


def _both_errors(asked: _Asked, covariance: np.ndarray) -> tuple[float, float]:
    """The noise's part of an agent's error and of the centroid's."""
    return (
        float(np.sum(asked.gains({"average": 1.0}) * covariance)),
        float(np.sum(asked.gains({"centroid": 1.0}) * covariance)),
    )


def _gains_elsewhere(config: Config, label: str, table: Mapping[str, Any]) -> dict[str, float]:
    """{scheme: gain} of the same file on another network."""
    data = {**config.as_dict(), "topology": dict(table), "noise": {"kind": "none"}}
    try:
        other = parse(data, source=f"[design] graphs.{label}")
        asked = _Asked.of(other, build(other))
        return {row.scheme: row.gain for row in _designed(asked)[1] if row.scheme != INDEPENDENT}
    except SottovoceError as error:
        raise type(error)(f"[design] graphs.{label}: {error}") from error


def _title(topology: Topology) -> str:
    return f"{topology.name.replace('_', ' ')}, {topology.num_agents} agents (this file)"


def _limits(asked: _Asked, found: Design, rows: Sequence[SchemeRow]) -> tuple[str, ...]:
    """What to know beside the numbers."""
    said = [*found.notes, "Clipping of gradients is left out of the errors; where it cuts, a run differs from them."]
    central = next((row for row in rows if row.scheme == CENTRAL), None)
    if central is not None:
        far = found.error / central.error
        said.append(
            f"The error is {far:.3g} times the central bound, which a trusted curator could reach. The rest is noise on which agents still disagree: on "
            f"sparse networks no design comes near that bound."
        )
    if asked.section.time == "own":
        said.append(
            "The design shares no noise, and gopa beside it does: where its error is the smaller one, keys of pairs are worth more here than memory."
        )
    named = any(observer.any_members or observer.members for observer in asked.targets)
    if named and asked.section.keys in ("edges", "pairs"):
        said.append(
            "Protection against agents who collude costs accuracy: what is shared with a member of a coalition hides nothing from it. Without these "
            "targets the gain is larger."
        )
    return tuple(said)
