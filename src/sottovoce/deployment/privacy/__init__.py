"""What a deployed run gives away: the guarantee of the simulated one, with what rounding and imperfect samplers cost added."""

from sottovoce.deployment.privacy.cost import Cost, together

__all__ = ["Cost", "together"]


def __dir__() -> list[str]:
    return [*__all__]
