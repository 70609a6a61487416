"""Rounds, step and clip for private logistic regression, from public numbers alone: a rule of thumb, not a default.

Records have length at most 1. With clip C their gradients average to what one replaced record changes by 2C/n, so T rounds for mu need noise of
deviation sigma sqrt(T) in every coordinate of the average gradient, with sigma = 2C / (n mu). Let R be the length of a useful model, and let
the steps s cover a way H = s T. Gradient descent with that noise has an excess risk, on average over the rounds, of at most

    R^2 / (2 H) + H d sigma^2 / 2,    smallest for    H = R / (sigma sqrt(d)) = R n mu / (2 C sqrt(d))

(the usual bound of convex optimisation, with steps small enough). It depends on T through H only: many small steps cost as much as few large ones.

    C = 1/4    then a record's slope is at most 1/4, where the logistic loss bends by at most (1/4)(3/4) = 3/16: beta = 3/16
    s = 8      below 2/beta = 10.7, so that no direction is unstable, whatever the records
    R = 10     a record of length 1 can then be predicted with any certainty; H = 20 n mu / sqrt(d)
    T = H / s  at least 10, with smaller steps, and at most 500

A fifth of mu^2 is for the mean of the records, released first (`problems.centring`): mu^2 = mu_mean^2 + mu_learning^2. C, R and the fifth were chosen
on other data than those the rule is measured on; docs/private-accuracy.md names both.
"""

import math
from dataclasses import dataclass

from sottovoce.accounting import gaussian
from sottovoce.numbers import checked, whole

CLIP, STEP_SIZE, MODEL_LENGTH = 0.25, 8.0, 10.0
FEWEST_ROUNDS, MOST_ROUNDS = 10, 500
MEAN_SHARE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendedSetting:
    """What to try first; make it with `recommended_setting`.

    Attributes:
        rounds: of learning.
        step_size: of gradient descent on the average of all records' gradients.
        clip: of every record's gradient, in l2.
        mean_epsilon: what the mean may cost by itself at the same delta; 0 where no mean is released.
        learning_epsilon: what the rounds together may cost by themselves at the same delta.
    """

    rounds: int
    step_size: float
    clip: float
    mean_epsilon: float
    learning_epsilon: float


def recommended_setting(
    *, records: int, parameters: int, epsilon: float, delta: float, mean_share: float = MEAN_SHARE
) -> RecommendedSetting:
    """A setting for logistic regression with noise in the average, by a rule from public numbers alone.

    For records of length at most 1, Gaussian noise and one record replaced. Nothing of it is looked up in data, so that
    using it costs no privacy; the number of records is taken to be public, as everywhere here.

    Args:
        records: n, of all agents together.
        parameters: d, of the model, intercept included.
        epsilon: of the mean and all rounds together, for whoever sees every average.
        delta: of that epsilon, and of the two epsilons that are returned.
        mean_share: how much of mu^2 is for the mean; 0: none is released.

    Returns:
        The setting; the Gaussian losses of its two epsilons add up to that of `epsilon`.

    Raises:
        ConfigError: a number outside its range.
    """
    whole("records", records), whole("parameters", parameters)
    checked("epsilon", epsilon, "(0, inf)"), checked("delta", delta, "(0, 1)")
    share = checked("mean_share", mean_share, "[0, 1)")
    mu = gaussian.mu(epsilon, delta)
    learning_mu, mean_mu = mu * math.sqrt(1.0 - share), mu * math.sqrt(share)
    way = MODEL_LENGTH * records * learning_mu / (2.0 * CLIP * math.sqrt(parameters))
    rounds = min(max(math.ceil(way / STEP_SIZE), FEWEST_ROUNDS), MOST_ROUNDS)
    return RecommendedSetting(
        rounds=rounds,
        step_size=min(way / rounds, STEP_SIZE),
        clip=CLIP,
        mean_epsilon=gaussian.epsilon(mean_mu, delta) if share else 0.0,
        learning_epsilon=gaussian.epsilon(learning_mu, delta),
    )
