import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from PIL import Image

import sottovoce as sv
from sottovoce.errors import ConfigError
from sottovoce.reports import describe, label_distribution, learning_curves, network, save
from sottovoce.reports.caption import LINE, MARGIN, caption_of, put_caption

CAPTION = "ATC on a ring of four agents, 60 rounds, nine repeats."


def figures(make_run):
    return {
        "curves": learning_curves({"a": make_run(), "b": make_run()}, theory={"a": np.ones(60)}),
        "network": network(sv.topologies.erdos_renyi(12, 0.4, seed=0), colours=np.arange(12)),
        "labels": label_distribution([np.arange(12), np.arange(3)]),
    }


def test_png_has_the_size_of_the_figure_and_of_its_caption(make_run, tmp_path):
    figure = learning_curves({"a": make_run()})
    png, svg = save(figure, tmp_path / "new" / "folder", "curves", caption=CAPTION)
    assert (png.name, svg.name) == ("curves.png", "curves.svg")
    width, height = figure.get_size_inches()
    with Image.open(png) as image:
        assert image.size == pytest.approx((150 * width, 150 * (height + LINE + 2 * MARGIN)), abs=1.5)
        assert image.text["Description"] == CAPTION


def test_svg_is_xml_that_holds_caption_and_labels_as_text(make_run, tmp_path):
    _, svg = save(learning_curves({"a run": make_run()}), tmp_path, "curves", caption=CAPTION + " 3 < 4 & 5.")
    texts = [element.text for element in ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert "a run" in texts
    assert any(text and text.startswith("ATC on a ring") for text in texts)


def test_saving_twice_gives_the_same_bytes(make_run, tmp_path):
    for name, figure in figures(make_run).items():
        first = [path.read_bytes() for path in save(figure, tmp_path / "1", name, caption=CAPTION)]
        again = [path.read_bytes() for path in save(figure, tmp_path / "2", name, caption=CAPTION)]
        anew = [path.read_bytes() for path in save(figures(make_run)[name], tmp_path / "3", name, caption=CAPTION)]
        assert first == again == anew
        assert sorted(path.name for path in (tmp_path / "1").glob(f"*{name}*")) == [f"{name}.png", f"{name}.svg"]


def test_a_failed_write_leaves_the_old_file_and_no_remains(make_run, tmp_path, monkeypatch):
    figure = learning_curves({"a": make_run()})
    png, _ = save(figure, tmp_path, "curves", caption=CAPTION)
    before = png.read_bytes()

    def fail(*_):
        raise OSError("disk")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk"):
        save(figure, tmp_path, "curves", caption=CAPTION + " Another.")
    assert png.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["curves.png", "curves.svg"]


def test_the_figure_keeps_its_own_caption_and_size(make_run, tmp_path):
    figure = learning_curves({"a": make_run()}, caption="What the figure itself says.")
    size = tuple(figure.get_size_inches())
    save(figure, tmp_path, "curves", caption=CAPTION)
    assert caption_of(figure) == "What the figure itself says."
    assert tuple(figure.get_size_inches()) == size


def test_no_line_of_a_long_caption_is_cut_off(make_run):
    figure = learning_curves({"a": make_run()})
    caption = " ".join(["Wide MMMMM words and $ signs"] * 20)
    room = put_caption(figure, caption)
    figure.draw_without_rendering()
    (text,) = figure.texts
    box = text.get_window_extent()
    assert caption_of(figure) == caption
    assert box.x0 > 0
    assert box.x1 < figure.bbox.width
    assert box.y1 <= 0
    assert box.y0 > -room * figure.dpi


@pytest.mark.parametrize("caption", ["", "   ", "Figure 1"])
def test_a_caption_that_says_nothing_is_refused(make_run, tmp_path, caption):
    with pytest.raises(ConfigError, match="what was run"):
        save(learning_curves({"a": make_run()}), tmp_path, "curves", caption=caption)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden"])
def test_a_name_that_is_no_plain_file_name_is_refused(make_run, tmp_path, name):
    with pytest.raises(ConfigError, match="plain file name"):
        save(learning_curves({"a": make_run()}), tmp_path, name, caption=CAPTION)


def test_description_names_everything_that_was_chosen(make_run):
    assert describe(make_run(rounds=1200)) == (
        "ATC (step size 0.05) on linear regression, graph-homomorphic Laplace noise (std 0.2), ring network of 4 agents "
        "(metropolis weights), 1,200 rounds, 9 repeats, batch size 10, seed 7."
    )


@pytest.mark.parametrize(
    ("noise", "expected"),
    [
        (sv.noise.none(), "no noise"),
        (sv.noise.independent(sv.noise.Gaussian(std=0.5)), "independent Gaussian noise (std 0.5)"),
        (
            sv.noise.independent(sv.noise.Laplace(std=0.5), per_edge=True, self_noise=False),
            "one source per link, own copy",
        ),
        (sv.noise.independent(sv.noise.L2Laplace(scale=0.5)).scaled([1.0]), "scale 0.5, times a factor per round"),
    ],
)
def test_description_tells_noises_apart(make_run, noise, expected):
    run = make_run()
    run.description["noise"] = noise.describe()
    assert expected in describe(run)


def test_description_of_an_incomplete_run_is_refused(make_run):
    run = make_run()
    del run.description["noise"]
    with pytest.raises(ConfigError, match="lacks noise"):
        describe(run)
