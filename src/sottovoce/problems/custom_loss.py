"""A user's own loss with parameters of any structure, such as a neural network.

    J_k(w) = (1/n_k) sum_i loss(unflatten(w), record_i) + (ridge/2) ||w||^2

Agents exchange flat vectors w [d]: the leaves of the parameters' pytree, one after the other. `loss(parameters, batch)`
is a JAX function that returns the MEAN loss of the records in `batch`, a tuple of arrays with leading axis B. A record's
gradient is that of the loss of a batch that holds it alone; all of them come from one vectorised backward pass, and with
clipping each is scaled into the ball of norm C before averaging:

    g = (1/n) sum_i g_i min(1, C / ||g_i||) + ridge w

so the sensitivity is 2C/n whatever the loss. Nothing else is known about such a loss: no optimum, no smoothness, no
promise to the accountant. A gradient that is not a number stays so and stops the run, clipped or not.

JAX is imported when a problem is made, not with this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Never

import numpy as np
from numpy.typing import NDArray

from sottovoce.clipping import Clip, Norm, clip_vector
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.numbers import checked
from sottovoce.problems.batches import Batch
from sottovoce.problems.clipped_gradients import ClippedGradients, clip_gradients
from sottovoce.problems.persons import Persons, declared_persons
from sottovoce.problems.problem import Array, Data, Floats, describe
from sottovoce.problems.records import pad_records
from sottovoce.problems.sensitivity import Adjacency, Sensitivity, Unit, clipped_sensitivity
from sottovoce.reprs import short_repr

Parameters = Any  # a pytree of arrays
Loss = Callable[[Parameters, tuple[Array, ...]], Array]
Accuracy = Callable[[Parameters, Array, Array], Array]

_CHECKED_RECORDS = 4  # how many records the mean is compared on
_CHECK_TOLERANCE = 1e-3  # float32, and sums in another order


@dataclass(frozen=True, kw_only=True, eq=False)
class CustomLoss:
    """A user's loss over agents; make it with `custom_loss` or `classification`.

    Attributes:
        loss: (parameters, batch) -> mean loss of the batch.
        initial_parameters: where every agent starts, a pytree of float64 arrays.
        arrays: features, targets and so on [K, n, ...], as given, and count [K].
        sizes: records of each agent, [K].
        ridge: weight of ||w||^2 / 2.
        clip: how each record's gradient is clipped, or None.
        accuracy_of: (parameters, features, labels) -> fraction classified right, or None.
        label_sets: the sets of labels that test records may come from; empty is any.
        kind: "custom_loss" or "classification".
        details: what else a description says.
        persons: how many records one person may have; None: nothing is known of persons.
    """

    loss: Loss
    initial_parameters: Parameters
    arrays: dict[str, Any]
    sizes: NDArray[np.int64]
    ridge: float
    clip: Clip | None = None
    accuracy_of: Accuracy | None = None
    label_sets: tuple[tuple[float, ...], ...] = ()
    kind: str = "custom_loss"
    details: Mapping[str, Any] = field(default_factory=dict)
    persons: Persons | None = None

    box: ClassVar[float | None] = None
    losses: ClassVar[None] = None
    quadratic: ClassVar[None] = None

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def num_agents(self) -> int:
        """K."""
        return len(self.sizes)

    @property
    def dimension(self) -> int:
        """The number d of parameters."""
        return len(self.initial_model)

    @cached_property
    def initial_model(self) -> Floats:
        """Where every agent starts, [d]."""
        return self.flatten(self.initial_parameters)

    def flatten(self, parameters: Parameters) -> Floats:
        """The parameters as one vector [d], leaf after leaf."""
        import jax

        return np.concatenate([np.asarray(leaf, dtype=np.float64).ravel() for leaf in jax.tree.leaves(parameters)])

    def parameters(self, model: Array) -> Parameters:
        """The vector [d] as parameters, in the model's floating-point type."""
        import jax

        leaves, tree = jax.tree.flatten(self.initial_parameters)
        ends = np.cumsum([leaf.size for leaf in leaves])
        return jax.tree.unflatten(
            tree, [model[end - leaf.size : end].reshape(leaf.shape) for leaf, end in zip(leaves, ends, strict=True)]
        )

    def gradient(self, model: Array, data: Data) -> Array:
        """One agent's full gradient, [d]: the average of its (clipped) record gradients, plus the unclipped ridge's."""
        return self._run("gradient", model, data)

    def records(self, data: Data, indices: Array) -> tuple[Array, ...]:
        """The records of one agent at these indices, each array with leading axis B."""
        return tuple(data[name][indices] for name in self._names)

    def batch_gradient(self, model: Array, records: tuple[Array, ...]) -> Array:
        """The average of the (clipped) gradients of these records, plus the unclipped ridge gradient, [d]."""
        return self._run("batch_gradient", model, records)

    def weighted_gradient(self, model: Array, records: tuple[Array, ...], weights: Array) -> Array:
        """The (clipped) gradients of these records, summed with weights [B], plus the whole ridge, [d]."""
        return self._run("weighted_gradient", model, (records, weights))

    def local_risk(self, model: Array, data: Data) -> Array:
        """One agent's (unclipped) risk J_k(model)."""
        return self._run("local_risk", model, data)

    def risk(self, model: Array, arrays: Data) -> Array:
        """The uniform average J(model) of the agents' (unclipped) risks."""
        return self._run("risk", model, arrays)

    @property
    def has_accuracy(self) -> bool:
        """Whether `accuracy` can be called."""
        return self.accuracy_of is not None

    @property
    def accuracy(self) -> Callable[[Array, Array, Array], Array] | None:
        """(model, features [N, ...], labels [N]) -> fraction classified right; None without such a function."""
        score = self.accuracy_of
        return None if score is None else lambda model, *test: score(self.parameters(model), *test)

    @property
    def optimum(self) -> Never:
        """Refused: nothing is known about the minimisers of a user's loss.

        Raises:
            UnsupportedClaim: always.
        """
        raise UnsupportedClaim(
            f"'{self.kind}' has no known optimum: its loss may have many minima or none, so no distance to one can be "
            f"measured. Record 'loss', 'accuracy' or 'disagreement' instead of an msd."
        )

    def weighted_optimum(self, weights: Any) -> Floats:
        """Refused, as `optimum`."""
        return self.optimum

    @property
    def constants(self) -> Never:
        """Refused: no smoothness and no convexity is known.

        Raises:
            UnsupportedClaim: always.
        """
        raise UnsupportedClaim(
            f"'{self.kind}' has no known smoothness or strong convexity. Use a problem with constants, such as "
            f"logistic_regression, where a bound needs them."
        )

    def with_clipping(self, clip: float, norm: Norm) -> CustomLoss:
        """The same problem with every record's gradient clipped before averaging; the ridge is added after."""
        return replace(self, clip=Clip(clip, norm))

    def with_persons(self, records_per_person: int, persons: Sequence[Any] | None = None) -> CustomLoss:
        """The same problem, in which a person has at most this many records, all at one agent; see `Problem.with_persons`."""
        return replace(self, persons=declared_persons(records_per_person, persons, self.sizes))

    def with_gradient_clipping(self, clip: float, norm: Norm) -> ClippedGradients:
        """The same problem with every agent's whole gradient clipped, ridge and all; the agent is then what can be protected."""
        return clip_gradients(self, clip, norm)

    def sensitivity(
        self,
        *,
        unit: Unit,
        adjacency: Adjacency,
        norm: Norm,
        clip: float | Clip | None = None,
        batch_size: int | None = None,
        agent: int | None = None,
        batch: Batch | None = None,
    ) -> Sensitivity:
        """The largest change of one agent's gradient; see `sottovoce.problems.sensitivity.clipped_sensitivity`.

        Args:
            unit: "agent", "person" or "record": what is protected.
            adjacency: "replace" or "add-remove".
            norm: "l1" or "l2", that of the noise law.
            clip: the bound on a record's gradient; None for that of the problem.
            batch_size: records per agent and round; None for all of them.
            agent: whose; None for the largest of all agents.
            batch: whose turn it is in every round; None where batches are not fixed in advance.
        """
        return clipped_sensitivity(
            self, unit=unit, adjacency=adjacency, norm=norm, clip=clip, batch_size=batch_size, agent=agent, batch=batch
        )

    def describe(self) -> dict[str, Any]:
        """What names this problem, JSON-able."""
        return {**describe(self, ridge=self.ridge), **self.details}

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(name for name in self.arrays if name != "count")

    def _run(self, function: str, model: Array, given: Any) -> Array:
        """Trace the function into the caller's program; for a NumPy model, run it compiled and at the model's precision."""
        if not isinstance(model, np.ndarray):
            return self._functions[function](model, given)
        import jax

        with jax.enable_x64(model.dtype == np.float64):
            return np.array(self._compiled[function](model, given))

    @cached_property
    def _functions(self) -> dict[str, Callable[[Array, Any], Array]]:
        return {
            "gradient": lambda model, data: self._gradient(model, *self._weighted(model, data)),
            "batch_gradient": lambda model, records: self._gradient(model, records, 1.0 / records[0].shape[0]),
            "weighted_gradient": lambda model, given: self._gradient(model, *given),
            "local_risk": self._local_risk,
            "risk": self._risk,
        }

    @cached_property
    def _compiled(self) -> dict[str, Callable[[Array, Any], Array]]:
        import jax

        return {name: jax.jit(function) for name, function in self._functions.items()}

    def _weighted(self, model: Array, data: Data) -> tuple[tuple[Array, ...], Array]:
        """One agent's records with their weights: 1/n, and 0 for the copies that fill up."""
        import jax.numpy as jnp

        records = tuple(data[name] for name in self._names)
        present = jnp.arange(records[0].shape[0]) < data["count"]
        return records, present.astype(model.dtype) / data["count"].astype(model.dtype)

    def _record_loss(self, model: Array, record: tuple[Array, ...]) -> Array:
        return self.loss(self.parameters(model), tuple(part[None] for part in record))

    def _gradient(self, model: Array, records: tuple[Array, ...], weights: Array | float) -> Array:
        """Sum the (clipped) record gradients with these weights and add the ridge."""
        import jax

        if self.clip is None:
            each_loss = jax.vmap(self._record_loss, in_axes=(None, 0))
            data_part = jax.grad(lambda w: (weights * each_loss(w, records)).sum())(model)
        else:
            each = jax.vmap(jax.grad(self._record_loss), in_axes=(None, 0))(model, records)  # [n, d]
            factors = weights if isinstance(weights, float) else weights[:, None]
            data_part = (factors * clip_vector(each, self.clip)).sum(axis=0)
        return data_part + self.ridge * model

    def _local_risk(self, model: Array, data: Data) -> Array:
        import jax

        records, weights = self._weighted(model, data)
        losses = jax.vmap(self._record_loss, in_axes=(None, 0))(model, records)
        return (weights * losses).sum() + 0.5 * self.ridge * (model * model).sum()

    def _risk(self, model: Array, arrays: Data) -> Array:
        import jax

        return jax.vmap(self._local_risk, in_axes=(None, 0))(model, dict(arrays)).mean()


