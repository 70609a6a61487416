"""Pictures of audits: the histograms hold every score, the title says what is shown and promised, rows run from one to the other."""

import functools

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.attacks.audit.result import Audit
from sottovoce.attacks.bounds import auc, clopper_pearson, gaussian_dp
from sottovoce.errors import ConfigError
from sottovoce.reports.painting import FACTS
from sottovoce.reports.pictures import colours, words
from sottovoce.reports.pictures.audit_pictures import NOTHING, PROVEN, sandwich_picture, score_picture
from sottovoce.reports.sandwich import audit_table, sandwiches
from sottovoce.reports.scores import audit_caption, audit_figures, score_histograms


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


def test_every_score_is_in_the_histogram_of_its_world_as_a_share_of_the_runs():
    audit = made()
    (panel,) = score_picture(audit).panels
    assert panel.y.percent
    for scores, line in zip(audit.scores, panel.lines, strict=True):
        np.testing.assert_allclose(line.y[:-1], np.histogram(scores, line.x)[0] / 400)
        assert sum(line.y) == pytest.approx(1.0)
        assert line.area
    assert [line.colour for line in panel.lines] == list(colours.WORLDS)
    assert [level.value for level in panel.levels] == [audit.threshold]


def test_the_picture_asks_a_question_and_answers_it_in_percent_and_epsilon():
    audit = made()
    picture = score_picture(audit)
    assert picture.title == "Can someone who reads every message\ntell two versions of agent 1's data apart?"
    assert f"{100 * audit.auc.value:.1f} %" in picture.subtitle
    assert picture.facts[0] == ("the attack shows at least this", f"{audit.lower.epsilon:.3g}")
    assert picture.facts[1] == (PROVEN, words.epsilon(audit.epsilon))
    assert "epsilon at delta = 0.001" in picture.facts_title
    assert "THE PROMISE IS FALSE" in score_picture(made(passed=False)).facts[1][0]
    assert score_picture(made("final model")).facts[1] == (NOTHING, "infinite")


def test_the_figure_names_both_worlds_and_says_epsilon():
    figure = score_histograms(made())
    named = [text.get_text() for text in figure.axes[0].texts]
    assert {"runs with the\nfirst version", "runs with the\nsecond version"} < set(named)
    assert figure.subfigs[0].findobj(lambda artist: artist.get_gid() == FACTS)[0].get_text().startswith("epsilon")


def test_the_caption_says_why_nothing_is_promised_and_that_an_audit_proves_no_promise():
    assert "cancels in the centroid" in audit_caption(made("final model"))
    assert "never proves one true" in audit_caption(made())
    assert "1 computed" in audit_caption(made())


def test_scores_without_any_spread_are_drawn():
    still = (np.full(50, -1.0), np.full(50, 1.0))
    lines = score_picture(made("final model", scores=still)).panels[0].lines
    assert [max(line.y) for line in lines] == [1.0, 1.0]
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


def test_rows_run_from_what_is_shown_to_what_is_proven_with_both_numbers():
    audits = {"a": {"x": made()}, "b": {"x": made("final model")}}
    (panel,) = sandwich_picture(audits).panels
    lines = {line.name: line for line in panel.lines}
    assert lines["between 0"].x == (audits["a"]["x"].lower.epsilon, audits["a"]["x"].epsilon)
    assert lines["shown 0"].colour == colours.SHOWN
    assert lines["proven 0"].colour == colours.PROMISED
    assert panel.y.ticks == ((0.0, "a"), (1.0, "b"))
    first, second = (text.text for text in panel.texts)
    assert first == f"{audits['a']['x'].lower.epsilon:.2g} of {words.epsilon(audits['a']['x'].epsilon)}"
    assert second == f"≥ {audits['b']['x'].lower.epsilon:.2g}"
    assert panel.x.label == "epsilon at delta = 0.001"
    assert [text.get_text() for text in sandwiches(audits).axes[0].texts] == [first, second]


def test_a_false_promise_is_the_title():
    assert "stays below" in sandwich_picture({"a": {"x": made()}}).title
    assert sandwich_picture({"a": {"x": made(passed=False)}}).title == "A PROMISE IS FALSE"


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
