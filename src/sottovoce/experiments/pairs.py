"""What every agent learns about every other, as one value: the losses of all pairs, by distance and as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.accounting import Guarantee, LinearValidity, gaussian
from sottovoce.errors import UnsupportedClaim

Measure = Literal["mu", "epsilon"]
PairValidity = LinearValidity | Literal["amplified-by-iteration"]

VALIDITY: dict[PairValidity, str] = {
    "adaptive": "a guarantee, since values do not react to what agents hear",
    "exogenous-gradients": "for gradients that do not react to what agents hear; no guarantee where they do",
    "amplified-by-iteration": "a guarantee for convex, smooth losses as promised, with steps of at most 2 / beta",
}
RECEIVER = "one agent, who reads what it receives and knows its own noise"
EQUAL = 1e-9  # relative difference of losses that count as the same: what the last digits say


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pairs:
    """What every agent learns about every other; row u is whose data, column v who looks, no number on the diagonal.

    Attributes:
        losses: [K, K] what is learned, the upper end; infinite where something is in clear.
        measure: what the losses are: "mu", or "epsilon" at `delta` where there is no mu.
        resolved: [K, K] the lower end, where there is a bracket.
        distances: [K, K] links from u to v.
        attacker: the agent about whom `proven` and the picture of the network are.
        proven: what sv.account proves for the attacker about every other agent, in their order; nothing where the losses are themselves proven by it.
        validity: whether the losses are a guarantee, and why, or hold for exogenous gradients.
        method: how it was computed, in words.
        observer: who looks and what it sees, in words.
        delta: for which epsilon is stated.
        unit: what is protected.
        rounds: accounted.
        drawn: what pictures show: right "guesses" or "epsilon".
        premise: what is assumed besides; empty where there is nothing to add.
        details: what the numbers rest on, for whoever asks; empty likewise.
        choices: what else was chosen, as plain values by name.
    """

    losses: np.ndarray
    measure: Measure = "mu"
    resolved: np.ndarray | None
    distances: np.ndarray
    attacker: int
    proven: tuple[Guarantee, ...]
    validity: PairValidity
    method: str
    observer: str = RECEIVER
    delta: float
    unit: str
    rounds: int
    drawn: Literal["guesses", "epsilon"] = "guesses"
    premise: str = ""
    details: str = ""
    choices: Mapping[str, Any] = field(default_factory=dict)

    @property
    def mu(self) -> np.ndarray:
        """[K, K] mu of every pair.

        Raises:
            UnsupportedClaim: the losses are epsilons that follow from no mu.
        """
        if self.measure != "mu":
            raise UnsupportedClaim(
                "mu was asked for pairs that have an epsilon at one delta only, as on average over the ways of a walking token. Read the losses."
            )
        return self.losses

    @property
    def proved(self) -> bool:
        """Whether the losses are a guarantee."""
        return self.validity != "exogenous-gradients"

    @property
    def gap(self) -> float | None:
        """The largest mu^2 - resolved^2 over the largest mu^2; None where there is no bracket."""
        if self.resolved is None:
            return None
        return float(np.nanmax(self.losses**2 - self.resolved**2) / np.nanmax(self.losses) ** 2)

    @property
    def proven_mu(self) -> np.ndarray:
        """[K] the proven mu of the attacker about every agent; no number at its own place, or where the guarantee has no mu."""
        found = np.full(len(self.losses), np.nan)
        for each in self.proven:
            found[each.agent] = np.nan if each.mu is None else each.mu
        return found

    @property
    def most_exposed(self) -> tuple[int, int]:
        """(whose data, who looks) of the pair with the largest loss, the first of equals."""
        largest = self.losses >= np.nanmax(self.losses) * (1.0 - EQUAL)
        u, v = divmod(int(np.argmax(largest)), len(self.losses))
        return u, v

    @property
    def alike(self) -> bool:
        """Whether all pairs lose the same."""
        return bool(np.nanmin(self.losses) >= np.nanmax(self.losses) * (1.0 - EQUAL))

    def epsilons(self, losses: ArrayLike) -> np.ndarray:
        """Epsilon at delta of losses of these pairs; infinity and missing numbers are passed on."""
        values = np.asarray(losses, dtype=float)
        if self.measure == "epsilon":
            return values
        return np.asarray([epsilon_of(float(each), self.delta) for each in values.ravel()]).reshape(values.shape)


class DistanceRow(NamedTuple):
    """All pairs at one distance."""

    distance: int
    pairs: int
    least: float
    median: float
    largest: float
    proven: float  # the largest proven mu of the attacker at this distance; no number where it has none


def distance_rows(pairs: Pairs) -> list[DistanceRow]:
    """The table of a matrix of pairs: least, median and largest loss at every distance."""
    rows, proven = [], pairs.proven_mu
    for distance in range(1, int(pairs.distances.max()) + 1):
        there = pairs.distances == distance
        values, own = pairs.losses[there], proven[there[:, pairs.attacker]]
        stated = own[~np.isnan(own)].max(initial=-np.inf)
        low, middle, high = (float(number) for number in (values.min(), np.median(values), values.max()))
        rows.append(
            DistanceRow(distance, len(values), low, middle, high, float(stated) if stated >= 0 else float("nan"))
        )
    return rows


def describe_pairs(pairs: Pairs) -> dict[str, Any]:
    """Plain values for JSON; infinity and missing numbers are written as null."""
    return {
        "num_agents": len(pairs.losses),
        "rounds": pairs.rounds,
        "unit": pairs.unit,
        "delta": pairs.delta,
        "attacker": pairs.attacker,
        "method": pairs.method,
        "validity": pairs.validity,
        "gap": pairs.gap,
        **pairs.choices,
        **_largest(pairs),
        "by_distance": [_described_row(pairs, row) for row in distance_rows(pairs)],
        "attacker_about": _about_others(pairs),
    }


def _largest(pairs: Pairs) -> dict[str, Any]:
    """The largest loss, and where pictures are of epsilon also whose it is."""
    largest = float(np.nanmax(pairs.losses))
    found: dict[str, Any] = {"largest_mu": _finite(largest)} if pairs.measure == "mu" else {}
    if pairs.drawn == "epsilon":
        agent, observer = pairs.most_exposed
        found["largest_epsilon"] = _finite(float(pairs.epsilons(largest)))
        found["most_exposed"] = {"agent": agent, "observer": observer}
    return found


def _described_row(pairs: Pairs, row: DistanceRow) -> dict[str, Any]:
    sizes = {name: getattr(row, name) for name in ("least", "median", "largest")}
    stated: dict[str, Any] = {"distance": row.distance, "pairs": row.pairs}
    if pairs.measure == "mu":
        stated["mu"] = {name: _finite(value) for name, value in sizes.items()}
    stated["epsilon"] = {name: _finite(float(pairs.epsilons(value))) for name, value in sizes.items()}
    if pairs.proven:
        stated["attacker_proven_infinite"] = bool(np.isposinf(row.proven))
        stated["attacker_proven_mu"] = _finite(row.proven)
        stated["attacker_proven_epsilon"] = _finite(epsilon_of(row.proven, pairs.delta))
    return stated


def _about_others(pairs: Pairs) -> list[dict[str, Any]]:
    """What the attacker learns about every agent, and what is proven beside."""
    column, distances = pairs.losses[:, pairs.attacker], pairs.distances[:, pairs.attacker]
    if pairs.proven:
        return [
            {
                "agent": each.agent, "distance": int(distances[each.agent]), "mu": _finite(float(column[each.agent])),
                "proven_mu": _finite(each.mu), "proven_epsilon": _finite(each.epsilon(pairs.delta)), "proven_validity": each.validity,
            }
            for each in pairs.proven
        ]  # fmt: skip
    others = np.delete(np.arange(len(column)), pairs.attacker)
    measured = {"epsilon": pairs.epsilons(column), pairs.measure: column}
    return [
        {
            "agent": int(agent),
            "distance": int(distances[agent]),
            **{name: _finite(float(values[agent])) for name, values in measured.items()},
        }
        for agent in others
    ]


def pair_arrays(pairs: Pairs) -> dict[str, np.ndarray]:
    """The arrays to be kept, by name."""
    arrays = {pairs.measure: pairs.losses, "distances": pairs.distances, "attacker": np.array(pairs.attacker)}
    if pairs.drawn == "epsilon":
        arrays["epsilon"] = pairs.epsilons(pairs.losses)
    if pairs.proven:
        arrays["attacker_proven_mu"] = pairs.proven_mu
    if pairs.resolved is not None:
        arrays["resolved"] = pairs.resolved
    return arrays


def epsilon_of(mu: float, delta: float) -> float:
    """Epsilon at delta; infinity and missing numbers are passed on."""
    return gaussian.epsilon(mu, delta) if np.isfinite(mu) else float(mu)


def _finite(value: float | None) -> float | None:
    return value if value is not None and np.isfinite(value) else None
