"""sv.audit: play an attack on an observer's own view and hold its success against the guarantee.

    two neighbouring worlds  ->  many independent runs of each  ->  one score per run  ->  lower bound  <=  truth  <=  guarantee

The worlds are canaries, constant gradients that differ by exactly the sensitivity, or any two problems that differ in one agent's data. The attacker
knows everything but which world it is: the noise scheme as it is played, the weights, the other agents' data. A lower bound above the guarantee
proves the guarantee false, with the confidence asked for. The other way round nothing is proved: a better attack may exist.

Whether a guarantee is refuted rests on epsilon at one delta and, where it has a mu, on the whole trade-off curve too; the two share the error
1 - confidence. Where it is known how far apart the scores should be, they must also be that: if not, the runs are not those that were promised (noise
missing in some rounds, say), or the attack is not what it should be, and the audit does not pass. That has an error of the same size of its own.
"""

from dataclasses import replace
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.accounting import (
    ADJACENCY,
    PARTICIPATION,
    UNIT,
    Guarantee,
    Participation,
    Question,
    account,
    the_question,
)
from sottovoce.algorithms import Algorithm
from sottovoce.attacks.arrays import Floats
from sottovoce.attacks.audit.canaries import Worlds, canary_worlds, changed_agent
from sottovoce.attacks.audit.choice import AttackName, AuditedRun, PreparedAttack, prepare_attack
from sottovoce.attacks.audit.numerics import require_finite_scores, require_finite_steps, require_resolved
from sottovoce.attacks.audit.result import Audit
from sottovoce.attacks.bounds import LowerBound, auc, clopper_pearson, gaussian_dp, tradeoff_mu
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.linear import check_parts, exchange_topologies
from sottovoce.noise import Noise
from sottovoce.numbers import checked, chosen, per_agent, whole
from sottovoce.observers import Observer
from sottovoce.problems import Adjacency, Batch, ConvexSmooth, Unit, check_batch
from sottovoce.resources import refuse_too_large, refuse_too_long
from sottovoce.simulation import RunSize
from sottovoce.simulation.views import measure
from sottovoce.topologies import Topology

__all__ = ["Audit", "audit"]

LEAST_PAIRS = 20
PAIR_BYTES = 150.0  # what the scores of two runs take while they are sorted and counted: measured
PAIR_SECONDS = 1e-5  # what a pair of scores costs in the bounds
VIEW_WORK = 4.0  # a recorded and scored run costs as much as this many plain ones
_DIGITS = 9
_STILL = 1e-9  # scores whose spread is this part of their distance do not vary


