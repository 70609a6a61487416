"""A second route to every linear privacy number: unit impulses sent through the recursion, written out link by link.

Nothing of the package is used. A run is a list of rounds of the general recursion

    phi = A1' (w + g1),   psi = A0' (phi + g0) - step grad,   w = A2' (psi + g2)        (a matrix left out: the identity)

with A[l, k] the weight receiver k gives sender l. Every quantity is kept as its vector of coefficients over all gradients and all
unit noise sources of the run, so that the rows an observer reads are the matrices Phi and Psi of y = Phi g + Psi z. Then

    Q = Phi_p' (Psi Psi')^+ Phi_p  by singular values of Psi,   mu^2 = max over unit gradient changes of sum_st Q_st <v_s, v_t>.
"""

import itertools
import math
from typing import NamedTuple

import clarabel
import numpy as np
from scipy import sparse

SCHEMES = ("self", "clean", "edge", "edge-clean", "homomorphic", "local", "gopa")


class Round(NamedTuple):
    """One round: up to three matrices, the step and the noise's standard deviation."""

    first: np.ndarray | None = None
    middle: np.ndarray | None = None
    last: np.ndarray | None = None
    step: float = 1.0
    scale: float = 1.0


class Watcher(NamedTuple):
    """What somebody reads and knows, by hand."""

    everything: bool = False
    members: tuple[int, ...] = ()
    links: tuple[tuple[int, int], ...] = ()
    final: bool = False
    relay: bool = False  # no single links: members hear the average that a relay sends to all
    uplinks: bool = False  # what every agent sends to the relay


class Spread(NamedTuple):
    """What every link and every own copy carries of the unit sources."""

    pairs: list[tuple[int, int]]
    carried: np.ndarray  # [E, S]
    kept: np.ndarray  # [K, S]
    owners: list[tuple[int, ...]]


def atc(A: np.ndarray, step: float, scale: float) -> Round:
    return Round(last=A, step=step, scale=scale)


def cta(A: np.ndarray, step: float, scale: float) -> Round:
    return Round(first=A, step=step, scale=scale)


def consensus(A: np.ndarray, step: float, scale: float) -> Round:
    return Round(middle=A, step=step, scale=scale)


def perron(matrix: np.ndarray) -> np.ndarray:
    """q with matrix q = q, by an eigenvalue decomposition."""
    values, vectors = np.linalg.eig(matrix)
    q = np.real(vectors[:, np.argmin(np.abs(values - 1.0))])
    return q / q.sum()


Entry = tuple[tuple[int, ...], dict[int, float], dict[int, float]]  # owners; factor per link; factor per own copy


def spread(scheme: str, A: np.ndarray, place: np.ndarray, ratio: float = 0.0) -> Spread:
    """The map of a scheme on one matrix; `place` is what each receiver counts in the centroid."""
    K = len(A)
    pairs = [(j, k) for k in range(K) for j in range(K) if j != k and A[j, k] > 0]
    match scheme:
        case "self" | "clean" | "homomorphic":
            entries = _broadcast(scheme, A, place, pairs)
        case "edge" | "edge-clean":
            entries = _per_edge(scheme, A, pairs)
        case "local":
            entries = _local(A, pairs)
        case "local and own":  # every link also carries a source of its sender alone
            entries = _local(A, pairs) + [((j,), {e: ratio}, {}) for e, (j, _) in enumerate(pairs)]
        case "gopa":
            entries = _pairwise(A, pairs, ratio)
        case _:
            raise ValueError(scheme)
    carried, kept = np.zeros((len(pairs), len(entries))), np.zeros((K, len(entries)))
    for source, (_, on_links, on_own) in enumerate(entries):
        for e, value in on_links.items():
            carried[e, source] = value
        for k, value in on_own.items():
            kept[k, source] = value
    return Spread(pairs, carried, kept, [owners for owners, _, _ in entries])


def _of(agent: int, pairs: list[tuple[int, int]], value: float) -> dict[int, float]:
    return {e: value for e, (j, _) in enumerate(pairs) if j == agent}


