"""The noise that protects a message: what it costs to hide a difference of one agent's message in one exchange.

Give the observer everything but agent p's data and p's own noise: all messages of all agents, the other agents' data, all sampling
randomness, and the sources of the observer's members. In one exchange let C be what every link carries of the remaining sources
(rows: active links) and u_p mark the links of p. If p's un-noised message differs by d between two worlds in which the same messages
are read, the sources must differ by -C^+ u_p d, at a price of

    Gaussian            ||C^+ u_p||^2 d^2 / scale^2                        added to mu^2
    Laplace, L2Laplace  sum over p's sources |d| / (|value| scale)         added to epsilon

and infinity if u_p is not in the range of C. p's own copy then carries the fraction s_p of that shift, so that d lives on in p's
state with the factor rho_p = a_pp (1 - s_p). Noise in the own copy that no message shows is given to the observer as well.

Sources that a generator draws are known to nobody; a member knows the sum that it adds itself. So the members' rows stay in C: knowing n_M besides
all messages is knowing their rows without a message, and Cov(n_H | n_M)^-1 = [Sigma^-1]_HH. The price of p is the same for every coalition.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from sottovoce.errors import UnsupportedClaim
from sottovoce.linear import BoundExchange, noise_rows
from sottovoce.noise import known_sources, own_copy_is_the_message, shared_sources

ROUNDING = 64 * np.finfo(float).eps  # per term, of the numbers that go into a sum or a decomposition
BLUR = 8 * np.finfo(float).eps  # of the largest eigenvalue or singular value: how far the others may be off
OUTSIDE = 1e-12  # a mark with a larger share outside the range of the noise is in clear
DENSE_LIMIT = 4e6  # entries of C up to which a pseudo-inverse is formed


class SentNoise(NamedTuple):
    """The noise that protects each agent's message in one exchange, at unit scale."""

    price: np.ndarray  # [K] per squared difference (Gaussian) or per difference (Laplace laws); inf: in clear
    own: np.ndarray  # [K] s_p
    hidden: np.ndarray  # [K] bool: the own copy has noise that no message shows
    parts: np.ndarray  # [K] how many sources share the price, each paying as much; 0: not known


def sent_noise(exchange: BoundExchange, known: np.ndarray, *, pure: bool, own_copy_seen: bool = False) -> SentNoise:
    """Price and own factor of every agent in one exchange.

    Args:
        exchange: links and noise map.
        known: [K] members of the observer.
        pure: price in epsilon (Laplace laws), else in mu^2.
        own_copy_seen: the agent's own copy is visible too (somebody gets the final model and everything else).
    """
    owners = exchange.noise.owners
    # A relay's noise is added after the messages were sent: whoever reads them reads them without it.
    removed = known_sources(owners, known) | exchange.noise.of_relay
    if exchange.noise.of_generator.any():
        _refuse_generator(exchange, pure=pure)
    if pure:  # a sum of Laplace variables has no simple price: the shared ones are given to the observer
        removed = removed | shared_sources(owners)
    single = _single(exchange, removed, pure=pure, own_copy_seen=own_copy_seen)
    if single is not None:
        return single
    if pure:
        raise UnsupportedClaim(
            "with a Laplace law a link or own copy carries several of its sender's sources, whose sum has no exact price. "
            "Use a Gaussian law, or a scheme with one source per message."
        )
    if own_copy_is_the_message(exchange.noise, exchange.links):
        return _one_row_per_agent(exchange, removed, known, own_copy_seen=own_copy_seen)
    return _general(exchange, removed, own_copy_seen)


def _refuse_generator(exchange: BoundExchange, *, pure: bool) -> None:
    """What members know of a generator's noise is a row of C only where own copies are messages, and has a price under Gaussian laws."""
    if pure:
        raise UnsupportedClaim(
            "a generator draws this noise with a Laplace law, and what agents know of it are sums, which have no exact price. Use a Gaussian law."
        )
    if not own_copy_is_the_message(exchange.noise, exchange.links):
        raise UnsupportedClaim(
            "a generator draws this noise, and own copies carry another noise than the messages, for which nothing is proved. Let every agent use "
            "what it sent."
        )


