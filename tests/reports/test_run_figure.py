"""The figure of an ordinary run: what is drawn and written, as a value and as painted."""

import dataclasses
import json

import numpy as np
import pytest
from matplotlib.text import Text

from sottovoce.errors import ConfigError
from sottovoce.reports import run_figure
from sottovoce.reports.painting import FACTS, LABEL, paint
from sottovoce.reports.pictures import colours, run_picture, words

REFERENCES = {"together, without noise": 0.934, "each alone": (0.4, 0.8, 0.9), "majority class": 0.627}
STATED = {
    "delta": 1e-5,
    "notes": [],
    "guarantees": [
        {"observer": "eavesdropper", "agent": 0, "unit": "record", "epsilon": {"1e-05": 1.2341}},
        {"observer": "curious agent 2", "agent": 0, "unit": "record", "epsilon": {"1e-05": 0.2}},
        {"observer": "final model", "agent": 1, "unit": "record", "epsilon": {"1e-05": None}},
    ],
}


@pytest.fixture
def learnt(make_run):
    rising = np.linspace(0.5, 0.9, 60) + np.linspace(-0.02, 0.02, 9)[:, None]
    return dataclasses.replace(make_run(), metrics={"accuracy": rising, "loss": 1 - rising})


def test_the_line_is_the_mean_accuracy_and_its_end_says_the_last_value_in_percent(learnt):
    (panel,) = run_picture(learnt).panels
    (line,) = panel.lines
    np.testing.assert_allclose(line.y, learnt.metrics["accuracy"].mean(axis=0))
    assert line.x == tuple(range(1, 61))
    assert line.label == "together, with noise: 90.0 %"
    assert panel.y.percent
    assert "percent" in panel.y.label
    np.testing.assert_allclose(line.low, np.quantile(learnt.metrics["accuracy"], 0.1, axis=0))


def test_references_have_the_colours_of_their_groups_and_their_values(learnt):
    levels = {level.name: level for level in run_picture(learnt, references=REFERENCES).panels[0].levels}
    assert levels["each alone"].label == "each alone: 80.0 % (40.0 % to 90.0 %)"
    assert (levels["each alone"].low, levels["each alone"].high) == (0.4, 0.9)
    assert levels["majority class"].label == "majority class: 62.7 %"
    assert levels["each alone"].colour == colours.GROUPS["alone"]
    quiet = dataclasses.replace(learnt, description={**learnt.description, "noise": {"name": "none"}})
    assert run_picture(quiet).panels[0].lines[0].colour == levels["together, without noise"].colour
    assert len({level.colour for level in levels.values()} | {run_picture(learnt).panels[0].lines[0].colour}) == 4


def test_epsilon_of_every_observer_is_written_in_plain_words(learnt):
    picture = run_picture(learnt, stated=STATED)
    assert picture.facts == (
        ("someone who reads every message", "1.24"),  # rounded up
        ("agent 2, who reads what it is sent", "0.2"),
        ("someone who gets the final model", "infinite"),
    )
    assert picture.facts_title == "epsilon of one record at delta = 1e-05, smaller is more private"
    assert "not stated" in run_picture(learnt).facts_title


@pytest.mark.parametrize(
    ("kept", "end"),
    [
        (None, "model"),
        (0, "model, on the records that it learnt from"),
        (1200, "model, on 1,200 records kept for testing"),
    ],
)
def test_the_title_says_on_which_records_accuracy_was_measured(learnt, kept, end):
    said = {} if kept is None else {"test_records": kept}
    run = dataclasses.replace(learnt, description={**learnt.description, **said})
    assert run_picture(run).title == f"Accuracy of the common {end}"
    assert run_picture(run, metric="loss").title == "Loss of the common model"


def test_a_run_of_one_round_and_one_repeat_is_drawn(make_run, tmp_path):
    run = make_run(rounds=1, repeats=1)
    assert len(run_figure(run, tmp_path / "one")) == 2


def test_agents_with_names_are_called_by_them(learnt):
    named = dataclasses.replace(
        learnt, description={**learnt.description, "agents": ["Basel", "Bern", "Genève", "Zug"]}
    )
    assert ("Genève, who reads what it is sent", "0.2") in run_picture(named, stated=STATED).facts


def test_of_several_agents_the_most_exposed_counts():
    rows = [{"observer": "server", "epsilon": {"0": value}} for value in (1.0, 3.0, 2.0)]
    assert words.epsilons({"guarantees": rows}) == [("the server", "3")]


def test_without_accuracy_an_error_is_drawn_and_a_long_fall_is_logarithmic(make_run):
    (panel,) = run_picture(make_run()).panels
    assert panel.y.label == "loss"
    assert panel.y.scale == "log"
    assert not panel.y.percent


def test_the_picture_is_plain_data_and_paint_shows_what_it_says(learnt):
    picture = run_picture(learnt, references=REFERENCES, stated=STATED)
    assert json.loads(json.dumps(picture.as_dict()))["panels"][0]["lines"][0]["colour"] == colours.GROUPS["with noise"]
    figure = paint(picture)
    axes = figure.axes[0]
    labels = [text for text in axes.texts if text.get_gid() == LABEL]
    assert {text.get_text() for text in labels} == {
        picture.panels[0].lines[0].label,
        *(level.label for level in picture.panels[0].levels),
    }
    figure.draw_without_rendering()
    heights = sorted(Text.get_window_extent(text).y0 for text in labels)
    assert min(np.diff(heights)) > 9 * figure.dpi / 72  # the two that end side by side are moved apart
    (facts,) = figure.subfigs[0].findobj(lambda artist: artist.get_gid() == FACTS)
    assert "1.24:  someone who reads every message" in facts.get_text()


def test_two_files_are_written_with_the_caption_inside(learnt, tmp_path):
    png, svg = run_figure(learnt, tmp_path / "figures" / "run.png", references=REFERENCES, stated=STATED)
    assert (png.name, svg.name) == ("run.png", "run.svg")
    text = " ".join(svg.read_text().split())
    assert "epsilon is that of one repeat" in text
    assert "together, with noise: 90.0 %" in text


@pytest.mark.parametrize("value", [93.0, (0.9, 0.5, 0.4), (0.1, 0.2), float("nan")])
def test_a_reference_that_is_no_share_or_no_range_is_refused(learnt, value):
    with pytest.raises(ConfigError, match="each alone"):
        run_picture(learnt, references={"each alone": value})


def test_an_unknown_metric_and_values_that_are_not_finite_are_refused(learnt):
    with pytest.raises(ConfigError, match="Choose from accuracy, loss"):
        run_picture(learnt, metric="msd")
    broken = dataclasses.replace(learnt, metrics={"accuracy": np.full((1, 3), np.nan)})
    with pytest.raises(ConfigError, match="not finite"):
        run_picture(broken)
