"""Blobs between parties of one process: for tests and rehearsals, with losses and repetitions on request."""

import queue
import random
from collections.abc import Iterable

from sottovoce.deployment.transports.transport import Delivery
from sottovoce.errors import ConfigError

LARGEST_BLOB = 2**26


class MemoryNetwork:
    """Parties that hear each other through memory. Every party may have a thread of its own."""

    def __init__(
        self,
        names: Iterable[str],
        *,
        loss: float = 0.0,
        duplication: float = 0.0,
        seed: int = 0,
        max_blob: int = LARGEST_BLOB,
    ) -> None:
        """Begin with nothing on its way.

        Args:
            names: of all parties.
            loss: the probability that a blob does not arrive.
            duplication: the probability that one that arrives comes twice.
            seed: of these accidents.
            max_blob: the most bytes in one blob.
        """
        self.max_blob = max_blob
        self._loss, self._duplication = loss, duplication
        self._accidents = random.Random(seed)
        self._open: dict[str, queue.SimpleQueue[Delivery]] = {}
        self._names = tuple(names)

    def transport(self, name: str) -> "MemoryTransport":
        """The transport of one party; another one in its place has what the first one had when it was closed: nothing."""
        self._check(name)
        return MemoryTransport(self, name)

    def begin(self, name: str) -> "queue.SimpleQueue[Delivery]":
        """A party begins to take blobs in."""
        self._open[name] = queue.SimpleQueue()
        return self._open[name]

    def end(self, name: str) -> None:
        """A party takes no more blobs."""
        self._open.pop(name, None)

    def carry(self, sender: str, to: str, blob: bytes) -> None:
        """Bring a blob to its receiver, if it is there, and if no accident happens."""
        self._check(to)
        if len(blob) > self.max_blob:
            raise ConfigError(
                f"A blob of {len(blob)} bytes for {to}; at most {self.max_blob} can be sent. Raise max_blob at all parties."
            )
        receiver = self._open.get(to)
        if receiver is None or self._accidents.random() < self._loss:
            return
        for _ in range(1 + (self._accidents.random() < self._duplication)):
            receiver.put(Delivery(sender, bytes(blob)))

    def _check(self, name: str) -> None:
        if name not in self._names:
            raise ConfigError(f"There is no party {name!r}; there are {', '.join(self._names)}.")


class MemoryTransport:
    """The transport of one party in a `MemoryNetwork`."""

    def __init__(self, network: MemoryNetwork, name: str) -> None:
        self._network, self._name = network, name
        self._inbox: queue.SimpleQueue[Delivery] | None = None

    @property
    def max_blob(self) -> int:
        """The most bytes in one blob."""
        return self._network.max_blob

    def open(self) -> None:
        """Begin to take blobs in."""
        self._inbox = self._network.begin(self._name)

    def send(self, to: str, blob: bytes) -> None:
        """Send a blob; it has arrived when this returns, or is lost."""
        self._network.carry(self._name, to, blob)

    def recv(self, timeout: float) -> Delivery | None:
        """The next blob, or None when none came within so many seconds."""
        if self._inbox is None:
            raise ConfigError("The transport is closed; open it before asking for blobs.")
        try:
            return self._inbox.get(timeout=max(0.0, timeout))
        except queue.Empty:
            return None

    def busy(self, to: str) -> bool:
        """Never: what is sent has arrived."""
        return False

    def close(self) -> None:
        """Take no more blobs."""
        self._inbox = None
        self._network.end(self._name)
