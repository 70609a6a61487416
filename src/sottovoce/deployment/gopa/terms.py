"""The terms of one round: everything the parties agree on before it, and its digest.

The digest is the first head of the board's log and is bound into every key, so parties with different terms cannot even
start to exchange. No privacy parameter has a default.
"""

import hashlib
import json
from dataclasses import asdict, dataclass

from sottovoce.deployment.gopa.keys import Context
from sottovoce.deployment.integers import KEY_BYTES, FixedPoint, Masks, RoundedGaussian
from sottovoce.errors import ConfigError
from sottovoce.numbers import is_whole
from sottovoce.reprs import short_repr

RUN_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """One round of private summation.

    Attributes:
        run: 16 bytes that name the run; fresh for every run.
        round_number: the round within it; never used twice in a run.
        roster: identity keys of those who may take part; a party's number is its position.
        board: identity key of the board.
        beacon: identity key of the beacon.
        dimension: d, entries of every vector.
        encoding: clip bound and fraction bits.
        own_noise: law of every party's own noise, per entry, in units.
        masks: law of the pairs' masks.
        out_degree: k, picks of every party in the graph.
        minimum_parties: a party neither publishes nor helps to repair when fewer would be in the sum.
        minimum_neighbours: the same for its own neighbours in the sum. More than may be corrupted, since a dishonest
            board can choose who drops out.
        publish_until: last time at which a party publishes, by its own clock; any unit and any beginning, such as what
            the party itself said or read before.
        drops_from: first time at which the board may call a party dropped, and others sign it. Later than publish_until
            by more than clocks differ and messages take.
    """

    run: bytes
    round_number: int
    roster: tuple[bytes, ...]
    board: bytes
    beacon: bytes
    dimension: int
    encoding: FixedPoint
    own_noise: RoundedGaussian
    masks: Masks
    out_degree: int
    minimum_parties: int
    minimum_neighbours: int
    publish_until: int
    drops_from: int

    def __repr__(self) -> str:
        return short_repr(self)

    def __post_init__(self) -> None:
        """Collect everything that is wrong and report it at once."""
        problems = [*self._wrong_names(), *self._wrong_numbers()]
        if problems:
            raise ConfigError("The terms of the round cannot be used: " + "; ".join(problems) + ".")
        self.encoding.check_room(parties=len(self.roster), noise_bound=self.own_noise.bound)

    def _wrong_names(self) -> list[str]:
        problems = []
        if not isinstance(self.run, bytes) or len(self.run) != RUN_BYTES:
            problems.append(f"run must be {RUN_BYTES} bytes, such as secrets.token_bytes({RUN_BYTES})")
        keys = (*self.roster, self.board, self.beacon)
        if any(not isinstance(key, bytes) or len(key) != KEY_BYTES for key in keys):
            problems.append("roster, board and beacon must be identity keys of 32 bytes")
        if len(set(keys)) != len(keys):
            problems.append("one identity key appears twice among roster, board and beacon")
        return problems

    def _wrong_numbers(self) -> list[str]:
        size = len(self.roster)
        limits = {
            "round_number": (self.round_number, 0, 2**64 - 1),
            "dimension": (self.dimension, 1, 2**28),
            "out_degree": (self.out_degree, 1, size - 1),
            "minimum_parties": (self.minimum_parties, 2, size),
            "minimum_neighbours": (self.minimum_neighbours, 1, size - 1),
            "publish_until": (self.publish_until, 0, 2**63 - 1),
            "drops_from": (self.drops_from, 0, 2**63 - 1),
        }
        problems = [
            f"{name} = {value!r} must be an integer from {low} to {high}"
            for name, (value, low, high) in limits.items()
            if not is_whole(value, low, high)
        ]
        if not problems and self.drops_from <= self.publish_until:
            problems.append(f"drops_from = {self.drops_from} must come after publish_until = {self.publish_until}")
        return problems

    @property
    def digest(self) -> bytes:
        """32 bytes that stand for all of the terms."""
        described = asdict(self)
        described["masks"] = {"law": type(self.masks).__name__, **asdict(self.masks)}
        text = json.dumps(described, default=_hexadecimal, sort_keys=True, allow_nan=False)
        return hashlib.sha256(b"sottovoce/gopa/1/terms\n" + text.encode()).digest()

    @property
    def context(self) -> Context:
        """What every key of the round is bound to."""
        return Context(run=self.run, round_number=self.round_number, terms=self.digest)


def _hexadecimal(value: object) -> str:
    if not isinstance(value, bytes):
        raise TypeError(f"Terms hold numbers and bytes, not {type(value).__name__}.")
    return value.hex()
