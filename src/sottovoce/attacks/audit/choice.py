"""Which attack an audit plays: the sharpest one that is known for the run.

attack        is                                                   plays on
likelihood    the matched filter, best of all                      Gaussian noise or none, fixed links, constant gradients
              the likelihood ratio of all sums, best of all        masked averages, gradients that react
transcript    the likelihood ratio of all messages, best of all    readers of every message, any law, gradients that react; no final model
fitted        a discriminant fitted on runs of its own             anything

"best" takes the first of these that plays.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.attacks.arrays import Floats
from sottovoce.attacks.audit.canaries import Worlds, first_change, linear_change
from sottovoce.attacks.audit.fitted import LIMIT, feature_statistic, fit, plan_features
from sottovoce.attacks.audit.masked import masked_statistic
from sottovoce.attacks.likelihood import matched_filter, statistic
from sottovoce.attacks.transcript import agent_gradient, transcript_reader
from sottovoce.errors import IncompatibleChoice, UnsupportedClaim
from sottovoce.linear import exchange_topologies
from sottovoce.noise import Noise
from sottovoce.observers import Observer, view
from sottovoce.problems import Batch
from sottovoce.simulation.views import Statistic, layout
from sottovoce.topologies import Listed, Topology

AttackName = Literal["best", "likelihood", "transcript", "fitted"]
ATTACKS = ("likelihood", "transcript", "fitted")
FEATURE_BYTES = 2**28  # the most that the features of all runs may take
LEAST_TRAINING = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedRun:
    """What is played, and between which worlds."""

    topology: Topology
    algorithm: Algorithm
    noise: Noise  # as it is played
    observer: Observer
    rounds: int
    worlds: Worlds
    agent: int
    batch_size: int | None
    pairs: int
    batch: Batch | None = None  # whose turn it is in every round, in place of batch_size


class PreparedAttack(NamedTuple):
    """An attack ready to be played."""

    name: str
    statistic: Statistic
    training: int  # runs of each world beyond the pairs, to fit on
    scores: Callable[[Any], Floats]  # what the statistic gave for all runs -> scores [2, pairs]
    mu: float | None  # how far apart its scores are by computation; None: not known


def prepare_attack(run: AuditedRun, name: AttackName) -> PreparedAttack:
    """The attack of this name, or the best one.

    Raises:
        IncompatibleChoice: the attack that was named does not play on this run.
        UnsupportedClaim: the same.
    """
    if name != "best":
        return _PREPARE[name](run)
    for one in ATTACKS[:-1]:
        try:
            return _PREPARE[one](run)
        except (IncompatibleChoice, UnsupportedClaim):
            continue  # this attack does not apply; the result names the one that was played
    return _fitted(run)


def _refuse_turns(run: AuditedRun) -> None:
    """Refuse records in turns, whose gradients differ from round to round, to an attack that takes them to be the same."""
    if run.batch is not None:
        raise IncompatibleChoice(
            f"with {run.batch!r} gradients differ from round to round, and this attack computes them alike. Use attack='fitted'."
        )


def _likelihood(run: AuditedRun) -> PreparedAttack:
    _refuse_turns(run)
    if _reads_masks(run):
        found = masked_statistic(
            run.worlds, run.algorithm, run.noise, rounds=run.rounds, agent=run.agent, batch_size=run.batch_size
        )
        return PreparedAttack("likelihood", found, 0, _as_they_are, None)
    used = exchange_topologies(run.algorithm, run.topology)
    if run.observer.members and any(isinstance(topology.schedule, Listed) for topology in used):
        raise IncompatibleChoice(
            "the matched filter does not know which sources of a list of matrices members have. Use attack='fitted'."
        )
    change = None
    # A batch of constant gradients has the same gradient, so that batches change nothing here.
    plays = not run.noise.in_gradients or run.algorithm.gradients_per_round == 1
    if plays and run.algorithm.sampling is None:
        change = linear_change(run.worlds, run.algorithm, run.agent, run.rounds)
    if change is None:
        raise IncompatibleChoice(
            f"the matched filter is for constant gradients of all agents, such as canaries have, and '{run.algorithm.name}' with these worlds has "
            f"others. Use attack='transcript' for readers of every message, or attack='fitted'."
        )
    matched = matched_filter(
        run.topology, change.algorithm, run.noise, run.observer,
        rounds=run.rounds, sensitivity=change.size, agent=run.agent, direction=change.direction,
    )  # fmt: skip
    return PreparedAttack("likelihood", statistic(matched, change.axis), 0, _as_they_are, matched.mu)


def _transcript(run: AuditedRun) -> PreparedAttack:
    _refuse_turns(run)
    seen = view(run.observer, *exchange_topologies(run.algorithm, run.topology))
    everything = bool(all(links.all() for links in seen.links)) and not seen.members.any()
    if not everything or seen.final_model or run.batch_size is not None or _reads_masks(run):
        raise IncompatibleChoice(
            f"a transcript is read by who sees every message without masks, knows no source, is given no final model, and with full gradients; "
            f"'{run.observer.name}' with batch_size = {run.batch_size} is not. Use attack='fitted'."
        )
    reader = transcript_reader(run.topology, run.algorithm, run.noise, rounds=run.rounds, agent=run.agent)
    gradients = (agent_gradient(run.worlds[0], run.agent), agent_gradient(run.worlds[1], run.agent))
    return PreparedAttack("transcript", reader.statistic(gradients, run.worlds[0].initial_model), 0, _as_they_are, None)


def _fitted(run: AuditedRun) -> PreparedAttack:
    rows = layout(run.topology, run.algorithm, run.noise, run.observer)
    afford = FEATURE_BYTES // (16 * (2 * run.pairs + LEAST_TRAINING))
    plan = plan_features(rows, agent=run.agent, rounds=run.rounds, limit=max(8, min(LIMIT, afford)))
    training = max(LEAST_TRAINING, run.pairs // 2, 2 * plan.number)

    def scores(features: Any) -> Floats:
        found = np.asarray(features, dtype=np.float64)
        return fit(found[:, run.pairs :]).scores(found[:, : run.pairs])

    axis = first_change(run.worlds, run.agent)
    return PreparedAttack("fitted", feature_statistic(plan, axis), training, scores, None)


def _reads_masks(run: AuditedRun) -> bool:
    """Whether the observer reads a board of masked messages."""
    return run.algorithm.aggregation is not None and run.observer.sees_messages


def _as_they_are(found: Any) -> Floats:
    return np.asarray(found, dtype=np.float64)


_PREPARE: dict[str, Callable[[AuditedRun], PreparedAttack]] = {
    "likelihood": _likelihood,
    "transcript": _transcript,
    "fitted": _fitted,
}
