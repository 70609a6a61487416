"""Closed forms for a reader of every message, one agent, constant step and noise: what `account` reproduces, in microseconds.

With rho = a (1 - s), a the agent's own weight and s the share of the sent noise in its own copy (1: the agent uses what it sent; 0: a
clean own copy; -(1 - a) / a: graph-homomorphic), the message of round i differs by d_i = step Delta (1 - rho^i) / (1 - rho), and

    mu = sqrt(copies sum_i d_i^2) / std,      epsilon = copies sum_i d_i / scale        over the rounds whose gradient is sent.

    s = 1                  mu = step Delta sqrt(T) / std,                        epsilon = step Delta T / scale
    graph-homomorphic      mu = step Delta sqrt(T (T+1) (2T+1) / 6) / std,       epsilon = step Delta T (T+1) / (2 scale)

ATC sends T gradients in T rounds, consensus and CTA T - 1. Noise drawn for every link counts `copies` = number of links.
"""

import math

import numpy as np

from sottovoce.numbers import checked, whole


def every_message_mu(
    *, step_size: float, sensitivity: float, std: float, gradients_sent: int, feedback: float, copies: int = 1
) -> float:
    """Exact mu of Gaussian noise; `feedback` is rho."""
    differences = _differences(step_size, sensitivity, gradients_sent, feedback, copies)
    return math.sqrt(copies) * float(np.linalg.norm(differences)) / checked("std", std, "(0, inf)")


def every_message_epsilon(
    *, step_size: float, sensitivity: float, scale: float, gradients_sent: int, feedback: float, copies: int = 1
) -> float:
    """Exact pure epsilon of a Laplace law, with the sensitivity in its norm; `feedback` is rho."""
    differences = _differences(step_size, sensitivity, gradients_sent, feedback, copies)
    return copies * float(differences.sum()) / checked("scale", scale, "(0, inf)")


def _differences(step_size: float, sensitivity: float, gradients_sent: int, feedback: float, copies: int) -> np.ndarray:
    whole("gradients_sent", gradients_sent)
    whole("copies", copies)
    size = checked("step_size", step_size, "(0, inf)") * checked("sensitivity", sensitivity, "(0, inf)")
    rho = abs(checked("feedback", feedback, "(-inf, inf)"))
    rounds = np.arange(1, gradients_sent + 1)
    if rho == 1.0:
        return size * rounds.astype(float)
    # expm1 keeps the digits of (1 - rho^i) / (1 - rho) near rho = 1
    return np.asarray(size * (-np.expm1(rounds * math.log(rho)) if rho > 0 else np.ones(len(rounds))) / (1.0 - rho))
