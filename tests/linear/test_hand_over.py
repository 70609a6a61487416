"""Once the noise stops, everybody must have gone on from what was sent; otherwise the rest is sent in clear."""

import pytest

import sottovoce as sv
from sottovoce.linear import check_hand_over

LAW = sv.noise.Gaussian(std=1.0)
RING = sv.topologies.ring(4)


def test_an_algorithm_that_falls_silent_needs_own_copies_that_are_messages_on_fixed_links_in_every_noisy_round():
    dgd = sv.algorithms.dgd(step_size=0.1, gradient_rounds=2)
    check_hand_over(dgd, sv.noise.independent(LAW), RING, 6)
    with pytest.raises(sv.IncompatibleChoice, match="own copies differ"):
        check_hand_over(dgd, sv.noise.independent(LAW, self_noise=False), RING, 6)
    with pytest.raises(sv.IncompatibleChoice, match="links come and go"):
        check_hand_over(dgd, sv.noise.independent(LAW), RING.with_dropout(0.5), 6)
    with pytest.raises(sv.IncompatibleChoice, match="in round 3"):
        check_hand_over(dgd, sv.noise.independent(LAW).scaled([1, 1, 0, 1, 1, 1]), RING, 6)


def test_noise_that_never_stops_hands_nothing_over():
    check_hand_over(sv.algorithms.atc(step_size=0.1), sv.noise.graph_homomorphic(LAW), RING.with_dropout(0.5), 6)
