"""Showkatbakhsh et al.: two-stage gradient descent with Gaussian noise, against someone who hears all messages.

In round t every agent takes a projected gradient step of size eta_t at a public point and sends it with noise of
standard deviation M_t. Delta(t) is the change of round t's message, given all earlier messages, when one record
changes.

    Theorem 1, (14)      private if  sum_t Delta(t)^2 / M_t^2  <=  epsilon^2 / (epsilon + 2 ln(2 / delta))
    Proposition 3        Delta(t) <= 2 eta_t G                                          for G-Lipschitz local sums
    Corollary 1, (15)    private if  sum_t eta_t^2 / M_t^2  <=  kappa = epsilon^2 / (4 G^2 (epsilon + 2 ln(2 / delta)))
    Theorem 2            M_t^2 = (2 / kappa) eta^2 sqrt(T) / t^1.5                      for steps eta_t = eta / t
    Proposition 2        one Gaussian release: sigma^2 >= 2 ln(1.25 / delta) Delta^2 / epsilon^2, for epsilon < 1

How they stand. All T messages together tell no more than one Gaussian release with mu^2 = sum_t Delta(t)^2 / M_t^2, so
the exact budget is mu(epsilon, delta)^2, about twice the document's: Theorem 1 is true and asks for a third to a half
more noise than needed. But Algorithm 1 as printed (line 8, eq. 12) starts its second stage by sending x_i(T) in clear,
one gradient step past a public point: whoever hears it has that gradient, and epsilon is infinite. The statements hold
if this hand-over is sent, and continued from, with the noise n_i(T) of eq. 11, as `algorithms.dgd` does. Proposition 2
prints Delta for Delta^2.

Theorem 2 is stated for gradients of sums over an agent's records. The schedule here takes the change of a gradient
itself, so for averages over n records `sensitivity` is (the change of one record's gradient) / n.
"""

import math
from typing import Literal

import numpy as np

from sottovoce.accounting.documents.statement import DocumentStatement
from sottovoce.accounting.mechanisms import gaussian
from sottovoce.errors import ConfigError
from sottovoce.numbers import checked, chosen, whole

HandOver = Literal["noised", "clear"]


def showkatbakhsh_budget(epsilon: float, delta: float) -> float:
    """The right-hand side of Theorem 1, eq. 14: what sum_t Delta(t)^2 / M_t^2 may reach."""
    eps = checked("epsilon", epsilon, "(0, inf)")
    return eps**2 / (eps + 2.0 * math.log(2.0 / checked("delta", delta, "(0, 1)")))


def showkatbakhsh_exact_budget(epsilon: float, delta: float) -> float:
    """What sum_t Delta(t)^2 / M_t^2 may really reach: the squared Gaussian-DP parameter of (epsilon, delta)."""
    return gaussian.mu(checked("epsilon", epsilon, "(0, inf)"), checked("delta", delta, "(0, 1)")) ** 2


def showkatbakhsh_noise_ratio(epsilon: float, delta: float) -> float:
    """How many times the necessary noise standard deviation Theorem 1 asks for."""
    return math.sqrt(showkatbakhsh_exact_budget(epsilon, delta) / showkatbakhsh_budget(epsilon, delta))


def showkatbakhsh_condition(epsilon: float, delta: float, *, hand_over: HandOver) -> DocumentStatement:
    """Theorem 1, eq. 14: the budget for sum_t Delta(t)^2 / M_t^2 that keeps the method (epsilon, delta)-private.

    States: below this budget the distributed algorithm is (epsilon, delta)-differentially private.
    For whom: someone who hears all messages. The unit is one record, replaced.
    Upper bound: a noised hand-over makes it true and not tight (`showkatbakhsh_exact_budget`); the printed hand-over in
    clear makes it false whatever the budget.

    Args:
        epsilon: target, above 0.
        delta: target, in (0, 1).
        hand_over: "clear" for Algorithm 1 as printed, "noised" for `algorithms.dgd`.
    """
    return DocumentStatement(
        value=showkatbakhsh_budget(epsilon, delta),
        kind="budget",
        source="Showkatbakhsh et al., Theorem 1",
        upper_bound=_noised(hand_over),
        verdict=_hand_over_verdict(hand_over),
    )


def showkatbakhsh_epsilon(spent: float, delta: float, *, hand_over: HandOver) -> DocumentStatement:
    """Theorem 1, eq. 14, solved for epsilon: (s + sqrt(s^2 + 8 s ln(2 / delta))) / 2 for s = sum_t Delta(t)^2 / M_t^2.

    States, for whom, upper bound: as `showkatbakhsh_condition`.

    Args:
        spent: s, the sum over the T gradient rounds. Delta(t) is eta_t times the change of an agent's gradient at one
            point.
        delta: target, in (0, 1).
        hand_over: "clear" for Algorithm 1 as printed, "noised" for `algorithms.dgd`.
    """
    s = checked("spent", spent, "(0, inf)")
    return DocumentStatement(
        value=0.5 * (s + math.sqrt(s**2 + 8.0 * s * math.log(2.0 / checked("delta", delta, "(0, 1)")))),
        kind="epsilon",
        source="Showkatbakhsh et al., Theorem 1",
        upper_bound=_noised(hand_over),
        verdict=_hand_over_verdict(hand_over),
    )


