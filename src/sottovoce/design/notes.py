"""What to know beside the numbers of a design."""

import math

from sottovoce.design.key_plan import MOST_AGENTS_IN_PAIRS, KeyPlan
from sottovoce.design.targets import Limits
from sottovoce.rounding import shown


def warning(plan: KeyPlan, limits: Limits) -> tuple[str, ...]:
    """What one agent would learn, where no target speaks of agents who look."""
    if limits.coalitions or not len(plan.pairs) or len(plan.own) > MOST_AGENTS_IN_PAIRS:
        return ()
    learnt = plan.learnt_by(1)
    (agent,), mu = max(learnt.items(), key=lambda each: each[1])
    nobody = float(plan.learnt_by(0)[()])
    if mu <= nobody * (1 + 1e-3):
        return ()
    amount = "everything" if math.isinf(mu) else f"mu = {shown(mu, 3)} instead of {shown(nobody, 3)}"
    return (
        f"No target speaks of agents who look: agent {agent}, if it also read all messages, could learn {amount}. Add "
        f"any_coalition(1) to the targets (in a file any_coalition:1), or an own_floor.",
    )
