"""What a promise about the losses says of one gradient step."""

from sottovoce.errors import UnsupportedClaim
from sottovoce.problems import ConvexSmooth


def contraction(step: float, losses: ConvexSmooth | None) -> float:
    """The Lipschitz constant of w -> w - step grad(w); one without a promise.

    Raises:
        UnsupportedClaim: the step is too long for the promise to keep models together.
    """
    if losses is None:
        return 1.0
    if step > 2.0 / losses.beta * (1 + 1e-12):
        raise UnsupportedClaim(
            f"step_size = {step:g} exceeds 2 / beta = {2.0 / losses.beta:g}: with such steps convex losses may drive two runs apart, so "
            f"the promise ConvexSmooth(beta={losses.beta:g}) proves nothing. Use a smaller step."
        )
    return max(abs(1.0 - step * losses.nu), abs(1.0 - step * losses.beta))
