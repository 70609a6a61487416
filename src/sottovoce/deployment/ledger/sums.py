"""What several runs on one data set give away together: the rules by which a ledger adds up.

Runs of one kind keep their own currency (`privacy.together`):

    gaussian        mu^2 adds up                pure            epsilon adds up
    epsilon-delta   both add up                 infinite        stays infinite, whatever else ran

total variations add up, and are paid from delta. Where kinds meet, the first Gaussian run divides the ledger:

    before it    epsilons of pure runs and of pairs add up to c
    from it on   mu^2 adds up; a pure run, or the epsilon of a pair, counts with the mu that it is worth, 2 Phi^-1(e^epsilon / (1 + e^epsilon))
    all along    deltas of pairs add up to b, total variations to t

and the ledger's epsilon at delta is

    c + e ,   e the smallest with   delta(mu, e) + (1 + e^e) t e^c <= delta - b .                                              (*)

Proof that (*) never understates. (1) Replace run after run by the ideal one that its mu or epsilon speaks of: whatever came before, this changes
the law of everything that is seen by at most that run's total variation, in either world. So the true law is within t of the ideal one. (2) An
(epsilon, delta)-DP run is an epsilon-DP one but for an event of probability delta (Kairouz, Oh & Viswanath 2015); an epsilon-DP run is mu-GDP with
the mu above, since the convex curve of mu-GDP meets that of epsilon-DP in its corner and lies below its two straight lines. (3) The runs that
were reserved before the first Gaussian one have a privacy loss of at most c together. All others can be simulated from one Brownian path that has a drift in one of the worlds, read
up to time mu^2: they are mu-GDP together, also where each run is chosen by looking at the earlier ones. So for the ideal runs P(S) <= e^(c + e) Q(S)
+ delta(mu, e) + b. (4) With step 1, P'(S) <= e^(c + e) Q'(S) + delta(mu, e) + b + (1 + e^(c + e)) t, and (1 + e^(c + e)) t <= (1 + e^e) t e^c.

Why the order counts. Whoever plans the next run has seen what the last one released. A rule that lets Gaussian and pure runs trade epsilon at any
time is true for plans made beforehand, but not for a budget: after a Gaussian run, "pure noise if the loss was large, else more Gaussian noise"
reaches epsilon = 8 with almost 2 delta. In (*), c is fixed when the first Gaussian run begins, and mu is used up as on one path. What stays open to
such choices is the share of delta for pairs and total variations; they are added in full, so that the worst plan reaches less than 2 delta.
"""

import math
from collections.abc import Sequence

from sottovoce.accounting import pure
from sottovoce.deployment.privacy import Cost, together


def total_epsilon(costs: Sequence[Cost], delta: float) -> float:
    """An epsilon that holds for all runs together at this delta; infinity where there is none.

    Args:
        costs: of the runs, in the order in which they were reserved.
        delta: of the ledger.
    """
    kinds = {cost.kind for cost in costs}
    if "infinite" in kinds:
        return math.inf
    return together(costs).epsilon(delta) if len(kinds) <= 1 else _across_kinds(costs, delta)


def _across_kinds(costs: Sequence[Cost], delta: float) -> float:
    """The epsilon of (*)."""
    first = next((number for number, cost in enumerate(costs) if cost.kind == "gaussian"), len(costs))
    added = math.fsum(cost.value for cost in costs[:first])
    mu = math.hypot(*(_worth_mu(cost) for cost in costs[first:]))
    left = delta - math.fsum(cost.at_delta for cost in costs)
    variation = math.fsum(cost.total_variation for cost in costs) * (math.exp(added) if added < 700.0 else math.inf)
    if not 0.0 <= left < 1.0 or not variation < 1.0 or mu == math.inf:
        return math.inf
    return added + Cost.gaussian(mu, variation).epsilon(left)


def _worth_mu(cost: Cost) -> float:
    """The mu of a run, or the mu for which its epsilon is good."""
    return cost.value if cost.kind == "gaussian" else pure.mu(cost.value)
