"""Names at the relay, and what each member may do there.

    sv.TO.FROM      the subject of a message; TO and FROM are the beginnings of identity keys, which say nothing to who has no roster
    SV_TO           the mailbox of a member: a stream of all subjects sv.TO.*
    box             its one consumer, from which the member asks for its messages
    sv-inbox.TO.>   where answers to a member come

A member may publish to sv.*.OWN, ask for the next messages of its own consumer, acknowledge them, and hear its own answers: nothing else. It
makes no streams and no consumers, since with those it could copy the mail of others or have mail delivered to them. The server's answers to a member go
wherever it asks, with the server's rights: by them it can empty or remove mailboxes, and read none (docs/relay.md).
"""

from typing import Any

CONSUMER = "box"
OPERATOR_INBOX = "sv-inbox.operator"
_TOKEN = 20  # bytes of an identity key, as in the name of a certificate


def token(identity_key: bytes) -> str:
    """How a member is called at the relay."""
    return identity_key[:_TOKEN].hex()


def subject(to: str, sender: str) -> str:
    """The subject of a message between two tokens."""
    return f"sv.{to}.{sender}"


def mailbox(owner: str) -> str:
    """The stream of a token."""
    return f"SV_{owner}"


def next_messages(owner: str) -> str:
    """Where the owner of a mailbox asks for messages."""
    return f"$JS.API.CONSUMER.MSG.NEXT.{mailbox(owner)}.{CONSUMER}"


def inbox(owner: str) -> str:
    """What stands before all subjects on which answers come."""
    return f"sv-inbox.{owner}"


def may_do(owner: str) -> dict[str, Any]:
    """The permissions of a member."""
    publish = [subject("*", owner), next_messages(owner), f"$JS.ACK.{mailbox(owner)}.{CONSUMER}.>"]
    return {"publish": {"allow": publish}, "subscribe": {"allow": [f"{inbox(owner)}.>"]}}


def operator_may_do() -> dict[str, Any]:
    """The permissions of the operator: streams and consumers, and no mail in anybody's name."""
    return {"publish": {"allow": ["$JS.API.>"]}, "subscribe": {"allow": [f"{OPERATOR_INBOX}.>"]}}
