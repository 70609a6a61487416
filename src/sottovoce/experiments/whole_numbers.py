"""What a run in whole numbers gives away, from an experiment with or without records: the resolution of its lattice, and the noise that an epsilon needs.

An epsilon in a file holds for an observer. In a simulation that is the first one listed; among parties it is whoever they agreed to protect themselves
against, with all that rounding and imperfect draws cost.
"""

from dataclasses import dataclass, replace
from typing import Literal

from sottovoce.accounting import gaussian
from sottovoce.deployment.privacy import (
    Deployed,
    GradientArithmetic,
    choose_fraction_bits,
    deployed_guarantee,
    gradient_arithmetic,
)
from sottovoce.deployment.terms import PublicRun, in_whole_multiples
from sottovoce.errors import UnsupportedClaim
from sottovoce.experiments.config.noise import LawSection
from sottovoce.experiments.experiment import Experiment, refuse_turns
from sottovoce.experiments.privacy import sensitivities, size, stated_delta
from sottovoce.noise import Noise
from sottovoce.problems import Problem, Sensitivity
from sottovoce.rounding import upwards

_DIGITS = 7  # a calibrated size has no more, as in calibrations of simulated runs
_FINE = 30  # fraction bits for a first guess with noise of size one
_SLACK = 1e-6  # relative, by which calibrated noise is larger than it has to be
_CLOSE = 1e-4  # an epsilon that is smaller by this share of it is met well enough
_MOST_TRIES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Watchers:
    """Whom a run is accounted for, as `deployed_guarantee` takes it.

    Attributes:
        collude: which other agents put together what they know.
        relay_trusted: whether the relay keeps what it reads to itself.
        released_to: who gets the final model.
    """

    collude: Literal["all", "nobody"] | int
    relay_trusted: bool
    released_to: Literal["own", "public"] | tuple[str, ...]


def public_run(experiment: Experiment) -> PublicRun:
    """The public parts of an experiment; pairs' noise with the factors that parties can carry in whole numbers, near those of the simulation.

    Raises:
        IncompatibleChoice: records in turns.
    """
    refuse_turns(experiment.batch, "a run in whole numbers")
    return PublicRun(
        topology=experiment.topology,
        algorithm=experiment.algorithm,
        noise=in_whole_multiples(experiment.noise),
        rounds=experiment.rounds,
        batch_size=experiment.batch_size,
        initial_model=experiment.problem.initial_model,
    )


def marked_sensitivities(experiment: Experiment) -> list[Sensitivity]:
    """[K] what the protected unit can change at every agent, with what that holds for."""
    privacy, clipped = experiment.privacy, experiment.algorithm.clipped_update
    assert privacy is not None  # whoever comes here has refused a file without it
    norm = "l2" if clipped is None else clipped.clip.norm
    # What is clipped as a whole is bounded whatever the data are, so that its bound is a plain number.
    return [
        one if isinstance(one, Sensitivity)
        else Sensitivity(one, unit=privacy.unit, adjacency=privacy.adjacency, norm=norm, compares="any two models")
        for one in sensitivities(experiment)
    ]  # fmt: skip


def arithmetic_of(experiment: Experiment, problem: Problem, agent: int) -> GradientArithmetic:
    """What is summed in one gradient; an update that is clipped as a whole is one term, whatever was summed in it."""
    refuse_turns(experiment.batch, "a run in whole numbers")
    if experiment.algorithm.clipped_update is not None and not experiment.noise.in_gradients:
        return GradientArithmetic(terms=1, added=0.0)
    return gradient_arithmetic(problem, batch_size=experiment.batch_size, agent=agent)


def chosen_fraction_bits(experiment: Experiment, who: Watchers) -> int:
    """The resolution with which rounding costs little at every agent: it costs most where records move least."""
    changes = marked_sensitivities(experiment)
    agent = min(range(len(changes)), key=lambda k: float(changes[k]))
    return choose_fraction_bits(
        public_run(experiment),
        agent=agent,
        sensitivity=changes[agent],
        arithmetic=arithmetic_of(experiment, experiment.problem, agent),
        collude=who.collude,
        relay_trusted=who.relay_trusted,
        released_to=who.released_to,
    )


