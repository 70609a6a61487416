"""A run played again agent by agent on NumPy: the algorithm's functions, `noise.spread` and the seed's draws, and nothing of the engine."""

import numpy as np

from sottovoce.schedules import running_round


def replay(problem, algorithm, noise, drawn, *, rounds, batch_size=None):
    """Models [K, d] after the last round; `drawn` is read as it is, so that a test may hand in a wrong one."""
    states = [algorithm.init(np.array(problem.initial_model, float)) for _ in range(problem.num_agents)]
    for t in range(1, rounds + 1):
        with running_round({schedule: schedule.table(rounds)[t - 1] for schedule in algorithm.schedules}):
            states = _round(problem, algorithm, noise, drawn, states, t, batch_size)
    return np.stack([algorithm.model(state) for state in states])


def _round(problem, algorithm, noise, drawn, states, t, batch_size):
    K = problem.num_agents
    gradients = [_gradient(problem, noise, drawn, k, t, batch_size) for k in range(K)]
    states = [algorithm.begun(states[k], gradients[k], t) for k in range(K)]
    for e, exchange in enumerate(algorithm.exchanges):
        links, z = drawn.weights(t, e), drawn.sources(t, e)
        psi = np.stack([exchange.message(states[k], gradients[k], t) for k in range(K)])
        noise_map = noise.spread(links)
        if exchange.silent is not None or algorithm.needs_relay or noise.needs_relay:
            silent = psi if exchange.silent is None else np.stack([exchange.silent(state, t) for state in states])
            received = _through_relay(psi, silent, noise_map, links, z, drawn.counts(t))
        else:
            received = _over_links(psi, noise_map, links, z)
        states = [exchange.update(states[k], received[k], gradients[k], t) for k in range(K)]
    return states


def _gradient(problem, noise, drawn, k, t, batch_size):
    data = {name: values[k] for name, values in problem.arrays.items()}

    def gradient(w, step=0):
        if batch_size is None:
            found = problem.gradient(w, data)
        else:
            found = problem.batch_gradient(w, problem.records(data, drawn.batch(t, step)[k]))
        return np.asarray(found) + drawn.gradient_noise(t, step)[k] if noise.in_gradients else np.asarray(found)

    return gradient


def _over_links(psi, noise_map, links, z):
    carried, kept = psi[links.senders].copy(), psi.copy()
    for link, source, value in zip(noise_map.link_index, noise_map.link_source, noise_map.link_value, strict=True):
        carried[link] += value * z[source]
    for agent, source, value in zip(noise_map.self_index, noise_map.self_source, noise_map.self_value, strict=True):
        kept[agent] += value * z[source]
    total = links.self_weights[:, None] * kept
    for receiver, weight, message in zip(links.receivers, links.weights, carried, strict=True):
        total[receiver] += weight * message
    return total


def _through_relay(psi, silent, noise_map, links, z, counts):
    """Every agent's own copy is its message; what the relay owns is added to the average of those that it hears."""
    sent, added = psi.copy(), np.zeros(psi.shape[1])
    for agent, source, value in zip(noise_map.self_index, noise_map.self_source, noise_map.self_value, strict=True):
        if noise_map.of_relay[source]:
            added += links.perron[agent] * value * z[source]
        else:
            sent[agent] += value * z[source]
    heard = silent + counts[:, None] * (sent - silent)
    return np.tile(links.perron @ heard + added, (len(psi), 1))
