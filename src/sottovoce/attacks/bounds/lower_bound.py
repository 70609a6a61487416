"""What an attack proves: a number that no true guarantee can be below, up to the stated confidence.

An audit never proves a mechanism private. It plays a game whose success a guarantee limits, measures the success, and
turns it into the smallest guarantee that could still be true. The bound is random: with probability at most
1 - confidence it lies above the truth.

The scores of an attacker are numbers, one per independent run (or canary), LARGER for world 1. A score may be infinite,
which is an attacker who is certain; it may not be NaN.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce.accounting import gaussian
from sottovoce.accounting.guarantee import Guarantee
from sottovoce.attacks.arrays import Floats
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.numbers import checked
from sottovoce.reprs import short_repr


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerBound:
    """A lower bound on epsilon at `delta`, or on mu, from an attack.

    Attributes:
        method: how it was computed.
        confidence: the probability, at least, with which it lies below the truth.
        epsilon: no (epsilon', delta)-DP with a smaller epsilon' holds; None where the method speaks of mu only.
        delta: of that epsilon.
        mu: no mu'-GDP with a smaller mu' holds; None where the method speaks of epsilon only.
        threshold: the score from which on the attacker says "world 1", where the bound was attained; None without one.
        assumes: what must be true of the scores for the bound to hold; None when nothing but independent runs.
        estimate: a point estimate of mu, which is no bound.
        upper_mu: the other end: with the same confidence, what this ATTACK shows is below it. Never a guarantee.
    """

    method: str
    confidence: float
    epsilon: float | None = None
    delta: float | None = None
    mu: float | None = None
    threshold: float | None = None
    assumes: str | None = None
    estimate: float | None = None
    upper_mu: float | None = None

    def __repr__(self) -> str:
        return short_repr(self)

    def at(self, delta: float) -> "LowerBound":
        """The bound on epsilon at this delta that a bound on mu of normal scores implies.

        Raises:
            UnsupportedClaim: the bound is not one of normal scores. Not being mu-GDP says that SOME pair
                (epsilon, delta) of that curve fails, and not which.
        """
        if self.mu is None or self.assumes is None:
            raise UnsupportedClaim(
                f"A bound by '{self.method}' has no epsilon at another delta: it refutes a guarantee somewhere, not at "
                f"every delta. Call clopper_pearson with the delta wanted, or gaussian_dp if the scores are normal."
            )
        return replace(self, epsilon=gaussian.epsilon(self.mu, delta), delta=delta)

    def contradicts(self, guarantee: Guarantee) -> bool:
        """Whether this guarantee cannot be true (with this confidence, and if what the bound assumes holds).

        Raises:
            UnsupportedClaim: the bound is on mu and the guarantee has none.
        """
        if self.epsilon is not None and self.delta is not None:
            return self.epsilon > guarantee.epsilon(self.delta)
        if guarantee.mu is None or self.mu is None:
            raise UnsupportedClaim(
                f"A bound on mu by '{self.method}' was compared with a guarantee without a mu. Use clopper_pearson or "
                f"one_run, which bound epsilon at a delta."
            )
        return self.mu > guarantee.mu

    def describe(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}

    def __str__(self) -> str:
        """One sentence for people."""
        values = [] if self.epsilon is None else [f"epsilon >= {self.epsilon:.4g} at delta = {self.delta:g}"]
        values += [] if self.mu is None else [f"mu >= {self.mu:.4g}"]
        assumption = "" if self.assumes is None else f", assuming {self.assumes}"
        return f"{' and '.join(values)} with confidence {self.confidence:g} ({self.method}{assumption})"


def checked_scores(
    scores0: ArrayLike, scores1: ArrayLike, *, least: int = 1, finite: bool = False
) -> tuple[Floats, Floats]:
    """Return both worlds' scores as float64 vectors.

    Raises:
        ConfigError: no vectors of real numbers, fewer than `least` in a world, NaN, or infinities where not allowed.
    """
    return (
        _vector("scores0", scores0, least=least, finite=finite),
        _vector("scores1", scores1, least=least, finite=finite),
    )


def checked_confidence(confidence: float) -> float:
    """Return the confidence if it is at least one half and below one."""
    return checked("confidence", confidence, "[0.5, 1)")


def shuffled(count: int) -> NDArray[np.int64]:
    """Return a fixed order of `count` things that has nothing to do with how the caller sorted them.

    Independent scores may be split in any order chosen without looking; a caller who hands them over sorted would
    otherwise choose by looking.
    """
    return np.random.default_rng(20_180_704).permutation(count)


def _vector(name: str, scores: ArrayLike, *, least: int, finite: bool) -> Floats:
    given = np.asarray(scores)
    if given.dtype.kind not in "fiu" or given.ndim != 1:
        raise ConfigError(
            f"{name} has shape {given.shape} and type {given.dtype}; needed is a vector of real numbers, one score per "
            f"run."
        )
    if len(given) < least:
        raise ConfigError(f"{name} holds {len(given)} scores; at least {least} are needed. Run the attack more often.")
    if np.isnan(given).any() or (finite and not np.isfinite(given).all()):
        wrong = "NaN" if np.isnan(given).any() else "infinite scores"
        raise ConfigError(f"{name} holds {wrong}; leave no run out, but repair the score that cannot be computed.")
    return given.astype(np.float64)
