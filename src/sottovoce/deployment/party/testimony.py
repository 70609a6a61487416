"""What a party knows of who said what, and how two versions of one broadcast are found.

Every party keeps one statement (`statements`) for each sender and position of a window, checks those that come with words, and passes on whatever
is new to it (`passing`). What others pass on is believed until it contradicts something: then signatures decide, a genuine one displaces one that
is not, and two genuine ones end the run (`evidence`).

**Found in time.** Let a and b be given different words in exchange p, with a path a = v_0, .., v_k = b of honest parties between them. In every
exchange each v_i passes on what it holds to both sides, so after j exchanges v_0..v_j hold a's statement and v_(k-j)..v_k hold b's, unless one of them
has found both: after k/2 exchanges, rounded up, one has. If the sender itself passes on what it hears, k is at most the diameter; else it is a distance in
the network without the sender. After the last exchange receipts carry statements, and nobody leaves before its neighbours have counted all that
it passes on (or have been silent for as long as a party waits for receipts): of two neighbours that hold different statements one tells the other.

**Not found** is what nobody else can see: a sender that stands between all its receivers and keeps back what they pass on, such as the relay of a
federation or the middle of a path.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from sottovoce.deployment.identity import Session
from sottovoce.deployment.identity.refusals import Forged, Malformed
from sottovoce.deployment.party.evidence import Caught, evidence_of
from sottovoce.deployment.party.passing import Bundle, Passing
from sottovoce.deployment.party.statements import (
    NO_CLAIM,
    PURPOSE,
    Claim,
    Statement,
    check_signature,
    digest_of,
    packed,
    signed_bytes,
    unpacked,
)
from sottovoce.deployment.party.work import Work
from sottovoce.errors import ProtocolError

SLACK = 4  # positions that neighbours may be apart, beside those that a statement needs from one end of the network to the other
MOST_REFUSED = 8  # bad statements of one message; the rest of them is not looked at


@dataclass(slots=True)
class _Known:
    """A statement, and who has it."""

    statement: Statement
    genuine: bool  # its signature was checked here
    holders: set[str]


class Testimony:
    """The statements of one party in one run.

    Attributes:
        passing: what goes on to whom.
    """

    def __init__(self, session: Session, work: Work, kept: bytes = b"") -> None:
        """Begin, or go on with what was kept.

        Args:
            session: signs, and knows the others' keys.
            work: says who says the same to several others, and when.
            kept: what `keep` returned with the last exchange that was written down.
        """
        self._session, self._work = session, work
        self._numbers = {name: number for number, name in enumerate(work.names)}
        self._window = len(work.names) + SLACK
        self._position = 0
        self._claims: dict[int, tuple[bytes, Claim]] = {}
        self._known = {each[:2]: _Known(each, False, set()) for each in unpacked(kept)}
        self._last: frozenset[tuple[int, int]] | None = None
        self.passing = Passing()

    def number_of(self, name: str) -> int:
        """The number of a party in the agreement."""
        return self._numbers[name]

    def begin(self, name: str) -> None:
        """A neighbour has started: it is told everything again."""
        for known in self._known.values():
            known.holders.discard(name)
        self.passing.begin(name, [known.statement for known in self._known.values()])

    def claim(self, position: int, words: bytes) -> Claim:
        """What goes along with own words.

        Raises:
            Caught: this party has signed other words for the position, in a start that its store has forgotten.
        """
        me = self._numbers[self._session.party]
        if not self._work.is_broadcast(me, position):
            return NO_CLAIM
        made = self._claims.get(position)
        if made is None or made[0] != words:
            salt = self._session.secret(b"statement salt %d" % position)
            digest = digest_of(salt, words)
            signature = self._session.sign(
                PURPOSE, signed_bytes(self._session.agreement, self._session.party, position, digest)
            )
            # Receivers pass it on; this party tells it to nobody but with its words.
            self._take(Statement(me, position, digest, signature), self._session.party)
            made = words, Claim(salt, signature)
            self._claims = {at: each for at, each in self._claims.items() if at >= position - 2} | {position: made}
        return made[1]

    def check(self, sender: str, position: int, words: bytes, claim: Claim) -> None:
        """Refuse words of a broadcast that come without their sender's statement.

        Raises:
            Forged: there is none, or it is of other words.
            Caught: the sender has signed other words too.
        """
        number = self._numbers[sender]
        if self._work.is_broadcast(number, position):
            statement = Statement(number, position, digest_of(claim.salt, words), claim.signature)
            self._check_genuine(statement)
            self._take(statement, sender)

    def take_in(self, peer: str, bundle: Bundle) -> list[ProtocolError]:
        """Take in what a neighbour passes on; returns what was refused of it.

        Raises:
            Caught: somebody has signed two different statements.
        """
        self.passing.take(peer, bundle)
        refused: list[ProtocolError] = []
        for statement in bundle.statements:
            if len(refused) >= MOST_REFUSED:
                break
            try:
                self._hear(statement, peer)
            except (Forged, Malformed) as error:
                refused.append(error)
        return refused

    def accuse(self, content: bytes) -> None:
        """Take two statements that another party shows as evidence.

        Raises:
            Caught: they are.
            Forged, Malformed: they prove nothing.
        """
        pair = unpacked(content)
        if len(pair) != 2 or pair[0].sender >= len(self._numbers):
            raise Malformed(f"{len(content)} bytes that are not two statements of a member; they are ignored.")
        self._catch(pair)

    def keep(self, position: int) -> bytes:
        """Forget what is too old at a position, and return the rest, to be written down."""
        self._position = position
        oldest = position - self._window
        self._known = {key: known for key, known in self._known.items() if key[1] >= oldest}
        self.passing.forget(oldest)
        return packed([known.statement for known in self._known.values()])

    def served(self, name: str) -> bool:
        """Whether a neighbour has all that this party passes on."""
        return all(self._has(name, each) for each in self.passing.left(name))

    def stand(self, names: Iterable[str]) -> tuple[int, int]:
        """How many statements are here, and how many others have to count: neither changes for ever, whatever somebody sends."""
        return len(self._known), sum(not self._has(name, each) for name in names for each in self.passing.left(name))

    def complete(self, names: Iterable[str]) -> bool:
        """Whether at the end of the run something of every broadcast of the last exchanges is here, and all neighbours have what is."""
        if self._last is None:
            first = max(0, self._work.end - self._window)
            self._last = frozenset(
                (number, position)
                for position in range(first, self._work.end)
                for number in self._numbers.values()
                if self._work.is_broadcast(number, position)
            )
        return self._last <= self._known.keys() and all(self.served(name) for name in names)

    def _has(self, name: str, statement: Statement) -> bool:
        known = self._known.get(statement[:2])
        return known is None or (known.statement == statement and name in known.holders)

    def _hear(self, statement: Statement, peer: str) -> None:
        known = self._known.get(statement[:2])
        if known is not None and known.statement == statement:
            known.holders.add(peer)
        elif known is not None:
            if known.genuine and known.statement.digest == statement.digest:
                return  # the same under another signature: the one that was checked stands
            self._check_genuine(statement)
            self._take(statement, peer)
        elif self._position - self._window <= statement.position <= self._position + 2 * self._window:
            self._check_expected(statement, peer)
            self._known[statement[:2]] = _Known(statement, False, {peer})
            self.passing.add(statement, but=(peer,))

    def _take(self, statement: Statement, peer: str) -> None:
        """Keep a statement that is genuine."""
        known = self._known.get(statement[:2])
        if known is not None and known.statement == statement:
            known.genuine = True
            known.holders.add(peer)
            return
        if known is not None and known.statement.digest != statement.digest and self._is_genuine(known):
            self._catch([known.statement, statement])
        self._known[statement[:2]] = _Known(statement, True, {peer})
        if peer != self._session.party:
            # Back to its sender too, who learns by it if somebody else speaks with its key, or if its store was copied.
            self.passing.add(statement, but=(peer,) if peer != self._work.names[statement.sender] else ())

    def _check_expected(self, statement: Statement, peer: str) -> None:
        number, position = statement[:2]
        if number >= len(self._numbers) or position >= self._work.end or not self._work.is_broadcast(number, position):
            raise Malformed(
                f"{peer} passes on a statement about exchange {position} of party {number}, where none is made; it is ignored."
            )

    def _check_genuine(self, statement: Statement) -> None:
        sender = self._work.names[statement.sender]
        check_signature(self._session.key_of(sender), self._session.agreement, sender, statement)

    def _is_genuine(self, known: _Known) -> bool:
        try:
            self._check_genuine(known.statement)
        except Forged:
            return False
        return True

    def _catch(self, pair: list[Statement]) -> None:
        sender = self._work.names[pair[0].sender]
        raise Caught(
            evidence_of(
                pair,
                agreement=self._session.agreement,
                run=self._session.run,
                sender=sender,
                identity_key=self._session.key_of(sender),
            )
        )
