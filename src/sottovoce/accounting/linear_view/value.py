"""The linear view of one agent as a number."""

from typing import NamedTuple


class LinearValue(NamedTuple):
    """The linear view of one agent, at its sensitivity."""

    mu: float
    gap: float  # relative distance of the attained value
    clear_round: int  # 0: never
    adaptive: bool
    public: bool
    agent: int