def showkatbakhsh_kappa(
    epsilon: float, delta: float, *, gradient_bound: float, hand_over: HandOver
) -> DocumentStatement:
    """Corollary 1, eq. 15: the budget for sum_t eta_t^2 / M_t^2 when every local sum is G-Lipschitz.

    States: below kappa the distributed algorithm is (epsilon, delta)-differentially private.
    For whom: someone who hears all messages. 2 eta_t G (Proposition 3) bounds the change of a message when ALL records
    of an agent change, so the unit may be the agent; for one record it is loose.
    Upper bound: as `showkatbakhsh_condition`. Projections do not matter: they are public or bring points closer.

    Args:
        epsilon: target, above 0.
        delta: target, in (0, 1).
        gradient_bound: G, l2 bound on the gradient of an agent's SUM of losses on the whole set that is projected on.
        hand_over: "clear" for Algorithm 1 as printed, "noised" for `algorithms.dgd`.
    """
    return DocumentStatement(
        value=showkatbakhsh_budget(epsilon, delta) / (4.0 * checked("gradient_bound", gradient_bound, "(0, inf)") ** 2),
        kind="budget",
        source="Showkatbakhsh et al., Corollary 1",
        upper_bound=_noised(hand_over),
        verdict=_hand_over_verdict(hand_over),
    )


def showkatbakhsh_schedule(
    *, epsilon: float, delta: float, gradient_rounds: int, step_size: float, sensitivity: float
) -> np.ndarray:
    """Standard deviations M_1..M_T of Theorem 2, for steps step_size / t.

    The schedule spends a little less than its budget: `showkatbakhsh_spent_share` of it.

    Args:
        epsilon: the document's target.
        delta: the document's target.
        gradient_rounds: T.
        step_size: eta, where round t steps by eta / t.
        sensitivity: l2 change of one agent's gradient when one record is replaced, at the same model.
    """
    T, budget = whole("gradient_rounds", gradient_rounds), showkatbakhsh_budget(epsilon, delta)
    change = checked("step_size", step_size, "(0, inf)") * checked("sensitivity", sensitivity, "(0, inf)")
    t = np.arange(1, T + 1)
    variance = 2.0 / budget * change**2 * math.sqrt(T) / t**1.5
    return np.asarray(np.sqrt(variance))


def showkatbakhsh_spent_share(gradient_rounds: int) -> DocumentStatement:
    """The share of kappa that Theorem 2's schedule spends: sum_t t^(-1/2) / (2 sqrt T), below 1 and tending to 1.

    States: the schedule satisfies Corollary 1 (shown in the document's section IV-B in words).
    For whom: as Corollary 1.
    Upper bound: yes, the share stays below 1. The rest is given away: the same shape of schedule scaled to spend all of
    kappa has sqrt(share) times the standard deviation.

    Args:
        gradient_rounds: T.
    """
    T = whole("gradient_rounds", gradient_rounds)
    return DocumentStatement(
        value=float(np.sum(1.0 / np.sqrt(np.arange(1, T + 1))) / (2.0 * math.sqrt(T))),
        kind="share",
        source="Showkatbakhsh et al., Theorem 2",
        upper_bound=True,
        verdict="the schedule never spends more than Corollary 1 allows, and leaves the rest unused",
    )


def showkatbakhsh_gaussian_variance_as_printed(
    *, sensitivity: float, epsilon: float, delta: float
) -> DocumentStatement:
    """Proposition 2 as printed: sigma^2 >= 2 ln(1.25 / delta) Delta / epsilon^2, with Delta where Delta^2 belongs.

    States: one Gaussian release with this variance is (epsilon, delta)-differentially private, for epsilon < 1.
    For whom: whoever sees the release.
    Upper bound: only for Delta <= 1; above, the noise is too small by a factor that grows with Delta.

    Args:
        sensitivity: Delta, the l2 change of the released vector.
        epsilon: target, in (0, 1).
        delta: target, in (0, 1).
    """
    holds = checked("sensitivity", sensitivity, "(0, inf)") <= 1.0
    return DocumentStatement(
        value=_classic(epsilon, delta) * sensitivity,
        kind="variance",
        source="Showkatbakhsh et al., Proposition 2 as printed",
        upper_bound=holds,
        verdict="for whoever sees one release; the sensitivity must be squared, "
        + ("which matters only above 1" if holds else "without which the noise is too small"),
    )


def showkatbakhsh_gaussian_variance(*, sensitivity: float, epsilon: float, delta: float) -> DocumentStatement:
    """Proposition 2 with its square: sigma^2 >= 2 ln(1.25 / delta) Delta^2 / epsilon^2, for epsilon < 1.

    States, for whom: as `showkatbakhsh_gaussian_variance_as_printed`.
    Upper bound: yes, for epsilon < 1 (the document's reference is Dwork & Roth 2014, Theorem 3.22); more noise than
    necessary.

    Args:
        sensitivity: Delta, the l2 change of the released vector.
        epsilon: target, in (0, 1).
        delta: target, in (0, 1).
    """
    return DocumentStatement(
        value=_classic(epsilon, delta) * checked("sensitivity", sensitivity, "(0, inf)") ** 2,
        kind="variance",
        source="Showkatbakhsh et al., Proposition 2 with the square",
        upper_bound=True,
        verdict="for whoever sees one release; sufficient, not necessary",
    )


def _classic(epsilon: float, delta: float) -> float:
    eps = checked("epsilon", epsilon, "(0, inf)")
    if eps >= 1.0:
        raise ConfigError(
            f"epsilon = {eps:g}; Proposition 2 needs epsilon < 1. Use accounting.gaussian.std, which is exact."
        )
    return 2.0 * math.log(1.25 / checked("delta", delta, "(0, 1)")) / eps**2


def _noised(hand_over: str) -> bool:
    return chosen("hand_over", hand_over, ("noised", "clear")) == "noised"


def _hand_over_verdict(hand_over: str) -> str:
    if _noised(hand_over):
        return "for someone who hears all messages, the hand-over being noised; sufficient, not necessary"
    return "for someone who hears all messages; x(T) sent in clear gives the last gradient away, so epsilon is infinite"
