"""Agents who see a walking token only when they hold it: all contributions between two looks are hidden together.

Under the promise of convex, smooth losses and steps of at most 2 / beta a step never drives two tokens apart, so that every noise between a
contribution and the next look can take a part of the difference away. For each way of the token the least cost of such shifts is known, and delta is
the average over ways (`accounting.walk`; docs/guarantees.md, "Walks").

STEPS AND NOISE THAT CHANGE. A contribution at hop s moves the token by d_s = step_s Delta, and hop r adds noise of std sigma_r. Gaps: h hops from s on hide it
at the cost d_s^2 / (sigma_s^2 + ... + sigma_{s+h-1}^2), and f(h), the largest over s, stands for every hop: as if f(1) were the cost of one noise and the
gap had f(1) / f(h) of them. All together: as if every contribution were the largest and every noise the smallest, since the least cost grows
with each d and falls with each sigma. What is in clear sight is counted hop by hop.
"""

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sottovoce.accounting.proofs.evidence import Evidence
from sottovoce.accounting.proofs.proof import Proof, Statement
from sottovoce.accounting.proofs.walk_hops import adds_at_most, contributions_of, hop_steps
from sottovoce.accounting.question.asked import Asked
from sottovoce.accounting.question.promise import contraction
from sottovoce.observers import View

if TYPE_CHECKING:
    from sottovoce.accounting.walk import GapLaw, Passages, PathsTradeoff
    from sottovoce.accounting.walk.plans import Resolution

_MOST_LENGTHS = 4096  # of gaps whose cost is looked for hop by hop, where steps or noise change; longer ones count as the longest of them


class _Hops(NamedTuple):
    """What one hop does, per unit of sensitivity."""

    moves: np.ndarray  # [T] how far a contribution moves the token
    stds: np.ndarray  # [T] of the noise in the token

    @property
    def alike(self) -> bool:
        return bool(np.all(self.moves == self.moves[0]) and np.all(self.stds == self.stds[0]))


def waits_for_the_token(view: View, *, taps: bool) -> bool:
    """Whether the observer sees the token only when a member holds it."""
    return bool(view.members.any()) and not (taps or view.every_message or view.final_model)


def states(evidence: Evidence, agent: int) -> Statement | None:
    """What members who wait for the token learn; nothing where others look, or where a hop adds no noise."""
    asked = evidence.asked
    local = float(evidence.sent.values[agent]) * float(asked.sensitivity[agent])
    if not waits_for_the_token(asked.view, taps=bool(asked.observer.links)):
        return None
    hops = evidence.prepared("hops of the walk", lambda: _hops(asked))
    if math.isinf(local) or not (hops.stds > 0.0).all() or not hops.moves.any():
        return None
    fine = len(evidence.agents) == 1 or _fine_for_all(evidence)
    tradeoff = _tradeoff(asked, hops, agent, local, "fine" if fine else "fast")
    if len(tradeoff.laws) == 1:
        evidence.leave_out(
            "Not tried, because it would take too long: hiding all contributions between two looks together. Each is hidden up to the next one. "
            "A cap on the contributions of an agent makes it shorter."
        )
    elif not fine:
        evidence.leave_out(
            "Counted roughly, because there are many agents: the account of one agent (agent=k) is a few percent smaller."
        )
    return Statement(
        tradeoff=tradeoff,
        value=local,
        validity="amplified-by-iteration",
        reason=f"Before the token comes to the observer ({asked.observer}), what agent {agent} added is hidden by the noise of other hops too.",
        section="Walks",
        promised=True,
        others=True,
        premises=(
            f"{adds_at_most(asked)}; the token begins at an agent drawn uniformly and every hop is drawn afresh by the weights, whatever the data; "
            f"the value holds over these draws, which the observer may learn",
        ),
    )


