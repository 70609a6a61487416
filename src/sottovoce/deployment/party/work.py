"""What a party does at an exchange, whatever its role: an agent speaks and then hears, a relay hears and then speaks.

    agent    prepare(p, state, held, {}) -> words, held, state        written down, then sent
             take(p, state, held, heard) -> state                     written down with the next exchange
    relay    prepare(p, state, held, heard) -> words, held, state     written down, then sent; there is nothing left to take

Parties are known here by the names of the roster, in the order of their numbers. Words are what receivers add up modulo 2^64.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from sottovoce.deployment.agent import (
    Held,
    Own,
    Randomness,
    Wiring,
    final_model,
    flatten,
    prepare,
    relay_prepare,
    relay_start,
    start,
    take,
    unflatten,
)

Words = Mapping[str, np.ndarray]  # party -> [d] uint64
Arrays = Mapping[str, np.ndarray]


class Spoken(NamedTuple):
    """What an exchange sends, and what its sender must remember to go on."""

    words: Words
    held: Arrays
    state: np.ndarray  # [leaves, d] int64


class Work(Protocol):
    """One role in one run."""

    @property
    def hears_first(self) -> bool:
        """Whether this party needs the words of an exchange before it can say its own: a relay does."""

    @property
    def end(self) -> int:
        """The position after the last exchange."""

    @property
    def exchanges(self) -> int:
        """Exchanges in one round."""

    @property
    def dimension(self) -> int:
        """How many words a message has."""

    def receivers(self, position: int) -> tuple[str, ...]:
        """Whom this party sends to at an exchange."""

    def senders(self, position: int) -> tuple[str, ...]:
        """Whose words this party needs at an exchange."""

    def partners(self, position: int) -> tuple[str, ...]:
        """With whom this party shares a source at an exchange, and so needs a key."""

    @property
    def names(self) -> tuple[str, ...]:
        """All parties of the run, in the order of their numbers."""

    def is_broadcast(self, sender: int, position: int) -> bool:
        """Whether all receivers of a party, given by its number, get the same words, and there are two of them at least."""

    def start(self) -> np.ndarray:
        """The state before the first exchange."""

    def prepare(self, position: int, state: np.ndarray, held: Arrays, heard: Words) -> Spoken:
        """What this party says. Draws noise, so it is called once for an exchange that is then written down."""

    def take(self, position: int, state: np.ndarray, held: Arrays, heard: Words) -> np.ndarray:
        """The state after an exchange; draws nothing, so that it comes out the same after a crash."""

    def model(self, state: np.ndarray) -> np.ndarray:
        """[d] float64: what the run leaves this party with; [0] for a relay, which keeps nothing."""


class _Links:
    """Names in place of numbers."""

    def __init__(self, wiring: Wiring, names: Sequence[str], number: int) -> None:
        self._wiring, self.names, self._number = wiring, tuple(names), number
        self._numbers = {name: each for each, name in enumerate(names)}
        self.end, self.exchanges, self.dimension = wiring.run.end, wiring.run.exchanges, wiring.run.dimension

    def receivers(self, position: int) -> tuple[str, ...]:
        """Whom this party sends to at an exchange."""
        return self._named(self._wiring.receivers(self._number, position))

    def senders(self, position: int) -> tuple[str, ...]:
        """Whose words this party needs at an exchange."""
        return self._named(self._wiring.senders(self._number, position))

    def partners(self, position: int) -> tuple[str, ...]:
        """With whom this party shares a source at an exchange."""
        sources = self._wiring.part(self._number, position).sources
        return self._named(sorted({source.other for source in sources if source.other >= 0}))

    def is_broadcast(self, sender: int, position: int) -> bool:
        """Whether all receivers of a party get the same words, and there are two of them at least."""
        return self._wiring.is_broadcast(sender, position)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.names[self._number]} in {self.end} exchanges>"

    def _named(self, numbers: Sequence[int]) -> tuple[str, ...]:
        return tuple(self.names[number] for number in numbers)

    def _by_name(self, words: Mapping[int, np.ndarray]) -> dict[str, np.ndarray]:
        return {self.names[number]: each for number, each in words.items()}

    def _by_number(self, words: Words) -> dict[int, np.ndarray]:
        return {self._numbers[name]: each for name, each in words.items()}


class AgentWork(_Links):
    """An agent with its own records."""

    hears_first = False

    def __init__(self, wiring: Wiring, names: Sequence[str], number: int, own: Own, randomness: Randomness) -> None:
        super().__init__(wiring, names, number)
        self._own, self._randomness = own, randomness

    def start(self) -> np.ndarray:
        """The state before the first exchange."""
        return flatten(start(self._wiring.run, self._wiring.lattice))

    def prepare(self, position: int, state: np.ndarray, held: Arrays, heard: Words) -> Spoken:
        """Words for the neighbours."""
        run = self._wiring.run
        carried = Held.from_arrays(held) if run.at(position)[1] else None
        made = prepare(
            self._wiring, self._number, self._own, unflatten(run, state), position, self._randomness, carried
        )
        return Spoken(self._by_name(made.words), made.held.to_arrays(), flatten(made.state))

    def take(self, position: int, state: np.ndarray, held: Arrays, heard: Words) -> np.ndarray:
        """The state after the neighbours' words."""
        before, kept, words = unflatten(self._wiring.run, state), Held.from_arrays(held), self._by_number(heard)
        return flatten(take(self._wiring, self._number, self._own, before, position, kept, words))

    def model(self, state: np.ndarray) -> np.ndarray:
        """[d] float64."""
        run = self._wiring.run
        return final_model(run, self._wiring.lattice, unflatten(run, state))


class RelayWork(_Links):
    """The relay of a federation, which has no records."""

    hears_first = True

    def __init__(self, wiring: Wiring, names: Sequence[str], randomness: Randomness) -> None:
        super().__init__(wiring, names, wiring.relay)
        self._randomness = randomness

    def start(self) -> np.ndarray:
        """The state before the first exchange."""
        return flatten(relay_start(self._wiring))

    def prepare(self, position: int, state: np.ndarray, held: Arrays, heard: Words) -> Spoken:
        """The average, for all agents."""
        before, words = unflatten(self._wiring.run, state), self._by_number(heard)
        made = relay_prepare(self._wiring, before, position, words, self._randomness)
        return Spoken(self._by_name(made.words), {}, flatten(made.state))

    def take(self, position: int, state: np.ndarray, held: Arrays, heard: Words) -> np.ndarray:
        """Nothing is left to take."""
        return state

    def model(self, state: np.ndarray) -> np.ndarray:
        """A relay keeps no model: [0]."""
        return np.zeros(0)
