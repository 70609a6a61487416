"""What the repeats of a simulation would give away, and what is said where that is not known."""

import dataclasses
import math

import pytest

import sottovoce as sv
from sottovoce.accounting.tradeoff import FixedSizeTradeoff, GaussianTradeoff, PureTradeoff, SubsampledTradeoff
from sottovoce.experiments.releases import LARGEST_SAMPLED, epsilon_of_repeats, release_note

ONE = sv.account(
    sv.topologies.ring(4), sv.algorithms.atc(step_size=0.1), sv.noise.independent(sv.noise.Gaussian(std=1.0)), sv.observers.eavesdropper(),
    rounds=3, sensitivity=1.0,
)  # fmt: skip


def of(tradeoff):
    return dataclasses.replace(ONE, tradeoff=tradeoff)


def test_repeats_together_are_composed():
    assert epsilon_of_repeats(of(GaussianTradeoff(0.5)), repeats=4, delta=1e-5) == pytest.approx(
        sv.accounting.gaussian.epsilon(1.0, 1e-5), rel=1e-12
    )
    assert epsilon_of_repeats(of(PureTradeoff(0.5)), repeats=4, delta=0.0) == 2.0
    assert epsilon_of_repeats(of(GaussianTradeoff(math.inf)), repeats=4, delta=1e-5) == math.inf


def test_one_repeat_is_one_run():
    assert epsilon_of_repeats(ONE, repeats=1, delta=1e-5) == ONE.epsilon(1e-5)


@pytest.mark.parametrize(
    "sampled",
    [
        SubsampledTradeoff(noise_multiplier=3.0, sampling_rate=0.1, rounds=2, adjacency="add-remove"),
        FixedSizeTradeoff(noise_multiplier=3.0, sampling_rate=0.1, rounds=2),
    ],
)
def test_sampled_repeats_are_not_computed_where_the_grid_would_not_fit(sampled):
    found = of(sampled)
    repeats = math.ceil(LARGEST_SAMPLED / found.epsilon(1e-5)) + 1
    assert epsilon_of_repeats(found, repeats=repeats, delta=1e-5) is None
    assert epsilon_of_repeats(found, repeats=2, delta=1e-5) > found.epsilon(1e-5)


def test_repeats_whose_rounding_exceeds_delta_are_not_computed():
    found = of(SubsampledTradeoff(noise_multiplier=50.0, sampling_rate=0.01, rounds=1, adjacency="add-remove"))
    with pytest.raises(sv.UnsupportedClaim, match="rounding error"):
        sv.accounting.repeated(found.tradeoff, 10**6).epsilon(1e-9)
    assert epsilon_of_repeats(found, repeats=10**6, delta=1e-9) is None


@pytest.mark.parametrize(
    ("repeats", "together", "ends"),
    [
        (1, [2.0], "The one repeat would be one release."),
        (
            5,
            [2.0, 7.12341],
            "The 5 repeats would be 5 releases about the same data; all together have epsilon up to 7.124.",
        ),
        (5, [2.0, math.inf], "all together have epsilon up to inf."),
        (5, [2.0, None], "epsilon of all together is not computed."),
    ],
)
def test_the_note_counts_releases_and_never_states_less_than_the_largest(repeats, together, ends):
    note = release_note(seed=9, repeats=repeats, together=together)
    assert note.startswith(
        "Simulated: anyone can draw this noise again from seed 9, so the models must not be released."
    )
    assert note.endswith(ends)
