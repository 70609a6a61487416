"""One round of the whole network as sparse matrices, and the rows of it that an observer sees.

Every quantity of a round is a linear form over (x, g, z): the states before the round [b K], the gradients [K] and the unit
noise sources of all its exchanges [q], per coordinate of the model. Splitting the columns gives

    x' = F x + G g + N z,      y = H x + D g + M z

with y what the observer reads. Sources that it knows are no noise to it, so their columns are left out. Of sources that a generator draws,
its members know nothing but the sums that they add themselves: rows of y with sources alone.

Noise of earlier rounds that enters again is carried in further states, [lags K] after those of the agents: what every agent added in the round
before, in the one before that, and so on (linear/memory.py). They start at zero, as they should.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from sottovoce.linear.rounds import BoundExchange, BoundRound
from sottovoce.noise import RELAY, joined_owners, known_sources
from sottovoce.observers import View
from sottovoce.reprs import short_repr

CANCELLED = 1e-14  # what is smaller than this part of the sum of absolute terms has cancelled


class NetworkRound(NamedTuple):
    """Rows over the columns (x [b K], g [K], z [q])."""

    num_agents: int
    num_states: int  # (b + lags) K
    state: sparse.csr_array  # [(b + lags) K, .]
    model: sparse.csr_array  # [K, .] the models after the round
    links: tuple[sparse.csr_array, ...]  # per exchange [E, .]: what every link carries
    own: tuple[sparse.csr_array, ...]  # per exchange [K, .]: every agent's own copy
    received: tuple[sparse.csr_array, ...]  # per exchange [K, .]: what every agent combines
    active: tuple[np.ndarray, ...]  # per exchange [E] bool
    owners: np.ndarray  # [q, w]
    # How many of the q belong to each exchange; noise in gradients comes last, as one more entry.
    sources: tuple[int, ...]
    # Per exchange [K, .]: what a generator has told every agent; [0, .] where there is none.
    told: tuple[sparse.csr_array, ...] = ()

    def __repr__(self) -> str:
        return short_repr(self)


class SeenRows(NamedTuple):
    """What an observer reads of a round, row by row as it is recorded: rows over the columns (x [b K], g [K], z [q])."""

    # Per exchange [E_o, .]: the links it reads, used or not; a federation's uplinks [K, .].
    messages: tuple[sparse.csr_array, ...]
    active: tuple[np.ndarray, ...]  # per exchange [E_o] bool: the links that are used in this round
    broadcast: tuple[sparse.csr_array, ...]  # per exchange [1, .]: what a relay sends out; () where it is not read
    final_model: sparse.csr_array  # [1, .] in the last round of an observer who is given it, else [0, .]
    # Per exchange [members, .]: what a generator has told them; [0, .] where there is none.
    told: tuple[sparse.csr_array, ...] = ()


class SystemRound(NamedTuple):
    """The system of one round as an observer sees it; unit noise."""

    F: sparse.csr_array
    G: sparse.csr_array
    N: sparse.csr_array
    H: sparse.csr_array
    D: sparse.csr_array
    M: sparse.csr_array

    def __repr__(self) -> str:
        return short_repr(self)


def network_round(bound: BoundRound) -> NetworkRound:
    """Compose the round from the agent's linear form, the weights and the noise maps."""
    form, K = bound.form, len(bound.exchanges[0].links.perron)
    counts = [exchange.noise.num_sources for exchange in bound.exchanges]
    memory = bound.remembered
    states = (form.blocks + len(memory)) * K
    width = states + K + sum(counts) + K * bound.noisy_gradients
    known = [_placed(sparse.eye_array(K), b * K, width) for b in range(form.blocks)]
    gradient = _placed(sparse.eye_array(K), states, width)
    owners = [exchange.noise.owners for exchange in bound.exchanges]
    if bound.noisy_gradients:
        gradient = gradient + _placed(sparse.eye_array(K), width - K, width)
        owners.append(np.stack([np.arange(K), np.full(K, -1)], axis=1))
    links: list[sparse.csr_array] = []
    own: list[sparse.csr_array] = []
    received: list[sparse.csr_array] = []
    told: list[sparse.csr_array] = []

    def mix(coefficients: np.ndarray) -> sparse.csr_array:
        terms = zip(coefficients[:-1], [*known, *received], strict=True)
        return sum((c * value for c, value in terms if c != 0), start=coefficients[-1] * gradient)

    added = again = _again(memory, form.blocks * K, width)
    start = states + K
    for j, exchange in enumerate(bound.exchanges):
        sent = again + mix(np.concatenate([form.messages[j][: form.blocks + j], form.messages[j][-1:]]))
        carried, kept = noise_rows(exchange)
        added = again + _placed(kept, start, width)
        links.append((sent[exchange.links.senders] + _placed(carried, start, width)).tocsr())
        own.append((sent + _placed(kept, start, width)).tocsr())
        received.append((_combination(exchange, links[-1], own[-1])).tocsr())
        told.append(_placed(generated_sums(exchange), start, width))
        start += counts[j]
    rows = [mix(row) for row in form.state]
    # What was added now, then what was added before but for the oldest; no rows without memory.
    before = _placed(sparse.eye_array(max(0, len(memory) - 1) * K), form.blocks * K, width)
    state = sparse.vstack([*rows, added[: len(memory) * K], before]).tocsr()
    model = sum(form.model[b] * state[b * K : (b + 1) * K] for b in range(form.blocks))
    return NetworkRound(
        num_agents=K,
        num_states=states,
        state=state,
        model=sparse.csr_array(model),
        links=tuple(links),
        own=tuple(own),
        received=tuple(received),
        active=tuple(exchange.links.weights > 0 for exchange in bound.exchanges),
        owners=joined_owners(owners),
        sources=tuple(len(part) for part in owners),
        told=tuple(told),
    )


