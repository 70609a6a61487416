"""How far a run in whole numbers can be from the same run in real ones, fed the same noise: a bound, in units of the lattice.

Let e be the largest l2 norms of the differences between the two runs, one for every array that an agent keeps. A round makes new arrays of old
ones, of gradients and of roundings, each of which moves an entry by half a unit, so that its norm is at most h = sqrt(d) / 2 (and a little more,
which stands for float64). The round is played once on symbols: every array, every gradient and every rounding is a column, and what comes out are
rows of coefficients. For a row R . x + c grad(P . x) and any number s

    ||difference||  <=  |R - s P| . e  +  max(|s + c nu|, |s + c beta|) (|P| . e)

since s I + c grad has that Lipschitz constant where the Hessian of the loss lies between nu and beta; s is chosen to make the sum smallest. So a
gradient step of length at most 2 / beta stretches nothing (s = 1), averaging stretches nothing (weights add up to one), and a round adds what its own
roundings add: the bound grows by a fixed number of units per round,

    |entry of the one run - entry of the other|  <=  rounds x 2^-f x factor          while no number reaches the bound of the lattice.

Rounds without gradients are linear, and are multiplied out before norms are taken. Where differences are stretched (steps that are too long), or would
shrink only in a norm over all arrays together (ADMM), the bound grows faster, and says so.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from sottovoce.deployment.agent.wiring import Wiring
from sottovoce.errors import UnsupportedClaim
from sottovoce.linear import refill, state_blocks
from sottovoce.numbers import checked

# Half a unit, and room for what float64 loses before it: a sum of 2^14 numbers of 2^30 units loses less than 2^-8 of one.
ROUNDING = 0.5 + 2.0**-8
TIE = 1e-12  # relative difference of bounds that count as equal


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """A bound on the difference of any entry of any agent's model.

    Attributes:
        units: after the last round, in units of the lattice.
        factor: units per round.
    """

    units: float
    factor: float


def deviation_bound(
    wiring: Wiring, *, smoothness: float, strong_convexity: float = 0.0, rehearsed: bool = False
) -> Deviation:
    """How far models can be from those of the same run in real numbers with the same noise.

    Args:
        wiring: the run.
        smoothness: beta, the largest eigenvalue of the Hessian of any agent's loss, or of any batch of it where there are batches.
        strong_convexity: nu, the smallest one; negative where losses are not convex.
        rehearsed: the other run is a simulation, whose noise is multiples of sources of size one; parties round a source at its size, and multiply then.

    Raises:
        UnsupportedClaim: an algorithm whose messages are clipped as a whole, which is not a linear map of states and gradients.
    """
    run = wiring.run
    if run.algorithm.clipped_update is not None:
        raise UnsupportedClaim(
            f"'{run.algorithm.name}' clips its updates as a whole, so that a round is no linear map of models and gradients. Measure the difference."
        )
    checked("smoothness", smoothness, "[0, inf)")
    checked("strong_convexity", strong_convexity, "(-inf, inf)")
    columns = _Columns(wiring, rehearsed)
    apart = _Apart.at(np.full(columns.num_states, columns.rounding))  # the starting point is rounded
    for round_ in range(1, run.rounds + 1):
        rows, sizes = columns.play(round_)
        with np.errstate(over="ignore", invalid="ignore"):  # a bound may be infinite
            if any(rows[:, column].any() for column, _ in columns.points):
                norms = _Norms(columns, np.concatenate([apart.norms, sizes]), strong_convexity, smoothness)
                apart = _Apart.at(np.array([norms.of(row) for row in rows]))
            else:
                apart = apart.moved(rows, sizes)
    models = np.stack([columns.model(agent) for agent in columns.distinct])
    units = float((np.abs(models @ apart.rows) @ apart.sizes).max()) if np.isfinite(apart.norms).all() else math.inf
    return Deviation(units=units, factor=units / run.rounds)


class _Apart(NamedTuple):
    """How the two runs differ: for every array that is kept a row of coefficients over vectors whose norms have bounds."""

    rows: np.ndarray  # [arrays, vectors]
    sizes: np.ndarray  # [vectors]

    @classmethod
    def at(cls, norms: np.ndarray) -> Self:
        """Nothing is known but these norms."""
        return cls(np.eye(len(norms)), norms)

    @property
    def norms(self) -> np.ndarray:
        """[arrays] bounds on the norms of the differences."""
        return np.asarray(np.abs(self.rows) @ self.sizes)

    def moved(self, rows: np.ndarray, sizes: np.ndarray) -> Self:
        """After a round without gradients, which is linear: what cancels in several rounds together is seen to cancel."""
        kept = len(self.rows)
        new = np.flatnonzero(sizes)
        return type(self)(
            np.concatenate([rows[:, :kept] @ self.rows, rows[:, kept:][:, new]], axis=1),
            np.concatenate([self.sizes, sizes[new]]),
        )


class _Columns:
    """The rounds of a run on symbols: coefficients over (what agents keep, roundings and gradients of the round)."""

    def __init__(self, wiring: Wiring, rehearsed: bool) -> None:
        self.wiring, self.rehearsed, run = wiring, rehearsed, wiring.run
        # Projections on a box stretch nothing, so that the algorithm without them has the same bound.
        self.algorithm = run.algorithm if run.algorithm.linear_part is None else run.algorithm.linear_part
        self.template = self.algorithm.init(np.zeros(1))
        self.blocks, self.rounding = len(state_blocks(self.template)), ROUNDING * math.sqrt(run.dimension)
        # In a federation all agents keep the same where nothing of their own enters an update: their differences are one and the same.
        self.distinct = range(1) if wiring.federated and not self._updates_take_gradients() else range(run.num_agents)
        self.num_states = self.blocks * len(self.distinct)
        most = run.num_agents * (
            self.blocks + run.exchanges * (self.blocks + 5) + 2 * run.algorithm.gradients_per_round
        )
        self.width = self.num_states + 2 * most + 2 * run.exchanges * len(run.topology.links)
        self.used = self.num_states
        self.sizes: dict[int, float] = {}  # of the roundings of a round
        self.points: list[tuple[int, np.ndarray]] = []  # column of a gradient, and where it is taken

    def _updates_take_gradients(self) -> bool:
        taken: list[int] = []

        def gradient(w: Any, step: int = 0) -> Any:
            taken.append(step)
            return 0.0 * w

        state = self.algorithm.init(np.zeros(1))
        for exchange in self.algorithm.exchanges:
            exchange.update(state, np.zeros(1), gradient, 1)
        return bool(taken) or self.algorithm.begin is not None

    def _unit(self, column: int) -> np.ndarray:
        row = np.zeros(self.width)
        row[column] = 1.0
        return row

    def _new(self) -> int:
        self.used += 1
        return self.used - 1

    def _rounded(self, row: np.ndarray, exact: list[np.ndarray], times: float = 1.0) -> np.ndarray:
        """A row and its rounding, `times` as large as one; what is on the lattice already is not rounded."""
        if times == 0 or any(np.array_equal(row, one) for one in exact):
            return row
        column = self._new()
        self.sizes[column] = times * self.rounding
        return np.asarray(row + self._unit(column))

    def _state(self, agent: int) -> Any:
        first = self.blocks * (agent if len(self.distinct) > 1 else 0)
        return refill(self.template, [self._unit(first + block) for block in range(self.blocks)])

    def model(self, agent: int) -> np.ndarray:
        """The model of an agent over what all agents keep."""
        row: np.ndarray = self.algorithm.model(self._state(agent))
        return row[: self.num_states]

    def play(self, round_: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows of what agents keep after a round, and the sizes of its columns beyond what they kept before."""
        self.used, self.sizes, self.points = self.num_states, {}, []
        gradients = [self._gradient(round_) for _ in range(self.wiring.run.num_agents)]
        states = [self._begun(agent, gradient, round_) for agent, gradient in enumerate(gradients)]
        for number in range(len(self.algorithm.exchanges)):
            states = self._exchange(states, gradients, round_, number)
        sizes = np.zeros(self.width - self.num_states)
        for column, size in self.sizes.items():
            sizes[column - self.num_states] = size
        return np.stack([block for agent in self.distinct for block in state_blocks(states[agent])]), sizes

    def _exchange(self, states: list[Any], gradients: list[Any], round_: int, number: int) -> list[Any]:
        exchange, position = self.algorithm.exchanges[number], (round_ - 1) * self.wiring.run.exchanges + number
        messages = [exchange.message(state, g, round_) for state, g in zip(states, gradients, strict=True)]
        if self.wiring.federated:
            received = self._averaged(states, messages, exchange, position)
        else:
            received = [self._combined(states, messages, agent, position) for agent in range(len(states))]
        whole = self.wiring.federated or self.wiring.part(0, position).masked  # what arrives is on the lattice already
        return [
            self._kept(state, exchange.update(state, arrived, g, round_), [arrived] if whole else [])
            for state, arrived, g in zip(states, received, gradients, strict=True)
        ]

    def _gradient(self, round_: int) -> Any:
        noisy = self.wiring.gradient_scale(round_) > 0

        def gradient(w: np.ndarray, step: int = 0) -> np.ndarray:
            column = self._new()
            self.points.append((column, np.array(w)))
            return self._rounded(self._unit(column), [], float(noisy))

        return gradient

    def _begun(self, agent: int, gradient: Any, round_: int) -> Any:
        state = self._state(agent)
        return (
            state
            if self.algorithm.begin is None
            else self._kept(state, self.algorithm.begin(state, gradient, round_), [])
        )

    def _kept(self, before: Any, after: Any, exact: list[np.ndarray]) -> Any:
        known = [*state_blocks(before), *exact]
        return refill(after, [self._rounded(block, known) for block in state_blocks(after)])

    def _combined(self, states: list[Any], messages: list[np.ndarray], agent: int, position: int) -> np.ndarray:
        part = self.wiring.part(agent, position)
        if part.masked:
            total = part.own_weight * messages[agent]
            for sender, weight in zip(part.senders, part.weights, strict=True):
                total = total + weight * messages[sender]
            return self._rounded(total, [], len(part.senders) + 1.0)
        fractions = float(np.count_nonzero(part.on_own != np.rint(part.on_own)))
        total = part.own_weight * self._rounded(self._sent(states, messages, agent, position), [], fractions)
        for sender, weight in zip(part.senders, part.weights, strict=True):
            total = total + weight * self._sent(states, messages, sender, position)
        return np.asarray(total)

    def _sent(self, states: list[Any], messages: list[np.ndarray], agent: int, position: int) -> np.ndarray:
        """A message, and the roundings of sources in the multiples in which it carries them, which a simulation does not have."""
        message = self._rounded(messages[agent], state_blocks(states[agent]))
        if not self.rehearsed:
            return message
        part = self.wiring.part(agent, position)
        scale = self.wiring.scales[self.wiring.run.at(position)[0] - 1]
        sizes = np.array([source.scale for source in part.sources]) / (scale or 1.0)
        carried = np.abs(part.on_links).max(axis=0, initial=0)[np.abs(sizes - np.rint(sizes)) > TIE * sizes]
        return self._rounded(message, [], float(carried.sum()))

    def _averaged(
        self, states: list[Any], messages: list[np.ndarray], exchange: Any, position: int
    ) -> list[np.ndarray]:
        round_, _ = self.wiring.run.at(position)
        total = np.zeros(self.width)
        for agent, (share, count) in enumerate(
            zip(self.wiring.run.topology.perron, self.wiring.counts(round_), strict=True)
        ):
            known = exchange.silent(states[agent], round_) if exchange.silent is not None else 0.0
            sent = self._sent(states, messages, agent, position) if count else known
            total = total + share * (known + count * (sent - known))
        return [self._rounded(total, [])] * len(states)


