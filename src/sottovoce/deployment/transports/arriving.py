"""What comes from a relay: messages become blobs, and are acknowledged when the blob was dealt with.

A malicious relay or member can make a party hold, for each sender, `max_blob` bytes of whole blobs that nobody took yet, as many of blobs that are not
whole, and the names of `MOST_HELD` messages that are not acknowledged. What goes beyond is dropped and acknowledged: its sender sends it again, or
was flooding. A message that comes again while it is held is not taken twice.
"""

from collections.abc import Callable, Mapping, Sequence

from sottovoce.deployment.transports.cover import Cover
from sottovoce.deployment.transports.inbox import Inbox
from sottovoce.deployment.transports.parts import Assembly, Mark
from sottovoce.errors import ProtocolError

MOST_HELD = 1024  # messages of one sender


class Arriving:
    """The way from messages to blobs; all of it runs in the thread of the network.

    Attributes:
        complaints: sender -> what was wrong with the last of its messages that were dropped.
    """

    def __init__(
        self,
        inbox: Inbox,
        covers: Mapping[str, Cover],
        max_blob: int,
        *,
        acknowledge: Callable[[Sequence[str]], None],
        soon: Callable[..., None],
        at_once: bool,
    ) -> None:
        """Begin with nothing.

        Args:
            inbox: where whole blobs go.
            covers: the outer seal of everybody whose blobs may come.
            max_blob: the most bytes of one.
            acknowledge: called with names of messages that need not be delivered again.
            soon: has something called in the thread of the network.
            at_once: acknowledge messages as they come, whatever becomes of them.
        """
        self._inbox, self._acknowledge, self._soon = inbox, acknowledge, soon
        self._covers, self._at_once = covers, at_once
        self._assemblies = {sender: Assembly(max_blob) for sender in covers}
        self._held: dict[str, dict[Mark, str]] = {sender: {} for sender in self._assemblies}
        self.complaints: dict[str, str] = {}

    def held(self) -> list[str]:
        """Names of all messages that are being worked on."""
        return [name for each in self._held.values() for name in each.values()]

    def take(self, sender: str, content: bytes, name: str, mark: Mark) -> None:
        """Take in a message.

        Args:
            sender: whose it is, as the relay says.
            content: of the message.
            name: by which it is acknowledged.
            mark: what stays the same when it is delivered again.
        """
        held = self._held[sender]
        if mark in held:
            held[mark] = name
            return
        held[mark] = name
        if self._at_once:
            self.forget(sender, [mark])
        elif len(held) > MOST_HELD:
            self._refuse(sender, mark, "more of its messages wait than are held; the newest are dropped")
            return
        try:
            part = self._covers[sender].opened(content)
            if part:
                self._assemble(sender, part, mark)
            else:
                self.forget(sender, [mark])  # a dummy
        except ProtocolError as error:
            self._refuse(sender, mark, str(error))

    def forget(self, sender: str, marks: Sequence[Mark]) -> None:
        """Acknowledge messages, and hold them no more."""
        names = [self._held[sender].pop(mark, "") for mark in marks]
        self._acknowledge([name for name in names if name])

    def _assemble(self, sender: str, part: bytes, mark: Mark) -> None:
        assembly = self._assemblies[sender]
        whole = assembly.take(part, mark)
        if whole is not None:
            marks = whole.messages
            if not self._inbox.offer(sender, whole.blob, lambda: self._soon(self.forget, sender, marks)):
                self.complaints[sender] = "its blobs come faster than they are taken; the newest are dropped"
                assembly.dropped += marks
        self.forget(sender, assembly.dropped)
        assembly.dropped.clear()

    def _refuse(self, sender: str, mark: Mark, reason: str) -> None:
        self.complaints[sender] = reason
        self.forget(sender, [mark])