def _hops(asked: Asked) -> _Hops:
    """Steps and noise of the functions that run.

    Raises:
        UnsupportedClaim: steps beyond the promise.
    """
    steps, law = hop_steps(asked.algorithm, asked.rounds), asked.noise.law
    for step in np.unique(steps):
        contraction(float(step), asked.losses)  # refuses steps that are too long
    assert law is not None  # the proof is asked where there is noise
    stds = law.scale * asked.noise.factors(asked.rounds) * asked.algorithm.noisy_rounds(asked.rounds)
    return _Hops(steps, stds * steps if asked.noise.in_gradients else np.asarray(stds))


def _fine_for_all(evidence: Evidence) -> bool:
    from sottovoce.accounting.walk import fine_for

    asked = evidence.asked
    most = contributions_of(asked.algorithm, asked.rounds)
    # On the complete graph all agents have one law.
    laws = 1 if asked.topology.is_uniform else len(evidence.agents)
    return fine_for(laws, contributions=most, rounds=asked.rounds)


def _tradeoff(asked: Asked, hops: _Hops, agent: int, local: float, resolution: "Resolution") -> "PathsTradeoff":
    from sottovoce.accounting.walk import paths_tradeoff

    passages, gaps = _ways(asked, agent)
    # The dearest contribution behind one noise is the unit of cost: mu^2 = cost / multiplier^2.
    unit = float(np.max(hops.moves / hops.stds))
    multiplier = 1.0 / (unit * float(asked.sensitivity[agent]))
    found = paths_tradeoff(
        passages, gaps if hops.alike else _effective(gaps, hops, unit),
        contributions=contributions_of(asked.algorithm, asked.rounds), noise_multiplier=multiplier, resolution=resolution,
    )  # fmt: skip
    found = replace(found, clear_cost=min(found.clear_cost, (local * multiplier) ** 2 * (1.0 + 1e-12)))
    if hops.alike:
        return found
    worst = (float(hops.moves.max()) / float(hops.stds.min()) / unit) ** 2
    laws = tuple(replace(law, spacing=law.spacing * worst) if law.plan == "least" else law for law in found.laws)
    return replace(found, laws=laws)


def _ways(asked: Asked, agent: int) -> tuple["Passages", "GapLaw"]:
    """How the token goes between the agent and the members."""
    from sottovoce.accounting.walk import complete_gaps, complete_passages, graph_gaps, graph_passages

    topology, T, members = asked.topology, asked.rounds, np.flatnonzero(asked.view.members).tolist()
    if topology.is_uniform:
        n, looking = topology.num_agents, len(members)
        return complete_passages(n, rounds=T, observers=looking), complete_gaps(n, rounds=T, observers=looking)
    W = topology.matrix.T
    return (
        graph_passages(W, agent=agent, observers=members, rounds=T),
        graph_gaps(W, agent=agent, observers=members, rounds=T),
    )


def _effective(gaps: "GapLaw", hops: _Hops, unit: float) -> "GapLaw":
    """The same law, with how many noises of the smallest share a gap is worth wherever it begins."""
    squares = np.concatenate([[0.0], np.cumsum(hops.stds**2)])
    T, worth = len(hops.moves), np.empty(len(gaps.lengths))
    for place, length in enumerate(gaps.lengths[:_MOST_LENGTHS]):
        h = min(int(length), T)
        hidden = squares[h:] - squares[:-h]
        # Sums of squares are differences of longer sums, so a share of those is taken off for rounding.
        hidden = np.maximum(hidden - 1e-15 * T * squares[h:], hops.stds[: T - h + 1] ** 2)
        worth[place] = float(
            np.min(
                np.where(hops.moves[: T - h + 1] > 0.0, hidden, np.inf)
                / np.maximum(hops.moves[: T - h + 1], 1e-300) ** 2
            )
        )
    worth[_MOST_LENGTHS:] = worth[min(len(worth), _MOST_LENGTHS) - 1]
    # A gap that no contribution can begin, because steps are 0 so early, counts like the longest that one can.
    worth = np.where(np.isfinite(worth), worth, worth[np.isfinite(worth)].max())
    return replace(gaps, lengths=np.maximum(1.0, np.maximum.accumulate(worth) * unit**2 * (1.0 - 1e-12)))


PROOF = Proof("walk blocks", where=frozenset({"walk", "noise", "Gaussian", "promise"}), states=states, alone=True)
