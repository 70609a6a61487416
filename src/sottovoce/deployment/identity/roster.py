"""The roster: everybody who takes part, each entry signed by its owner.

Who the members are (names, roles, identity keys) makes the digest that parties of a run compare; where they listen and with which certificate
does not, so that one may move or renew its certificate and only those who connect to it need its new entry. Everybody has to hold the file
of its own accord: nobody sends it during a run.

A roster file is JSON: {"format": "sottovoce roster", "version": 1, "entries": [...]}.
"""

import datetime as dt
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sottovoce import durable_files
from sottovoce.deployment.identity.entry import Entry, entry_from_json
from sottovoce.deployment.identity.fingerprint import fingerprint
from sottovoce.deployment.identity.refusals import UnknownParty
from sottovoce.errors import ConfigError

ROSTER_FORMAT, ENTRY_FORMAT, VERSION = "sottovoce roster", "sottovoce roster entry", 1
_LARGEST_FILE = 32 * 2**20


@dataclass(frozen=True, slots=True)
class Roster:
    """The members, sorted by name. `Roster.of` checks them; `load_roster` reads a file and checks it."""

    entries: tuple[Entry, ...]

    @classmethod
    def of(cls, entries: Sequence[Entry], *, expired: bool = False, now: dt.datetime | None = None) -> "Roster":
        """A roster of entries that are all signed and valid, and differ in name, key, address and certificate.

        Args:
            entries: in any order.
            expired: whether certificates may have expired: to look at a roster, never to run with it.
            now: the time at which they have to be valid; left out: now.

        Raises:
            ConfigError: an entry is of no use, or two have something in common that only one may have.
            Forged: an entry is not signed by its owner.
        """
        for entry in entries:
            entry.check()
            if not expired:
                entry.check_valid(now)
        _refuse_duplicates(entries)
        return cls(tuple(sorted(entries, key=lambda entry: entry.name)))

    def __repr__(self) -> str:
        return f"Roster({', '.join(self.names)}; {self.fingerprint})"

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __getitem__(self, name: str) -> Entry:
        """The entry of a name.

        Raises:
            UnknownParty: nobody has it.
        """
        for entry in self.entries:
            if entry.name == name:
                return entry
        raise UnknownParty(
            f"The roster has no {name!r}; it lists {', '.join(self.names) or 'nobody'}. Add its entry: sottovoce roster add."
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all members, sorted."""
        return tuple(entry.name for entry in self.entries)

    def canonical(self) -> bytes:
        """Who the members are, as bytes that are the same for everybody: names, roles and identity keys."""
        members = [
            {"identity_key": each.identity_key.hex(), "name": each.name, "role": each.role} for each in self.entries
        ]
        return json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")

    @property
    def digest(self) -> bytes:
        """32 bytes that stand for the members."""
        return hashlib.sha256(b"sottovoce/roster/1\0" + self.canonical()).digest()

    @property
    def fingerprint(self) -> str:
        """One number to compare by voice, for all members together."""
        return fingerprint("roster", self.digest)

    def fingerprints(self) -> dict[str, str]:
        """Name -> the number of its key, to compare by voice."""
        return {entry.name: entry.fingerprint for entry in self.entries}

    def added(self, entry: Entry) -> "Roster":
        """The roster with one more member.

        Raises:
            ConfigError: somebody has the name, key, address or certificate already.
        """
        entry.check_valid()
        if entry.name in self:
            raise ConfigError(
                f"{entry.name} is in the roster already. For its newer address or certificate use sottovoce roster renew; for another key ask "
                f"{entry.name} by voice, then use sottovoce roster remove and sottovoce roster add."
            )
        return Roster.of([*self.entries, entry], expired=True)

    def removed(self, name: str) -> "Roster":
        """The roster without one member.

        Raises:
            UnknownParty: it lists nobody of that name.
        """
        gone = self[name]
        return Roster(tuple(entry for entry in self.entries if entry is not gone))

    def replaced(self, entry: Entry) -> "Roster":
        """The roster with a newer entry of a member: another address or certificate, the same name, role and identity key.

        Raises:
            ConfigError: it is another key or role: then it is another member, to be removed and added after comparing fingerprints.
        """
        old = self[entry.name]
        if (entry.identity_key, entry.role) != (old.identity_key, old.role):
            raise ConfigError(
                f"The new entry of {entry.name} has another {'role' if entry.role != old.role else 'identity key'}; only address and certificate may "
                f"be renewed. Ask {entry.name} by voice; if it has lost its key, use roster remove and roster add."
            )
        entry.check_valid()
        return Roster.of([*self.removed(entry.name), entry], expired=True)

    def as_json(self) -> dict[str, Any]:
        """What the file holds."""
        return {"format": ROSTER_FORMAT, "version": VERSION, "entries": [entry.as_json() for entry in self.entries]}

    def save(self, path: Path) -> None:
        """Write the file: whole, or not at all."""
        durable_files.write_json(path, self.as_json())


def load_roster(path: Path, *, expired: bool = False) -> Roster:
    """Read a roster and check everything in it.

    Args:
        path: of the file.
        expired: whether certificates may have expired: to look at a roster, never to run with it.

    Raises:
        ConfigError: it cannot be read, or an entry is of no use.
        Forged: an entry is not signed by its owner.
    """
    value = read_json(path, ROSTER_FORMAT)
    if sorted(value) != ["entries", "format", "version"] or not isinstance(value["entries"], list):
        raise ConfigError(
            f"{path} has to hold a list of entries and nothing else. `sottovoce roster add` writes such a file."
        )
    entries = [entry_from_json(each, f"{path}: entry {number}") for number, each in enumerate(value["entries"], 1)]
    return Roster.of(entries, expired=expired)


def load_entry(path: Path) -> Entry:
    """Read the file of one entry, as its owner sent it, and check it.

    Raises:
        ConfigError: it cannot be read, or is of no use.
        Forged: it is not signed by its owner.
    """
    value = read_json(path, ENTRY_FORMAT)
    if sorted(value) != ["entry", "format", "version"]:
        raise ConfigError(f"{path} has to hold one entry and nothing else. `sottovoce keys new` writes such a file.")
    entry = entry_from_json(value["entry"], str(path))
    entry.check()
    entry.check_valid()
    return entry


def entry_file(entry: Entry) -> dict[str, Any]:
    """What the file of one entry holds."""
    return {"format": ENTRY_FORMAT, "version": VERSION, "entry": entry.as_json()}


def read_json(path: Path, wanted: str) -> dict[str, Any]:
    """A JSON object of one of our formats, in a version that is known.

    Raises:
        ConfigError: it cannot be read, or is something else.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read ({error.strerror}); a {wanted} is needed. Name the file that holds it."
        ) from error
    try:
        value = json.loads(content, object_pairs_hook=_without_repetition) if len(content) <= _LARGEST_FILE else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or value.get("format") != wanted:
        raise ConfigError(
            f'{path} is no {wanted}: it needs a JSON object with "format": "{wanted}". Name the file that holds it.'
        )
    if value.get("version") != VERSION:
        raise ConfigError(
            f"{path} has version {value.get('version')!r} of the format; this Sottovoce reads {VERSION}. Install the release that wrote it, or a later one."
        )
    return value


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key stands twice")
    return value


def _refuse_duplicates(entries: Sequence[Entry]) -> None:
    # Names that differ in case alone are one file on some disks, and one word on the telephone.
    _refuse_repetition("name", [(entry.name.lower(), entry.name) for entry in entries])
    _refuse_repetition("identity key", [(entry.identity_key.hex(), entry.name) for entry in entries])
    _refuse_repetition("address", [(entry.address.lower(), entry.name) for entry in entries])
    _refuse_repetition("certificate", [(entry.certificate.hex(), entry.name) for entry in entries])


def _refuse_repetition(what: str, values: list[tuple[str, str]]) -> None:
    first: dict[str, str] = {}
    for value, name in values:
        if value in first:
            raise ConfigError(
                f"The roster lists {first[value]} and {name} with the same {what}; every member has its own. Remove one of them, or ask its owner for a "
                "new entry."
            )
        first[value] = name
