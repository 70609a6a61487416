"""The account of sent messages for every agent at once, with what else follows from it.

Two recursions of `sent_messages` may apply: the plain one needs a sensitivity between any two gradients, or gradients at points that the
messages determine; the promised one needs the promise on the losses. The smaller valid one counts.
"""

from typing import NamedTuple

import numpy as np

from sottovoce.accounting.linear_view.worst_direction import best_pattern
from sottovoce.accounting.proofs.sent_messages import (
    Bounds,
    Protection,
    diffusion_steps,
    final_models_hold,
    message_bounds,
    protection,
    response,
)
from sottovoce.errors import UnsupportedClaim
from sottovoce.linear import Rounds
from sottovoce.observers import View
from sottovoce.problems import ConvexSmooth

ALIKE = 1e-9  # relative difference of rounds that count as equal: what rounding does to the same price


class SentValues(NamedTuple):
    """Per agent [K], at sensitivity one: mu, or epsilon for the Laplace laws."""

    values: np.ndarray  # the smaller valid one; inf: in clear
    plain: np.ndarray  # without any promise
    supported: np.ndarray  # bool: some value is proven
    promised: np.ndarray  # bool: `values` rests on the promise
    exact: np.ndarray  # bool: attained by an attack
    is_linear_view: np.ndarray  # bool: `plain` is also the linear view
    public_point: np.ndarray  # bool
    goes_on_from_message: np.ndarray  # bool: rho = 0 in every round
    hidden: np.ndarray  # bool: own noise that no message shows was given away
    clear_round: np.ndarray  # int, 0: never
    spent: np.ndarray | None  # [T, K] of `values` after every round, as mu^2 or epsilon; None where not known
    each: (
        np.ndarray | None
    )  # [T, K] what every round alone adds to `spent`, for a unit that takes part in all; None where not known
    one_source_each: bool  # one source per agent and round, as sent
    pairs: bool  # some sources are shared by two agents

    def equal_rounds(self, agent: int) -> tuple[float, int] | None:
        """(mu of one round, number of rounds that show something) where all such rounds are alike."""
        if self.each is None:
            return None
        shown = self.each[self.each[:, agent] > 0, agent]
        if not len(shown) or shown.max() > shown.min() * (1 + ALIKE):
            return None
        return float(np.sqrt(shown.max())), len(shown)


def sent_values(
    rounds: Rounds,
    view: View,
    patterns: np.ndarray,
    agents: np.ndarray,
    *,
    pure: bool,
    promise: ConvexSmooth | None,
    same_model: bool,
) -> SentValues:
    """Account for what every agent sends."""
    combined = final_models_hold(rounds) == "combination"
    found = protection(rounds, view.members, pure=pure, final_model=view.final_model and combined)
    pairs = any((exchange.noise.owners[:, 1] >= 0).any() for bound in rounds.distinct for exchange in bound.exchanges)
    diffusion = diffusion_steps(rounds) is not None
    if diffusion:
        placed = patterns[:1] if _shift_invariant(rounds, found, view) else patterns
        plain = message_bounds(rounds, found, placed, pure=pure, losses=None)
        promised = None if promise is None else message_bounds(rounds, found, placed, pure=pure, losses=promise)
    elif rounds.projected:
        raise UnsupportedClaim(
            "this algorithm projects its models and is not of diffusion type (ATC, CTA, consensus), for which nothing is proved. Leave the "
            "projection out."
        )
    else:
        plain, promised = _by_response(rounds, found, patterns, agents, pure=pure), None
    if view.final_model and not combined:
        plain, promised = _with_final_model(plain, rounds, found, agents), None
    values = values_of_bounds(plain, pure=pure, same_model=same_model, other=promised)
    determined = ~plain.hidden & (plain.clear_round == 0)
    reads_all = diffusion and view.every_message and not rounds.projected
    going_on = (found.feedback == 0).all(axis=(0, 1))
    known_final = going_on | (not view.final_model)
    return values._replace(
        exact=(reads_all and not (pure and pairs)) & ~plain.hidden & ~values.promised & known_final,
        is_linear_view=(reads_all and not pure) & determined & (going_on & combined | (not view.final_model)),
        goes_on_from_message=going_on,
        spent=values.spent if diffusion else None,
        one_source_each=not pairs and bool(np.all(rounds.scales > 0)) and _at_unit_price(found, rounds),
        pairs=pairs,
    )


