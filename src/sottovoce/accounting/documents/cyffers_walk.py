"""Cyffers & Bellet 2022 (arXiv 2012.05326): network privacy of a token on a ring and on the complete graph.

n agents, T hops, local noise that makes one contribution (epsilon, delta)-DP. The document states

    Theorem 1   ring, sums, K passes, one noise per n - 1 hops:
                sqrt(2 K ln(1/delta')) epsilon + K epsilon (e^epsilon - 1),   delta_all = K delta + delta'
    Theorem 2   ring, histograms over L values: random answers with probability
                gamma = L / (exp(12 epsilon sqrt(ln(1/delta) / n)) + L - 1), for the same epsilon and delta
    Theorem 3   complete graph, sums: every cycle between two visits of an agent, cut at length n, is
                (3 epsilon / sqrt(n), delta)-DP; advanced composition over N + T/n of them
    Theorem 4   complete graph, gradient steps: sqrt(2 q ln(1/delta)) epsilon / sqrt(ln(1.25/delta)),
                q = max(2 N ln(n) / n, 2 ln(1/delta)),   delta_all = delta + d
    Lemma 1     the same before constants were simplified: `accounting.walk.epsilon`
    App. G      when agents know their senders: 2 N / n + sqrt(6 N ln(1/d~) / n) contributions more, at epsilon each
    N           = T/n + sqrt(3 T ln(1/d) / n) visits of the token to one agent, exceeded with probability d

Three traps: a display of the appendix and the authors' program lack a factor 2 of Lemma 1; the mean of 1/lag is
ln(n) / (n - 1), not ln(n) / n; a program has sqrt(3 T ln(1/delta) / 2) for the spread of N. And three that we found: N
can be too small for T/n < 3 ln(1/d); contributions seen in one visit share their noise, so that their divergences do not
add up; Theorem 2's gamma belongs to the local epsilon x = 12 epsilon sqrt(ln(1/delta) / n), which is below epsilon for
n > 144 ln(1/delta), so that the theorem holds there without any help from the other agents.

For Theorems 3 and 4, Lemma 1 and App. G `upper_bound` is therefore not taken from the document's proofs but found by
comparison with `accounting.walk.proven_epsilon` at the same delta: True if that is not above the printed value.
"""

import math
from typing import Literal

from sottovoce.accounting.documents.statement import DocumentStatement
from sottovoce.accounting.mechanisms import composition
from sottovoce.accounting.walk import epsilon as lemma_epsilon
from sottovoce.accounting.walk import likely_contributions, proven_epsilon
from sottovoce.errors import ConfigError
from sottovoce.numbers import checked, chosen, whole

_ENDLESS = 10**15  # hops: no gap is cut short
_SOURCE = "Cyffers & Bellet 2022, "


def cyffers_ring_epsilon(*, epsilon: float, delta: float, passes: int, slack: float) -> DocumentStatement:
    """Theorem 1: epsilon of K passes over the ring, at K delta + slack.

    States: every agent is protected from every other that sees only the tokens it receives.
    Upper bound: yes. Between two visits of one agent lies at least one noise, so that it makes K (epsilon, delta)-DP
    observations of each other agent. Two colluding neighbours of an agent see its value in clear.

    Args:
        epsilon: of one locally perturbed value, above 0.
        delta: of one locally perturbed value, in (0, 1).
        passes: K.
        slack: delta', in (0, 1).
    """
    eps, d = checked("epsilon", epsilon, "(0, inf)"), checked("delta", delta, "(0, 1)")
    value, total = composition.advanced(eps, d, whole("passes", passes), checked("slack", slack, "(0, 1)"))
    return DocumentStatement(
        value=value,
        kind="epsilon",
        source=_SOURCE + "Theorem 1",
        upper_bound=True,
        verdict=f"at delta = {total:.6g}, for one agent that sees the tokens it receives; two neighbours who collude "
        f"see the value between them in clear",
    )


