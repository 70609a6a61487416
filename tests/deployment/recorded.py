"""A transport that writes down every blob before it is sent, for an eavesdropper who reads them later."""

import json
import time
from pathlib import Path

from sottovoce.deployment.transports import Delivery, Transport


class Recorded:
    """Another transport, and a file of what it sends."""

    def __init__(self, transport: Transport, name: str, path: Path) -> None:
        self._transport, self._name, self._file = transport, name, path.open("a", encoding="ascii")
        self.open, self.close = transport.open, transport.close
        self.busy, self.trouble = transport.busy, transport.trouble

    @property
    def max_blob(self) -> int:
        return self._transport.max_blob

    def send(self, to: str, blob: bytes) -> None:
        self._file.write(json.dumps([time.time(), self._name, to, blob.hex()]) + "\n")
        self._file.flush()
        self._transport.send(to, blob)

    def recv(self, timeout: float) -> Delivery | None:
        return self._transport.recv(timeout)