def audit(
    topology: Topology,
    algorithm: Algorithm,
    noise: Noise,
    observer: Observer,
    *,
    rounds: int | None = None,
    sensitivity: ArrayLike | None = None,
    delta: float,
    confidence: float,
    pairs: int,
    unit: Unit = UNIT,
    adjacency: Adjacency = ADJACENCY,
    participation: Participation = PARTICIPATION,
    losses: ConvexSmooth | None = None,
    agent: int | None = None,
    same_model: bool | None = None,
    seed: int = 0,
    attack: AttackName = "best",
    dimension: int = 2,
    worlds: Worlds | None = None,
    played: Noise | None = None,
    batch_size: int | None = None,
    question: Question | None = None,
    batch: Batch | None = None,
) -> Audit:
    """Attack an observer's view of simulated runs, and hold what it shows against `sv.account`.

    Args:
        topology: who talks to whom.
        algorithm: what an agent does in a round.
        noise: how messages are perturbed, by promise.
        observer: who looks.
        rounds: exchanges.
        sensitivity: as for `sv.account`.
        delta: at which epsilon is compared, at least 0, below 1.
        confidence: with which a failed audit proves the guarantee false, at least one half, below 1.
        pairs: runs of each world; an epsilon much above ln(pairs) cannot be shown.
        unit: as for `sv.account`.
        adjacency: as for `sv.account`.
        participation: "every-round", or `batch.participation(rounds)`: what a simulated run keeps to.
        losses: as for `sv.account`; canaries keep the promise.
        agent: whose data; None is the agent of whom the linear view shows most, else the worst one of the guarantee, or the one in
            which the worlds differ.
        same_model: as for `sv.account`.
        seed: of all runs.
        attack: "best", or one by name.
        dimension: of the canaries' model.
        worlds: two problems that differ in one agent's data, instead of canaries. That they are neighbours is for the caller to see to.
        played: the noise that is really played, where it is not the one promised.
        batch_size: records per agent and round; None for all of them.
        question: in place of rounds, sensitivity, unit, adjacency, participation, losses, agent and same_model.
        batch: in place of batch_size, records in turns: `sv.problems.cyclic_batch(gap)`. It needs worlds, since canaries have one record.

    Raises:
        UnsupportedClaim: no guarantee of this kind is proved, or a run cannot keep to its participation.
        ConfigError: malformed input.
        IncompatibleChoice: the parts do not fit together, or the attack named does not play on this run.
        Diverged: models or scores left the finite numbers, of which no guarantee speaks.
    """
    asked = the_question(
        question,
        {
            "rounds": rounds, "sensitivity": sensitivity, "unit": unit, "adjacency": adjacency, "participation": participation,
            "losses": losses, "agent": agent, "same_model": same_model,
        },
    )  # fmt: skip
    level = _check(delta, confidence, pairs, attack)
    _check_turns(asked, batch, batch_size, worlds)
    check_parts(topology=topology, algorithm=algorithm, noise=noise, observer=observer)
    if played is not None:
        check_parts(noise=played)
    check_audit_size(topology, algorithm, rounds=asked.rounds, pairs=pairs)
    sizes = per_agent("sensitivity", asked.sensitivity, topology.num_agents)
    require_finite_steps(algorithm, sizes, asked.rounds)
    if worlds is not None:
        asked = replace(asked, agent=_agent_of(worlds, asked.agent))
    guarantee = account(topology, algorithm, noise, observer, question=asked)
    if np.isinf(guarantee.epsilon(delta)) and guarantee.validity != "infinite":
        raise ConfigError(
            f"delta = {delta:g}, at which no epsilon is promised although something is: Gaussian noise needs delta > 0. Give one."
        )
    require_resolved(guarantee.linear_mu)  # refused before canaries of that size are made
    # The promise for the worst agent holds for all; the one whose view shows most is attacked.
    target = guarantee.agent if asked.agent is not None or guarantee.linear_agent is None else guarantee.linear_agent
    if worlds is None:
        bare = (
            algorithm._replace(clipped_update=None) if noise.in_gradients else algorithm
        )  # noise in gradients protects each of them, before any clip of the update
        worlds = canary_worlds(
            topology, bare, sensitivity=float(sizes[target]), agent=target, axis=np.eye(whole("dimension", dimension))[0],
            adjacency=asked.adjacency, ridge=0.0 if asked.losses is None else asked.losses.nu,
        )  # fmt: skip
    run = AuditedRun(
        topology=topology, algorithm=algorithm, noise=noise if played is None else played, observer=observer, rounds=asked.rounds,
        worlds=worlds, agent=target, batch_size=batch_size, pairs=pairs, batch=batch,
    )  # fmt: skip
    prepared = prepare_attack(run, attack)
    require_resolved(prepared.mu)
    return _judge(guarantee, run, prepared, _play(run, prepared, seed), delta=delta, confidence=level)


def check_audit_size(topology: Topology, algorithm: Algorithm, *, rounds: int, pairs: int) -> None:
    """Refuse an audit whose scores cannot fit into memory, or that would not end within a year.

    Raises:
        ConfigError: with the estimate and what to lower.
    """
    whole("rounds", rounds), whole("pairs", pairs, least=LEAST_PAIRS)
    what, remedy = f"{pairs:,} pairs of runs of {rounds:,} rounds", "Lower pairs, rounds or agents."
    refuse_too_large(what, PAIR_BYTES * pairs, remedy)
    refuse_too_long(what, audit_seconds(topology, algorithm, rounds=rounds, pairs=pairs), remedy)


def audit_seconds(topology: Topology, algorithm: Algorithm, *, rounds: int, pairs: int, dimension: int = 2) -> float:
    """About how long an audit with canaries takes."""
    links = sum(len(used.links) for used in exchange_topologies(algorithm, topology))
    size = RunSize(
        agents=topology.num_agents, records=1, dimension=dimension, numbers=0, blocks=1, gradients=algorithm.gradients_per_round,
        links=links, schemes=1, algorithms=1, repeats=2 * pairs, together=2 * pairs, rounds=rounds, metrics=0, itemsize=8, clipped=False,
        walks=algorithm.walks, working=topology.num_agents,
    )  # fmt: skip
    return VIEW_WORK * size.seconds + PAIR_SECONDS * pairs


def _play(run: AuditedRun, prepared: PreparedAttack, seed: int) -> Floats:
    """The scores of both worlds, [2, pairs]; training runs are further runs of the same program."""
    found = measure(
        run.worlds, run.topology, run.algorithm, run.noise, run.observer, prepared.statistic, rounds=run.rounds,
        repeats=run.pairs + prepared.training, seed=seed, batch_size=run.batch_size, honest=run.agent, batch=run.batch,
    )  # fmt: skip
    with np.errstate(over="ignore", invalid="ignore"):  # numbers that overflow are refused below
        scores = prepared.scores(found)
    require_finite_scores(scores, prepared.name)
    return without_rounding(scores)


