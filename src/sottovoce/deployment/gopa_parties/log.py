"""The log of a run: rounds one after the other, each opened by the board, each bound to everything that was said before.

    opening    label (24) | digest of the agreement (32) | round (8) | time (8) | head before it (32) | the board's signature (64)

An opening ends the round before it: if that is complete its sum counts, and if not it changes nothing. The opening after the last round ends the run.
All of it goes into the terms of the round, and with them into every key: two readers that were told different things cannot even share a mask. The
time is the board's, for people who read the log; no rule counts on it.
"""

import hashlib
import struct
from dataclasses import dataclass

from sottovoce.deployment.gopa import Message, Phase, Total, Transcript, total
from sottovoce.deployment.gopa.refusals import Equivocation, Malformed
from sottovoce.deployment.gopa_parties.plan import Opened, Plan
from sottovoce.deployment.identity import Identity, verify
from sottovoce.errors import ProtocolError

PURPOSE = "gopa-opening"
_LABEL = b"sottovoce/gopa-parties/1"
_HEADER = struct.Struct("<24s32sQQ32s")
_SIGNATURE = 64
_START = b"sottovoce/gopa-parties/1/start\n"


class Opening(Opened):
    """The board's word that a round begins."""

    def __init__(self, raw: bytes, plan: Plan) -> None:
        """Read an opening.

        Raises:
            Malformed: other bytes than an opening has, or of another agreement.
            Forged: not the board's signature.
        """
        if len(raw) != _HEADER.size + _SIGNATURE or not is_opening(raw):
            raise Malformed(f"an opening has {_HEADER.size + _SIGNATURE} bytes and its label; these {len(raw)} do not.")
        _, digest, round_, time, self.reference = _HEADER.unpack_from(raw)
        if digest != plan.digest:
            raise Malformed("the opening is of another agreement. Compare digests with whoever runs the board.")
        verify(plan.board, PURPOSE, raw[: _HEADER.size], raw[_HEADER.size :])
        super().__init__(raw, round_, time)


def is_opening(raw: bytes) -> bool:
    """Whether an entry of the log opens a round."""
    return raw[: len(_LABEL)] == _LABEL


def signed_opening(identity: Identity, plan: Plan, round_: int, time: int, reference: bytes) -> bytes:
    """The board's word that a round begins.

    Args:
        identity: the board's.
        plan: of the run.
        round_: from 1; one more than there are ends the run.
        time: by the board's clock, in milliseconds since 1970.
        reference: the head of the log.
    """
    body = _HEADER.pack(_LABEL, plan.digest, round_, time, reference)
    return body + identity.sign(PURPOSE, body)


@dataclass(frozen=True, slots=True, eq=False)
class Ended:
    """A round that is over.

    Attributes:
        round_: its number.
        sum: what it gave; None where it changes nothing.
        transcript: all that was said in it.
    """

    round_: int
    sum: Total | None
    transcript: Transcript

    def __repr__(self) -> str:
        return f"<Ended: round {self.round_}, {'no sum' if self.sum is None else f'a sum of {len(self.sum.parties)}'}>"


class Log:
    """What one reader knows of a run.

    Attributes:
        length: entries read.
        round_: the round that is open; 0 before the first, one more than there are after the last.
        opening: of that round.
        transcript: of that round; None before the first and after the last.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan, self.length, self.round_ = plan, 0, 0
        self.opening: Opening | None = None
        self.transcript: Transcript | None = None
        self._head = hashlib.sha256(_START + plan.digest).digest()

    @classmethod
    def resume(cls, plan: Plan, opening: bytes, length: int) -> "Log":
        """Begin in front of an opening that one's own store has kept, after so many entries."""
        log = cls(plan)
        kept = Opening(opening, plan)
        log.length, log.round_, log._head = length, kept.round_ - 1, kept.reference
        return log

    @property
    def head(self) -> bytes:
        """The head of the hash chain."""
        return self._head if self.transcript is None else self.transcript.head

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return self.round_ > self.plan.run.rounds

    def open(self, raw: bytes) -> Ended | None:
        """Read an opening; returns the round that it ends.

        Raises:
            Equivocation: it does not follow what this reader has read.
            ProtocolError: it is none.
        """
        opening = Opening(raw, self.plan)
        if opening.round_ != self.round_ + 1 or self.over or opening.reference != self.head:
            raise Equivocation(
                f"The board opens round {opening.round_} after another history than this party has read up to round {self.round_}. It shows different "
                "logs, or this one was set back; compare logs with other parties."
            )
        ended = None if self.transcript is None else Ended(self.round_, _sum(self.transcript), self.transcript)
        self._head, self.round_, self.opening = self.head, opening.round_, opening
        self.transcript = None if self.over else Transcript(self.plan.terms(opening))
        self.length += 1
        return ended

    def append(self, raw: bytes) -> Message:
        """Read a message of the round.

        Raises:
            ProtocolError: the rules forbid it here.
        """
        if self.transcript is None:
            raise ProtocolError(f"a message came while no round is open, after {self.length} entries of the log.")
        message = self.transcript.append(raw)
        self.length += 1
        return message


def _sum(transcript: Transcript) -> Total | None:
    return total(transcript) if transcript.phase is Phase.COMPLETE else None
