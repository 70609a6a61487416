"""What every observer may learn: targets as they are given, and what they allow a covariance of noise.

Where every agent keeps and sends the same noisy message and the noise of a round has covariance S between agents, a reader of all messages learns of agent p

    mu_p  =  unit_p sqrt([S^-1]_pp),      unit_p: the value under noise of variance one that every agent draws alone,

and a coalition the same with S of the honest agents and of the sources that no member knows (docs/guarantees.md, "Designed noise"). unit_p is what the
accountant states for that noise, so that steps, rounds, participation and sensitivity are read off the functions that run. A target mu for an
observer then is a limit (mu / unit_p)^2 on [S^-1]_pp. What is stated in the end is again the accountant's, for the noise that was made.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sottovoce.accounting import Question, account_each, gaussian
from sottovoce.algorithms import Algorithm
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.linear import bound_rounds
from sottovoce.noise import Gaussian, independent
from sottovoce.numbers import is_number
from sottovoce.observers import Observer, coalitions, eavesdropper, final_model, view
from sottovoce.topologies import Topology

MOST_LIMITS = 4_000  # coalitions that a design keeps in mind at once


class Target(NamedTuple):
    """How much one observer may learn."""

    observer: Observer
    mu: float


class Limits(NamedTuple):
    """What targets allow.

    Attributes:
        everybody: [K] the largest [S^-1]_pp under which also a reader of all messages who is no agent keeps its target; infinite: none is set.
        coalitions: members, and [K] the largest [S^-1]_pp of the honest part.
        unit_mu: [K] what is learnt under own noise of variance one.
    """

    everybody: np.ndarray
    coalitions: list[tuple[tuple[int, ...], np.ndarray]]
    unit_mu: np.ndarray

    @property
    def strictest(self) -> np.ndarray:
        """[K] the smallest limit of every agent over all observers."""
        return np.asarray(np.min([self.everybody, *(limit for _, limit in self.coalitions)], axis=0))


def read_targets(given: Any) -> list[Target]:
    """Observers with a mu each, or an epsilon and a delta.

    Raises:
        ConfigError: not a mapping of observers to such numbers.
    """
    if not isinstance(given, Mapping) or not given:
        raise ConfigError(
            f"targets = {given!r}; they say how much each observer may learn: {{sv.observers.eavesdropper(): 1.0}} for mu, or (epsilon, delta) in "
            f"place of mu. There is no default."
        )
    found = [_target(observer, value) for observer, value in given.items()]
    names = [target.observer.name for target in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(
            f"two targets are for observers called {twice[0]!r}, and guarantees are stated by name. Give them different names."
        )
    return found


def _target(observer: Any, value: Any) -> Target:
    if not isinstance(observer, Observer):
        raise ConfigError(f"the target {value!r} is for {observer!r}, which is no observer. Use one of sv.observers.")
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2:
        epsilon, delta = value
        if not is_number(epsilon, "(0, inf)") or not is_number(delta, "(0, 1)"):
            raise ConfigError(
                f"the target of {observer} is epsilon = {epsilon!r} at delta = {delta!r}; epsilon must be above 0, and delta between 0 and 1."
            )
        return Target(observer, float(gaussian.mu(float(epsilon), float(delta))))
    if not is_number(value, "(0, inf)"):
        raise ConfigError(f"the target of {observer} is {value!r}; it is a mu above 0, or (epsilon, delta).")
    return Target(observer, float(value))


def limits_of(topology: Topology, algorithm: Algorithm, targets: Sequence[Target], question: Question) -> Limits:
    """The limits on [S^-1]_pp that keep all targets.

    Raises:
        UnsupportedClaim: no noise of this kind has a finite guarantee for an observer.
        ConfigError: too many coalitions.
    """
    unit = _unit_mu(topology, algorithm, question, reader_of(targets))
    everybody, held = np.full(len(unit), np.inf), dict[tuple[int, ...], np.ndarray]()
    for target in targets:
        limit = (target.mu / unit) ** 2
        for one in coalitions(target.observer, topology.num_agents):
            if not one.members:
                everybody = np.minimum(everybody, limit)
                continue
            before = held.get(one.members, np.full(len(unit), np.inf))
            held[one.members] = np.minimum(before, np.where(np.isin(np.arange(len(unit)), one.members), np.inf, limit))
    if len(held) > MOST_LIMITS:
        raise ConfigError(
            f"the targets name {len(held):,} coalitions, and a design keeps {MOST_LIMITS:,} in mind at most. Name smaller coalitions, or use "
            f"keys='joint', under which every coalition learns what an eavesdropper learns."
        )
    return Limits(everybody, sorted(held.items()), unit)


def are_all_told_everything(
    topology: Topology, algorithm: Algorithm, targets: Sequence[Target], question: Question
) -> bool:
    """Whether the limits are needed, and not only enough: what is stated about every observer is what a reader of all messages would learn.

    Where gradients enter at the start alone nothing reacts to what agents hear, and who reads a part of the messages is told less than that.
    """
    rounds = bound_rounds(topology, algorithm, independent(Gaussian(std=1.0)), question.rounds)
    everyone = [one for target in targets for one in coalitions(target.observer, topology.num_agents)]
    return not rounds.values_are_fixed or all(view(one, topology).every_message for one in everyone)


def reader_of(targets: Sequence[Target]) -> Observer:
    """Who reads every message, and gets the model where one of the targets does."""
    released = any(target.observer.final_model for target in targets)
    return eavesdropper() + final_model() if released else eavesdropper()


def _unit_mu(topology: Topology, algorithm: Algorithm, question: Question, observer: Observer) -> np.ndarray:
    """[K] what a reader of every message learns under own noise of variance one."""
    stated = account_each(topology, algorithm, independent(Gaussian(std=1.0)), observer, question=question)
    for one in stated:
        if one.validity not in ("exact", "sent-messages") or one.mu is None or not np.isfinite(one.mu):
            raise UnsupportedClaim(
                f"noise can be designed only where what is sent is hidden by the noise in it, and here {one.observer} learns of agent "
                f"{one.agent}: {one.reason}"
            )
        if one.mu == 0:
            raise UnsupportedClaim(
                f"agent {one.agent} gives nothing away in this run, so that there is nothing to design for."
            )
    return np.array([one.mu for one in stated], dtype=float)
