"""The numbers of a simulation, as one value: checked once, when it is made, and passed on whole."""

from dataclasses import dataclass
from typing import Any

from sottovoce.errors import ConfigError
from sottovoce.numbers import chosen, is_whole, whole
from sottovoce.problems import Batch, check_batch

DTYPES = ("float32", "float64")
DRAWS = ("merged", "sources")
MOST_FRACTION_BITS = 200  # as fine, and as coarse, as the lattice of a deployed run may be


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How much is run, in which numbers, from which seed.

    Attributes:
        rounds: how many rounds in all.
        repeats: independent repetitions; repeat r is the same whatever `repeats` is.
        seed: of all random numbers.
        batch_size: records per agent and round, held against the problem's own; None for all of them.
        dtype: "float32" or "float64".
        chunk: rounds at once; None chooses. Results do not depend on it.
        repeats_together: repeats in one pass; None chooses by memory. Random numbers do not depend on it.
        draws: "merged": Gaussian sources that only add up at one receiver are drawn as one, equal in law; "sources": every source is drawn.
        fraction_bits: f, every source rounded to whole units of 2^-f; None: as drawn. Needs "sources" and float64.
        batch: whose turn it is in every round, in place of batch_size; None: nobody's.

    Raises:
        ConfigError: two kinds of batches, counts that are not whole and positive, a seed or a type that does not exist, a lattice where sources are merged or short.
    """

    rounds: int
    repeats: int = 1
    seed: int = 0
    batch_size: int | None = None
    dtype: str = "float32"
    chunk: int | None = None
    repeats_together: int | None = None
    draws: str = "merged"
    fraction_bits: int | None = None
    batch: Batch | None = None

    def __post_init__(self) -> None:
        whole("rounds", self.rounds)
        whole("repeats", self.repeats)
        check_batch(self.batch, self.batch_size)
        for name in ("batch_size", "chunk", "repeats_together"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name))
        if not is_whole(self.seed, 0, 2**64 - 1):
            raise ConfigError(f"seed = {self.seed!r}; it must be a whole number from 0 to 2^64 - 1.")
        chosen("dtype", self.dtype, DTYPES)
        chosen("draws", self.draws, DRAWS)
        if self.fraction_bits is not None:
            self._check_lattice(self.fraction_bits)

    def most_records(self, sizes: Any) -> int:
        """The most records of one agent that enter a gradient, of agents with these numbers of records."""
        if self.batch is not None:
            return self.batch.most_records(sizes)
        return max(sizes) if self.batch_size is None else self.batch_size

    def _check_lattice(self, fraction_bits: int) -> None:
        if not is_whole(fraction_bits, -MOST_FRACTION_BITS, MOST_FRACTION_BITS):
            raise ConfigError(
                f"fraction_bits = {fraction_bits!r}; it must be a whole number from -{MOST_FRACTION_BITS} to {MOST_FRACTION_BITS}, or None for "
                f"sources as drawn."
            )
        if self.draws != "sources" or self.dtype != "float64":
            raise ConfigError(
                f"fraction_bits = {fraction_bits} rounds every single source, but the run has draws={self.draws!r} and dtype={self.dtype!r}. "
                f'Add draws="sources" and dtype="float64".'
            )