def _broadcast(scheme: str, A: np.ndarray, place: np.ndarray, pairs: list[tuple[int, int]]) -> list[Entry]:
    entries: list[Entry] = []
    for k in range(len(A)):
        on = _of(k, pairs, 1.0)
        lost = sum(place[m] * A[k, m] for m in range(len(A)) if m != k)
        own = {"self": 1.0 if on else 0.0, "clean": 0.0, "homomorphic": -lost / (place[k] * A[k, k])}[scheme]
        entries.append(((k,), on, {k: own}))
    return entries


def _per_edge(scheme: str, A: np.ndarray, pairs: list[tuple[int, int]]) -> list[Entry]:
    entries: list[Entry] = [((j,), {e: 1.0}, {}) for e, (j, _) in enumerate(pairs)]
    if scheme == "edge":
        entries += [((k,), {}, {k: 1.0 if _of(k, pairs, 1.0) else 0.0}) for k in range(len(A))]
    return entries


def _local(A: np.ndarray, pairs: list[tuple[int, int]]) -> list[Entry]:
    entries: list[Entry] = []
    for receiver in range(len(A)):
        into = sorted((e for e, (_, k) in enumerate(pairs) if k == receiver), key=lambda e: pairs[e][0])
        for plus, minus in itertools.product(into[::2], into[1::2]):
            i, j = pairs[plus][0], pairs[minus][0]
            entries.append(((i, j), {plus: 1.0 / A[i, receiver], minus: -1.0 / A[j, receiver]}, {}))
    return entries


def _pairwise(A: np.ndarray, pairs: list[tuple[int, int]], ratio: float) -> list[Entry]:
    entries: list[Entry] = []
    for low, high in itertools.combinations(range(len(A)), 2):
        if A[low, high] > 0 and A[high, low] > 0:
            entries.append(((low, high), _of(low, pairs, ratio) | _of(high, pairs, -ratio), {low: ratio, high: -ratio}))
    for k in range(len(A)):
        on = _of(k, pairs, 1.0)
        entries.append(((k,), on, {k: 1.0 if on else 0.0}))
    return entries


class Stack(NamedTuple):
    """Everything an observer reads over a run."""

    gradients: np.ndarray  # Phi [rows, T, K]
    noise: np.ndarray  # Psi [rows, sources it does not know]
    rounding: float  # what cancels in floating point leaves less than this


def stack(
    rounds: list[Round], scheme: str, watcher: Watcher, *, ratio: float = 0.0, centroid: np.ndarray | None = None
) -> Stack:
    """Send all unit impulses through the rounds at once and keep the rows that are read.

    `centroid` are the weights of the agents, to be given where the rounds do not determine them.
    """
    matrices = [[A for A in (r.first, r.middle, r.last) if A is not None] for r in rounds]
    K, T = len(matrices[0][0]), len(rounds)
    q = perron(np.linalg.multi_dot([np.eye(K), *_mean(matrices), np.eye(K)])) if centroid is None else centroid
    spreads = [
        [spread(scheme, A, place, ratio) for A, place in zip(used, _places(used, q), strict=True)] for used in matrices
    ]
    width = T * K + sum(len(one.owners) for used in spreads for one in used)
    known = np.zeros(width, dtype=bool)
    w, rows, start = np.zeros((K, width)), [], T * K
    for t, r in enumerate(rounds):
        waiting = iter(spreads[t])

        def exchange(sent: np.ndarray, A: np.ndarray | None, scale: float = r.scale, waiting=waiting) -> np.ndarray:
            nonlocal start
            if A is None:
                return sent
            made = next(waiting)
            columns = slice(start, start + len(made.owners))
            start += len(made.owners)
            known[columns] = [any(owner in watcher.members for owner in owners) for owners in made.owners]
            links = sent[[sender for sender, _ in made.pairs]].copy()
            links[:, columns] += scale * made.carried
            own = sent.copy()
            own[:, columns] += scale * made.kept
            combined = np.diag(A)[:, None] * own
            for (sender, receiver), message in zip(made.pairs, links, strict=True):
                combined[receiver] += A[sender, receiver] * message
                if not watcher.relay and _reads(watcher, sender, receiver):
                    rows.append(message)
            if watcher.uplinks:
                rows.extend(own)
            if watcher.relay and watcher.members:
                rows.append(combined[0])
            return combined

        gradient = np.zeros((K, width))
        gradient[np.arange(K), t * K + np.arange(K)] = 1.0
        phi = exchange(w, r.first)
        psi = exchange(phi, r.middle) - r.step * gradient
        w = exchange(psi, r.last)
    if watcher.final:
        rows.append(q @ w)
    seen = np.array(rows).reshape(-1, width)
    rounding = 1e-12 * max(r.scale for r in rounds)
    return Stack(seen[:, : T * K].reshape(-1, T, K), seen[:, T * K :][:, ~known[T * K :]], rounding)


