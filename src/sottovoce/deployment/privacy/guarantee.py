"""The guarantee of a deployed run: who may collude, what the accountant proves, and what whole numbers add to it.

    observer     collude = "all": all other agents together, and the relay unless it is trusted; a number: the worst of that many others; "nobody": the run is made on
                 one machine. Whoever else is given the model adds it to what these know.
    proof        one of `proofs`, at the sensitivity that `accounted` enlarges; sent messages, for everybody who sees any part of them
    draws        total variation of all samplers, and of sums of rounded noise, charged to delta (`draws`)

What rests on a promise about losses, on noise of other agents in averages, or on secret samples is not stated: see `proofs`. Where nothing finite
remains, the guarantee is infinite and says why.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal, cast

import numpy as np

from sottovoce import observers
from sottovoce.accounting import ConvexSmooth, Guarantee, Tradeoff
from sottovoce.accounting.gopa.imperfect_noise import ChargedTradeoff, Way
from sottovoce.accounting.question.clipped_updates import update_sensitivity
from sottovoce.accounting.tradeoff import GaussianTradeoff
from sottovoce.deployment.integers import Lattice
from sottovoce.deployment.privacy import draws
from sottovoce.deployment.privacy.accounted import Accounted
from sottovoce.deployment.privacy.cost import Cost
from sottovoce.deployment.privacy.gradients import GradientArithmetic, gradient_arithmetic
from sottovoce.deployment.privacy.imperfect import ImperfectTradeoff
from sottovoce.deployment.privacy.round_costs import SLACK, RoundCosts, round_costs
from sottovoce.deployment.terms import PublicRun, bind_among_parties
from sottovoce.errors import ConfigError, IncompatibleChoice, UnsupportedClaim
from sottovoce.noise import L2Laplace, shared_sources
from sottovoce.numbers import whole
from sottovoce.observers import Observer
from sottovoce.problems import Adjacency, Problem, Sensitivity, Unit

Collude = Literal["all", "nobody"] | int
ReleasedTo = Literal["own", "public"] | Sequence[str]

MOST_COALITIONS = 200  # beyond, all others stand for the worst of them
PAGE = "docs/guarantees.md, section 'In whole numbers'"

NO_PROMISE = (
    " Among parties no promise about losses is used: take self-noise, noise in gradients, or the agent as the unit."
)

ASSUMPTIONS = (
    "what was sent is the words of this run and nothing else: that a party stops, and when it sends, is not counted",
    "the operations that a machine makes do not depend on the numbers, and no number overflows",
    "a word beyond what an honest party can send is refused before it is used",
    "keys and uniform bits are as good as random for the observer",
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Deployed:
    """What a deployed run gives away of one agent.

    Attributes:
        guarantee: for the observer that the parties agreed on.
        cost: the same in the numbers that a ledger keeps.
        by_position: what has been spent after every exchange, at most: a meter, and no guarantee of a run that is cut off by its results.
        rounds: what every round costs by itself; None where rounds hang together.
        notes: what whole numbers added, and what was not used, in sentences.
        rounding: share of the sensitivity that rounding adds.
        floating_point: share of it that float64 adds.
        total_variation: of all draws.
    """

    guarantee: Guarantee
    cost: Cost
    by_position: tuple[Cost, ...]
    notes: tuple[str, ...]
    rounding: float
    floating_point: float
    total_variation: float
    rounds: RoundCosts | None = None

    def __repr__(self) -> str:
        return f"<Deployed: {self.guarantee!r}, rounding {100 * self.rounding:.2g} %, total variation {self.total_variation:.2g}>"

    def cost_at(self, delta: float) -> Cost:
        """The run as one pair (epsilon, delta): smaller than `cost` at this delta where many rounds of Laplace noise compose."""
        return Cost.at(self.guarantee.epsilon(delta), delta)

    def explain(self, delta: float | None = None) -> str:
        """One paragraph for people."""
        said = self.guarantee.explain(delta)
        return " ".join([said, *(note for note in self.notes if note not in said)])


def deployed_guarantee(
    run: PublicRun,
    *,
    agent: int,
    sensitivity: Sensitivity | float,
    arithmetic: GradientArithmetic,
    fraction_bits: int,
    collude: Collude,
    relay_trusted: bool,
    released_to: ReleasedTo,
    losses: ConvexSmooth | None,
    unit: Unit,
    adjacency: Adjacency,
) -> Deployed:
    """What a run on the lattice gives away of one agent's data.

    Args:
        run: the public parts.
        agent: whose data.
        sensitivity: from `problem.sensitivity(...)`; of updates that are clipped as a whole, what clipping gives.
        arithmetic: from `gradient_arithmetic(problem, ...)`: how many terms a gradient sums up, and what is added to it.
        fraction_bits: f, of the lattice 2^-f.
        collude: which other agents put together what they know: "all", a number of them, or "nobody" where one machine holds all data.
        relay_trusted: whether the relay of a federation keeps what it reads to itself.
        released_to: who gets the final model: "own" (nobody else), "public", or names.
        losses: what is promised about losses; on the lattice no proof uses it, which the notes say.
        unit: what is protected.
        adjacency: "replace"; "add-remove" is refused.

    Raises:
        ConfigError: malformed numbers, or a sensitivity that contradicts unit or adjacency.
        UnsupportedClaim: add-remove, or a law without a rounded form.
    """
    _check(run, agent, unit, adjacency)
    lattice = Lattice(fraction_bits)
    known = _sensitivity(run, sensitivity, unit, adjacency)
    found = [
        _one(
            Accounted(
                run=run, lattice=lattice, observer=observer, agent=agent, sensitivity=known, arithmetic=arithmetic
            )
        )
        for observer in _observers(run, agent, collude, relay_trusted, released_to)
    ]
    worst = _worst(found)
    notes = (*worst.notes, *_unused(worst, losses))
    guarantee = replace(worst.guarantee, observer=_in_words(run, collude, relay_trusted, released_to))
    return replace(worst, guarantee=guarantee, notes=notes)


def guarantee_of_party(
    run: PublicRun,
    problem: Problem,
    *,
    agent: int,
    fraction_bits: int,
    collude: Collude,
    relay_trusted: bool,
    released_to: ReleasedTo,
    losses: ConvexSmooth | None,
    unit: Unit,
    adjacency: Adjacency,
) -> Deployed:
    """What a run gives away of one agent's data, with sensitivity and arithmetic from its own problem: what a party computes for itself.

    Args:
        run: the public parts.
        problem: of the party alone, with one agent; or of all agents, where one machine holds them.
        agent: whose data.
        fraction_bits: f.
        collude: as in `deployed_guarantee`.
        relay_trusted: the same.
        released_to: the same.
        losses: the same.
        unit: what is protected.
        adjacency: "replace".

    Raises:
        ConfigError: a problem of another number of agents, or whose gradients are not clipped.
        UnsupportedClaim: what `deployed_guarantee` refuses, and problems whose arithmetic is not known.
    """
    if problem.num_agents not in (1, run.num_agents):
        raise ConfigError(
            f"the problem has {problem.num_agents} agents, and the run {run.num_agents}. Give the party's own problem, with one agent, or that of all."
        )
    number = 0 if problem.num_agents == 1 else agent
    law, batch = run.noise.law, run.batch_size
    norm = "l2" if law is None else law.norm
    return deployed_guarantee(
        run,
        agent=agent,
        sensitivity=problem.sensitivity(unit=unit, adjacency=adjacency, norm=norm, batch_size=batch, agent=number),
        arithmetic=gradient_arithmetic(problem, batch_size=batch, agent=number),
        fraction_bits=fraction_bits,
        collude=collude,
        relay_trusted=relay_trusted,
        released_to=released_to,
        losses=losses,
        unit=unit,
        adjacency=adjacency,
    )


def _one(accounted: Accounted) -> Deployed:
    try:
        stated = accounted.stated()
        if stated.validity == "infinite":
            return _infinite(accounted, stated.reason)
        charge = accounted.charge
    except UnsupportedClaim as refused:
        # What the accountant advises may be a promise, which helps a simulated run only.
        return _infinite(accounted, f"{refused}{NO_PROMISE if 'romise' in str(refused) else ''}")
    if not math.isfinite(charge):
        return _infinite(
            accounted,
            "In some round roundings alone change what is sent, beside no gradient that they could be charged to.",
        )
    exact = float(accounted.sensitivity)
    factor = accounted.computed / exact * (1.0 + charge) * (1.0 + SLACK)
    each = draws.by_round(accounted.run, accounted.lattice, accounted.evidence, accounted.agent)
    off = draws.total(each)
    ideal = stated.tradeoff.scaled(1.0 / factor)
    by_position = _meter(accounted, each)
    notes = (
        f"Rounding to 2^-{accounted.lattice.fraction_bits} adds {100 * charge:.2g} % to the sensitivity, float64 {100 * (accounted.computed / exact - 1):.2g} %, and imperfect "
        f"draws a total variation of {off:.2g}.",
    )
    guarantee = replace(
        stated,
        tradeoff=_with_draws(ideal, off),
        validity="sent-messages",
        meaning=None,
        reason=f"{stated.reason} {notes[0]}",
        source=f"{PAGE}; {stated.source}",
        assumptions=(*stated.assumptions, *ASSUMPTIONS),
    )
    return Deployed(
        guarantee=guarantee,
        cost=_cost(ideal, off),
        by_position=by_position,
        rounds=round_costs(accounted, each),
        notes=notes,
        rounding=charge,
        floating_point=accounted.computed / exact - 1.0,
        total_variation=off,
    )


def _worst(found: Sequence[Deployed]) -> Deployed:
    """What covers every coalition: the largest value, at the largest total variation, which need not be the same coalition's."""
    worst = max(found, key=lambda one: (one.cost.kind == "infinite", one.cost.value))
    off = max(one.total_variation for one in found)
    if worst.cost.kind == "infinite" or off == worst.total_variation:
        return worst
    held, cost = worst.guarantee.tradeoff, replace(worst.cost, total_variation=off)
    ideal = held.ideal if isinstance(held, ImperfectTradeoff) else held
    tradeoff = ChargedTradeoff((Way(cost.value, off),)) if cost.kind == "gaussian" else ImperfectTradeoff(ideal, off)
    return replace(worst, guarantee=replace(worst.guarantee, tradeoff=tradeoff), cost=cost, total_variation=off)


