"""The exact likelihood ratio of a whole transcript, also where gradients react to what agents hear.

An observer of every message who knows the rest of the network can replay agent p under either candidate for its data. If every source of p's
noise is read off a message (one source per agent, or one per link with a noiseless own copy), p's state under a candidate is a function of the
messages: in round t

    psi   = message(state),   z_s = (m_l - psi) / c_ls         for the link l that carries source s with factor c_ls
    state <- update(state, sum_{l != p} a_lp m_l + a_pp (psi + sum_s b_s z_s)),

b_s the factor of the own copy: 1 with self-noise, 0 without, -(1 - a_pp) / a_pp under graph-homomorphic noise. The map from noise to messages
is triangular with constant Jacobian and the other agents' factors are the same under both candidates, so that

    log ratio = sum_t sum_s log f_t(z_s | second) - log f_t(z_s | first),      f_t the law of a source in round t.

Gradients must be full ones: of a batch the observer would have to know the draw. The largest absolute value over transcripts is the pure epsilon of
the run; a claim below a value that is attained is false.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.linear import check_together
from sottovoce.noise import Gaussian, Laplace, Law, Noise, NoiseMap, bind, shared_sources
from sottovoce.numbers import whole
from sottovoce.topologies import ActiveLinks, Static, Topology

if TYPE_CHECKING:
    from sottovoce.simulation.views import Statistic

Array = Any  # NumPy or JAX
Gradient = Callable[..., Array]


class Replay(NamedTuple):
    """What the observer believes of one agent under one candidate."""

    state: Any
    log_density: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptReader:
    """How one agent's state and noise follow from all messages of a round; make it with `transcript_reader`.

    Attributes:
        algorithm: what the agent does.
        law: of one source.
        agent: p.
        scales: [T] scale of the law in every round.
        weights: [rows] what p gives each message; the rows are all links in the order of `topology.links`, or a federation's uplinks.
        self_weight: a_pp.
        rows: [S] where each of p's sources is read.
        factors: [S] with which factor.
        own_factors: [S] with which factor p's own copy carries it.
    """

    algorithm: Algorithm
    law: Law
    agent: int
    scales: np.ndarray
    weights: np.ndarray
    self_weight: float
    rows: np.ndarray
    factors: np.ndarray
    own_factors: np.ndarray

    def start(self, model: Array) -> Replay:
        """Before the first round, from the common first model [d]."""
        return Replay(self.algorithm.init(model), 0.0 * model.sum())

    def advance(self, replay: Replay, messages: Array, gradient: Gradient, round_: Any) -> Replay:
        """One round further.

        Args:
            replay: before the round.
            messages: [rows, d] of the round.
            gradient: the agent's gradient under this candidate.
            round_: from 1; may be traced.
        """
        xp = messages.__array_namespace__()
        (exchange,) = self.algorithm.exchanges
        state = self.algorithm.begun(replay.state, gradient, round_)
        psi = exchange.message(state, gradient, round_)
        noise = (messages[self.rows] - psi) / xp.asarray(self.factors, dtype=messages.dtype)[:, None]  # [S, d]
        own = psi + xp.asarray(self.own_factors, dtype=messages.dtype) @ noise
        received = xp.asarray(self.weights, dtype=messages.dtype) @ messages + self.self_weight * own
        scale = xp.asarray(self.scales, dtype=messages.dtype)[round_ - 1]
        density = replay.log_density - _cost(self.law, noise / scale).sum()
        return Replay(exchange.update(state, received, gradient, round_), density)

    def log_ratio(self, messages: Array, gradients: tuple[Gradient, Gradient], start: Array) -> Array:
        """The log-likelihood ratio of one transcript: second candidate against first.

        Args:
            messages: [T, rows, d].
            gradients: the agent's gradient under the two candidates, functions of a model [d].
            start: [d] the common first model.
        """
        if messages.ndim != 3 or messages.shape[:2] != (len(self.scales), len(self.weights)):
            raise ConfigError(
                f"messages have shape {tuple(messages.shape)}; this transcript has {len(self.scales)} rounds of {len(self.weights)} messages: "
                f"give [{len(self.scales)}, {len(self.weights)}, d], all links in the order of topology.links, or all uplinks."
            )
        replays = [self.start(start), self.start(start)]
        for t in range(1, len(self.scales) + 1):
            replays = [self.advance(r, messages[t - 1], g, t) for r, g in zip(replays, gradients, strict=True)]
        return replays[1].log_density - replays[0].log_density

    def statistic(self, gradients: tuple[Gradient, Gradient], start: Array) -> "Statistic":
        """The log ratio as something to compute along recorded runs, for `sottovoce.simulation.views.measure`."""
        import jax.numpy as jnp

        from sottovoce.simulation.views import Statistic

        def update(replays: tuple[Replay, Replay], seen: Any, round_: Array) -> tuple[Replay, Replay]:
            first, second = (
                self.advance(r, seen.messages[0], g, round_) for r, g in zip(replays, gradients, strict=True)
            )
            return first, second

        def init() -> tuple[Replay, Replay]:
            model = jnp.asarray(start)
            return self.start(model), self.start(model)

        def finish(replays: tuple[Replay, Replay], final_model: Array) -> Array:
            return replays[1].log_density - replays[0].log_density

        return Statistic(init=init, update=update, finish=finish)


def agent_gradient(problem: Any, agent: int) -> Gradient:
    """The full gradient of one agent as a function of the model: a candidate for its data."""
    data = {name: values[agent] for name, values in problem.arrays.items()}

    def gradient(model: Array, step: int = 0) -> Array:
        return problem.gradient(model, data)

    return gradient


def transcript_reader(
    topology: Topology, algorithm: Algorithm, noise: Noise, *, rounds: int, agent: int
) -> TranscriptReader:
    """Find how one agent's state and noise follow from all messages.

    Args:
        topology: fixed links, or a federation.
        algorithm: one exchange of fresh messages per round.
        noise: every source of the agent's must be its own and be read off some message.
        rounds: T.
        agent: p.

    Raises:
        IncompatibleChoice: the messages do not determine the agent's state, or have no density.
        ConfigError: no such agent, or no rounds.
    """
    rounds, K = whole("rounds", rounds), topology.num_agents
    if whole("agent", agent, least=0) >= K:
        raise ConfigError(f"agent = {agent!r}; the agents are 0 to {K - 1}.")
    law, scales = _checked_run(topology, algorithm, noise, rounds)
    links = topology.active_links()
    bound = bind(noise, links)
    read = _sources_read(noise, bound, links, int(agent), relay=topology.relay)
    into = links.receivers == agent
    if topology.relay:
        weights = np.zeros(K)
        weights[links.senders[into]] = links.weights[into]
    else:
        weights = np.where(into, links.weights, 0.0)
    return TranscriptReader(
        algorithm=algorithm, law=law, agent=int(agent), scales=scales, weights=weights, self_weight=float(links.self_weights[agent]),
        rows=read.rows, factors=read.factors, own_factors=read.own,
    )  # fmt: skip


def _checked_run(topology: Topology, algorithm: Algorithm, noise: Noise, rounds: int) -> tuple[Law, np.ndarray]:
    """The law, and its scale in every round."""
    if noise.law is None or noise.in_gradients or noise.needs_relay:
        raise IncompatibleChoice(
            f"'{noise.name}' puts no noise of the agent's own into its messages, so they have no density to compare. Use "
            f"sv.noise.independent(law) or sv.noise.graph_homomorphic(law)."
        )
    if len(algorithm.exchanges) != 1 or algorithm.exchanges[0].weights is not None or algorithm.sampling is not None:
        raise IncompatibleChoice(
            f"'{algorithm.name}' has several exchanges in a round, weights of its own or draws agents; a transcript is read of one exchange of all "
            f"agents. Use atc, cta, consensus, dgd or fedavg."
        )
    if not isinstance(topology.schedule, Static):
        raise IncompatibleChoice(
            f"the links of '{topology.name}' change from round to round, and a transcript is read of fixed ones. Use a fixed topology."
        )
    check_together(topology, algorithm, noise, rounds=rounds)
    scales = noise.law.scale * noise.factors(rounds) * algorithm.noisy_rounds(rounds)
    if (scales == 0).any():
        silent = int(np.flatnonzero(scales == 0)[0]) + 1
        raise IncompatibleChoice(
            f"round {silent} is sent without noise, so its messages have no density to compare. Take rounds that all carry noise."
        )
    return noise.law, scales


class _Read(NamedTuple):
    rows: np.ndarray
    factors: np.ndarray
    own: np.ndarray


def _sources_read(noise: Noise, bound: NoiseMap, links: ActiveLinks, agent: int, *, relay: bool) -> _Read:
    """Where each source of the agent's is read, and what its own copy carries of it."""
    mine = np.flatnonzero((bound.owners == agent).any(axis=1))
    carries = bound.link_value != 0
    sent = carries & (links.senders == agent)[bound.link_index] & (links.weights > 0)[bound.link_index]
    several = np.bincount(bound.link_index[sent], minlength=1).max(initial=0) > 1
    shared = shared_sources(bound.owners[mine]).any() or not np.isin(bound.link_source[sent], mine).all()
    kept = (bound.self_index == agent) & (bound.self_value != 0)
    hidden = np.setdiff1d(bound.self_source[kept], bound.link_source[sent])
    if shared or several or hidden.size or not sent.any():
        raise IncompatibleChoice(
            f"under '{noise.name}' with these options the messages of agent {agent} do not determine its noise (it is shared, mixed, or stays in "
            f"its own copy), so its state stays hidden. Use one source per message that its sender alone knows."
        )
    sources, first = np.unique(bound.link_source[sent], return_index=True)
    own = np.zeros(len(sources))
    own[np.searchsorted(sources, bound.self_source[kept])] = bound.self_value[kept]
    rows = np.full(len(sources), agent) if relay else bound.link_index[sent][first]
    return _Read(rows, np.asarray(bound.link_value[sent][first], dtype=float), own)


def _cost(law: Law, noise: Array) -> Array:
    """Minus the log density of draws [S, d] of a law of scale one, up to a constant, [S]."""
    xp = noise.__array_namespace__()
    if isinstance(law, Gaussian):
        return (noise * noise).sum(axis=-1) / 2.0
    if isinstance(law, Laplace):
        return xp.abs(noise).sum(axis=-1)
    return xp.sqrt((noise * noise).sum(axis=-1))
