"""Audit a guarantee with ONE run: every agent is a canary with a coin of its own (Steinke, Nasr & Jagielski 2023).

Canary j is agent k_j. Its gradient is constant, along an axis e_j of its own in R^m, and a fair coin chooses between two neighbouring values:

    replace       -(Delta/2) e_j   or   +(Delta/2) e_j           add-remove    0   or   Delta e_j

(clipped updates: as large as the clip). The axes are orthogonal and noise is independent over coordinates, so no canary disturbs another one. The
score of canary j is the log-likelihood ratio of its two values, given everything that the observer read along e_j; the attacker names the value
that is more likely, for the r canaries of which it is surest. `bounds.one_run` turns the number of right answers into a lower bound on epsilon.

The theorem is told with canaries that are put in or left out, and holds as it is for two values. Its proof fixes the other coins; the laws
P, P' of the view under the two values of coin j then obey P(S) <= e^epsilon P'(S) + delta in both directions, and Bayes' rule with a fair
coin bounds the chance of a right answer. That one of the values is absence is used nowhere: the values must be neighbours in the sense of the
guarantee, which is what `adjacency` sees to, and no factor is lost. The guarantee is the one of the worst canary, because the theorem needs it of all.

attack        is                                           plays on
uplinks       each uplink less the common model            a federation's uplinks with noise of their own, Gaussian or Laplace; samples of agents
likelihood    the matched filter of every canary           Gaussian noise or none, fixed links, all agents in every round

With m canaries an epsilon much above ln(m) cannot be shown, and delta is charged m times. Gaussian noise gives its epsilon away in rare views only:
a scale half of the promised one takes thousands of agents to refute. Filters cost one pass per canary: hundreds are for uplinks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce.accounting.account import account, account_each
from sottovoce.accounting.guarantee import Guarantee
from sottovoce.algorithms import Algorithm
from sottovoce.attacks.arrays import Floats
from sottovoce.attacks.audit.canaries import LinearChange, canary_worlds, linear_change, linear_loss
from sottovoce.attacks.audit.numerics import require_finite_scores, require_finite_steps
from sottovoce.attacks.audit.one_run_result import Coins, OneRunAudit
from sottovoce.attacks.bounds import one_run
from sottovoce.attacks.bounds.lower_bound import shuffled
from sottovoce.attacks.likelihood import MatchedFilter, matched_filter
from sottovoce.errors import ConfigError, IncompatibleChoice, UnsupportedClaim
from sottovoce.linear import check_parts, exchange_topologies
from sottovoce.noise import Gaussian, Laplace, Law, Noise, bind, shared_sources
from sottovoce.numbers import checked, chosen, per_agent, whole
from sottovoce.observers import Observer, view
from sottovoce.problems import Adjacency, ConvexSmooth, CustomLoss, Unit, custom_loss
from sottovoce.simulation.views import Statistic, measure
from sottovoce.topologies import Static, Topology

REHEARSED = 20_000  # draws of scores by which the number of guesses is chosen, before the run
SHARES = 20  # numbers of guesses that are tried
COINS = 7  # a stream of the seed beside those of the simulation


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryRun:
    """What is played, by which canaries, between which values."""

    topology: Topology
    algorithm: Algorithm
    noise: Noise  # as it is played
    observer: Observer
    rounds: int
    canaries: NDArray[np.int64]  # [m]
    values: Floats  # [2, m] the gradient of each canary along its axis
    changes: tuple[LinearChange, ...]  # [m]

    def problem(self, coins: Coins) -> CustomLoss:
        """The data when the coins [m] have fallen like this; agents who are no canaries have gradient 0."""
        m = len(self.canaries)
        slopes = np.zeros((self.topology.num_agents, 1, m))
        slopes[self.canaries, 0, np.arange(m)] = np.where(coins, self.values[1], self.values[0])
        return custom_loss(linear_loss, np.zeros(m), slopes)


class CanaryScores(NamedTuple):
    """How canaries are scored, and what to expect of it."""

    name: str
    statistic: Statistic  # gives the scores [m] of one run
    rehearsal: Floats  # scores as they may fall when the second value is true, of all canaries
    mu: Floats | None  # [m]


def one_run_audit(
    topology: Topology, algorithm: Algorithm, noise: Noise, observer: Observer, *, rounds: int, sensitivity: ArrayLike, delta: float,
    confidence: float, guesses: int | None = None, unit: Unit = "agent", adjacency: Adjacency = "replace", losses: ConvexSmooth | None = None,
    same_model: bool | None = None, seed: int = 0, canaries: Sequence[int] | None = None, played: Noise | None = None,
) -> OneRunAudit:  # fmt: skip
    """Guess many agents' coins from one simulated run, and hold the success against `sv.account`.

    Args:
        topology: who talks to whom.
        algorithm: what an agent does in a round.
        noise: how messages are perturbed, by promise.
        observer: who looks.
        rounds: exchanges.
        sensitivity: as for `sv.account`.
        delta: at which epsilon is compared, at least 0, below 1; shows little unless far below 1 / (number of canaries).
        confidence: with which a failed audit proves the guarantee false, at least one half, below 1.
        guesses: r, how many coins are guessed; None chooses by a rehearsal that knows neither the coins nor the run.
        unit: as for `sv.account`.
        adjacency: as for `sv.account`; it decides between which two values a coin chooses.
        losses: as for `sv.account`, without strong convexity, which constant gradients do not have.
        same_model: as for `sv.account`.
        seed: of the coins and the run.
        canaries: which agents; None: all outside the observer.
        played: the noise that is really played, where it is not the one promised.

    Raises:
        UnsupportedClaim: no guarantee of this kind is proved, or canaries cannot keep its promise.
        ConfigError: malformed input.
        IncompatibleChoice: the parts do not fit together, or no score is known for this run.
    """
    checked("delta", delta, "[0, 1)")
    checked("confidence", confidence, "[0.5, 1)")
    whole("seed", seed, least=0)
    check_parts(topology=topology, algorithm=algorithm, noise=noise, observer=observer)
    require_finite_steps(algorithm, per_agent("sensitivity", sensitivity, topology.num_agents), whole("rounds", rounds))
    if losses is not None and losses.nu > 0:
        raise UnsupportedClaim(
            f"losses with nu = {losses.nu:g} are promised, and constant gradients have no curvature: canaries would break the promise. Use "
            f"sv.audit, or losses without nu."
        )
    run = canary_run(
        topology, algorithm, noise if played is None else played, observer,
        rounds=rounds, sensitivity=sensitivity, adjacency=adjacency, canaries=canaries,
    )  # fmt: skip
    m = len(run.canaries)
    if guesses is not None and whole("guesses", guesses) > m:
        raise ConfigError(f"guesses = {guesses}, but there are {m} canaries. Guess each at most once.")
    of_all = account if canaries is None else account_each
    promised = of_all(
        topology, algorithm, noise, observer, rounds=rounds, sensitivity=sensitivity, unit=unit, adjacency=adjacency, losses=losses,
        same_model=same_model,
    )  # fmt: skip
    every = [promised] if isinstance(promised, Guarantee) else [one for one in promised if one.agent in run.canaries]
    guarantee = max(every, key=lambda one: one.epsilon(delta))
    prepared = prepare_scores(run)
    r = guesses or planned_guesses(prepared.rehearsal, m, delta=delta, confidence=confidence)
    coins = np.random.default_rng([COINS, seed]).random(m) < 0.5
    ((scores,),) = play(run, prepared, coins[None, :], seed)
    v = right_guesses(scores, coins, r)
    lower, epsilon = one_run(m, r, v, delta=delta, confidence=confidence), guarantee.epsilon(delta)
    return OneRunAudit(
        guarantee=guarantee, attack=prepared.name, delta=delta, confidence=confidence, epsilon=epsilon, lower=lower, m=m, r=r, v=v,
        canaries=run.canaries, scores=scores, coins=coins, computed_mu=prepared.mu, passed=not lower.contradicts(guarantee),
    )  # fmt: skip


def canary_run(
    topology: Topology, algorithm: Algorithm, noise: Noise, observer: Observer, *, rounds: int, sensitivity: ArrayLike,
    adjacency: Adjacency, canaries: Sequence[int] | None,
) -> CanaryRun:  # fmt: skip
    """Choose the canaries, and give each its two values; arguments as in `one_run_audit`."""
    chosen("adjacency", adjacency, ("replace", "add-remove"))
    steps, K = whole("rounds", rounds), topology.num_agents
    outside = np.flatnonzero(~view(observer, *exchange_topologies(algorithm, topology)).members)
    named = [whole("a canary", k, least=0) for k in canaries or ()]
    agents = outside if canaries is None else np.array(named, dtype=np.int64)
    if len(agents) == 0 or len(set(agents.tolist())) < len(agents) or not np.isin(agents, outside).all():
        raise ConfigError(
            f"canaries = {canaries!r}; needed are different agents of 0 to {K - 1}, at least one, all outside the observer ({observer})."
        )
    sizes = per_agent("sensitivity", sensitivity, K)[agents]
    bare = (
        algorithm._replace(clipped_update=None) if noise.in_gradients else algorithm
    )  # noise in gradients protects each of them, before any clip of the update
    values, changes = np.zeros((2, len(agents))), {}
    for size in np.unique(sizes):
        worlds = canary_worlds(topology, bare, sensitivity=float(size), agent=0, axis=[1.0], adjacency=adjacency)
        changes[size] = linear_change(worlds, bare, 0, steps)
        values[:, sizes == size] = [[world.arrays["features"][0, 0, 0]] for world in worlds]
    every = tuple(change for size in sizes if (change := changes[size]) is not None)
    assert len(every) == len(agents)  # a constant gradient along one axis always changes what is sent
    return CanaryRun(
        topology=topology, algorithm=algorithm, noise=noise, observer=observer, rounds=steps, canaries=agents, values=values, changes=every
    )  # fmt: skip


def prepare_scores(run: CanaryRun) -> CanaryScores:
    """The log-likelihood ratio of every canary's two values; IncompatibleChoice where it is not known."""
    if _reads_uplinks(run):
        return _uplinks(run)
    several = run.noise.in_gradients and run.algorithm.gradients_per_round != 1
    if run.algorithm.aggregation is not None or run.algorithm.sampling is not None or several:
        raise IncompatibleChoice(
            f"'{run.algorithm.name}' masks messages, draws agents or adds noise to several gradients of a round, and no score of canaries is known "
            f"for who does not read every uplink with its own noise. Use sv.audit, which can fit one."
        )
    return _filters(run)


