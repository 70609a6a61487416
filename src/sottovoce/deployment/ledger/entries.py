"""What the entries of a ledger say: how it was created, what was reserved, and what was given back because nothing had been sent.

An entry is JSON with sorted keys, in ASCII; the store's chain of hashes covers these very bytes.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sottovoce.deployment.privacy import Cost
from sottovoce.deployment.store import StoreError
from sottovoce.errors import ConfigError
from sottovoce.numbers import checked, chosen, is_number

FORMAT = 1
UNITS = ("record", "person", "agent")
ADJACENCIES = ("replace", "add-remove")
UNLIMITED: Literal["unlimited"] = "unlimited"
Budget = float | Literal["unlimited"]
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """The first entry: for whom and what this ledger counts. None of it ever changes.

    Attributes:
        name: of the data set, given by its owner.
        unit: what is protected.
        adjacency: how two worlds differ.
        delta: of every sum.
        budget: the most epsilon at this delta, or "unlimited".
        at: the time, UTC.
    """

    name: str
    unit: str
    adjacency: str
    delta: float
    budget: Budget
    at: str

    def __post_init__(self) -> None:
        """Refuse what decides privacy and is not said, or cannot be counted."""
        checked_name("the name of the data set", self.name)
        chosen("unit", self.unit, UNITS)
        chosen("adjacency", self.adjacency, ADJACENCIES)
        checked("delta", self.delta, "(0, 1)")
        if self.budget != UNLIMITED and not is_number(self.budget, "(0, inf)"):
            raise ConfigError(f'budget = {self.budget!r}; it must be an epsilon above 0, or the word "unlimited".')


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """What a run may cost at most, written in the transaction that began it.

    Attributes:
        run: its name.
        digest: of its agreement, in hex.
        cost: at most.
        observer: against whom the cost was proven, in words.
        data: digest of the data file under the store's own key, in hex; empty where none was given.
        at: the time, UTC.
    """

    run: str
    digest: str
    cost: Cost
    observer: str
    data: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """A reservation given back: no exchange of its run was ever committed, so nothing was sent.

    Attributes:
        of: number of the entry that reserved it.
        at: the time, UTC.
    """

    of: int
    at: str


LedgerEntry = Created | Reserved | Released
_KINDS: dict[str, type[LedgerEntry]] = {"created": Created, "reserved": Reserved, "released": Released}


def to_body(entry: LedgerEntry) -> bytes:
    """The bytes that the chain covers."""
    kind = next(name for name, each in _KINDS.items() if isinstance(entry, each))
    values: dict[str, Any] = asdict(entry)
    if isinstance(entry, Reserved):
        values["cost"] = entry.cost.describe()
    return json.dumps({"entry": kind, "format": FORMAT, **values}, sort_keys=True, allow_nan=False).encode("ascii")


def from_body(body: bytes) -> LedgerEntry:
    """The entry that these bytes are.

    Raises:
        StoreError: a newer format, or something that no version wrote.
    """
    try:
        values: Mapping[str, Any] = json.loads(body)
        kind, version = values["entry"], values["format"]
        rest = {name: value for name, value in values.items() if name not in ("entry", "format")}
        if version == FORMAT and kind == "reserved":
            rest["cost"] = Cost.parse(rest["cost"])
        if version == FORMAT:
            return _KINDS[kind](**rest)
    except (ValueError, KeyError, TypeError, AttributeError, ConfigError) as error:
        raise StoreError(
            f"an entry of the ledger cannot be read ({error}): it is damaged, or was written by something else. Put back a whole copy."
        ) from error
    raise StoreError(
        f"an entry of the ledger has format {version!r}; this version of Sottovoce knows format {FORMAT}. Install a newer one."
    )


def checked_name(what: str, name: str) -> str:
    """A name that can be shown.

    Raises:
        ConfigError: an empty or overlong one, or one with characters that would do something to a terminal.
    """
    if not name or len(name) > _LONGEST_NAME or not name.isprintable() or name != name.strip():
        raise ConfigError(
            f"{what} is {name[:_LONGEST_NAME]!r}; it must have 1 to {_LONGEST_NAME} printable characters, without blanks at its ends."
        )
    return name
