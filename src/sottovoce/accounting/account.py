"""sv.account: the tightest guarantee that is proven for an observer.

A question is checked once (`question`), everything that all agents share is found once (`proofs.evidence`), each proof that applies states its
value (`proofs`), and the smallest is stated, with its name:

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

from sottovoce.accounting.guarantee import Guarantee
from sottovoce.accounting.linear_view.value import LinearValue
from sottovoce.accounting.proofs import PROOFS, WAYS
from sottovoce.accounting.proofs.evidence import Evidence
from sottovoce.accounting.proofs.laplace_rounds import laplace_by_round
from sottovoce.accounting.proofs.proof import PAGE, Proof, Statement
from sottovoce.accounting.proofs.words import assumptions, unsupported, why_clear
from sottovoce.accounting.question.asked import Asked, ask, check_agent, check_observers
from sottovoce.accounting.question.participation import Participation, Poisson, describe_participation
from sottovoce.accounting.question.question import ADJACENCY, PARTICIPATION, UNIT, Question, the_question
from sottovoce.accounting.tradeoff import GaussianTradeoff, Tradeoff, uncovered, worst_of
from sottovoce.algorithms import Algorithm
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.linear import check_parts, one_thread
from sottovoce.noise import Noise
from sottovoce.observers import Observer, coalitions
from sottovoce.problems import Adjacency, ConvexSmooth, Unit
from sottovoce.topologies import Topology

EQUAL = 1e-9  # relative difference of values that count as equal: what the last digits of two proofs say


@overload
def account(
    topology: Topology, algorithm: Algorithm, noise: Noise, observer: Observer, *, rounds: int | None = ..., sensitivity: ArrayLike | None = ...,
    unit: Unit = ..., adjacency: Adjacency = ..., participation: Participation = ..., losses: ConvexSmooth | None = ...,
    agent: int | None = ..., same_model: bool | None = ..., question: Question | None = ...,
) -> Guarantee: ...  # fmt: skip


@overload
def account(
    topology: Topology, algorithm: Algorithm, noise: Noise, observer: Sequence[Observer], *, rounds: int | None = ...,
    sensitivity: ArrayLike | None = ..., unit: Unit = ..., adjacency: Adjacency = ..., participation: Participation = ...,
    losses: ConvexSmooth | None = ..., agent: int | None = ..., same_model: bool | None = ..., question: Question | None = ...,
) -> list[Guarantee]: ...  # fmt: skip


def account(
    topology: Topology,
    algorithm: Algorithm,
    noise: Noise,
    observer: Observer | Sequence[Observer],
    *,
    rounds: int | None = None,
    sensitivity: ArrayLike | None = None,
    unit: Unit = UNIT,
    adjacency: Adjacency = ADJACENCY,
    participation: Participation = PARTICIPATION,
    losses: ConvexSmooth | None = None,
    agent: int | None = None,
    same_model: bool | None = None,
    question: Question | None = None,
) -> Guarantee | list[Guarantee]:
    """How much an observer can learn about an agent's data.

    Args:
        topology: who talks to whom.
        algorithm: what an agent does in a round.
        noise: how messages are perturbed.
        observer: who looks; a list gives a list of guarantees.
        rounds: with the other keywords, the parts of a question, which `sv.Question` explains; needed where no question is given.
        sensitivity: the largest change of one round's gradient; needed where no question is given.
        unit: what is protected.
        adjacency: how two worlds differ.
        participation: rounds in which the protected record takes part.
        losses: a promise about all local losses.
        agent: whose data; None is the worst agent outside the observer.
        same_model: whether the sensitivity compares gradients at the same model only.
        question: in place of all these keywords.

    Raises:
        UnsupportedClaim: no guarantee of this kind is proved.
        ConfigError: malformed input, or an agent that belongs to the observer.
    """
    whole = the_question(
        question,
        {
            "rounds": rounds, "sensitivity": sensitivity, "unit": unit, "adjacency": adjacency, "participation": participation,
            "losses": losses, "agent": agent, "same_model": same_model,
        },
    )  # fmt: skip
    if isinstance(observer, Observer):
        return _answer_of(topology, algorithm, noise, observer, whole)
    check_observers(observer)
    return [_answer_of(topology, algorithm, noise, one, whole) for one in observer]


def account_each(
    topology: Topology,
    algorithm: Algorithm,
    noise: Noise,
    observer: Observer,
    *,
    rounds: int | None = None,
    sensitivity: ArrayLike | None = None,
    unit: Unit = UNIT,
    adjacency: Adjacency = ADJACENCY,
    participation: Participation = PARTICIPATION,
    losses: ConvexSmooth | None = None,
    same_model: bool | None = None,
    question: Question | None = None,
) -> list[Guarantee]:
    """The guarantee of every agent outside the observer, in one pass; arguments as in `account`."""
    whole = _of_all_agents(
        question,
        {
            "rounds": rounds, "sensitivity": sensitivity, "unit": unit, "adjacency": adjacency, "participation": participation,
            "losses": losses, "same_model": same_model,
        },
    )  # fmt: skip
    if isinstance(observer, Observer) and observer.any_members:
        raise ConfigError(
            f"{observer.name} stands for many observers, each without its own members. Use sv.account, with agent=k for one agent, or name the "
            f"members of one: sv.observers.coalition([...])."
        )
    return _answers(ask(topology, algorithm, noise, observer, whole))


def sent_by_round(
    topology: Topology,
    algorithm: Algorithm,
    noise: Noise,
    observer: Observer,
    *,
    rounds: int | None = None,
    sensitivity: ArrayLike | None = None,
    unit: Unit = UNIT,
    adjacency: Adjacency = ADJACENCY,
    participation: Participation = PARTICIPATION,
    losses: ConvexSmooth | None = None,
    same_model: bool | None = None,
    question: Question | None = None,
) -> list[Tradeoff] | None:
    """What every agent outside the observer has given away by its messages after each round, at most; arguments as in `account`.

    Returns:
        One trade-off per round, for the messages up to it; a model that the observer is given counts in the last round, when it is
        released. None where only the whole run is known.
    """
    whole = _of_all_agents(
        question,
        {
            "rounds": rounds, "sensitivity": sensitivity, "unit": unit, "adjacency": adjacency, "participation": participation,
            "losses": losses, "same_model": same_model,
        },
    )  # fmt: skip
    if not observer.any_members:
        return _sent_by_round(ask(topology, algorithm, noise, observer, whole))
    every = coalitions(observer, topology.num_agents)
    found = [_sent_by_round(ask(topology, algorithm, noise, one, whole)) for one in every]
    if any(each is None for each in found):
        return None
    return [worst_of(list(of_round)) for of_round in zip(*(each for each in found if each is not None), strict=True)]


def _of_all_agents(question: Question | None, given: dict[str, object]) -> Question:
    whole = the_question(question, given)
    if whole.agent is not None:
        raise ConfigError(f"agent = {whole.agent}: every agent outside the observer is accounted. Leave agent out.")
    return whole


@one_thread
def _sent_by_round(asked: Asked) -> list[Tradeoff] | None:
    evidence = _evidence(asked)
    spent, agents = evidence.sent.spent, evidence.agents
    if spent is None or isinstance(asked.participation, Poisson):
        return None
    if asked.pure:
        return laplace_by_round(evidence)
    values = asked.sensitivity[agents] * np.sqrt(spent[:, agents])
    return [GaussianTradeoff(float(value)) for value in values.max(axis=1)]


def _answer_of(
    topology: Topology, algorithm: Algorithm, noise: Noise, observer: Observer, question: Question
) -> Guarantee:
    """The answer for one observer, or for the worst of those for which it stands."""
    if not observer.any_members:
        return _answer(ask(topology, algorithm, noise, observer, question))
    check_parts(topology=topology)
    found: list[tuple[float, Guarantee]] = []
    for one in coalitions(observer, topology.num_agents):
        if question.agent not in one.members:
            found.append(_without_linear_view(ask(topology, algorithm, noise, one, question)))
    worst = _joined(found)
    return replace(worst, observer=observer.name, reason=f"{worst.reason} No other choice of its members learns more.")


@one_thread
def _without_linear_view(asked: Asked) -> tuple[float, Guarantee]:
    """The value and the guarantee of the agent named, or of the worst."""
    agent = asked.question.agent
    if agent is None:
        return _worst_stated(_evidence(asked))
    named = check_agent(agent, asked)
    evidence = _evidence(asked, agents=np.array([named]))
    stated = _smallest(evidence, named)
    return stated.value, _stated(evidence, named, stated)


@one_thread
def _answer(asked: Asked) -> Guarantee:
    agent = asked.question.agent
    if agent is None:
        return _worst(_evidence(asked))
    named = check_agent(agent, asked)
    evidence = _evidence(asked, agents=np.array([named]))
    return _with_linear_view(_guarantee(evidence, named), evidence, evidence.linear_value(named))


@one_thread
def _answers(asked: Asked) -> list[Guarantee]:
    evidence = _evidence(asked)
    agents = [int(agent) for agent in evidence.agents]
    return [_with_linear_view(_guarantee(evidence, agent), evidence, evidence.linear_value(agent)) for agent in agents]


def _evidence(asked: Asked, agents: np.ndarray | None = None) -> Evidence:
    outside = np.flatnonzero(~asked.view.members)
    return Evidence(asked, outside if agents is None else agents, WAYS)


def _worst(evidence: Evidence) -> Guarantee:
    """The largest guarantee over the agents, and the largest linear view."""
    return _with_linear_view(_worst_stated(evidence)[1], evidence, evidence.worst_linear())


def _worst_stated(evidence: Evidence) -> tuple[float, Guarantee]:
    """The largest value over the agents, and the guarantee of all; agents that cannot be the worst are not computed."""
    bounds = evidence.first_bounds()
    found: list[tuple[float, Guarantee]] = []
    largest = -math.inf
    for position in evidence.first_asked(bounds):
        if bounds[position] <= largest:
            break
        agent = int(evidence.agents[position])
        stated = _smallest(evidence, agent)
        largest = max(largest, stated.value)
        found.append((stated.value, _stated(evidence, agent, stated)))
    return largest, _joined(found)


def _joined(found: list[tuple[float, Guarantee]]) -> Guarantee:
    """The one that covers all; else the largest at each delta, which is exact only if every part is."""
    if len(found) == 1:
        return found[0][1]
    kept = [found[position] for position in uncovered([one.tradeoff for _, one in found])]
    named = max(kept, key=lambda pair: (pair[1].validity != "exact", pair[0]))[1]
    if len(kept) == 1:
        return named
    reason = f"{named.reason} The value is the largest over all agents outside the observer, at each delta."
    return replace(named, tradeoff=worst_of([one.tradeoff for _, one in kept]), reason=reason)


def _guarantee(evidence: Evidence, agent: int) -> Guarantee:
    return _stated(evidence, agent, _smallest(evidence, agent))


def stated_by(proofs: Sequence[Proof], evidence: Evidence, agent: int) -> Guarantee:
    """What the smallest of these proofs states about an agent, where not all of them may be used."""
    return _stated(evidence, agent, _smallest(evidence, agent, proofs))


def _smallest(evidence: Evidence, agent: int, proofs: Sequence[Proof] = PROOFS) -> Statement:
    """The smallest value that some proof states about the agent."""
    found: list[Statement] = []
    for proof in proofs:
        stated = proof.states(evidence, agent) if proof.where <= evidence.all_kinds else None
        if stated is not None and proof.alone:
            return stated
        if stated is not None:
            found.append(stated)
    if not found:
        raise UnsupportedClaim(unsupported(evidence))
    least = min(stated.value for stated in found)
    # Of equal values the exact one is stated, else that of the first proof, whatever the last digits say.
    return min(found, key=lambda stated: (stated.value > least * (1 + EQUAL), stated.validity != "exact"))


def _stated(evidence: Evidence, agent: int, best: Statement) -> Guarantee:
    """The guarantee in full."""
    asked, infinite = evidence.asked, math.isinf(best.value)
    return Guarantee(
        observer=asked.observer.name,
        agent=agent,
        unit=asked.unit,
        adjacency=asked.adjacency,
        rounds=asked.rounds,
        participation=describe_participation(asked.participation) if asked.sampling is None else str(asked.sampling),
        tradeoff=best.tradeoff,
        validity="infinite" if infinite else best.validity,
        reason=why_clear(evidence, agent) if infinite else " ".join([best.reason, *evidence.left_out]),
        source=f"{PAGE}, section '{'When nothing is hidden' if infinite else best.section}'",
        assumptions=() if infinite else assumptions(evidence, agent, best),
        meaning=None if infinite else best.meaning,
        details=best.details,
        records_per_person=None if asked.question.persons is None else asked.question.persons.records,
    )


def _with_linear_view(guarantee: Guarantee, evidence: Evidence, linear: LinearValue | None) -> Guarantee:
    if linear is None or evidence.asked.growth_is_promised:
        return guarantee
    return replace(
        guarantee,
        linear_mu=linear.mu,
        linear_validity=evidence.linear_validity(linear),
        linear_gap=linear.gap,
        linear_agent=linear.agent,
    )
