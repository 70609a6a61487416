"""The contract of a transport: blobs between parties that a roster names.

A transport delivers a blob whole or not at all, perhaps twice, late or out of order. It keeps nothing over a crash: who sends keeps what was not
acknowledged and sends it again. What a blob says, and whether it is genuine, is checked by whoever opens it.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol


def nothing() -> None:
    """What is to be done about a blob that no relay keeps."""


class Delivery(NamedTuple):
    """A blob that has arrived.

    Whoever takes it calls `done` when it need not be delivered again: for words after the commit that took them, for everything else as soon as
    it is dealt with. A relay keeps it until then.
    """

    sender: str  # as the transport knows it, from the other end's certificate
    blob: bytes
    done: Callable[[], None] = nothing

    def __repr__(self) -> str:
        return f"<Delivery of {self.sender}: {len(self.blob)} bytes>"


class Transport(Protocol):
    """Sends and takes blobs. `open` comes first and `close` last; all calls are made from one thread."""

    @property
    def max_blob(self) -> int:
        """The most bytes in one blob."""

    def open(self) -> None:
        """Begin to take blobs in."""

    def send(self, to: str, blob: bytes) -> None:
        """Begin to send a blob and return at once. It may be lost; then it is the caller's to send again."""

    def recv(self, timeout: float) -> Delivery | None:
        """The next blob, or None when none came within so many seconds."""

    def busy(self, to: str) -> bool:
        """Whether blobs for a party are still on their way out, so that to repeat them now would only lengthen a queue."""

    def close(self) -> None:
        """Finish what is being sent, for a few seconds at most, and stop."""
