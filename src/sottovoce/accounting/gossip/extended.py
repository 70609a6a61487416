"""The exact pairwise loss of gossip averaging in decimal arithmetic of many digits, from the definition: a check for small networks.

The vectors A^t e_w are formed as they are written, with weights as fractions (`gossip_rank.exact_entries`), and orthogonalised one after
the other. Powers are ill-conditioned, and digits pay for it: with D of them a direction of relative size above 10^(-D/2) is real, one
below 10^(-4D/5) is rounding, and anything between is refused.
"""

from collections.abc import Sequence
from decimal import Decimal, localcontext

import numpy as np
from scipy import sparse

from sottovoce.accounting.gossip.rank import exact_entries
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.numbers import checked, whole
from sottovoce.topologies import Static, Topology


def pairwise_extended(
    topology: Topology,
    *,
    rounds: int,
    std: float,
    sensitivity: float,
    attackers: Sequence[int],
    digits: int = 50,
) -> np.ndarray:
    """`gossip.pairwise` in arithmetic of so many digits: [K, A] mu, row u whose value, column i attacker attackers[i].

    Raises:
        UnsupportedClaim: a direction is neither clearly there nor clearly rounding; more digits decide.
        ConfigError: malformed input, or weights that are not fixed.
    """
    T, D = whole("rounds", rounds), whole("digits", digits, least=20)
    local = checked("sensitivity", sensitivity, "(0, 1e100)") / checked("std", std, "(1e-100, 1e100)")
    if topology.relay or not isinstance(topology.schedule, Static):
        raise ConfigError("pairwise_extended needs peers with fixed weights. Use a topology without a schedule.")
    table = np.empty((topology.num_agents, len(attackers)))
    with localcontext() as context:
        context.prec = D
        rows, columns, fractions = exact_entries(sparse.csr_array(topology.weights))
        values = np.array([Decimal(value.numerator) / Decimal(value.denominator) for value in fractions], dtype=object)
        for i, attacker in enumerate(attackers):
            senders = topology.neighbours(attacker)
            vectors = np.full((topology.num_agents, len(senders)), Decimal(0), dtype=object)
            vectors[senders, np.arange(len(senders))] = Decimal(1)
            exposed = _exposed(vectors, int(attacker), (rows, columns, values), T, D)
            table[:, i] = local * np.sqrt(np.clip(exposed.astype(float), 0.0, 1.0))
            table[attacker, i] = np.nan
    return table


def _exposed(
    vectors: np.ndarray, attacker: int, entries: tuple[np.ndarray, np.ndarray, np.ndarray], rounds: int, digits: int
) -> np.ndarray:
    """[K] squared lengths of the projections of the unit vectors on the span of all rounds' vectors."""
    rows, columns, values = entries
    own = np.full(len(vectors), Decimal(0), dtype=object)
    own[attacker] = Decimal(1)
    basis = [own]
    for _ in range(rounds):
        for vector in vectors.T:
            left, size = _beyond(vector, basis)
            if size > Decimal(10) ** -digits:
                basis.append(left / size.sqrt())
            elif size > Decimal(10) ** (-8 * digits // 5):
                raise UnsupportedClaim(
                    f"a direction has relative size {float(size.sqrt()):.1e}, which {digits} digits do not settle. Ask for twice the digits."
                )
        following = np.full(vectors.shape, Decimal(0), dtype=object)
        np.add.at(following, rows, values[:, None] * vectors[columns])
        vectors = following
    return np.asarray(sum(direction * direction for direction in basis))


def _beyond(vector: np.ndarray, basis: list[np.ndarray]) -> tuple[np.ndarray, Decimal]:
    """(what of the normalised vector is orthogonal to the basis, its squared size)."""
    left = vector / np.dot(vector, vector).sqrt()
    for _ in range(2):
        for direction in basis:
            left = left - direction * np.dot(direction, left)
    return left, np.dot(left, left)
