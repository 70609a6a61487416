"""Noise that agents share, as one vector per round: what it costs to shift what the agents add to their messages.

In one exchange agent l adds n_l to every message it sends, n = C z, and its own copy carries n_l as well, or nothing. The observer knows some sources
(those of its members), which it subtracts, and what its members add. Let C keep the other sources only. Shifting n by h, with h = 0 at members and at
whoever adds no noise, means shifting the sources by C^+ h, which leaves everything that the observer knows as it is and costs

    ||C^+ h||^2 = h' X h / std^2,   X = (C C')^+ .

Pair sources: the rows of members are zero, and X is the inverse of the covariance of the honest agents' noise. Sources of a generator: rows of members
stay, and X restricted to the others is that block of the inverse of the whole covariance.

X is an upper bound in the order of quadratic forms, whatever was rounded: the distance between C C' and its computed decomposition is added up and taken
off every eigenvalue, and what rounding does to the entries of the inverse is added on its diagonal. So h' X h is never too small.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from sottovoce.accounting.proofs.message_noise import OUTSIDE, ROUNDING
from sottovoce.linear import BoundExchange, noise_rows
from sottovoce.noise import known_sources

EPS = float(np.finfo(float).eps)


class NoiseVector(NamedTuple):
    """What agents add in one exchange, to somebody who knows some of it; at unit scale."""

    precision: np.ndarray  # [K, K] X, 0 at agents whose noise cannot be shifted
    movable: np.ndarray  # [K] bool: agents whose noise can be shifted alone
    own: np.ndarray  # [K] 1: the own copy carries what is sent; 0: it carries no noise


def noise_vector(exchange: BoundExchange, members: np.ndarray) -> NoiseVector | None:
    """The noise of one exchange as a vector; None where links of one agent differ, or an own copy has other noise than the messages.

    Args:
        exchange: links and noise map.
        members: [K] bool, agents of the observer.
    """
    noise = exchange.noise
    if noise.of_relay.any():
        return None
    found = _added(exchange)
    if found is None:
        return None
    added, own = found
    unknown = np.flatnonzero(~known_sources(noise.owners, members))
    precision, movable = upper_precision(sparse.csr_array(added[:, unknown]))
    movable &= ~members
    return NoiseVector(np.where(np.outer(movable, movable), precision, 0.0), movable, own)


def _added(exchange: BoundExchange) -> tuple[sparse.csr_array, np.ndarray] | None:
    """What each agent adds to all its messages [K, S], and whether its own copy carries that; of who sends nothing, what its own copy carries."""
    links, K, E = exchange.links, len(exchange.links.perron), len(exchange.links.senders)
    carried, kept = noise_rows(exchange)
    active = np.flatnonzero(links.weights > 0)
    row = E + np.arange(K)
    row[links.senders[active]] = active
    added = sparse.csr_array(sparse.vstack([carried, kept], format="csr")[row])
    unequal = sparse.csr_array(carried[active] - added[links.senders[active]])
    if np.abs(unequal.data).max(initial=0.0) > 0:
        return None
    as_sent = _empty_rows(kept - added)
    if not (as_sent | _empty_rows(kept)).all():
        return None
    return added, as_sent * 1.0


def _empty_rows(matrix: sparse.csr_array) -> np.ndarray:
    return np.asarray(np.asarray(abs(sparse.csr_array(matrix)).sum(axis=1)).ravel() == 0)


def upper_precision(C: sparse.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """(X, movable): h' X h >= ||C^+ h||^2 for every h that is 0 where movable [K] is False.

    An agent is movable if its unit vector is in the range of C: then so is every h on such agents.
    """
    K = C.shape[0]
    # Rows of noise one: an agent with little noise is judged by its own, not by that of others.
    norms = np.sqrt(np.asarray(C.multiply(C).sum(axis=1)).ravel())
    unit = 1.0 / np.where(norms > 0, norms, 1.0)
    scaled = sparse.csr_array(sparse.diags_array(unit) @ C)
    covariance = (scaled @ scaled.T).toarray()
    values, vectors = np.linalg.eigh(covariance)
    sizes = np.abs(vectors)
    terms = int(np.diff(scaled.indptr).max(initial=0)) + 4
    off = terms * EPS * float((abs(scaled) @ abs(scaled).T).sum(axis=1).max(initial=0.0))
    off += float(np.linalg.norm(covariance - (vectors * values) @ vectors.T))
    off += (K + 4) * EPS * float(np.linalg.norm((sizes * np.abs(values)) @ sizes.T))
    turned = float(np.linalg.norm(vectors.T @ vectors - np.eye(K))) + (K + 4) * EPS * float(
        np.linalg.norm(sizes.T @ sizes)
    )
    good = values > max(ROUNDING * K * max(values[-1], 0.0), 2.0 * off)
    movable = (vectors[:, ~good] ** 2).sum(axis=1) <= OUTSIDE**2
    inverse = (1.0 + 4.0 * turned) / (values[good] - off)
    precision = (vectors[:, good] * inverse) @ vectors[:, good].T
    rounded = (K + 8) * EPS * ((sizes[:, good] * inverse) @ sizes[:, good].T)
    precision = 0.5 * (precision + precision.T) + np.diag(rounded.sum(axis=1))
    return precision * np.outer(unit, unit), movable
