import numpy as np
import pytest
from matplotlib.collections import PathCollection

import sottovoce as sv
from sottovoce.errors import ConfigError
from sottovoce.reports import exposure


def agents(figure):
    return next(each for each in figure.axes[0].collections if isinstance(each, PathCollection))


@pytest.mark.parametrize("topology", [sv.topologies.grid(3, 4), sv.topologies.geometric(600, 0.15, seed=0)], ids=str)
def test_agents_have_the_colours_of_their_losses_and_the_attacker_a_star_at_its_place(topology):
    K, attacker = topology.num_agents, 5
    losses = np.linspace(0.0, 0.8, K)
    losses[attacker] = np.nan
    figure = exposure(topology, losses, attacker, label="mu", largest=1.0)
    drawn = agents(figure)
    assert drawn.get_clim() == (0.0, 1.0)
    array = drawn.get_array()
    assert np.flatnonzero(np.ma.getmaskarray(array)).tolist() == [attacker]
    np.testing.assert_allclose(np.delete(array.filled(0), attacker), np.delete(losses, attacker))
    (star,) = [line for line in figure.axes[0].get_lines() if line.get_marker() == "*"]
    np.testing.assert_allclose(star.get_xydata()[0], np.asarray(drawn.get_offsets())[attacker])
    assert star.get_label() == "attacker: agent 5"


def test_the_star_hides_no_number_and_the_numbers_can_be_read():
    losses = np.array([0.0, 1.0, 1.0, 0.0])
    figure = exposure(sv.topologies.ring(4), losses, 0, label="mu")
    assert [text.get_visible() for text in figure.axes[0].texts] == [False, True, True, True]
    assert [text.get_color() for text in figure.axes[0].texts][1:] == ["black", "black", "white"]


@pytest.mark.parametrize(
    ("losses", "attacker", "words"),
    [
        (np.ones(3), 0, "one entry per agent"),
        (np.ones(4), 4, "the agents are 0 to 3"),
        ([1.0, np.inf, 1.0, 1.0], 0, "not finite"),
        ([1.0, -1.0, 1.0, 1.0], 0, "below 0"),
    ],
)
def test_what_cannot_be_coloured_is_refused(losses, attacker, words):
    with pytest.raises(ConfigError, match=words):
        exposure(sv.topologies.ring(4), losses, attacker, label="mu")


def test_many_agents_without_places_are_refused():
    with pytest.raises(ConfigError, match="readable up to 500"):
        exposure(sv.topologies.ring(501), np.ones(501), 0, label="mu")
