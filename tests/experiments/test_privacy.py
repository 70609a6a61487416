"""The guarantees of a configuration: the right question is asked, and its numbers are right by an independent route."""

import json
import math

import numpy as np
import pytest
from scipy.stats import norm

import sottovoce as sv
from sottovoce.errors import ConfigError, IncompatibleChoice, UnsupportedClaim
from sottovoce.experiments import build, guarantees, parse, privacy

DELTA = 1e-5
BASE = {
    "experiment": {"name": "x", "rounds": 9, "seed": 5},
    "topology": {"kind": "ring", "agents": 5},
    "problem": {"kind": "linear_regression", "data": "synthetic", "samples": 8, "dimension": 2, "ridge": 0.1},
    "algorithm": {"kind": "atc", "step_size": 0.1},
    "noise": {"kind": "independent", "law": "gaussian", "std": 0.1},
    "privacy": {"unit": "record", "clip": 1.0, "clip_norm": "l2", "delta": DELTA, "observers": ["eavesdropper"]},
}
POINTS = {"kind": "mean_estimation", "data": "synthetic", "samples": 8, "dimension": 2, "radius": 5.0, "ridge": None}
CANCER = {
    "kind": "logistic_regression",
    "data": "breast_cancer",
    "samples": None,
    "dimension": None,
    "ridge": 0.01,
    "partition": {"kind": "dirichlet", "alpha": 0.5},
}
CALIBRATED = {"std": None, "epsilon": 2.0}


def made(**changes):
    """The experiment with these keys changed; None removes a key."""
    data = {section: {**table, **changes.get(section, {})} for section, table in BASE.items()}
    kept = {name: {key: value for key, value in table.items() if value is not None} for name, table in data.items()}
    return build(parse(kept, source="test"))


def only(**changes):
    (found,) = guarantees(made(**changes))
    return found


def delta_of(mu, epsilon):
    """The exact trade-off of mu-GDP, from its definition."""
    return norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)


def test_epsilon_of_atc_with_self_noise_is_the_closed_form():
    found = only()
    mu = 0.1 * (2 * 1.0 / 8) * math.sqrt(9) / 0.1  # step (2C/n) sqrt(T) / std
    assert found.mu == pytest.approx(mu)
    assert delta_of(mu, found.epsilon(DELTA)) == pytest.approx(DELTA, rel=1e-6)


def test_a_file_with_one_agent_has_the_closed_form_of_dp_sgd():
    found = only(
        topology={"kind": "federation", "agents": 1},
        algorithm={"kind": "fedavg"},
        noise={"kind": "central"},
        privacy={"observers": ["final_model"]},
    )
    assert found.mu == pytest.approx(0.1 * (2 * 1.0 / 8) * math.sqrt(9) / 0.1)


@pytest.mark.parametrize("kind", ["atc", "consensus"])
def test_whole_gradients_clipped_in_a_file_protect_the_agent_with_any_ridge(kind):
    whole = {"unit": "agent", "clips": "gradient", "clip": 0.7}
    found = only(algorithm={"kind": kind}, problem={"ridge": 3.0}, privacy=whole)
    sent = 9 if kind == "atc" else 8  # consensus sends no gradient of the last round
    assert found.mu == pytest.approx(0.1 * 2 * 0.7 * math.sqrt(sent) / 0.1)
    assert any("between any two models (computed from the problem's clipping)" in line for line in found.assumptions)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"unit": "record"}, 'Use unit = "agent", or clips = "records"'),
        ({"unit": "agent", "losses": "problem"}, "belongs to no convex loss"),
        ({"unit": "agent", "losses": {"beta": 1.0}}, "belongs to no convex loss"),
    ],
)
def test_whole_gradients_clipped_refuse_what_they_do_not_keep(table, said):
    with pytest.raises(ConfigError, match=said):
        made(privacy={"clips": "gradient", **table})


def test_laplace_guarantees_are_pure_and_need_no_delta():
    experiment = made(noise={"law": "laplace"}, privacy={"clip_norm": "l1", "delta": None})
    (found,) = guarantees(experiment)
    assert privacy.stated_delta(experiment) == 0.0
    assert found.epsilon(0.0) == pytest.approx(9 * 0.1 * (2 / 8) / (0.1 / math.sqrt(2)))  # T step (2C/n) / b


def test_batch_size_unit_and_adjacency_reach_the_sensitivity():
    full = only().mu
    assert only(algorithm={"batch_size": 2}).mu == pytest.approx(full * 8 / 2)
    assert only(privacy={"unit": "agent"}).mu == pytest.approx(full * 8)
    assert only(privacy={"unit": "agent", "adjacency": "add-remove"}).mu == pytest.approx(full * 4)
    assert only(privacy={"adjacency": "add-remove"}).adjacency == "add-remove"


