"""What every round of a run costs by itself: for runs that go on under another agreement, without somebody who was lost.

    Gaussian     mu      = sqrt(sum_t s_t) + sqrt(sum_t r_t)       s_t: the gradient of round t, r_t: roundings beside it, both as mu^2
    pure         epsilon = sum_t s_t + sum_t r_t
    draws        total variations add up

Rounds of two agreements may be put together like this, and the choice of the second agreement may depend on all that was seen, if a round costs the same
whatever came before it. That is so where an agent's next message is a function of what has been sent, of one gradient and of fresh noise: every
agent goes on from what it sent (`goes_on_from_message`), or adds its noise to gradients, or only a relay's averages are seen. Then each d_t is
bounded given everything before, and adaptive composition adds up squares (or epsilons), as in one run. Where differences pile up from round to round, where two agents share
noise, or where links are drawn, rounds hang together and there is no such list.
"""

import math
from typing import NamedTuple

import numpy as np

from sottovoce.deployment.privacy.accounted import Accounted
from sottovoce.deployment.privacy.cost import Cost

SLACK = 1e-9  # relative: what float64 does to the numbers of an account, and factors of noise that parties take as whole within 1e-12
_SUMS = 1e-12  # relative: two orders of summing the same numbers


class RoundCosts(NamedTuple):
    """[T] each, at the sensitivity of computed gradients."""

    pure: bool
    gradients: np.ndarray  # mu^2 or epsilon
    roundings: np.ndarray  # the same
    draws: np.ndarray  # total variation

    def __repr__(self) -> str:
        return f"<RoundCosts of {len(self.gradients)} rounds>"

    def before(self, round_: int) -> "RoundCosts":
        """The rounds 1 .. round_."""
        return self._replace(
            gradients=self.gradients[:round_], roundings=self.roundings[:round_], draws=self.draws[:round_]
        )

    def then(self, other: "RoundCosts") -> "RoundCosts":
        """These rounds, and after them the later rounds of another run."""
        assert self.pure == other.pure  # a run goes on with its law
        first = len(self.gradients)
        parts = [np.concatenate([mine, theirs[first:]]) for mine, theirs in zip(self[1:], other[1:], strict=True)]
        return RoundCosts(self.pure, *parts)

    def total(self) -> Cost:
        """What all of them give away together."""
        off = min(1.0, math.fsum(self.draws.tolist()))
        gradients, roundings = math.fsum(self.gradients.tolist()), math.fsum(self.roundings.tolist())
        if not math.isfinite(gradients + roundings):
            return Cost.infinite()
        if self.pure:
            return Cost.pure((gradients + roundings) * (1.0 + SLACK), off)
        return Cost.gaussian((math.sqrt(gradients) + math.sqrt(roundings)) * (1.0 + SLACK), off)


def round_costs(accounted: Accounted, draws: np.ndarray) -> RoundCosts | None:
    """What every round costs by itself, for one observer; None where rounds hang together.

    Args:
        accounted: one agent of a run, seen by one observer.
        draws: [T] the total variation of every round.
    """
    evidence, p = accounted.evidence, accounted.agent
    sent, pure = evidence.sent, evidence.asked.pure
    if not _alone(accounted) or sent.each is None or sent.spent is None:
        return None
    each, whole = sent.each[:, p], float(sent.spent[-1, p])
    if not abs(float(each.sum()) - whole) <= _SUMS * len(each) * whole:
        return None
    gradients = each * accounted.computed ** (1 if pure else 2)
    if accounted.run.noise.in_gradients or evidence.through_relay:
        # Roundings were counted as a share of every round's gradient.
        factor = 1.0 + accounted.charge
        return RoundCosts(pure, gradients * factor ** (1 if pure else 2), np.zeros(len(each)), draws)
    return RoundCosts(pure, gradients, accounted.rounding_costs, draws)


def _alone(accounted: Accounted) -> bool:
    """Whether a round costs the same whatever came before it."""
    evidence, sent = accounted.evidence, accounted.evidence.sent
    if evidence.random_links or sent.pairs:
        return False
    fresh = accounted.run.noise.in_gradients or evidence.through_relay
    return fresh or bool(sent.goes_on_from_message[accounted.agent])
