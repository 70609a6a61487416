"""NATS JetStream as a relay that nobody has to trust: every party connects outwards, and finds its messages in a mailbox of its own.

    send    publish to the receiver's mailbox under one's own name; the relay keeps the message until the receiver has acknowledged it
    recv    ask the own mailbox for messages; acknowledge each when the caller calls `done`, which it does after the commit

The relay is known by its whole certificate, and it knows members by theirs (`deployment.relays`). It says who sent a message: the last word of the
subject, for which its permissions stand. Since it is not trusted itself, every message has an outer seal that only its sender can make and only its
receiver can open (`cover`), and everything that matters is checked again by who opens the blob: greetings are signed, and a sealed message names its
sender and receiver. A relay sees who sends to whom, when and how much; it can delay, drop and repeat messages, which their receivers notice or do
without. It can read and change nothing.

Messages are sealed for one start of their receiver, so that what waits for an earlier start cannot be opened: a party that starts acknowledges all of
it unread (`line`), and its sender seals it again. The mailbox bridges lost connections, of either end and of the relay, and not restarts. A relay that
is gone is tried again for ever; what is lost with its disk is sent again by who sent it.

What a malicious relay can make a party hold: for each other member what `arriving` says, 128 messages that were read and not looked at yet, and once
`max_payload` of a message that does not end.
"""

import asyncio
import contextlib

from sottovoce.deployment.identity import Identity, Roster
from sottovoce.deployment.relays import Relay, mailboxes
from sottovoce.deployment.transports.arriving import Arriving
from sottovoce.deployment.transports.cover import Cover
from sottovoce.deployment.transports.inbox import Inbox
from sottovoce.deployment.transports.leaving import Leaving
from sottovoce.deployment.transports.line import Line
from sottovoce.deployment.transports.network_thread import NetworkThread
from sottovoce.deployment.transports.shape import Shape
from sottovoce.deployment.transports.transport import Delivery
from sottovoce.errors import ConfigError

LARGEST_BLOB = 2**26  # 64 MiB, 8 million parameters
_OPENING, _CLOSING = 3.0, 3.0  # seconds


class NatsTransport:
    """Sends and takes blobs over a relay; a thread of its own does the work between `open` and `close`."""

    def __init__(
        self,
        identity: Identity,
        roster: Roster,
        relay: Relay,
        *,
        max_blob: int = LARGEST_BLOB,
        shape: Shape | None = None,
    ) -> None:
        """Prepare; nothing is opened yet.

        Args:
            identity: who this party is.
            roster: all members; it lists this party with the certificate that `identity` has.
            relay: of these members.
            max_blob: the most bytes in one blob, which also bounds what each other party can make this one hold.
            shape: size and time of every message, the same at all parties; None: as blobs come.

        Raises:
            ConfigError: the roster has another certificate of this party, or messages cannot have this shape.
        """
        if roster[identity.name].certificate != identity.certificate:
            raise ConfigError(
                f"The roster lists another certificate of {identity.name} than the one in this party's key file, so that the relay would refuse it. "
                "Put this party's newest entry into every roster: sottovoce roster renew."
            )
        if shape is not None:
            shape.check(relay.max_payload)
        self._identity, self._relay, self._max_blob, self._shape = identity, relay, max_blob, shape
        others = [entry for entry in roster if entry.name != identity.name]
        self._tokens = {entry.name: mailboxes.token(entry.identity_key) for entry in others}
        self._covers = {entry.name: Cover(identity, entry) for entry in others}
        self._roster = roster
        self._thread: NetworkThread | None = None
        self._inbox: Inbox | None = None
        self._leaving: Leaving | None = None
        self._arriving: Arriving | None = None
        self._line: Line | None = None

    def __repr__(self) -> str:
        return f"NatsTransport({self._identity.name} by {self._relay.address}, {'open' if self._thread else 'closed'})"

    @property
    def max_blob(self) -> int:
        """The most bytes in one blob."""
        return self._max_blob

    def open(self) -> None:
        """Begin to take blobs in; where the relay does not answer at once, as soon as it does."""
        if self._thread is not None:
            raise ConfigError("The transport is open already.")
        self._thread = NetworkThread()
        self._inbox = Inbox(tuple(self._tokens), self._max_blob, self._thread.loop)
        self._thread.finished(self._begin())

    def send(self, to: str, blob: bytes) -> None:
        """Begin to send a blob and return at once. It may be lost; then it is the caller's to send again.

        Raises:
            ConfigError: the blob is too large.
            UnknownParty: nobody has the name.
        """
        if self._thread is None or self._leaving is None:
            raise ConfigError("The transport is closed; open it before sending.")
        if len(blob) > self._max_blob:
            raise ConfigError(
                f"A blob of {len(blob)} bytes for {to}; at most {self._max_blob} can be sent. Raise max_blob at all parties."
            )
        if self._roster[to].name == self._identity.name:
            raise ConfigError(f"{to} is this party itself; it has nothing to send to itself.")
        self._thread.soon(self._leaving.put, to, blob)

    def recv(self, timeout: float) -> Delivery | None:
        """The next blob, or None when none came within so many seconds."""
        if self._inbox is None:
            raise ConfigError("The transport is closed; open it before asking for blobs.")
        return self._inbox.get(timeout)

    def busy(self, to: str) -> bool:
        """Whether the relay has not confirmed all blobs for a party, so that to repeat them now would only lengthen a queue."""
        return self._leaving is not None and self._leaving.busy(to)

    def trouble(self, peer: str) -> str:
        """Why a party that blobs are for cannot be reached at the moment, or what was dropped of it; empty where nothing is known against it."""
        line, leaving, arriving = self._line, self._leaving, self._arriving
        if line is None or leaving is None or arriving is None:
            return ""
        return line.trouble or leaving.troubles.get(peer) or arriving.complaints.get(peer, "")

    def close(self) -> None:
        """Finish what is being sent, for a few seconds at most, and stop; what has arrived and was not asked for stays at the relay."""
        if self._thread is None:
            return
        assert self._line is not None
        assert self._leaving is not None
        with contextlib.suppress(TimeoutError):
            seconds = max(_CLOSING, 4 * self._leaving.answers_within)
            self._thread.finished(self._line.finish(seconds), seconds + _CLOSING)
        self._thread.stop()
        self._thread = self._inbox = self._line = self._leaving = self._arriving = None

    async def _begin(self) -> None:
        assert self._thread is not None
        assert self._inbox is not None
        self._leaving = Leaving(self._covers, self._max_blob, self._relay.max_payload)
        self._arriving = Arriving(
            self._inbox,
            self._covers,
            self._max_blob,
            acknowledge=lambda names: line.acknowledge(names),
            soon=self._thread.soon,
            at_once=self._shape is not None,
        )
        # What goes wrong inside the library is said by `trouble`, not on the terminal.
        self._thread.loop.set_exception_handler(lambda loop, context: None)
        self._line = line = Line(self._identity, self._relay, self._tokens, self._leaving, self._arriving)
        self._task = asyncio.ensure_future(line.run(self._shape))
        with contextlib.suppress(TimeoutError):  # it goes on by itself
            await asyncio.wait_for(line.tried.wait(), _OPENING)
