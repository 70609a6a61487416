"""How sealed bytes get from one party to another; nothing here can read them."""

from sottovoce.deployment.transports.transport import Delivery, Transport

__all__ = ["Delivery", "Transport"]


def __dir__() -> list[str]:
    return [*__all__]