def test_l2_clipping_costs_the_square_root_of_the_dimension_under_laplace_noise():
    l1, l2 = (only(noise={"law": "laplace"}, privacy={"clip_norm": norm_, "delta": None}) for norm_ in ("l1", "l2"))
    assert l2.epsilon(0.0) == pytest.approx(math.sqrt(2) * l1.epsilon(0.0))


def test_every_agent_has_its_own_sensitivity_and_the_smallest_is_the_worst():
    experiment = made(problem=CANCER)
    sizes = experiment.problem.sizes
    assert np.ptp(sizes) > 20
    np.testing.assert_allclose(privacy.sensitivities(experiment), 2.0 / sizes)
    (found,) = guarantees(experiment)
    assert found.agent == np.argmin(sizes)
    each = privacy.guarantees_of_agents(experiment)
    assert [one.agent for one in each] == list(range(5))
    np.testing.assert_allclose([one.mu * size for one, size in zip(each, sizes, strict=True)], found.mu * sizes.min())


def test_a_ridge_bounds_an_agents_gradients_at_the_same_model_only():
    without_self_noise = {"self_noise": False}
    with pytest.raises(UnsupportedClaim, match=r"same model only.*\[privacy\] losses"):
        only(noise=without_self_noise, privacy={"unit": "agent"})
    assert made(privacy={"unit": "agent"}).privacy.same_model is True
    assert made(privacy={"unit": "agent"}, problem={"ridge": 0.0}).privacy.same_model is None
    assert made(privacy={"unit": "agent"}, problem=POINTS).privacy.same_model is None
    assert only(noise=without_self_noise, privacy={"unit": "agent"}, problem={"ridge": 0.0}).mu < math.inf
    assert only(noise=without_self_noise, privacy={"unit": "agent"}, problem=POINTS).mu < math.inf
    assert only(noise=without_self_noise, privacy={"unit": "agent", "losses": "problem"}).mu < math.inf


def test_the_promise_of_the_problem_is_used_and_one_it_cannot_make_is_refused():
    experiment = made(noise={"self_noise": False}, privacy={"losses": "problem"})
    assert experiment.privacy.losses == experiment.problem.losses
    stated = experiment.problem.losses
    written = made(noise={"self_noise": False}, privacy={"losses": {"beta": stated.beta, "nu": stated.nu}})
    assert guarantees(written)[0].mu == guarantees(experiment)[0].mu
    weaker = made(noise={"self_noise": False}, privacy={"losses": {"beta": stated.beta}})
    assert guarantees(weaker)[0].mu > guarantees(experiment)[0].mu
    with pytest.raises(UnsupportedClaim, match="can promise nothing"):
        made(problem=POINTS, privacy={"losses": "problem", "clip_norm": "l1"})


def test_nothing_proved_names_the_observer_and_the_key_that_would_help():
    with pytest.raises(UnsupportedClaim, match=r"^eavesdropper: .*In a file: \[privacy\] losses"):
        only(noise={"kind": "graph_homomorphic"})


def test_participation_reaches_the_account():
    whole, once = only(), only(privacy={"participation": "once"})
    assert once.mu == pytest.approx(whole.mu / 3)
    assert only(privacy={"participation": {"times": 4, "gap": 2}}).mu == pytest.approx(whole.mu * 2 / 3)
    assert any("takes part in no other rounds" in each for each in once.assumptions)


def assumptions(**changes):
    return " ".join(only(**changes).assumptions)


def test_assumptions_say_what_is_public_and_where_promises_come_from():
    assert "number of records is public: it enters the sensitivity" in assumptions()
    assert "number of records" not in assumptions(algorithm={"batch_size": 2})
    assert "any record may be drawn in any round" in assumptions(algorithm={"batch_size": 2})
    assert "number of records" not in assumptions(privacy={"unit": "agent"})
    by_records = {"kind": "federation", "weights": "records"}
    assert "sets the agent's weight" in assumptions(topology=by_records, privacy={"unit": "agent"})
    promised = {"losses": "problem"}
    assert "beta was computed from the features" in assumptions(privacy=promised)
    assert "beta was computed" not in assumptions(privacy=promised, problem={"unit_norm": True})
    assert "beta was computed" not in assumptions(privacy=promised, problem=POINTS)


def test_an_observer_that_the_topology_does_not_have_is_refused_when_building():
    with pytest.raises(ConfigError, match="there is no agent 7"):
        made(privacy={"observers": ["curious_agent:7"]})
    with pytest.raises(ConfigError, match="no link from 0 to 2"):
        made(privacy={"observers": ["links:0->2"]})
    with pytest.raises(IncompatibleChoice, match="server"):
        made(privacy={"observers": ["server"]})


