"""The contract of an algorithm: what ONE agent does in a round.

    state   = init(model)                                   before the first round
    state   = begin(state, gradient, round)                 at the start of a round, where there is something to do before sending
    for every exchange of the round:
        psi   = message(state, gradient, round)             what the agent sends
        state = update(state, received, gradient, round)    received = sum_l a_lk psi_l, own copy included, noise and all
    model(state)                                            the agent's model

`gradient(w)` is the agent's own gradient at w: of all its records, or of the round's batch. An algorithm that takes several gradients in
a round numbers them, `gradient(w, step)` with step = 0, 1, ..., and each has a batch and noise of its own. The functions are pure and use only
operators and the array namespace of what they are given, so the simulator maps them over all agents and a single party runs them on NumPy.
Rounds are numbered from 1. Numbers that change from round to round are schedules (`sottovoce.schedules`): their values come from one table, which
the simulator and the accountant share.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from sottovoce.algorithms.aggregation import Gopa
from sottovoce.algorithms.sampling import AgentSampling
from sottovoce.clipping import Clip
from sottovoce.errors import ConfigError
from sottovoce.numbers import is_number, whole
from sottovoce.reprs import described_repr, short_repr
from sottovoce.schedules import Schedule, schedule_of
from sottovoce.topologies import Topology

Array = Any
State = Any  # a pytree of arrays, each of the model's shape
Gradient = Callable[..., Array]  # (w) or (w, step)
StepSize = float | Callable[[Any], Any]
MOST_UNROLLED = 10_000


class Exchange(NamedTuple):
    """One passage of messages: what is sent, and what becomes of the combination that arrives."""

    message: Callable[[State, Gradient, Any], Array]
    update: Callable[[State, Array, Gradient, Any], State]
    weights: Topology | None = None  # None: the weights of the run's topology
    silent: Callable[[State, Any], Array] | None = (
        None  # (state, round): what the relay takes of an agent that is not heard
    )

    def __repr__(self) -> str:
        return short_repr(self)


def _identity(value: Any) -> Any:
    return value


def _always(round_: int) -> bool:
    return True


class LocalSteps(NamedTuple):
    """Several gradient steps inside one message.

    A round is a round of `one_step` whose gradient at w is replaced by g(w_0) + ... + g(w_{L-1}), with w_0 = w and
    w_{i+1} = w_i - step_size g(w_i): points that only the agent sees.
    """

    one_step: "Algorithm"
    times: int  # L
    step_size: StepSize

    def __repr__(self) -> str:
        return short_repr(self)


class ClippedUpdate(NamedTuple):
    """A message that is bounded as a whole.

    A round is a round of `one_step` whose gradient is replaced by a vector of norm at most `clip.bound`, whatever the data and the model.
    """

    one_step: "Algorithm"
    clip: Clip


class Algorithm(NamedTuple):
    """A bundle of pure functions: what one agent does, plus what a saved run says about it."""

    name: str
    exchanges: tuple[Exchange, ...]
    init: Callable[[Array], State] = _identity
    model: Callable[[State], Array] = _identity
    sends_fresh: Callable[[int], bool] = (
        _always  # False: this round's messages only repeat what was sent before, so no noise
    )
    parameters: Mapping[str, Any] = {}
    begin: Callable[[State, Gradient, Any], State] | None = None  # None: nothing happens before the first message
    linear_part: "Algorithm | None" = None  # the same without its projections on boxes; None: it has none
    local_steps: LocalSteps | None = None  # None: one gradient in a message
    clipped_update: ClippedUpdate | None = None  # None: messages are not bounded as a whole
    sampling: AgentSampling | None = None  # None: everybody takes part in every round
    contributions: int | None = None  # the most gradients that one agent adds in a run; None: no limit
    walks: bool = False  # one agent at a time: a token on `topology.with_walk()`
    needs_relay: str | None = None  # what needs agents that all receive the same average, in words; None: nothing
    aggregation: Gopa | None = None  # masks between agents that hide messages from the relay; None: it reads them
    schedules: tuple[Schedule, ...] = ()  # the numbers its functions look up by round

    def begun(self, state: State, gradient: Gradient, round_: Any) -> State:
        """The state from which the round's first message is made."""
        return state if self.begin is None else self.begin(state, gradient, round_)

    @property
    def gradients_per_round(self) -> int:
        """How many gradients an agent takes in a round."""
        return 1 if self.local_steps is None else self.local_steps.times

    def noisy_rounds(self, rounds: int) -> np.ndarray:
        """Which of the rounds 1..rounds carry noise, [rounds] bool."""
        return np.array([self.sends_fresh(t) for t in range(1, rounds + 1)], dtype=bool)

    def __repr__(self) -> str:
        return described_repr(self)

    def describe(self) -> dict[str, Any]:
        """What was chosen, as plain values for a saved run."""
        described = {"name": self.name, **{key: _plain(value) for key, value in self.parameters.items()}}
        if any(exchange.weights is not None for exchange in self.exchanges):
            described["exchanges"] = [None if e.weights is None else e.weights.describe() for e in self.exchanges]
        return described


def _plain(value: Any) -> Any:
    if callable(value):
        return getattr(value, "__name__", "function of the round")
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def step_at(step_size: StepSize, round_: Any) -> Any:
    """The step size of a round: a constant, or the value of its schedule."""
    return schedule_of(step_size)(round_) if callable(step_size) else step_size


def schedules_of(*numbers: StepSize) -> tuple[Schedule, ...]:
    """The schedules among numbers that may be functions of the round."""
    return tuple(schedule_of(number) for number in numbers if callable(number))


def check_unrolled(steps: Any, *, name: str) -> None:
    """Refuse more steps in a round than a program can hold: each of them becomes a part of the compiled round.

    Raises:
        ConfigError: no whole number of at least one, or too many.
    """
    if whole(name, steps) > MOST_UNROLLED:
        raise ConfigError(
            f"{name} = {steps:,}; each of these steps becomes a part of the compiled round, and more than {MOST_UNROLLED:,} are refused. "
            f"Use fewer steps and more rounds."
        )


def check_step_size(step_size: StepSize, *, name: str = "step_size") -> None:
    """Refuse a step size that is not a positive finite number (functions of the round are taken as they are)."""
    if callable(step_size):
        return
    if not is_number(step_size, "(0, inf)"):
        raise ConfigError(f"{name} = {step_size!r}; it must be a finite number above 0, or a function of the round.")
