"""What one agent does in one exchange: make its words, and take those of the others.

    prepare   at the first exchange of a round: draw batches and noise in gradients, state <- round(begin(state))
              psi = message(state);   m = round(2^f psi);   word to receiver k: m + noise on that link;   own copy: m + its noise
              where noise cancels at receivers:   word to receiver k: round(2^f a_lk psi) + masks modulo 2^64;   own copy: round(2^f a_ll psi)
    take      received = 2^-f (sum_l a_lk word_l + a_kk own copy), senders in increasing order, in float64; what was weighed is only added up
              state <- round(update(state, received))

So a round has these roundings and no others: of the state after `begin` where there is one, of every message, of every state after `update`, of
an own copy whose noise is a fraction of the links' noise, and of gradients under noise in gradients. What is received is not rounded.

Both are functions of what they are given. `prepare` asks for randomness, each number once in a run; what it drew and `take` needs is in `Held`.
A party commits state, held and words together, and only then sends: whatever happens afterwards, `take` from these values ends in the same bits.
"""

from collections.abc import Mapping
from typing import NamedTuple, Self

import numpy as np

from sottovoce.deployment.agent.own import Own, gradient_of_round, no_gradient
from sottovoce.deployment.agent.perturbation import NOBODY
from sottovoce.deployment.agent.randomness import Randomness
from sottovoce.deployment.agent.state import State, off_lattice, on_lattice
from sottovoce.deployment.agent.wiring import Part, Wiring
from sottovoce.deployment.integers import ring, signed
from sottovoce.errors import ConfigError, ProtocolError
from sottovoce.reprs import short_repr