def custom_loss(
    loss: Loss,
    initial_parameters: Parameters,
    *records: Any,
    ridge: float = 0.0,
    accuracy: Accuracy | None = None,
) -> CustomLoss:
    """Any JAX loss over records split over agents, with parameters of any structure.

    Args:
        loss: (parameters, batch) -> the MEAN loss of the batch, a tuple with one array [B, ...] per entry of `records`.
            It may not mix records: no batch normalisation.
        initial_parameters: where every agent starts, a pytree of arrays. They are public: never fit them to the
            agents' data.
        *records: features and usually targets, each [K, n, ...] or a list of K arrays [n_k, ...]. Whole numbers stay so.
        ridge: non-negative weight of ||w||^2 / 2, added after clipping.
        accuracy: (parameters, features, targets) -> fraction classified right, or None.

    Returns:
        The problem. `problem.parameters(model)` turns an agent's model back into parameters.

    Raises:
        ConfigError: malformed parameters or data, or a loss that is not the scalar mean over its batch.
    """
    if not callable(loss):
        raise ConfigError(f"loss must be a function (parameters, batch) -> scalar; got {type(loss).__name__}.")
    if not records:
        raise ConfigError("No records were given; needed is at least one array [K, n, ...] after the parameters.")
    if accuracy is not None and len(records) != 2:
        raise ConfigError(
            f"accuracy= needs exactly features and targets; got {len(records)} array(s) of records. Leave accuracy out."
        )
    names = ("features", "targets", *(f"records_{i}" for i in range(2, len(records))))[: len(records)]
    features, sizes = pad_records(records[0], name=names[0])
    arrays: dict[str, Any] = {names[0]: features}
    for name, part in zip(names[1:], records[1:], strict=True):
        arrays[name], _ = pad_records(part, sizes, name=name)
    arrays["count"] = sizes.astype(np.float64)
    parameters = _checked_parameters(initial_parameters)
    _check_loss(loss, parameters, [arrays[name] for name in names], sizes)
    return CustomLoss(
        loss=loss,
        initial_parameters=parameters,
        arrays=arrays,
        sizes=sizes,
        ridge=checked("ridge", ridge, "[0, inf)"),
        accuracy_of=accuracy,
        details={"loss": getattr(loss, "__qualname__", type(loss).__name__)},
    )


