"""What several runs on one data set give away together: the rules by which a ledger adds up.

Runs of one kind keep their own currency (`privacy.together`):

    gaussian        mu^2 adds up                pure            epsilon adds up
    epsilon-delta   both add up                 infinite        stays infinite, whatever else ran

total variations add up, and are paid from delta. Where kinds meet, with mu of all Gaussian runs, E of all pure ones, (a, b) the sums of the fixed
pairs, t the sum of all total variations and c = E + a, the ledger's epsilon at delta is

    c + e ,   e the smallest with   delta(mu, e) + (1 + e^e) t e^c <= delta - b .                                              (*)

Proof that (*) never understates. (1) Replace run after run by the ideal one that its mu or epsilon speaks of: whatever came before, this changes
the law of everything that is seen by at most that run's total variation, in either world. So the true law is within t of the ideal one. (2)
Ideal runs, interleaved in any order, are dominated by the product of what dominates each (Dong, Roth & Su 2022; Zhu, Dong & Wang 2022), in which
the order does not matter: one mu-GDP part, one E-DP part, one (a, b)-DP part. Basic composition: P(S) <= e^(e + c) Q(S) + delta(mu, e) + b. (3)
Steps 1 and 2: P'(S) <= e^(e + c) Q'(S) + delta(mu, e) + b + (1 + e^(e + c)) t, and (1 + e^(e + c)) t <= (1 + e^e) t e^c. So (*) holds at delta.

What the proof asks for. Runs may look at all that earlier runs released. Their COSTS, and whether there is a further run, may do so as well among
runs of one kind: mu-GDP runs with mu_i chosen on the way and sum mu_i^2 <= M^2 read one Brownian path with drift up to time M^2, and are M-GDP.
Across kinds they may not: whoever decides between Gaussian and Laplace noise by looking at what an earlier run released could gain on (*).
"""

import math
from collections.abc import Sequence

from sottovoce.deployment.privacy import Cost, together


def total_epsilon(costs: Sequence[Cost], delta: float) -> float:
    """An epsilon that holds for all runs together at this delta; infinity where there is none.

    Args:
        costs: of the runs, in any order.
        delta: of the ledger.
    """
    kinds = {cost.kind for cost in costs}
    if "infinite" in kinds:
        return math.inf
    if len(kinds) <= 1:
        return together(costs).epsilon(delta)
    by_kind = {kind: together([cost for cost in costs if cost.kind == kind]) for kind in kinds}
    nothing = Cost.pure(0.0)
    fixed = by_kind.get("epsilon-delta", nothing)
    added = by_kind.get("pure", nothing).value + fixed.value
    left = delta - fixed.at_delta
    variation = math.fsum(cost.total_variation for cost in costs) * (math.exp(added) if added < 700.0 else math.inf)
    if not 0.0 <= left < 1.0 or not variation < 1.0:
        return math.inf
    return added + Cost.gaussian(by_kind.get("gaussian", nothing).value, variation).epsilon(left)
