"""What parties cannot carry out is refused before anything is sent, with the reason."""

from types import SimpleNamespace

import numpy as np
import pytest

import sottovoce as sv
from deployment.agent.cases import FEDERATION, GRAPH, LATTICE, LAW, LINKS, PROBLEM, SCHEMES, played, public_run
from deployment.agent.recursion import Rehearsal, Table
from sottovoce.deployment.agent import Wiring, check_deployable, own_of, play, prepare, start, take
from sottovoce.deployment.integers import Lattice
from sottovoce.noise import broadcast_map

ATC = sv.algorithms.atc(step_size=0.05)
FEDAVG = sv.algorithms.fedavg(step_size=0.05)
MASKED = sv.algorithms.fedavg(step_size=0.05, aggregation=sv.algorithms.Gopa(partners=2))
TABLE = Table(1, 3, LAW)


def scheme(change, **options):
    """A broadcast scheme whose map is changed."""
    return sv.noise.independent(LAW)._replace(
        name="changed", spread=lambda links: change(broadcast_map(links, np.ones(len(links.perron))), links), **options
    )


def wiring(noise, topology=GRAPH, algorithm=ATC, lattice=LATTICE, **options):
    return Wiring(public_run(topology, algorithm, noise), lattice, TABLE, **options)


@pytest.mark.parametrize(
    ("topology", "algorithm", "noise", "reason"),
    [
        (GRAPH.with_walk(), sv.algorithms.random_walk(step_size=0.1), SCHEMES["independent"], "traffic shows"),
        (sv.topologies.federation(5), MASKED, SCHEMES["independent"], "board that everybody reads and a beacon"),
        (GRAPH, ATC, sv.noise.independent(sv.noise.L2Laplace(scale=0.1)), "no sampler draws it in whole numbers"),
        (FEDERATION, FEDAVG, SCHEMES["central"], "an untrusted relay reads everything"),
        (LINKS["dropout"], ATC, SCHEMES["local_graph_homomorphic"], "can be left with one"),
        (FEDERATION, FEDAVG, SCHEMES["graph_homomorphic"], "cannot be carried"),
        (
            GRAPH,
            sv.algorithms.three_matrix(step_size=0.1, first=GRAPH, last=FEDERATION),
            SCHEMES["independent"],
            "go through a relay and others",
        ),
        (GRAPH, FEDAVG._replace(needs_relay="it"), SCHEMES["independent"], "has no relay"),
        (GRAPH, ATC, SCHEMES["independent"]._replace(memory=np.full((1, 1, 1), 0.5)), "noise of earlier rounds again"),
    ],
)
def test_runs_that_parties_cannot_carry_out_are_refused(topology, algorithm, noise, reason):
    with pytest.raises(sv.IncompatibleChoice, match=reason):
        check_deployable(public_run(topology, algorithm, noise), relay_trusted=False)


def test_an_algorithm_that_falls_silent_is_held_to_the_hand_over():
    dgd = sv.algorithms.dgd(step_size=0.1, gradient_rounds=2)
    with pytest.raises(sv.IncompatibleChoice, match="own copies differ"):
        wiring(SCHEMES["independent, no self-noise"], algorithm=dgd)


def test_links_with_equal_multiples_draw_their_source_at_that_size():
    half = scheme(lambda made, links: made._replace(link_value=0.5 * made.link_value, self_value=0.5 * made.self_value))
    part = wiring(half).part(0, 0)
    assert part.sources == ((0, -1, 0.05 / LATTICE.unit),)
    assert part.on_links.tolist() == [[1], [1], [1]]
    assert part.on_own.tolist() == [1.0]
    turned = scheme(lambda made, links: made._replace(self_value=-3.0 * made.self_value))
    assert wiring(turned).part(0, 0).on_own.tolist() == [-3.0]


def test_links_with_different_multiples_of_a_source_are_refused():
    uneven = scheme(lambda made, links: made._replace(link_value=1.0 + links.receivers / 10))
    with pytest.raises(sv.IncompatibleChoice, match=r"0 on one link 1\.1 times and on another 1\.4 times"):
        wiring(uneven)


