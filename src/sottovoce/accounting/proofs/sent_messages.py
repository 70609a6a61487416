"""Sent messages: what an agent gives away through all it sends, whoever reads it. The proof that most guarantees rest on.

Two recursions of `message_differences` may apply: the plain one needs a sensitivity between any two gradients, or gradients at points that the
messages determine; the promised one needs the promise on the losses. The smaller valid one counts.
"""

import numpy as np

from sottovoce.accounting.linear_view.worst_direction import best_pattern
from sottovoce.accounting.proofs.evidence import Evidence, SentValues, Way
from sottovoce.accounting.proofs.message_differences import (
    Bounds,
    Protection,
    final_models_hold,
    message_bounds,
    protection,
    response,
)
from sottovoce.accounting.proofs.proof import Proof, Statement
from sottovoce.accounting.proofs.words import known_draw
from sottovoce.accounting.tradeoff import GaussianTradeoff, PureTradeoff, Tradeoff
from sottovoce.errors import UnsupportedClaim
from sottovoce.linear import Rounds
from sottovoce.noise import shared_sources
from sottovoce.observers import View


def states(evidence: Evidence, agent: int) -> Statement | None:
    """The value of all that the agent sends, for every observer."""
    asked, sent = evidence.asked, evidence.sent
    if not sent.supported[agent]:
        return None
    value = float(sent.values[agent]) * float(asked.sensitivity[agent])
    tradeoff: Tradeoff = PureTradeoff(value) if asked.pure else GaussianTradeoff(value)
    exact = bool(sent.exact[agent]) and asked.tight and not asked.pure
    return Statement(
        tradeoff=tradeoff,
        value=value,
        validity="exact" if exact else "sent-messages",
        reason=why_exact(evidence, agent) if exact else why_sent(evidence, agent),
        section=_section(evidence, exact=exact),
        promised=bool(sent.promised[agent]) or asked.growth_is_promised,
        others=rests_on_others(evidence),
        premises=known_draw(asked),
    )


def _section(evidence: Evidence, *, exact: bool) -> str:
    if "memory" in evidence.kinds:
        return "Noise with memory"
    return "Readers of every message" if exact else "Sent messages"


def why_exact(evidence: Evidence, agent: int) -> str:
    """The proof in a sentence, where what is read leaves nothing but fresh noise."""
    if "memory" in evidence.kinds:
        return (
            f"Given what the observer ({evidence.asked.observer}) has read, noise of earlier rounds can be taken out of every message, and agent "
            f"{agent}'s contributions are hidden by the fresh noise of their own rounds and of those from which it is taken out."
        )
    return f"Given what the observer ({evidence.asked.observer}) has read, agent {agent}'s next contribution is hidden by fresh noise alone."


def why_sent(evidence: Evidence, agent: int) -> str:
    """The proof in a sentence, for any observer."""
    head = f"Whatever the observer ({evidence.asked.observer}) sees follows from"
    if evidence.asked.noise.in_gradients:
        return f"{head} the noisy gradients agent {agent} takes and from what does not depend on agent {agent}'s data."
    if evidence.through_relay:
        return f"{head} the averages that the relay sends out and from what does not depend on agent {agent}'s data."
    return f"{head} the messages agent {agent} sends and from what does not depend on its data."


def rests_on_others(evidence: Evidence) -> bool:
    """Whether the noise of other agents is counted on, in the averages of a relay."""
    averages = evidence.asked.view.broadcast or evidence.through_relay
    return averages and not evidence.asked.noise.needs_relay


