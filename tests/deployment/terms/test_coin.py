"""Draws that everybody makes alike: uniform, independent, and the same for all who hold the agreement."""

import numpy as np
import pytest
from scipy import stats

from sottovoce.algorithms import FixedAgents, PoissonAgents, SilentAgents
from sottovoce.deployment.terms import PublicCoin
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.topologies import complete, ring

COIN = PublicCoin(bytes(range(32)))
ROUNDS = range(1, 2001)
PLAUSIBLE = 1e-4  # p below this is refused; wrong laws must fall below it


def chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    return float(stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue)


def test_everybody_who_holds_the_agreement_draws_the_same() -> None:
    other, pairs = PublicCoin(bytes(range(32))), ring(6).pairs
    for round_ in (1, 2, 1000):
        np.testing.assert_array_equal(COIN.kept_pairs(round_, pairs, 0.3), other.kept_pairs(round_, pairs, 0.3))
        assert COIN.pair(round_, 6) == other.pair(round_, 6)
        np.testing.assert_array_equal(
            COIN.takes_part(round_, FixedAgents(2), 6), other.takes_part(round_, FixedAgents(2), 6)
        )


def test_draws_are_the_same_on_every_machine() -> None:
    """A snapshot: whoever changes it changes what parties of two versions draw."""
    kept = COIN.kept_pairs(3, complete(6).pairs, 0.5)
    assert kept.astype(int).tolist() == [1, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 1, 1, 1, 0]
    assert [COIN.pair(t, 1000) for t in range(1, 6)] == [800, 176, 904, 638, 729]
    assert COIN.takes_part(1, FixedAgents(3), 8).nonzero()[0].tolist() == [0, 1, 7]
    assert COIN.takes_part(1, PoissonAgents(0.5), 8).nonzero()[0].tolist() == [0, 1, 3, 4, 5, 7]


def test_another_agreement_or_round_or_use_draws_otherwise() -> None:
    pairs, other = complete(30).pairs, PublicCoin(bytes(32))
    base = COIN.kept_pairs(1, pairs, 0.5)
    for found in (other.kept_pairs(1, pairs, 0.5), COIN.kept_pairs(2, pairs, 0.5)):
        assert stats.binomtest(int((found == base).sum()), len(pairs), 0.5).pvalue > PLAUSIBLE
    drawn = COIN.takes_part(1, PoissonAgents(0.5), len(pairs)) > 0
    assert stats.binomtest(int((drawn == base).sum()), len(pairs), 0.5).pvalue > PLAUSIBLE


def test_a_pair_is_there_or_not_whatever_other_links_a_topology_has() -> None:
    few, all_pairs = ring(6).pairs, complete(6).pairs
    places = [int(np.flatnonzero((all_pairs == pair).all(axis=1))[0]) for pair in few]
    for round_ in range(1, 50):
        np.testing.assert_array_equal(
            COIN.kept_pairs(round_, few, 0.5), COIN.kept_pairs(round_, all_pairs, 0.5)[places]
        )


@pytest.mark.parametrize("probability", [0.3, 0.5, 0.05])
def test_pairs_drop_out_as_often_as_agreed(probability: float) -> None:
    pairs = complete(5).pairs
    kept = np.array([COIN.kept_pairs(t, pairs, probability) for t in ROUNDS])
    dropped = int((~kept).sum())
    assert stats.binomtest(dropped, kept.size, probability).pvalue > PLAUSIBLE
    assert (
        stats.binomtest(dropped, kept.size, probability * 1.1).pvalue < PLAUSIBLE
    )  # 20,000 draws tell 10 % apart at 0.3
    # Pairs are independent: the number dropped in a round is binomial.
    counts = np.bincount((~kept).sum(axis=1), minlength=len(pairs) + 1)
    law = stats.binom.pmf(np.arange(len(pairs) + 1), len(pairs), probability)
    rare = law * len(kept) < 5
    merged = np.append(counts[~rare], counts[rare].sum()), np.append(law[~rare], law[rare].sum())
    assert chi_square(*merged) > PLAUSIBLE


def test_nothing_drops_out_where_nothing_may() -> None:
    assert COIN.kept_pairs(1, ring(50).pairs, 0.0).all()
    assert (COIN.takes_part(1, PoissonAgents(1.0), 50) == 1.0).all()


@pytest.mark.parametrize("num_pairs", [1, 7, 12])
def test_every_pair_is_awake_equally_often(num_pairs: int) -> None:
    counts = np.bincount([COIN.pair(t, num_pairs) for t in ROUNDS], minlength=num_pairs)
    assert len(counts) == num_pairs
    if num_pairs > 1:
        assert chi_square(counts, np.ones(num_pairs)) > PLAUSIBLE
        skewed = np.ones(num_pairs)
        skewed[0] = 1.5
        assert chi_square(counts, skewed) < PLAUSIBLE


def test_a_remainder_favours_no_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    words = np.array(
        [2**64 - 1, 2**64 - 2, 5], dtype=np.uint64
    )  # 2^64 = 1 modulo 5 and modulo 3: the last word is refused
    monkeypatch.setattr(PublicCoin, "_words", lambda self, use, round_, count: words[:count])
    assert COIN.pair(1, 5) == (2**64 - 2) % 5
    assert COIN.pair(1, 3 * 2**62) == (5 if 2**64 % (3 * 2**62) else 0)


def test_every_set_of_agents_is_drawn_equally_often() -> None:
    sets = [tuple(np.flatnonzero(COIN.takes_part(t, FixedAgents(2), 5))) for t in ROUNDS]
    _, counts = np.unique(np.array(sets), axis=0, return_counts=True)
    assert len(counts) == 10
    assert chi_square(counts, np.ones(10)) > PLAUSIBLE
    skewed = np.ones(10)
    skewed[0] = 1.6
    assert chi_square(counts, skewed) < PLAUSIBLE


def test_agents_count_as_in_a_simulation() -> None:
    assert set(COIN.takes_part(1, FixedAgents(2), 6)) == {0.0, 3.0}
    assert set(COIN.takes_part(1, PoissonAgents(0.25), 60)) == {0.0, 4.0}


def test_agents_take_part_as_often_as_agreed() -> None:
    drawn = np.array([COIN.takes_part(t, PoissonAgents(0.3), 10) for t in ROUNDS]) > 0
    assert stats.binomtest(int(drawn.sum()), drawn.size, 0.3).pvalue > PLAUSIBLE
    assert stats.binomtest(int(drawn.sum()), drawn.size, 0.32).pvalue < PLAUSIBLE
    per_agent = drawn.sum(axis=0)
    assert min(stats.binomtest(int(count), len(drawn), 0.3).pvalue for count in per_agent) > PLAUSIBLE


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(IncompatibleChoice, match="silence happens and is not drawn"):
        COIN.takes_part(1, SilentAgents(0.1, 2), 5)
    with pytest.raises(ConfigError, match="3 of 2 agents"):
        COIN.takes_part(1, FixedAgents(3), 2)
    with pytest.raises(ConfigError, match="no pair"):
        COIN.pair(1, 0)
    with pytest.raises(ConfigError, match="32 bytes"):
        PublicCoin(b"short")
