"""Pictures as values: without Matplotlib, one colour for one thing, labels apart, at most six lines."""

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sottovoce as sv
from sottovoce.errors import ConfigError
from sottovoce.reports.pictures import colours, words
from sottovoce.reports.pictures.label_picture import label_picture
from sottovoce.reports.pictures.network_picture import network_picture
from sottovoce.reports.pictures.picture import MAX_LINES, Axis, Line, Panel, spread


def test_one_thing_has_one_colour_however_its_label_is_written():
    tables = (colours.SCHEMES,)
    for one, two in (
        ("graph_homomorphic", "graph-homomorphic, CTA"),
        ("Independent", "independent noise"),
        ("local graph-homomorphic", "local_graph_homomorphic (ATC)"),
    ):
        assert colours.known_colour(one, *tables) == colours.known_colour(two, *tables) is not None
    assert colours.known_colour("local graph-homomorphic", *tables) != colours.known_colour(
        "graph-homomorphic", *tables
    )
    assert colours.known_colour("mine", *tables) is None


def test_labels_of_one_thing_differ_in_dash_and_marker_and_unknown_ones_take_free_colours():
    found = colours.looks(["independent ATC", "independent CTA", "mine", "yours"], colours.SCHEMES)
    assert found["independent ATC"].colour == found["independent CTA"].colour
    assert found["independent ATC"].dash != found["independent CTA"].dash
    assert len(set(found.values())) == 4
    assert len({look.colour for look in found.values()}) == 3


@pytest.mark.parametrize("colour", colours.PALETTE)
def test_letters_are_dark_enough_to_read_on_white(colour):
    red, green, blue = (int(colours.ink(colour)[start : start + 2], 16) / 255 for start in (1, 3, 5))
    assert 0.299 * red + 0.587 * green + 0.114 * blue <= 0.41


@given(st.lists(st.floats(-100, 100), max_size=12), st.floats(0.1, 20))
def test_labels_end_up_apart_in_their_order_and_stay_where_there_is_room(places, gap):
    moved = spread(places, gap)
    order = np.argsort(places, kind="stable")
    apart = np.diff(np.array(moved)[order])
    assert (apart >= gap * (1 - 1e-9) - 1e-9).all()
    if (np.diff(np.sort(places)) >= gap).all():
        np.testing.assert_allclose(moved, places, atol=1e-9)
    if places:
        assert np.mean(moved) == pytest.approx(np.mean(places), abs=1e-6)


def test_more_than_six_named_lines_in_a_panel_are_refused():
    lines = [Line(name=str(n), x=(0.0,), y=(0.0,), colour=colours.BLUE, label=str(n)) for n in range(MAX_LINES + 1)]
    Panel(x=Axis(label=""), y=Axis(label=""), lines=tuple(lines[:MAX_LINES]))
    with pytest.raises(ConfigError, match="several panels"):
        Panel(x=Axis(label=""), y=Axis(label=""), lines=tuple(lines))


def test_a_line_with_missing_or_infinite_numbers_is_refused():
    for y in ((1.0,), (1.0, float("inf"))):
        with pytest.raises(ConfigError, match="finite numbers"):
            Line(name="a", x=(0.0, 1.0), y=y, colour=colours.BLUE)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("eavesdropper", "someone who reads every message"),
        ("eavesdropper + final model", "someone who reads every message, and gets the final model"),
        ("coalition 1, 2", "agents 1, 2 together"),
        ("server and 20 % of the agents", "the server and 20 % of the agents"),
        ("my own observer", "my own observer"),
    ],
)
def test_observers_are_named_in_plain_words(name, expected):
    assert words.observer(name) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(0.0, "0"), (0.01234, "0.0123"), (12345.6, "12,300"), (1.2e-7, "1.2e-07")]
)
def test_numbers_have_three_digits(value, expected):
    assert words.number(value) == expected


def test_the_package_and_its_values_load_neither_matplotlib_nor_jax():
    program = (
        "import sys, sottovoce.reports, sottovoce.reports.pictures\n"
        "print([name for name in ('matplotlib', 'jax', 'pydantic') if name in sys.modules])\n"
        "sottovoce.reports.paint\n"
        "print('matplotlib' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    assert said[:2] == ["[]", "True"]


def test_networks_and_labels_are_plain_values_too():
    grid = network_picture(sv.topologies.grid(2, 3), colours=np.arange(6), colour_label="records", title="t")
    plain = json.loads(json.dumps(grid.as_dict()))
    assert len(plain["places"]) == len(plain["sizes"]) == len(plain["values"]) == 6
    assert sorted(map(tuple, plain["links"])) == sorted(map(tuple, sv.topologies.grid(2, 3).pairs.tolist()))
    assert plain["both_ways"]
    assert network_picture(sv.topologies.federation(3)).relay is not None
    counted = label_picture([np.array(["no", "yes", "yes"]), np.array(["no"])])
    assert json.loads(json.dumps(counted.as_dict()))["counts"] == {"no": [1, 1], "yes": [2, 0]}
    assert counted.colours["no"] != counted.colours["yes"]
    spread_out = label_picture([np.linspace(0, 1, 101), np.array([])])
    assert spread_out.counts is None
    assert spread_out.quantiles == {0: pytest.approx((0.05, 0.25, 0.5, 0.75, 0.95))}
