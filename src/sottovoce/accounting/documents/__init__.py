"""Privacy numbers as documents print them: each under its source, with a verdict, and never as a guarantee of ours.

Every function evaluates one printed statement and returns a `DocumentStatement`, which says whether the number is an
upper bound for what the document claims. Where a formula had to be mended, the mended form is a second function. One
module per document:

    vlaski_sayed         Vlaski & Sayed, chapter 11: diffusion with graph-homomorphic Laplace noise
    rizk                 Rizk et al. 2023: sensitivity with high probability, epsilon, mutual information
    showkatbakhsh        Showkatbakhsh et al.: two-stage gradient descent with Gaussian noise, and its schedule
    showkatbakhsh_error  the same document's error bound
    cyffers_walk         Cyffers & Bellet 2022: a walking token on the ring and the complete graph
    appfl                APPFL notes: how much one step of federated averaging or inexact ADMM changes with one record
    cyffers_muffliato    Cyffers et al. 2022: what gossip averaging tells one agent about another, as a sum over messages
    pn_fdp               Li et al. 2025, PN-f-DP: what a walking token tells one agent about another, by first visits
    sabater_gopa         Sabater et al. 2022, GOPA: closed forms for cancelling noise of pairs
"""

from sottovoce.accounting.documents.appfl import (
    appfl_admm_sensitivity,
    appfl_removal_as_printed,
    appfl_removal_sensitivity,
    appfl_replacement_sensitivity,
)
from sottovoce.accounting.documents.cyffers_muffliato import (
    cyffers_muffliato_epsilon,
    cyffers_muffliato_mean_epsilon,
)
from sottovoce.accounting.documents.cyffers_walk import (
    cyffers_complete_gradient_epsilon,
    cyffers_complete_sum_epsilon,
    cyffers_known_senders_epsilon,
    cyffers_lemma_epsilon,
    cyffers_ring_epsilon,
    cyffers_ring_histogram_share,
    cyffers_visits,
)
from sottovoce.accounting.documents.pn_fdp import pn_fdp_epsilon
from sottovoce.accounting.documents.rizk import (
    rizk_epsilon,
    rizk_failure_probability,
    rizk_mutual_information,
    rizk_sensitivity,
)
from sottovoce.accounting.documents.sabater_gopa import (
    sabater_gopa_complete_variance,
    sabater_gopa_connected_variance,
    sabater_gopa_k_out_variance,
    sabater_gopa_kappa,
    sabater_gopa_least_k,
    sabater_gopa_own_variance,
    sabater_gopa_theta_max,
)
from sottovoce.accounting.documents.showkatbakhsh import (
    showkatbakhsh_budget,
    showkatbakhsh_condition,
    showkatbakhsh_epsilon,
    showkatbakhsh_exact_budget,
    showkatbakhsh_gaussian_variance,
    showkatbakhsh_gaussian_variance_as_printed,
    showkatbakhsh_kappa,
    showkatbakhsh_noise_ratio,
    showkatbakhsh_schedule,
    showkatbakhsh_spent_share,
)
from sottovoce.accounting.documents.showkatbakhsh_error import (
    ShowkatbakhshSetting,
    showkatbakhsh_error_bound,
    showkatbakhsh_error_bound_as_printed,
)
from sottovoce.accounting.documents.statement import DocumentStatement
from sottovoce.accounting.documents.vlaski_sayed import (
    vlaski_sayed_epsilon,
    vlaski_sayed_epsilon_as_printed,
    vlaski_sayed_sensitivity,
)

__all__ = [
    "DocumentStatement",
    "ShowkatbakhshSetting",
    "appfl_admm_sensitivity",
    "appfl_removal_as_printed",
    "appfl_removal_sensitivity",
    "appfl_replacement_sensitivity",
    "cyffers_complete_gradient_epsilon",
    "cyffers_complete_sum_epsilon",
    "cyffers_known_senders_epsilon",
    "cyffers_lemma_epsilon",
    "cyffers_muffliato_epsilon",
    "cyffers_muffliato_mean_epsilon",
    "cyffers_ring_epsilon",
    "cyffers_ring_histogram_share",
    "cyffers_visits",
    "pn_fdp_epsilon",
    "rizk_epsilon",
    "rizk_failure_probability",
    "rizk_mutual_information",
    "rizk_sensitivity",
    "sabater_gopa_complete_variance",
    "sabater_gopa_connected_variance",
    "sabater_gopa_k_out_variance",
    "sabater_gopa_kappa",
    "sabater_gopa_least_k",
    "sabater_gopa_own_variance",
    "sabater_gopa_theta_max",
    "showkatbakhsh_budget",
    "showkatbakhsh_condition",
    "showkatbakhsh_epsilon",
    "showkatbakhsh_error_bound",
    "showkatbakhsh_error_bound_as_printed",
    "showkatbakhsh_exact_budget",
    "showkatbakhsh_gaussian_variance",
    "showkatbakhsh_gaussian_variance_as_printed",
    "showkatbakhsh_kappa",
    "showkatbakhsh_noise_ratio",
    "showkatbakhsh_schedule",
    "showkatbakhsh_spent_share",
    "vlaski_sayed_epsilon",
    "vlaski_sayed_epsilon_as_printed",
    "vlaski_sayed_sensitivity",
]


def __dir__() -> list[str]:
    return [*__all__]
