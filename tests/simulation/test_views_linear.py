"""Recorded views against the linear system of the accountant: constant gradients, so that every message is linear in gradients and noise.

    y = Phi g + Psi_known z_known + Psi_hidden z_hidden

What is left of a recorded view without the first two terms has the covariance Psi_hidden Psi_hidden': exactly zero where nothing hides it.
"""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.linear import bound_rounds, network_round
from sottovoce.noise import RELAY, known_sources
from sottovoce.observers import view
from sottovoce.simulation.views import observe

GAUSSIAN = sv.noise.Gaussian(std=0.4)
RING, FEDERATION = sv.topologies.ring(5), sv.topologies.federation(5)
LISTED = RING.with_schedule([RING, sv.topologies.complete(5)])
ATC, ROUNDS, REPEATS = sv.algorithms.atc(step_size=0.5), 3, 20_000
EAVESDROPPER, MODEL = sv.observers.eavesdropper(), sv.observers.final_model()
CASES = {
    "pairs, some known": (RING, ATC, sv.noise.gopa(GAUSSIAN, pairwise_std=0.7), EAVESDROPPER + sv.observers.coalition([0, 2])),
    "different sources in a list": (LISTED, ATC, sv.noise.local_graph_homomorphic(GAUSSIAN), EAVESDROPPER + sv.observers.curious_agent(3) + MODEL),
    "a relay's noise": (FEDERATION, sv.algorithms.fedavg(step_size=0.5), sv.noise.central(GAUSSIAN), sv.observers.server() + MODEL),
    "a broadcast": (FEDERATION, sv.algorithms.fedavg(step_size=0.5), sv.noise.independent(GAUSSIAN), sv.observers.curious_agent(1) + MODEL),
    "several exchanges": (RING, sv.algorithms.muffliato(step_size=0.5, gossip_steps=2), sv.noise.independent(GAUSSIAN), EAVESDROPPER),
    "in gradients": (RING, sv.algorithms.muffliato(step_size=0.5, gossip_steps=2), sv.noise.gradient(GAUSSIAN), sv.observers.coalition([0, 1])),
}  # fmt: skip
SLOW_CASES = {
    "own copies differ": (RING, sv.algorithms.cta(step_size=0.5), sv.noise.graph_homomorphic(GAUSSIAN), sv.observers.curious_agent(2) + MODEL),
    "per edge, scheduled": (RING, sv.algorithms.consensus(step_size=0.5), sv.noise.independent(GAUSSIAN, per_edge=True).scaled(lambda t: t), sv.observers.links([(0, 1), (3, 2)])),
    "server, own noise": (FEDERATION, sv.algorithms.inexact_admm(penalty=2.0), sv.noise.gopa(GAUSSIAN, pairwise_std=0.7), sv.observers.server() + sv.observers.coalition([1])),
}  # fmt: skip


def slope_loss(parameters, batch):
    return (batch[0] @ parameters).mean()


GRADIENTS = np.random.default_rng(3).normal(size=(5, 1, 2))
PROBLEM = sv.problems.custom_loss(slope_loss, np.zeros(2), GRADIENTS)


def predicted(topology, algorithm, noise, observer):
    """Rows of all rounds over the gradients [., K], the unit known sources [., S] and the hidden ones times their scales [., S']."""
    bound = bound_rounds(topology, algorithm, noise, ROUNDS)
    sees = view(observer, *(topology for _ in algorithm.exchanges))
    state, found = None, []
    widths = [network_round(bound.at(t)).owners.shape[0] for t in range(ROUNDS)]
    starts, total = np.cumsum([0, *widths]), sum(widths)
    hidden = np.ones(total, dtype=bool)
    for t in range(ROUNDS):
        net = network_round(bound.at(t))
        states, agents = net.num_states, net.num_agents
        columns = slice(starts[t], starts[t + 1])
        of_relay = net.owners[:, 0] == RELAY
        hidden[columns] = ~(known_sources(net.owners, sees.members) | (of_relay & sees.every_message))
        if state is None:
            state = np.zeros((states, agents + total))
        inputs = np.zeros((agents + widths[t], agents + total))
        inputs[:agents, :agents] = np.eye(agents)
        inputs[agents:, agents + starts[t] : agents + starts[t + 1]] = np.eye(widths[t])

        def forms(rows, state=state, inputs=inputs, states=states):
            rows = rows.toarray()
            return rows[:, :states] @ state + rows[:, states:] @ inputs

        for j in range(len(net.links)):
            if not topology.relay:
                rows = forms(net.links[j])[sees.links[j]] * net.active[j][sees.links[j], None]
            elif sees.every_message:
                rows = forms(net.own[j])
                rows[:, agents + starts[t] : agents + starts[t + 1]] *= ~of_relay  # it is added after the uplinks
            else:
                rows = forms(net.received[j][:1])
            found.append(rows)
        if t == ROUNDS - 1 and sees.final_model:
            found.append(bound.centroid.weights[None, :] @ forms(net.model))
        state = forms(net.state)
    rows = np.concatenate(found)
    scales = np.repeat(bound.scales, widths)
    noise_part = rows[:, agents:]
    return rows[:, :agents], noise_part[:, ~hidden], noise_part[:, hidden] * scales[hidden], ~hidden, starts


