"""An optimiser of the user's choice between two exchanges: Adam, momentum or any other transformation of gradients, such as Optax has.

    s = init(w),   (u_i, s) = update(grad(w_i), s, w_i),   w_{i+1} = w_i + u_i    for i = 0..L-1,   from w_0 = w

Its state is made anew in every round. An optimiser may blow a small change of a gradient up without end (Adam divides by the gradients' own
size), so nothing is known of w_L - w but what is clipped. Clipped as a whole, what came before does not matter: two updates lie in one ball.

Whatever the optimiser does is the agent's own business, as its gradient is: it may look at single coordinates and at shapes. So where the accountant
lets functions run on vectors that show none, the walk runs on plain vectors, and what it ends at counts as a gradient does.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from sottovoce.errors import ConfigError

Array = Any
Gradient = Callable[..., Array]  # (w) or (w, step)
Steps = Callable[[Array, Gradient, Any], Array]  # (model, gradient, round) -> where the local steps end


class Optimizer(Protocol):
    """What is needed of an optimiser: the two functions of `optax.GradientTransformation`."""

    @property
    def init(self) -> Callable[[Array], Any]:
        """The state before the first gradient, from the model."""

    @property
    def update(self) -> Callable[..., tuple[Array, Any]]:
        """(gradient, state, model) -> (what to add to the model, new state)."""


def check_optimizer(optimizer: Any) -> None:
    """Refuse what is no optimiser, or needs more than gradients.

    Raises:
        ConfigError: naming what is missing.
    """
    if not callable(getattr(optimizer, "init", None)) or not callable(getattr(optimizer, "update", None)):
        raise ConfigError(
            f"local_optimizer = {type(optimizer).__name__}; needed are its functions init(model) and update(gradient, state, model), as "
            f"optax.adam(1e-2) has them."
        )
    start = np.zeros(3)
    try:
        found = walk(optimizer, 1)(start, lambda w, step=0: np.ones(3), 1)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"local_optimizer cannot make a step from a gradient alone ({type(error).__name__}: {str(error)[:200]}). Use one that needs no "
            f"values of the loss, and parameters that are one vector."
        ) from error
    if np.shape(found) != start.shape:
        raise ConfigError(
            f"local_optimizer makes an update of shape {np.shape(found)} for a model of shape {start.shape}. It must have the model's shape."
        )


def walk(optimizer: Optimizer, local_steps: int) -> Steps:
    """The steps of an optimiser: (model, gradient, round) -> where they end."""

    def walked(w: Array, gradient: Gradient) -> Array:
        held, state = w, optimizer.init(w)
        for step in range(local_steps):
            update, state = optimizer.update(gradient(held, step), state, held)
            held = held + update
        return held

    def on_plain_vectors(w: Array, gradient: Gradient) -> Array:
        if not isinstance(w, np.ndarray):  # in a compiled program
            return walked(w, gradient)
        import jax

        with jax.enable_x64(w.dtype == np.float64):
            return np.asarray(walked(w, lambda at, step=0: gradient(np.asarray(at), step)), dtype=w.dtype)

    def steps(w: Array, gradient: Gradient, round_: Any) -> Array:
        unread = getattr(gradient, "unread", None)  # given by `linear.play_round`, where functions are read
        return on_plain_vectors(w, gradient) if unread is None else unread(on_plain_vectors, w)

    return steps