def _again(memory: np.ndarray, first: int, width: int) -> sparse.csr_array:
    """[K, .] what enters every agent's message of the noise of earlier rounds, whose columns begin at `first`."""
    agents = memory.shape[1]
    parts = [_placed(sparse.diags_array(-row), first + j * agents, width) for j, row in enumerate(memory)]
    return sparse.csr_array(sum(parts, start=sparse.csr_array((agents, width))))


def noise_rows(exchange: BoundExchange) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Of every source, what each link [E, S] and each own copy [K, S] carries."""
    noise, (E, K) = exchange.noise, (len(exchange.links.senders), len(exchange.links.perron))
    shape = noise.num_sources
    carried = sparse.csr_array((noise.link_value, (noise.link_index, noise.link_source)), shape=(E, shape))
    kept = sparse.csr_array((noise.self_value, (noise.self_index, noise.self_source)), shape=(K, shape))
    return carried, kept


def generated_sums(exchange: BoundExchange) -> sparse.csr_array:
    """[K, S] the sum of a generator's sources that every agent adds, which is all that it knows of them; [0, S] where there is no generator."""
    drawn, kept = exchange.noise.of_generator, noise_rows(exchange)[1]
    return kept[:0] if not drawn.any() else sparse.csr_array(kept @ sparse.diags_array(drawn.astype(float)))


def seen_rows(network: NetworkRound, view: View, *, last: bool, centroid: np.ndarray) -> SeenRows:
    """Every row an observer reads in a round, repeated ones too; `last` adds the final model where it sees that."""
    final = network.model[:0]
    if last and view.final_model:
        final = _sum_of(sparse.csr_array(centroid[None, :]), network.model)
    told = _told(network, view)
    if not view.broadcast:
        read = tuple(rows[seen] for rows, seen in zip(network.links, view.links, strict=True))
        used = tuple(active[seen] for active, seen in zip(network.active, view.links, strict=True))
        return SeenRows(read, used, (), final, told)
    # The uplinks: in a federation an own copy is the very message, but for what the relay adds later.
    if view.every_message:
        sent = sparse.diags_array(
            np.append(np.ones(network.own[0].shape[1] - len(network.owners)), network.owners[:, 0] != RELAY)
        )
        uplinks = tuple(sparse.csr_array(rows @ sent) for rows in network.own)
        return SeenRows(uplinks, tuple(np.ones(rows.shape[0], dtype=bool) for rows in uplinks), (), final, told)
    nothing = tuple(rows[:0] for rows in network.own)
    idle = tuple(np.zeros(0, dtype=bool) for _ in network.own)
    return SeenRows(nothing, idle, tuple(rows[:1] for rows in network.received), final, told)


