"""Vlaski & Sayed, chapter 11: what diffusion with graph-homomorphic Laplace noise is said to cost in privacy.

    phi_k,i = w_k,i-1 - mu grad_k(w_k,i-1),  psi_kl,i = phi_k,i + v_kl,i,  w_k,i = sum_l a_lk psi_lk,i  (11.33-11.35)
    v_kl,i = v'_k,i for l != k,  v_kk,i = -((1 - a_kk) / a_kk) v'_k,i,  v' ~ Laplace(b)                (11.38)

((11.34) prints phi_k,i-1 for phi_k,i.) With every gradient bounded by G (11.40), and all data of one agent replaced:

    Lemma 11.4, (11.41)     max_k ||w_k,i - w'_k,i|| <= 2 mu G i
    Theorem 11.1, (11.47)   epsilon(i) = mu G (i^2 + i) / b

How the theorem stands. Its proof compares runs with equal noise (Lemma 11.4), while a ratio of densities compares runs
with equal messages. Given the messages, agent p's own phi differs by d_i = rho d_{i-1} - mu (g_i - g'_i), and epsilon =
sum_i ||d_i||_1 / b with

    rho = 1        graph-homomorphic noise: sum_i 2 mu G i / b, which is (11.47), attained
    rho = 0        independent noise that the agent also puts on its own copy (11.25-11.27): 2 mu G i / b only
    rho = a_pp     independent noise, own copy left clean: between the two.

The norm is l1, because Laplace coordinates are independent; (11.40) leaves it open and (11.50) uses the norm of
(11.40).
"""

import math
from typing import Literal

from sottovoce.accounting.documents.statement import DocumentStatement
from sottovoce.numbers import checked, chosen, whole

Norm = Literal["l1", "l2"]

_FOR_WHOM = "for someone who reads all messages and no model, with all data of one agent replaced"


def vlaski_sayed_sensitivity(*, step_size: float, gradient_bound: float, rounds: int) -> DocumentStatement:
    """Lemma 11.4: how far two runs that differ in one agent's data are apart after i rounds, 2 mu G i.

    States: with probability one, max_k ||w_k,i - w'_k,i|| <= 2 mu G i.
    For whom: nobody; it is a distance between two runs that draw the same noise.
    Upper bound: yes, in whatever norm the gradients are bounded, as weights are non-negative and columns sum to one.
    But a privacy loss needs the distance given the same messages, which this is not (see the module).

    Args:
        step_size: mu.
        gradient_bound: G, a bound on every agent's gradient approximation in any one norm (11.40); clipping provides
            it.
        rounds: i.
    """
    value = (
        2.0
        * checked("step_size", step_size, "(0, inf)")
        * checked("gradient_bound", gradient_bound, "(0, inf)")
        * whole("rounds", rounds)
    )
    return DocumentStatement(
        value=value,
        kind="sensitivity",
        source="Vlaski & Sayed, Lemma 11.4",
        upper_bound=True,
        verdict=(
            "it bounds the distance of two runs with equal noise, in the norm of the gradient bound; "
            "a privacy loss needs the distance at equal messages"
        ),
    )


def vlaski_sayed_epsilon_as_printed(
    *, step_size: float, gradient_bound: float, scale: float, rounds: int, norm: Norm, dimension: int
) -> DocumentStatement:
    """Theorem 11.1, eq. 11.47, as printed: epsilon(i) = mu G (i^2 + i) / b whatever the norm of G.

    States: diffusion with graph-homomorphic Laplace noise is epsilon(i)-differentially private for one agent.
    For whom: Definition 11.4 names an observer of what that agent sends; it is true for one who reads all messages. The
    unit is the agent. No released model is covered: graph-homomorphic noise leaves the network average bare.
    Upper bound: yes if G bounds the l1 norm (or the dimension is 1), and then attained; no if G bounds the l2 norm: the
    exact value is sqrt(dimension) times as large. It also bounds independent noise sent alike to all neighbours, where
    it grows as i^2 although the truth grows as i. It does not cover a separate draw for each neighbour, whose losses
    add up.

    Args:
        step_size: mu.
        gradient_bound: G of (11.40).
        scale: b of the Laplace law; its standard deviation is sqrt(2) b.
        rounds: i.
        norm: the norm in which G bounds the gradient.
        dimension: number of parameters M.
    """
    one_coordinate = whole("dimension", dimension) == 1
    holds = chosen("norm", norm, ("l1", "l2")) == "l1" or one_coordinate
    reason = (
        "exact for graph-homomorphic noise, loose (i^2 where the truth is i) for independent noise sent alike to all"
        if holds
        else f"an l2 bound on {dimension} independent Laplace coordinates needs the factor sqrt({dimension}) more"
    )
    return DocumentStatement(
        value=_printed(step_size, gradient_bound, scale, rounds),
        kind="epsilon",
        source="Vlaski & Sayed, eq. 11.47",
        upper_bound=holds,
        verdict=f"{_FOR_WHOM}; {reason}",
    )


def vlaski_sayed_epsilon(
    *, step_size: float, gradient_bound: float, scale: float, rounds: int, norm: Norm, dimension: int
) -> DocumentStatement:
    """Theorem 11.1, eq. 11.47, with the l1 norm that Laplace noise asks for: times sqrt(M) if G bounds the l2 norm.

    States, for whom: as `vlaski_sayed_epsilon_as_printed`.
    Upper bound: yes; and attained by graph-homomorphic noise, in either norm.

    Args:
        step_size: mu.
        gradient_bound: G of (11.40).
        scale: b of the Laplace law; its standard deviation is sqrt(2) b.
        rounds: i.
        norm: the norm in which G bounds the gradient.
        dimension: number of parameters M.
    """
    root = math.sqrt(whole("dimension", dimension))
    in_l1 = root if chosen("norm", norm, ("l1", "l2")) == "l2" else 1.0
    return DocumentStatement(
        value=in_l1 * _printed(step_size, gradient_bound, scale, rounds),
        kind="epsilon",
        source="Vlaski & Sayed, eq. 11.47 in the l1 norm",
        upper_bound=True,
        verdict=f"{_FOR_WHOM}; exact for graph-homomorphic noise, loose for independent noise sent alike to all",
    )


def _printed(step_size: float, gradient_bound: float, scale: float, rounds: int) -> float:
    mu, G = checked("step_size", step_size, "(0, inf)"), checked("gradient_bound", gradient_bound, "(0, inf)")
    i, b = whole("rounds", rounds), checked("scale", scale, "(0, inf)")
    return mu * G * (i**2 + i) / b
