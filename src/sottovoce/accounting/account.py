"""sv.account: the tightest guarantee that is proven for an observer.

Candidates, each true on its own (docs/guarantees.md); the smallest is stated, with its name:

    exact                   the observer can compute every state, so the linear view holds for adaptive gradients
    sent-messages           everything the agent sends, given to somebody who knows all the rest
    absorption              under a promise on the losses: the network's noise hides the difference before it is read
    amplified-by-iteration  under strong convexity, for the final model: contracting steps forget
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.accounting.gopa.masked_rounds import MaskedTradeoff
from sottovoce.accounting.guarantee import Guarantee
from sottovoce.accounting.mechanisms.imperfect_noise import ChargedTradeoff
from sottovoce.accounting.proofs.candidates import Prepared
from sottovoce.accounting.question.checked import Adjacency, Case, Unit
from sottovoce.accounting.question.checks import (
    check_colluding,
    check_observers,
    check_participation,
    check_parts,
    check_together,
    check_words,
    compares_same_model,
)
from sottovoce.accounting.question.clipped_updates import check_clipped_update
from sottovoce.accounting.question.participation import Participation, Poisson
from sottovoce.accounting.tradeoff import (
    GaussianTradeoff,
    PureTradeoff,
    SampledTradeoff,
    SubsampledTradeoff,
    Tradeoff,
    WorstTradeoff,
)
from sottovoce.accounting.walk import WalkTradeoff
from sottovoce.algorithms import Algorithm
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.linear import exchange_topologies, one_thread
from sottovoce.noise import Noise
from sottovoce.numbers import checked, per_agent
from sottovoce.observers import Observer, view
from sottovoce.problems import ConvexSmooth, Sensitivity
from sottovoce.topologies import Topology


@overload
def account(
    topology: Topology, algorithm: Algorithm, noise: Noise, observer: Observer, *, rounds: int, sensitivity: ArrayLike,
    unit: Unit = ..., adjacency: Adjacency = ..., participation: Participation = ..., losses: ConvexSmooth | None = ...,
    agent: int | None = ..., same_model: bool | None = ...,
) -> Guarantee: ...  # fmt: skip


@overload
def account(
    topology: Topology, algorithm: Algorithm, noise: Noise, observer: Sequence[Observer], *, rounds: int, sensitivity: ArrayLike,
    unit: Unit = ..., adjacency: Adjacency = ..., participation: Participation = ..., losses: ConvexSmooth | None = ...,
    agent: int | None = ..., same_model: bool | None = ...,
) -> list[Guarantee]: ...  # fmt: skip


def account(
    topology: Topology,
    algorithm: Algorithm,
    noise: Noise,
    observer: Observer | Sequence[Observer],
    *,
    rounds: int,
    sensitivity: ArrayLike,
    unit: Unit = "agent",
    adjacency: Adjacency = "replace",
    participation: Participation = "every-round",
    losses: ConvexSmooth | None = None,
    agent: int | None = None,
    same_model: bool | None = None,
) -> Guarantee | list[Guarantee]:
    """How much an observer can learn about an agent's data.

    Args:
        topology: who talks to whom.
        algorithm: what an agent does in a round.
        noise: how messages are perturbed.
        observer: who looks; a list gives a list of guarantees.
        rounds: exchanges. The gradient of the last round counts only where it is sent or released.
        sensitivity: the largest change of one round's gradient when the protected unit changes, in the norm of the noise's law (l1 for
            Laplace, l2 otherwise). unit="agent": between any two gradients of the agent, unless `same_model` says otherwise.
            unit="record": at the same model. One number, or one per agent. A plain number is the caller's claim; what
            `problem.sensitivity` returns says itself what it is true for.
        unit: what is protected: the agent's whole data, or one record.
        adjacency: how two worlds differ; it must be the one the sensitivity was computed for.
        participation: rounds in which the protected record takes part.
        losses: a promise about all local losses, or None.
        agent: whose data; None is the worst agent outside the observer.
        same_model: whether the sensitivity compares gradients at the same model only; None: for a record yes; for an agent, as a
            `Sensitivity` says of itself, and yes under losses with nu > 0, whose gradients move apart with the models.

    Raises:
        UnsupportedClaim: no guarantee of this kind is proved.
        ConfigError: malformed input, or an agent that belongs to the observer.
    """
    if not isinstance(observer, Observer):
        check_observers(observer)
        return [
            account(
                topology, algorithm, noise, one, rounds=rounds, sensitivity=sensitivity, unit=unit, adjacency=adjacency,
                participation=participation, losses=losses, agent=agent, same_model=same_model,
            )
            for one in observer
        ]  # fmt: skip
    case = _case(
        topology, algorithm, noise, observer, rounds=rounds, sensitivity=sensitivity, unit=unit, adjacency=adjacency,
        participation=participation, losses=losses, same_model=same_model,
    )  # fmt: skip
    if agent is None:
        return _worst(case)
    return _of_agent(case, _checked_agent(agent, case))


def account_each(
    topology: Topology,
    algorithm: Algorithm,
    noise: Noise,
    observer: Observer,
    *,
    rounds: int,
    sensitivity: ArrayLike,
    unit: Unit = "agent",
    adjacency: Adjacency = "replace",
    participation: Participation = "every-round",
    losses: ConvexSmooth | None = None,
    same_model: bool | None = None,
) -> list[Guarantee]:
    """The guarantee of every agent outside the observer, in one pass; arguments as in `account`."""
    case = _case(
        topology, algorithm, noise, observer, rounds=rounds, sensitivity=sensitivity, unit=unit, adjacency=adjacency,
        participation=participation, losses=losses, same_model=same_model,
    )  # fmt: skip
    return _of_each(case)


def sent_by_round(
    topology: Topology,
    algorithm: Algorithm,
    noise: Noise,
    observer: Observer,
    *,
    rounds: int,
    sensitivity: ArrayLike,
    unit: Unit = "agent",
    adjacency: Adjacency = "replace",
    participation: Participation = "every-round",
    losses: ConvexSmooth | None = None,
    same_model: bool | None = None,
) -> list[Tradeoff] | None:
    """What every agent outside the observer has given away by its messages after each round, at most; arguments as in `account`.

    Returns:
        One trade-off per round, for the messages up to it; a model that the observer is given counts in the last round, when it is
        released. None where only the whole run is known.
    """
    case = _case(
        topology, algorithm, noise, observer, rounds=rounds, sensitivity=sensitivity, unit=unit, adjacency=adjacency,
        participation=participation, losses=losses, same_model=same_model,
    )  # fmt: skip
    return _sent_by_round(case)


@one_thread
def _sent_by_round(case: Case) -> list[Tradeoff] | None:
    agents = np.flatnonzero(~case.view.members)
    spent = Prepared.of(case, agents).sent.spent
    if spent is None or isinstance(case.participation, Poisson):
        return None
    values = case.sensitivity[agents] * (spent[:, agents] if case.pure else np.sqrt(spent[:, agents]))
    kind = PureTradeoff if case.pure else GaussianTradeoff
    return [kind(float(value)) for value in values.max(axis=1)]


@one_thread
def _of_agent(case: Case, agent: int) -> Guarantee:
    return Prepared.of(case, np.array([agent])).guarantee(0)


@one_thread
def _of_each(case: Case) -> list[Guarantee]:
    prepared = Prepared.of(case, np.flatnonzero(~case.view.members))
    return [prepared.guarantee(position) for position in range(len(prepared.agents))]


@one_thread
def _worst(case: Case) -> Guarantee:
    """The largest guarantee over the agents, and the largest linear view; agents that cannot be the worst are not computed."""
    prepared = Prepared.of(case, np.flatnonzero(~case.view.members))
    bound = prepared.first_bounds()
    worst: Guarantee | None = None
    shown: set[int] = set()  # rounds that show something of an agent, under Poisson sampling
    laws: list[WalkTradeoff] = []  # of every agent, on a walk
    for position in np.argsort(-bound, kind="stable"):
        if worst is not None and bound[position] <= _size(worst):
            break
        found = prepared.guarantee(int(position), with_linear=False)
        if isinstance(found.tradeoff, SubsampledTradeoff):
            shown.add(found.tradeoff.rounds)
        if isinstance(found.tradeoff, WalkTradeoff):
            laws.append(found.tradeoff)
        if worst is None or _size(found) > _size(worst):
            worst = found
    if len(shown) > 1:
        raise UnsupportedClaim(
            "under Poisson sampling agents who are heard in different numbers of rounds have no common order: which is the worst depends "
            "on delta. Ask for one agent (agent=...), or for each (sv.accounting.account_each)."
        )
    assert worst is not None  # somebody is outside the observer
    if laws:
        return _worst_of_walks(laws, worst)
    linear = prepared.worst_linear()
    if linear is None:
        return worst
    return replace(
        worst,
        linear_mu=linear.mu,
        linear_validity=prepared.linear_validity(linear),
        linear_gap=linear.gap,
        linear_agent=linear.agent,
    )


def _worst_of_walks(laws: list[WalkTradeoff], worst: Guarantee) -> Guarantee:
    """On a walk, which agent is the most exposed may depend on delta: all of them together."""
    distinct = {
        (one.noise_multiplier, one.gaps.lengths.tobytes(), one.gaps.probabilities.tobytes()): one for one in laws
    }
    if len(distinct) == 1:
        return worst
    reason = f"{worst.reason} The value is the largest over all agents outside the observer, at each delta."
    return replace(worst, tradeoff=WorstTradeoff(tuple(distinct.values())), reason=reason)


def _size(guarantee: Guarantee) -> float:
    """What guarantees of one law are compared by."""
    if isinstance(guarantee.tradeoff, WalkTradeoff):
        return guarantee.tradeoff.gaps.mean_inverse / guarantee.tradeoff.noise_multiplier**2
    assert not isinstance(guarantee.tradeoff, WorstTradeoff | ChargedTradeoff)  # of single agents, with ideal noise
    if isinstance(guarantee.tradeoff, MaskedTradeoff):  # the same graph law for all
        return guarantee.tradeoff.local
    if isinstance(guarantee.tradeoff, SampledTradeoff):  # the same rate for all: less noise or more rounds is worse
        return math.sqrt(guarantee.tradeoff.rounds) / guarantee.tradeoff.noise_multiplier
    return (
        guarantee.tradeoff.mu if isinstance(guarantee.tradeoff, GaussianTradeoff) else guarantee.tradeoff.pure_epsilon
    )


def _case(
    topology: Topology, algorithm: Algorithm, noise: Noise, observer: Observer, *, rounds: int, sensitivity: ArrayLike, unit: Unit,
    adjacency: Adjacency, participation: Participation, losses: ConvexSmooth | None, same_model: bool | None,
) -> Case:  # fmt: skip
    """Check the question once."""
    check_observers([observer])
    check_parts(topology, algorithm, noise, rounds=rounds)
    check_words(unit, adjacency, losses, same_model, algorithm)
    sensitivities = per_agent("sensitivity", sensitivity, topology.num_agents)
    same = compares_same_model(
        sensitivity, noise, unit=unit, adjacency=adjacency, losses=losses, same_model=same_model
    )  # fmt: skip
    check_participation(
        algorithm, noise, sensitivities, unit=unit, adjacency=adjacency, participation=participation
    )  # fmt: skip
    check_clipped_update(
        algorithm, noise, sensitivities, unit=unit, adjacency=adjacency, participation=participation, losses=losses
    )  # fmt: skip
    seen = view(observer, *exchange_topologies(algorithm, topology))
    check_together(topology, algorithm, noise, rounds=rounds)
    check_colluding(observer, algorithm, topology.num_agents)
    # What is published stands on a board for all; who is silent adds no noise to a model, which follows from the board.
    if algorithm.aggregation is not None and (observer.sees_messages or algorithm.sampling is not None):
        seen = seen._replace(every_message=True, broadcast=True)
    if noise.law is not None:
        checked("the scale of the noise", noise.law.scale, "(1e-100, 1e100)")
    return Case(
        topology=topology, algorithm=algorithm, noise=noise, observer=observer, view=seen, rounds=rounds, sensitivity=sensitivities,
        unit=unit, adjacency=adjacency, participation=participation, losses=losses,
        same_model=same, sampling=algorithm.sampling, aggregation=algorithm.aggregation,
        computed=isinstance(sensitivity, Sensitivity) or _all_marked(sensitivity),
    )  # fmt: skip


def _all_marked(sensitivity: object) -> bool:
    return isinstance(sensitivity, list | tuple) and all(isinstance(one, Sensitivity) for one in sensitivity)


def _checked_agent(agent: int, case: Case) -> int:
    if isinstance(agent, bool) or not isinstance(agent, int | np.integer) or not 0 <= agent < len(case.sensitivity):
        raise ConfigError(f"agent = {agent!r}; the agents are 0 to {len(case.sensitivity) - 1}.")
    if case.view.members[agent]:
        raise ConfigError(
            f"agent {agent} belongs to the observer ({case.observer}), which knows its data. Name another agent."
        )
    return int(agent)
