"""The worst party of a graph, with a bound that holds for all the others too.

Small parts of the honest graph are computed for every party. On a large part a lower bound of lambda_2
(`spectral.connectivity`) bounds every party by its degree; the parties where that bound is largest, the ones with few
neighbours, are then computed by conjugate gradients, and

    mu_upper = max(upper ends of the computed parties, largest bound among the others).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sottovoce.accounting.gopa.exact import bracket, dense_diagonal, noise_ratio, part_of
from sottovoce.accounting.gopa.graph import HonestGraph, honest_graph
from sottovoce.accounting.gopa.spectral import Connectivity, connectivity, party_bound
from sottovoce.numbers import checked
from sottovoce.topologies import Topology

DENSE_LIMIT = 1500  # parties of one part up to which every party is computed
COMPUTED = (2, 16)  # parties computed in a larger part: at least, and at most
EFFORT = 2**22  # parties computed times parties of the part
TOLERANCE = 1e-9

How = Literal["limit", "every party", "lowest degrees and lambda_2"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstParty:
    """The largest mu among honest parties.

    Attributes:
        mu_upper: no honest party has more, except with failure_probability.
        party: the worst one found.
        mu_value: its mu, a lower bound of the largest one.
        certificate: the smallest lower bound of lambda_2 that was used, None where none was needed.
        failure_probability: that mu_upper is wrong; over the random start of the certificate alone, and to be added to
            delta.
        how: every party computed, the limit of uniform masks, or the few worst ones and a bound for the others.
    """

    mu_upper: float
    party: int
    mu_value: float
    certificate: Connectivity | None
    failure_probability: float
    how: How


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One connected part of the honest graph, prepared for many values of q."""

    members: NDArray[np.int64]  # [c] parties
    adjacency: sparse.csr_array
    certificate: Connectivity | None  # None: every party is computed

    def worst(self, ratio: float) -> tuple[float, float, int]:
        """Upper and lower bound of the largest [(I + q L)^-1]_uu, and the party of the latter."""
        c = len(self.members)
        if ratio in (0.0, np.inf) or c == 1:
            value = 1.0 / c if ratio == np.inf else 1.0
            return value, value, int(self.members[0])
        if self.certificate is None:
            values = dense_diagonal(self.adjacency, ratio)
            first = int(values.argmax())
            return float(values[first]), float(values[first]), int(self.members[first])
        bounds = self.bounds(ratio)
        # Ties among equal degrees go to the lower party, so that results repeat.
        order = np.argsort(-bounds, kind="stable")
        count = max(COMPUTED[0], min(COMPUTED[1], EFFORT // c))
        rows, rest = order[:count], order[count:]
        ends = bracket(self.adjacency, rows, ratio, lambda_2=self.certificate.lambda_2, tolerance=TOLERANCE)
        first = int(ends.lower.argmax())
        upper = max(float(np.minimum(ends.upper, bounds[rows]).max()), float(bounds[rest].max()))
        return upper, float(ends.lower[first]), int(self.members[rows[first]])

    def bounds(self, ratio: float) -> NDArray[np.float64]:
        """[c] the bound of every party from its degree."""
        lambda_2 = 0.0 if self.certificate is None else self.certificate.lambda_2
        degrees = np.diff(self.adjacency.indptr)
        return party_bound(degrees, size=len(self.members), lambda_2=lambda_2, ratio=ratio)


def worst_mu(
    topology: Topology | HonestGraph,
    *,
    independent_std: float,
    pairwise_std: float,
    sensitivity: float,
    honest: Sequence[int] | np.ndarray | None = None,
    failure_probability: float = 1e-12,
    seed: int = 0,
) -> WorstParty:
    """The largest mu of an honest party, with a proof for all of them; a million parties take less than a minute.

    Args:
        topology: every linked pair shares noise.
        independent_std: of the noise each party adds on its own, per coordinate.
        pairwise_std: of the noise a pair shares; infinity for uniform masks.
        sensitivity: the largest l2 change of one party's value.
        honest: the honest parties; None for all.
        failure_probability: of the randomised bound that large parts need, all parts together.
        seed: of its random start; the graph must not have been chosen with it in mind.

    Raises:
        ConfigError: malformed input.
        IncompatibleChoice: no fixed symmetric graph.
    """
    local, ratio = noise_ratio(independent_std, pairwise_std, sensitivity)
    graph = honest_graph(topology, honest)
    parts = prepared(graph, failure_probability=failure_probability, seed=seed, certify=ratio not in (0.0, np.inf))
    return worst_of(parts, local, ratio)


def prepared(graph: HonestGraph, *, failure_probability: float, seed: int, certify: bool = True) -> list[Part]:
    """The connected parts with their certificates; where size says all, one part of each size stands for the others."""
    failure = checked("failure_probability", failure_probability, "(0, 1)")
    sizes = graph.sizes
    large = int((sizes > DENSE_LIMIT).sum())
    _, first = np.unique(sizes, return_index=True)
    alike = sizes == 1 if certify else np.ones(len(sizes), dtype=bool)  # parts that their size describes
    alike[first] = False
    parts = []
    for inside, known in zip(graph.parts, alike.tolist(), strict=True):
        if known:
            continue
        adjacency = part_of(graph, inside)
        certificate = None
        if certify and len(inside) > DENSE_LIMIT:
            certificate = connectivity(adjacency, failure_probability=failure / large, seed=seed)
        parts.append(Part(members=graph.members[inside], adjacency=adjacency, certificate=certificate))
    return parts


def worst_of(parts: list[Part], local: float, ratio: float) -> WorstParty:
    """The worst party of all parts, for one q."""
    found = [part.worst(ratio) for part in parts]
    _, lower, party = max(found, key=lambda one: one[1])
    used = [] if ratio in (0.0, np.inf) else [part.certificate for part in parts if part.certificate is not None]
    how: How = "lowest degrees and lambda_2" if used else "every party"
    return WorstParty(
        mu_upper=local * float(np.sqrt(max(upper for upper, _, _ in found))),
        party=party,
        mu_value=local * float(np.sqrt(lower)),
        certificate=min(used, key=lambda one: one.lambda_2) if used else None,
        failure_probability=float(sum(one.failure_probability for one in used)),
        how="limit" if ratio == np.inf else how,
    )