def test_a_source_that_its_user_does_not_know_is_refused():
    foreign = scheme(lambda made, links: made._replace(link_source=(links.senders + 1) % 5))
    with pytest.raises(sv.ConfigError, match=r"which only \[2\] know"):
        wiring(foreign)


def test_masks_that_do_not_pair_up_are_refused():
    """A third neighbour that shares a source would leave a mask in the sum: 2 - 1 - 1 cancels in real numbers, not in pairs."""
    base = sv.noise.local_graph_homomorphic(LAW)

    def doubled(links):
        made = base.spread(links)
        return made._replace(link_value=2.0 * made.link_value)

    with pytest.raises(sv.IncompatibleChoice, match="not in pairs of links"):
        wiring(base._replace(spread=doubled), topology=sv.topologies.ring(5))


def test_noise_without_room_in_a_word_is_refused():
    with pytest.raises(sv.ConfigError, match="there is room for"):
        wiring(SCHEMES["independent"], lattice=Lattice(24, bound_bits=20))
    with pytest.raises(sv.ConfigError, match="there is room for"):
        wiring(SCHEMES["gradient"], lattice=Lattice(24, bound_bits=20))
    wide = SimpleNamespace(unit=LATTICE.unit, bound=2**62)  # three such words wrap round
    with pytest.raises(sv.ConfigError, match="a sum of masked words"):
        wiring(SCHEMES["local_graph_homomorphic"], topology=sv.topologies.ring(5), lattice=wide)
    # Where links drop out, a round in which all are there has the most noise.
    dropping = sv.topologies.complete(5).with_dropout(0.9)
    with pytest.raises(sv.ConfigError, match="there is room for"):
        wiring(sv.noise.gopa(LAW, pairwise_std=0.06), topology=dropping, lattice=Lattice(24, bound_bits=26))


def test_noise_of_less_than_a_unit_or_beyond_the_sampler_is_refused():
    with pytest.raises(sv.ConfigError, match="2\\^-10"):
        wiring(SCHEMES["independent"], lattice=Lattice(-8))
    with pytest.raises(sv.ConfigError, match="2\\^36"):
        wiring(SCHEMES["independent"], lattice=Lattice(42))


def test_problems_of_another_size_and_starting_points_that_are_none_are_refused():
    run = public_run(sv.topologies.ring(4), ATC, SCHEMES["none"])
    with pytest.raises(sv.ConfigError, match="the problem has 5 agents"):
        played(run, TABLE)
    with pytest.raises(sv.ConfigError, match="agent 5 of a problem with 5"):
        own_of(PROBLEM, 5)
    for wrong in (np.zeros(0), np.zeros((1, 3)), np.array([np.nan, 0.0, 0.0]), np.zeros(3, dtype=int)):
        other = type(run)(
            topology=GRAPH, algorithm=ATC, noise=SCHEMES["none"], rounds=1, batch_size=None, initial_model=wrong
        )
        with pytest.raises(sv.ConfigError, match="initial_model has shape"):
            play(other, LATTICE, PROBLEM, lambda agent: None, TABLE) if wrong.shape == (3,) else Wiring(
                other, LATTICE, TABLE
            )


def test_updates_of_sampled_agents_take_no_gradient_at_the_relay_nor_at_an_agent():
    curious = FEDAVG.exchanges[0]._replace(update=lambda w, received, gradient, round_: received - gradient(w))
    algorithm = sv.algorithms.fedavg(step_size=0.05, participation=0.5)._replace(exchanges=(curious,))
    run = public_run(FEDERATION, algorithm, SCHEMES["independent"])
    with pytest.raises(sv.ProtocolError, match="where agents are sampled"):
        played(run, TABLE)
    agents = Wiring(run, LATTICE, TABLE)
    made = prepare(agents, 0, own_of(PROBLEM, 0), start(run, LATTICE), 0, Rehearsal(TABLE, 0), None)
    with pytest.raises(sv.ProtocolError, match="where agents are sampled"):
        take(agents, 0, own_of(PROBLEM, 0), made.state, 0, made.held, {5: np.zeros(3, dtype=np.uint64)})
