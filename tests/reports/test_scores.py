"""Pictures of audits: the histograms hold every score, the title says what is shown and promised, rows run from one to the other."""

import functools

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.attacks.audit.result import Audit
from sottovoce.attacks.bounds import auc, clopper_pearson, gaussian_dp
from sottovoce.errors import ConfigError
from sottovoce.reports.sandwich import audit_table, sandwiches
from sottovoce.reports.scores import audit_caption, audit_figures, audit_title, score_histograms


@functools.cache
def promised(name):
    observer = {"eavesdropper": sv.observers.eavesdropper(), "final model": sv.observers.final_model()}[name]
    noise = sv.noise.graph_homomorphic(sv.noise.Gaussian(std=1.0))
    return sv.account(
        sv.topologies.ring(4), sv.algorithms.atc(step_size=0.1), noise, observer, rounds=2, sensitivity=2.0
    )


def made(name="eavesdropper", *, distance=1.0, passed=True, scores=None):
    """An audit with normal scores so far apart."""
    rng = np.random.default_rng(0)
    first, second = (rng.standard_normal(400), rng.standard_normal(400) + distance) if scores is None else scores
    lower = clopper_pearson(first, second, delta=1e-3, confidence=0.99)
    return Audit(
        guarantee=promised(name), attack="likelihood", agent=1, delta=1e-3, confidence=0.99, pairs=len(first), epsilon=promised(name).epsilon(1e-3),
        lower=lower, tradeoff_mu=None, gaussian=None if scores else gaussian_dp(first, second, confidence=0.99), auc=auc(first, second),
        scores=(first, second), threshold=lower.threshold, computed_mu=distance, as_computed=True, refuted=not passed,
    )  # fmt: skip


def test_every_score_is_in_the_histogram_of_its_world():
    audit = made()
    axes = score_histograms(audit).axes[0]
    outlines = [patch.get_path().vertices for patch in axes.patches]
    assert len(outlines) == 2
    for scores, outline in zip(audit.scores, outlines, strict=True):
        edges = np.unique(outline[:, 0])
        counts = np.histogram(scores, edges)[0]
        assert counts.sum() == 400
        assert outline[:, 1].max() == counts.max()
    assert [line.get_xdata()[0] for line in axes.lines] == [audit.threshold]


def test_the_title_names_observer_lower_bound_and_promise():
    said = audit_title(made())
    assert "eavesdropper, about agent 1" in said
    assert f"{made().lower.epsilon:.3g}; promised: " in said
    assert "FALSE" not in said
    assert "THE PROMISE IS FALSE" in audit_title(made(passed=False))
    assert "nothing is promised" in audit_title(made("final model"))


def test_the_caption_says_why_nothing_is_promised_and_that_an_audit_proves_no_promise():
    assert "cancels in the centroid" in audit_caption(made("final model"))
    assert "never proves one true" in audit_caption(made())
    assert "1 computed" in audit_caption(made())


def test_scores_without_any_spread_are_drawn():
    still = (np.full(50, -1.0), np.full(50, 1.0))
    axes = score_histograms(made("final model", scores=still)).axes[0]
    assert [patch.get_path().vertices[:, 1].max() for patch in axes.patches] == [50, 50]
    assert score_histograms(made(scores=(np.zeros(50), np.zeros(50)))).axes


def test_infinite_scores_are_left_out_and_counted():
    scores = (np.array([0.0] * 30), np.array([1.0] * 29 + [np.inf]))
    assert "1 infinite scores are not drawn" in audit_caption(made(scores=scores))
    with pytest.raises(ConfigError, match="nothing to draw"):
        score_histograms(made(scores=(np.zeros(30), np.full(30, np.inf))))


def test_observers_with_one_name_do_not_overwrite_each_other(tmp_path):
    paths = audit_figures([made(), made(), made("final model")], tmp_path)
    assert len({path.name for path in paths}) == 6
    assert all(path.is_file() for path in paths)


def test_rows_run_from_what_is_shown_to_what_is_promised():
    audits = {"a": {"x": made()}, "b": {"x": made("final model")}}
    axes = sandwiches(audits).axes[0]
    between = next(line for line in axes.lines if len(line.get_xdata()) == 2)
    assert list(between.get_xdata()) == [audits["a"]["x"].lower.epsilon, audits["a"]["x"].epsilon]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert [text.get_text() for text in axes.texts] == [f"≥ {audits['b']['x'].lower.epsilon:.2g}"]


def test_the_table_has_a_row_for_every_audit_with_the_reason_of_infinite_ones():
    lines = audit_table({"a": {"x": made()}, "b": {"x": made("final model")}}).splitlines()
    assert len(lines) == 4
    assert "| a | x |" in lines[2]
    assert "likelihood" in lines[2]
    assert "| inf |" in lines[3]
    assert "cancels in the centroid" in lines[3]


def test_lines_with_different_variants_are_refused():
    with pytest.raises(ConfigError, match="same variants"):
        sandwiches({"a": {"x": made()}, "b": {"y": made()}})
    with pytest.raises(ConfigError, match="same variants"):
        sandwiches({})
