"""The float64 term: how much farther apart two COMPUTED gradients can be than the sensitivity says of exact ones.

A sensitivity is proved in real numbers, and a party computes in float64: u = 2^-53, gamma_k = k u / (1 - k u) for k roundings in a row. Let every term of
an average have norm at most R (the clip), Delta be the sensitivity, n the number of terms (records, or the batch), and B bound the entries of every model at which
a gradient is taken (`arithmetic` finds it from the functions that run: a state is within the lattice, what was received need not be).

WHAT IS COMPUTED. Every problem takes an average of clipped terms and may add a multiple of the model:

    linear, logistic regression     a_i x_i with |a_i| <= fl(C / ||x_i||), summed and divided; 2 ridge w, ridge w added
    mean estimation                 clip(w - x_i), summed and divided; unclipped: w - fl(mean)
    custom loss, classification     clip(g_i) / n, summed; ridge w added
    clipped whole gradients         clip(g), whatever g is

CLIPPING overshoots. The norm is computed from d numbers with a relative error of gamma_(d+8) at most (it is scaled, so that nothing over- or
underflows), the factor and the product are one rounding each: a clipped term has norm at most R (1 + gamma_(d+32)).

ANY TWO MODELS (an agent, nothing added after clipping). Summing n terms in any order, dividing and weighing errs by gamma_(n+32) times the sum of their
sizes, coordinate by coordinate and so in any norm. A computed gradient has norm at most R (1 + gamma_(n+d+32)), and two of them differ by

    2 R + 2 R gamma_(n + d + 32).

THE SAME MODEL (a record, a person; an agent whose model is added). Which operations a machine makes, and in which order, does not depend on the numbers, and
neither does how many terms there are, where data are replaced. So the terms of records that do not change are the same bits in both worlds, and
what is added of the model is too. The changed terms may overshoot; two sums err; adding the public part rounds twice, at a size of at most R + |factor| B:

    Delta gamma_(d+32)  +  2 gamma_(n+32) R (1 + gamma_(d+32))  +  4 u (R (1 + gamma_(d+32)) + factor B ||1||),        ||1|| = sqrt(d) in l2, d in l1.

With `adjacency="add-remove"` the number of terms changes and with it the order of operations: nothing is proved, and it is refused.

Not covered: numbers that overflow. Records so large that a margin is infinite give NaN, the party stops, and that it stops can be seen.
"""

from dataclasses import dataclass
from typing import Any

from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.numbers import checked, whole
from sottovoce.problems import Sensitivity

UNIT_ROUNDOFF = 2.0**-53
_EXTRA = 32  # roundings of one term beside sums over records and coordinates: at most a dozen in any problem


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientArithmetic:
    """What decides how far a computed gradient is from the exact one; made by `gradient_arithmetic`.

    Attributes:
        terms: that are averaged in one gradient: all records of the agent, or a batch.
        added: the factor with which the model itself is added after clipping, as a ridge does; 0: nothing is added.
    """

    terms: int
    added: float

    def __post_init__(self) -> None:
        """Refuse numbers that bound nothing."""
        whole("terms", self.terms)
        checked("added", self.added, "[0, inf)")


def gradient_arithmetic(problem: Any, *, batch_size: int | None, agent: int = 0) -> GradientArithmetic:
    """What is summed and added in one gradient of an agent, read off its problem.

    Args:
        problem: of the library; its gradients are clipped.
        batch_size: distinct records of one gradient; None: all of them.
        agent: whose; a party's own problem has one agent, number 0.

    Raises:
        UnsupportedClaim: a problem whose arithmetic is not known here, or that clips nothing.
    """
    if getattr(problem, "gradient_clip", None) is not None:
        return GradientArithmetic(terms=1, added=0.0)
    terms = int(problem.sizes[agent]) if batch_size is None else whole("batch_size", batch_size)
    kind, clipped = problem.kind, problem.clip is not None
    if kind == "mean_estimation" and not clipped and batch_size is None:
        return GradientArithmetic(terms=terms, added=1.0)
    if not clipped:
        raise UnsupportedClaim(
            f"the gradients of this '{kind}' problem are not clipped{'' if batch_size is None else ', in batches'}, so that no bound holds for their "
            f"arithmetic. Use problem.with_clipping(clip, norm)."
        )
    added = {"linear_regression": 2.0, "logistic_regression": 1.0, "custom_loss": 1.0, "classification": 1.0}
    if kind == "mean_estimation":
        return GradientArithmetic(terms=terms, added=0.0)
    if kind not in added:
        raise UnsupportedClaim(
            f"how a '{kind}' problem computes its gradients is not known here, so that its float64 term is not proved. Use a problem of the library."
        )
    return GradientArithmetic(terms=terms, added=added[kind] * float(problem.ridge))


def float_term(sensitivity: Sensitivity, arithmetic: GradientArithmetic, *, dimension: int, bound: float) -> float:
    """How much farther apart two computed gradients can be than `sensitivity`, in its norm.

    Args:
        sensitivity: of exact gradients, from a problem.
        arithmetic: what one gradient sums up.
        dimension: d.
        bound: B, the largest entry of a model at which a gradient is taken, in real numbers; not used where nothing is added.

    Raises:
        ConfigError: a plain number, of which nobody knows what it compares.
        UnsupportedClaim: adjacency="add-remove".
    """
    if not isinstance(sensitivity, Sensitivity):
        raise ConfigError(
            f"sensitivity = {sensitivity!r} is a plain number, and a deployed guarantee rests on no claim. Ask the problem: problem.sensitivity(...)."
        )
    if sensitivity.adjacency != "replace":
        raise UnsupportedClaim(
            "adjacency='add-remove': with one record more or less the number of terms changes, and with it the order in which float64 sums them up; for that "
            "nothing is proved. Use adjacency='replace'."
        )
    delta, n, d = float(sensitivity), arithmetic.terms, dimension
    if sensitivity.compares == "any two models":
        return delta * gamma(n + d + _EXTRA)
    largest = delta / 2.0 if sensitivity.unit == "agent" else delta * n / 2.0
    clipped = largest * (1.0 + gamma(d + _EXTRA))
    ones = d**0.5 if sensitivity.norm == "l2" else float(d)
    public = clipped + arithmetic.added * bound * ones
    return delta * gamma(d + _EXTRA) + 2.0 * gamma(n + _EXTRA) * clipped + 4.0 * UNIT_ROUNDOFF * public


def gamma(roundings: int) -> float:
    """K u / (1 - k u), the largest relative error of k roundings in a row (Higham 2002, section 3.1).

    Raises:
        UnsupportedClaim: so many that the bound says little.
    """
    error = roundings * UNIT_ROUNDOFF
    if error > 0.01:
        raise UnsupportedClaim(f"{roundings:,} numbers are summed in float64, for which no useful bound holds.")
    return error / (1.0 - error)
