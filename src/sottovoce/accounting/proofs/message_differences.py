"""What agent p gives away through the messages it sends, whoever reads them.

The difference d_i of p's un-noised message between two worlds in which the same messages are read obeys, in norms, with
rho = a_pp (1 - s_p) from `sent_noise` and sensitivity Delta,

    ATC         d_i = c_i |rho| d_{i-1} + step_i Delta
    CTA         the same, one round later
    consensus   d_i = max(|rho - step nu|, |rho - step beta|) d_{i-1} + step_i Delta, one round later; |rho| without a promise

with c_i = max(|1 - step nu|, |1 - step beta|) under the promise that losses are convex, beta-smooth and nu-strongly convex, else 1.
The prices of all d_i add up: each d_i is bounded whatever was read before, so adaptive composition applies. Why this is a guarantee
for every observer of messages, and when the sensitivity may be that of one record, is in docs/guarantees.md.

For any other linear algorithm the differences are linear in the gradient changes v_1..v_T; their matrix gives Q = W'W. There only the total of
the squared d_i is bounded, not each of them, so that fully adaptive composition is needed (Smith & Thakurta 2022, arXiv:2210.17520).
"""

from typing import Literal, NamedTuple

import numpy as np

from sottovoce.accounting.proofs.message_noise import SentNoise, sent_noise
from sottovoce.accounting.question.promise import contraction
from sottovoce.linear import Rounds, Step
from sottovoce.problems import ConvexSmooth


class Bounds(NamedTuple):
    """What every agent has given away, at sensitivity one."""

    spent: np.ndarray  # [T, K] up to and with each round, for the worst participation: mu^2 or epsilon
    public_point: np.ndarray  # [K] bool: every gradient of the agent is taken at a point that the messages determine
    hidden: np.ndarray  # [K] bool: own noise that no message shows was given away
    clear_round: np.ndarray  # [K] first round (from 1) in which something is in clear; 0: never
    each: np.ndarray | None = None  # [T, K] what every round alone gives away; None where not known


class Protection(NamedTuple):
    """Noise of every exchange of every round, [T, m, K] each."""

    price: np.ndarray
    feedback: np.ndarray  # rho
    hidden: np.ndarray
    parts: np.ndarray  # how many sources share a price equally; 0: not known


class Response(NamedTuple):
    """What one agent's gradient changes do, given the same messages."""

    messages: np.ndarray  # [T m, T] the differences of its messages, times their price to some power
    points: np.ndarray  # [T, T] of the points at which its gradients are taken
    final: np.ndarray  # [T] of its final model


def protection(rounds: Rounds, known: np.ndarray, *, pure: bool, final_model: bool) -> Protection:
    """Price and feedback of every exchange; with the final model, the last own copies count as read."""
    # Rounds that differ in something else share their exchanges, and a price is found once for each.
    exchanges = {id(exchange): exchange for bound in rounds.distinct for exchange in bound.exchanges}
    prices = {key: sent_noise(exchange, known, pure=pure) for key, exchange in exchanges.items()}
    held = [[(exchange, prices[id(exchange)]) for exchange in bound.exchanges] for bound in rounds.distinct]
    T, m, K = len(rounds), len(held[0]), len(known)
    price, feedback, hidden = np.zeros((T, m, K)), np.zeros((T, m, K)), np.zeros((T, m, K), dtype=bool)
    parts = np.zeros((T, m, K), dtype=int)
    for t in range(T):
        for j, (exchange, found) in enumerate(held[rounds.which[t]]):
            if final_model and t == T - 1 and j == m - 1:
                found = sent_noise(exchange, known, pure=pure, own_copy_seen=True)
            scale = rounds.scales[t]
            price[t, j] = _at_scale(found, scale, pure)
            feedback[t, j] = exchange.links.self_weights * (1.0 - (found.own if scale > 0 else 0.0))
            hidden[t, j], parts[t, j] = found.hidden & (scale > 0), found.parts
    return Protection(price, feedback, hidden, parts)