def _reads(watcher: Watcher, sender: int, receiver: int) -> bool:
    return watcher.everything or receiver in watcher.members or (sender, receiver) in watcher.links


def _mean(matrices: list[list[np.ndarray]]) -> list[np.ndarray]:
    """Stage by stage the mean over the rounds: its Perron vector is that of every round where they share one."""
    return [np.mean(stage, axis=0) for stage in zip(*matrices, strict=True)]


def _places(used: list[np.ndarray], q: np.ndarray) -> list[np.ndarray]:
    """What receivers of each stage count in the centroid: A_{j+1} ... A_m q."""
    places = [q]
    for A in reversed(used[1:]):
        places.append(A @ places[-1])
    return places[::-1]


class Leak(NamedTuple):
    """Q of one agent, or that it is infinite."""

    gram: np.ndarray  # [T, T]
    infinite: bool


def leak(stacked: Stack, agent: int, tolerance: float = 1e-10) -> Leak:
    """Q from singular values of Psi, and whether some column of Phi leaves the range of Psi."""
    phi, psi = stacked.gradients[:, :, agent], stacked.noise
    T = phi.shape[1]
    if not np.abs(phi).max(initial=0.0) > 0:
        return Leak(np.zeros((T, T)), False)
    U, S, _ = np.linalg.svd(psi, full_matrices=False)
    noisy = max(tolerance * S.max(initial=0.0), stacked.rounding) < S
    U, S = U[:, noisy], S[noisy]
    outside = np.linalg.norm(phi - U @ (U.T @ phi), axis=0)
    if (outside > 1e-7 * np.abs(phi).max()).any():
        return Leak(np.full((T, T), np.inf), True)
    whitened = (U.T @ phi) / S[:, None]
    return Leak(whitened.T @ whitened, False)


def largest(Q: np.ndarray) -> float:
    """max <Q, R> over R psd with diagonal at most one: all gradients aligned where Q >= 0, else the semidefinite programme."""
    if Q.min(initial=0.0) >= -1e-13 * np.abs(Q).max(initial=0.0):
        return float(Q.sum())
    return semidefinite(Q)


def semidefinite(Q: np.ndarray) -> float:
    """min sum(y) with Diag(y) - Q psd, by clarabel."""
    T, size = len(Q), float(np.abs(Q).max())
    rows = [(i, j) for j in range(T) for i in range(j + 1)]
    limit = np.array([-Q[i, j] / size * (1.0 if i == j else math.sqrt(2.0)) for i, j in rows])
    diagonal = [(rows.index((t, t)), t) for t in range(T)]
    matrix = sparse.csc_matrix(
        (-np.ones(T), ([r for r, _ in diagonal], [t for _, t in diagonal])), shape=(len(rows), T)
    )
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    solver = clarabel.DefaultSolver(
        sparse.csc_matrix((T, T)), np.ones(T), matrix, limit, [clarabel.PSDTriangleConeT(T)], settings
    )
    solution = solver.solve()
    return float(solution.obj_val) * size


def signs(Q: np.ndarray) -> float:
    """The largest v'Qv over v in {-1, 1}^T, by trying all: what one-dimensional gradients can reach."""
    T = len(Q)
    tried = np.array(list(itertools.product((1.0,), *([(-1.0, 1.0)] * (T - 1)))))
    return float(np.einsum("at,ts,as->a", tried, Q, tried).max())


def mu(
    rounds: list[Round],
    scheme: str,
    watcher: Watcher,
    agent: int,
    *,
    ratio: float = 0.0,
    centroid: np.ndarray | None = None,
) -> float:
    """The largest mu at sensitivity one."""
    found = leak(stack(rounds, scheme, watcher, ratio=ratio, centroid=centroid), agent)
    return math.inf if found.infinite else math.sqrt(max(largest(found.gram), 0.0))
