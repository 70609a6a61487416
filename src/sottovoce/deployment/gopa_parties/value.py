"""What an agent puts into a round, and what the sum of a round makes of the model that all hold."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import numpy as np

from sottovoce.deployment.agent import Own, Randomness, State, prepare, start
from sottovoce.deployment.agent.state import off_lattice, on_lattice
from sottovoce.deployment.gopa import Total
from sottovoce.deployment.gopa_parties.plan import Plan
from sottovoce.deployment.integers import signed
from sottovoce.errors import ProtocolError
from sottovoce.reprs import short_repr


class Contribution(NamedTuple):
    """One agent's part of a round, in units."""

    value: np.ndarray  # [d] int64, without noise
    own_noise: np.ndarray  # [d] int64

    def __repr__(self) -> str:
        return short_repr(self)


def first_state(plan: Plan) -> State:
    """What all agents begin with."""
    return start(plan.unmasked, plan.lattice)


def contribution(plan: Plan, agent: int, own: Own, state: State, round_: int, randomness: Randomness) -> Contribution:
    """Compute on one's own records, and draw one's own noise: once in a round.

    Args:
        plan: of the run.
        agent: whose.
        own: its records.
        state: what all hold.
        round_: from 1.
        randomness: where batches and noise come from.

    Raises:
        NotFinite: learning left the finite numbers.
    """
    position = (round_ - 1) * plan.unmasked.exchanges
    drawn = _Noted(randomness)
    made = prepare(plan.wiring, agent, own, state, position, drawn, None)
    noise: np.ndarray = np.asarray(np.sum(drawn.noise, axis=0), dtype=np.int64)
    value = signed(made.words[plan.wiring.relay]) - noise - plan.lattice.to_units(_known(plan, state, round_))
    # Holding entries makes no difference of two values larger; beyond the bound, the encoding would clip in floating point.
    return Contribution(np.clip(value, -plan.largest_entry, plan.largest_entry), noise)


def moved(plan: Plan, state: State, round_: int, found: Total | None) -> State:
    """What all hold after a round; the same where it has no sum."""
    if found is None:
        return state
    received = _known(plan, state, round_) + found.mean
    (exchange,) = plan.run.algorithm.exchanges
    with np.errstate(all="ignore"):
        updated = exchange.update(off_lattice(state, plan.lattice), received, _no_gradient, round_)
    return on_lattice(updated, plan.lattice)


def _known(plan: Plan, state: State, round_: int) -> np.ndarray:
    (exchange,) = plan.run.algorithm.exchanges
    assert exchange.silent is not None  # an algorithm with aggregation says what it takes of agents that are not heard
    return np.asarray(exchange.silent(off_lattice(state, plan.lattice), round_), dtype=np.float64)


@dataclass(slots=True)
class _Noted:
    """Randomness that remembers the noise it gave."""

    randomness: Randomness
    noise: list[np.ndarray] = field(default_factory=list)

    def source(self, position: int, source: int, scale: float) -> np.ndarray:
        """[d] int64: noise of the agent's own."""
        self.noise.append(self.randomness.source(position, source, scale))
        return self.noise[-1]

    def shared(self, position: int, source: int, other: int, scale: float) -> np.ndarray:
        """Refused: masks are the protocol's."""
        raise ProtocolError("noise that two agents share was asked for; under GOPA pairs share masks alone.")

    def mask(self, position: int, source: int, other: int) -> np.ndarray:
        """Refused: masks are the protocol's."""
        raise ProtocolError("a mask was asked for outside of the rules of GOPA.")

    def gradient_noise(self, round_: int, step: int, scale: float) -> np.ndarray:
        """[d] int64: noise in a gradient."""
        return self.randomness.gradient_noise(round_, step, scale)

    def batch(self, round_: int, step: int, records: int, size: int) -> np.ndarray:
        """[size] int64: positions of records."""
        return self.randomness.batch(round_, step, records, size)


def _no_gradient(*_: Any, **__: Any) -> NoReturn:
    raise ProtocolError("a gradient was asked for after the sum; FedAvg moves the model by what was received alone.")
