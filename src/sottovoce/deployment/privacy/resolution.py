"""How fine the lattice should be: rounding should cost next to nothing, and draws should stay fast.

The charge halves with every bit. Noise of fewer than 2^20 units would make rounding visible beside it; beyond 2^28 units samplers get slower, at 2^36 they
end, and the numbers that fit below the bound of the lattice get small. So the fewest bits are taken with which every agent's own noise has 2^20 units
in every round, and the charge is a thousandth; then, as far as it must be, a hundredth.
"""

import math

import numpy as np

from sottovoce.deployment.privacy import draws
from sottovoce.deployment.privacy.gradients import GradientArithmetic
from sottovoce.deployment.privacy.guarantee import Collude, ReleasedTo, deployed_guarantee
from sottovoce.deployment.terms import PublicRun
from sottovoce.errors import UnsupportedClaim
from sottovoce.problems import Sensitivity

WITHOUT_NOISE = 24  # fraction bits where there is no noise to go by
FEWEST_UNITS, USUAL_UNITS, MOST_UNITS = 20, 28, 36  # of the noise's standard deviation, as powers of two
WANTED, ALLOWED = 1e-3, 1e-2  # of the sensitivity


def choose_fraction_bits(
    run: PublicRun,
    *,
    agent: int,
    sensitivity: Sensitivity,
    arithmetic: GradientArithmetic,
    collude: Collude,
    relay_trusted: bool,
    released_to: ReleasedTo,
) -> int:
    """The fraction bits f with which rounding costs below one percent and noise has 2^20 to 2^28 units, where both can be had.

    Args:
        run: the public parts.
        agent: whose data.
        sensitivity: from `problem.sensitivity(...)`.
        arithmetic: from `gradient_arithmetic(problem, ...)`.
        collude: as in `deployed_guarantee`.
        relay_trusted: the same.
        released_to: the same.

    Raises:
        UnsupportedClaim: rounding costs more than one percent at any resolution that samplers have.
    """
    law = run.noise.law
    if law is None:
        return WITHOUT_NOISE
    factors = run.noise.factors(run.rounds)
    stds = run.noise.std * factors[factors > 0]
    if not len(stds):
        return WITHOUT_NOISE
    smallest, largest = draws.own_sizes(run, agent)
    fewest = math.ceil(FEWEST_UNITS - math.log2(smallest * float(np.min(stds))))
    usual, most = (math.floor(units - math.log2(largest * float(np.max(stds)))) for units in (USUAL_UNITS, MOST_UNITS))

    def charge(bits: int) -> float:
        found = deployed_guarantee(
            run, agent=agent, sensitivity=sensitivity, arithmetic=arithmetic, fraction_bits=bits, collude=collude, relay_trusted=relay_trusted, released_to=released_to,
            losses=None, unit=sensitivity.unit, adjacency=sensitivity.adjacency,
        )  # fmt: skip
        return 0.0 if found.cost.kind == "infinite" else found.rounding

    at_fewest = charge(fewest)
    for wanted, last in ((WANTED, usual), (ALLOWED, usual), (ALLOWED, most)):
        bits = fewest + max(0, math.ceil(math.log2(at_fewest / wanted) + 1e-9) if at_fewest > wanted else 0)
        if bits <= last and charge(bits) <= wanted * (1 + 1e-6):
            return bits
    raise UnsupportedClaim(
        f"rounding costs more than one percent of the sensitivity {float(sensitivity):g} at every resolution at which noise of {float(np.max(stds)):g} can be drawn: "
        f"there is far more noise than one record moves. Use less noise, or agents with fewer records."
    )
