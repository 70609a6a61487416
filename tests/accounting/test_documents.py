"""Numbers as documents print them."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.accounting.documents import showkatbakhsh_budget, showkatbakhsh_schedule


def test_budget_at_epsilon_one():
    """1 / (1 + 2 ln(2e5)) = 0.0393513 at (1, 1e-5), worked out by hand from Theorem 1."""
    assert showkatbakhsh_budget(1.0, 1e-5) == pytest.approx(0.0393513, rel=1e-5)


@pytest.mark.parametrize(("rounds", "share"), [(20, 0.85), (1000, 0.98)])
def test_the_schedule_spends_almost_all_of_its_budget_and_never_more(rounds, share):
    step, sensitivity = 0.7, 0.03
    M = showkatbakhsh_schedule(epsilon=4.0, delta=1e-3, gradient_rounds=rounds, step_size=step, sensitivity=sensitivity)
    spent = np.sum((step / np.arange(1, rounds + 1) * sensitivity) ** 2 / M**2) / showkatbakhsh_budget(4.0, 1e-3)
    assert spent <= 1.0
    assert spent == pytest.approx(share, abs=0.01)


def test_noise_falls_with_epsilon_and_with_the_number_of_records():
    base = {"delta": 1e-3, "gradient_rounds": 5, "step_size": 1.0}
    one = showkatbakhsh_schedule(epsilon=1.0, sensitivity=0.1, **base)
    np.testing.assert_allclose(showkatbakhsh_schedule(epsilon=1.0, sensitivity=0.05, **base), one / 2)
    assert (showkatbakhsh_schedule(epsilon=2.0, sensitivity=0.1, **base) < one).all()


@pytest.mark.parametrize(
    "bad", [{"epsilon": 0.0}, {"delta": 0.0}, {"delta": 1.0}, {"sensitivity": 0.0}, {"gradient_rounds": 0}]
)
def test_numbers_outside_the_theorem_are_refused(bad):
    good = {"epsilon": 1.0, "delta": 1e-3, "gradient_rounds": 5, "step_size": 1.0, "sensitivity": 0.1}
    with pytest.raises(sv.ConfigError):
        showkatbakhsh_schedule(**(good | bad))
