"""A learnt model with all that is needed to use it: how a table becomes inputs, how inputs become answers, and what the answers are called.

    linear_regression      x.w, in the target's units
    logistic_regression    yes with probability s(x.w)
    classification         softmax of a network's logits

It knows no record: what it holds beside its parameters is declared in public. The functions are NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.problems.columns import Schema, Table
from sottovoce.problems.loaders import add_intercept, scale_features, unit_norm
from sottovoce.problems.networks import NETWORKS, Layer, Parameters, Shapes
from sottovoce.wording import brief

Floats = NDArray[np.float64]
INTERCEPT = "(intercept)"


class Architecture(NamedTuple):
    """The shape of a network."""

    model: str  # a name in NETWORKS
    hidden: tuple[int, ...]
    classes: int
    shape: tuple[int, ...]  # of one record


class Preparation(NamedTuple):
    """What is done to numbers without names before a model takes them; a schema says it of named columns."""

    bounds: tuple[tuple[float, float], ...] | None = None  # of each feature; None: taken as they are
    unit_norm: bool = False
    intercept: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        bounds = None if self.bounds is None else [list(pair) for pair in self.bounds]
        return {"bounds": bounds, "unit_norm": self.unit_norm, "intercept": self.intercept}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Preparation:
        """What `as_dict` gave."""
        bounds = None if plain["bounds"] is None else tuple((float(low), float(high)) for low, high in plain["bounds"])
        return cls(bounds, bool(plain["unit_norm"]), bool(plain["intercept"]))

    def inputs(self, rows: Floats) -> Floats:
        """The inputs of a model [N, d] for rows of numbers."""
        if self.bounds is not None:
            rows = scale_features(rows, self.bounds)
        if self.unit_norm:
            rows = unit_norm(rows)
        return add_intercept(rows, keep_norm=self.unit_norm) if self.intercept else rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Model:
    """One model, ready to be used.

    Attributes:
        kind: of the problem that it solves.
        parameters: [d].
        schema: what the columns of a table mean; None: it takes arrays.
        preparation: of arrays, where there is no schema.
        architecture: of a network; None for linear models.
        structure: a pytree of the shape of the parameters of a user's own loss; None where it is not known.
    """

    kind: str
    parameters: NDArray[Any]
    schema: Schema | None = None
    preparation: Preparation = field(default_factory=Preparation)
    architecture: Architecture | None = None
    structure: Any = None

    def __repr__(self) -> str:
        return f"Model({self.kind}, {len(self.parameters)} parameters, {'arrays' if self.schema is None else 'tables'})"

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the inputs, in order."""
        if self.schema is not None:
            return self.schema.features
        count = len(self.parameters) if self.architecture is None else int(np.prod(self.architecture.shape))
        names = tuple(f"feature {index}" for index in range(count))
        return (*names[:-1], INTERCEPT) if self.preparation.intercept else names

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The classes, in the order of probabilities; None where numbers are predicted."""
        if self.kind not in ("logistic_regression", "classification"):
            return None
        if self.schema is not None and self.schema.classes is not None:
            return self.schema.classes
        return (-1, 1) if self.architecture is None else tuple(range(self.architecture.classes))

    def predict(self, data: Any) -> NDArray[Any]:
        """The answer for every record, [N]: the most probable class, or a number in the target's units.

        Args:
            data: a DataFrame, a dict of columns or a Table where columns were declared; else an array [N, d].

        Raises:
            ConfigError: other columns than those declared, or values that do not fit.
            UnsupportedClaim: models of this kind answer no questions.
        """
        scores = self._scores(data)
        if self.classes is None:
            return scores if self.schema is None else self.schema.in_units_of_target(scores)
        chosen = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        answers: NDArray[Any] = np.array(self.classes)[chosen]
        return answers

    def predict_proba(self, data: Any) -> Floats:
        """The probability of every class, [N, classes].

        Args:
            data: as for `predict`.

        Raises:
            UnsupportedClaim: numbers are predicted, not classes.
        """
        if self.classes is None:
            raise UnsupportedClaim(f"'{self.kind}' has no classes, so no probabilities of them. Use predict.")
        scores = self._scores(data)
        logits = scores if scores.ndim == 2 else np.column_stack([np.zeros(len(scores)), scores])
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares: Floats = powers / powers.sum(axis=1, keepdims=True)
        return shares

    def coefficients(self) -> Any:
        """The parameters by name: a frame with one row per feature where pandas is there, else a dict; of a network its layers.

        Raises:
            UnsupportedClaim: the structure of a user's own parameters was not kept.
        """
        if self.kind == "custom_loss":
            return self._structured()
        if self.architecture is not None:
            return self._layers()
        values = self.parameters.astype(np.float64)
        try:
            import pandas
        except ImportError:
            return dict(zip(self.features, values.tolist(), strict=True))
        return pandas.DataFrame({"coefficient": values}, index=pandas.Index(self.features, name="feature"))

    def inputs(self, data: Any) -> Floats:
        """What the model takes for these records: the very preparation with which it learnt, [N, d].

        Raises:
            ConfigError: other columns than those declared, or values that do not fit.
        """
        if self.schema is not None:
            if isinstance(data, np.ndarray | list | tuple):
                raise ConfigError(
                    f"the model takes named columns ({', '.join(c.name for c in self.schema.columns[:3])}, ..), and an array has no names. Give "
                    f"a DataFrame or a dict of columns."
                )
            return self.schema.inputs(data)
        return self.preparation.inputs(self._rows(data))

    def _rows(self, data: Any) -> Floats:
        """An array of numbers [N, d], d as many as the model takes before an intercept is added."""
        if isinstance(data, Mapping | Table) or hasattr(data, "columns"):
            raise ConfigError(
                "the model learnt from arrays, so it does not know which column is which. Give an array [N, d], its columns in the order of "
                "learning; to use names, declare the columns (sv.problems.Schema)."
            )
        needed = len(self.features) - self.preparation.intercept
        try:
            rows = np.asarray(data, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"predictions are made for an array of numbers [N, {needed}]; got {error}.") from error
        flat = rows.reshape(len(rows), -1) if rows.ndim > 1 else rows
        if flat.ndim != 2 or flat.shape[1] != needed:
            raise ConfigError(
                f"predictions are made for an array [N, {needed}], one row per record; got shape {rows.shape}. Give the features of "
                f"learning, in its order."
            )
        if not np.isfinite(flat).all():
            raise ConfigError(
                "an input is not a finite number; predictions need all of them. Fill in or leave out such records."
            )
        return flat

    def _scores(self, data: Any) -> Floats:
        """x.w of every record [N], or the logits of a network [N, classes]."""
        if self.kind == "mean_estimation":
            raise UnsupportedClaim("the model is an estimated mean, which predicts nothing. Use coefficients().")
        if self.kind == "custom_loss":
            raise UnsupportedClaim(
                "a loss of your own does not say how its parameters answer. Use coefficients() with your own function."
            )
        inputs = self.inputs(data)
        if self.architecture is None:
            found: Floats = inputs @ self.parameters.astype(np.float64)
            return found
        images = inputs.reshape(len(inputs), *self.architecture.shape)
        return np.asarray(NETWORKS[self.architecture.model].logits(self._layers(), images), dtype=np.float64)

    def _layers(self) -> Parameters:
        assert self.architecture is not None  # asked of networks only
        made, place, values = [], 0, self.parameters.astype(np.float64)
        for inputs, outputs in layers_of(self.architecture):
            middle, end = place + inputs * outputs, place + (inputs + 1) * outputs
            made.append(Layer(values[place:middle].reshape(inputs, outputs), values[middle:end]))
            place = end
        return tuple(made)

    def _structured(self) -> Any:
        if self.structure is None:
            raise UnsupportedClaim(
                "the structure of your own parameters is not kept in a folder. Use problem.parameters(run.common[0]) with the problem."
            )
        import jax

        leaves, tree = jax.tree.flatten(self.structure)
        ends = np.cumsum([np.size(leaf) for leaf in leaves])
        parts = [
            self.parameters[end - np.size(leaf) : end].reshape(np.shape(leaf))
            for leaf, end in zip(leaves, ends, strict=True)
        ]
        return jax.tree.unflatten(tree, parts)


def layers_of(architecture: Architecture) -> Shapes:
    """(inputs, outputs) of every layer.

    Raises:
        ConfigError: no such network, or records that it cannot take.
    """
    if architecture.model not in NETWORKS:
        raise ConfigError(
            f"model = {brief(architecture.model)!r} is unknown; choose one of {', '.join(map(repr, NETWORKS))}."
        )
    return NETWORKS[architecture.model].shapes(architecture.shape, architecture.hidden, architecture.classes)


def size_of(kind: str, features: int, architecture: Architecture | None) -> int | None:
    """How many parameters a model has; None where only its maker knows (a loss of one's own).

    Raises:
        ConfigError: a network that cannot be.
    """
    if kind == "custom_loss":
        return None
    if architecture is None:
        return features
    return sum((inputs + 1) * outputs for inputs, outputs in layers_of(architecture))
