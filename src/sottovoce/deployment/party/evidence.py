"""Evidence against a party that said two things where it had agreed to say one: two of its signatures, which anybody can check.

    evidence-SENDER-POSITION.json    format, agreement, run, sender, identity_key, position, statements [{digest, signature}, ..]

Nothing in it is secret: digests say nothing about words without their salts.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sottovoce.deployment.identity.refusals import Forged
from sottovoce.deployment.party.statements import DIGEST, SIGNATURE, Statement, check_signature
from sottovoce.durable_files import write
from sottovoce.errors import CheatingProven, ConfigError
from sottovoce.wording import brief

FORMAT = "sottovoce evidence 1"
_LARGEST = 2**14  # bytes of a file
_FIELDS = {"format", "agreement", "run", "sender", "identity_key", "position", "statements"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Two statements of one sender for one exchange.

    Attributes:
        agreement: digest of what the parties have agreed to.
        run: its name.
        sender: the name of the party that signed both.
        identity_key: its public key.
        position: of the exchange.
        statements: both.
    """

    agreement: bytes
    run: str
    sender: str
    identity_key: bytes
    position: int
    statements: tuple[Statement, Statement]

    @property
    def file_name(self) -> str:
        """Under which it is kept."""
        return f"evidence-{self.sender}-{self.position}.json"

    def to_bytes(self) -> bytes:
        """The file."""
        value = {
            "format": FORMAT,
            "agreement": self.agreement.hex(),
            "run": self.run,
            "sender": self.sender,
            "identity_key": self.identity_key.hex(),
            "position": self.position,
            "statements": [
                {"digest": each.digest.hex(), "signature": each.signature.hex()} for each in self.statements
            ],
        }
        return (json.dumps(value, indent=2) + "\n").encode()

    def check(self) -> None:
        """Refuse what proves nothing.

        Raises:
            Forged: the sender did not sign both, or they say the same.
        """
        first, second = self.statements
        if first.digest == second.digest:
            raise Forged(f"The two statements of {brief(self.sender)} say the same; they prove nothing against it.")
        for each in self.statements:
            check_signature(self.identity_key, self.agreement, self.sender, each._replace(position=self.position))


class Caught(CheatingProven):
    """A party was found to have said two things; `evidence` proves it."""

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(
            f"{brief(evidence.sender)} has signed two different messages for exchange {evidence.position} of the run {brief(evidence.run)!r}, where "
            f"it had agreed to send one to all. The run stops here. Models since exchange {evidence.position} are affected, and should not be used; "
            f"what the run has cost stays spent. Both signatures are in {evidence.file_name}: anybody can check them with `sottovoce roster evidence`."
        )
        self.evidence = evidence


def parse_evidence(content: bytes) -> Evidence:
    """Read a file of evidence; whether it proves anything, `check` says.

    Raises:
        ConfigError: it is no such file.
    """
    try:
        value: dict[str, Any] = json.loads(content[:_LARGEST])
        if set(value) != _FIELDS or value["format"] != FORMAT:
            raise ValueError("other fields, or another format")
        position, sender, run = value["position"], value["sender"], value["run"]
        if type(position) is not int or not 0 <= position < 2**63 or not (type(sender) is type(run) is str):
            raise ValueError("a position or a name that is none")
        first, second = (_statement(each, position) for each in value["statements"])
        return Evidence(
            agreement=_bytes(value["agreement"], DIGEST), run=run, sender=sender, identity_key=_bytes(value["identity_key"], DIGEST),
            position=position, statements=(first, second),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(
            f"this is no evidence ({brief(str(error))}). Give the file evidence-NAME-POSITION.json that a party wrote when it stopped."
        ) from error


def keep_evidence(evidence: Evidence, folder: Path) -> Path:
    """Write the file durably."""
    path = folder / evidence.file_name
    write(path, evidence.to_bytes())
    return path


def kept_evidence(folder: Path, agreement: bytes) -> Evidence | None:
    """What a party found in this run before; None where it found nothing."""
    for path in sorted(folder.glob("evidence-*.json")):
        evidence = parse_evidence(path.read_bytes())
        if evidence.agreement == agreement:
            evidence.check()
            return evidence
    return None


def contradicting(known: Statement, other: Statement) -> bool:
    """Whether two statements cannot both be an honest party's."""
    return known[:2] == other[:2] and known.digest != other.digest


def evidence_of(pair: Sequence[Statement], *, agreement: bytes, run: str, sender: str, identity_key: bytes) -> Evidence:
    """Two statements as evidence, in an order of their own, so that all who find them write the same file.

    Raises:
        Forged: they prove nothing.
    """
    first, second = sorted(pair, key=lambda each: each.digest)
    if not contradicting(first, second):
        raise Forged("Two statements that do not contradict each other are no evidence; they are ignored.")
    found = Evidence(
        agreement=agreement, run=run, sender=sender, identity_key=identity_key, position=first.position, statements=(first, second)
    )  # fmt: skip
    found.check()
    return found


def _statement(value: Any, position: int) -> Statement:
    if set(value) != {"digest", "signature"}:
        raise ValueError("a statement has a digest and a signature")
    return Statement(0, position, _bytes(value["digest"], DIGEST), _bytes(value["signature"], SIGNATURE))


def _bytes(text: str, length: int) -> bytes:
    content = bytes.fromhex(text)
    if len(content) != length or content.hex() != text:
        raise ValueError(f"{length} bytes were expected")
    return content