def _checked_parameters(parameters: Parameters) -> Parameters:
    """The same structure with float64 leaves."""
    import jax
    import jax.numpy as jnp

    if not jax.tree.leaves(parameters):
        raise ConfigError("initial_parameters hold no array; needed is at least one number to learn.")

    def checked(path: Any, leaf: Any) -> Floats:
        where = f"initial_parameters{jax.tree_util.keystr(path)}"
        try:
            kind: Any = jnp.result_type(leaf)
        except TypeError:
            raise ConfigError(
                f"{where} is a {type(leaf).__name__}, not an array. Give the arrays of a model only and keep the rest inside the loss: "
                f"eqx.partition(model, eqx.is_inexact_array) and nnx.split(model) take a model apart."
            ) from None
        if not jnp.issubdtype(kind, jnp.floating):
            raise ConfigError(
                f"{where} is of type {kind}; parameters must be real floating-point arrays. Keep constants and whole "
                f"numbers inside the loss."
            )
        array = np.array(leaf, dtype=np.float64)
        if array.size == 0 or not np.isfinite(array).all():
            raise ConfigError(f"{where} must be non-empty and finite; got shape {array.shape}. Draw it again.")
        array.setflags(write=False)
        return array

    return jax.tree_util.tree_map_with_path(checked, parameters)


