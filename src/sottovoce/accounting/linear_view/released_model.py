"""The linear view of whoever gets the final model and reads nothing else: one number per coordinate, so it has a closed form.

The released centroid is y = sum_t phi_t g_t + noise of variance s^2. Carrying the row of weights backwards through the rounds gives phi_t of every
agent and the noise of every round. The largest distance over changes of size at most Delta is

    mu = Delta sum_t |phi_t| / s,

reached where all changes push the same way; infinite where the noise cancels, which is the purpose of graph-homomorphic noise.
"""

from typing import NamedTuple

import numpy as np

from sottovoce.accounting.linear_view.value import LinearValue
from sottovoce.linear import Rounds, network_round
from sottovoce.observers import View

CANCELLED = 1e-14  # of the sum of absolute terms, for every round that was carried back


class ReleasedView(NamedTuple):
    """What the final model shows of several agents."""

    agents: np.ndarray
    largest: np.ndarray  # [P] mu at sensitivity one, for the worst participation
    rounds: int

    def value(self, position: int, sensitivity: float) -> LinearValue:
        """The linear view of the agent at this position; something in clear is read when the model is released."""
        mu = float(self.largest[position]) * sensitivity
        clear = self.rounds if np.isinf(mu) else 0
        return LinearValue(mu, 0.0, clear, False, False, int(self.agents[position]))

    def cheap_upper(self, sensitivity: np.ndarray) -> np.ndarray:
        """[P] the values themselves."""
        return np.asarray(self.largest * sensitivity)


def reads_only_the_model(view: View) -> bool:
    """Whether the observer is given the final model and reads no message."""
    reads = view.every_message or view.broadcast or any(bool(read.any()) for read in view.links)
    return view.final_model and not reads and not view.members.any()


def released_view(rounds: Rounds, agents: np.ndarray, patterns: np.ndarray) -> ReleasedView:
    """The view of the final model, of these agents.

    Args:
        rounds: the run.
        agents: whose gradients may change.
        patterns: [A, T] bool, the rounds in which the protected unit may take part; the worst pattern counts.
    """
    networks = [network_round(bound) for bound in rounds.distinct]
    parts = [(network.state, abs(network.state)) for network in networks]
    last = networks[rounds.which[-1]]
    total, terms = rounds.centroid.weights @ last.model, rounds.centroid.weights @ abs(last.model)
    variance, shown = 0.0, np.zeros((len(rounds), len(agents)))
    for t in range(len(rounds) - 1, -1, -1):
        network, back = networks[rounds.which[t]], len(rounds) - t
        total = np.where(np.abs(total) <= back * CANCELLED * terms, 0.0, total)
        states, K = network.num_states, network.num_agents
        shown[t] = np.abs(total[states : states + K][agents])
        variance += float(rounds.scales[t] ** 2 * (total[states + K :] ** 2).sum())
        if t:
            rows, sizes = parts[rounds.which[t - 1]]
            total, terms = total[:states] @ rows, np.abs(total[:states]) @ sizes
    with np.errstate(divide="ignore", invalid="ignore"):
        sums = (patterns.astype(float) @ shown).max(axis=0)
        largest = np.where(sums > 0, sums / np.sqrt(variance), 0.0)
    return ReleasedView(agents, largest, len(rounds))