def _single(exchange: BoundExchange, removed: np.ndarray, *, pure: bool, own_copy_seen: bool) -> SentNoise | None:
    """Every link and own copy carries at most one source, its sender's; None when that is not so."""
    noise, links, K = exchange.noise, exchange.links, len(exchange.links.perron)
    E, S = len(links.senders), noise.num_sources
    active = links.weights > 0
    on_link = (noise.link_value != 0) & ~removed[noise.link_source] & active[noise.link_index]
    on_own = (noise.self_value != 0) & ~removed[noise.self_source]
    link, source, value = noise.link_index[on_link], noise.link_source[on_link], noise.link_value[on_link]
    own_agent, own_source, own_value = noise.self_index[on_own], noise.self_source[on_own], noise.self_value[on_own]
    alone = (
        np.bincount(link, minlength=E).max(initial=0) <= 1 and np.bincount(own_agent, minlength=K).max(initial=0) <= 1
    )
    theirs = (noise.owners[source, 0] == links.senders[link]).all() and (noise.owners[own_source, 0] == own_agent).all()
    shared = shared_sources(noise.owners[source]).any() or shared_sources(noise.owners[own_source]).any()
    if not alone or not theirs or shared:
        return None
    carried = np.zeros(E)
    carried[link] = value
    factor = np.zeros(S)
    factor[source] = value
    uneven = np.zeros(K, dtype=bool)  # one source on two links with different factors can be eliminated
    uneven[links.senders[link[factor[source] != value]]] = True
    clear = uneven | (np.bincount(links.senders[active & (carried == 0)], minlength=K) > 0)
    visible = np.flatnonzero(factor)
    weight = 1.0 / np.abs(factor[visible]) ** (1 if pure else 2)
    price = np.bincount(noise.owners[visible, 0], weight, minlength=K).astype(float)
    parts = np.bincount(noise.owners[visible, 0], minlength=K)
    most = np.zeros(K)
    np.maximum.at(most, noise.owners[visible, 0], weight)
    parts = np.where(price == parts * most, parts, 0)
    own, hidden = np.zeros(K), np.zeros(K, dtype=bool)
    shown = factor[own_source] != 0
    own[own_agent[shown]] = own_value[shown] / factor[own_source[shown]]
    hidden[own_agent[~shown]] = True
    if own_copy_seen:
        extra = np.zeros(K)
        extra[own_agent[~shown]] = 1.0 / np.abs(own_value[~shown]) ** (1 if pure else 2)
        price, parts = price + extra, np.where(extra > 0, 0, parts)
        clear |= ~hidden & (own != 1.0)  # two multiples of one source, both seen, give it away however close they are
        hidden = np.zeros(K, dtype=bool)
    return SentNoise(np.where(clear, np.inf, price), own, hidden, parts)


def _one_row_per_agent(
    exchange: BoundExchange, removed: np.ndarray, known: np.ndarray, *, own_copy_seen: bool
) -> SentNoise:
    """Everybody uses and sends the same perturbed message: Sigma = C C' with one row per agent, price [Sigma^+]_pp."""
    _, kept = noise_rows(exchange)
    C = kept[:, np.flatnonzero(~removed)]
    # Rows of noise one: an agent with little noise is judged by its own, not by that of others.
    norms = np.sqrt(np.asarray(C.multiply(C).sum(axis=1)).ravel())
    unit = 1.0 / np.where(norms > 0, norms, 1.0)
    scaled = sparse.diags_array(unit) @ C
    values, vectors = np.linalg.eigh((scaled @ scaled.T).toarray())
    largest = max(values[-1], 0.0)
    good = values > ROUNDING * len(known) * largest
    # A small variance is taken no larger than it can be, and a direction that may have none at all hides nothing.
    price = unit**2 * (vectors[:, good] ** 2 / (values[good] - BLUR * largest)).sum(axis=1)
    in_range = (vectors[:, ~good] ** 2).sum(axis=1) <= OUTSIDE**2
    sends = np.bincount(exchange.links.senders[exchange.links.weights > 0], minlength=len(known)) > 0
    # Who sends nothing adds no noise: nothing of it is read, unless its own copy is.
    price = np.where(in_range & sends, price, np.where(sends | own_copy_seen, np.inf, 0.0))
    return SentNoise(price, sends * 1.0, np.zeros(len(known), dtype=bool), np.zeros(len(known), dtype=int))