def cyffers_ring_histogram_share(*, epsilon: float, delta: float, values: int, num_agents: int) -> DocumentStatement:
    """Theorem 2: the probability gamma with which an answer is random, for (epsilon, delta) of one pass.

    States: with this gamma one pass is (epsilon, delta)-DP towards any other agent; several passes as in Theorem 1.
    Upper bound: yes if n >= 144 ln(1/delta), where each answer alone is already epsilon-DP; otherwise the document's
    reasoning by shuffling would be needed, which we did not verify.

    Args:
        epsilon: in (0, 1/2).
        delta: in (0, 1/100).
        values: L, at least 2.
        num_agents: n, above 1000.
    """
    eps, d = _below("epsilon", epsilon, 0.5, "Theorem 2"), _below("delta", delta, 0.01, "Theorem 2")
    L, n = whole("values", values, least=2), whole("num_agents", num_agents, least=1001)
    local = 12.0 * eps * math.sqrt(math.log(1.0 / d) / n)
    alone = local <= eps
    return DocumentStatement(
        value=L / (math.expm1(local) + L),
        kind="probability",
        source=_SOURCE + "Theorem 2",
        upper_bound=alone,
        verdict=f"every answer is {local:.6g}-DP by itself, "
        + (
            "so that nothing is left for the other agents to hide"
            if alone
            else "and what shuffling adds is not verified"
        ),
    )


def cyffers_visits(*, num_agents: int, rounds: int, failure_probability: float) -> float:
    """Return N as printed: T/n + sqrt(3 T ln(1/d) / n). Not proven for T/n < 3 ln(1/d); see `walk.likely_contributions`."""
    mean = whole("rounds", rounds) / whole("num_agents", num_agents, least=2)
    d = checked("failure_probability", failure_probability, "(0, 1)")
    return mean + math.sqrt(3.0 * mean * math.log(1.0 / d))


def cyffers_complete_sum_epsilon(
    *, epsilon: float, delta: float, num_agents: int, rounds: int, slack: float, failure_probability: float
) -> DocumentStatement:
    """Theorem 3 before constants were dropped, at delta_all = (N + T/n) delta + slack + failure_probability.

    States, for whom: as the module says; every agent towards any other single one.
    Upper bound: by comparison.

    Args:
        epsilon: of one contribution, in (0, 1).
        delta: of one contribution, in (0, 1).
        num_agents: n, at least 2.
        rounds: T.
        slack: delta' of the composition, in (0, 1).
        failure_probability: d of N, in (0, 1).

    Raises:
        ConfigError: also if delta_all is 1 or more.
    """
    eps, d = _below("epsilon", epsilon, 1.0, "Theorem 3"), checked("delta", delta, "(0, 1)")
    visits = cyffers_visits(num_agents=num_agents, rounds=rounds, failure_probability=failure_probability)
    cycles = math.ceil(visits + rounds / num_agents)
    value, total = composition.advanced(3.0 * eps / math.sqrt(num_agents), d, cycles, slack)
    total += failure_probability
    if total >= 1.0:
        raise ConfigError(
            f"delta = {d:g} for {cycles} cycles adds up to {total:g}; it must stay below 1. Take a smaller one."
        )
    proven = _proven(eps, d, num_agents, rounds, failure_probability, total)
    return _compared(value, "Theorem 3", total, proven)


def cyffers_complete_gradient_epsilon(
    *, epsilon: float, delta: float, num_agents: int, rounds: int, failure_probability: float
) -> DocumentStatement:
    """Theorem 4, at delta + failure_probability.

    States, for whom: as the module says; convex, Lipschitz, beta-smooth losses, step at most 2 / beta.
    Upper bound: by comparison.

    Args:
        epsilon: of one contribution by the classical Gaussian calibration, in (0, 1).
        delta: of one contribution, in (0, 1/2).
        num_agents: n, at least 2.
        rounds: T.
        failure_probability: d of N, in (0, 1).
    """
    value, total, proven = _theorem_4(epsilon, delta, num_agents, rounds, failure_probability)
    return _compared(value, "Theorem 4", total, proven)


def cyffers_known_senders_epsilon(
    *,
    epsilon: float,
    delta: float,
    num_agents: int,
    rounds: int,
    failure_probability: float,
    spotted_failure_probability: float,
) -> DocumentStatement:
    """App. G: Theorem 4 for agents who know their senders, by simple composition with the contributions they spot.

    Upper bound: by comparison; the proven value needs no addition, because it holds for those who know all of the way.

    Args:
        epsilon: as in Theorem 4.
        delta: as in Theorem 4.
        num_agents: as in Theorem 4.
        rounds: as in Theorem 4.
        failure_probability: as in Theorem 4.
        spotted_failure_probability: d~ of the number of spotted contributions, in (0, 1).
    """
    value, total, proven = _theorem_4(epsilon, delta, num_agents, rounds, failure_probability)
    visits = cyffers_visits(num_agents=num_agents, rounds=rounds, failure_probability=failure_probability)
    missed = checked("spotted_failure_probability", spotted_failure_probability, "(0, 1)")
    spotted = 2.0 * visits / num_agents + math.sqrt(6.0 * visits * math.log(1.0 / missed) / num_agents)
    return _compared(value + spotted * epsilon, "App. G", total + spotted * delta + missed, proven)