class Held(NamedTuple):
    """What an agent keeps to itself between making its words and taking those of others, and on to the end of the round."""

    own: np.ndarray  # [d] int64: its own copy in units
    batches: np.ndarray  # [gradients, size] int64: positions of records; [0, 0]: all of them
    gradient_noise: np.ndarray  # [gradients, d] int64 in units; [0, 0]: none

    def __repr__(self) -> str:
        return short_repr(self)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Plain arrays for a store."""
        return self._asdict()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """What `to_arrays` was made of.

        Raises:
            ConfigError: other arrays than these.
        """
        if set(arrays) != set(cls._fields):
            raise ConfigError(f"held values {sorted(arrays)} were given; needed are {sorted(cls._fields)}.")
        return cls(**{name: np.asarray(values, dtype=np.int64) for name, values in arrays.items()})


class Prepared(NamedTuple):
    """What an agent commits before it sends."""

    words: dict[int, np.ndarray]  # per receiver [d] uint64
    held: Held
    state: State

    def __repr__(self) -> str:
        return f"<Prepared: words for {sorted(self.words)}>"  # neither noise nor model belongs on a screen


def prepare(
    wiring: Wiring,
    agent: int,
    own: Own,
    state: State,
    position: int,
    randomness: Randomness,
    carried: Held | None,
) -> Prepared:
    """Make the words of an agent in one exchange.

    Args:
        wiring: what is public.
        agent: whose words.
        own: its data.
        state: after the exchange before.
        position: of the exchange in the run.
        randomness: where noise, masks and batches come from; asked once for each.
        carried: what was held in the exchange before, when that belongs to the same round; None at the first exchange of a round.

    Raises:
        ConfigError: more records in a batch than the party has, or `carried` missing or out of place.
        NotFinite: learning left the finite numbers.
    """
    run, lattice = wiring.run, wiring.lattice
    round_, exchange = run.at(position)
    if (carried is None) != (exchange == 0):
        raise ConfigError(
            f"exchange {exchange + 1} of round {round_} was prepared {'without' if carried is None else 'with'} what was held before. Hand on the held "
            f"value of the exchange before inside a round, and None at its start."
        )
    nothing = np.zeros(0, dtype=np.int64)
    if not wiring.takes_part(agent, round_):
        empty = np.zeros((0, 0), dtype=np.int64)
        return Prepared({}, Held(nothing, empty, empty), state)
    held = _drawn(wiring, own, round_, randomness) if carried is None else carried
    gradient = gradient_of_round(own, lattice, held.batches, held.gradient_noise)
    with np.errstate(all="ignore"):  # numbers that are not finite are refused where they are rounded
        if exchange == 0 and run.algorithm.begin is not None:
            state = on_lattice(run.algorithm.begin(off_lattice(state, lattice), gradient, round_), lattice)
        psi = run.algorithm.exchanges[exchange].message(off_lattice(state, lattice), gradient, round_)
    part = wiring.part(agent, position)
    make = _masked if part.masked else _noisy
    words, kept = make(wiring, part, np.asarray(psi, dtype=np.float64), position, randomness)
    return Prepared(words, held._replace(own=nothing if wiring.federated else kept), state)


def take(
    wiring: Wiring,
    agent: int,
    own: Own,
    state: State,
    position: int,
    held: Held,
    words: Mapping[int, np.ndarray],
) -> State:
    """The state of an agent after it has taken the words of an exchange.

    Args:
        wiring: what is public.
        agent: who takes them.
        own: its data.
        state: as it was prepared.
        position: of the exchange in the run.
        held: as it was prepared.
        words: per sender [d] uint64; of exactly those of whom the agent takes words.

    Raises:
        ProtocolError: words are missing, or not wanted, or not what an honest sender could have sent; it names the sender.
        NotFinite: learning left the finite numbers.
    """
    run, lattice = wiring.run, wiring.lattice
    round_, exchange = run.at(position)
    part = wiring.part(agent, position)
    check_words(part, words, run.dimension, position)
    received = lattice.unit * (_added_up(wiring, part, held, words) if part.masked else _combined(part, held, words))
    gradient = gradient_of_round(own, lattice, held.batches, held.gradient_noise)
    if run.algorithm.sampling is not None:
        gradient = no_gradient
    with np.errstate(all="ignore"):
        updated = run.algorithm.exchanges[exchange].update(off_lattice(state, lattice), received, gradient, round_)
    return on_lattice(updated, lattice)


def _drawn(wiring: Wiring, own: Own, round_: int, randomness: Randomness) -> Held:
    """What the gradients of a round need."""
    run = wiring.run
    steps, size, scale = run.algorithm.gradients_per_round, run.batch_size, wiring.gradient_scale(round_)
    if size is not None and size > own.records:
        raise ConfigError(
            f"a batch of {size} records was agreed on, and this party has {own.records}. Agree on a smaller batch, or leave the party out."
        )
    nothing = np.zeros((0, 0), dtype=np.int64)
    batches = noise = nothing
    if size is not None:
        batches = np.stack([randomness.batch(round_, step, own.records, size) for step in range(steps)])
    if scale > 0:
        noise = np.stack([randomness.gradient_noise(round_, step, scale) for step in range(steps)])
    return Held(np.zeros(0, dtype=np.int64), batches, noise)


def _noisy(
    wiring: Wiring, part: Part, psi: np.ndarray, position: int, randomness: Randomness
) -> tuple[dict[int, np.ndarray], np.ndarray]:
    """The message with noise, for every receiver, and the own copy."""
    message = wiring.lattice.to_units(psi)
    drawn = _own_noise(part, position, randomness, len(message))  # [sources, d]
    made: dict[bytes, np.ndarray] = {}  # receivers that get the same noise get the same array
    words = {}
    for receiver, multiples in zip(part.receivers, part.on_links, strict=True):
        key = multiples.tobytes()
        if key not in made:
            made[key] = ring(message + multiples @ drawn)
        words[receiver] = made[key]
    own = message.copy()
    for factor, noise in zip(part.on_own, drawn, strict=True):
        own += int(factor) * noise if float(factor).is_integer() else np.rint(factor * noise).astype(np.int64)
    return words, own


def _own_noise(part: Part, position: int, randomness: Randomness, dimension: int) -> np.ndarray:
    drawn = np.zeros((len(part.sources), dimension), dtype=np.int64)
    for row, (number, other, scale) in zip(drawn, part.sources, strict=True):
        if other == NOBODY:
            row[:] = randomness.source(position, number, scale)
        else:
            row[:] = randomness.shared(position, number, other, scale)
    return drawn


def _masked(
    wiring: Wiring, part: Part, psi: np.ndarray, position: int, randomness: Randomness
) -> tuple[dict[int, np.ndarray], np.ndarray]:
    """The message weighed for every receiver, with masks, and the own copy weighed."""
    to_units = wiring.lattice.to_units
    masks = [randomness.mask(position, source.number, source.other) for source in part.sources]
    words = {}
    for receiver, weight, signs in zip(part.receivers, part.sent_weights, part.on_links, strict=True):
        word = ring(to_units(weight * psi)).copy()
        for sign, mask in zip(signs, masks, strict=True):
            if sign:
                word = word + mask if sign > 0 else word - mask
        words[receiver] = word
    return words, to_units(part.own_weight * psi)


def check_words(part: Part, words: Mapping[int, np.ndarray], dimension: int, position: int) -> None:
    """Refuse words that are missing, not wanted, or that no honest sender sends.

    Args:
        part: what the receiver has to do with the exchange.
        words: per sender.
        dimension: of the model.
        position: of the exchange.

    Raises:
        ProtocolError: naming the sender.
    """
    if set(words) != set(part.senders):
        raise ProtocolError(
            f"in exchange {position} words came from {sorted(words)}; needed are words from {sorted(part.senders)}. Wait for all of them, and for "
            f"nobody else."
        )
    for sender, largest in zip(part.senders, part.largest, strict=True):
        word = words[sender]
        if not isinstance(word, np.ndarray) or word.dtype != np.uint64 or word.shape != (dimension,):
            raise ProtocolError(
                f"in exchange {position} party {sender} sent {type(word).__name__} of shape {np.shape(word)}; needed are {dimension} words of 64 bits. "
                f"Stop the run, and ask them which version they use."
            )
        if not part.masked and (np.abs(signed(word).astype(np.float64)) > largest).any():
            raise ProtocolError(
                f"in exchange {position} party {sender} sent a number beyond {largest:.6g} units, which neither a model nor its noise can reach. It "
                f"does not follow the protocol. Stop the run."
            )


def _combined(part: Part, held: Held, words: Mapping[int, np.ndarray]) -> np.ndarray:
    """The weighted sum in units, float64."""
    total = part.own_weight * held.own if len(held.own) else np.zeros(())
    for sender, weight in zip(part.senders, part.weights, strict=True):
        total = total + weight * signed(words[sender])
    return np.asarray(total, dtype=np.float64)


def _added_up(wiring: Wiring, part: Part, held: Held, words: Mapping[int, np.ndarray]) -> np.ndarray:
    """The sum of words that were weighed by their senders, modulo 2^64: their masks cancel."""
    total = ring(held.own).copy()
    for sender in part.senders:
        total += words[sender]
    found = signed(total).astype(np.float64)
    if (np.abs(found) > (len(words) + 1) * wiring.lattice.bound).any():
        raise ProtocolError(
            f"the masks of {list(part.senders)} do not cancel: their sum is beyond what messages can reach. One of them used another key or does not "
            f"follow the protocol. Stop the run."
        )
    return found
