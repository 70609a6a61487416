"""What a deployed run gives away: the guarantee of the simulated one, with what rounding and imperfect samplers cost added."""

from sottovoce.deployment.privacy.cost import Cost, together
from sottovoce.deployment.privacy.gradients import GradientArithmetic, gradient_arithmetic
from sottovoce.deployment.privacy.guarantee import Collude, Deployed, ReleasedTo, deployed_guarantee, guarantee_of_party
from sottovoce.deployment.privacy.resolution import choose_fraction_bits
from sottovoce.deployment.privacy.round_costs import RoundCosts

__all__ = [
    "Cost",
    "Deployed",
    "GradientArithmetic",
    "RoundCosts",
    "choose_fraction_bits",
    "deployed_guarantee",
    "gradient_arithmetic",
    "guarantee_of_party",
    "together",
]


def __dir__() -> list[str]:
    return [*__all__]
