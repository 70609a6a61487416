"""What the engine is compared with: a paper's loop, batched NumPy for the reference experiment, and a large NumPy step.

All three do what the engine does in one round (docs/notation.md), written the way each kind of author would write it:

    AuthorLoop     Python loops over rounds, agents and neighbours, vectors of length d, noise drawn link by link
    BatchedNumpy   arrays [d, K, R] over agents and repeats, dense products, draws only what the scheme needs
    LargeStep      one float32 ATC round on [K, d] for many parameters or agents, buffers reused, no allocation where NumPy allows
"""

from typing import Any

import numpy as np
from scipy import sparse

import sottovoce as sv
from sottovoce.noise import received_map

SCHEMES = ("none", "independent", "graph_homomorphic", "local_graph_homomorphic")
ALGORITHMS = ("consensus", "cta", "atc")


class AuthorLoop:
    """The reference experiment as loops over agents and neighbours, one repeat at a time, float64."""

    def __init__(self, problem: Any, topology: Any, *, step_size: float, std: float, seed: int) -> None:
        self.features, self.targets, self.ridge = problem.features, problem.targets, problem.ridge
        self.optimum, self.A, self.q = problem.optimum, topology.matrix, topology.perron
        self.neighbours = [topology.neighbours(k) for k in range(topology.num_agents)]
        self.mu, self.b = step_size, std / np.sqrt(2)
        self.rng = np.random.default_rng(seed)

    def run(self, algorithm: str, scheme: str, rounds: int) -> np.ndarray:
        """One repeat from zero models: [2, rounds] with msd_centroid and msd_average after every round."""
        K, n, d = self.features.shape
        w = [np.zeros(d) for _ in range(K)]
        curves = np.zeros((2, rounds))
        for t in range(rounds):
            records = [self.rng.integers(n) for _ in range(K)]
            sent = [self.adapt(k, w[k], records[k]) for k in range(K)] if algorithm == "atc" else w
            combined = self.combine(sent, scheme)
            if algorithm == "atc":
                w = combined
            elif algorithm == "cta":
                w = [self.adapt(k, combined[k], records[k]) for k in range(K)]
            else:
                w = [combined[k] - self.mu * self.gradient(k, w[k], records[k]) for k in range(K)]
            centroid = sum(self.q[k] * w[k] for k in range(K))
            curves[0, t] = np.sum((centroid - self.optimum) ** 2)
            curves[1, t] = np.mean([np.sum((w[k] - self.optimum) ** 2) for k in range(K)])
        return curves

    def gradient(self, k: int, w: np.ndarray, record: int) -> np.ndarray:
        u, y = self.features[k, record], self.targets[k, record]
        return 2 * (u @ w - y) * u + 2 * self.ridge * w

    def adapt(self, k: int, w: np.ndarray, record: int) -> np.ndarray:
        return w - self.mu * self.gradient(k, w, record)

    def combine(self, sent: list[np.ndarray], scheme: str) -> list[np.ndarray]:
        K, d = len(sent), len(sent[0])
        own = [self.rng.laplace(0, self.b, d) for _ in range(K)] if scheme == "graph_homomorphic" else None
        combined = []
        for k in range(K):
            pairwise = self.pairwise_noise(k, d) if scheme == "local_graph_homomorphic" else None
            a = self.A[k, k]
            total = a * sent[k]
            if scheme == "independent":
                total = total + a * self.rng.laplace(0, self.b, d)
            elif own is not None:
                total = total - (1 - a) * own[k]
            for m in self.neighbours[k]:
                message = sent[m]
                if scheme == "independent":
                    message = message + self.rng.laplace(0, self.b, d)
                elif own is not None:
                    message = message + own[m]
                elif pairwise is not None:
                    message = message + pairwise[m]
                total = total + self.A[m, k] * message
            combined.append(total)
        return combined

    def pairwise_noise(self, k: int, d: int) -> dict[int, np.ndarray]:
        """What each neighbour adds to its message to k: it cancels at k, but an author's loop draws it all the same."""
        noise = {m: np.zeros(d) for m in self.neighbours[k]}
        for i in self.neighbours[k][::2]:
            for j in self.neighbours[k][1::2]:
                z = self.rng.laplace(0, self.b, d)
                noise[i] = noise[i] + z / self.A[i, k]
                noise[j] = noise[j] - z / self.A[j, k]
        return noise


