"""Observers of a federation who see what its relay sends out, and no single message.

Every agent's state is a function of the averages sent so far, as long as its gradients enter it through messages alone. So given what was sent
out before round t, the next average is known but for agent p's gradient and fresh noise:

    r_t = known + q_p c_t g_{p,t} + sum_s R_s z_{s,t}        q_p: p's weight, c_t: factor of a gradient in a message, R: sources at the relay

    Gaussian                     mu^2    = sum_t (q_p c_t Delta)^2 / (scale_t^2 sum_s R_s^2)     over the sources that the observer does not know
    Laplace, one unknown source  epsilon = sum_t |q_p c_t| Delta / (scale_t |R_s|)

which adaptive composition makes a guarantee for adaptive gradients, exact for who sees all averages, and an upper bound for the final model.
Gradients are taken at points that everybody knows, so it holds for one record without a promise. If p is one of a sample that counts w
times as much, only noise of the relay is fixed; then q_p is multiplied by w, and the observer may know who took part.
"""

import numpy as np

from sottovoce.accounting.proofs.evidence import Evidence, SentValues, Way, values_at_public_points
from sottovoce.linear import BoundRound, Rounds
from sottovoce.noise import known_sources, received_map
from sottovoce.observers import View


def seen_through_relay(rounds: Rounds, view: View, *, relay: bool) -> bool:
    """Whether the observer sees a federation through its relay's averages only, and these determine every agent's state."""
    through = relay and not view.every_message and (view.broadcast or view.final_model)
    return through and not rounds.projected and all(_state_is_public(bound) for bound in rounds.distinct)


def average_values(evidence: Evidence) -> SentValues | None:
    """The account of what a relay sends out, where the observer sees nothing else; None otherwise."""
    asked, rounds = evidence.asked, evidence.rounds
    assert rounds is not None
    if not seen_through_relay(rounds, asked.view, relay=asked.topology.relay):
        return None
    if (
        evidence.generated and asked.view.members.any()
    ):  # sums that members know are no sources; what was sent covers them
        return None
    if asked.sampling is None:
        return broadcast_values(rounds, asked.view, evidence.placed, pure=asked.pure)
    if not asked.noise.needs_relay:  # who does not take part adds no noise
        return None
    weight = asked.sampling.weight(len(asked.sensitivity))
    return broadcast_values(rounds, asked.view, evidence.placed, pure=asked.pure, weight=weight)


def broadcast_values(
    rounds: Rounds, view: View, patterns: np.ndarray, *, pure: bool, weight: float = 1.0
) -> SentValues | None:
    """What the averages give away of every agent, at sensitivity one; None where the law has no exact price for a sum.

    Args:
        rounds: of a federation, `seen_through_relay`.
        view: the observer.
        patterns: [A, T] rounds in which the protected unit takes part.
        pure: price in epsilon (Laplace laws), else in mu^2.
        weight: how many times as much an agent counts in the rounds it takes part in.
    """
    per_round = [_price(bound, view, pure=pure) for bound in rounds.distinct]
    if any(price is None for price in per_round):
        return None
    unit = np.stack([price for price in per_round if price is not None])[rounds.which] * weight ** (1 if pure else 2)
    scales = rounds.scales if pure else rounds.scales**2
    with np.errstate(divide="ignore", invalid="ignore"):
        price = np.where(unit > 0, unit / scales[:, None], 0.0)  # [T, K]
        spent = np.max([np.cumsum(np.where(one[:, None], price, 0.0), axis=0) for one in patterns], axis=0)
    return values_at_public_points(
        spent, pure=pure, each=price, exact=view.broadcast, linear_view=view.broadcast and not pure
    )


def _state_is_public(bound: BoundRound) -> bool:
    return len(bound.exchanges) == 1 and not np.any(bound.form.state[:, -1])


def _price(bound: BoundRound, view: View, *, pure: bool) -> np.ndarray | None:
    """[K] of one round at unit scale."""
    links, noise = bound.exchanges[0]
    change = np.abs(links.self_weights * bound.form.messages[0, -1])
    unknown = ~known_sources(noise.owners, view.members)
    kept = received_map(noise, links)[[0]].toarray().ravel()[unknown]
    kept = kept[kept != 0]
    if pure and len(kept) > 1:
        return None
    if not len(kept):
        return np.where(change > 0, np.inf, 0.0)
    return np.asarray(change / np.abs(kept[0]) if pure else change**2 / float(kept @ kept))


WAY = Way(
    where=frozenset({"relay", "noise in messages", "noise", "bound rounds"}), values=average_values, averages=True
)