def cyffers_lemma_epsilon(
    *,
    num_agents: int,
    contributions: int,
    std: float,
    lipschitz: float,
    delta: float,
    factor: Literal["lemma", "program"],
) -> DocumentStatement:
    """Lemma 1 turned into epsilon (App. F): as in the lemma, or with half its divergence as in the authors' program.

    Upper bound: by comparison. Half the divergence lacks the factor of weak convexity and follows from nothing printed.

    Args:
        num_agents: n, at least 3.
        contributions: of the protected agent, at most.
        std: of the noise on every gradient, per coordinate.
        lipschitz: L.
        delta: in (0, 1).
        factor: "lemma" for 4 L^2, "program" for 2 L^2.
    """
    n, count = whole("num_agents", num_agents), whole("contributions", contributions)
    value = lemma_epsilon(num_agents=n, contributions=count, std=std, lipschitz=lipschitz, delta=delta)
    where = "Lemma 1"
    if chosen("factor", factor, ("lemma", "program")) == "program":
        # Half the lemma's divergence: the minimum over the same orders.
        value, where = _half_lemma(n, count, std / lipschitz, delta), "the program for Lemma 1"
    proven = proven_epsilon(
        num_agents=n, contributions=count, std=std, sensitivity=2.0 * lipschitz, delta=delta, rounds=_ENDLESS
    )
    return _compared(value, where, delta, proven)


def _half_lemma(n: int, count: int, ratio: float, delta: float) -> float:
    rate = 2.0 * count * math.log(n) / (n * ratio**2)
    order = min(1.0 + math.sqrt(math.log(1.0 / delta) / rate), 0.5 * (1.0 + math.sqrt(1.0 + 2.0 * ratio**2)))
    return rate * order + math.log(1.0 / delta) / (order - 1.0)


def _theorem_4(
    epsilon: float, delta: float, num_agents: int, rounds: int, failure_probability: float
) -> tuple[float, float, float]:
    """Return the printed epsilon, its delta, and the proven epsilon."""
    eps, d = _below("epsilon", epsilon, 1.0, "Theorem 4"), _below("delta", delta, 0.5, "Theorem 4")
    visits = cyffers_visits(num_agents=num_agents, rounds=rounds, failure_probability=failure_probability)
    log = math.log(1.0 / d)
    q = max(2.0 * visits * math.log(num_agents) / num_agents, 2.0 * log)
    value = math.sqrt(2.0 * q * log / math.log(1.25 / d)) * eps
    total = d + failure_probability
    return value, total, _proven(eps, d, num_agents, rounds, failure_probability, total)


def _proven(eps: float, d: float, n: int, rounds: int, failure: float, total: float) -> float:
    """Return our epsilon for the document's noise, std / sensitivity = sqrt(2 ln(1.25/delta)) / epsilon."""
    visits = likely_contributions(num_agents=n, rounds=rounds, failure_probability=failure)
    ratio = math.sqrt(2.0 * math.log(1.25 / d)) / eps
    return proven_epsilon(
        num_agents=n, contributions=visits, std=ratio, sensitivity=1.0, delta=min(total, 1.0 - 1e-12), rounds=rounds
    )


def _compared(value: float, where: str, total: float, proven: float) -> DocumentStatement:
    holds = proven <= value
    return DocumentStatement(
        value=value,
        kind="epsilon",
        source=_SOURCE + where,
        upper_bound=holds,
        verdict=f"at delta = {total:.6g}, for one other agent; the printed proof is not relied on, "
        + (f"since {proven:.6g} is proven otherwise" if holds else f"and only {proven:.6g} is proven otherwise"),
    )


def _below(name: str, value: float, limit: float, theorem: str) -> float:
    number = checked(name, value, "(0, inf)")
    if number >= limit:
        raise ConfigError(
            f"{name} = {number:g}; {theorem} needs {name} < {limit:g}. Take accounting.walk.proven_epsilon."
        )
    return number
