"""The check that simulation and linear forms share: whatever an agent sends, keeps or differentiates at has the shape of its model.

A message of shape [1] would be repeated for every parameter, or stand for a model of one parameter, wherever arrays are broadcast; what ran
would not be what was written.
"""

from typing import Any

import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.errors import ConfigError

TRIED = 7  # parameters of the model on which functions are tried where no problem is given


def check_shapes(algorithm: Algorithm, round_: Any, model: Any = None) -> None:
    """Let one agent work through a round, and refuse arrays of another shape than the model's.

    Args:
        algorithm: what the agent does.
        round_: the round; a number, or traced.
        model: [d] any model, as the agent gets it, NumPy or traced; None: a random one.

    Raises:
        ConfigError: with the function, its shape and the one that is needed.
    """
    own = np.random.default_rng(1).standard_normal(TRIED) if model is None else model

    def require(what: str, value: Any) -> Any:
        for leaf in _leaves(value):
            if np.shape(leaf) != np.shape(own):
                raise ConfigError(
                    f"{what} of '{algorithm.name}' has shape {np.shape(leaf)} for a model of shape {np.shape(own)}, and would be repeated "
                    f"along it. Return an array of the model's shape, such as value * ones_like(model)."
                )
        return value

    def gradient(w: Any, step: int = 0) -> Any:
        return require("the point at which a gradient is taken", w)

    with np.errstate(all="ignore"):  # here shapes count, not numbers
        _work_through(algorithm, round_, own, require, gradient)


def _work_through(algorithm: Algorithm, round_: Any, own: Any, require: Any, gradient: Any) -> None:
    state = require("init", algorithm.init(own))
    require("model", algorithm.model(state))
    state = require("begin", algorithm.begun(state, gradient, round_))
    for number, exchange in enumerate(algorithm.exchanges, start=1):
        of = f" {number}" if len(algorithm.exchanges) > 1 else ""
        require(f"message{of}", exchange.message(state, gradient, round_))
        if exchange.silent is not None:
            require(f"silent{of}", exchange.silent(state, round_))
        state = require(f"update{of}", exchange.update(state, own, gradient, round_))


def _leaves(tree: Any) -> list[Any]:
    """The arrays of a state made of tuples, lists and dicts."""
    if isinstance(tree, dict):
        return [leaf for part in tree.values() for leaf in _leaves(part)]
    if isinstance(tree, list | tuple):
        return [leaf for part in tree for leaf in _leaves(part)]
    return [tree]