def without_rounding(scores: Floats) -> Floats:
    """Scores to nine digits of their usual distance from the middle.

    Likelihood ratios of Laplace noise are bounded, and many runs reach the bound but for rounding. The last bits then tell the worlds apart: they
    come from the floating-point numbers of the simulation, of which no guarantee speaks.
    """
    middle = float(np.median(scores))
    away = np.abs(scores - middle)
    usual = float(np.quantile(away, 0.9)) or float(away.max())
    return scores if not 0.0 < usual < np.inf else middle + np.round((scores - middle) / usual, _DIGITS) * usual


def _judge(
    guarantee: Guarantee, run: AuditedRun, prepared: PreparedAttack, scores: Floats, *, delta: float, confidence: float
) -> Audit:
    first, second = scores
    epsilon, mu = guarantee.epsilon(delta), guarantee.mu
    # Two statements that may both fail share the error.
    each = confidence if mu is None else 1.0 - (1.0 - confidence) / 2.0
    lower = clopper_pearson(first, second, delta=delta, confidence=each)
    shown_mu = None if mu is None else tradeoff_mu(first, second, confidence=each)
    assert lower.epsilon is not None
    assert lower.threshold is not None
    refuted = lower.epsilon > epsilon or (mu is not None and shown_mu is not None and (shown_mu.mu or 0.0) > mu)
    return Audit(
        guarantee=guarantee, attack=prepared.name, agent=run.agent, delta=delta, confidence=confidence, pairs=len(first), epsilon=epsilon, lower=lower,
        tradeoff_mu=shown_mu, gaussian=_if_normal(first, second, confidence), auc=auc(first, second), scores=(first, second),
        threshold=lower.threshold, computed_mu=prepared.mu, as_computed=_as_computed(prepared.mu, first, second, confidence), refuted=refuted,
    )  # fmt: skip


def _as_computed(mu: float | None, first: Floats, second: Floats, confidence: float) -> bool | None:
    """Whether normal scores are as far apart as computed; None where nothing was computed."""
    if mu is None:
        return None
    if np.isinf(mu):
        return bool(second.min() > first.max())
    found = _if_normal(first, second, 1.0 - (1.0 - confidence) / 2.0)  # the interval may fail on two sides
    if found is None or found.mu is None or found.upper_mu is None:
        return mu == 0.0  # scores that do not vary agree with no separation only
    return found.mu <= mu <= found.upper_mu


def _if_normal(first: Floats, second: Floats, confidence: float) -> LowerBound | None:
    """The bound that assumes normal scores; None where they do not vary."""
    spread, gap = max(first.std(), second.std()), abs(second.mean() - first.mean())
    size = max(gap, np.abs(first).max(), np.abs(second).max())
    return None if spread <= _STILL * size else gaussian_dp(first, second, confidence=confidence)


def _check(delta: float, confidence: float, pairs: int, attack: AttackName) -> float:
    """Refuse what an audit cannot answer; return the confidence."""
    checked("delta", delta, "[0, 1)")
    whole("pairs", pairs, least=LEAST_PAIRS)
    chosen("attack", attack, get_args(AttackName))
    return checked("confidence", confidence, "[0.5, 1)")


def _check_turns(asked: Question, batch: Batch | None, batch_size: int | None, worlds: Worlds | None) -> None:
    """Refuse a participation that the simulated runs do not keep to, and turns of canaries."""
    check_batch(batch, batch_size)
    kept = ["every-round"] if batch is None else ["every-round", batch.participation(asked.rounds)]
    if asked.participation not in kept:
        when = "every record takes part in every round" if batch is None else f"records take part as {batch!r} says"
        use = "participation='every-round'" if batch is None else "batch.participation(rounds)"
        raise UnsupportedClaim(
            f"participation = {asked.participation!r}, but in simulated runs {when}, so that an audit would refute a claim that was not made. "
            f"Audit {use}."
        )
    if batch is not None and worlds is None:
        raise ConfigError(
            f"batch = {batch!r} was given without worlds, and canaries have one record each. Give worlds=(problem, neighbour)."
        )


def _agent_of(worlds: Any, agent: int | None) -> int:
    """The agent in which two worlds differ."""
    if not isinstance(worlds, tuple | list) or len(worlds) != 2:
        raise ConfigError(
            f"worlds = {type(worlds).__name__}; give two problems, such as sottovoce.attacks.audit.canaries makes."
        )
    found = changed_agent((worlds[0], worlds[1]))
    if agent is not None and agent != found:
        raise ConfigError(f"agent = {agent}, but the worlds differ in the data of agent {found}. Leave agent out.")
    return found
