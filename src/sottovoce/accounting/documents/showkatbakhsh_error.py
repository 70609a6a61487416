"""Showkatbakhsh et al., Corollary 2: how far agents end from the optimum, as printed and as proved.

Setting of Theorem 2: local sums f_i that are mu-strongly convex, L-smooth and G-Lipschitz on the convex set X; steps
a / t with a = (mu + L) / (2 mu L); noise M_t^2 = (2 / kappa) a^2 sqrt(T) / t^1.5; beta the second largest eigenvalue
modulus of the symmetric, doubly stochastic weights. Corollary 2, eq. 17, for t > T:

    E||x_i(t) - x*||^2 <= 2 C_exp beta^(2t-2T) + 2 C_T / T + 2 C_log ln(T) / T + 2 C_root / sqrt(T) + 2 C_(eps,delta)

                   as printed (Theorem 2, Corollary 2)                   what the proof gives
    C_exp          2 ||x(T)||^2                                          ||x(T)||^2
    C_T            S(0) / N                                              S(0) / N   (0 would do: the first step forgets)
    C_log          G^2 a^2 (1 + 1/(1-beta))                              G^2 a^2 (1 + 2 beta/(1-beta)), and 1 + ln T
    C_root         (2 sqrt(2p) G a^2 / sqrt(kappa)) (4 + 3/(1-beta))     same with (4 + 8 beta/(1-beta))
    C_(eps,delta)  2 p a^2 / kappa                                       4 p a^2 / kappa

Derivation of the right column, from the document's recursion (26), with m_t = S(t)/N and ||z - z mean|| bounded as in
(20) but with the projection error of round t bounded by the noise of round t-1, which made the point:

    M_0 = 0,
    m_t <= (1 - 1/t)(m_{t-1} + p M_{t-1}^2) + a^2 G^2 / t^2
           + (2 a G / t) ( sqrt(p) (M_{t-1} + sum_{s<t} beta^(t-s) (M_s + M_{s-1})) + G sum_{s<t} beta^(t-s) a / s ).

Multiply by t / T and sum: sum_s s M_s^2 / T <= 4 a^2 / kappa; sum_{s<T} M_s <= 4 a sqrt(2 T / kappa), met once from the
projection and 2 beta/(1-beta) times from the sums; sum_t 1/t <= 1 + ln T. (From (26) to (30) the document drops a
factor 2 on both sums, (34) has 3 where (36) has 4, and sum 1/t <= ln T is false.) The order 1/T^(1/4) of Theorem 2 is
1/sqrt(T), as Corollary 2 says.
"""

import math
from dataclasses import dataclass

from sottovoce.accounting.documents.showkatbakhsh import HandOver, showkatbakhsh_budget
from sottovoce.accounting.documents.statement import DocumentStatement
from sottovoce.errors import ConfigError
from sottovoce.numbers import checked, chosen, whole


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowkatbakhshSetting:
    """What Theorem 2 and Corollary 2 need to know. Constants are those of an agent's SUM of losses, worst over agents.

    Attributes:
        epsilon: the document's target, which sets the noise.
        delta: the document's target.
        gradient_rounds: T.
        gradient_bound: G, l2 bound on the gradient of every local sum on the whole set X.
        strong_convexity: mu of every local sum.
        smoothness: L of every local sum.
        dimension: p.
        num_agents: N.
        second_eigenvalue: beta = max(|lambda_2|, |lambda_N|) of the weights, in [0, 1).
        initial_error: S(0)/N, the agents' mean squared distance to the optimum at the start. The optimum is unknown:
            bound it by the squared diameter of X.
        squared_norm: bound on ||x(T)||^2 summed over agents. x(T) is random: N times the largest squared norm in X
            bounds it.
    """

    epsilon: float
    delta: float
    gradient_rounds: int
    gradient_bound: float
    strong_convexity: float
    smoothness: float
    dimension: int
    num_agents: int
    second_eigenvalue: float
    initial_error: float
    squared_norm: float

    def __post_init__(self) -> None:
        for name in ("epsilon", "gradient_bound", "strong_convexity", "smoothness"):
            checked(name, getattr(self, name), "(0, inf)")
        for name in ("gradient_rounds", "dimension", "num_agents"):
            whole(name, getattr(self, name))
        for name in ("second_eigenvalue", "initial_error", "squared_norm"):
            checked(name, getattr(self, name), "[0, inf)")
        checked("delta", self.delta, "(0, 1)")
        if self.second_eigenvalue >= 1.0:
            raise ConfigError(
                f"second_eigenvalue = {self.second_eigenvalue:g}; it must be below 1. "
                f"Use a connected topology with self-weights."
            )
        if self.strong_convexity > self.smoothness:
            raise ConfigError(
                f"strong_convexity = {self.strong_convexity:g} exceeds smoothness = {self.smoothness:g}. "
                f"Compute both for the same sum of losses."
            )

    @property
    def kappa(self) -> float:
        """Kappa of Corollary 1, eq. 15."""
        return showkatbakhsh_budget(self.epsilon, self.delta) / (4.0 * self.gradient_bound**2)

    @property
    def step_size(self) -> float:
        """The a in the steps a / t."""
        return (self.strong_convexity + self.smoothness) / (2.0 * self.strong_convexity * self.smoothness)