def values_of_bounds(
    plain: Bounds,
    *,
    pure: bool,
    same_model: bool,
    other: Bounds | None = None,
    promised: bool = False,
    final_model: bool = False,
) -> SentValues:
    """Choose between the recursions; `promised` says that `plain` itself already rests on a promise."""
    K = len(plain.public_point)
    usable = plain.public_point | (not same_model) | promised | (plain.clear_round > 0)  # infinity needs no proof
    spent = np.where(usable[None, :], plain.spent, np.inf)
    by_promise = np.full(K, promised)
    if other is not None:
        better = other.spent[-1] < spent[-1]
        by_promise = better | ~usable
        spent, usable = np.where(by_promise[None, :], other.spent, spent), np.ones(K, dtype=bool)
    if final_model:  # links at random: an agent that is silent at the end keeps an unperturbed gradient
        spent = np.full_like(spent, np.inf)
    size = spent if pure else np.sqrt(spent)
    none = np.zeros(K, dtype=bool)
    return SentValues(
        values=size[-1], plain=plain.spent[-1] if pure else np.sqrt(plain.spent[-1]), supported=usable, promised=by_promise,
        exact=none, is_linear_view=none, public_point=plain.public_point, goes_on_from_message=none, hidden=plain.hidden,
        clear_round=plain.clear_round, spent=spent, each=plain.each, one_source_each=False, pairs=False,
    )  # fmt: skip


def values_at_public_points(
    spent: np.ndarray, *, pure: bool, each: np.ndarray | None = None, exact: bool = False, linear_view: bool = False
) -> SentValues:
    """The account of gradients that are all taken at points the observer may know: no promise is needed, for a record either.

    Args:
        spent: [T, K] after every round, as mu^2 or epsilon, at sensitivity one.
        pure: it is in epsilon.
        each: [T, K] what every round alone adds, for a unit that takes part in all; None where not known.
        exact: attained by an attack.
        linear_view: it is also the linear view.
    """
    values = spent[-1] if pure else np.sqrt(spent[-1])
    everyone, nobody, clear = np.ones(len(values), dtype=bool), np.zeros(len(values), dtype=bool), np.isinf(spent)
    return SentValues(
        values=values, plain=values, supported=everyone, promised=nobody, exact=everyone & exact, is_linear_view=everyone & linear_view,
        public_point=everyone, goes_on_from_message=nobody, hidden=nobody, spent=spent, each=each, one_source_each=False, pairs=False,
        clear_round=np.where(clear.any(axis=0), np.argmax(clear, axis=0) + 1, 0),
    )  # fmt: skip


def _at_unit_price(found: Protection, rounds: Rounds) -> bool:
    unit = 1.0 / rounds.scales[:, None, None] ** 2
    return bool((np.abs(found.price - unit) <= 1e-12 * unit).all())


def _shift_invariant(rounds: Rounds, found: Protection, view: View) -> bool:
    """Whether the earliest participation is the worst: all rounds alike, and nothing seen but messages."""
    alike = len(rounds.distinct) == 1 and len(np.unique(rounds.scales)) == 1
    return alike and not view.final_model and bool(np.all(found.price == found.price[:1]))


def _by_response(rounds: Rounds, found: Protection, patterns: np.ndarray, agents: np.ndarray, *, pure: bool) -> Bounds:
    """Any linear algorithm: maximise over the gradient changes, agent by agent."""
    T, _, K = found.price.shape
    spent, public, clear = np.zeros((T, K)), np.zeros(K, dtype=bool), np.zeros(K, dtype=int)
    for p in agents:
        rows, points, _ = response(rounds, found, int(p), power=1.0 if pure else 0.5)
        public[p] = not points.any()
        if not np.isfinite(rows).all():
            spent[:, p], clear[p] = np.inf, int(np.argmax(~np.isfinite(rows).all(axis=1))) // found.price.shape[1] + 1
            continue
        if pure:
            spent[:, p] = max(float(np.abs(rows[:, pattern]).sum()) for pattern in patterns)
        else:
            best = best_pattern(rows.T @ rows, [np.flatnonzero(pattern) for pattern in patterns])
            spent[:, p] = float(best.upper)
    return Bounds(spent, public, np.asarray(found.hidden.any(axis=(0, 1))), clear)


def _with_final_model(plain: Bounds, rounds: Rounds, found: Protection, agents: np.ndarray) -> Bounds:
    """A released model is free for agents whose final model follows from the messages; of the others it shows something in clear."""
    follows = np.zeros(len(plain.public_point), dtype=bool)
    for p in agents:
        follows[p] = not response(rounds, found, int(p), power=0.0).final.any()
    return plain._replace(
        spent=np.where(follows[None, :], plain.spent, np.inf),
        clear_round=np.where(follows, plain.clear_round, len(rounds)),
    )
