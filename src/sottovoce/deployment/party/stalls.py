"""What a party says while it waits: who is missing, at which exchange, and how many links away. It is for people, and decides nothing.

    stall    (number of the missing party | exchange | hops) up to MOST times, sealed like everything else

Whoever has waited for AFTER seconds tells its neighbours every EVERY seconds. A neighbour that it waits for and that was not heard of lately is
missing, one link away, at the exchange for which it is needed; what a neighbour that IS heard of says of others is taken over with one hop more. So
a party learns whom it really waits for, although it has never heard of them.

Where links are fixed and go both ways, a stall reaches distance h at most h - 1 exchanges after the neighbours of the missing party: who stands at
exchange q has taken the words of exchange q - 1 of each neighbour, so that neighbours are at most one exchange apart. The neighbours of the
missing one stand at its exchange p, for which its words are missing; those at distance h at p + h - 1 at the latest.
"""

import struct
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from sottovoce.deployment.identity.refusals import Malformed

AFTER = 2.0  # seconds of waiting before anybody is told; three times what an exchange usually takes, where that is more
LATEST = 6.0  # seconds, after which everybody is told
EVERY = 2.0
SILENT = 10.0  # seconds after which a neighbour that was not heard of is said to be missing
MOST = 8  # missing parties in one message
_FORGET = 3 * EVERY  # seconds for which the word of a neighbour counts
_MOST_HOPS = 254
_ITEM = struct.Struct("<HQB")
LARGEST = MOST * _ITEM.size  # bytes


class Missing(NamedTuple):
    """A party that others wait for."""

    party: str
    exchange: int  # of the neighbour that noticed
    hops: int  # links between it and who says so


def packed(missing: Iterable[Missing], names: Sequence[str]) -> bytes:
    """What is told, as it travels; parties by their places in the roster."""
    return b"".join(_ITEM.pack(names.index(each.party), each.exchange, each.hops) for each in missing)


def unpacked(content: bytes, names: Sequence[str], sender: str) -> list[Missing]:
    """What a neighbour tells.

    Raises:
        Malformed: too long, or about a party that is not in the roster.
    """
    if len(content) > LARGEST or len(content) % _ITEM.size:
        raise Malformed(
            f"{sender} sent {len(content)} bytes about missing parties; at most {LARGEST}, and a multiple of {_ITEM.size}, are read. It is ignored."
        )
    items = list(_ITEM.iter_unpack(content))
    strange = [number for number, _, _ in items if number >= len(names)]
    if strange or any(not 1 <= hops <= _MOST_HOPS or exchange >= 2**63 for _, exchange, hops in items):
        raise Malformed(
            f"{sender} says that somebody is missing whom the roster of {len(names)} members cannot name; it is ignored."
        )
    return [Missing(names[number], exchange, hops) for number, exchange, hops in items]


class Stalls:
    """What one party knows of who is missing."""

    def __init__(self, names: Sequence[str], party: str) -> None:
        """Begin with nothing.

        Args:
            names: of all members, as the roster has them.
            party: this one.
        """
        self._names, self._party = tuple(names), party
        self._told: dict[str, tuple[float, list[Missing]]] = {}
        self._due = 0.0
        self._usual = 0.0  # seconds between two steps, smoothed
        self._since: float | None = None

    def heard(self, sender: str, content: bytes, now: float) -> None:
        """Keep what a neighbour tells, in place of what it told before.

        Raises:
            Malformed: it is not what a stall looks like.
        """
        self._told[sender] = now, unpacked(content, self._names, sender)

    def missing(self, position: int, awaited: Iterable[str], silent: Collection[str], now: float) -> list[Missing]:
        """Who is missing, as far as one knows here, the nearest first.

        Args:
            position: where this party stands.
            awaited: whom it waits for.
            silent: of whom nothing was heard lately.
            now: by the clock of `heard`.
        """
        found: dict[str, Missing] = {}
        for name in awaited:
            when, told = self._told.get(name, (now, []))
            heard = [each._replace(hops=each.hops + 1) for each in told if now - when <= _FORGET]
            for each in [Missing(name, position, 1)] if name in silent else heard:
                # Nothing goes further than there are members: a rumour that goes round in circles ends.
                if each.party != self._party and each.hops <= min(len(self._names), _MOST_HOPS):
                    found[each.party] = min(found.get(each.party, each), each, key=lambda one: (one.hops, one.exchange))
        return sorted(found.values(), key=lambda each: (each.hops, each.exchange, each.party))[:MOST]

    def due(self, waiting_since: float, now: float) -> bool:
        """Whether neighbours are to be told now; asked again, after a while."""
        if self._since is not None and waiting_since > self._since:
            self._usual += (min(waiting_since - self._since, LATEST) - self._usual) / 4
        self._since = waiting_since
        if now - waiting_since < min(max(AFTER, 3 * self._usual), LATEST) or now < self._due:
            return False
        self._due = now + EVERY
        return True

    def packed(self, missing: Iterable[Missing]) -> bytes:
        """What neighbours are told."""
        return packed(missing, self._names)


def in_words(missing: Missing, position: int) -> str:
    """What people are told of a missing party, by one that stands at an exchange."""
    links = "one link away" if missing.hops == 1 else f"{missing.hops} links away"
    said = f"{missing.party} is missing at exchange {missing.exchange}, {links}"
    if missing.hops == 1:
        return f"{said}."
    rounds = "1 round" if missing.hops == 2 else f"{missing.hops - 1} rounds"
    return (
        f"{said}; this party stands at exchange {position}. Where links are fixed and go both ways it stops at most {rounds} after the "
        f"neighbours of {missing.party}."
    )