def showkatbakhsh_error_bound_as_printed(setting: ShowkatbakhshSetting, *, consensus_rounds: int) -> DocumentStatement:
    """Corollary 2, eq. 17, with the printed constants: mean squared distance of any agent to the optimum.

    States: E||x_i(t) - x*||^2 is at most this.
    For whom: the user of the model; it is about accuracy, not privacy.
    Upper bound: not established. Its constants are smaller than what the document's own recursion adds up to (see the
    module).

    Args:
        setting: the constants of Theorem 2.
        consensus_rounds: t - T, at least 1.
    """
    T, G, p, gap = setting.gradient_rounds, setting.gradient_bound, setting.dimension, 1.0 - setting.second_eigenvalue
    a_squared, kappa = setting.step_size**2, setting.kappa
    c_exp = 2.0 * setting.squared_norm * setting.second_eigenvalue ** (2 * whole("consensus_rounds", consensus_rounds))
    c_log = G**2 * (1.0 + 1.0 / gap) * a_squared
    c_root = 2.0 * math.sqrt(2.0 * p) * G / math.sqrt(kappa) * (4.0 + 3.0 / gap) * a_squared
    average = setting.initial_error / T + c_log * math.log(T) / T + c_root / math.sqrt(T) + 2.0 * p / kappa * a_squared
    return DocumentStatement(
        value=2.0 * c_exp + 2.0 * average,
        kind="error-bound",
        source="Showkatbakhsh et al., Corollary 2 as printed",
        upper_bound=False,
        verdict="on the accuracy of any agent; the constants are smaller than the document's proof gives",
    )


def showkatbakhsh_error_bound(
    setting: ShowkatbakhshSetting, *, consensus_rounds: int, hand_over: HandOver
) -> DocumentStatement:
    """Corollary 2 with the constants that its proof gives, and with the noise of the hand-over if there is one.

    States, for whom: as `showkatbakhsh_error_bound_as_printed`.
    Upper bound: yes. A noised hand-over adds p M_T^2 / N to the error of the average and p N M_T^2 to what averaging
    must wear down.

    Args:
        setting: the constants of Theorem 2.
        consensus_rounds: t - T, at least 1.
        hand_over: "noised" for `algorithms.dgd`, "clear" for Algorithm 1 as printed, which is not private.
    """
    T, G, p, beta = setting.gradient_rounds, setting.gradient_bound, setting.dimension, setting.second_eigenvalue
    a_squared, kappa, mixing = setting.step_size**2, setting.kappa, 2.0 * beta / (1.0 - beta)
    noised = chosen("hand_over", hand_over, ("noised", "clear")) == "noised"
    last_variance = 2.0 / kappa * a_squared / T if noised else 0.0  # M_T^2
    decay = beta ** (2 * whole("consensus_rounds", consensus_rounds))
    disagreement = decay * (setting.squared_norm + p * setting.num_agents * last_variance)
    average = (
        setting.initial_error / T
        + G**2 * a_squared * (1.0 + mixing) * (1.0 + math.log(T)) / T
        + 2.0 * math.sqrt(2.0 * p / kappa) * G * a_squared * (4.0 + 4.0 * mixing) / math.sqrt(T)
        + 4.0 * p / kappa * a_squared
        + p * last_variance / setting.num_agents
    )
    return DocumentStatement(
        value=2.0 * disagreement + 2.0 * average,
        kind="error-bound",
        source="Showkatbakhsh et al., Corollary 2 with the constants of its proof",
        upper_bound=True,
        verdict=f"on the accuracy of any agent; hand-over {hand_over}",
    )
