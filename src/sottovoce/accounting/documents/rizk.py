"""Rizk et al. 2023: privacy of noisy distributed learning without a bound on the gradients, "with high probability".

Replacing all data of agent 1 moves the stacked models w_i (P agents) by Delta(i) = ||w_i - w'_i||. The document states

    eq. 28, 66   Delta(i) <= B + B' + sqrt(P) ||w^o - w'^o||                                            for chosen B, B'
    eq. 29, 67   P(eq. 28) >= (1 - E||w~_i||^2 / B^2) (1 - E||w~'_i||^2 / B'^2)
    eq. 31       epsilon(i) = sqrt(2) P / sigma_g  sum_{j<i} Delta(j)
    eq. 55       I(w; w + g) = (1/2) log(1 + sigma_w^2 / sigma_g^2)                               for Gaussian w and g

with w~ the stacked distance to the optimum w^o, primes for the replaced data, sigma_g the noise's standard deviation
per coordinate.

Eq. 31 is no differential privacy, for five reasons:

 1. Delta compares runs with equal noise; eq. 30 divides densities, which compares runs with equal messages. Under
    graph-homomorphic noise the second distance can be any multiple of the first.
 2. eq. 30 (a) conditions on w_{p,j-1}, which the observer does not see.
 3. eq. 30 (b) writes l2 norms into a density whose coordinates are independent Laplace: up to sqrt(M) too small.
 4. eq. 29 is about one round; epsilon(i) needs all i rounds at once.
 5. With unbounded gradients the ratio of densities is unbounded, and the chance of a large one enters nowhere, not
    even as a delta.

The factor P stands for the number of links that carry separate draws from the agent: it is at most P - 1, and 1 for a
broadcast. Theorem 3 claims the same epsilon(i) for local graph-homomorphic noise; the receiver, at which that noise
cancels, is not covered at all.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from sottovoce.accounting.documents.statement import DocumentStatement
from sottovoce.errors import ConfigError
from sottovoce.numbers import checked, chosen, whole


def rizk_sensitivity(
    *, error_bound: float, changed_error_bound: float, optimum_shift: float, num_agents: int
) -> DocumentStatement:
    """Eq. 28 (66): the distance of the two runs' stacked models, B + B' + sqrt(P) ||w^o - w'^o||.

    States: Delta(i) is at most this with the probability of eq. 29.
    For whom: nobody; it is a distance between two runs.
    Upper bound: only in rounds where ||w~_i|| <= B and ||w~'_i|| <= B' (the triangle inequality, eq. 61), hence not
    always.

    Args:
        error_bound: B, chosen by the user.
        changed_error_bound: B', the same for the replaced data.
        optimum_shift: ||w^o - w'^o||. It depends on the data of both worlds: a user has it only as a worst case over
            all data.
        num_agents: P.
    """
    B, B_changed = (
        checked("error_bound", error_bound, "(0, inf)"),
        checked("changed_error_bound", changed_error_bound, "(0, inf)"),
    )
    shift = checked("optimum_shift", optimum_shift, "[0, inf)")
    return DocumentStatement(
        value=B + B_changed + math.sqrt(whole("num_agents", num_agents)) * shift,
        kind="sensitivity",
        source="Rizk et al. 2023, eq. 28",
        upper_bound=False,
        verdict="it bounds the distance of the two runs only while both errors stay within the chosen bounds",
    )


def rizk_failure_probability(
    *,
    mean_square_error: float,
    changed_mean_square_error: float,
    error_bound: float,
    changed_error_bound: float,
) -> DocumentStatement:
    """Eq. 29 (67), read as the chance that eq. 28 fails in round i.

    States: P(Delta(i) exceeds eq. 28) <= 1 - (1 - x)(1 - y), with x = E||w~_i||^2 / B^2 and y likewise with primes.
    For whom: nobody; it is about the distance of two runs, in one round.
    Upper bound: yes, in one round. The document multiplies probabilities as if the two runs were independent, which
    they are not, yet the result stands for any dependence: Delta(i) above eq. 28 needs ||w~|| + ||w~'|| > B + B', and
    Markov's and Minkowski's inequalities bound that by ((B sqrt x + B' sqrt y)/(B + B'))^2 <= max(x, y). It does not
    make eq. 31 private.

    Args:
        mean_square_error: E||w~_i||^2 of the stacked models, or a bound on it. Eq. 64 gives it only up to O(mu) +
            O(1/mu), so the document alone cannot supply it; for quadratic losses it is P times the average of
            `theory.expected_msd`.
        changed_mean_square_error: the same for the replaced data.
        error_bound: B.
        changed_error_bound: B'.

    Raises:
        ConfigError: if a factor of eq. 29 is negative, where the product says nothing.
    """
    x = (
        checked("mean_square_error", mean_square_error, "[0, inf)")
        / checked("error_bound", error_bound, "(0, inf)") ** 2
    )
    y = checked("changed_mean_square_error", changed_mean_square_error, "[0, inf)")
    y /= checked("changed_error_bound", changed_error_bound, "(0, inf)") ** 2
    if max(x, y) > 1.0:
        raise ConfigError(
            f"mean square errors are {x:g} and {y:g} of the squared bounds; eq. 29 says something only up to 1. "
            f"Choose larger error bounds."
        )
    return DocumentStatement(
        value=x + y - x * y,
        kind="probability",
        source="Rizk et al. 2023, eq. 29",
        upper_bound=True,
        verdict=(
            "in any one round the distance of the two runs exceeds eq. 28 at most this often, though not for the "
            "reason given; all rounds together may fail more often, and a distance of runs is no privacy loss"
        ),
    )


def rizk_epsilon(sensitivities: Sequence[float], *, num_agents: int, std: float) -> DocumentStatement:
    """Eq. 31: epsilon(i) = sqrt(2) P / sigma_g times the sum of Delta(0), ..., Delta(i-1).

    States: the noisy algorithm (24)-(26), and by Theorem 3 local graph-homomorphic noise, is epsilon(i)-differentially
    private "with high probability".
    For whom: Definition 1, someone who reads what one agent sends to all its neighbours. The unit is the agent.
    Upper bound: no; see the module for the reasons. It can be above or below the exact value.

    Args:
        sensitivities: Delta(j) for every round. The document has them only as eq. 28, the same number i times; the true
            ones depend on the data.
        num_agents: P.
        std: sigma_g, the standard deviation of one coordinate of the Laplace noise.
    """
    if len(sensitivities) == 0:
        raise ConfigError("sensitivities is empty; give one number for every round.")
    total = float(np.sum([checked("a sensitivity", delta, "[0, inf)") for delta in sensitivities]))
    return DocumentStatement(
        value=math.sqrt(2.0) * whole("num_agents", num_agents) / checked("std", std, "(0, inf)") * total,
        kind="epsilon",
        source="Rizk et al. 2023, eq. 31",
        upper_bound=False,
        verdict=(
            "for someone who reads what one agent sends; it measures runs with equal noise instead of equal messages, "
            "conditions on a model nobody observes, uses l2 norms for independent Laplace coordinates, and leaves the "
            "rounds that fail out of account"
        ),
    )


def rizk_mutual_information(
    *, message_variance: float, noise_variance: float, noise: Literal["gaussian", "laplace"]
) -> DocumentStatement:
    """Eq. 55: what one noisy coordinate tells about one message coordinate, (1/2) ln(1 + sigma_w^2 / sigma_g^2) nats.

    States: the mutual information of a Gaussian message and the same message with Gaussian noise.
    For whom: someone who sees one message, once. It is an average over messages, not over the worst data, and says
    nothing about repeated messages, whose information adds up, nor about differential privacy.
    Upper bound: with Gaussian noise yes, for every message law of that variance (the Gaussian message is the most
    telling one). With Laplace noise, which the document's algorithms use, no: a Gaussian message tells more through
    Laplace noise of equal variance.

    Args:
        message_variance: sigma_w^2 of one coordinate of the message; a property of the data that the user must
            estimate.
        noise_variance: sigma_g^2 of one coordinate of the noise.
        noise: the law of the noise that is added.
    """
    ratio = checked("message_variance", message_variance, "(0, inf)") / checked(
        "noise_variance", noise_variance, "(0, inf)"
    )
    gaussian = chosen("noise", noise, ("gaussian", "laplace")) == "gaussian"
    reason = (
        "no message law of this variance tells more through Gaussian noise"
        if gaussian
        else "a Gaussian message tells more through Laplace noise of the same variance"
    )
    return DocumentStatement(
        value=0.5 * math.log1p(ratio),
        kind="mutual-information",
        source="Rizk et al. 2023, eq. 55",
        upper_bound=gaussian,
        verdict=f"nats about one coordinate of one message, on average, no differential privacy; {reason}",
    )
