"""Going on without somebody who is lost: what those who remain sign, and when it holds for all of them.

    doubt     "of my neighbours I do not hear these"                                 binds nobody, and is taken back by a later one (`doubts`)
    vote      "without these; the last exchange that I have committed is p"         signed before it is sent, and written down before it is signed away
    cut       c, the largest p among all who remain, once every one of them has voted to go on without the same
    finished  "I have committed the last exchange, and have my model": a vote for whatever others decide, of who may have left when they do
    consent   "I have taken exchange c without them, and go on under the agreement with this digest"
    certain   all who remain have consented to the same digest: from the next exchange on it holds

Who has voted commits no exchange beyond the cut under the old agreement, and before the cut is known none at all: so no exchange is played twice. Votes only grow: who
hears of somebody else who is lost votes anew, without both. Who is heard of by itself is not voted against. Consent binds: who has consented votes anew only if
somebody who did not consent has voted for more, for then the consent of all can never come about. An honest party thus plays every exchange at
most once, whatever others sign; that all of them end under one agreement needs that they follow these rules.
A second loss between the last vote and the last consent can leave the others waiting for a consent that never comes: they stop at the time limit.

Statements travel in the open, like greetings: names of parties, positions, digests and signatures. Everybody hands on what it knows, over the links that
are left. They are the certificate of what came after: whoever still knows only the old agreement, the lost party among them, is shown them.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

from sottovoce.deployment.identity import Identity, Roster, verify
from sottovoce.deployment.identity.packing import framed, unframed
from sottovoce.deployment.identity.refusals import Malformed
from sottovoce.deployment.party.doubts import neighbours_in, out_of_reach
from sottovoce.deployment.terms import Agreement
from sottovoce.deployment.terms.agreement_faults import MOST_MEMBERS
from sottovoce.errors import ProtocolError

LETTER = b"X"
PURPOSE = "exclusion"
_BYTES = MOST_MEMBERS // 8


class Excluded(ProtocolError):
    """The others go on without this party, and have all signed it."""


class SecondSelf(ProtocolError):
    """A statement that this party has signed and does not know: a second process has its keys, or its store was set back."""


class Statement(NamedTuple):
    """What one party has signed."""

    kind: Literal["doubt", "vote", "finished", "consent"]
    digest: bytes  # of the agreement that is left
    party: str
    lost: frozenset[str]
    position: int  # of a consent the cut, of a doubt its number, else what was committed last
    successor: bytes  # digest of the agreement that follows, in a consent


class Exclusion:
    """Votes and consents of all parties of one agreement, as far as this party knows them."""

    def __init__(
        self,
        agreement: Agreement,
        identity: Identity,
        roster: Roster,
        *,
        kept: Iterable[bytes],
        keep: Callable[[Sequence[bytes]], None],
    ) -> None:
        """Begin with what was written down before.

        Args:
            agreement: whose members may be lost.
            identity: who this party is.
            roster: by whose keys statements are checked.
            kept: statements that an earlier start wrote down.
            keep: writes statements down, durably; called before anything of its own is sent.

        Raises:
            Excluded: what was written down says that all others go on without this party.
        """
        self._agreement, self._identity, self._roster, self._keep = agreement, identity, roster, keep
        self._members = tuple(member.name for member in agreement.members)
        self._agents = frozenset(agreement.agents)
        self._end = agreement.rounds * len(agreement.learning.networks)
        self._neighbours = neighbours_in(agreement)
        self._doubts: dict[str, tuple[Statement, bytes]] = {}
        self._votes: dict[str, tuple[Statement, bytes]] = {}
        self._finished: dict[str, tuple[Statement, bytes]] = {}
        self._consents: dict[str, tuple[Statement, bytes]] = {}
        for blob in kept:
            self._note(self.read(blob), blob)
        self._notice_own_exclusion()

    def __repr__(self) -> str:
        return f"<Exclusion of {', '.join(sorted(self.lost)) or 'nobody'}>"

    @property
    def lost(self) -> frozenset[str]:
        """Without whom this party has voted to go on; empty: it has not voted."""
        mine = self._votes.get(self._identity.name)
        return frozenset() if mine is None else mine[0].lost

    @property
    def voted_at(self) -> int:
        """What this party had committed when it voted last."""
        return self._votes[self._identity.name][0].position

    @property
    def remaining(self) -> tuple[str, ...]:
        """Who would go on."""
        return tuple(name for name in self._members if name not in self.lost)

    @property
    def cut(self) -> int | None:
        """The last exchange under the old agreement; None as long as somebody who remains has not voted for the same."""
        if not self.lost or any(not self._voted(name) for name in self.remaining):
            return None
        return max(self._last_exchange(name) for name in self.remaining)

    @property
    def consented(self) -> bool:
        """Whether this party has consented to what it voted for last."""
        mine = self._consents.get(self._identity.name)
        return mine is not None and mine[0].lost == self.lost

    @property
    def certain(self) -> bool:
        """Whether all who remain have consented to the same."""
        mine = self._consents.get(self._identity.name)
        return self.consented and mine is not None and all(self._agrees(name, mine[0]) for name in self.remaining)

    def allows(self, position: int) -> bool:
        """Whether an exchange may be committed under the old agreement."""
        return not self.lost or (self.cut is not None and position <= self.cut)

    def missing(self) -> list[str]:
        """Of those who would go on, whose statement is missing."""
        if not self.lost:
            return []
        if self.cut is None:
            return [name for name in self.remaining if not self._voted(name)]
        mine = self._consents.get(self._identity.name)
        if mine is None or not self.consented:
            return []
        return [name for name in self.remaining if not self._agrees(name, mine[0])]

    def joins(self, alive: Callable[[str], bool]) -> frozenset[str]:
        """Whom others have voted to go on without, and this party should too: none that it hears of itself, and not itself."""
        me = self._identity.name
        wanted = frozenset(
            name
            for voter, (vote, _) in self._votes.items()
            if voter not in self.lost and me not in vote.lost and self._frees(voter, vote)
            for name in vote.lost
        )
        new = wanted - self.lost
        return frozenset() if any(alive(name) for name in new) else new

    def has_finished(self, name: str) -> bool:
        """Whether a party has said that it has its model."""
        return name in self._finished

    def doubt(self, names: frozenset[str], number: int) -> None:
        """Say which neighbours this party does not hear, where that has changed; who has finished may have left.

        Args:
            names: of neighbours.
            number: larger than that of any doubt of an earlier start.
        """
        known, now = self._doubts.get(self._identity.name), (names & self._agents) - self._finished.keys()
        if now != (frozenset() if known is None else known[0].lost):
            number = number if known is None else max(number, known[0].position + 1)
            self._sign(Statement("doubt", self._agreement.digest, self._identity.name, now, number, b""))

    @property
    def out_of_reach(self) -> frozenset[str]:
        """Whom none of their neighbours that are left hears; nobody where this party itself is one of them."""
        doubts = {name: said.lost for name, (said, _) in self._doubts.items()}
        found = out_of_reach(doubts, self._neighbours, self._finished.keys())
        return frozenset() if self._identity.name in found else found

    def vote(self, lost: Iterable[str], committed: int) -> bool:
        """Vote to go on without these too; False where too few would be left, or consent binds.

        Args:
            lost: names.
            committed: position of the last exchange that this party has committed; -1: none.
        """
        all_lost = self.lost | frozenset(lost)
        left = len(self._agents - all_lost)
        if all_lost == self.lost or not all_lost <= self._agents or left < self._agreement.minimum_agents:
            return False
        if self.consented and not self._is_freed():
            return False
        self._sign(Statement("vote", self._agreement.digest, self._identity.name, all_lost, committed, b""))
        return True

    def finish(self, position: int) -> None:
        """Say that this party has committed the last exchange."""
        self._sign(Statement("finished", self._agreement.digest, self._identity.name, frozenset(), position, b""))

    def consent(self, successor: bytes) -> None:
        """Consent to the agreement that follows, once the cut is taken; what this party has signed before stays."""
        cut = self.cut
        assert cut is not None  # the caller has looked
        if not self.consented:
            name = self._identity.name
            self._sign(Statement("consent", self._agreement.digest, name, self.lost, cut, successor))

    def take(self, blob: bytes) -> bool:
        """Take in what another party hands on; False where it is known.

        Raises:
            ProtocolError: it is no genuine statement about this agreement.
            Excluded: all others have consented to go on without this party.
        """
        if blob in self.statements():
            return False
        statement = self.read(blob)
        if statement.party == self._identity.name and statement.kind == "doubt":
            return False  # perhaps of an earlier start
        if statement.party == self._identity.name and self._is_new(statement):
            raise SecondSelf(
                f"a statement that {statement.party} itself has signed and does not know: a second process runs with its keys, or its store was set back. "
                f"Stop one of them."
            )
        if not self._note(statement, blob):
            return False
        if statement.kind != "doubt":
            self._keep(self.signed())
        self._notice_own_exclusion()
        return True

    def statements(self) -> list[bytes]:
        """Everything that is known, to be handed on."""
        return [*self.signed(), *(blob for _, (_, blob) in sorted(self._doubts.items()))]

    def signed(self) -> list[bytes]:
        """What binds: votes, ends and consents."""
        kinds = (self._votes, self._finished, self._consents)
        return [blob for kind in kinds for _, (_, blob) in sorted(kind.items())]

    def read(self, blob: bytes) -> Statement:
        """What bytes say, once their signature is checked.

        Raises:
            ProtocolError: they are no statement of a member about this agreement.
        """
        fields, end = unframed(LETTER, blob)
        if end != len(blob) or not _are_fields(fields):
            raise Malformed("A statement about lost parties has other parts than it should have; it is ignored.")
        kind, digest, party, lost, position, successor, signature = fields
        if digest != self._agreement.digest or party not in self._members:
            raise ProtocolError(
                "A statement about lost parties of another agreement, or of no member of it; it is ignored."
            )
        verify(self._roster[party].identity_key, PURPOSE, framed(LETTER, fields[:-1]), signature)
        names = self._named(lost)
        if party in names or not names <= self._agents:
            raise Malformed(f"{party} names itself, or somebody who is no agent, as lost; it is ignored.")
        if kind != "doubt":
            self._check_binding(kind, party, names, position)
        return Statement(kind, digest, party, names, position, successor)

    def _check_binding(self, kind: str, party: str, names: frozenset[str], position: int) -> None:
        """Refuse what binds, and the agreement does not allow."""
        if bool(names) == (kind == "finished"):
            raise Malformed(f"{party} names nobody as lost, or somebody where it has finished; it is ignored.")
        if len(self._agents - names) < self._agreement.minimum_agents:
            raise Malformed(f"{party} would go on with fewer agents than the agreement needs; it is ignored.")
        least = self._end - 1 if kind == "finished" else 0
        if not least <= position < self._end:
            raise Malformed(f"{party} speaks of exchange {position} of a run with {self._end}; it is ignored.")

    def _sign(self, statement: Statement) -> None:
        fields = [*statement._replace(lost=self._bits(statement.lost))]  # type: ignore[arg-type]
        blob = framed(LETTER, [*fields, self._identity.sign(PURPOSE, framed(LETTER, fields))])
        if self._note(statement, blob) and statement.kind != "doubt":
            self._keep(self.signed())

    def _note(self, statement: Statement, blob: bytes) -> bool:
        """Keep a statement if it goes beyond what its party has said before: a party's votes grow, and it consents once to each."""
        if not self._is_new(statement):
            return False
        self._of(statement)[statement.party] = statement, blob
        return True

    def _is_new(self, statement: Statement) -> bool:
        known = self._of(statement).get(statement.party)
        if statement.kind == "doubt":
            return known is None or known[0].position < statement.position
        return known is None or known[0].lost < statement.lost

    def _of(self, statement: Statement) -> dict[str, tuple[Statement, bytes]]:
        return {"doubt": self._doubts, "vote": self._votes, "finished": self._finished, "consent": self._consents}[
            statement.kind
        ]

    def _voted(self, name: str) -> bool:
        return name in self._finished or self._votes_alike(name)

    def _votes_alike(self, name: str) -> bool:
        vote = self._votes.get(name)
        return vote is not None and vote[0].lost == self.lost

    def _last_exchange(self, name: str) -> int:
        """What a party had committed by its vote; of who has finished without one, the last: who says so after its vote cannot move a cut that is known."""
        said = self._votes if self._votes_alike(name) else self._finished
        return said[name][0].position

    def _agrees(self, name: str, mine: Statement) -> bool:
        theirs = self._consents.get(name)
        return theirs is not None and theirs[0][3:] == mine[3:]

    def _frees(self, voter: str, vote: Statement) -> bool:
        """Whether a vote for more may be joined: always before one's own consent, later only if its voter never consented to the same."""
        if not self.consented:
            return True
        theirs = self._consents.get(voter)
        return self.lost < vote.lost and (theirs is None or theirs[0].lost != self.lost)

    def _is_freed(self) -> bool:
        return any(self.lost < vote.lost and self._frees(name, vote) for name, (vote, _) in self._votes.items())

    def _notice_own_exclusion(self) -> None:
        me = self._identity.name
        for consent, _ in self._consents.values():
            others = [name for name in self._members if name not in consent.lost]
            if me in consent.lost and all(self._agrees(name, consent) for name in others):
                raise Excluded(
                    f"{', '.join(others)} have gone on without {', '.join(sorted(consent.lost))} after exchange {consent.position} and have all signed it. "
                    f"{me} comes back in a new run only; what it has sent stays in its ledger. End this one with `sottovoce ledger erase`."
                )

    def _bits(self, names: frozenset[str]) -> bytes:
        number = sum(1 << self._members.index(name) for name in names)
        return number.to_bytes(_BYTES, "little")

    def _named(self, bits: bytes) -> frozenset[str]:
        number = int.from_bytes(bits, "little")
        if number >> len(self._members):
            raise Malformed("A statement about lost parties names more members than there are; it is ignored.")
        return frozenset(name for place, name in enumerate(self._members) if number >> place & 1)


