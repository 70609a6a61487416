import itertools
import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from sottovoce.reports import learning_curves
from sottovoce.reports.pictures import colours

# Machado, Oliveira & Fernandes 2009, severity 1.0, on linear RGB.
VISION = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
}
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def lab(colour, vision):
    """CIELAB (D65) of a colour as seen with this vision."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.asarray(vision) @ linear, 0, 1)
    x, y, z = np.cbrt(XYZ @ seen / (XYZ @ np.ones(3)))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def closest(palette, vision):
    seen = [lab(colour, vision) for colour in palette]
    return min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2))


@pytest.mark.parametrize("vision", VISION)
def test_colours_differ_for_every_kind_of_vision(vision):
    assert closest((*colours.PALETTE, "white", "black"), VISION[vision]) > 15  # about 2 is just noticeable


def test_the_test_of_colours_rejects_red_and_green_of_equal_lightness():
    assert closest(("#C8553D", "#7A8B2A"), VISION["normal"]) > 40
    assert closest(("#C8553D", "#7A8B2A"), VISION["deuteranopia"]) < 15


def test_all_lines_differ_and_neighbours_differ_without_colour():
    found = list(colours.looks([f"line {number}" for number in range(24)]).values())
    assert len(set(found)) == 24
    for one, two in itertools.pairwise(found):
        assert one.marker != two.marker


def test_the_users_settings_survive_and_do_not_leak_in(make_run):
    with matplotlib.rc_context({"font.size": 31, "axes.facecolor": "red"}):
        before = dict(matplotlib.rcParams)
        figure = learning_curves({"a": make_run()})
        assert dict(matplotlib.rcParams) == before
    assert figure.axes[0].xaxis.label.get_size() == 10
    assert to_rgb(figure.axes[0].get_facecolor()) == (1, 1, 1)


def test_pyplot_and_jax_are_never_loaded():
    program = (
        "import sys, sottovoce as sv; from sottovoce import reports; reports.network(sv.topologies.ring(5));"
        "sys.exit(any(name in sys.modules for name in ('matplotlib.pyplot', 'jax')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
