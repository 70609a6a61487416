"""The line to a relay: connected again whenever it breaks, for ever, after waits that grow to two seconds and are never the same for all parties.

A start begins with a message to oneself. What comes out of the mailbox before it was sent to an earlier start, which alone could open it, or greets from
an earlier run: it is acknowledged unread. So nobody is refused for what it said last week.

Over one connection run: what leaves, questions for what has come to the mailbox, acknowledgements, and every so often a sign that messages which
are not acknowledged yet are being worked on, so that the relay does not deliver them again meanwhile. Where the relay takes long to answer, as it does
over a link of a kilobyte a second, signs are asked for less often, since they would fill the link, and waited for longer.
"""

import asyncio
import contextlib
import json
import os
import random
from collections import deque
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from sottovoce.deployment.identity import Identity
from sottovoce.deployment.relays import Relay, mailboxes
from sottovoce.deployment.relays.connection import connect, end, in_words, until_closed
from sottovoce.deployment.transports.arriving import Arriving
from sottovoce.deployment.transports.leaving import Leaving
from sottovoce.deployment.transports.shape import Shape

_FIRST_WAIT, _LONGEST_WAIT = 0.05, 2.0  # seconds before another attempt to connect
_LASTED = 5.0  # seconds after which a connection counts as good
_BATCH = 64  # messages asked for at a time
_EXPIRES = 20.0  # seconds that a question stays open
_SIGN = 0.5  # seconds between two signs that a mailbox with nothing in it gives; more where answers take longer
_SIGNS = 3  # so many missing: there is no such mailbox, if the relay still answers
_ANSWER = 5.0  # seconds in which a relay that is there answers; more where answers take longer
_PAUSE = 0.3  # seconds before the next question where there is no mailbox
_PROGRESS = 20.0  # seconds between two signs that messages are being worked on: a third of what the relay waits
_MOST_ACKNOWLEDGEMENTS = 2**16  # that wait for a connection
_MISSING = "the relay has no mailbox for {}: its operator has to run `sottovoce relay open`"