def play(run: CanaryRun, prepared: CanaryScores, coins: Coins, seed: int, *, repeats: int = 1) -> Floats:
    """The scores [n, repeats, m] of independent runs, with coins [n, m]."""
    found = measure(
        [run.problem(row) for row in coins], run.topology, run.algorithm, run.noise, run.observer, prepared.statistic,
        rounds=run.rounds, repeats=repeats, seed=seed,
    )  # fmt: skip
    scores: Floats = np.asarray(found, dtype=np.float64)
    require_finite_scores(scores, prepared.name)
    clear = np.isinf(0.0 if prepared.mu is None else prepared.mu)
    return np.where(clear, np.where(scores > 0, np.inf, -np.inf), scores)  # in clear is certain, however small


def planned_guesses(rehearsal: Floats, m: int, *, delta: float, confidence: float) -> int:
    """How many coins to guess: the number that would show most if scores fell as rehearsed."""
    right = np.cumsum(rehearsal[_surest(rehearsal)] > 0)
    shows: dict[int, float] = {}
    for r in np.unique(np.geomspace(min(m, 10), m, SHARES).round().astype(int))[::-1].tolist():
        taken = -(-len(rehearsal) * r // m)
        shows[r] = one_run(m, r, int(r * right[taken - 1] / taken), delta=delta, confidence=confidence).epsilon or 0.0
    return max(shows, key=lambda r: shows[r])


def right_guesses(scores: Floats, coins: Coins, r: int) -> int:
    """How many of the r surest guesses are right; ties are broken by an order that knows nothing of the coins."""
    mixed = shuffled(len(scores))
    surest = mixed[_surest(scores[mixed])][:r]
    return int(((scores[surest] > 0) == coins[surest]).sum())


def _surest(scores: Floats) -> NDArray[np.int64]:
    # Most Laplace scores are equal but for rounding, which depends on the value of the coin.
    return np.argsort(-np.abs(scores).round(9), kind="stable")


def _uplinks(run: CanaryRun) -> CanaryScores:
    """Each uplink less what the relay already has is an update and fresh noise: their likelihood ratio, over the rounds in which the agent came.

    The common model follows from the uplinks as the relay averages them.
    """
    import jax.numpy as jnp

    law, (exchange,), m, sampling = run.noise.law, run.algorithm.exchanges, len(run.canaries), run.algorithm.sampling
    silent = exchange.silent
    assert law is not None
    assert silent is not None
    scales = law.scale * run.noise.factors(run.rounds)[:, None]  # [T, 1]
    low, high = (_updates(run, values) for values in run.values)
    weight = (
        1.0 if sampling is None else sampling.weight(run.topology.num_agents)
    )  # one over the probability that an agent takes part

    def update(held: tuple[Any, Any], seen: Any, round_: Any) -> tuple[Any, Any]:
        total, model = held
        has, came = silent(model, round_), seen.active[0]
        rest = jnp.where(came[:, None], seen.messages[0] - has, 0.0)  # [K, m]
        first, second, scale = (jnp.asarray(table)[round_ - 1] for table in (low, high, scales))
        terms = _ratio(law, rest[run.canaries, np.arange(m)], first, second, scale)
        received = has + weight * jnp.asarray(run.topology.perron) @ rest
        return total + jnp.where(came[run.canaries], terms, 0.0), exchange.update(
            model, received, lambda w: 0.0 * w, round_
        )

    rng, shape = np.random.default_rng(0), (-(-REHEARSED // m), run.rounds, m)
    noise = rng.standard_normal(shape) if isinstance(law, Gaussian) else rng.laplace(size=shape)
    rehearsed = np.where(rng.random(shape) * weight < 1.0, _ratio(law, high + scales * noise, low, high, scales), 0.0)
    known = isinstance(law, Gaussian) and sampling is None
    mu = np.sqrt((((high - low) / scales) ** 2).sum(axis=0)) if known else None
    statistic = Statistic(lambda: (jnp.zeros(m), jnp.zeros(m)), update, lambda held, _: held[0])
    return CanaryScores("uplinks", statistic, rehearsed.sum(axis=1).ravel(), mu)


def _ratio(law: Law, value: Any, first: Any, second: Any, scale: Any) -> Any:
    """Log-likelihood ratio of one coordinate: the second mean against the first."""
    a, b = (value - first) / scale, (value - second) / scale
    return (a * a - b * b) / 2.0 if isinstance(law, Gaussian) else abs(a) - abs(b)


def _updates(run: CanaryRun, values: Floats) -> Floats:
    """[T, m] what canaries with these gradients add to the model that all have, in the content of their messages."""
    send, nothing = run.algorithm.exchanges[0].message, np.zeros(1)

    def sent(value: float, round_: int) -> float:
        return float(send(nothing, lambda w, step=0: value + 0.0 * w, round_)[0])

    return np.array([[sent(value, t) for value in values] for t in range(1, run.rounds + 1)])


def _reads_uplinks(run: CanaryRun) -> bool:
    """Whether the observer reads all uplinks of a federated average, each with one noise of its sender's alone."""
    noise, algorithm, agents = run.noise, run.algorithm, np.arange(run.topology.num_agents)
    seen = view(run.observer, *exchange_topologies(algorithm, run.topology))
    averaged = len(algorithm.exchanges) == 1 and algorithm.exchanges[0].silent is not None and not algorithm.aggregation
    federated = run.topology.relay and isinstance(run.topology.schedule, Static)
    own_law = isinstance(noise.law, Gaussian | Laplace) and not noise.in_gradients
    if not all((federated, seen.every_message, averaged, own_law, not noise.turns)):
        return False
    if (noise.factors(run.rounds) == 0).any():
        return False
    bound = bind(noise, run.topology.active_links())
    alone = np.array_equal(bound.owners[:, 0], agents) and not shared_sources(bound.owners).any()
    own = np.array_equal(bound.self_index, agents) and np.array_equal(bound.self_source, agents)
    return bool(alone and own and (bound.self_value == 1.0).all())


def _filters(run: CanaryRun) -> CanaryScores:
    """The matched filter of every canary along its own axis; it has the score 0 where all gradients are 0."""
    import jax.numpy as jnp

    made = [
        matched_filter(
            run.topology, c.algorithm, run.noise, run.observer, rounds=run.rounds, sensitivity=c.size, agent=int(k), direction=c.direction
        )
        for k, c in zip(run.canaries, run.changes, strict=True)
    ]  # fmt: skip
    mu = np.array([one.mu for one in made])
    clear, finite = np.isinf(mu), np.where(np.isinf(mu), 0.0, mu)
    moves = np.where(clear, [c.size for c in run.changes], finite**2)
    middle = moves * run.values.sum(axis=0) / (2.0 * (run.values[1] - run.values[0]))

    def stacked(parts: Callable[[MatchedFilter], tuple[np.ndarray, ...]]) -> list[np.ndarray]:
        each = [[c.axis[0] * part[..., 0] for part in parts(f)] for f, c in zip(made, run.changes, strict=True)]
        return [np.stack(columns, axis=-1) for columns in zip(*each, strict=True)]  # [T, rows, m]

    messages, sources = stacked(lambda f: f.messages), stacked(lambda f: f.sources)
    broadcast, final = stacked(lambda f: f.broadcast), stacked(lambda f: (f.final_model,))[0]

    def update(total: Any, seen: Any, round_: Any) -> Any:
        heard = tuple(value[None] for value in seen.broadcast)
        for sign, tables, values in ((1, messages, seen.messages), (1, broadcast, heard), (-1, sources, seen.sources)):
            for table, value in zip(tables, values, strict=True):
                total = total + sign * (jnp.asarray(table)[round_ - 1] * value).sum(axis=0)
        return total

    statistic = Statistic(lambda: jnp.asarray(-middle), update, lambda total, model: total + jnp.asarray(final) * model)
    draws = np.random.default_rng(0).standard_normal((-(-REHEARSED // len(mu)), len(mu)))
    return CanaryScores("likelihood", statistic, np.where(clear, np.inf, finite**2 / 2.0 + finite * draws).ravel(), mu)
