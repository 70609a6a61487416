"""A privacy statement: how much one observer can learn about one agent, for whom it holds and why.

`mu`, `epsilon` and `delta` are always proven for the observer named, with gradients that depend on everything the agents have
seen. `linear_mu` is the exact value of the linear view, which for an observer of part of the network holds only for gradients that do
not react to hidden models; it stands beside, never instead.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from sottovoce.accounting.tradeoff import Tradeoff
from sottovoce.numbers import checked
from sottovoce.problems import unit_in_words
from sottovoce.rounding import shown

Validity = Literal["exact", "sent-messages", "absorption", "amplified-by-iteration", "infinite"]
LinearValidity = Literal["adaptive", "exogenous-gradients"]

_VALIDITY = {
    "exact": "exact: an attack with this success exists",
    "sent-messages": "an upper bound: what the agent sends, given away to somebody who knows everything else",
    "absorption": "an upper bound: the difference between two worlds is absorbed by the network's noise before it is read",
    "amplified-by-iteration": "an upper bound: noise of later steps hides earlier differences",
    "infinite": "nothing is promised",
}

# Of masked averages, instead of the sentence for sent messages.
TOGETHER = "an upper bound: what the agents publish, given away to somebody who knows everything but the others' masks and noise"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """What is proven for one observer.

    Attributes:
        observer: who looks.
        agent: whose data are protected; the worst one when none was named.
        unit: what may change: one "record", all records of one "person", or the "agent"'s whole data.
        adjacency: "replace" or "add-remove".
        rounds: how many were accounted.
        participation: in which of them the protected unit takes part.
        tradeoff: the (epsilon, delta) pairs that hold.
        validity: why it holds, in a word.
        reason: why it holds, or why it is infinite, in a sentence.
        source: where the proof is.
        assumptions: what it rests on.
        linear_mu: the exact value of the linear view (Gaussian noise); None when it was not or cannot be computed.
        linear_validity: whether that value is a guarantee too ("adaptive") or holds for exogenous gradients only.
        linear_agent: whose linear view that is; the agent with the largest, when no agent was named.
        linear_gap: relative distance between the value attained and `linear_mu`, which is the upper end.
        meaning: what the word of `validity` means here, where its usual sentence does not say it.
        details: numbers of the proof that are worth showing beside epsilon, by name.
        records_per_person: the most records of one person, where the unit is one and a problem computed the sensitivity; else None.
    """

    observer: str
    agent: int
    unit: Literal["record", "agent", "person"]
    adjacency: Literal["replace", "add-remove"]
    rounds: int
    participation: str
    tradeoff: Tradeoff
    validity: Validity
    reason: str
    source: str
    assumptions: tuple[str, ...]
    linear_mu: float | None = None
    linear_validity: LinearValidity | None = None
    linear_gap: float | None = None
    linear_agent: int | None = None
    meaning: str | None = None
    details: tuple[tuple[str, float], ...] = ()
    records_per_person: int | None = None

    @property
    def mu(self) -> float | None:
        """The Gaussian-DP parameter; None where the guarantee has no such form."""
        return self.tradeoff.mu

    @property
    def pure_epsilon(self) -> float | None:
        """Epsilon at delta = 0 where that is finite (Laplace laws)."""
        return self.tradeoff.pure_epsilon

    def epsilon(self, delta: float) -> float:
        """The smallest proven epsilon for this delta."""
        return self.tradeoff.epsilon(delta)

    def delta(self, epsilon: float) -> float:
        """The smallest proven delta for this epsilon."""
        return self.tradeoff.delta(epsilon)

    def scaled(self, factor: float) -> "Guarantee":
        """What holds when all noise is multiplied by this factor: every value goes with one over the scale.

        Raises:
            ConfigError: a factor that is not a positive, finite number.
        """
        factor = checked("factor", factor, "(0, inf)")
        linear = None if self.linear_mu is None else self.linear_mu / factor
        return replace(self, tradeoff=self.tradeoff.scaled(factor), linear_mu=linear)

    def describe(self, deltas: Sequence[float] = ()) -> dict[str, Any]:
        """Plain values for JSON; infinity is written as null beside validity "infinite"."""
        persons = {} if self.records_per_person is None else {"records_per_person": self.records_per_person}
        return {
            "observer": self.observer,
            "agent": self.agent,
            "unit": self.unit,
            **persons,
            "adjacency": self.adjacency,
            "rounds": self.rounds,
            "participation": self.participation,
            "mu": _finite(self.mu),
            "pure_epsilon": _finite(self.pure_epsilon),
            "epsilon": {f"{delta:g}": _finite(self.epsilon(delta)) for delta in deltas},
            "validity": self.validity,
            "reason": self.reason,
            "source": self.source,
            "assumptions": list(self.assumptions),
            "linear_mu": _finite(self.linear_mu),
            "linear_infinite": self.linear_mu is not None and math.isinf(self.linear_mu),
            "linear_validity": self.linear_validity,
            "linear_gap": self.linear_gap,
            "linear_agent": self.linear_agent,
        }

    def __repr__(self) -> str:
        amount = (
            "epsilon = inf" if self.validity == "infinite" else "" if self.mu is None else f"mu = {shown(self.mu, 4)}"
        )
        parts = [
            f"{unit_in_words(self.unit, self.records_per_person)} of agent {self.agent}",
            f"{self.rounds} rounds",
            amount,
            self.validity,
        ]
        return f"<Guarantee against {self.observer}: {', '.join(filter(None, parts))}>"

    def __str__(self) -> str:
        """One paragraph for people, without an epsilon that would need a delta."""
        return self.explain()

    def explain(self, delta: float | None = None) -> str:
        """One paragraph for people; with `delta`, epsilon is stated at it."""
        what = unit_in_words(self.unit, self.records_per_person)
        change = "replaced" if self.adjacency == "replace" else "added or removed"
        part = "" if self.participation == "every-round" else f", taking part: {self.participation}"
        head = f"Observer: {self.observer}. Protected: {what} of agent {self.agent} ({change}), {self.rounds} rounds{part}."
        sentences = [head, self._amount(delta), self.reason, *self._linear()]
        if self.assumptions:
            sentences.append("It assumes: " + "; ".join(self.assumptions) + ".")
        return " ".join([*sentences, f"Source: {self.source}."])

    def _amount(self, delta: float | None) -> str:
        if self.validity == "infinite":
            return "No guarantee: epsilon is infinite."
        values = []
        if delta is not None:
            values.append(f"epsilon = {shown(self.epsilon(delta), 6)} at delta = {delta:g}")
        if self.pure_epsilon is not None:
            values.append(f"pure epsilon = {shown(self.pure_epsilon, 6)} (delta = 0)")
        elif self.mu is not None:
            values.append(f"mu = {shown(self.mu, 6)}")
        amount = ", ".join(values) or "an epsilon for every delta"
        validity = _VALIDITY[self.validity] if self.meaning is None else self.meaning
        return f"Stated: {amount}; {validity}."

    def _linear(self) -> list[str]:
        if self.linear_mu is None or math.isinf(self.linear_mu) or self.linear_validity == "adaptive":
            return []
        whose = "" if self.linear_agent == self.agent else f" (of agent {self.linear_agent})"
        limit = "which is no guarantee when gradients depend on models the observer does not see"
        return [f"Linear view{whose}: mu = {shown(self.linear_mu, 6)}, {limit}."]


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else float(value)