class Line:
    """One party's way to the relay and back; all of it runs in the thread of the network.

    Attributes:
        trouble: why there is no connection, or no mailbox, at the moment; empty where there is.
    """

    def __init__(
        self, identity: Identity, relay: Relay, tokens: Mapping[str, str], leaving: Leaving, arriving: Arriving
    ) -> None:
        """Prepare.

        Args:
            identity: of this party.
            relay: to whom.
            tokens: name -> how the relay calls each other member.
            leaving: what is to be sent.
            arriving: where messages go.
        """
        self._identity, self._relay, self._leaving, self._arriving = identity, relay, leaving, arriving
        self._tokens, self._names = tokens, {token: name for name, token in tokens.items()}
        self._own = mailboxes.token(identity.public_key)
        self._acknowledgements: deque[str] = deque(maxlen=_MOST_ACKNOWLEDGEMENTS)
        self._to_acknowledge, self._ask_again = asyncio.Event(), asyncio.Event()
        self._question = self._left = 0
        self._sign = 0.0  # when the mailbox was last heard of
        self._client: Any = None
        self._inbox = ""
        self._first, self._begun = os.urandom(32), False  # the message to oneself, and whether it has come
        self.tried = asyncio.Event()  # it has come, or a first attempt has failed
        self.trouble = "the relay was not reached yet"

    def acknowledge(self, names: Sequence[str]) -> None:
        """Tell the relay, as soon as there is a connection, that messages need not be delivered again."""
        self._acknowledgements.extend(names)
        self._to_acknowledge.set()

    async def run(self, shape: Shape | None) -> None:
        """Stay connected until the task is cancelled."""
        wait, loop = _FIRST_WAIT, asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                secret, certificate = self._identity.tls_secret, self._identity.certificate
                client = await connect(self._relay, secret, certificate, mailboxes.inbox(self._own))
                self._leaving.connected(loop.time() - began)
                await self._serve(client, shape)
                self.trouble = "the connection to the relay has ended"
            except Exception as error:  # the library passes on whatever a server makes it stumble over
                self.trouble = in_words(error)
            self.tried.set()
            wait = _FIRST_WAIT if loop.time() - began > _LASTED else min(2 * wait, _LONGEST_WAIT)
            await asyncio.sleep(wait * random.uniform(0.5, 1.0))

    async def finish(self, seconds: float) -> None:
        """Wait until everything is sent and acknowledged, within so many seconds; do not wait for a relay that is gone."""
        deadline = asyncio.get_running_loop().time() + seconds
        while self._client is not None and asyncio.get_running_loop().time() < deadline:
            if self._leaving.idle and not self._acknowledgements:
                with contextlib.suppress(Exception):
                    await self._client.flush(1)
                return
            await asyncio.sleep(0.005)

    async def _serve(self, client: Any, shape: Shape | None) -> None:
        """Use a connection until it ends."""
        self._inbox = client.new_inbox()
        most = 2 * _BATCH * self._relay.max_payload
        await client.subscribe(f"{self._inbox}.>", cb=self._heard, pending_bytes_limit=most)
        self._client, self.trouble = client, ""
        publish = self._publish
        sends = self._leaving.run(publish) if shape is None else self._leaving.beat(publish, shape)
        work: list[Coroutine[Any, Any, Any]] = [
            sends,
            self._ask(shape.size if shape else 0),
            self._send_acknowledgements(),
            until_closed(client),
        ]
        if shape is None:
            work.append(self._show_progress())
        tasks = [asyncio.ensure_future(each) for each in work]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            self._client = None
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._leaving.disconnected()
            await end(client)

    async def _publish(self, to: str, content: bytes, number: int) -> None:
        subject = mailboxes.subject(self._tokens[to], self._own)
        await self._client.publish(subject, content, reply=f"{self._inbox}.a.{number}")

    async def _ask(self, size: int) -> None:
        """Have a question for messages open at all times, and before the first a message to oneself of at least so many bytes."""
        subject, loop = mailboxes.next_messages(self._own), asyncio.get_running_loop()
        while True:
            if not self._begun:
                first = self._first + os.urandom(max(0, size - len(self._first)))
                await self._client.publish(mailboxes.subject(self._own, self._own), first, reply=f"{self._inbox}.a.0")
            self._ask_again.clear()
            self._question, self._left, self._sign = self._question + 1, _BATCH, loop.time()
            every = max(_SIGN, 2 * self._leaving.answers_within)
            open_for = {"batch": _BATCH, "expires": int(_EXPIRES * 1e9), "idle_heartbeat": int(every * 1e9)}
            asked = json.dumps(open_for).encode()
            await self._client.publish(subject, asked, reply=f"{self._inbox}.m.{self._question}")
            while not self._ask_again.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._ask_again.wait(), _SIGN)
                if loop.time() - self._sign > _SIGNS * every:
                    await self._client.flush(max(_ANSWER, _SIGNS * every))  # raises where the relay itself is silent
                    self.trouble = _MISSING.format("this party")
                    self._ask_again.set()
            if self.trouble:
                self.tried.set()
                await asyncio.sleep(_PAUSE)

    async def _send_acknowledgements(self) -> None:
        while True:
            self._to_acknowledge.clear()
            while self._acknowledgements:
                await self._client.publish(self._acknowledgements[0], b"+ACK")
                self._acknowledgements.popleft()
            await self._to_acknowledge.wait()

    async def _show_progress(self) -> None:
        while True:
            await asyncio.sleep(_PROGRESS)
            for name in self._arriving.held():
                await self._client.publish(name, b"+WPI")

    async def _heard(self, message: Any) -> None:
        """Take in whatever the relay says."""
        if not message.subject.startswith(self._inbox):
            self._delivered(message)
            return
        kind, _, number = message.subject[len(self._inbox) + 1 :].partition(".")
        status = (message.headers or {}).get("Status", "")
        if kind == "a" and number.isdecimal():
            self._leaving.confirmed(int(number), _objection(message.data, status))
        elif kind == "m" and number == str(self._question) and status:
            self.trouble = _MISSING.format("this party") if status == "503" else ""
            self._sign = asyncio.get_running_loop().time()
            if status != "100":
                self._ask_again.set()

    def _delivered(self, message: Any) -> None:
        """Take in a message, if it is one of a member to this party and this start."""
        before, _, token = message.subject.rpartition(".")
        if before != f"sv.{self._own}":
            return
        try:
            found = message.metadata
            mark = int(found.sequence.stream), str(found.timestamp)
        except Exception:  # an address for acknowledgements that no JetStream gives
            return
        self.trouble, self._sign = "", asyncio.get_running_loop().time()
        self._left -= 1
        if self._left <= _BATCH // 4:
            self._ask_again.set()
        sender = self._names.get(token)
        if token == self._own and message.data[: len(self._first)] == self._first:
            self._begun = True
            self.tried.set()
        if sender is None or not self._begun:
            self.acknowledge([message.reply])
        else:
            self._arriving.take(sender, message.data, message.reply, mark)


def _objection(answer: bytes, status: str) -> str:
    """Why the relay did not take a message; empty where it did."""
    if status == "503":
        return _MISSING.format("it")
    try:
        said = json.loads(answer)
        error = said.get("error")
    except (ValueError, AttributeError, RecursionError):
        return "the relay's answer cannot be read"
    return f"the relay refuses its messages: {str(error)[:200]}" if error else ""
