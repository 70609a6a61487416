"""Parties have keys of two: sources of three agents and of a generator are refused, wherever a map is bound."""

import numpy as np
import pytest

import sottovoce as sv
from accounting.stacked_maps import generated_noise, table_noise
from deployment.agent.cases import public_run
from sottovoce.deployment.agent.wiring import Wiring
from sottovoce.deployment.integers import Lattice
from sottovoce.deployment.terms import PublicCoin, bind_among_parties
from sottovoce.noise import bind

RING = sv.topologies.ring(4)
ATC = sv.algorithms.atc(step_size=0.1)
THREE = table_noise(np.hstack([np.eye(4), [[1.0], [1.0], [-2.0], [0.0]]]), [[0], [1], [2], [3], [0, 1, 2]])


@pytest.mark.parametrize(
    ("noise", "said"), [(THREE, r"\[0, 1, 2\], and the keys of parties"), (generated_noise(np.eye(4)), "generator")]
)
def test_what_no_two_parties_can_draw_is_refused(noise, said):
    with pytest.raises(sv.IncompatibleChoice, match=said):
        bind_among_parties(noise, RING.active_links())
    with pytest.raises(sv.IncompatibleChoice, match=said):
        Wiring(public_run(RING, ATC, noise), Lattice(24), PublicCoin(bytes(32)))


def test_two_owners_in_a_wider_table_are_taken():
    noise = sv.noise.gopa(sv.noise.Gaussian(std=1.0), pairwise_std=1.0)

    def wide(links):
        bound = noise.spread(links)
        return bound._replace(owners=np.pad(bound.owners, ((0, 0), (0, 2)), constant_values=-1))

    bound = bind_among_parties(noise._replace(spread=wide), RING.active_links())
    assert np.array_equal(bound.owners, bind(noise, RING.active_links()).owners)
