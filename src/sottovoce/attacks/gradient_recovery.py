"""An agent's gradient, read off the models that it sends.

A gradient step is the difference of two models, so whoever knows both has the gradient (Vlaski & Sayed, eq. 11.3):

    one server     g_i = (w_{i-1} - psi_{k,i}) / mu                              w_{i-1} is what the server sent out
    atc            g_i = (w_{k,i-1} - psi_{k,i}) / mu                            w_{k,i-1} = sum_l a_lk psi_{l,i-1}
    cta            g_i = (phi_{k,i} - w_{k,i}) / mu,     taken at phi_{k,i} = sum_l a_lk w_{l,i-1}
    consensus      g_i = (phi_{k,i} - w_{k,i}) / mu,     taken at w_{k,i-1}

Without a server the observer rebuilds what agent k combined, and for that it must read everything that k is sent. Under
noise it knows k's own copy only as k sent it. With z the sources, L what k's message carries of them and S what its own
copy carries,

    estimate - gradient = (a_kk (L - S) z_before - L z_now) / mu

where z_now belongs to the message that shows the step and z_before to the one that shows the point. It has mean zero
and a known variance. With one source of standard deviation sigma per agent, of which the own copy carries s times, it
is sigma^2 (1 + rho^2) / mu^2, rho = a_kk (1 - s): 0 with self-noise, a_kk without, 1 for graph-homomorphic noise.

Noise that cancels at a receiver leaves it the exact weighted sum of its neighbours' messages:
`weighted_sum_at_receiver`.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.algorithms import Algorithm, step_at
from sottovoce.attacks.arrays import Floats, finite
from sottovoce.attacks.links import Positions, checked_messages, fixed_links, places_of, rows_of
from sottovoce.errors import ConfigError, IncompatibleChoice, UnsupportedClaim
from sottovoce.linear import BoundExchange, LinearRounds, diffusion_step, linear_rounds, noise_rows, refuse_memory
from sottovoce.noise import Noise, bind, received_map
from sottovoce.topologies import ActiveLinks, Topology

PEER_ALGORITHMS = ("atc", "cta", "consensus")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecoveredGradients:
    """Estimates of the gradients that one agent took (or of the average of all agents' gradients).

    Attributes:
        gradients: [repeats, n, d], of rounds 1 to n; with several local steps in a message, the sum of their gradients.
        points: [repeats, n, d] where they were taken, as far as the observer knows.
        gradient_std: [n] standard deviation of one coordinate of gradients - truth, over the noise.
        point_std: [n] the same of the points.
    """

    gradients: Floats
    points: Floats
    gradient_std: Floats
    point_std: Floats


def recover_gradients(
    messages: ArrayLike,
    links: ArrayLike,
    *,
    agent: int,
    topology: Topology,
    algorithm: Algorithm,
    noise: Noise,
    start: ArrayLike,
) -> RecoveredGradients:
    """One agent's gradients from the messages on the links of a peer network.

    Args:
        messages: [repeats, rounds, E, d] what the observed links carried. Somebody who took part appends what it sent
            itself.
        links: [E, 2] (sender, receiver) of each.
        agent: whose gradients.
        topology: the public weights; fixed in time.
        algorithm: sv.algorithms.atc, cta or consensus; its step size is public.
        noise: the public noise scheme: it decides which copies are the same, and how large the error is.
        start: [d] where all agents started.

    Raises:
        IncompatibleChoice: the observer lacks messages that the agent combined, or the agent's own; or another
            algorithm.
    """
    seen, pairs = checked_messages(messages, links)
    kind, steps = _diffusion(algorithm, seen.shape[1])
    sight = _sight(pairs, agent, fixed_links(topology), noise)
    sent = seen[:, :, sight.outgoing].mean(axis=2)  # [repeats, rounds, d]
    combined = np.einsum("l,rtld->rtd", sight.weights, seen[:, :, sight.incoming]) + sight.own_weight * sent
    rounds, dimension = sent.shape[1:]
    variances = _variances(noise, algorithm, rounds, dimension)
    now, before = sight.now * variances, sight.before * variances
    if kind == "atc":
        origin = np.broadcast_to(_checked_start(start, seen), sent[:, :1].shape)
        points, point_spread = np.concatenate([origin, combined[:, :-1]], axis=1), np.append(0.0, before[:-1])
        estimates, error = points - sent, point_spread + now
    elif rounds < 2:
        raise IncompatibleChoice(f"one round of '{algorithm.name}' shows no gradient: it leaves with the next message.")
    else:
        estimates, error, steps = combined[:, :-1] - sent[:, 1:], before[:-1] + now[1:], steps[:-1]
        points, point_spread = (sent, now) if kind == "consensus" else (combined, before)
        points, point_spread = points[:, :-1], point_spread[:-1]
    return RecoveredGradients(
        gradients=estimates / steps[:, None],
        points=points,
        gradient_std=np.sqrt(error / steps**2 + _in_gradients(noise, algorithm, rounds, dimension)[: len(steps)]),
        point_std=np.sqrt(point_spread),
    )


def recover_from_uplinks(
    uplinks: ArrayLike,
    *,
    agent: int,
    topology: Topology,
    algorithm: Algorithm,
    noise: Noise,
    start: ArrayLike,
    broadcasts: ArrayLike | None = None,
) -> RecoveredGradients:
    """One agent's gradients from what the agents of a federation send to the relay.

    Args:
        uplinks: [repeats, rounds, K, d] one message per agent, in order.
        agent: whose gradients.
        topology: the federation.
        algorithm: sv.algorithms.fedavg or atc; all agents take part in every round.
        noise: the public noise scheme.
        start: [d] the first model.
        broadcasts: [repeats, rounds, d] the average that the relay sent out; needed only when it added noise to it.

    Raises:
        IncompatibleChoice: no federation, sampled agents, or relay noise without the broadcasts.
    """
    _check_federation(algorithm, topology)
    seen = finite("uplinks", uplinks, axes=4)
    if seen.shape[2] != topology.num_agents or not 0 <= agent < topology.num_agents:
        raise ConfigError(
            f"uplinks of {seen.shape[2]} agents and agent {agent} were given; the federation has agents 0 to "
            f"{topology.num_agents - 1}, each with one uplink."
        )
    if broadcasts is None and noise.needs_relay:
        raise IncompatibleChoice(
            "the relay added noise to the average, so the models cannot be computed from the uplinks. Give broadcasts=."
        )
    computed = np.einsum("k,rtkd->rtd", topology.perron, seen)
    averages = computed if broadcasts is None else finite("broadcasts", broadcasts, axes=3)
    active = topology.active_links()
    exchange = BoundExchange(active, bind(noise, active))
    # What the relay adds is not yet on an uplink.
    carried = noise_rows(exchange)[1][[agent]].toarray()[0][~exchange.noise.of_relay]
    return _stepped_from(
        averages, seen[:, :, agent], carried, algorithm=algorithm, noise=noise, start=start, agents=1.0
    )


def recover_average_gradient(
    broadcasts: ArrayLike,
    *,
    topology: Topology,
    algorithm: Algorithm,
    noise: Noise,
    start: ArrayLike,
) -> RecoveredGradients:
    """The average of all agents' gradients from what the relay sends out, round after round.

    sum_l q_l g_l = (w_{i-1} - average_i) / mu: all that an agent which reads only the broadcast can have of the others.

    Args:
        broadcasts: [repeats, rounds, d] the average that the relay sent out.
        topology: the federation.
        algorithm: sv.algorithms.fedavg or atc.
        noise: the public noise scheme.
        start: [d] the first model.
    """
    _check_federation(algorithm, topology)
    averages, active = finite("broadcasts", broadcasts, axes=3), topology.active_links()
    received = received_map(bind(noise, active), active)[[0]].data
    share = float((topology.perron**2).sum())
    return _stepped_from(averages, averages, received, algorithm=algorithm, noise=noise, start=start, agents=share)


def weighted_sum_at_receiver(messages: ArrayLike, links: ArrayLike, *, receiver: int, topology: Topology) -> Floats:
    """sum_{l != k} a_lk m_lk at receiver k, [repeats, rounds, d].

    Under noise that cancels at the receivers (local graph-homomorphic) this is the sum of the messages WITHOUT noise,
    to rounding: against the receiver, and anybody else who reads all its incoming links, such noise hides nothing of
    the sum.

    Args:
        messages: [repeats, rounds, E, d] what the observed links carried.
        links: [E, 2] (sender, receiver) of each.
        receiver: k.
        topology: the public weights.

    Raises:
        IncompatibleChoice: a link into the receiver is not among the observed ones.
    """
    seen, pairs = checked_messages(messages, links)
    active = fixed_links(topology)
    into = np.flatnonzero((active.receivers == receiver) & (active.weights > 0))
    if not len(into):
        raise ConfigError(f"agent {receiver} receives nothing; the agents are 0 to {topology.num_agents - 1}.")
    where = places_of(pairs)
    missing = [int(sender) for sender in active.senders[into] if (int(sender), receiver) not in where]
    if missing:
        raise IncompatibleChoice(
            f"the weighted sum at agent {receiver} needs all its incoming links, and those from {missing} are not "
            f"read. Observe with sv.observers.curious_agent({receiver}) or an eavesdropper."
        )
    positions = [where[int(sender), receiver] for sender in active.senders[into]]
    total: Floats = np.einsum("l,rtld->rtd", active.weights[into], seen[:, :, positions])
    return total


def gradients_from_views(
    views: Any, *, agent: int, topology: Topology, algorithm: Algorithm, noise: Noise, start: ArrayLike
) -> RecoveredGradients:
    """`recover_gradients`, or on a federation `recover_from_uplinks`, on a view of `simulation.views.observe`.

    Args:
        views: what was recorded, from the first round on.
        agent: whose gradients.
        topology: the public weights; fixed in time.
        algorithm: whose step size is public.
        noise: the public noise scheme.
        start: [d] where all agents started.
    """
    if views.first_round != 1 or views.layout.broadcast:
        raise IncompatibleChoice(
            f"'{views.observer}' from round {views.first_round} on: this needs messages from the first round on. Join "
            f"the chunks; who reads only a broadcast has the average alone: recover_average_gradient."
        )
    seen, links = views.messages[0], views.layout.links[0]
    if topology.relay:
        return recover_from_uplinks(seen, agent=agent, topology=topology, algorithm=algorithm, noise=noise, start=start)
    return recover_gradients(seen, links, agent=agent, topology=topology, algorithm=algorithm, noise=noise, start=start)


class _Sight(NamedTuple):
    """Which observed links show what an agent combined and sent, and how much noise is in the way."""

    incoming: Positions  # per neighbour the observed link that shows its message
    weights: Floats  # per neighbour
    own_weight: float
    outgoing: Positions
    now: float  # |L|^2
    before: float  # a_kk^2 |L - S|^2


def _sight(pairs: Positions, agent: int, active: ActiveLinks, noise: Noise) -> _Sight:
    carried, kept = (rows.toarray() for rows in noise_rows(BoundExchange(active, bind(noise, active))))
    noises = carried[rows_of(pairs, active)]  # [observed, S]
    outgoing = np.flatnonzero(pairs[:, 0] == agent)
    into = np.flatnonzero((active.receivers == agent) & (active.weights > 0))
    # Any copy with the same noise shows a neighbour's message as well as the link itself.
    copies = [
        np.flatnonzero((pairs[:, 0] == active.senders[link]) & (noises == carried[link]).all(axis=1)) for link in into
    ]
    missing = [int(active.senders[link]) for link, found in zip(into, copies, strict=True) if not len(found)]
    if missing or not len(outgoing):
        lack = f"what agents {missing} sent to agent {agent}" if missing else f"any message of agent {agent}"
        raise IncompatibleChoice(
            f"the observer does not read {lack}, so two models of agent {agent} one gradient step apart cannot be "
            f"rebuilt. Observe more links, for example with sv.observers.eavesdropper()."
        )
    sent, own = noises[outgoing].mean(axis=0), float(active.self_weights[agent])
    off = own * (sent - kept[agent])
    incoming = np.array([found[0] for found in copies])
    return _Sight(incoming, active.weights[into], own, outgoing, float(sent @ sent), float(off @ off))


def _check_federation(algorithm: Algorithm, topology: Topology) -> None:
    if not topology.relay or algorithm.name not in ("fedavg", "atc") or algorithm.sampling is not None:
        raise IncompatibleChoice(
            f"uplinks and broadcasts are read of fedavg or atc on a federation in which everybody takes part; this is "
            f"'{algorithm.name}' on '{topology.name}'{'' if algorithm.sampling is None else ' with sampled agents'}."
        )


def _stepped_from(
    averages: Floats,
    sent: Floats,
    carried: Floats,
    *,
    algorithm: Algorithm,
    noise: Noise,
    start: ArrayLike,
    agents: float,
) -> RecoveredGradients:
    """Gradients from common models and what was sent a step later; `agents` is the sum of squared shares in it."""
    rounds, dimension = sent.shape[1:]
    steps, in_clear = _steps(algorithm, rounds), algorithm.parameters.get("exchange") == "gradient"
    points = _models_before(averages, algorithm, in_clear, steps, _checked_start(start, sent))
    error = float(carried @ carried) * _variances(noise, algorithm, rounds, dimension)
    inside = agents * _in_gradients(noise, algorithm, rounds, dimension)
    return RecoveredGradients(
        gradients=sent if in_clear else (points - sent) / steps[:, None],
        points=points,
        gradient_std=np.sqrt((error if in_clear else error / steps**2) + inside),
        point_std=np.zeros(rounds),
    )


def _models_before(averages: Floats, algorithm: Algorithm, in_clear: bool, steps: Floats, start: Floats) -> Floats:
    """The common model at the beginning of every round, [repeats, rounds, d]."""
    s = float(algorithm.parameters.get("server_step_size", 1.0))
    models = [np.broadcast_to(start, averages[:, 0].shape)]
    for t in range(averages.shape[1] - 1):
        w = models[-1]
        models.append(w - s * steps[t] * averages[:, t] if in_clear else w + s * (averages[:, t] - w))
    return np.stack(models, axis=1)


def _diffusion(algorithm: Algorithm, rounds: int) -> tuple[str, Floats]:
    """When agents take their gradients, as `linear.Step` says, and the step of every round: both read off their functions."""
    try:
        forms = linear_rounds(algorithm, rounds)
    except UnsupportedClaim:
        forms = LinearRounds([], np.zeros(rounds, dtype=int))
    steps = [step for form in forms.forms if (step := diffusion_step(form)) is not None]
    kinds = {step.kind for step in steps}
    if len(steps) != len(forms.forms) or len(kinds) != 1 or not kinds <= set(PEER_ALGORITHMS):
        raise IncompatibleChoice(
            f"gradients are recovered from messages of {', '.join(PEER_ALGORITHMS)}, whose messages are models one "
            f"step apart; this is '{algorithm.name}'. On a federation use recover_from_uplinks."
        )
    return kinds.pop(), np.array([step.size for step in steps])[forms.which]


def _steps(algorithm: Algorithm, rounds: int) -> Floats:
    step = algorithm.parameters["step_size"]
    return np.array([float(step_at(step, t)) for t in range(1, rounds + 1)])


def _variances(noise: Noise, algorithm: Algorithm, rounds: int, dimension: int) -> Floats:
    """[rounds] variance of one coordinate of a source that messages carry."""
    refuse_memory(noise, "attacks that rebuild gradients round by round")
    if noise.law is None or noise.in_gradients:
        return np.zeros(rounds)
    scale: Floats = noise.factors(rounds) * algorithm.noisy_rounds(rounds)
    return noise.law.variance(dimension) * scale**2


def _in_gradients(noise: Noise, algorithm: Algorithm, rounds: int, dimension: int) -> Floats:
    """[rounds] variance of the noise that an agent adds to the gradients in one message."""
    if noise.law is None or not noise.in_gradients:
        return np.zeros(rounds)
    scaled: Floats = algorithm.gradients_per_round * noise.law.variance(dimension) * noise.factors(rounds) ** 2
    return scaled


def _checked_start(start: ArrayLike, seen: Floats) -> Floats:
    first = finite("start", start, axes=1)
    if len(first) != seen.shape[-1]:
        raise ConfigError(f"start has {len(first)} parameters; the messages have {seen.shape[-1]}.")
    return first