def bundle(statements: Sequence[bytes]) -> bytes:
    """Statements as they travel together: X | length, 2 bytes | statement | length | statement .."""
    return LETTER + b"".join(len(each).to_bytes(2, "big") + each for each in statements)


def unbundled(blob: bytes) -> list[bytes]:
    """The statements of a bundle, unchecked.

    Raises:
        Malformed: more than all members can have signed, or one that ends within another.
    """
    found: list[bytes] = []
    at = 1
    while at < len(blob) and len(found) <= 4 * MOST_MEMBERS:
        size = int.from_bytes(blob[at : at + 2], "big")
        found.append(blob[at + 2 : at + 2 + size])
        at += 2 + size
    if at != len(blob) or not blob.startswith(LETTER):
        raise Malformed("Statements about lost parties do not end where they should; they are ignored.")
    return found


def about(statement: bytes) -> bytes:
    """The digest of the agreement that a statement is about, unchecked; empty where it is none."""
    try:
        fields, _ = unframed(LETTER, statement)
    except Malformed:
        return b""
    return fields[1] if len(fields) == 7 and isinstance(fields[1], bytes) else b""


def is_about(blob: bytes, digest: bytes) -> bool:
    """Whether a bundle speaks of an agreement, unchecked."""
    try:
        return any(about(statement) == digest for statement in unbundled(blob)) if blob else False
    except Malformed:
        return False


def _are_fields(fields: list[Any]) -> bool:
    types = (str, bytes, str, bytes, int, bytes, bytes)
    if len(fields) != len(types) or any(type(field) is not each for field, each in zip(fields, types, strict=True)):
        return False
    kind, _, _, lost, _, successor, _ = fields
    sizes = {"doubt": 0, "vote": 0, "finished": 0, "consent": 32}
    return kind in sizes and len(successor) == sizes[kind] and len(lost) == _BYTES
