"""The exact leak of a linear view: the Gram matrix Q of an observer's view in one agent's gradients.

Stack what the observer reads over all rounds: y = Phi g + Psi z, z standard Gaussian, per coordinate. If agent p's gradients change by
v_1, ..., v_T and nothing else does, the two laws of y are Gaussians with the same covariance, at distance

    mu^2 = sum_st Q_st <v_s, v_t>,      Q = Phi_p' (Psi Psi')^+ Phi_p,

and infinitely far apart if some column of Phi_p leaves the range of Psi: then a combination of the messages carries a gradient and
no noise. Neither of the two routes forms Psi: `innovations` filters round by round, `stacked` factorises the covariance of everything
read at once. The cheaper one is taken.
"""

from collections.abc import Sequence

import numpy as np

from sottovoce.accounting.linear_view.gram import Gram
from sottovoce.accounting.linear_view.innovations import filtered_gram
from sottovoce.accounting.linear_view.stacked import rounds_alike, stacked_gram
from sottovoce.errors import ConfigError
from sottovoce.linear import SystemRound

LARGEST_RESULT = 1e9  # entries of all Gram matrices together
HELD = 1e8  # numbers the filter holds at once
ROUND_OVERHEAD = 3e6  # multiplications in the time a round of the filter spends on small matrices


def gram(
    systems: Sequence[SystemRound], scales: np.ndarray, agents: Sequence[int], *, need_states: bool = False
) -> Gram:
    """Q for each of the agents.

    Args:
        systems: the system of every round, as the observer sees it; the same object where rounds are the same.
        scales: [T] standard deviation of a unit source in every round.
        agents: whose gradients may change.
        need_states: the answer must tell whether states are known (`adaptive`, `public`), which the stacked route does not.
    """
    chosen, T = np.asarray(agents, dtype=int), len(systems)
    if sum(system.H.shape[0] for system in systems) == 0:
        nothing = np.zeros(len(chosen), dtype=int)
        return Gram(np.zeros((len(chosen), T, T)), nothing, nothing > 0, nothing > 0)
    if T * T * len(chosen) > LARGEST_RESULT:
        raise ConfigError(
            f"the leak of {len(chosen)} agents over {T} rounds needs {len(chosen)} matrices of {T} x {T}. Ask for one agent "
            f"(agent=...), or for fewer rounds."
        )
    filtered, stacked = work(systems, scales, len(chosen))
    if stacked < filtered and not need_states:
        found = stacked_gram(systems, scales, chosen)
        if found is not None:
            return found
    states, rows = systems[0].F.shape[0], sum(system.H.shape[0] for system in systems)
    share = max(1, int(HELD / (T * (states + rows))))
    parts = [filtered_gram(systems, scales, chosen[start : start + share]) for start in range(0, len(chosen), share)]
    return Gram(*(np.concatenate([getattr(part, name) for part in parts]) for name in Gram._fields))


def work(systems: Sequence[SystemRound], scales: np.ndarray, num_agents: int) -> tuple[float, float]:
    """Multiplications of the two routes: (innovations, stacked)."""
    T, n = len(systems), systems[0].F.shape[0]
    rows, sources = sum(system.H.shape[0] for system in systems), systems[0].M.shape[1]
    filtered = T * (ROUND_OVERHEAD + 4 * n**2 * (sources + n)) + n * T * T * num_agents * (rows / T + 8)
    passes = 1.0 if rounds_alike(systems, scales) else T / 3
    stacked = rows**2 * (sources * passes + rows / 3 + T * num_agents)
    return float(filtered), float(stacked)
