"""What a run with GOPA gives away of one agent, reserved before its first message, for whom the agreement declares.

Without masks every round would be what an agent of a federation sends in the open: `deployed_guarantee` of the same run, mu^2 = sum over rounds of
(D / s)^2, with every rounding counted. Where updates are clipped as a whole the encoding holds every value in a ball, in exact whole numbers, so that D is
its diameter whatever the records, the steps and floating point do, for an agent as for one of its records. Masks divide that by what hides the agent beside its own noise. An agent that published and repaired, or had
nothing to repair, has at least N neighbours in the sum (`Plan.least_neighbours`), of whom n may collude: a star of h = N - n honest neighbours at least,
and more pairs only hide more,

    mu^2 <= mu_open^2 / (1 + h q / (1 + q)),      q = (std of a mask / std of own noise)^2,   infinite for uniform masks: mu_open^2 / (1 + h) .

One that published and refused to repair still has the masks with those neighbours who dropped out, which neither of the two has revealed: an honest
neighbour hides it at least as well as one in the sum. What is added, in total variation: the draws of all parties, and sums of rounded noise.

That others do not reveal masks of an agent that has published needs one drop list at most, or neighbours that have its publication. Two quorums of
more than two thirds of m or more active agents among K, of whom n say anything, have an honest agent in common if 3 (K + n) <= 4 m. Where they need not,
and where all others may collude, masks are not counted: own noise alone protects.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from sottovoce.accounting.gopa.imperfect_noise import ChargedTradeoff, Way
from sottovoce.accounting.gopa.integers import IntegerNoise
from sottovoce.accounting.guarantee import TOGETHER
from sottovoce.deployment.gopa import GaussianMasks, RoundedGaussian
from sottovoce.deployment.gopa.privacy import ASSUMPTIONS
from sottovoce.deployment.gopa_parties.plan import Plan
from sottovoce.deployment.privacy import Cost, Deployed

SLACK = 1e-9  # relative: what float64 does to the numbers of an account
QUEUES = 60  # seconds of a time limit of which an eighth is longer than a transport that is closed goes on sending, 6 seconds
_EXACT = (
    "Values are clipped to a ball in exact whole numbers, whatever is computed before; the sensitivity is its diameter."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """How far masks hide an agent.

    Attributes:
        neighbours: honest ones in every sum, at least.
        share: of mu^2 that is left.
        reason: in a sentence.
    """

    neighbours: int
    share: float
    reason: str


def hidden(plan: Plan) -> Hidden:
    """What masks do against those whom the agreement declares."""
    agents, least, kept = len(plan.agents), plan.least, plan.least_neighbours
    if plan.collude == "all":
        return Hidden(neighbours=0, share=1.0, reason="All others may collude, and know all masks: own noise protects.")
    others = int(plan.collude)
    if 3 * (agents + others) > 4 * least:
        return Hidden(
            neighbours=0,
            share=1.0,
            reason=f"Of {agents} agents {others} may collude and {least} are enough for a sum, so that a board could have two lists of dropped agents "
            f"signed: masks are not counted, own noise protects.",
        )
    if plan.time_limit < QUEUES:
        return Hidden(
            neighbours=0,
            share=1.0,
            reason=f"With a time limit of {plan.time_limit} s, below {QUEUES} s, a publication that waits in a queue could leave after its masks were revealed: masks are not "
            f"counted, own noise protects.",
        )
    honest = max(0, kept - others)
    gopa = plan.run.algorithm.aggregation
    assert gopa is not None  # the plan checks it
    q = gopa.pairwise_ratio**2
    each = 1.0 if math.isinf(q) else q / (1.0 + q)
    return Hidden(
        neighbours=honest,
        share=1.0 / (1.0 + honest * each),
        reason=f"Every sum keeps {kept} neighbours of an agent at least, of whom {others} may collude: masks shared with {honest} others hide it, and "
        f"their noise.",
    )


def masked_guarantee(plan: Plan, in_the_open: Deployed) -> Deployed:
    """What a run gives away of one agent to those whom the agreement declares.

    Args:
        plan: of the run.
        in_the_open: the same for the run without masks (`Plan.unmasked`), for somebody who reads everything and knows all masks.
    """
    clipped = plan.run.algorithm.clipped_update is not None
    if in_the_open.cost.kind != "gaussian" and not clipped:
        return in_the_open
    found = hidden(plan)
    local, alone = _ball(plan) if clipped else _accounted(in_the_open)
    mus = local * math.sqrt(found.share) * (1.0 + SLACK)
    offs = np.minimum(1.0, np.cumsum(_total_variations(plan, len(plan.agents))) if found.neighbours else alone)
    costs = tuple(Cost.gaussian(float(mu), float(off)) for mu, off in zip(mus, offs, strict=True))
    last = costs[-1]
    guarantee = replace(
        in_the_open.guarantee,
        observer=_observer(plan),
        validity="sent-messages",
        tradeoff=ChargedTradeoff((Way(last.value, last.total_variation),)),
        meaning=TOGETHER if found.neighbours else None,
        reason=f"{_EXACT if clipped else in_the_open.guarantee.reason} {found.reason}",
        assumptions=(
            *in_the_open.guarantee.assumptions,
            *(ASSUMPTIONS[1:] if found.neighbours else ()),
            *_timely(plan),
        ),
    )
    return replace(
        in_the_open,
        guarantee=guarantee,
        cost=last,
        by_position=costs,
        rounds=None,
        notes=(_EXACT, found.reason) if clipped else (*in_the_open.notes, found.reason),
        rounding=0.0 if clipped else in_the_open.rounding,
        floating_point=0.0 if clipped else in_the_open.floating_point,
        total_variation=last.total_variation,
    )


def _ball(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """[rounds] mu and total variation after every round, of values that the encoding holds in its ball and own noise hides."""
    widest = 2.0 * math.ldexp(plan.encoding.clip, plan.encoding.fraction_bits)
    return np.sqrt(np.cumsum((widest / plan.scales) ** 2)), np.cumsum(_total_variations(plan, 1))


def _accounted(in_the_open: Deployed) -> tuple[np.ndarray, np.ndarray]:
    """[rounds] the same as the account of the open run has them."""
    costs = in_the_open.by_position
    return np.array([cost.value for cost in costs]), np.array([cost.total_variation for cost in costs])


def _total_variations(plan: Plan, agents: int) -> np.ndarray:
    """[rounds] of all draws of so many agents in a round, and of sums of their rounded noise, as if each shared a mask with each."""
    return np.array([_of_round(plan, agents, float(scale)) for scale in plan.scales])


def _of_round(plan: Plan, agents: int, scale: float) -> float:
    d = plan.run.dimension
    gopa = plan.run.algorithm.aggregation
    assert gopa is not None  # the plan checks it
    pairs = agents * (agents - 1) // 2
    masks = math.inf if math.isinf(gopa.pairwise_ratio) else gopa.pairwise_ratio * scale
    noise = IntegerNoise(
        own_std=scale, honest_parties=agents, dimension=d, mask_std=masks, pairs=pairs, largest_degree=agents - 1
    )
    draws = agents * d * RoundedGaussian(std=scale).total_variation
    if math.isfinite(masks):
        draws += pairs * d * GaussianMasks(law=RoundedGaussian(std=masks)).law.total_variation
    return min(1.0, noise.total_variation + draws)


def _observer(plan: Plan) -> str:
    others = "all other agents" if plan.collude == "all" else f"any {plan.collude} other agents"
    return f"the board, the beacon and {others} together, and everybody who gets the log or the model"


def _timely(plan: Plan) -> tuple[str, ...]:
    seconds = (plan.times.drops - plan.times.publish) / 1000
    return (
        f"a publication reaches the neighbours of its agent within {seconds:g} seconds, by the board's log or past the board: whoever carries messages between "
        "agents does not keep it back together with the board. Over one round one of an agent's two clocks measures time, whatever they show",
    )