def _general(exchange: BoundExchange, removed: np.ndarray, own_copy_seen: bool) -> SentNoise:
    """Any map: C^+ applied to the links of every agent."""
    links, K = exchange.links, len(exchange.links.perron)
    carried, kept = noise_rows(exchange)
    active, kept_sources = np.flatnonzero(links.weights > 0), np.flatnonzero(~removed)
    if len(active) * len(kept_sources) > DENSE_LIMIT:
        return _by_parts(carried[active][:, kept_sources], kept[:, kept_sources], links.senders[active], own_copy_seen)
    C, own = carried[active][:, kept_sources].toarray(), kept[:, kept_sources].toarray()
    marks = np.zeros((len(active), K))
    marks[np.arange(len(active)), links.senders[active]] = 1.0
    if own_copy_seen:
        C, marks = np.vstack([C, own]), np.vstack([marks, np.eye(K)])
    shift, clear, seen = _shift(C, marks)
    moved = own @ shift  # [K, K] own copy of m when p's message differs
    sizes = ROUNDING * max(C.shape) * (np.abs(own) @ np.abs(shift))
    coupled = ((np.abs(moved) > sizes) & ~np.eye(K, dtype=bool)).any(axis=0)
    if (coupled & ~clear).any():
        p = int(np.flatnonzero(coupled & ~clear)[0])
        raise UnsupportedClaim(
            f"under this scheme the noise in other agents' own copies depends on agent {p}'s message, for which no guarantee is proved. "
            f"Let every agent use what it sent, or give own copies noise of one owner."
        )
    rest = np.linalg.norm(own - own @ seen.T @ seen, axis=1)
    hidden = rest > ROUNDING * max(C.shape) * np.linalg.norm(own, axis=1)
    factor = np.where(_keeps_its_message(carried, kept, links.senders, active, K), 1.0, np.diag(moved))
    return SentNoise(np.where(clear, np.inf, (shift**2).sum(axis=0)), factor, hidden, np.zeros(K, dtype=int))


def _shift(C: np.ndarray, marks: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """C^+ marks [S, K], which marks are outside the range of C [K], and an orthonormal basis of the sources that C shows [r, S].

    Rows are scaled to noise one, and a mark is outside if any of its own rows is missed by more than rounding.
    """
    norms = np.linalg.norm(C, axis=1)
    unit = 1.0 / np.where(norms > 0, norms, 1.0)[:, None]
    C, marks = unit * C, unit * marks
    if not C.size:
        return np.zeros((C.shape[1], marks.shape[1])), np.asarray(marks.any(axis=0)), np.zeros((0, C.shape[1]))
    left, sizes, right = np.linalg.svd(C, full_matrices=False)
    good = sizes > ROUNDING * max(C.shape) * sizes[0]
    along = left[:, good].T @ marks
    missed = np.abs(marks - left[:, good] @ along)
    share = np.where(marks != 0, np.abs(marks), np.linalg.norm(marks, axis=0))
    clear = np.asarray((missed > OUTSIDE * share).any(axis=0))
    return right[good].T @ (along / (sizes[good] - BLUR * sizes[0])[:, None]), clear, right[good]


def _keeps_its_message(
    carried: sparse.csr_array, kept: sparse.csr_array, senders: np.ndarray, active: np.ndarray, num_agents: int
) -> np.ndarray:
    """[K] bool: agents that send, and whose own copy is what every one of their active links carries, to the last digit."""
    difference = sparse.csr_array(carried[active] - kept[senders[active]])
    differs = np.zeros(num_agents, dtype=bool)
    differs[senders[active][np.flatnonzero(abs(difference).sum(axis=1))]] = True
    return (np.bincount(senders[active], minlength=num_agents) > 0) & ~differs


def _by_parts(C: sparse.csr_array, own: sparse.csr_array, senders: np.ndarray, own_copy_seen: bool) -> SentNoise:
    """A large map without noise in own copies, whose links share sources in small groups: one pseudo-inverse per group."""
    if np.abs(own.data).max(initial=0.0) > 0:
        raise UnsupportedClaim("this scheme is too large to account for: own copies carry noise shared between agents.")
    from scipy.sparse.csgraph import connected_components

    _, group = connected_components(abs(C) @ abs(C).T, directed=False)
    order = np.argsort(group, kind="stable")
    K = own.shape[0]
    price = np.full(K, np.inf if own_copy_seen else 0.0)
    for rows in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        block = C[rows]
        block = block[:, np.unique(block.indices)].toarray()
        involved = np.unique(senders[rows])
        marks = (senders[rows][:, None] == involved[None, :]).astype(float)
        shift, clear, _ = _shift(block, marks)
        price[involved] += np.where(clear, np.inf, (shift**2).sum(axis=0))
    return SentNoise(price, np.zeros(K), np.zeros(K, dtype=bool), np.zeros(K, dtype=int))
