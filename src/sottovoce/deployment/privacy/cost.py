"""What a run costs, in the few plain numbers that a ledger keeps.

    gaussian        mu-GDP                                  runs add up by mu^2
    pure            epsilon-DP at delta = 0                 runs add up by epsilon
    epsilon-delta   one pair (epsilon, delta)               runs add up by epsilon and by delta
    infinite        nothing is promised

The first two hold for a law that is within `total_variation` of the one that ran; these distances add up over runs too, and are paid from delta:

    delta'(epsilon) = delta(epsilon) + (1 + e^epsilon) total_variation .

Adding up is adaptive composition: whether and how the next run is made may depend on what the earlier ones released, as long as the sum is bounded.
For mu^2 that is Smith & Thakurta 2022; epsilons and deltas add up by the definition.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sottovoce.accounting import pure
from sottovoce.accounting.gopa.imperfect_noise import ChargedTradeoff, Way, charged_delta
from sottovoce.errors import ConfigError
from sottovoce.numbers import checked, chosen

Kind = Literal["gaussian", "pure", "epsilon-delta", "infinite"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one run gives away at most, or several runs together; made by `gaussian`, `pure`, `at` or `infinite`.

    Attributes:
        kind: which of the forms above.
        value: mu, the epsilon at delta = 0, or the epsilon that holds at `at_delta`; infinity for "infinite".
        total_variation: how far the law that ran is from the one of which `value` speaks; 0 for "epsilon-delta", which has paid for it.
        at_delta: the delta of "epsilon-delta"; 0 otherwise.
    """

    kind: Kind
    value: float
    total_variation: float = 0.0
    at_delta: float = 0.0

    def __post_init__(self) -> None:
        """Refuse numbers that say nothing."""
        chosen("kind", self.kind, get_args(Kind))
        if self.kind == "infinite":
            if self.value != math.inf or self.total_variation or self.at_delta:
                raise ConfigError("an infinite cost has no numbers. Use Cost.infinite().")
            return
        checked("value", self.value, "[0, inf)")
        checked("total_variation", self.total_variation, "[0, 1]")
        checked("at_delta", self.at_delta, "[0, 1)")
        if self.kind == "epsilon-delta" and self.total_variation:
            raise ConfigError(
                f"total_variation = {self.total_variation:g} beside one pair (epsilon, delta), in which it is paid for. Leave it out."
            )
        if self.kind != "epsilon-delta" and self.at_delta:
            raise ConfigError(
                f"at_delta = {self.at_delta:g} for a cost of kind '{self.kind}', which holds at every delta. Leave it out."
            )

    @staticmethod
    def gaussian(mu: float, total_variation: float = 0.0) -> "Cost":
        """A run that is mu-GDP up to a total variation."""
        return Cost(kind="gaussian", value=mu, total_variation=total_variation)

    @staticmethod
    def pure(epsilon: float, total_variation: float = 0.0) -> "Cost":
        """A run that is epsilon-DP up to a total variation."""
        return Cost(kind="pure", value=epsilon, total_variation=total_variation)

    @staticmethod
    def at(epsilon: float, delta: float) -> "Cost":
        """A run of which one pair (epsilon, delta) is known; infinite where epsilon is."""
        return Cost.infinite() if math.isinf(epsilon) else Cost(kind="epsilon-delta", value=epsilon, at_delta=delta)

    @staticmethod
    def infinite() -> "Cost":
        """A run of which nothing is promised."""
        return Cost(kind="infinite", value=math.inf)

    def epsilon(self, delta: float) -> float:
        """An epsilon that holds at this delta; infinity where the delta does not pay for the total variation."""
        target = checked("delta", delta, "[0, 1)")
        if self.kind == "infinite":
            return math.inf
        if self.kind == "epsilon-delta":
            return self.value if target >= self.at_delta else math.inf
        if self.kind == "gaussian":
            return ChargedTradeoff((Way(self.value, self.total_variation),)).epsilon(target)
        return _pure_epsilon(self.value, self.total_variation, target)

    def delta(self, epsilon: float) -> float:
        """A delta that holds at this epsilon."""
        at = checked("epsilon", epsilon, "[0, inf)")
        if self.kind == "infinite":
            return 1.0
        if self.kind == "epsilon-delta":
            return self.at_delta if at >= self.value else 1.0
        if self.kind == "gaussian":
            return ChargedTradeoff((Way(self.value, self.total_variation),)).delta(at)
        # Beyond the pure epsilon nothing but the charge would grow.
        return _pure_delta(self.value, self.total_variation, min(at, self.value))

    def fixed(self, delta: float) -> "Cost":
        """The same run as one pair (epsilon, delta): what it counts beside runs of other kinds, its share of delta fixed beforehand."""
        return Cost.at(self.epsilon(delta), delta)

    def describe(self) -> dict[str, Any]:
        """Plain values for JSON: `Cost.parse` reads them; infinity is left out."""
        if self.kind == "infinite":
            return {"kind": self.kind}
        return {
            "kind": self.kind,
            "value": self.value,
            "total_variation": self.total_variation,
            "at_delta": self.at_delta,
        }

    @staticmethod
    def parse(described: Mapping[str, Any]) -> "Cost":
        """The cost that `describe` wrote.

        Raises:
            ConfigError: something else.
        """
        if described.get("kind") == "infinite":
            return Cost.infinite()
        if set(described) != {"kind", "value", "total_variation", "at_delta"}:
            raise ConfigError(
                f"a cost has kind, value, total_variation and at_delta; given {', '.join(map(str, sorted(described)))}."
            )
        return Cost(**described)


def together(costs: Sequence[Cost]) -> Cost:
    """What runs of one kind give away together; nothing for no run.

    Raises:
        ConfigError: runs of different kinds, whose numbers do not add up. Ask for `cost.fixed(share of delta)` of each first.
    """
    if any(cost.kind == "infinite" for cost in costs):
        return Cost.infinite()
    if not costs:
        return Cost.pure(0.0)
    kinds = sorted({cost.kind for cost in costs})
    if len(kinds) > 1:
        raise ConfigError(
            f"costs of the kinds {' and '.join(kinds)} have no common sum. Fix a share of delta for each of them: cost.fixed(delta)."
        )
    values = [cost.value for cost in costs]
    total = math.hypot(*values) if kinds[0] == "gaussian" else math.fsum(values)
    off = min(1.0, math.fsum(cost.total_variation for cost in costs))
    delta = math.fsum(cost.at_delta for cost in costs)
    if delta >= 1.0:
        return Cost.infinite()
    return Cost(kind=costs[0].kind, value=total, total_variation=off, at_delta=delta)


def _pure_delta(value: float, total_variation: float, epsilon: float) -> float:
    return charged_delta(epsilon, pure.delta(value, epsilon), total_variation=total_variation)


def _pure_epsilon(value: float, total_variation: float, delta: float) -> float:
    if total_variation == 0.0:
        return float(pure.epsilon(value, delta))
    # delta(epsilon) + (1 + e^epsilon) t = e0/(1 + e0) + t - x (1/(1 + e0) - t), linear in x = e^epsilon <= e0 = e^value: it falls as long as t is
    # below 1/(1 + e0), and then reaches its lowest at the pure epsilon itself.
    if _pure_delta(value, total_variation, value) > delta:
        return math.inf if _pure_delta(value, total_variation, 0.0) > delta else 0.0
    low, high = 0.0, value
    while high - low > 1e-13 * high:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (low, middle) if _pure_delta(value, total_variation, middle) <= delta else (middle, high)
    return high