def _check_scalar(values: list[Any]) -> None:
    import jax.numpy as jnp

    if len(values) != 1 or values[0].shape != () or not jnp.issubdtype(values[0].dtype, jnp.floating):
        found = ", ".join(f"{value.dtype} of shape {value.shape}" for value in values) or "nothing"
        raise ConfigError(
            f"loss must return one real number, the mean over the batch; it returned {found}. Use .mean()."
        )


def _check_loss(loss: Loss, parameters: Parameters, arrays: list[Any], sizes: NDArray[np.int64]) -> None:
    """Refuse a loss that is no scalar, or not the mean of the losses of single records."""
    import jax
    import jax.numpy as jnp

    with jax.enable_x64(False):
        piles = [np.concatenate([rows[:n] for rows, n in zip(array, sizes, strict=True)]) for array in arrays]
        batch = tuple(jnp.asarray(pile[:_CHECKED_RECORDS]) for pile in piles)
        start = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), parameters)
        _check_scalar(jax.tree.leaves(jax.eval_shape(loss, start, batch)))

        def both(w: Parameters, batch: tuple[Array, ...]) -> tuple[Array, Array]:
            return loss(w, batch), jax.vmap(lambda record: loss(w, tuple(part[None] for part in record)))(batch)

        together, alone = (np.asarray(found, dtype=float) for found in jax.jit(both)(start, batch))
    # Values that are not finite cannot be compared; they stop the run, which names the agent.
    scale = np.abs(alone).mean()
    if np.isfinite(together) and np.isfinite(scale) and abs(together - np.mean(alone)) > _CHECK_TOLERANCE * scale:
        raise ConfigError(
            f"loss of {len(alone)} records together is {together:.6g}, but the mean of their losses alone is "
            f"{np.mean(alone):.6g}. Return the mean (not the sum), and do not let records of a batch influence each other "
            f"(no batch normalisation): else no record's gradient can be clipped."
        )
