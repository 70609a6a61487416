"""The Gram matrix of a view: what two routes compute and the accountant maximises."""

from typing import NamedTuple

import numpy as np


class Gram(NamedTuple):
    """Q of several agents, and whether it is finite."""

    values: np.ndarray  # [P, T, T]
    clear_round: np.ndarray  # [P] first round (from 1) in which something of the agent is in clear; 0: never
    # [P] bool. Adaptive: what was read fixes every agent's state, and for all but p to the same value in both worlds. Public: for p too.
    adaptive: np.ndarray
    public: np.ndarray
