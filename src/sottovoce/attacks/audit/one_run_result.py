"""What an audit in one run found."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.accounting.guarantee import Guarantee
from sottovoce.attacks.arrays import Floats
from sottovoce.attacks.audit.result import finite_or_none, over, stated
from sottovoce.attacks.bounds import LowerBound
from sottovoce.reprs import short_repr

Coins = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OneRunAudit:
    """What one run with many canaries shows about a guarantee; make it with `one_run_audit`.

    Attributes:
        guarantee: what is promised, to the canary with the largest epsilon.
        attack: how canaries were scored.
        delta: of both epsilons.
        confidence: with which a guarantee that fails is false.
        epsilon: what the guarantee promises at delta.
        lower: what the guesses show about epsilon at delta.
        m: canaries.
        r: guesses.
        v: right ones.
        canaries: [m] the agents.
        scores: [m] log-likelihood ratios, positive where the second value is more likely; infinite where it is read in clear.
        coins: [m] whether the second value was drawn.
        computed_mu: [m] how far apart the scores of a canary's values are by computation; None where that is no number.
        passed: whether the guarantee stands.
    """

    guarantee: Guarantee
    attack: str
    delta: float
    confidence: float
    epsilon: float
    lower: LowerBound
    m: int
    r: int
    v: int
    canaries: NDArray[np.int64]
    scores: Floats
    coins: Coins
    computed_mu: Floats | None
    passed: bool

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def ratio(self) -> float:
        """The epsilon that was shown over the one that is promised; above 1 the promise is broken."""
        assert self.lower.epsilon is not None
        return over(self.lower.epsilon, self.epsilon)

    def describe(self) -> dict[str, Any]:
        """Plain values for JSON, without the scores; infinity is written as null."""
        largest = None if self.computed_mu is None else float(self.computed_mu.max())
        return {
            "attack": self.attack, "delta": self.delta, "confidence": self.confidence, "m": self.m, "r": self.r, "v": self.v,
            "epsilon": finite_or_none(self.epsilon), "lower": self.lower.describe(), "computed_mu": finite_or_none(largest),
            "computed_infinite": largest is not None and math.isinf(largest), "ratio": finite_or_none(self.ratio), "passed": self.passed,
            "guarantee": self.guarantee.describe([self.delta]),
        }  # fmt: skip

    def explain(self) -> str:
        """One paragraph for people."""
        head = (
            f"Audit in one run against {self.guarantee.observer}: {self.m} agents with a coin each, {self.r} guessed by '{self.attack}', "
            f"{self.v} of them right."
        )
        if math.isinf(self.epsilon):
            return f"{head} Nothing is promised ({self.guarantee.reason}) Shown: {self.lower}."
        return f"{head} {stated(self.passed, self.epsilon, self.lower, delta=self.delta, confidence=self.confidence)}"

    def __str__(self) -> str:
        """One paragraph for people."""
        return self.explain()