def _with_draws(ideal: Tradeoff, off: float) -> Tradeoff:
    if off == 0.0:
        return ideal
    if isinstance(ideal, GaussianTradeoff):
        return ChargedTradeoff((Way(float(ideal.mu), off),))
    return ImperfectTradeoff(ideal, off)


def _cost(ideal: Tradeoff, off: float) -> Cost:
    if ideal.pure_epsilon is not None:
        return Cost.pure(float(ideal.pure_epsilon), off)
    assert ideal.mu is not None  # the allowed proofs state Gaussian or pure values
    return Cost.gaussian(float(ideal.mu), off)


def _meter(accounted: Accounted, each: np.ndarray) -> tuple[Cost, ...]:
    """What has been spent after every exchange; all of a round from its first exchange on, and all of the run where only that is known."""
    sent, p, run = accounted.evidence.sent, accounted.agent, accounted.run
    pure, size, off = accounted.evidence.asked.pure, accounted.computed, np.minimum(np.cumsum(each), 1.0)
    spent = None if sent.spent is None else sent.spent[:, p]
    if spent is None:
        spent = np.full(run.rounds, float(sent.values[p]) ** (1 if pure else 2))
    plain = size * (spent if pure else np.sqrt(spent))
    values = np.minimum(plain + accounted.charged_after(plain), float(plain[-1]) * (1.0 + accounted.charge)) * (
        1.0 + SLACK
    )
    kind = Cost.pure if pure else Cost.gaussian
    costs = [kind(float(value), float(tv)) for value, tv in zip(values, off, strict=True)]
    return tuple(costs[position // run.exchanges] for position in range(run.end))


def _infinite(accounted: Accounted, reason: str) -> Deployed:
    known, run = accounted.sensitivity, accounted.run
    guarantee = Guarantee(
        observer=accounted.observer.name,
        agent=accounted.agent,
        unit=known.unit,
        adjacency=known.adjacency,
        rounds=run.rounds,
        participation="every-round",
        tradeoff=GaussianTradeoff(math.inf),
        validity="infinite",
        reason=reason,
        source=PAGE,
        assumptions=(),
    )
    return Deployed(
        guarantee=guarantee,
        cost=Cost.infinite(),
        by_position=(Cost.infinite(),) * run.end,
        rounds=None,
        notes=(),
        rounding=0.0,
        floating_point=0.0,
        total_variation=0.0,
    )


def _observers(
    run: PublicRun, agent: int, collude: Collude, relay_trusted: bool, released_to: ReleasedTo
) -> Iterator[Observer]:
    """Who is accounted for: one observer, or every coalition of a size where members make a difference."""
    given = () if released_to == "own" else (observers.final_model(),)
    others = tuple(k for k in range(run.num_agents) if k != agent)
    if collude == "nobody" or not others:
        if not given:
            raise ConfigError(
                "nobody is told anything: no agent colludes and no model is released. Say who gets the model."
            )
        yield from given
        return
    relay = (observers.server(),) if run.topology.relay and not relay_trusted else ()
    words = _in_words(run, collude, relay_trusted, released_to)
    for members in _coalitions(run, agent, others, collude):
        # In words: a list of all other agents would fill every sentence about them.
        yield replace(sum((*relay, *given), start=observers.coalition(members)), name=words)


def _coalitions(run: PublicRun, agent: int, others: tuple[int, ...], collude: Collude) -> Iterable[tuple[int, ...]]:
    size = len(others) if collude == "all" else whole("collude", cast("int", collude))
    if size > len(others):
        raise ConfigError(
            f"collude = {collude!r}, and there are {len(others)} other agents. Give at most as many, or 'all'."
        )
    # Only of sources that pairs share does a smaller coalition know less; of an agent's own noise no other one knows anything.
    listed = _pairs_share_sources(run, agent) and math.comb(len(others), size) <= MOST_COALITIONS
    return combinations(others, size) if listed else (others,)


def _pairs_share_sources(run: PublicRun, agent: int) -> bool:
    return any(
        bool(shared_sources(bind_among_parties(run.noise, links).owners).any()) for links in draws.patterns(run, agent)
    )


def _in_words(run: PublicRun, collude: Collude, relay_trusted: bool, released_to: ReleasedTo) -> str:
    who = {"all": "all other agents together", "nobody": "nobody in the run"}.get(
        str(collude), f"any {collude} other agents together"
    )
    relay = " and the relay" if run.topology.relay and not relay_trusted and run.num_agents > 1 else ""
    given = {"own": "", "public": ", and everybody who gets the final model"}
    named = ", and those who get the final model"
    more = given.get(released_to, named) if isinstance(released_to, str) else named
    return f"{who}{relay}{more}"


def _sensitivity(run: PublicRun, given: Sensitivity | float, unit: Unit, adjacency: Adjacency) -> Sensitivity:
    """The sensitivity with what it is true for; of clipped updates it follows from the algorithm."""
    clipped = run.algorithm.clipped_update
    if clipped is not None and not run.noise.in_gradients:
        value = update_sensitivity(clipped.clip, unit=unit, adjacency=adjacency)
        return Sensitivity(value, unit=unit, adjacency=adjacency, norm=clipped.clip.norm, compares="any two models")
    if not isinstance(given, Sensitivity):
        raise ConfigError(
            f"sensitivity = {given!r} is a plain number, and a deployed guarantee rests on no claim. Ask the problem: problem.sensitivity(...)."
        )
    if (given.unit, given.adjacency) != (unit, adjacency):
        raise ConfigError(
            f"the sensitivity was computed for unit = '{given.unit}' and adjacency = '{given.adjacency}', and the run protects '{unit}' with '{adjacency}'. Ask the "
            f"problem for that."
        )
    return given


def _check(run: PublicRun, agent: int, unit: Unit, adjacency: Adjacency) -> None:
    if whole("agent", agent, least=0) >= run.num_agents:
        raise ConfigError(f"agent = {agent}; the agents are 0 to {run.num_agents - 1}.")
    if run.algorithm.walks:
        raise IncompatibleChoice(
            "walks are not run among parties: who holds the token would be seen. Use another algorithm."
        )
    if isinstance(run.noise.law, L2Laplace):
        raise UnsupportedClaim(
            "L2Laplace noise has no rounded form that is as private: its coordinates depend on each other. Use the law Gaussian or Laplace."
        )
    if adjacency != "replace":
        raise UnsupportedClaim(
            f"adjacency = {adjacency!r}: with one record more or less the arithmetic of float64 changes, for which nothing is proved (unit = {unit!r}). Use 'replace'."
        )


def _unused(found: Deployed, losses: ConvexSmooth | None) -> tuple[str, ...]:
    if losses is None:
        return ()
    return (
        "The promise about losses was not used: that steps do not push models apart is proved for exact gradients, not for computed and rounded ones.",
    )
