"""Noise levels and privacy numbers as documents print them: what a paper states, under its name, never as a guarantee of ours.

Showkatbakhsh et al., Theorem 1: the two-stage method is (epsilon, delta)-DP against someone who hears all messages if

    sum_t Delta(t)^2 / M_t^2  <=  epsilon^2 / (epsilon + 2 ln(2 / delta))

with Delta(t) the change of round t's message when one record changes, and M_t the noise's standard deviation. Theorem 2 spends this
with M_t^2 = (2 / kappa) eta^2 sqrt(T) / t^1.5 for steps eta / t. It is stated there for gradients of sums over an agent's records;
here gradients are averages over n records, so a record changes a gradient by `sensitivity` = (its change) / n.
"""

import math

import numpy as np

from sottovoce.errors import ConfigError


def showkatbakhsh_budget(epsilon: float, delta: float) -> float:
    """The right-hand side of Showkatbakhsh et al., Theorem 1: what sum_t Delta(t)^2 / M_t^2 may reach."""
    if not epsilon > 0 or not 0 < delta < 1:
        raise ConfigError(f"epsilon = {epsilon:g}, delta = {delta:g}; the theorem needs epsilon > 0 and 0 < delta < 1.")
    return epsilon**2 / (epsilon + 2.0 * math.log(2.0 / delta))


def showkatbakhsh_schedule(
    *, epsilon: float, delta: float, gradient_rounds: int, step_size: float, sensitivity: float
) -> np.ndarray:
    """Standard deviations M_1..M_T of Showkatbakhsh et al., Theorem 2, for steps step_size / t.

    The schedule spends a little less than its budget: sum_t t^(-1/2) / (2 sqrt T) of it, which tends to one.

    Args:
        epsilon: the document's target.
        delta: the document's target.
        gradient_rounds: T.
        step_size: eta, where round t steps by eta / t.
        sensitivity: l2 change of one agent's gradient when one record is replaced, at the same model.
    """
    if gradient_rounds < 1 or not step_size > 0 or not sensitivity > 0:
        raise ConfigError("gradient_rounds must be at least 1, step_size and sensitivity above 0.")
    t = np.arange(1, gradient_rounds + 1)
    variance = (
        2.0
        / showkatbakhsh_budget(epsilon, delta)
        * (step_size * sensitivity) ** 2
        * math.sqrt(gradient_rounds)
        / t**1.5
    )
    return np.asarray(np.sqrt(variance))