def stacked(found):
    """[repeats, rows, d], rows in the order of rounds and exchanges."""
    parts = []
    for t in range(ROUNDS):
        for e in range(len(found.messages)):
            parts.append(found.messages[e][:, t] if not found.broadcast else found.broadcast[e][:, t, None])
    if found.final_model is not None:
        parts.append(found.final_model[:, None])
    return np.concatenate(parts, axis=1)


def known_of_rounds(found, known, starts):
    """[repeats, S, d]; of sources that differ between listed matrices only those of the round's own matrix."""
    parts, before = [], 0
    for t in range(ROUNDS):
        sources = np.concatenate([part[:, t] for part in found.sources], axis=1)
        number = int(known[starts[t] : starts[t + 1]].sum())
        if sources.shape[1] > number:
            first = 0 if t % 2 == 0 else before
            others = np.delete(sources, np.arange(first, first + number), axis=1)
            assert not others.any()
            sources, before = sources[:, first : first + number], number
        parts.append(sources)
    return np.concatenate(parts, axis=1)


@pytest.mark.parametrize("case", [*CASES, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW_CASES)])
def test_the_linear_system_predicts_the_recorded_view(case):
    """20000 runs of two coordinates: every covariance within six standard errors, 1/140 of a variance; scales wrong by 5 % are rejected."""
    topology, algorithm, noise, observer = (CASES | SLOW_CASES)[case]
    found = observe(PROBLEM, topology, algorithm, noise, observer, rounds=ROUNDS, repeats=REPEATS, seed=2)
    phi, psi_known, psi_hidden, known, starts = predicted(topology, algorithm, noise, observer)
    rest = stacked(found) - phi @ GRADIENTS[:, 0]
    rest = rest - np.einsum("ys,rsd->ryd", psi_known, known_of_rounds(found, known, starts))
    exact = psi_hidden @ psi_hidden.T
    clear = np.diag(exact) < 1e-20
    np.testing.assert_allclose(rest[:, clear], 0.0, atol=1e-11)
    if clear.all():  # a server under a relay's noise reads everything
        assert case == "a relay's noise"
        return
    samples = rest[:, ~clear].transpose(0, 2, 1).reshape(2 * REPEATS, -1)
    exact, sample = exact[np.ix_(~clear, ~clear)], samples.T @ samples / len(samples)
    error = np.sqrt((np.outer(np.diag(exact), np.diag(exact)) + exact**2) / len(samples))
    assert np.abs((sample - exact) / error).max() < 6
    for wrong in (0.95, 1.05):
        assert np.abs((sample - wrong**2 * exact) / error).max() > 6


def test_without_noise_the_view_is_the_gradients_through_the_linear_system():
    observer = EAVESDROPPER + MODEL
    found = observe(PROBLEM, LISTED, ATC, sv.noise.none(), observer, rounds=ROUNDS)
    phi, *_ = predicted(LISTED, ATC, sv.noise.none(), observer)
    np.testing.assert_allclose(stacked(found)[0], phi @ GRADIENTS[:, 0], rtol=0, atol=1e-13)
    assert np.abs(phi).max() > 0.1


def test_a_members_first_message_is_its_step_and_the_source_it_knows():
    """Agent 1 sends -step g_1 plus the noise that it knows: rebuilt by hand, link by link."""
    noise, observer = sv.noise.independent(GAUSSIAN, per_edge=True), EAVESDROPPER + sv.observers.curious_agent(1)
    found = observe(PROBLEM, RING, ATC, noise, observer, rounds=1, repeats=4)
    links, sent = found.layout.links[0], found.messages[0][:, 0]
    leaving = np.flatnonzero(links[:, 0] == 1)
    assert len(found.layout.sources[0]) == len(leaving) + 1  # one per link, one for its own copy
    rebuilt = -0.5 * GRADIENTS[1, 0] + found.sources[0][:, 0, : len(leaving)]
    np.testing.assert_allclose(sent[:, leaving], rebuilt, rtol=0, atol=1e-14)
    assert np.abs(found.sources[0]).min() > 1e-4
