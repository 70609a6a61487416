"""What makes an agreement unusable: members, numbers, lengths and links that cannot be, each said in words."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sottovoce.numbers import is_whole
from sottovoce.wording import brief

if TYPE_CHECKING:
    from sottovoce.deployment.terms.agreement import Agreement, Continuation, Network, RoundLinks

FORMAT = 2
KEY_DIGITS = 64  # of an identity key or a digest, in hexadecimal
MOST_FRACTION_BITS = 52
MOST_MEMBERS = 512  # of an agreement that excludes who is lost: statements name each by one bit


def faults(given: "Agreement") -> Iterator[str]:
    """Everything that is wrong with an agreement."""
    for found in (_wrong_members, _wrong_names, _wrong_numbers, _wrong_lengths, _wrong_networks, _wrong_losses):
        yield from found(given)


def _wrong_members(given: "Agreement") -> Iterator[str]:
    names, keys = [member.name for member in given.members], [member.key for member in given.members]
    if not given.agents:
        yield "nobody is an agent"
    for twice in ("name", names), ("identity key", keys):
        if len(set(twice[1])) != len(twice[1]):
            yield f"two members have one {twice[0]}"
    if [member.role for member in given.members[: len(given.agents)]] != ["agent"] * len(given.agents):
        yield "agents come before the other members"


def _wrong_names(given: "Agreement") -> Iterator[str]:
    names = [member.name for member in given.members]
    if wrong := [name for name in (given.run, *names) if not _is_name(name)]:
        yield f"{brief(wrong[0])!r} is no name; it has 1 to 100 printable characters, and no space at its ends"
    digests = (*(member.key for member in given.members), given.initial_model, *given.noise.maps)
    if any(not _is_digest(each) for each in digests):
        yield f"identity keys and digests have {KEY_DIGITS} digits 0-9 and a-f"
    if isinstance(given.releases, tuple):
        named = set(given.releases)
        if not named or len(named) != len(given.releases) or named - set(names):
            yield "releases names nobody, somebody twice, or somebody who is no member"


def _wrong_numbers(given: "Agreement") -> Iterator[str]:
    protection, agents = given.protection, len(given.agents)
    limits: dict[str, tuple[object, int, int | None]] = {
        "format": (given.format, FORMAT, FORMAT),
        "rounds": (given.rounds, 1, None),
        "dimension": (given.dimension, 1, None),
        "fraction_bits": (given.fraction_bits, 1, MOST_FRACTION_BITS),
        "time_limit": (given.time_limit, 1, None),
        "collude": (1 if given.collude == "all" else given.collude, 1, max(1, agents - 1)),
        "batch_size": (1 if protection.batch_size is None else protection.batch_size, 1, None),
        "records": (min(protection.records, default=1), 1, None),
    }
    for name, (value, least, most) in limits.items():
        if not is_whole(value, least, most):
            yield f"{name} is {value}, and from {least}{'' if most is None else f' to {most}'} it may be"
    positive = {"clip": protection.clip, "sensitivity": min(protection.sensitivity, default=1.0)}
    for name, number in positive.items():
        if not number > 0:
            yield f"{name} is {number:g}, and must be above 0"
    if protection.delta is not None and not 0 < protection.delta < 1:
        yield f"delta is {protection.delta:g}, and lies between 0 and 1"
    if (given.noise.law is None) != (given.noise.scale == 0) or given.noise.scale < 0:
        yield "the law of the noise and its size do not fit"


def _wrong_lengths(given: "Agreement") -> Iterator[str]:
    agents, rounds = len(given.agents), given.rounds
    for name, found, needed in (
        ("sensitivity", len(given.protection.sensitivity), agents),
        ("records", len(given.protection.records) or agents, agents),
        ("fresh", len(given.learning.fresh), rounds),
        ("factors", len(given.noise.factors), rounds),
        *((f"table {position}", len(table), rounds) for position, table in enumerate(given.learning.tables)),
        *(
            (f"the centroid of exchange {n}", len(used.centroid), agents)
            for n, used in enumerate(given.learning.networks)
        ),
    ):
        if found != needed:
            yield f"{name} has {found} entries, and {needed} are needed"


def _wrong_networks(given: "Agreement") -> Iterator[str]:
    agents, masked = len(given.agents), given.learning.parameters.get("aggregation") is not None
    needed = ["board", "beacon"] if masked else ["relay"] if any(used.relay for used in given.learning.networks) else []
    others = [member.role for member in given.members if member.role != "agent"]
    if sorted(others) != sorted(needed):
        yield f"beside the agents {' and '.join(needed) or 'nobody'} is needed, and {' and '.join(others) or 'nobody'} is there"
    if not given.learning.networks:
        yield "a round has no exchange"
    for used in given.learning.networks:
        yield from _wrong_network(used, agents)


def _wrong_losses(given: "Agreement") -> Iterator[str]:
    """What is agreed on for the case that somebody is lost."""
    agents, continues = len(given.agents), given.continues
    if given.lost_neighbour != "exclude":
        if given.minimum_agents or given.exclude_after or continues is not None:
            yield "minimum_agents, exclude_after and a run that goes on belong to lost_neighbour = 'exclude' alone"
        return
    if len(given.members) > MOST_MEMBERS:
        yield f"{len(given.members)} members cannot exclude anybody; at most {MOST_MEMBERS} can"
    if given.learning.parameters.get("aggregation") is not None:
        yield "sums with masks repair silent agents themselves, and nobody is excluded from them"
    if not is_whole(given.exclude_after, 1, given.time_limit):
        yield f"exclude_after is {given.exclude_after}, and from 1 to time_limit ({given.time_limit}) it may be"
    more_than_half = given.began_with // 2 + 1
    if not is_whole(given.minimum_agents, more_than_half, None) or agents < given.minimum_agents:
        yield (
            f"minimum_agents is {given.minimum_agents} for {agents} agents of {given.began_with}; it is more than half of them, at least "
            f"{more_than_half}, and no more than there are"
        )
    if continues is not None:
        yield from _wrong_continuation(given, continues)


def _wrong_continuation(given: "Agreement", continues: "Continuation") -> Iterator[str]:
    exchanges = given.rounds * len(given.learning.networks)
    if not _is_digest(continues.previous) or not is_whole(continues.after, 0, exchanges - 1):
        yield "the run that this one goes on with is named by its digest and one of its exchanges"
    lost = set(continues.excluded)
    if not lost or tuple(sorted(lost)) != continues.excluded or lost & {member.name for member in given.members}:
        yield "who was lost is named once, in order, and is no member any more"
    if not is_whole(continues.began_with, len(given.agents) + 1, None):
        yield "a run that goes on began with more agents"


def _wrong_network(used: "Network", agents: int) -> Iterator[str]:
    if not used.rounds or (used.relay and any(links.senders for links in used.rounds)):
        yield "links are listed exactly where there is no relay"
    if used.schedule != "listed" and len(used.rounds) > 1:
        yield "several rounds are listed under another schedule"
    if not 0 <= used.dropout < 1 or (used.dropout > 0 and used.schedule != "dropout"):
        yield "the probability of drop-outs does not fit"
    for links in used.rounds:
        yield from _wrong_links(links, agents)


def _wrong_links(links: "RoundLinks", agents: int) -> Iterator[str]:
    if not len(links.senders) == len(links.receivers) == len(links.weights) or len(links.own) != agents:
        yield "a round's links, weights and own weights differ in number"
    elif any(not 0 <= end < agents for end in (*links.senders, *links.receivers)):
        yield "a link begins or ends at no agent"


def _is_name(text: str) -> bool:
    return 0 < len(text) <= 100 and text.isprintable() and text == text.strip()


def _is_digest(text: str) -> bool:
    return len(text) == KEY_DIGITS and all(digit in "0123456789abcdef" for digit in text)