def _at_scale(found: SentNoise, scale: float, pure: bool) -> np.ndarray:
    if scale > 0:
        return found.price / (scale if pure else scale**2)
    return np.where(found.price > 0, np.inf, 0.0)  # a round without noise


def message_bounds(
    steps: list[Step], protection: Protection, patterns: np.ndarray, *, pure: bool, losses: ConvexSmooth | None
) -> Bounds:
    """Norm recursions for rounds of diffusion type.

    Args:
        steps: the kind and size of every round.
        protection: from the function of that name.
        patterns: [A, T] bool, the rounds in which the protected unit may take part; the worst pattern counts.
        pure: prices are epsilon, else mu^2.
        losses: the promise, or None.
    """
    T, _, K = protection.price.shape
    state = np.zeros((len(patterns), K))
    total, spent, each = np.zeros((len(patterns), K)), np.zeros((T, K)), np.zeros((T, K))
    public, clear = np.ones(K, dtype=bool), np.zeros(K, dtype=int)
    for t, (kind, size) in enumerate(steps):
        factor = 1.0 if losses is None else contraction(size, losses)
        rho, price = np.abs(protection.feedback[t, 0]), protection.price[t, 0]
        joins = size * patterns[:, t, None]
        sent = factor * state + joins if kind == "atc" else state
        if kind in ("atc", "consensus"):
            public &= (state == 0).all(axis=0)
        with np.errstate(invalid="ignore"):
            cost = np.where(sent > 0, price * (sent if pure else sent**2), 0.0)
        total += cost
        clear = np.where((clear == 0) & np.isinf(cost).any(axis=0), t + 1, clear)
        state = rho * sent
        if kind == "cta":
            public &= (state == 0).all(axis=0)
            state = factor * state + joins
        elif kind == "consensus":
            state = _beside(protection.feedback[t, 0], size, losses) * sent + joins
        spent[t], each[t] = total.max(axis=0), cost.max(axis=0)
    return Bounds(spent, public, np.asarray(protection.hidden[:, 0].any(axis=0)), clear, each)


def _beside(rho: np.ndarray, step: float, losses: ConvexSmooth | None) -> np.ndarray:
    """The factor of consensus: what was combined and the gradient step act on the same difference."""
    if losses is None:
        return np.asarray(np.abs(rho))
    contraction(step, losses)  # refuses steps that are too long
    return np.asarray(np.maximum(np.abs(rho - step * losses.nu), np.abs(rho - step * losses.beta)))


def final_models_hold(rounds: Rounds) -> Literal["combination", "gradient", "state"]:
    """What the final models are: what was combined last alone, or also a gradient or an older state, which may never have been sent."""
    form = rounds.at(len(rounds) - 1).form
    model = form.model @ form.state
    if model[-1] != 0:
        return "gradient"
    received = form.blocks + len(form.messages) - 1
    return "combination" if model[received] != 0 and not np.delete(model, received).any() else "state"


def response(rounds: Rounds, protection: Protection, agent: int, *, power: float) -> Response:
    """Differences of one agent's messages as linear functions of its gradient changes, for any linear algorithm.

    Args:
        rounds: the run.
        protection: from the function of that name.
        agent: whose gradients change.
        power: of the price that multiplies a difference.
    """
    T, m, _ = protection.price.shape
    blocks = rounds.distinct[0].form.blocks
    state, points = np.zeros((blocks, T)), np.zeros((T, T))
    rows = []
    for t in range(T):
        form = rounds.at(t).form
        variables = np.zeros((blocks + m + 1, T))
        variables[:blocks], variables[-1, t] = state, 1.0
        for j in range(m):
            sent = form.messages[j] @ variables
            variables[blocks + j] = protection.feedback[t, j, agent] * sent
            price = protection.price[t, j, agent]
            rows.append(np.where(np.abs(sent) > 0, price**power, 0.0) * np.where(sent == 0, 0.0, sent))
        if form.gradient_at is not None:
            points[t] = form.gradient_at @ variables
        state = form.state @ variables
    return Response(np.array(rows), points, rounds.at(T - 1).form.model @ state)