def message_values(evidence: Evidence) -> SentValues:
    """Account for what every agent sends.

    Raises:
        UnsupportedClaim: projections in an algorithm that is not of diffusion type.
    """
    asked, rounds = evidence.asked, evidence.rounds
    assert rounds is not None  # links drawn at random, walks and noise in gradients have ways of their own
    view, pure = asked.view, asked.pure
    combined = final_models_hold(rounds) == "combination"
    found = protection(rounds, view.members, pure=pure, final_model=view.final_model and combined)
    plain, promised = _bounds(evidence, rounds, found)
    if view.final_model and not combined:
        plain, promised = _with_final_model(plain, rounds, found, evidence.agents), None
    values = values_of_bounds(plain, pure=pure, same_model=asked.same_model, other=promised)
    pairs = _noise_is_shared(rounds)
    reads_all = evidence.steps is not None and view.every_message and not rounds.projected
    going_on = (found.feedback == 0).all(axis=(0, 1))
    unreleased = not view.final_model
    return values._replace(
        exact=(reads_all and not (pure and pairs)) & ~plain.hidden & ~values.promised & (going_on | unreleased),
        is_linear_view=(reads_all and not pure) & ~plain.hidden & (plain.clear_round == 0) & (going_on & combined | unreleased),
        goes_on_from_message=going_on,
        spent=None if evidence.steps is None else values.spent,
        one_source_each=not pairs and bool(np.all(rounds.scales > 0)) and _at_unit_price(found, rounds),
        pairs=pairs,
        parts=np.where((found.parts == found.parts[:1, :1]).all(axis=(0, 1)), found.parts[0, 0], 0),
    )  # fmt: skip


def _noise_is_shared(rounds: Rounds) -> bool:
    maps = [exchange.noise for bound in rounds.distinct for exchange in bound.exchanges]
    return any(shared_sources(one.owners).any() or one.of_generator.any() for one in maps)


def _bounds(evidence: Evidence, rounds: Rounds, found: Protection) -> tuple[Bounds, Bounds | None]:
    """What is given away without a promise, and with the one that was made."""
    asked, steps = evidence.asked, evidence.steps
    if steps is not None:
        placed = evidence.placed[:1] if _shift_invariant(rounds, found, asked.view) else evidence.placed
        plain = message_bounds(steps, found, placed, pure=asked.pure, losses=None)
        if asked.promise is None:
            return plain, None
        return plain, message_bounds(steps, found, placed, pure=asked.pure, losses=asked.promise)
    if rounds.projected:
        raise UnsupportedClaim(
            "this algorithm projects its models and is not of diffusion type (ATC, CTA, consensus), for which nothing is proved. Leave the "
            "projection out."
        )
    return _by_response(evidence, found), None


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
    spent, most = np.where(usable[None, :], plain.spent, np.inf), plain.each
    by_promise = np.full(K, promised)
    if other is not None:
        better = other.spent[-1] < spent[-1]
        by_promise = better | ~usable
        spent, usable = np.where(by_promise[None, :], other.spent, spent), np.ones(K, dtype=bool)
        if most is not None:
            most = None if other.each is None else np.where(by_promise[None, :], other.each, most)
    if final_model:  # links at random: an agent that is silent at the end keeps an unperturbed gradient
        spent = np.full_like(spent, np.inf)
    size = spent if pure else np.sqrt(spent)
    none = np.zeros(K, dtype=bool)
    return SentValues(
        values=size[-1], plain=plain.spent[-1] if pure else np.sqrt(plain.spent[-1]), supported=usable, promised=by_promise,
        exact=none, is_linear_view=none, public_point=plain.public_point, goes_on_from_message=none, hidden=plain.hidden,
        clear_round=plain.clear_round, spent=spent, each=plain.each, most=most, parts=np.zeros(K, dtype=int), one_source_each=False,
        pairs=False,
    )  # fmt: skip


def _at_unit_price(found: Protection, rounds: Rounds) -> bool:
    unit = 1.0 / rounds.scales[:, None, None] ** 2
    return bool((np.abs(found.price - unit) <= 1e-12 * unit).all())


def _shift_invariant(rounds: Rounds, found: Protection, view: View) -> bool:
    """Whether the earliest participation is the worst: all rounds alike, and nothing seen but messages."""
    alike = len(rounds.distinct) == 1 and len(np.unique(rounds.scales)) == 1
    return alike and not view.final_model and bool(np.all(found.price == found.price[:1]))


def _by_response(evidence: Evidence, found: Protection) -> Bounds:
    """Any linear algorithm: maximise over the gradient changes, agent by agent."""
    rounds, patterns, pure = evidence.rounds, evidence.placed, evidence.asked.pure
    assert rounds is not None
    T, _, K = found.price.shape
    spent, public, clear = np.zeros((T, K)), np.zeros(K, dtype=bool), np.zeros(K, dtype=int)
    for p in evidence.agents:
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


WAY = Way(where=frozenset(), values=message_values)
PROOF = Proof("sent messages", where=frozenset(), states=states)
