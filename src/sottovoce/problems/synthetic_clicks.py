"""Synthetic click-through data, for Rizk et al. 2023, experiment B, where the Avazu data cannot be had.

A record is one shown advertisement, described by one category in each of F fields (site, device, hour, ...):

    category of field f:   rank r with probability proportional to r^-1.1, r = 1..C_f;  C_f from 4 to 400
    features:              x = one-hot categories hashed to d columns, each present column 1 / sqrt(F);  ||x||_2 <= 1
    click:                 P(y = 1) = 1 / (1 + exp(-(x.w* + b))),   w* ~ N(0, signal^2 I)

The intercept b is set so that the click probability is `click_rate` on average, 17 % as in Avazu. Everything else is our
choice and imitates the shape of such data (few frequent categories, many rare ones, few clicks), not their content.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sottovoce.numbers import checked, whole
from sottovoce.resources import refuse_too_large

Floats = NDArray[np.float64]

_CATEGORIES = (4, 400)  # of the smallest and of the largest field
_POWER = 1.1


def synthetic_clicks(
    *,
    num_records: int,
    num_fields: int = 10,
    dimension: int = 100,
    click_rate: float = 0.17,
    signal: float = 3.0,
    seed: int,
) -> tuple[Floats, Floats]:
    """Draw sparse categorical records and whether each was clicked.

    Args:
        num_records: N.
        num_fields: F, categories of one record.
        dimension: d, columns that the categories are hashed to; two categories may share one.
        click_rate: the average click probability.
        signal: the standard deviation of the hidden model's entries; with the default, a good classifier is wrong for about
            13 % of the records, and one that never expects a click for 17 %.
        seed: of NumPy's generator; the same seed gives the same data.

    Returns:
        (features [N, d], labels [N]: 1 clicked, -1 not).

    Raises:
        ConfigError: a count below 1, a rate not strictly between 0 and 1, or a signal that is negative or not finite.
    """
    for name, count in (("num_records", num_records), ("num_fields", num_fields), ("dimension", dimension)):
        whole(name, count)
    checked("click_rate", click_rate, "(0, 1)")
    checked("signal", signal, "[0, inf)")
    refuse_too_large(
        f"{num_records:,} records of dimension {dimension:,} and {num_fields:,} fields",
        float(num_records) * (8.0 * dimension + 40.0) + 8.0 * num_fields,
        "Lower the number of records or the dimension.",
    )
    generator = np.random.default_rng(seed)
    features = np.zeros((num_records, dimension))
    for num_categories in np.rint(np.geomspace(*_CATEGORIES, num_fields)).astype(int):
        frequencies = np.arange(1.0, num_categories + 1.0) ** -_POWER
        column_of = generator.integers(dimension, size=num_categories)
        categories = generator.choice(num_categories, size=num_records, p=frequencies / frequencies.sum())
        features[np.arange(num_records), column_of[categories]] = 1.0 / math.sqrt(num_fields)
    logits = features @ (signal * generator.standard_normal(dimension))
    widest = 50.0 + float(np.abs(logits).max())
    from scipy.optimize import brentq
    from scipy.special import expit

    intercept = brentq(lambda b: float(expit(logits + b).mean()) - click_rate, -widest, widest)
    clicked = generator.random(num_records) < expit(logits + intercept)
    return features, np.where(clicked, 1.0, -1.0)
