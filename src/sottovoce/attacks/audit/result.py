"""What an audit found: an attack's success beside the guarantee that limits it."""

import math
from dataclasses import dataclass
from typing import Any

from sottovoce.accounting.guarantee import Guarantee
from sottovoce.attacks.arrays import Floats
from sottovoce.attacks.bounds import Auc, LowerBound
from sottovoce.reprs import short_repr
from sottovoce.rounding import shown


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Audit:
    """What an attack on an observer's own view shows about a guarantee; make it with `sv.audit`.

    Attributes:
        guarantee: what is promised.
        attack: which attack was played.
        agent: on whose data.
        delta: of both epsilons.
        confidence: with which a guarantee that fails is false.
        pairs: runs of each world.
        epsilon: what the guarantee promises at delta.
        lower: what the attack shows about epsilon at delta. It assumes nothing but independent runs.
        tradeoff_mu: what it shows about mu, as sure as `lower`; None where the guarantee has no mu.
        gaussian: an estimate that ASSUMES normal scores, and decides nothing; None where the scores do not vary.
        auc: how well the scores tell the worlds apart; a description.
        scores: of the two worlds, [pairs] each, larger for the second.
        threshold: the score from which on the attacker says "second world", where `lower` was attained.
        computed_mu: how far apart the scores are by computation, in standard deviations; None where that is not known.
        as_computed: whether the scores are as far apart as computed; None where nothing was computed. If not, the runs are not what was promised.
        refuted: whether `lower` or `tradeoff_mu` is above the guarantee, which is then false.
    """

    guarantee: Guarantee
    attack: str
    agent: int
    delta: float
    confidence: float
    pairs: int
    epsilon: float
    lower: LowerBound
    tradeoff_mu: LowerBound | None
    gaussian: LowerBound | None
    auc: Auc
    scores: tuple[Floats, Floats]
    threshold: float
    computed_mu: float | None
    as_computed: bool | None
    refuted: bool

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def passed(self) -> bool:
        """Whether nothing speaks against the guarantee: it is not refuted, and the scores are not other than computed."""
        return not self.refuted and self.as_computed is not False

    @property
    def verdict(self) -> str:
        """In words."""
        if self.refuted:
            return "FALSE"
        if self.as_computed is False:
            return "not as computed"
        return "no promise" if math.isinf(self.epsilon) else "not refuted"

    @property
    def ratio(self) -> float:
        """The epsilon that was shown over the one that is promised, at delta. Above 1 the promise is broken; it may be broken below, through mu."""
        assert self.lower.epsilon is not None
        return over(self.lower.epsilon, self.epsilon)

    @property
    def worst_ratio(self) -> float:
        """The larger of epsilon shown over promised and, where there is one, mu shown over promised; above 1 exactly if it is refuted."""
        if self.tradeoff_mu is None or self.tradeoff_mu.mu is None or self.guarantee.mu is None:
            return self.ratio
        return max(self.ratio, over(self.tradeoff_mu.mu, self.guarantee.mu))

    def describe(self) -> dict[str, Any]:
        """Plain values for JSON, without the scores; infinity is written as null."""
        return {
            "attack": self.attack,
            "agent": self.agent,
            "delta": self.delta,
            "confidence": self.confidence,
            "pairs": self.pairs,
            "epsilon": finite_or_none(self.epsilon),
            "lower": self.lower.describe(),
            "tradeoff_mu": None if self.tradeoff_mu is None else self.tradeoff_mu.describe(),
            "gaussian": None if self.gaussian is None else self.gaussian.describe(),
            "auc": self.auc.value,
            "auc_standard_error": self.auc.standard_error,
            "computed_mu": finite_or_none(self.computed_mu),
            "computed_infinite": self.computed_mu is not None and math.isinf(self.computed_mu),
            "ratio": finite_or_none(self.ratio),
            "worst_ratio": finite_or_none(self.worst_ratio),
            "as_computed": self.as_computed,
            "refuted": self.refuted,
            "passed": self.passed,
            "guarantee": self.guarantee.describe([self.delta]),
        }

    def explain(self) -> str:
        """One paragraph for people."""
        promised = self.guarantee
        head = (
            f"Audit of agent {self.agent} against {promised.observer}: the attack '{self.attack}' on {self.pairs} runs of "
            f"each of two worlds."
        )
        return " ".join([head, self._verdict(), *self._measured()])

    def __str__(self) -> str:
        """One paragraph for people."""
        return self.explain()

    def _verdict(self) -> str:
        low = f"Shown: {self.lower}."
        if self.as_computed is False and not self.refuted:
            return (
                f"FAILED: the scores are not as far apart as computed, with confidence {self.confidence:g}, so that the runs are not those that "
                f"were promised, or the attack is wrong. {low}"
            )
        if math.isinf(self.epsilon):
            return f"Nothing is promised ({self.guarantee.reason}) {low}"
        return stated(self.passed, self.epsilon, self.lower, delta=self.delta, confidence=self.confidence)

    def _measured(self) -> list[str]:
        sentences = []
        if self.tradeoff_mu is not None:
            promised = self.guarantee.mu
            beside = "" if promised is None or math.isinf(promised) else f"; promised is mu = {shown(promised, 4)}"
            sentences.append(f"Shown: {self.tradeoff_mu}{beside}.")
        if self.computed_mu is not None:
            sentences.append(f"By computation the scores are mu = {self.computed_mu:.4g} apart.")
        if self.gaussian is not None and self.gaussian.estimate is not None:
            sentences.append(f"Measured: {self.gaussian.estimate:.4g}, if the scores are normal.")
        low, high = self.auc.interval(self.confidence)
        return [*sentences, f"AUC = {self.auc.value:.4f}, within [{low:.4f}, {high:.4f}]."]


def stated(passed: bool, epsilon: float, lower: LowerBound, *, delta: float, confidence: float) -> str:
    """What was promised and what was shown, with the verdict in front."""
    beside = f"Promised: epsilon = {shown(epsilon, 4)} at delta = {delta:g}. Shown: {lower}."
    if passed:
        return f"NOT REFUTED. {beside} This proves no guarantee: a better attack may exist."
    return f"FAILED: the promise is false, with confidence {confidence:g}. {beside}"


def over(shown_value: float, promised: float) -> float:
    """What was shown over what is promised; 0 where nothing was shown or nothing is promised."""
    if shown_value == 0.0 or math.isinf(promised):
        return 0.0
    return shown_value / promised if promised > 0.0 else math.inf


def finite_or_none(value: float | None) -> float | None:
    """For JSON, which has no infinity."""
    return None if value is None or math.isinf(value) else float(value)
