import dataclasses

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.errors import ConfigError
from sottovoce.experiments.comparison.result import Measured
from sottovoce.reports import comparison_figures, frontier, style
from sottovoce.reports.comparisons import SPREAD, frontier_caption, without_guarantee


@pytest.fixture(scope="module")
def comparison():
    """Unclipped, so that exact theory is there; graph-homomorphic noise has no guarantee for the second observer."""
    problem = sv.problems.mean_estimation(np.random.default_rng(1).uniform(-1, 1, size=(4, 20, 2)), radius=1.0)
    law = sv.noise.Gaussian(std=1.0)
    return sv.compare(
        problem,
        sv.topologies.complete(4),
        {"atc": sv.algorithms.atc(step_size=0.05), "cta": sv.algorithms.cta(step_size=0.05)},
        {"graph-homomorphic": sv.noise.graph_homomorphic(law), "independent": sv.noise.independent(law)},
        [sv.observers.eavesdropper(), sv.observers.eavesdropper() + sv.observers.final_model()],
        rounds=6,
        sensitivity=problem.sensitivity(unit="record", adjacency="replace", norm="l2"),
        unit="record",
        losses=problem.losses,
        epsilons=[1.0, 4.0],
        delta=1e-5,
        repeats=5,
        progress=False,
    )


def row_of(comparison, observer, algorithm, scheme):
    return [r for r in comparison.rows if (r.observer, r.algorithm, r.scheme) == (observer, algorithm, scheme)]


def lines_of(axes, label):
    return [line for line in axes.get_lines() if line.get_label() == label]


def test_points_bars_and_theory_are_those_of_the_comparison(comparison):
    figure = frontier(comparison, "msd_average")
    axes = figure.axes[0]
    for container in axes.containers:
        label = container.get_label()
        algorithm, scheme = label.removeprefix("_").split(" ", 1)
        rows = row_of(comparison, "eavesdropper", algorithm, scheme)
        found = [row.measured["msd_average"] for row in rows]
        line, _, (bars,) = container
        np.testing.assert_allclose(line.get_ydata(), [each.value for each in found])
        np.testing.assert_allclose(line.get_xdata(), [1.0, 4.0], rtol=SPREAD - 1)
        ends = np.array([[each.value - each.standard_error, each.value + each.standard_error] for each in found])
        np.testing.assert_allclose(np.array(bars.get_segments())[:, :, 1], ends)
        (theory,) = lines_of(axes, f"_theory {algorithm} {scheme}")
        np.testing.assert_allclose(theory.get_ydata(), [each.theory for each in found])
    assert len(axes.containers) == 4
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_one_panel_per_observer_with_the_epsilons_as_ticks_and_the_noise_free_line(comparison):
    figure = frontier(comparison)
    assert [axes.get_title() for axes in figure.axes] == ["eavesdropper", "eavesdropper + final model"]
    for axes in figure.axes:
        assert axes.get_xlabel() == "epsilon at delta = 1e-05"
        assert axes.get_xticks().tolist() == [1.0, 4.0]
        for reference in comparison.references:
            (line,) = lines_of(axes, f"_noise-free {reference.algorithm}")
            assert set(line.get_ydata()) == {reference.measured["msd_centroid"].value}


def test_schemes_keep_their_colour_and_algorithms_their_dashes_in_every_panel(comparison):
    figure = frontier(comparison)
    looks = style.line_looks(["graph-homomorphic", "independent"])
    for axes in figure.axes:
        for container in axes.containers:
            algorithm, scheme = container.get_label().removeprefix("_").split(" ", 1)
            assert container[0].get_color() == looks[scheme].color
            assert container[0].get_marker() == looks[scheme].marker
            assert container[0].is_dashed() == (algorithm == "cta")


def test_what_has_no_guarantee_is_listed_below_its_panel_and_not_drawn(comparison):
    first, second = frontier(comparison).axes
    assert [text for text in first.texts if text.get_gid() == "no-guarantee"] == []
    (note,) = [text for text in second.texts if text.get_gid() == "no-guarantee"]
    assert " ".join(note.get_text().split()) == "no guarantee: all schemes with cta; graph-homomorphic"
    assert [container.get_label() for container in second.containers] == ["_atc independent"]


def test_the_list_of_what_has_no_guarantee_names_algorithms_only_where_it_must(comparison):
    def with_guarantees(*possible):
        rows = [
            dataclasses.replace(
                row, noise=row.noise or sv.noise.none() if (row.algorithm, row.scheme) in possible else None
            )
            for row in comparison.rows
        ]
        return dataclasses.replace(comparison, rows=tuple(rows))

    gh, plain = "graph-homomorphic", "independent"
    everything = [("atc", gh), ("atc", plain), ("cta", gh), ("cta", plain)]
    for possible, expected in (
        (everything, []),
        ([], ["all schemes"]),
        ([("atc", plain), ("cta", plain)], [gh]),
        ([("atc", gh), ("atc", plain), ("cta", plain)], [f"{gh} with cta"]),
        ([("atc", gh), ("atc", plain)], ["all schemes with cta"]),
    ):
        assert without_guarantee(with_guarantees(*possible), "eavesdropper") == expected


def test_the_legend_names_schemes_algorithms_reference_and_theory(comparison):
    (legend,) = frontier(comparison).subfigs[0].legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["graph-homomorphic", "independent", "atc", "cta", "without noise", "exact expectation"]


def test_theory_is_left_out_where_there_is_none(comparison):
    rows = [
        dataclasses.replace(
            row,
            measured={name: Measured(per_repeat=each.per_repeat, theory=None) for name, each in row.measured.items()},
        )
        for row in comparison.rows
    ]
    figure = frontier(dataclasses.replace(comparison, rows=tuple(rows)))
    assert not [line for axes in figure.axes for line in axes.get_lines() if line.get_label().startswith("_theory")]
    assert "exact expectation" not in [text.get_text() for text in figure.subfigs[0].legends[0].get_texts()]


def test_figures_are_saved_with_a_caption_that_says_what_was_run_and_what_was_promised(comparison, tmp_path):
    paths = comparison_figures(comparison, tmp_path)
    assert [path.name for path in paths] == [
        "frontier-msd-centroid.png", "frontier-msd-centroid.svg", "frontier-msd-average.png", "frontier-msd-average.svg",
    ]  # fmt: skip
    caption = frontier_caption(comparison)
    for part in (
        "mean estimation",
        "4 agents",
        "6 rounds",
        "5 repeats",
        "equal epsilon",
        "Promised, checked on the data at hand",
        "the models must not be released",
    ):
        assert part in caption
    assert "Bars are one standard error" in " ".join(paths[1].read_text().split())


def test_a_measure_that_was_not_taken_and_a_value_without_logarithm_are_refused(comparison):
    with pytest.raises(ConfigError, match="'loss' was not measured"):
        frontier(comparison, "loss")
    first = comparison.rows[0]
    zero = dataclasses.replace(first, measured={"msd_centroid": Measured(per_repeat=np.zeros(5), theory=None)})
    with pytest.raises(ConfigError, match="above 0"):
        frontier(dataclasses.replace(comparison, rows=(zero, *comparison.rows[1:])), "msd_centroid")
