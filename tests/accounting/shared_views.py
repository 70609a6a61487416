"""Networks whose agents share noise, played by hand: what an observer's view of two worlds gives away, without the accountant.

Losses are quadratic, h_k w^2 / 2 plus a part that is linear in w and differs between the worlds at agent p. Then all that is seen is a Gaussian vector with the
same covariance in both worlds, and mu follows from stacking every row of it as a function of all sources and all changes. Nothing is taken from
noise maps: factors, owners and what observers know are written down here a second time.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np

import sottovoce as sv
from sottovoce.noise import Noise, NoiseMap


class Shared(NamedTuple):
    """What agents add to their messages, n = factors z, and who knows which z."""

    factors: np.ndarray  # [K, S]
    knows: np.ndarray  # [K, S] bool: agents that know a source
    sums: bool  # a generator told every agent its sum
    bare: bool  # own copies carry no noise

    @property
    def pairs(self):
        return np.flatnonzero(self.knows.sum(axis=0) == 2)

    def noise(self, std):
        """The same as the library writes it."""
        law, K = sv.noise.Gaussian(std=std), len(self.factors)
        if self.sums:
            return sv.noise.designed(law, joint=self.factors)
        ends = np.array([np.flatnonzero(self.knows[:, s]) for s in self.pairs]).reshape(-1, 2)
        made = sv.noise.designed(
            law,
            own=np.diag(self.factors[:, -K:]),
            pairs=ends,
            factors=np.array([self.factors[pair, s] for pair, s in zip(ends, self.pairs, strict=True)]).reshape(-1, 2),
        )
        return _bare(made) if self.bare else made


def _bare(noise):
    """The same noise on links, none on own copies."""

    def spread(links) -> NoiseMap:
        made = noise.spread(links)
        return made._replace(
            self_index=made.self_index[:0], self_source=made.self_source[:0], self_value=made.self_value[:0]
        )

    return Noise(name="bare", law=noise.law, spread=spread)


class Play(NamedTuple):
    """One run: links, noise and losses."""

    matrices: list  # [T] of [K, K], a_lk from l to k
    shared: Shared
    std: np.ndarray  # [T]
    kind: str  # "atc", "cta" or "consensus"
    step: float
    hessians: np.ndarray  # [K], or [T, K] for losses that are bent differently where models are in each round

    @property
    def parts(self):
        """What the accountant is told."""
        topology = sv.topologies.from_matrix(self.matrices[0]).with_schedule([*self.matrices])
        algorithm = getattr(sv.algorithms, self.kind)(step_size=self.step)
        return topology, algorithm, self.shared.noise(1.0).scaled(self.std.tolist())


class View(NamedTuple):
    """What is seen: by members, on links, and at the end."""

    members: tuple = ()
    links: tuple = ()
    final: bool = False

    @property
    def observer(self):
        made = []
        if self.members:
            made.append(sv.observers.coalition(list(self.members)))
        if self.links:
            made.append(sv.observers.links(list(self.links)))
        if self.final:
            made.append(sv.observers.final_model())
        whole = made[0]
        for one in made[1:]:
            whole = whole + one
        return whole


def attained(play, view, agent):
    """The mu of the view for the worst signs of changes of length one."""
    T, (K, S) = len(play.std), play.shared.factors.shape
    noise, change = np.zeros((K, T, S)), np.zeros((K, T))
    rows, shifts = [], []
    for t, A in enumerate(play.matrices):
        if play.kind == "atc":
            noise, change = stepped(play, t, noise, noise), stepped(play, t, change, change)
            change[agent, t] -= play.step
        fresh = np.zeros((K, T, S))
        fresh[:, t] = play.std[t] * play.shared.factors
        for sender, receiver in zip(*np.nonzero(A * (1 - np.eye(K))), strict=True):
            if receiver in view.members or (sender, receiver) in view.links:
                rows.append(noise[sender] + fresh[sender])
                shifts.append(change[sender])
        if play.shared.sums:
            rows += [fresh[m] for m in view.members]
            shifts += [np.zeros(T) for _ in view.members]
        kept = np.diag(A)[:, None, None] * (0.0 if play.shared.bare else 1.0) * fresh
        combined = np.einsum("lk,l...->k...", A, noise), np.einsum("lk,l...->k...", A, change)
        away = np.einsum("lk,l...->k...", A * (1 - np.eye(K)), fresh) + kept
        before, (noise, change) = (noise, change), (combined[0] + away, combined[1])
        if play.kind != "atc":
            at = (noise, change) if play.kind == "cta" else before
            noise, change = stepped(play, t, noise, at[0]), stepped(play, t, change, at[1])
            change[agent, t] -= play.step
    if view.final:
        q = perron(play.matrices)
        rows.append(np.einsum("k,k...->...", q, noise))
        shifts.append(q @ change)
    if not rows:
        return 0.0
    known = play.shared.knows[list(view.members)].any(axis=0)
    psi = np.array(rows).reshape(len(rows), T, S) * ~known
    return worst_signs(psi.reshape(len(rows), T * S), np.array(shifts))


def stepped(play, t, value, at):
    """A value after the part of a gradient step that depends on models."""
    bent = np.broadcast_to(play.hessians, (len(play.std), play.hessians.shape[-1]))[t]
    return value - play.step * np.einsum("k,k...->k...", bent, at)


def perron(matrices):
    """The stationary weights of doubly stochastic matrices, or of one matrix repeated."""
    values, vectors = np.linalg.eig(matrices[0])
    q = np.real(vectors[:, np.argmax(np.real(values))])
    q = q / q.sum()
    assert all(np.allclose(A @ q, q) for A in matrices)
    return q


def worst_signs(psi, phi):
    """Largest mu of a view psi z + phi v over v in {-1, 1}^T; infinite where phi v leaves the range of psi."""
    left, sizes, _ = np.linalg.svd(psi, full_matrices=False)
    kept = sizes > 1e-10 * sizes.max(initial=0.0)
    inside = left[:, kept].T @ phi
    if np.abs(phi - left[:, kept] @ inside).max() > 1e-8 * np.abs(phi).max(initial=1e-300):
        return math.inf
    inside /= sizes[kept, None]
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=phi.shape[1])))
    return float(np.linalg.norm(signs @ inside.T, axis=1).max())


def random_shared(rng, K, kind):
    """Pairs like those of gopa, pairs with any factors, a generator, or own copies without noise."""
    if kind == "generator":
        made = rng.normal(size=(K, K)) * 0.6 + np.diag(rng.uniform(0.2, 1.0, K))
        made[np.abs(made) < 1e-6] = 0.0  # so small factors are refused, and no play means them
        return Shared(made, np.zeros((K, K), dtype=bool), sums=True, bare=False)
    ends = [pair for pair in itertools.combinations(range(K), 2) if rng.random() < 0.6]
    factors, knows = np.zeros((K, len(ends) + K)), np.zeros((K, len(ends) + K), dtype=bool)
    for s, (i, j) in enumerate(ends):
        knows[[i, j], s] = True
        size = rng.uniform(0.2, 2.0, 2)
        factors[[i, j], s] = (size[0], -size[0]) if kind == "opposite" else size * rng.choice([-1.0, 1.0], 2)
    factors[:, len(ends) :] = np.diag(rng.uniform(0.2, 1.2, K))
    knows[:, len(ends) :] = np.eye(K, dtype=bool)
    return Shared(factors, knows, sums=False, bare=kind == "bare")


def random_matrix(rng, K):
    """A path through all agents and random links, with random symmetric weights that sum to one."""
    order, weights = rng.permutation(K), np.zeros((K, K))
    ends = [*itertools.pairwise(order), *(pair for pair in itertools.combinations(range(K), 2) if rng.random() < 0.15)]
    for i, j in ends:
        weights[i, j] = weights[j, i] = rng.uniform(0.1, 1.0)
    weights /= weights.sum(axis=0).max() * rng.uniform(1.05, 1.6)
    return weights + np.diag(1.0 - weights.sum(axis=0))


def listed(rng, matrix):
    """All links, with smaller weights, or some of them."""
    away = matrix * (1 - np.eye(len(matrix)))
    kind = rng.integers(3)
    if kind == 1:
        away = 0.5 * away
    if kind == 2:
        kept = np.triu(rng.random(away.shape) < 0.6)
        away = away * (kept | kept.T)
    return away + np.diag(1.0 - away.sum(axis=0))


SHARED = ("opposite", "any", "generator", "bare")


def random_play(seed, kind=None, form=None):
    """A play, a view and an agent outside of it."""
    rng = np.random.default_rng(seed)
    K, T = int(rng.integers(3, 7)), int(rng.integers(2, 6))
    form = rng.choice(SHARED) if form is None else form
    kind = rng.choice(["atc", "atc", "cta", "consensus"]) if kind is None else kind
    matrix = random_matrix(rng, K)
    links = np.argwhere(matrix * (1 - np.eye(K)) > 0)
    matrices = [matrix] * T
    if rng.random() < 0.4:  # lists of links: all, all with smaller weights, some
        matrices = [matrix, *(listed(rng, matrix) for _ in range(T - 1))]
    step = float(rng.uniform(0.2, 1.0))
    beta = float(rng.choice([0.1, 1.0, 1.999])) / step
    play = Play(
        matrices=matrices, shared=random_shared(rng, K, form), std=rng.uniform(0.5, 1.5, T), kind=str(kind), step=step,
        hessians=beta * rng.choice([0.0, 1.0, rng.random()], K),
    )  # fmt: skip
    members = tuple(int(m) for m in rng.permutation(K)[: rng.integers(0, 3)])
    agent = int(rng.choice([k for k in range(K) if k not in members]))
    tapped = tuple(tuple(int(v) for v in links[i]) for i in rng.permutation(len(links))[: rng.integers(0, 2)])
    final = kind == "atc" and bool(rng.random() < 0.3)
    if not members and not tapped and kind != "atc":
        tapped = (tuple(int(v) for v in links[0]),)
    if not members and not tapped:
        final = True
    return play, View(members, tapped, final), agent, beta