def deployed_guarantees(experiment: Experiment, who: Watchers, *, fraction_bits: int) -> tuple[Deployed, ...]:
    """What a run gives away of every agent's data."""
    run, privacy = public_run(experiment), experiment.privacy
    assert privacy is not None  # whoever comes here has refused a file without it
    return tuple(
        deployed_guarantee(
            run,
            agent=agent,
            sensitivity=change,
            arithmetic=arithmetic_of(experiment, experiment.problem, agent),
            fraction_bits=fraction_bits,
            collude=who.collude,
            relay_trusted=who.relay_trusted,
            released_to=who.released_to,
            losses=privacy.losses,
            unit=privacy.unit,
            adjacency=privacy.adjacency,
        )
        for agent, change in enumerate(marked_sensitivities(experiment))
    )


def calibrated_for(
    experiment: Experiment, section: LawSection, who: Watchers, *, fraction_bits: int | None = None
) -> tuple[Experiment, int, tuple[Deployed, ...]]:
    """The experiment with the noise with which these observers reach the file's epsilon, and no more; its resolution, and what it gives away.

    Args:
        experiment: with noise of any size.
        section: with an epsilon.
        who: for whom.
        fraction_bits: of the lattice; None: chosen for every size that is tried.

    Raises:
        UnsupportedClaim: no size gives them a finite epsilon, or whole numbers cost more than larger noise gives back.
    """
    assert section.epsilon is not None  # whoever comes here has looked
    epsilon, delta = section.epsilon, stated_delta(experiment) if section.delta is None else section.delta
    found, factor = deployed_guarantees(experiment, who, fraction_bits=fraction_bits or _FINE), 1.0
    for _ in range(_MOST_TRIES):
        _refuse_infinite(found, epsilon)
        factor *= _missing(found, epsilon, delta)
        tried = replace(experiment, noise=_of_few_digits(experiment.noise, factor))
        bits = chosen_fraction_bits(tried, who) if fraction_bits is None else fraction_bits
        found = deployed_guarantees(tried, who, fraction_bits=bits)
        if 1.0 - _CLOSE <= max(one.guarantee.epsilon(delta) for one in found) / epsilon <= 1.0:
            if fraction_bits is None:
                # Once more from the beginning, so that a file which writes the resolution down has the same noise to the last digit.
                return calibrated_for(experiment, section, who, fraction_bits=bits)
            return tried, bits, found
    raise UnsupportedClaim(
        f"[noise] epsilon = {epsilon:g} at delta = {delta:g}: whole numbers cost more than larger noise gives back. Write std, the size of the noise, in "
        f"place of epsilon."
    )


def _missing(found: tuple[Deployed, ...], epsilon: float, delta: float) -> float:
    """By how much noise has to grow, about: mu and pure epsilons fall as it grows, and a composed epsilon nearly so."""
    gaussian_costs = [one.cost.value for one in found if one.cost.kind == "gaussian"]
    if len(gaussian_costs) == len(found):
        return (1.0 + _SLACK) * max(gaussian_costs) / gaussian.mu(epsilon, delta)
    return (1.0 + _SLACK) * max(one.guarantee.epsilon(delta) for one in found) / epsilon


def _refuse_infinite(found: tuple[Deployed, ...], epsilon: float) -> None:
    infinite = [one.guarantee for one in found if one.cost.kind == "infinite"]
    if infinite:
        raise UnsupportedClaim(
            f"[noise] epsilon = {epsilon:g}: no size of this noise gives {infinite[0].observer} a finite epsilon. {infinite[0].reason} Choose a scheme "
            f"that protects against them, such as independent noise, or write its size."
        )


def _of_few_digits(noise: Noise, factor: float) -> Noise:
    """The noise times a factor, its size rounded up so that it can be copied without loss."""
    law = noise.law
    assert law is not None  # a section with an epsilon has a law
    return noise.scaled(upwards(size(law) * factor, _DIGITS) / size(law))