def test_without_observers_there_is_nothing_to_account_for():
    with pytest.raises(ConfigError, match="nobody to account for"):
        guarantees(made(privacy={"observers": None}))
    data = {section: table for section, table in BASE.items() if section != "privacy"}
    with pytest.raises(ConfigError, match="nothing is said about privacy"):
        guarantees(build(parse(data, source="test")))


@pytest.mark.parametrize(("law", "size"), [("gaussian", "std"), ("laplace", "std"), ("l2_laplace", "scale")])
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_noise_given_by_an_epsilon_meets_it_from_the_private_side(law, size, epsilon):
    experiment = made(noise={"law": law, "std": None, "epsilon": epsilon})
    (found,) = guarantees(experiment)
    assert epsilon * (1 - 1e-5) < found.epsilon(DELTA) <= epsilon
    same = made(noise={"law": law, "std": None, size: float(f"{privacy.size(experiment.noise.law):.7g}")})
    assert guarantees(same)[0].epsilon(DELTA) == pytest.approx(found.epsilon(DELTA), rel=1e-12)


def test_noise_is_calibrated_for_the_first_observer_and_its_own_delta():
    promised = {"losses": "problem", "observers": ["final_model", "eavesdropper"]}
    rows = {found.observer: found for found in guarantees(made(noise=CALIBRATED, privacy=promised))}
    assert rows["final model"].epsilon(DELTA) == pytest.approx(2.0, rel=1e-5)
    assert rows["eavesdropper"].epsilon(DELTA) > 3.0
    looser = made(noise={**CALIBRATED, "delta": 1e-3})
    assert guarantees(looser)[0].epsilon(1e-3) == pytest.approx(2.0, rel=1e-5)
    assert privacy.stated_delta(looser) == DELTA


def test_a_file_that_gives_delta_with_epsilon_is_stated_for_it():
    experiment = made(noise={**CALIBRATED, "delta": 1e-4}, privacy={"delta": None})
    assert privacy.stated_delta(experiment) == 1e-4


def test_no_size_of_noise_protects_from_somebody_in_whose_view_it_cancels():
    cancelling = {"kind": "graph_homomorphic", "std": None, "epsilon": 2.0}
    with pytest.raises(UnsupportedClaim, match="final model: no amount"):
        made(noise=cancelling, privacy={"losses": "problem", "observers": ["final_model"]})


def test_guarantees_are_those_of_the_python_interface():
    experiment = made(privacy={"losses": "problem", "observers": ["coalition:0,1", "links:2->3", "final_model"]})
    found = guarantees(experiment)
    released = sv.observers.final_model()
    listed = [sv.observers.coalition([0, 1]), sv.observers.links([(2, 3)])]
    together = [one for observer in listed for one in (observer, observer + released)]
    for one, observer in zip(found, [*together, released], strict=True):
        direct = sv.account(
            experiment.topology,
            sv.algorithms.atc(step_size=0.1),
            sv.noise.independent(sv.noise.Gaussian(std=0.1)),
            observer,
            rounds=9,
            sensitivity=2.0 / 8,
            unit="record",
            losses=experiment.problem.losses,
        )
        assert (one.mu, one.validity, one.observer) == (direct.mu, direct.validity, observer.name)


def test_statement_is_json_with_infinity_as_null_and_notes_for_the_reader():
    experiment = made(algorithm={"kind": "cta"}, privacy={"observers": ["eavesdropper", "final_model"]})
    stated = privacy.statement(experiment, guarantees(experiment))
    assert json.loads(json.dumps(stated, allow_nan=False)) == stated
    assert [row["epsilon"]["1e-05"] is None for row in stated["guarantees"]] == [False, True, True]
    assert privacy.UNRELEASED not in stated["notes"]
    alone = privacy.statement(made(), guarantees(made()))
    assert privacy.UNRELEASED in alone["notes"]
    assert privacy.LINEAR_VIEW not in alone["notes"]
    partial = made(privacy={"observers": ["curious_agent:0"]})
    assert privacy.LINEAR_VIEW in privacy.statement(partial, guarantees(partial))["notes"]


def test_description_of_an_experiment_names_its_privacy_in_plain_json():
    experiment = made(
        privacy={
            "losses": {"beta": 3.0},
            "participation": {"times": 2, "gap": 3},
            "budget": {"epsilon": 1.0, "observer": "eavesdropper"},
        }
    )
    described = experiment.describe()["privacy"]
    assert json.loads(json.dumps(described, allow_nan=False)) == described
    assert described["participation"] == {"times": 2, "gap": 3}
    assert described["losses"] == {"beta": 3.0, "nu": 0.0}
    assert described["budget"] == {"epsilon": 1.0, "observer": "eavesdropper", "until_spent": False}
