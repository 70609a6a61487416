"""What the parties of a run agree on before it: its public parts, resolved to numbers, and the digest that stands for them."""

from sottovoce.deployment.terms.public_run import PublicRun

__all__ = ["PublicRun"]


def __dir__() -> list[str]:
    return [*__all__]
