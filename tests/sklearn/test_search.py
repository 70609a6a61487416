"""A search scores on public records alone, and states what all of its fits give away together."""

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, make_scorer

import sottovoce as sv
from sottovoce.sklearn import DecentralizedLogisticRegression, DecentralizedRidge, search
from sottovoce.sklearn.search import _composed

GRID = {"clip": [0.5, 1.0], "epsilon": [0.7, 2.0]}


@pytest.fixture(scope="module")
def public(frame):
    generator = np.random.default_rng(9)
    features = generator.uniform(0, 10, (40, 2))
    labels = np.where(features.sum(axis=1) > 10, "yes", "no")
    return frame[["age", "dose"]].iloc[:40].assign(age=features[:, 0], dose=features[:, 1]), labels


@pytest.fixture(scope="module")
def found(frame, privacy, public):
    estimator = DecentralizedLogisticRegression(**{**privacy, "clip": None, "epsilon": None}, owner="hospital")
    return search(estimator, GRID, frame.drop(columns="ill"), frame["ill"], public=public)


def test_all_fits_together_are_stated(found):
    size = math.sqrt(sum(2 * sv.accounting.gaussian.mu(epsilon, 1e-5) ** 2 for epsilon in (0.7, 2.0)))
    assert found.epsilon == pytest.approx(sv.accounting.gaussian.epsilon(size, 1e-5), rel=1e-6)
    assert [one.epsilon for one in found.tried] == pytest.approx([0.7, 2.0, 0.7, 2.0])
    assert 2.0 < found.epsilon < 0.7 + 2.0 + 0.7 + 2.0
    (said,) = found.guarantees
    assert said.fits == 4
    assert "of all 4 fits on these records together" in said.statement
    assert "declared public" in said.statement
    assert "GridSearchCV" not in said.statement
    assert not said.releasable


def test_the_chosen_model_does_not_claim_the_epsilon_of_its_own_fit(found):
    assert found.best_estimator.guarantees_ == found.guarantees
    assert found.best_estimator.guarantees_[0].epsilon == found.epsilon


def test_the_best_on_the_public_records_is_chosen(found, public):
    scores = [one.score for one in found.tried]
    assert found.best_estimator.score(*public) == max(scores)
    assert found.tried[scores.index(max(scores))].parameters == found.best_parameters
    assert found.best_estimator.clip == found.best_parameters["clip"]
    assert f"best score {max(scores):.4g} on public records" in str(found)


def test_a_search_is_shown_in_a_line(found):
    assert repr(found).startswith("Search(4 fits, epsilon=")
    assert repr(found).endswith(f"of all together, best_parameters={found.best_parameters!r})")


def test_no_score_looks_at_a_private_record(frame, privacy, public):
    seen = []

    def spy(truth, predicted):
        seen.append(truth)
        return accuracy_score(truth, predicted)

    estimator = DecentralizedLogisticRegression(**privacy, owner="hospital")
    search(
        estimator,
        {"clip": [0.5, 1.0]},
        frame.drop(columns="ill"),
        frame["ill"],
        public=public,
        scoring=make_scorer(spy),
    )
    assert len(seen) == 2
    assert all((labels == public[1]).all() for labels in seen)


def test_every_fit_draws_noise_of_its_own_on_the_same_agents(privacy):
    generator = np.random.default_rng(0)
    features, targets = generator.uniform(0, 10, (30, 2)), generator.uniform(0, 1, 30)
    made = []

    class Kept(DecentralizedRidge):
        def fit(self, X, y, groups=None):
            made.append((self.random_state, np.asarray(groups)))
            return super().fit(X, y, groups=groups)

    estimator = Kept(**{**privacy, "unit": "agent", "rounds": 2}, agents=3)
    found = search(estimator, {"step_size": [0.1, 0.1, 0.2]}, features, targets, public=(features, targets))
    assert len({seed for seed, _ in made}) == 3
    assert all((groups == made[0][1]).all() for _, groups in made)
    assert sorted(np.bincount(made[0][1])) == [10, 10, 10]
    assert "the 3 agents are invented" in found.guarantees[0].statement
    first, second, _ = (one.score for one in found.tried)
    assert first != second  # equal parameters, and other noise


@pytest.mark.parametrize("name", ["delta", "observer", "unit", "adjacency", "owner", "agents", "random_state"])
def test_what_all_fits_must_share_cannot_vary(name, privacy):
    estimator = DecentralizedRidge(**privacy, agents=2)
    with pytest.raises(sv.ConfigError, match=f"the grid varies {name}; all fits need the same"):
        search(
            estimator, {name: [1, 2], "clip": [1.0]}, np.ones((4, 1)), np.ones(4), public=(np.ones((4, 1)), np.ones(4))
        )


def test_an_empty_grid_and_other_estimators_are_refused(privacy):
    records = np.ones((4, 1)), np.ones(4)
    with pytest.raises(sv.ConfigError, match="the grid is empty"):
        search(DecentralizedRidge(**privacy, agents=2), {}, *records, public=records)
    with pytest.raises(sv.ConfigError, match="not a LogisticRegression: other steps might learn"):
        search(LogisticRegression(), {"C": [1]}, *records, public=records)


def test_what_is_missing_is_refused_before_the_first_fit(privacy, monkeypatch):
    monkeypatch.setattr(DecentralizedRidge, "fit", lambda *_, **__: pytest.fail("a fit was made"))
    records = np.ones((4, 1)), np.ones(4)
    with pytest.raises(sv.ConfigError, match="was not given clip"):
        search(DecentralizedRidge(**privacy, agents=2), {"clip": [1.0, None]}, *records, public=records)


def test_guarantees_without_a_mu_add_up_in_epsilon_and_delta(fitted):
    (one,) = fitted.guarantees_
    no_mu = type("NoMu", (), {"mu": None})()
    together = _composed((one, replace(one, guarantees=(no_mu,), epsilon=3.0, delta=1e-4)))
    assert (together.epsilon, together.delta) == pytest.approx((one.epsilon + 3.0, 1e-5 + 1e-4))
    assert together.fits == 2
