"""Privacy of the final models alone when every local step is a contraction.

ATC (or federated averaging) with self-noise, doubly stochastic A, constant step and noise:

    psi_i = step_i(w_{i-1}),   w_i = A^T (psi_i + z_i),   z_i ~ N(0, std^2 I) over all agents,   i = 1..T;

only w_T is released. Let d_i be the difference of the stacked psi_i between the two worlds. Shift the second world's
noise by -theta_i d_i, theta in [0, 1] fixed. Since ||A|| <= 1, each local step is a c-contraction and agent p's two
steps differ by at most b = step * sensitivity at the same point, ||d_i|| <= e_i and the shift's norm is at most H_i =
theta_i e_i with

    e_1 = b,   e_{i+1} = c (e_i - H_i) + b.

With theta_T = 1 the released w_T coincide, so adaptive Gaussian composition gives mu^2 = sum_i H_i^2 / std^2 (the
idea of shifted interpolation). What remains is to choose H. Put u_i = e_i - H_i, u_0 = 0. Then H_i = c u_{i-1} + b -
u_i and, as the sum telescopes, u_T = 0 if and only if

    sum_i c^(T-i) H_i = b (1 - c^T) / (1 - c).

By Cauchy-Schwarz the least sum of squares is reached at H_i = b (1 + c) / (1 + c^T) c^(T-i):

    mu = (b / std) sqrt( (1 + c) / (1 - c) * (1 - c^T) / (1 + c^T) ).

This H is allowed, 0 <= H_i <= e_i: b - H_i falls with i, so if u_i = c u_{i-1} + b - H_i were the first negative one,
b - H_i and all later ones would be negative, and with them u_T. c = 1 gives sqrt(T) b / std: no gain over publishing
every message; for c < 1 the value stays below sqrt((1 + c) / (1 - c)) b / std for ever.
"""

import math

from sottovoce.accounting.proofs.evidence import Evidence
from sottovoce.accounting.proofs.proof import Proof, Statement
from sottovoce.accounting.question.promise import contraction as contraction_of
from sottovoce.accounting.tradeoff import GaussianTradeoff
from sottovoce.linear import exchange_topologies
from sottovoce.numbers import checked, whole


def contraction_mu(*, step_size: float, sensitivity: float, std: float, contraction: float, rounds: int) -> float:
    """Gaussian mu of all final models w_T together: ATC, self-noise, doubly stochastic A, constant step and noise.

    Args:
        step_size: of the local gradient step.
        sensitivity: l2 change of the protected agent's gradient at the same model.
        std: noise per coordinate.
        contraction: c = max(|1 - step nu|, |1 - step beta|), from 0 to 1.
        rounds: T, the number of noisy messages before the release.
    """
    for name, value in (("step_size", step_size), ("sensitivity", sensitivity), ("std", std)):
        checked(name, value, "(0, inf)")
    checked("contraction", contraction, "[0, 1]")
    whole("rounds", rounds)
    c, power = contraction, contraction**rounds
    geometric = 1.0 if c == 0.0 else float(rounds)  # 1 + c + ... + c^(T-1)
    if 0.0 < c < 1.0:
        geometric = -math.expm1(rounds * math.log(c)) / (1.0 - c)
    return step_size * sensitivity / std * math.sqrt((1.0 + c) / (1.0 + power) * geometric)


def states(evidence: Evidence, agent: int) -> Statement | None:
    """The final model alone, of equal ATC rounds with self-noise on doubly stochastic weights."""
    asked, rounds, steps = evidence.asked, evidence.rounds, evidence.steps
    assert rounds is not None
    if steps is None or steps[0].kind != "atc" or not evidence.same_rounds:
        return None
    if not exchange_topologies(asked.algorithm, asked.topology)[0].is_doubly_stochastic:
        return None
    if not evidence.sent.one_source_each or not evidence.sent.goes_on_from_message.all():
        return None
    value = contraction_mu(
        step_size=steps[0].size,
        sensitivity=float(asked.sensitivity[agent]),
        std=float(rounds.scales[0]),
        contraction=contraction_of(steps[0].size, asked.losses),
        rounds=len(rounds),
    )
    return Statement(
        tradeoff=GaussianTradeoff(value),
        value=value,
        validity="amplified-by-iteration",
        reason="Every step brings two runs closer together, so early differences fade before the model is released.",
        section="Final model",
        promised=True,
        others=True,
    )


PROOF = Proof(
    "contraction",
    where=frozenset({"final model alone", "bound rounds", "Gaussian", "promise", "fresh noise"}),
    states=states,
)