def _told(network: NetworkRound, view: View) -> tuple[sparse.csr_array, ...]:
    return tuple(rows[view.members] if rows.shape[0] else rows for rows in network.told)


def sources_known(network: NetworkRound, view: View) -> np.ndarray:
    """[q] bool: the sources that are no noise to the observer."""
    # A relay knows its own noise, and who reads what is sent to it reads that without.
    of_relay = (network.owners[:, 0] == RELAY) & view.every_message
    return np.asarray(known_sources(network.owners, view.members) | of_relay)


def observed_round(network: NetworkRound, view: View, *, last: bool, centroid: np.ndarray) -> SystemRound:
    """The system of a round for an observer; `last` adds the final model where it sees that.

    Args:
        network: the round of the whole network.
        view: what the observer reads and knows.
        last: whether this is the last round.
        centroid: [K] weights of the agents in the final model.
    """
    rows = seen_rows(network, view, last=last, centroid=centroid)
    used = [part[active] for part, active in zip(rows.messages, rows.active, strict=True)]
    told = [part[np.diff(part.indptr) > 0] for part in rows.told]  # whoever adds nothing was told nothing
    stacked = sparse.vstack([*used, *rows.broadcast, rows.final_model, *told]).tocsr()
    seen = stacked[distinct_rows(stacked)]
    hidden = np.flatnonzero(~sources_known(network, view)) + network.num_states + network.num_agents
    columns = (slice(0, network.num_states), slice(network.num_states, network.num_states + network.num_agents), hidden)
    F, G, N = (network.state[:, part].tocsr() for part in columns)
    H, D, M = (seen[:, part].tocsr() for part in columns)
    return SystemRound(F, G, N, H, D, M)


def _placed(matrix: sparse.sparray, start: int, width: int) -> sparse.csr_array:
    placed = sparse.coo_array(matrix)
    return sparse.csr_array((placed.data, (placed.row, placed.col + start)), shape=(placed.shape[0], width))


def _combination(exchange: BoundExchange, links: sparse.csr_array, own: sparse.csr_array) -> sparse.csr_array:
    active = exchange.links
    E, K = len(active.senders), len(active.perron)
    gather = sparse.csr_array((active.weights, (active.receivers, np.arange(E))), shape=(K, E))
    return _sum_of(
        sparse.hstack([gather, sparse.diags_array(active.self_weights)]).tocsr(), sparse.vstack([links, own]).tocsr()
    )


def _sum_of(factors: sparse.csr_array, rows: sparse.csr_array) -> sparse.csr_array:
    """The product, with exact zeros where terms cancel: what is left there is rounding, and would look like noise."""
    total = sparse.csr_array(factors @ rows)
    terms = sparse.csr_array(abs(factors) @ abs(rows))
    total.sum_duplicates()
    total.sort_indices()
    positions = np.repeat(np.arange(total.shape[0]), np.diff(total.indptr)), total.indices
    total.data[np.abs(total.data) <= CANCELLED * np.asarray(terms[positions]).ravel()] = 0.0
    total.eliminate_zeros()
    return total


def distinct_rows(rows: sparse.csr_array) -> np.ndarray:
    """Where each row stands first: a broadcast heard over several links is heard once."""
    rows.sum_duplicates()
    rows.eliminate_zeros()
    seen: dict[tuple[bytes, bytes], int] = {}
    for index in range(rows.shape[0]):
        part = slice(rows.indptr[index], rows.indptr[index + 1])
        seen.setdefault((rows.indices[part].tobytes(), rows.data[part].tobytes()), index)
    return np.array(list(seen.values()), dtype=int)