class _Norms:
    """Bounds on the norms of rows, given those of the columns."""

    def __init__(self, columns: _Columns, weights: np.ndarray, nu: float, beta: float) -> None:
        self.weights, self.nu, self.beta = weights.copy(), nu, beta
        self.points: list[tuple[int, np.ndarray, float]] = []
        for column, point in columns.points:  # a point depends on earlier gradients alone
            norm = self.of(point)
            self.points.append((column, point, norm))
            # How much a gradient differs at most, where nothing better is known of it.
            self.weights[column] = max(abs(nu), beta) * norm

    def of(self, row: np.ndarray) -> float:
        """A bound on the norm of a row's difference."""
        row, total = row.copy(), 0.0
        for column, point, norm in reversed(self.points):
            c, row[column] = float(row[column]), 0.0
            if c != 0:
                s = self._split(row, point, c, norm)
                total += self._stretched(s, c) * norm
                row -= s * point
        return total + float(np.abs(row) @ self.weights)

    def _stretched(self, s: float, c: float) -> float:
        return max(abs(s + c * self.nu), abs(s + c * self.beta))

    def _split(self, row: np.ndarray, point: np.ndarray, c: float, norm: float) -> float:
        """The s that makes the bound smallest: it is convex in s and bends where an entry or an end of the spectrum vanishes."""
        at = np.flatnonzero(point)
        bends = {0.0, -c * self.nu, -c * self.beta, -c * (self.nu + self.beta) / 2, *(row[at] / point[at]).tolist()}

        def bound(s: float) -> float:
            return float(np.abs(row - s * point) @ self.weights) + self._stretched(s, c) * norm

        bounds = {s: bound(s) for s in sorted(bends, key=abs)}
        # Of those that are equally good the smallest, which leaves most of the row to the gradients that come next.
        smallest = min(bounds.values())
        return float(next(s for s, found in bounds.items() if not found > smallest * (1 + TIE)))
