"""Noise of earlier rounds that enters again: what an agent gives away through its messages, all rounds together.

Every agent goes on from what it sent, so what it is about to send follows from what was read, but for its next gradient. Whoever has read all
messages takes from each the noise of earlier rounds, e = B n (linear/memory.py): that is a bijection, round by round, and in it two worlds differ by
shifts of fresh noise. With step_s v_s the change of agent p's message by its gradient of round s, |v_s| <= sensitivity, round u is shifted by

    sum_s R_us v_s,       R = B Diag(step)   (a round later for CTA and consensus, whose messages hold gradients up to the last round)

at the price of round u per square (message_noise.py). Whatever the gradients react to, the shifts of a path cost v' Q v in all, Q = R' Diag(price) R, and
an adaptive Gaussian composition whose cost is bounded on every path is that of one Gaussian with the bound (docs/guarantees.md). The bound is
the largest v' Q v over the rounds in which the protected unit takes part:

    sum |Q_st| over these rounds       always enough; reached by v_s = +-1 where signs exist with sign_s sign_t Q_st >= 0, which holds where no two of
                                       them are within reach of one another, where Q has no negative entry, and for one lag
    its dual                           min { sum y : Diag(y) - Q psd } (worst_direction.py), elsewhere, while it is not too long to compute

A prefix of the rounds has the leading rows of R, and costs at most the sum of price_u (sum_s |R_us|)^2 over them.
"""

from typing import NamedTuple

import numpy as np

from sottovoce.accounting.linear_view.worst_direction import worst_direction
from sottovoce.accounting.proofs.evidence import Evidence, SentValues, Way
from sottovoce.accounting.proofs.message_differences import final_models_hold, protection
from sottovoce.errors import UnsupportedClaim
from sottovoce.linear import Rounds, Step
from sottovoce.noise import shared_sources

LARGEST_DUAL = 2e10  # multiplications beyond which a dual is not computed: a few seconds
DUAL_WORK = 60.0  # cubes of the number of rounds in one dual
ROUNDING = 4 * np.finfo(float).eps  # per term, of the numbers that go into a sum


class _Cost(NamedTuple):
    """What one agent has given away, at sensitivity one."""

    spent: np.ndarray  # [T] up to and with each round
    attained: bool  # by changes of one direction, fixed in advance
    whole: bool  # nothing was left out that could make it smaller


def remembered_values(evidence: Evidence) -> SentValues:
    """Account for what every agent sends where noise of earlier rounds enters again.

    Raises:
        UnsupportedClaim: an algorithm for which nothing is proved.
    """
    asked, rounds = evidence.asked, evidence.rounds
    assert rounds is not None  # random links, walks and noise in gradients have no memory
    steps, public = _steps(evidence)
    view, K, T = asked.view, asked.topology.num_agents, asked.rounds
    combined = final_models_hold(rounds) == "combination"
    found = protection(rounds, view.members, pure=False, final_model=view.final_model and combined)
    spent, attained, clear = _spent(evidence, rounds, steps, found.price[:, 0])
    if view.final_model and not combined:  # the last gradient is released without noise of its own
        spent[-1], clear, attained = np.inf, np.where(clear == 0, T, clear), attained & False
    values, everyone = np.sqrt(spent[-1]), np.ones(K, dtype=bool)
    attained &= view.every_message and not rounds.projected
    return SentValues(
        values=values, plain=values, supported=everyone, promised=~everyone, exact=attained, is_linear_view=attained,
        public_point=everyone & public, goes_on_from_message=everyone, hidden=~everyone, clear_round=clear, spent=spent, each=None, most=None,
        parts=np.zeros(K, dtype=int), one_source_each=False,
        pairs=any(shared_sources(bound.exchanges[0].noise.owners).any() for bound in rounds.distinct),
    )  # fmt: skip


def _steps(evidence: Evidence) -> tuple[list[Step], bool]:
    """The kind and size of every round's step, and whether every gradient is taken at a point that the messages determine."""
    asked, steps = evidence.asked, evidence.steps
    if steps is None:
        raise UnsupportedClaim(
            f"noise that enters again is accounted for ATC, CTA and consensus, and '{asked.algorithm.name}' is none of them. Use sv.algorithms.atc, or "
            f"noise without memory."
        )
    public = all(step.kind != "consensus" for step in steps)
    if not public and asked.same_model:
        raise UnsupportedClaim(
            "consensus takes its gradients at models that no message shows, so that the sensitivity at the same model does not bound how they change, "
            "and under noise that enters again no promise makes up for it. Use sv.algorithms.atc, or unit='agent' with a bound between any two gradients."
        )
    return steps, public


