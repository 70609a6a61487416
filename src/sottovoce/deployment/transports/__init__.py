"""How sealed bytes get from one party to another; nothing here can read them.

GrpcTransport    direct gRPC with mutual TLS, certificates compared with the roster (needs the extra `deploy`)
NatsTransport    a relay that nobody has to trust, for parties that cannot reach each other (needs the extra `deploy`)
MemoryNetwork    parties of one process, for tests and rehearsals
"""

from typing import TYPE_CHECKING

from sottovoce.deployment.transports.memory import MemoryNetwork, MemoryTransport
from sottovoce.deployment.transports.transport import Delivery, Transport, nothing
from sottovoce.imported_later import imported_later

if TYPE_CHECKING:
    from sottovoce.deployment.transports.direct import GrpcTransport
    from sottovoce.deployment.transports.relayed import NatsTransport
    from sottovoce.deployment.transports.shape import Shape, read_shape

__getattr__ = imported_later(
    __name__, {"direct": ("GrpcTransport",), "relayed": ("NatsTransport",), "shape": ("Shape", "read_shape")}
)

__all__ = [
    "Delivery",
    "GrpcTransport",
    "MemoryNetwork",
    "MemoryTransport",
    "NatsTransport",
    "Shape",
    "Transport",
    "read_shape",
]


def __dir__() -> list[str]:
    return [*__all__]
