"""Making the mailboxes of a relay that runs: one stream and one consumer for each member, by the operator's key.

The same call is made after the server's disk was lost and after the roster has changed: what is there already stays, what has other limits is
changed, and the mailboxes of nobody in the roster are removed.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DiscardPolicy, RetentionPolicy, StorageType, StreamConfig
from nats.js.errors import BadRequestError

from sottovoce.deployment.identity import load_roster
from sottovoce.deployment.relays.configuration import RELAY, ROSTER, Limits, operator_keys
from sottovoce.deployment.relays.connection import NatsError, connect, in_words
from sottovoce.deployment.relays.mailboxes import CONSUMER, OPERATOR_INBOX, mailbox, subject, token
from sottovoce.deployment.relays.relay_file import load_relay
from sottovoce.errors import ConfigError

ACKNOWLEDGED_WITHIN = (
    60.0  # seconds after which a message that was neither acknowledged nor being worked on is delivered again
)
LOWEST_VERSION = (2, 14)  # of the server; earlier ones have advisories against them
_WAITING = 16  # questions for messages that one member may have open
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A relay that runs.

    Attributes:
        version: of the server.
        fit: whether this version may be used among parties.
        waiting: name of a member -> messages in its mailbox; None where it has no mailbox.
        removed: streams of nobody in the roster.
    """

    version: str
    fit: bool
    waiting: dict[str, int | None]
    removed: tuple[str, ...] = ()


def open_mailboxes(folder: Path) -> Found:
    """Make the mailboxes of all members, and remove those of others.

    Args:
        folder: that `configured` wrote; its server runs.

    Raises:
        ConfigError: the server cannot be reached, or refuses.
    """
    return _asked(folder, _open)


def look_at_mailboxes(folder: Path) -> Found:
    """What a relay has, with nothing changed.

    Raises:
        ConfigError: the server cannot be reached.
    """
    return _asked(folder, _look)


def _asked(folder: Path, ask: Callable[[Any, dict[str, str], Limits], Awaitable[_Answer]]) -> _Answer:
    operator, relay = operator_keys(folder, needed=True), load_relay(folder / RELAY)
    assert operator.limits is not None  # the file has them
    owners = {entry.name: token(entry.identity_key) for entry in load_roster(folder / ROSTER, expired=True)}
    limits = operator.limits

    async def run() -> _Answer:
        client = await connect(relay, operator.secret, operator.certificate, OPERATOR_INBOX)
        try:
            return await ask(client, owners, limits)
        finally:
            await client.close()

    try:
        return asyncio.run(run())
    except (OSError, TimeoutError, NatsError) as error:
        raise ConfigError(
            f"The relay at {relay.address} did not do what it was asked: {in_words(error)}. Start it in {folder} with nats-server -c nats.conf, with the "
            "configuration that was written last, and try again."
        ) from error


async def _open(client: Any, owners: dict[str, str], limits: Limits) -> Found:
    streams = client.jetstream(timeout=10)
    for owner in owners.values():
        await _make(streams, owner, limits, len(owners))
    wanted = {mailbox(owner) for owner in owners.values()}
    surplus = sorted(name for name in await _names(streams) if name not in wanted)
    for name in surplus:
        await streams.delete_stream(name)
    return await _found(client, streams, owners, tuple(surplus))


async def _look(client: Any, owners: dict[str, str], limits: Limits) -> Found:
    return await _found(client, client.jetstream(timeout=10), owners, ())


async def _make(streams: JetStreamContext, owner: str, limits: Limits, members: int) -> None:
    stream = StreamConfig(
        name=mailbox(owner),
        subjects=[subject(owner, "*")],
        retention=RetentionPolicy.WORK_QUEUE,
        storage=StorageType.FILE,
        discard=DiscardPolicy.OLD,
        max_msgs_per_subject=limits.messages,
        max_msg_size=limits.max_payload,
        max_age=3600.0 * limits.hours,
        max_consumers=1,
        num_replicas=1,
    )
    try:
        await streams.add_stream(stream)
    except BadRequestError:  # it is there, with other limits
        await streams.update_stream(stream)
    consumer = ConsumerConfig(
        durable_name=CONSUMER,
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=ACKNOWLEDGED_WITHIN,
        max_deliver=-1,
        max_ack_pending=limits.messages * members,
        max_waiting=_WAITING,
    )
    await streams.add_consumer(mailbox(owner), consumer)


async def _names(streams: JetStreamContext) -> list[str]:
    return [info.config.name or "" for info in await _infos(streams)]


async def _infos(streams: JetStreamContext) -> list[Any]:
    found: list[Any] = []
    while page := await streams.streams_info(offset=len(found)):
        found += page
    return found


async def _found(client: Any, streams: JetStreamContext, owners: dict[str, str], removed: tuple[str, ...]) -> Found:
    held = {info.config.name: info.state.messages for info in await _infos(streams)}
    version = client.connected_server_version
    return Found(
        version=f"{version.major}.{version.minor}.{version.patch}",
        fit=(version.major, version.minor) >= LOWEST_VERSION,
        waiting={name: held.get(mailbox(owner)) for name, owner in owners.items()},
        removed=removed,
    )
