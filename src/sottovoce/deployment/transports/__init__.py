"""How sealed bytes get from one party to another; nothing here can read them.

GrpcTransport    direct gRPC with mutual TLS, certificates compared with the roster (needs the extra `deploy`)
MemoryNetwork    parties of one process, for tests and rehearsals
"""

from typing import TYPE_CHECKING

from sottovoce.deployment.transports.memory import MemoryNetwork, MemoryTransport
from sottovoce.deployment.transports.transport import Delivery, Transport
from sottovoce.imported_later import imported_later

if TYPE_CHECKING:
    from sottovoce.deployment.transports.direct import GrpcTransport

__getattr__ = imported_later(__name__, {"direct": ("GrpcTransport",)})

__all__ = ["Delivery", "GrpcTransport", "MemoryNetwork", "MemoryTransport", "Transport"]


def __dir__() -> list[str]:
    return [*__all__]
