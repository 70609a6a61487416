"""Pairs in percent: the share of right guesses, epsilon below, and no word of a guarantee where there is none; of a walk, epsilon."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

import sottovoce as sv
from sottovoce.accounting import gaussian
from sottovoce.experiments import Pairs
from sottovoce.reports.pictures import words
from sottovoce.reports.pictures.pair_pictures import (
    NO_GUARANTEE,
    attacker_title,
    pair_scale,
    pairs_distance_picture,
    pairs_picture,
    right_guesses,
)

MU = np.array([[np.nan, 1.0, 0.2], [1.0, np.nan, 1.5], [0.2, 1.5, np.nan]])


@pytest.fixture(scope="module")
def pairs():
    """Three agents in a row, with what is proven for the first of them."""
    found = sv.account(
        sv.topologies.path(3), sv.algorithms.atc(step_size=0.1), sv.noise.independent(sv.noise.Gaussian(std=1.0)), sv.observers.curious_agent(0),
        rounds=2, sensitivity=1.0, agent=1,
    )  # fmt: skip
    return Pairs(
        losses=MU, resolved=None, distances=np.array([[0, 1, 2], [1, 0, 1], [2, 1, 0]]), attacker=0, proven=(found,),
        validity="exogenous-gradients", method="linear view", delta=1e-5, unit="record", rounds=2,
    )  # fmt: skip


@pytest.mark.parametrize("mu", [0.0, 0.3, 2.0, 40.0])
def test_the_best_guess_between_two_equally_likely_normal_worlds_is_right_so_often(mu):
    # Between N(0, 1) and N(mu, 1) the best guess decides at mu / 2.
    right = 0.5 * (stats.norm.cdf(mu / 2) + stats.norm.sf(mu / 2, loc=mu))
    assert float(right_guesses(mu)) == pytest.approx(right, rel=1e-12)


def test_squares_are_shares_from_a_coin_to_the_largest(pairs):
    picture = pairs_picture(pairs)
    cells = picture.panels[0].cells
    assert cells.values[0][1] == pytest.approx(stats.norm.cdf(0.5))
    assert cells.values[1][1] is None
    assert cells.limits == pytest.approx((0.5, stats.norm.cdf(0.75)))
    assert cells.percent
    assert "coin" in cells.label


def test_agents_with_names_have_them_beside_the_squares(pairs):
    panel = pairs_picture(pairs, ["Basel", "Bern", "Genève"]).panels[0]
    assert panel.x.ticks == panel.y.ticks == ((0.0, "Basel"), (1.0, "Bern"), (2.0, "Genève"))
    assert (panel.x.label, panel.y.label) == ("who looks", "whose data")
    assert pairs_picture(pairs).panels[0].x.ticks is None


def test_infinite_pairs_are_marked_and_epsilon_is_called_infinite(pairs):
    clear = np.where(MU == 1.5, np.inf, MU)
    picture = pairs_picture(dataclasses.replace(pairs, losses=clear))
    assert picture.panels[0].cells.infinite == ((1, 2), (2, 1))
    assert picture.facts[0] == ("the pair most exposed, in this view", "infinite")
    assert "infinite: something is in clear" in [key.name for key in picture.keys]


def test_epsilon_stands_below_and_a_linear_view_is_called_no_guarantee(pairs):
    for picture in (pairs_picture(pairs), pairs_distance_picture(pairs)):
        assert picture.subtitle == NO_GUARANTEE
        assert picture.facts_title == "epsilon of one record at delta = 1e-05, smaller is more private"
        assert dict(picture.facts)["the pair most exposed, in this view"] == words.epsilon(gaussian.epsilon(1.5, 1e-5))
        proven = words.epsilon(pairs.proven[0].epsilon(1e-5))
        assert dict(picture.facts)["proven for whatever agent 0 sees"] == proven
        assert proven in attacker_title(pairs)


def test_an_exact_loss_is_not_called_a_view(pairs):
    exact = dataclasses.replace(pairs, validity="adaptive", resolved=MU)
    picture = pairs_distance_picture(exact)
    assert NO_GUARANTEE not in picture.texts()
    assert [name for name, _ in picture.facts] == ["the pair most exposed"]
    assert [line.label for line in picture.panels[0].lines] == ["median pair"]


def test_distance_has_median_range_and_what_is_proven(pairs):
    line, proven = pairs_distance_picture(pairs).panels[0].lines
    assert line.x == (1.0, 2.0)
    assert line.y == pytest.approx(right_guesses([1.25, 0.2]).tolist())
    assert line.low == pytest.approx(right_guesses([1.0, 0.2]).tolist())
    assert line.high == pytest.approx(right_guesses([1.5, 0.2]).tolist())
    assert proven.y == pytest.approx([float(right_guesses(pairs.proven[0].mu))])
    assert proven.label == "proven limit for agent 0"
    assert math.isclose(pairs_distance_picture(pairs).panels[0].levels[0].value, 0.5)


def test_where_nobody_learns_anything_nothing_is_drawn(pairs):
    assert pairs_distance_picture(dataclasses.replace(pairs, losses=np.where(np.isnan(MU), np.nan, 0.0))) is None


@pytest.fixture
def walk(pairs):
    """Epsilons of a walking token among the same three agents."""
    return dataclasses.replace(
        pairs, measure="epsilon", drawn="epsilon", validity="amplified-by-iteration", proven=(), method="average over all ways of the token"
    )  # fmt: skip


def test_a_walk_is_drawn_in_epsilon_and_the_pair_most_exposed_is_named(walk):
    for picture in (pairs_picture(walk), pairs_distance_picture(walk)):
        assert "coin" not in " ".join(picture.texts())
        assert NO_GUARANTEE not in picture.texts()
        assert picture.facts == (("the pair most exposed, agent 1 towards agent 2", "1.5"),)
    cells = pairs_picture(walk).panels[0].cells
    assert (cells.label, cells.limits, cells.percent) == ("epsilon at delta = 1e-05", (0.2, 1.5), False)
    assert cells.values[0][1] == 1.0
    (line,) = pairs_distance_picture(walk).panels[0].lines
    assert (line.y, line.low, line.high) == ((1.25, 0.2), (1.0, 0.2), (1.5, 0.2))
    assert pairs_distance_picture(walk).panels[0].levels == ()
    assert attacker_title(walk).endswith("epsilon proven for one record: 1, at delta = 1e-05")


def test_a_known_path_is_drawn_in_epsilon_of_its_mu(walk):
    path = dataclasses.replace(walk, measure="mu")
    assert pairs_picture(path).panels[0].cells.values[0][1] == pytest.approx(gaussian.epsilon(1.0, 1e-5))
    assert pairs_picture(path).facts[0][1] == words.epsilon(gaussian.epsilon(1.5, 1e-5))


def test_colours_of_epsilon_begin_at_0_where_all_pairs_are_nearly_alike(walk):
    alike = dataclasses.replace(walk, losses=np.where(np.isnan(MU), np.nan, 0.7))
    assert pairs_picture(alike).panels[0].cells.limits == (0.0, 0.7)
    assert pairs_picture(alike).facts == (("the pair most exposed", "0.7"),)
    nothing = dataclasses.replace(walk, losses=np.where(np.isnan(MU), np.nan, 0.0))
    assert pair_scale(nothing).end(nothing.losses) > 0
    assert pairs_distance_picture(nothing) is None
