"""The record behind a gradient.

The gradient of ONE record of a linear model is a multiple of its feature vector, once the ridge is taken off:

    linear regression     g - 2 ridge w = -2 e x,   e = target - x.w            (Vlaski & Sayed, eq. 11.5)
    logistic regression   g - ridge w   = -y c x,   c = 1 / (1 + exp(y x.w))    (eq. 11.7, with the label y)

in this library's losses, (target - x.w)^2 + ridge ||w||^2 and ln(1 + exp(-y x.w)) + (ridge/2) ||w||^2. The document
prints 11.7 without y, which would make the direction independent of the label. As c > 0, logistic regression gives the
direction of y x with its sign, linear regression only up to sign.

A model with an intercept gives everything: x has a coordinate that is publicly 1, so dividing by that coordinate of g -
ridge term leaves x itself, and the coordinate is -2 e or -y c, hence the target or the label.

A batch, or all records of an agent, gives a weighted sum of feature vectors; no single one is determined.
`similarity_to_records` then says how close the sum is to the nearest record. Noise of standard deviation s per
coordinate on the gradient: with R the length of g - ridge term, the similarity q = |cos| has q^2 / (1 - q^2) (d - 1) ~
noncentral F(1, d - 1, (R/s)^2) for Gaussian noise.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from sottovoce.attacks.arrays import Floats, finite, same_shape
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.numbers import checked, chosen, whole
from sottovoce.problems import LinearRegression, LogisticRegression, Problem

LOSSES = ("linear_regression", "logistic_regression")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecoveredDirections:
    """What gradients say about feature vectors.

    Attributes:
        directions: [n, d] unit vectors: of y x for logistic regression, of x or -x for linear regression.
        strengths: [n] length of the gradient without its ridge term: what noise has to hide.
        signed: whether the sign is known (logistic regression).
    """

    directions: Floats
    strengths: Floats
    signed: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecoveredRecords:
    """Whole records, from models with an intercept.

    Attributes:
        features: [n, d] with the intercept's 1.
        targets: [n] the target, or the label -1 or 1.
    """

    features: Floats
    targets: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Similarity:
    """How close directions are to records.

    Attributes:
        best: [n] |cos| of the angle to the closest record.
        record: [n] which record that is.
        all: [n, N] |cos| of the angle to every record.
    """

    best: Floats
    record: NDArray[np.int64]
    all: Floats


def recover_directions(gradients: ArrayLike, models: ArrayLike, *, loss: str, ridge: float) -> RecoveredDirections:
    """Directions of feature vectors from gradients of one record each.

    Args:
        gradients: [n, d].
        models: [n, d] where they were taken.
        loss: "linear_regression" or "logistic_regression".
        ridge: the public weight of the ridge, in the convention of that loss.

    Raises:
        IncompatibleChoice: a gradient that is nothing but its ridge term: the record is fitted exactly and shows no
            direction.
    """
    data_part = _without_ridge(gradients, models, loss, ridge)
    strengths = np.linalg.norm(data_part, axis=1)
    if not strengths.all():
        raise IncompatibleChoice(
            f"gradient {int(np.argmin(strengths))} is exactly its ridge term, so its record does not show. Use a "
            f"gradient at a model that does not fit the record."
        )
    return RecoveredDirections(
        directions=-data_part / strengths[:, None], strengths=strengths, signed=loss == "logistic_regression"
    )


def recover_records(
    gradients: ArrayLike, models: ArrayLike, *, loss: str, ridge: float, intercept: int
) -> RecoveredRecords:
    """Whole records from gradients of one record each, when one feature is publicly 1.

    Args:
        gradients: [n, d].
        models: [n, d] where they were taken.
        loss: "linear_regression" or "logistic_regression".
        ridge: the public weight of the ridge.
        intercept: the position of the feature that is 1 in every record.

    Raises:
        IncompatibleChoice: a gradient without any part in the intercept.
    """
    data_part = _without_ridge(gradients, models, loss, ridge)
    if whole("intercept", intercept, least=0) >= data_part.shape[1]:
        raise ConfigError(f"intercept = {intercept}; the models have parameters 0 to {data_part.shape[1] - 1}.")
    derivative = data_part[:, intercept]
    if not derivative.all():
        raise IncompatibleChoice(
            f"gradient {int(np.argmin(np.abs(derivative)))} has no part in the intercept, so nothing can be divided by "
            f"it. Use recover_directions, or a model that does not fit the record."
        )
    features = data_part / derivative[:, None]
    if loss == "logistic_regression":
        return RecoveredRecords(features=features, targets=-np.sign(derivative))
    margins = np.einsum("nd,nd->n", features, finite("models", models, axes=2))
    return RecoveredRecords(features=features, targets=margins - 0.5 * derivative)


def labels_of(directions: RecoveredDirections, features: ArrayLike) -> Floats:
    """[n] the labels -1 or 1 of records whose features are known: the sign of (y x).x.

    Args:
        directions: recovered from logistic regression.
        features: [n, d] the known feature vectors, or any vectors at less than a right angle to them.

    Raises:
        IncompatibleChoice: linear regression, whose gradients do not show a sign.
    """
    known = finite("features", features, axes=2)
    same_shape("features", known, "directions", directions.directions)
    if not directions.signed:
        raise IncompatibleChoice(
            "a gradient of linear regression shows its feature vector only up to sign, so no label can be read off. "
            "Use logistic regression, or recover_records where there is an intercept."
        )
    labels: Floats = np.sign((directions.directions * known).sum(axis=1))
    return labels


def similarity_to_records(directions: RecoveredDirections, records: ArrayLike) -> Similarity:
    """How close each direction is to each record, sign left aside.

    Args:
        directions: recovered directions; of a batch they are a combination of records, and the best similarity says how
            much of one.
        records: [N, d] true feature vectors; zero rows are refused.
    """
    rows = finite("records", records, axes=2)
    lengths = np.linalg.norm(rows, axis=1)
    if rows.shape[1] != directions.directions.shape[1] or not lengths.all():
        raise ConfigError(
            f"records {rows.shape} need {directions.directions.shape[1]} features and no row of zeros, which has no "
            f"direction."
        )
    similarity = np.abs(directions.directions @ (rows / lengths[:, None]).T)
    best = similarity.argmax(axis=1)
    return Similarity(best=similarity.max(axis=1), record=best, all=similarity)


def similarity_distribution(similarity: float, *, signal_to_noise: float, dimension: int) -> float:
    """P(|cos| <= similarity) between a direction recovered under Gaussian noise and the true one.

    Args:
        similarity: in [0, 1).
        signal_to_noise: R/s: strength of the gradient without ridge over the standard deviation of a coordinate's
            noise.
        dimension: d, at least 2.
    """
    q = checked("similarity", similarity, "[0, 1)")
    ratio = checked("signal_to_noise", signal_to_noise, "[0, inf)")
    others = whole("dimension", dimension, least=2) - 1
    return float(stats.ncf.cdf(others * q**2 / (1.0 - q**2), 1, others, ratio**2))


def directions_from_gradients(recovered: Floats, points: Floats, problem: Problem) -> RecoveredDirections:
    """`recover_directions` on gradients [repeats, rounds, d] and points of `gradient_recovery`, rows in that order.

    Raises:
        IncompatibleChoice: a problem other than linear or logistic regression.
    """
    if not isinstance(problem, LinearRegression | LogisticRegression):
        raise IncompatibleChoice(
            f"feature vectors are read off gradients of {' and '.join(LOSSES)}; this is '{problem.kind}'. For a "
            f"network use gradient_matching."
        )
    flat = (np.reshape(values, (-1, problem.dimension)) for values in (recovered, points))
    return recover_directions(*flat, loss=problem.kind, ridge=problem.ridge)


def _without_ridge(gradients: ArrayLike, models: ArrayLike, loss: str, ridge: float) -> Floats:
    g, w = finite("gradients", gradients, axes=2), finite("models", models, axes=2)
    same_shape("gradients", g, "models", w)
    factor = 2.0 if chosen("loss", loss, LOSSES) == "linear_regression" else 1.0
    return g - factor * checked("ridge", ridge, "[0, inf)") * w