def laplace(rng: np.random.Generator, out: np.ndarray) -> np.ndarray:
    """Fill a contiguous float32 array with Laplace numbers of scale one.

    Inversion of 24-bit uniforms with packed random signs: 1.1 to 1.7 times faster than ziggurat exponentials with the same signs,
    three times faster than Generator.laplace.
    """
    rng.random(out=out, dtype=np.float32)
    np.subtract(1, out, out=out)
    np.log(out, out=out)
    signs = np.unpackbits(np.frombuffer(rng.bytes(out.size // 8 + 1), np.uint8), count=out.size).astype(np.uint32)
    signs <<= np.uint32(31)
    bits = out.reshape(-1).view(np.uint32)
    bits ^= signs
    return out


class BatchedNumpy:
    """The reference experiment on arrays [d, K, R], float32, one SFC64 generator, combinations one after the other.

    With `shared` the records and noise of a round are drawn once for all algorithms, as the engine does; without, each
    combination draws its own.
    """

    def __init__(
        self, problem: Any, topology: Any, noises: Any, *, step_size: float, std: float, repeats: int, shared: bool
    ) -> None:
        K, n, d = problem.features.shape
        self.shape, self.n, self.shared = (d, K, repeats), n, shared
        self.features = np.ascontiguousarray(np.moveaxis(problem.features, -1, 0).reshape(d, K * n), np.float32)
        self.targets = problem.targets.reshape(K * n).astype(np.float32)
        self.first = (np.arange(K) * n)[:, None]
        self.ridge, self.mu = np.float32(problem.ridge), np.float32(step_size)
        self.b = np.float32(std / np.sqrt(2))
        self.optimum, self.q = problem.optimum.astype(np.float32), topology.perron.astype(np.float32)
        self.A_T = np.ascontiguousarray(topology.matrix.T, np.float32)
        links = topology.active_links()
        per_edge = received_map(sv.noise.bind(noises["independent"], links), links)
        self.per_edge = np.ascontiguousarray(per_edge.toarray() * self.b, np.float32)  # [K, E + K]
        self.rng = np.random.Generator(np.random.SFC64(1))
        self.models = {(a, s): np.zeros(self.shape, np.float32) for a in ALGORITHMS for s in SCHEMES}

    def run(self, rounds: int) -> dict[tuple[str, str], np.ndarray]:
        """Go on for some rounds: {(algorithm, scheme): [2, rounds, R]}."""
        curves = {key: np.zeros((2, rounds, self.shape[2]), np.float32) for key in self.models}
        for t in range(rounds):
            records = self.draw_records() if self.shared else None
            terms = {s: self.draw_noise(s) for s in SCHEMES} if self.shared else None
            for (algorithm, scheme), w in self.models.items():
                u, y = records if records is not None else self.draw_records()
                before, after = terms[scheme] if terms is not None else self.draw_noise(scheme)
                w = self.step(algorithm, w, u, y, before, after)
                self.models[algorithm, scheme] = w
                error = w - self.optimum[:, None, None]
                curves[algorithm, scheme][0, t] = (np.matmul(self.q, error) ** 2).sum(0)
                error *= error
                curves[algorithm, scheme][1, t] = error.sum((0, 1)) / self.shape[1]
        return curves

    def draw_records(self) -> tuple[np.ndarray, np.ndarray]:
        positions = self.rng.integers(self.n, size=self.shape[1:], dtype=np.int32) + self.first
        return self.features.take(positions, axis=1), self.targets.take(positions)

    def draw_noise(self, scheme: str) -> tuple[np.ndarray | None, np.ndarray | None]:
        """What is added before and after combining; the local scheme cancels at every receiver, so it draws nothing."""
        d, _, R = self.shape
        if scheme == "graph_homomorphic":
            g = laplace(self.rng, np.empty(self.shape, np.float32))
            g *= self.b
            return g, -g  # a_kk (own factor - 1) = -1
        if scheme == "independent":
            z = laplace(self.rng, np.empty((d, self.per_edge.shape[1], R), np.float32))
            return None, np.matmul(self.per_edge, z)
        return None, None

    def step(
        self,
        algorithm: str,
        w: np.ndarray,
        u: np.ndarray,
        y: np.ndarray,
        before: np.ndarray | None,
        after: np.ndarray | None,
    ) -> np.ndarray:
        sent = self.adapt(w, w, u, y) if algorithm == "atc" else w
        combined = np.matmul(self.A_T, sent if before is None else sent + before)
        if after is not None:
            combined += after
        if algorithm == "atc":
            return combined
        return self.adapt(combined, combined if algorithm == "cta" else w, u, y)

    def adapt(self, start: np.ndarray, at: np.ndarray, u: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Start - mu gradient(at)."""
        error = (u * at).sum(0)
        error -= y
        error *= 2 * self.mu
        step = error * u
        if self.ridge:
            step += (2 * self.mu * self.ridge) * at
        return start - step


class LargeStep:
    """ATC rounds on float32 [K, d] with the gradient w - x, for graphs whose agents have about as many neighbours."""

    def __init__(self, problem: Any, topology: Any, scheme: str, *, step_size: float, std: float) -> None:
        self.x = problem.arrays["mean"].astype(np.float32)
        self.w = np.zeros_like(self.x)
        self.psi, self.buffer, self.total = (np.empty_like(self.x) for _ in range(3))
        self.mu, self.scheme = np.float32(step_size), scheme
        A_T = topology.weights.T.tocsr().astype(np.float32)
        self.csr = sparse.csr_array(A_T)
        self.own = topology.self_weights.astype(np.float32)[:, None]
        K, receivers = topology.num_agents, topology.links[:, 1]
        counts = np.bincount(receivers, minlength=K)
        slot = np.arange(len(receivers)) - np.repeat(np.cumsum(counts) - counts, counts)
        self.sources = np.tile(np.arange(K), (counts.max(), 1))  # [J, K], the receiver itself where padded
        self.sources[slot, receivers] = topology.links[:, 0]
        self.weights = np.zeros((counts.max(), K, 1), np.float32)
        self.weights[slot, receivers, 0] = topology.link_weights
        self.b, self.std = np.float32(std / np.sqrt(2)), np.float32(std)
        self.received_std = np.sqrt((self.weights**2).sum(0) + self.own**2) * self.std  # [K, 1]
        self.rng = np.random.Generator(np.random.SFC64(1))
        self.combine = self.combine_csr

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            np.subtract(self.w, self.x, out=self.psi)
            self.psi *= -self.mu
            self.psi += self.w
            if self.scheme == "graph_homomorphic":
                g = laplace(self.rng, self.buffer)
                g *= self.b
                self.psi += g
                held = g.copy() if self.combine == self.combine_take else g  # that combination needs the buffer
                self.combine()
                self.w -= held
                continue
            self.combine()
            if self.scheme == "independent_gaussian":
                self.rng.standard_normal(out=self.buffer, dtype=np.float32)
                self.buffer *= self.received_std
                self.w += self.buffer
            elif self.scheme == "independent":
                for weight in (self.own, *self.weights):
                    z = laplace(self.rng, self.buffer)
                    z *= weight * self.b
                    self.w += z

    def combine_csr(self) -> None:
        self.w = self.csr @ self.psi

    def combine_take(self) -> None:
        np.multiply(self.psi, self.own, out=self.total)
        for source, weight in zip(self.sources, self.weights, strict=True):
            np.take(self.psi, source, axis=0, out=self.buffer, mode="clip")
            self.buffer *= weight
            self.total += self.buffer
        self.w, self.total = self.total, self.w
