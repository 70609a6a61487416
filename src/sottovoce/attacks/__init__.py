"""Attacks: what an observer really learns, and what its success proves.

An attack reads what an observer saw (`simulation.views`), or what can be made from it. Its scores in two neighbouring worlds become a lower bound on
epsilon or mu in `bounds`, to be held against the accountant's upper bound: lower bound <= truth <= guarantee. `audit` does all of it.

`ATTACKS` is a catalogue, for `sottovoce list` and the documentation: each entry takes the arguments that it needs.
"""

from collections.abc import Callable
from typing import Any

from sottovoce.attacks import bounds
from sottovoce.attacks.averaging import average_from_views
from sottovoce.attacks.bounds import LowerBound
from sottovoce.attacks.feature_recovery import directions_from_gradients, similarity_distribution
from sottovoce.attacks.gradient_matching import dense_input, match_gradient
from sottovoce.attacks.gradient_recovery import gradients_from_views, recover_average_gradient, weighted_sum_at_receiver
from sottovoce.attacks.likelihood import matched_filter
from sottovoce.attacks.membership import likelihood_ratio, loss_threshold
from sottovoce.attacks.neighbour_optimum import logistic_optimum, quadratic_optimum
from sottovoce.attacks.nonlinear_relay import nonlinear_relay
from sottovoce.attacks.transcript import transcript_reader

ATTACKS: dict[str, Callable[..., Any]] = {
    "gradient": gradients_from_views,
    "features": directions_from_gradients,
    "receiver_sum": weighted_sum_at_receiver,
    "averaging": average_from_views,
    "quadratic_optimum": quadratic_optimum,
    "logistic_optimum": logistic_optimum,
    "image": match_gradient,
    "loss_threshold": loss_threshold,
    "likelihood_ratio": likelihood_ratio,
    "matched_filter": matched_filter,
    "transcript": transcript_reader,
    "nonlinear_relay": nonlinear_relay,
}

__all__ = ["ATTACKS", "LowerBound", "bounds"]


def __dir__() -> list[str]:
    return [*__all__, "audit"]
