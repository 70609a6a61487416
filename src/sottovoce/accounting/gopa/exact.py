"""What the coalition learns about one party, exactly: a diagonal entry of an inverse.

With s = independent_std, q = (pairwise_std / independent_std)^2 and L the Laplacian of the honest graph,

    mu_u^2 = (sensitivity / s)^2 [(I + q L)^-1]_uu ,

part by part of the graph. On a part C of c parties the constant vector is an eigenvector for 1, and it is split off:

    [(I + q L)^-1]_uu = 1 / c + b' B^-1 b ,     b = e_u - 1 / c ,  B = I + q L .

Small parts: B plus a multiple of the projection on the constants is factorised, so that digits do not fade as q grows.
Large parts: conjugate gradients. For ANY x, with the residual r = b - B x,

    b' B^-1 b = (2 b' x - x' B x) + r' B^-1 r ,     0 <= r' B^-1 r <= ||r||^2     since B >= I ,

so every iterate gives a bracket. In the units of the guarantee its width is sensitivity^2 ||r||^2 / s^2. What rounding
does to r is added to ||r|| before squaring; the remaining arithmetic is covered by a relative 1e-12. With q infinite
(masks uniform on a finite group) mu_u^2 = sensitivity^2 / (c s^2).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sottovoce.accounting.gopa.graph import HonestGraph, honest_graph
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.numbers import checked
from sottovoce.topologies import Topology

DENSE_LIMIT = 5000  # parties of one part up to which it is factorised
ALL_LIMIT = 20_000  # beyond, parties are to be named
HELD = 2**20  # numbers in one block of right-hand sides
MAX_STEPS = 5000
TOLERANCE = 1e-9  # relative width of a bracket
ARITHMETIC = 1e-12

Vector = NDArray[np.float64]


class Bracket(NamedTuple):
    """[parties] ends between which [(I + q L)^-1]_uu lies."""

    lower: Vector
    upper: Vector


def party_mu(
    topology: Topology | HonestGraph,
    *,
    independent_std: float,
    pairwise_std: float,
    sensitivity: float = 1.0,
    honest: Sequence[int] | np.ndarray | None = None,
    parties: Sequence[int] | None = None,
) -> NDArray[np.float64]:
    """The mu of every honest party against the server and all parties that are not honest.

    Formal guarantee: what the coalition sees is mu_u-GDP for party u and for no smaller mu, whatever the coalition
    sends. Fresh noise in every round: mu^2 adds up over rounds, also when graphs and inputs depend on earlier rounds.
    Vectors: noise is drawn per coordinate, and sensitivity is the l2 diameter of the set the values come from.

    Args:
        topology: every linked pair shares noise.
        independent_std: of the noise each party adds on its own, per coordinate.
        pairwise_std: of the noise a pair shares with opposite signs; infinity for uniform masks, 0 for none.
        sensitivity: the largest l2 change of one party's value; 1 for values in [0, 1].
        honest: the honest parties, as [K] truth values or party numbers; None for all.
        parties: whose mu is wanted, honest ones; None for all. Graphs with parts of more than 20,000 parties need it.

    Returns:
        [K] mu; not a number for the coalition and for parties not asked about. On large parts the upper end of a
        bracket of relative width 1e-9.

    Raises:
        ConfigError: malformed input, or a graph too large for all parties.
        IncompatibleChoice: no fixed symmetric graph.
        UnsupportedClaim: the bracket did not close.
    """
    graph = honest_graph(topology, honest)
    local, ratio = noise_ratio(independent_std, pairwise_std, sensitivity)
    wanted = _wanted(graph, parties, easy=ratio in (0.0, np.inf))
    squares = np.full(graph.num_parties, np.nan)
    for inside in graph.parts:
        rows = np.flatnonzero(wanted[inside])
        if len(rows):
            squares[graph.members[inside[rows]]] = _part(part_of(graph, inside), rows, ratio)
    return np.asarray(local * np.sqrt(squares))


def noise_ratio(independent_std: float, pairwise_std: float, sensitivity: float) -> tuple[float, float]:
    """Return sensitivity / independent_std and q = (pairwise_std / independent_std)^2, checked; q may be infinite."""
    own = checked("independent_std", independent_std, "(1e-50, 1e50)")
    local = checked("sensitivity", sensitivity, "(1e-50, 1e50)") / own
    if pairwise_std == np.inf and not isinstance(pairwise_std, bool):
        return local, np.inf
    ratio = checked("pairwise_std", pairwise_std, "[0, 1e50)") / own
    return local, ratio * ratio


def part_of(graph: HonestGraph, inside: NDArray[np.int64]) -> sparse.csr_array:
    """[c, c] the adjacency of one connected part."""
    return graph.adjacency if len(inside) == len(graph.members) else graph.adjacency[inside][:, inside]


def dense_diagonal(adjacency: sparse.csr_array, ratio: float) -> Vector:
    """[c] the diagonal of (I + q L)^-1 on one connected part, by Cholesky factors."""
    from scipy.linalg import lapack  # heavy, and parties that use no pairwise noise do without

    c = adjacency.shape[0]
    degrees = np.diff(adjacency.indptr)
    lift = ratio * float(degrees.mean())  # moves the eigenvalue of the constants to the middle of the others
    matrix = np.full((c, c), lift / c)
    matrix -= ratio * adjacency.toarray()
    matrix[np.diag_indices(c)] += 1.0 + ratio * degrees
    factor, status = lapack.dpotrf(matrix, lower=1, clean=1, overwrite_a=1)
    inverse, singular = lapack.dtrtri(factor, lower=1, overwrite_c=1) if status == 0 else (factor, 1)
    if singular:
        raise UnsupportedClaim(
            f"the noise of a part of {c} parties cannot be resolved in float64 at (pairwise_std / independent_std)^2 = {ratio:.3g}. "
            f"Use pairwise_std=float('inf') if the masks are uniform, or a better connected graph."
        )
    return np.asarray((inverse**2).sum(axis=0) + lift / (1.0 + lift) / c)


def bracket(
    adjacency: sparse.csr_array,
    rows: NDArray[np.int64],
    ratio: float,
    *,
    lambda_2: float = 0.0,
    tolerance: float = TOLERANCE,
) -> Bracket:
    """Conjugate gradients for some diagonal entries of (I + q L)^-1 on one connected part.

    Args:
        adjacency: [c, c].
        rows: whose entries.
        ratio: q, finite.
        lambda_2: at most the algebraic connectivity. If known, r' B^-1 r <= ||r||^2 / (1 + q lambda_2) for the part of
            r that sums to 0, and fewer steps suffice.
        tolerance: relative width at which to stop; the bracket holds however early that is.
    """
    width = max(1, HELD // adjacency.shape[0])
    floor = 1.0 + ratio * lambda_2
    blocks = [
        _bracket_block(adjacency, rows[i : i + width], ratio, floor, tolerance) for i in range(0, len(rows), width)
    ]
    return Bracket(np.concatenate([b.lower for b in blocks]), np.concatenate([b.upper for b in blocks]))


def _bracket_block(
    adjacency: sparse.csr_array, rows: NDArray[np.int64], ratio: float, floor: float, tolerance: float
) -> Bracket:
    c, degrees = adjacency.shape[0], np.diff(adjacency.indptr)
    diagonal = (1.0 + ratio * degrees)[:, None]
    right = np.full((c, len(rows)), -1.0 / c)
    right[rows, np.arange(len(rows))] += 1.0

    def apply(x: Vector) -> Vector:
        product = adjacency @ x
        product *= -ratio
        product += diagonal * x
        return np.asarray(product)

    x, residual = np.zeros_like(right), right.copy()
    direction, square = residual.copy(), _dots(residual, residual)
    for _ in range(MAX_STEPS):
        image = apply(direction)
        step = square / np.maximum(_dots(direction, image), 1e-300)
        x += step * direction
        residual -= step * image
        new = _dots(residual, residual)
        if (new <= 0.1 * tolerance * floor / c).all():  # entries are at least 1 / c
            break
        direction *= new / np.maximum(square, 1e-300)
        direction += residual
        square = new
    # A row of B has degree + 1 terms, and ||B|| <= 1 + 2 q degree.
    norm = 1.0 + (1.0 + 2.0 * ratio * degrees.max()) * np.sqrt(_dots(x, x))
    return _ends(right, x, apply(x), np.finfo(float).eps * (degrees.max() + 4.0) * norm, floor)


def _ends(right: Vector, x: Vector, image: Vector, rounding: Vector, floor: float) -> Bracket:
    """The bracket of an arbitrary x, with its residual computed afresh and known up to `rounding` in norm."""
    c = len(right)
    residual = right - image
    constant = np.abs(residual.sum(axis=0)) / np.sqrt(c)
    lower = 1.0 / c + 2.0 * _dots(right, x) - _dots(x, image)
    upper = lower + (constant + rounding) ** 2 + (np.sqrt(_dots(residual, residual)) + rounding) ** 2 / floor
    return Bracket(np.maximum(lower, 1.0 / c) * (1.0 - ARITHMETIC), np.minimum(upper * (1.0 + ARITHMETIC), 1.0))


def _dots(a: Vector, b: Vector) -> Vector:
    return np.asarray(np.einsum("ij,ij->j", a, b))


def _part(adjacency: sparse.csr_array, rows: NDArray[np.int64], ratio: float) -> Vector:
    c = adjacency.shape[0]
    if ratio == np.inf:
        return np.full(len(rows), 1.0 / c)
    if c == 1 or ratio == 0.0:
        return np.ones(len(rows))
    if c <= DENSE_LIMIT:
        return dense_diagonal(adjacency, ratio)[rows]
    ends = bracket(adjacency, rows, ratio)
    if (ends.upper - ends.lower > 2.0 * TOLERANCE * ends.upper).any():
        raise UnsupportedClaim(
            f"conjugate gradients left a relative bracket of {float((ends.upper / ends.lower).max() - 1.0):.2g} after {MAX_STEPS} steps on a "
            f"part of {c} parties, which mixes too slowly. Use worst_mu, which states what is proved, or a better connected graph."
        )
    return ends.upper


def _wanted(graph: HonestGraph, parties: Sequence[int] | None, *, easy: bool) -> NDArray[np.bool_]:
    """[H] bool: whose entries are asked for."""
    if parties is None:
        largest = int(graph.sizes.max())
        if largest > ALL_LIMIT and not easy:
            raise ConfigError(
                f"a part of {largest} parties, more than {ALL_LIMIT}; all their mu would take long. Name some with parties=..., or use worst_mu."
            )
        return np.ones(len(graph.members), dtype=bool)
    asked = np.asarray(parties)
    if asked.ndim != 1 or asked.dtype.kind not in "iu" or len(asked) == 0 or not np.isin(asked, graph.members).all():
        raise ConfigError(f"parties = {parties!r}; give honest parties' numbers, at least one.")
    return np.isin(graph.members, asked)
