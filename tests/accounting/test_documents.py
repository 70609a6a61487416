"""What a document's number looks like, and which inputs every formula refuses."""

import math

import pytest

import sottovoce as sv
from sottovoce.accounting import documents

DIFFUSION = {"step_size": 0.4, "gradient_bound": 1.0, "scale": 10.0, "rounds": 25, "norm": "l1", "dimension": 2}
SETTING = {
    "epsilon": 4.0,
    "delta": 1e-3,
    "gradient_rounds": 20,
    "gradient_bound": 1.0,
    "strong_convexity": 1.0,
    "smoothness": 2.0,
    "dimension": 2,
    "num_agents": 3,
    "second_eigenvalue": 0.5,
    "initial_error": 1.0,
    "squared_norm": 3.0,
}
CALLS = {  # every formula with a complete set of arguments
    documents.vlaski_sayed_sensitivity: {"step_size": 0.4, "gradient_bound": 1.0, "rounds": 25},
    documents.vlaski_sayed_epsilon: DIFFUSION,
    documents.vlaski_sayed_epsilon_as_printed: DIFFUSION,
    documents.rizk_sensitivity: {
        "error_bound": 1.0,
        "changed_error_bound": 1.0,
        "optimum_shift": 0.5,
        "num_agents": 4,
    },
    documents.rizk_failure_probability: {
        "mean_square_error": 0.1,
        "changed_mean_square_error": 0.1,
        "error_bound": 1.0,
        "changed_error_bound": 1.0,
    },
    documents.rizk_mutual_information: {"message_variance": 1.0, "noise_variance": 1.0, "noise": "laplace"},
    documents.showkatbakhsh_condition: {"epsilon": 1.0, "delta": 1e-5, "hand_over": "noised"},
    documents.showkatbakhsh_epsilon: {"spent": 0.1, "delta": 1e-5, "hand_over": "clear"},
    documents.showkatbakhsh_kappa: {"epsilon": 1.0, "delta": 1e-5, "gradient_bound": 2.0, "hand_over": "noised"},
    documents.showkatbakhsh_spent_share: {"gradient_rounds": 20},
    documents.showkatbakhsh_gaussian_variance: {"sensitivity": 2.0, "epsilon": 0.5, "delta": 1e-5},
    documents.showkatbakhsh_gaussian_variance_as_printed: {"sensitivity": 2.0, "epsilon": 0.5, "delta": 1e-5},
}
ZERO_IS_FINE = {"mean_square_error", "changed_mean_square_error", "optimum_shift", "initial_error", "squared_norm"}


EACH_ARGUMENT = [
    pytest.param(formula, arguments, name, id=f"{formula.__name__}-{name}")
    for formula, arguments in CALLS.items()
    for name in arguments
]


@pytest.mark.parametrize(("formula", "arguments"), list(CALLS.items()), ids=[formula.__name__ for formula in CALLS])
def test_every_formula_gives_a_statement_with_source_and_verdict(formula, arguments):
    statement = formula(**arguments)
    assert isinstance(statement, documents.DocumentStatement)
    assert math.isfinite(statement.value)
    text = str(statement)
    assert text.startswith(statement.source)
    assert f"{statement.value:.6g}" in text
    assert statement.verdict in text
    assert ("does not hold" in text) is not statement.upper_bound


def test_a_statement_is_a_sentence():
    statement = documents.vlaski_sayed_sensitivity(step_size=0.5, gradient_bound=2.0, rounds=3)
    assert str(statement) == (
        "Vlaski & Sayed, Lemma 11.4 states sensitivity = 6, which holds: it bounds the distance of two runs with equal "
        "noise, in the norm of the gradient bound; a privacy loss needs the distance at equal messages."
    )


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, 0.0, True, "x", None])
@pytest.mark.parametrize(("formula", "arguments", "name"), EACH_ARGUMENT)
def test_no_formula_takes_what_is_no_number_in_its_range(formula, arguments, name, bad):
    if name in ZERO_IS_FINE and bad == 0.0:
        formula(**(arguments | {name: bad}))
        return
    with pytest.raises(sv.ConfigError, match=name):
        formula(**(arguments | {name: bad}))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, True, "x"])
@pytest.mark.parametrize("name", list(SETTING))
def test_no_setting_holds_what_is_no_number_in_its_range(name, bad):
    documents.ShowkatbakhshSetting(**SETTING)
    with pytest.raises(sv.ConfigError, match=name):
        documents.ShowkatbakhshSetting(**(SETTING | {name: bad}))


def test_settings_that_contradict_themselves_are_refused():
    with pytest.raises(sv.ConfigError, match="second_eigenvalue"):
        documents.ShowkatbakhshSetting(**(SETTING | {"second_eigenvalue": 1.0}))
    with pytest.raises(sv.ConfigError, match="exceeds smoothness"):
        documents.ShowkatbakhshSetting(**(SETTING | {"strong_convexity": 3.0}))