def _spent(
    evidence: Evidence, rounds: Rounds, steps: list[Step], price: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What the agents have given away [T, K], whether it is attained [K], and the first round in clear [K], at prices [T, K]."""
    T, K = price.shape
    spent, attained, clear = np.full((T, K), np.inf), np.zeros(K, dtype=bool), np.zeros(K, dtype=int)
    known: dict[bytes, _Cost] = {}  # agents with the same shifts and prices give away the same
    for p in evidence.agents:
        if np.isinf(price[:, p]).any():
            clear[p] = int(np.argmax(np.isinf(price[:, p]))) + 1
            continue
        shown = shifts(rounds, steps, int(p))
        key = shown.tobytes() + price[:, p].tobytes()
        if key not in known:
            known[key] = _cost(shown, price[:, p], evidence.placed)
        spent[:, p], attained[p] = known[key].spent, known[key].attained
    if not all(cost.whole for cost in known.values()):
        evidence.leave_out(
            "The largest value over signs was not sought: for so many rounds absolute values are stated, which is more."
        )
    return spent, attained, clear


def shifts(rounds: Rounds, steps: list[Step], agent: int) -> np.ndarray:
    """[T, lags + 2] R_us at [u, u - s]: how a gradient of round s shifts the fresh noise of rounds s to s + lags + 1."""
    T = len(rounds)
    factors = np.stack([np.append(1.0, rounds.at(t).remembered[:, agent]) for t in range(T)])
    at_once = np.array([step.size if step.kind == "atc" else 0.0 for step in steps])
    later = np.array([step.size if step.kind in ("cta", "consensus") else 0.0 for step in steps])
    shown = np.zeros((T, factors.shape[1] + 1))
    for j in range(min(T, shown.shape[1])):
        if j < factors.shape[1]:
            shown[j:, j] += factors[j:, j] * at_once[: T - j]
        if j > 0:
            shown[j:, j] += factors[j:, j - 1] * later[: T - j]
    return shown


def banded_gram(shown: np.ndarray, price: np.ndarray) -> np.ndarray:
    """[T, W] Q at [s, t - s] for the rounds t from s on that a shift of round s reaches too."""
    T, width = shown.shape
    bands = np.zeros((T, width))
    for k in range(width):
        for j in range(k, width):  # round u = s + j is shifted by the gradients of s and of s + k
            if j < T:
                bands[: T - j, k] += price[j:] * shown[j:, j] * shown[j:, j - k]
    return bands


def _cost(shown: np.ndarray, price: np.ndarray, placed: np.ndarray) -> _Cost:
    """The largest v' Q v over placements [A, T] of the protected unit, and over changes of size one at most."""
    by_rows = _by_rows(shown, price, placed)  # [T]
    bands = banded_gram(shown, price)
    absolute = _absolute(bands, placed)
    absolute = np.minimum(absolute * (1 + ROUNDING) + ROUNDING * shown.shape[1] ** 2 * by_rows[-1], by_rows[-1])
    best, attained, whole, work = 0.0, True, True, 0.0
    for place in np.argsort(-absolute, kind="stable"):
        if absolute[place] <= best:
            break
        value, reached, members = (
            float(absolute[place]),
            signs_agree(bands, placed[place]),
            np.flatnonzero(placed[place]),
        )
        if not reached:
            work += DUAL_WORK * len(members) ** 3
            whole = whole and work <= LARGEST_DUAL
            if work <= LARGEST_DUAL:
                value = min(value, float(worst_direction(_dense(bands, members)).upper))
        if value > best:
            best, attained = value, reached
    return _Cost(np.minimum(by_rows, best), attained, whole)


def _by_rows(shown: np.ndarray, price: np.ndarray, placed: np.ndarray) -> np.ndarray:
    """[T] the sum of price_u (sum_s |R_us|)^2 up to each round, for the worst placement."""
    T, width = shown.shape
    total, spent = np.zeros(len(placed)), np.zeros(T)
    joins = placed.astype(float)
    for u in range(T):
        reach = min(width, u + 1)
        moved = joins[:, u - reach + 1 : u + 1][:, ::-1] @ np.abs(shown[u, :reach])
        total += price[u] * moved**2
        spent[u] = total.max()
    return spent


def _absolute(bands: np.ndarray, placed: np.ndarray) -> np.ndarray:
    """[A] sum |Q_st| over the rounds of every placement."""
    T, width = bands.shape
    total = placed @ np.abs(bands[:, 0])
    for k in range(1, min(width, T)):
        total = total + 2.0 * ((placed[:, : T - k] & placed[:, k:]) @ np.abs(bands[: T - k, k]))
    return np.asarray(total, dtype=float)


def signs_agree(bands: np.ndarray, joins: np.ndarray) -> bool:
    """Whether signs exist with sign_s sign_t Q_st >= 0 for all rounds s, t of one placement: then v_s = sign_s reaches sum |Q_st|."""
    members = np.flatnonzero(joins)
    signs = np.zeros(len(joins))
    width = bands.shape[1]
    for first in members:
        if signs[first] != 0:
            continue
        signs[first], queue = 1.0, [int(first)]
        while queue:
            s = queue.pop()
            for t in range(max(0, s - width + 1), min(len(joins), s + width)):
                tie = bands[min(s, t), abs(t - s)]
                if t == s or not joins[t] or tie == 0:
                    continue
                needed = signs[s] * (1.0 if tie > 0 else -1.0)
                if signs[t] == 0:
                    signs[t] = needed
                    queue.append(t)
                elif signs[t] != needed:
                    return False
    return True


def _dense(bands: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Q of these rounds."""
    gap = members[None, :] - members[:, None]
    inside = (gap >= 0) & (gap < bands.shape[1])
    upper = np.where(inside, bands[members[:, None], np.where(inside, gap, 0)], 0.0)
    return np.asarray(upper + np.triu(upper, 1).T)


WAY = Way(where=frozenset({"memory"}), values=remembered_values)
