"""What an agent keeps between exchanges: the state of its algorithm on the lattice.

A state has the structure that the algorithm gives it (an array, or named tuples of arrays), and every array is [d] int64, in units of the
lattice. `flatten` makes one array of it that a store can keep, and `unflatten` the state of that.
"""

from typing import Any

import numpy as np

from sottovoce.deployment.integers import Lattice
from sottovoce.deployment.terms import PublicRun
from sottovoce.errors import ConfigError
from sottovoce.linear import refill, state_blocks

State = Any  # the algorithm's structure, with leaves [d] int64


def start(run: PublicRun, lattice: Lattice) -> State:
    """The state of every agent before the first round."""
    return on_lattice(run.algorithm.init(np.array(run.initial_model, dtype=np.float64)), lattice)


def final_model(run: PublicRun, lattice: Lattice, state: State) -> np.ndarray:
    """[d] float64: the model in a state."""
    return np.asarray(run.algorithm.model(off_lattice(state, lattice)), dtype=np.float64)


def on_lattice(state: Any, lattice: Lattice) -> State:
    """Every array of a state rounded to the lattice.

    Raises:
        NotFinite: an entry is NaN or infinite.
    """
    return refill(state, [lattice.to_units(np.asarray(leaf, dtype=np.float64)) for leaf in state_blocks(state)])


def off_lattice(state: State, lattice: Lattice) -> Any:
    """The same state in float64, exactly."""
    return refill(state, [lattice.to_float(leaf) for leaf in state_blocks(state)])


def flatten(state: State) -> np.ndarray:
    """[arrays, d] int64: all arrays of a state, in a fixed order; of an empty state [0, 0]."""
    blocks = state_blocks(state)
    return np.stack(blocks) if blocks else np.zeros((0, 0), dtype=np.int64)


def unflatten(run: PublicRun, array: np.ndarray) -> State:
    """The state that `flatten` made an array of.

    Raises:
        ConfigError: an array of another shape or type than the states of this run have.
    """
    if array.shape == (0, 0):
        return ()
    template = run.algorithm.init(np.zeros(run.dimension))
    needed = (len(state_blocks(template)), run.dimension)
    if array.shape != needed or array.dtype != np.int64:
        raise ConfigError(
            f"a state of shape {array.shape} and type {array.dtype} was given; '{run.algorithm.name}' on {run.dimension} parameters keeps "
            f"{needed} of int64. Give what `flatten` returned in this run."
        )
    return refill(template, [np.array(row) for row in array])
