"""A bound for all parties at once, from their degrees and the algebraic connectivity of the honest graph.

THE BOUND OF ONE PARTY. On a connected part of c parties let nu be the spectral measure of b = e_u - 1 / c under L. It
lives on [lambda_2, lambda_max], and a party with d neighbours has its first moments

    nu_0 = 1 - 1 / c ,     nu_1 = b' L b = d ,     nu_2 = ||L b||^2 = d^2 + d .

f(x) = 1 / (1 + q x) has f''' < 0. Let g be the quadratic with g = f at some l <= lambda_2 and g = f, g' = f' at the
point t > l that makes {l, t} carry these three moments. Then f - g = (f'''(.) / 6)(x - l)(x - t)^2 <= 0 right of l, and
so (Gauss-Radau)

    b' (I + q L)^-1 b = nu(f) <= nu(g) = nu_0 [w f(l) + (1 - w) f(t)] ,
    m = nu_1 / nu_0 ,  v = nu_2 / nu_0 - m^2 ,  t = m + v / (m - l) ,  w = v / (v + (m - l)^2) .

l = 0 needs no knowledge of the graph and is the star: 1 / c + ... <= 1 / (1 + d q / (1 + q)), what a party and its
neighbours can absorb. With l near lambda_2 it is a few per cent above the truth on random graphs, where f(lambda_2)
alone would be twice too large.

A LOWER BOUND OF lambda_2. Lanczos and Rayleigh quotients bound it from above and prove nothing. The converse, with a
stated probability: let N = I - D^-1/2 A D^-1/2 have eigenvalues 0 < k_2 <= ... <= 2 and let g be Gaussian, projected
off the eigenvector of 0. Its component on the eigenvector of k_2 is N(0, 1), at least tau = p sqrt(pi / 2) in size
except with probability p. Then for EVERY polynomial P

    tau |P(k_2)| <= ||P(N) g|| .

Take P = T_m((2 + l - 2x) / (2 - l)), Chebyshev on [l, 2], which grows left of l. With M = ||P(N) g|| / tau this gives

    k_2 >= 1 + l / 2 - (1 - l / 2) cosh(arccosh(max(M, 1)) / m) ,     lambda_2 >= d_min k_2

(the last because sum d (x - a)^2 >= d_min sum (x - mean)^2 for every a). One event serves all polynomials, so that
several l are tried on the same g. The probability is over g alone; g must be drawn independently of the graph. Rounding
enters with about m^2 1e-16, which a factor on M covers.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sottovoce.numbers import checked, whole

LARGE = 200_000  # parties from which a product with the graph is expensive
_STEPS = (120, 48)  # degree of the polynomial: usual, and for large graphs
_EDGES = (0.9, 0.8, 0.7, 0.6, 0.45, 0.3, 0.15, 0.05, 0.01)  # the l that are tried
_ROUNDING = 1.0 + 1e-6

Vector = NDArray[np.float64]


class Connectivity(NamedTuple):
    """A proved lower bound of lambda_2 of the Laplacian, and how likely the proof is to fail."""

    lambda_2: float
    failure_probability: float
    steps: int


def connectivity(
    adjacency: sparse.csr_array, *, failure_probability: float, seed: int = 0, steps: int | None = None
) -> Connectivity:
    """A lower bound of lambda_2 of a connected graph, wrong with at most this probability; 0 where it proves nothing.

    Args:
        adjacency: [c, c] ones, symmetric, connected, c >= 2.
        failure_probability: over the random start; costs its logarithm only.
        seed: of the random start. Someone who knows it must not have chosen the graph.
        steps: m, products with the graph; more are sharper. None: 120, or 48 on more than 200,000 parties, where also
            the first l that proves something is taken.
    """
    failure = checked("failure_probability", failure_probability, "(0, 1)")
    c = adjacency.shape[0]
    m = _STEPS[c > LARGE] if steps is None else whole("steps", steps, least=2)
    degrees = np.diff(adjacency.indptr).astype(float)
    kernel = np.sqrt(degrees / degrees.sum())
    start = np.random.default_rng(whole("seed", seed, least=0)).standard_normal(c)
    start -= kernel * (kernel @ start)
    # The second eigenvalue of a random graph is about 1 - 2 / sqrt(degree); no reason to look further right.
    usual = max(0.0, 1.0 - 1.6 / np.sqrt(degrees.mean()))
    best = 0.0
    for edge in _EDGES:
        if c > LARGE and (best > 0.0 or edge > usual):
            continue
        size = _size_of_polynomial(adjacency, 1.0 / np.sqrt(degrees), kernel, start, edge, m)
        M = max(1.0, _ROUNDING * size / (failure * math.sqrt(0.5 * math.pi)))
        grown = math.cosh(math.acosh(M) / m) if math.isfinite(M) else math.inf
        best = max(best, 1.0 + 0.5 * edge - (1.0 - 0.5 * edge) * grown)
    return Connectivity(best * float(degrees.min()), failure, m)


def _size_of_polynomial(
    adjacency: sparse.csr_array, scale: Vector, kernel: Vector, start: Vector, edge: float, m: int
) -> float:
    """||T_m((2 + l - 2 N) / (2 - l)) g||, by the three-term recurrence; infinite where it overflows."""

    def shifted(x: Vector) -> Vector:
        image = (edge * x + 2.0 * (scale * (adjacency @ (scale * x)))) / (2.0 - edge)
        # The kernel would grow fastest of all: what rounding puts into it is removed in every step.
        return np.asarray(image - kernel * (kernel @ image))

    with np.errstate(over="ignore", invalid="ignore"):
        before, now = start, shifted(start)
        for _ in range(m - 1):
            before, now = now, 2.0 * shifted(now) - before
        size = float(np.linalg.norm(now))
    return size if math.isfinite(size) else math.inf


def party_bound(degrees: np.ndarray, *, size: int, lambda_2: float, ratio: float) -> Vector:
    """An upper bound of [(I + q L)^-1]_uu for parties of these degrees in a connected part.

    Args:
        degrees: [...] of the parties, at least 1.
        size: c, parties of the part, at least 2.
        lambda_2: at most the algebraic connectivity; 0 is always allowed.
        ratio: q, from 0 to infinity.
    """
    if ratio == np.inf:
        # With lambda_2 = 0 nothing is known but that a neighbourhood is connected.
        return (
            np.full(np.shape(degrees), 1.0 / size) if lambda_2 > 0.0 else 1.0 / (1.0 + np.asarray(degrees, dtype=float))
        )
    d = np.asarray(degrees, dtype=float)
    mass = 1.0 - 1.0 / size
    mean = d / mass
    variance = np.maximum((d * mass - d * d / size) / mass**2, 0.0)
    # lambda_2 <= mean always; where a hypothetical lambda_2 is larger, the measure would sit at it.
    distance = np.maximum(mean - lambda_2, 0.0)
    spread = variance + distance**2
    weight = np.where(distance > 0.0, variance / np.where(spread > 0.0, spread, 1.0), 1.0)
    far = mean + variance / np.where(distance > 0.0, distance, 1.0)
    value = weight / (1.0 + ratio * lambda_2) + (1.0 - weight) / (1.0 + ratio * far)
    return np.asarray(np.minimum(1.0 / size + mass * value, 1.0))
