"""The worst direction in which gradients can change: a proven bound on the privacy loss of T coupled rounds.

A view with Gram matrix Q (symmetric, psd, [T, T]) loses sum_st Q_st <v_s, v_t> when the gradients of rounds 1..T
change by v_1..v_T. With |v_t| <= 1 (multiply Q_st by Delta_s Delta_t beforehand) and vectors of any dimension the worst
case is a semidefinite programme,

    max { <Q, R> : R psd, R_tt <= 1 }  =  min { sum_t y_t : Diag(y) - Q psd, y >= 0 }.

Weak duality is one line: sum y - <Q, R> >= <Diag(y) - Q, R> >= 0. So ANY y >= 0 with Diag(y) - Q psd proves the bound
sum y, however it was found. The guarantee is that number; R, a Gram matrix of unit vectors, shows how little is lost.
Gradients with few parameters (d(d+1)/2 < T or so) may not reach the maximum; the bound holds for them all the same.

How y is found: closed forms where there is one (`_closed_forms`), else a primal-dual interior-point method. With
Z = Diag(y) - Q and mu = <R, Z> / T, one step aims at R Z = sigma mu I and keeps diag R = 1:

    (Z^-1 o R) dy = sigma mu diag(Z^-1) - 1,     dR = sym(sigma mu Z^-1 - R - Z^-1 Diag(dy) R),

which is R = sigma mu Z^-1 linearised (the direction of Helmberg, Rendl, Vanderbei & Wolkowicz 1996, An interior-point
method for semidefinite programming, SIAM J. Optim. 6). It takes 10 to 20 steps of T^3 work whatever the spectrum of Q;
the Gram matrix of a curious neighbour is close to a multiple of I, where coordinate ascent is slow.

Rounding: if a floating-point Cholesky factorisation of Z runs through, Z + E is psd for some error with
|E_st| <= g sqrt(Z_ss Z_tt), g ~ (T + 3) u, u = 2^-53 (an entry of Z is a sum of at most T products of entries of the
factor, and Cauchy-Schwarz bounds their absolute values). As (sum_t sqrt(Z_tt) |x_t|)^2 <= T sum_t Z_tt x_t^2, the
vector y + g T diag(Z) is feasible in exact arithmetic: its sum, rounded up, is what is returned.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce.errors import ConfigError

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

INDEFINITE = 1e-9  # an eigenvalue below -INDEFINITE * (largest entry) is not rounding
NEGLIGIBLE = 1e-12  # negative entries that sum to less than this share of all entries are rounding
SMALLEST_GAP = 1e-12  # relative; closer bounds would be lost in rounding
ROUNDING = 4 * 2.0**-53  # four times the unit roundoff: room for second-order terms and for how BLAS orders its sums
CHUNK = 2**19  # numbers in the matrices treated at once: enough to spread the cost of a call, few enough for the cache
PATTERN_CHUNK = 2**22  # numbers in the matrices of one group of participation patterns
VECTORISED = 16  # up to this many rounds many matrices are factorised side by side rather than one by one
SHRINK, BACK_OFF, TRIALS = 0.85, 0.95, 40  # search for a step that keeps the iterate positive definite
CENTRING = 0.1  # smallest share of the gap aimed at in one step


class WorstDirection(NamedTuple):
    """Bounds on the largest privacy loss over gradient changes, one for each Gram matrix."""

    lower: Array  # [...] attained by explicit unit vectors, up to rounding
    upper: Array  # [...] proven, rounding included: the guarantee
    aligned: Flags  # [...] proven that equal gradient changes are the worst; then lower = upper = 1'Q1 up to rounding


class BestPattern(NamedTuple):
    """Bounds on the largest privacy loss over gradient changes and participation patterns."""

    lower: Array  # [...]
    upper: Array  # [...] the guarantee for whichever pattern is used
    pattern: NDArray[np.intp]  # [...] place in the list of the pattern with the largest upper bound


def worst_direction(gram: ArrayLike, *, relative_gap: float = 1e-6, max_steps: int = 60) -> WorstDirection:
    """Largest sum_st Q_st <v_s, v_t> over |v_t| <= 1, from below and from above.

    `upper` is valid whether or not the gap was reached, as long as `gram` is what it should be.

    Args:
        gram: [..., T, T], symmetric and positive semidefinite; a round that is never sent has a zero row.
        relative_gap: stop when (upper - lower) / upper is below this, or below 4e-15 T^2, the reach of rounding.
        max_steps: interior-point steps at most.

    Raises:
        ConfigError: not a stack of finite, symmetric, positive semidefinite matrices.
    """
    stack = _checked_stack(gram)
    if isinstance(relative_gap, bool) or not SMALLEST_GAP <= relative_gap < 1:
        raise ConfigError(
            f"relative_gap is {relative_gap!r}; it must be at least {SMALLEST_GAP} and below 1. Try 1e-6."
        )
    if isinstance(max_steps, bool) or not isinstance(max_steps, int | np.integer) or max_steps < 1:
        raise ConfigError(f"max_steps is {max_steps!r}; it must be a whole number, 1 or more. Try 60.")
    leading, rounds = stack.shape[:-2], stack.shape[-1]
    flat = stack.reshape(-1, rounds, rounds)
    lower, upper, aligned = np.empty(len(flat)), np.empty(len(flat)), np.empty(len(flat), dtype=bool)
    size = max(1, CHUNK // rounds**2)
    for start in range(0, len(flat), size):
        part = slice(start, start + size)
        lower[part], upper[part], aligned[part] = _bounds(flat[part], start, relative_gap, int(max_steps))
    return WorstDirection(lower.reshape(leading), upper.reshape(leading), aligned.reshape(leading))


def best_pattern(
    gram: ArrayLike, patterns: Sequence[ArrayLike], *, relative_gap: float = 1e-6, max_steps: int = 60
) -> BestPattern:
    """Largest loss of a record that takes part only in the rounds of one pattern, over all given patterns.

    Outside its pattern a record changes no gradient, so Q is restricted to the pattern's rows and columns.

    Args:
        gram: [..., T, T] as for `worst_direction`.
        patterns: lists of distinct rounds, numbered from 0; the record may follow any one of them.
        relative_gap: as for `worst_direction`.
        max_steps: as for `worst_direction`.
    """
    stack = _checked_stack(gram)
    leading, rounds = stack.shape[:-2], stack.shape[-1]
    flat = stack.reshape(-1, rounds, rounds)
    lower, upper = np.full(len(flat), -np.inf), np.full(len(flat), -np.inf)
    index = np.zeros(len(flat), dtype=np.intp)
    for members, places in _groups_of_equal_length(patterns, rounds):
        size = max(1, PATTERN_CHUNK // (max(1, len(flat)) * members.shape[1] ** 2))
        for start in range(0, len(members), size):
            rows = members[start : start + size]
            restricted = flat[:, rows[:, :, None], rows[:, None, :]]  # [matrices, patterns, length, length]
            found = worst_direction(restricted, relative_gap=relative_gap, max_steps=max_steps)
            best = found.upper.argmax(axis=1)
            highest = np.take_along_axis(found.upper, best[:, None], axis=1)[:, 0]
            index = np.where(highest > upper, places[start + best], index)
            upper, lower = np.maximum(upper, highest), np.maximum(lower, found.lower.max(axis=1))
    return BestPattern(lower.reshape(leading), upper.reshape(leading), index.reshape(leading))


def _checked_stack(gram: ArrayLike) -> Array:
    """`gram` as floats [..., T, T], finite."""
    given = np.asarray(gram)
    if given.dtype.kind not in "fiu" or given.ndim < 2 or given.shape[-1] != given.shape[-2] or given.shape[-1] == 0:
        raise ConfigError(
            f"gram has shape {given.shape} and type {given.dtype}; it needs real numbers [..., T, T] with T >= 1. "
            "Give one Gram matrix, or a stack with the matrices in the last two axes."
        )
    stack = given.astype(np.float64, copy=False)
    if not np.isfinite(stack).all():
        raise ConfigError("gram has entries that are not finite. Leave out the views whose privacy loss is infinite.")
    return stack


def _groups_of_equal_length(
    patterns: Sequence[ArrayLike], rounds: int
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """The patterns of each length as an array [number, length], and their places in the list."""
    by_length: dict[int, list[tuple[int, NDArray[np.intp]]]] = {}
    for place, pattern in enumerate(patterns):
        rows = np.asarray(pattern)
        valid = rows.ndim == 1 and rows.size > 0 and rows.dtype.kind in "iu"
        if not valid or rows.min() < 0 or rows.max() >= rounds or len(np.unique(rows)) < rows.size:
            raise ConfigError(
                f"pattern {place} is {rows.tolist()}; it needs one or more distinct whole numbers from 0 to "
                f"{rounds - 1}. Give the rounds in which the record takes part."
            )
        by_length.setdefault(rows.size, []).append((place, rows.astype(np.intp)))
    if not by_length:
        raise ConfigError("patterns is empty; at least one is needed. A record that may use every round has range(T).")
    return [(np.stack([r for _, r in group]), np.array([p for p, _ in group])) for group in by_length.values()]


def _bounds(given: Array, first: int, relative_gap: float, max_steps: int) -> tuple[Array, Array, Flags]:
    """Lower bound, upper bound and alignment of a chunk [B, T, T] whose first matrix has the number `first`."""
    _, exponent = np.frexp(np.abs(given).max(axis=(1, 2)))
    scaled = np.ldexp(given, -exponent[:, None, None])  # exact; entries are now at most 1
    Q = (scaled + scaled.transpose(0, 2, 1)) / 2
    _check_positive(scaled, Q, first)
    lower, upper, aligned = _closed_forms(Q)
    target = max(relative_gap, 8 * ROUNDING * Q.shape[1] ** 2)
    rest = np.flatnonzero(upper - lower > target * upper)
    if rest.size:
        attained, y = _interior_point(Q[rest], target, max_steps)
        lower[rest] = np.maximum(lower[rest], attained)
        upper[rest] = np.minimum(upper[rest], _proven(Q[rest], y))
    return np.ldexp(np.minimum(lower, upper), exponent), np.ldexp(upper, exponent), aligned


def _check_positive(scaled: Array, Q: Array, first: int) -> None:
    """Refuse what rounding cannot explain: an asymmetric matrix or a negative eigenvalue."""
    skewed = np.abs(scaled - Q).max(axis=(1, 2)) > INDEFINITE
    if skewed.any():
        raise ConfigError(
            f"gram matrix {first + int(skewed.argmax())} is not symmetric. Give Phi' S^+ Phi, or its symmetric part."
        )
    indefinite = ~_positive_definite(_plus_diagonal(Q, np.full(Q.shape[:2], INDEFINITE)))
    if indefinite.any():
        place = int(indefinite.argmax())
        smallest = np.linalg.eigvalsh(Q[place])[0]
        raise ConfigError(
            f"gram matrix {first + place} has an eigenvalue of {smallest:.3g} times its scale; a Gram matrix has none "
            "below 0. Check how it was built: a privacy loss cannot be negative."
        )


def _closed_forms(Q: Array) -> tuple[Array, Array, Flags]:
    """Bounds without iteration: [B] lower, upper, and whether alignment is proven.

    1. sum |Q_st| is an upper bound, because |<v_s, v_t>| <= 1.
    2. Q >= 0 entrywise: equal v_t reach it, so the maximum is 1'Q1.
    3. D Q D >= 0 for a diagonal of signs D: v_t = D_tt e reaches it.
    4. Diag(Q1) - Q psd: y = Q1 is dual feasible with sum y = 1'Q1, which equal v_t attain. As this Z has Z 1 = 0, it is
       P' M P with P = [-1, I] and M = Z without its first row and column: M psd is enough, and M may be definite.
    """
    rounds = Q.shape[1]
    row_sums, absolute_rows = Q.sum(axis=2), np.abs(Q).sum(axis=2)
    equal, absolute = row_sums.sum(axis=1), absolute_rows.sum(axis=1)
    rounding = ROUNDING * (rounds + 3) * absolute
    aligned = absolute - equal <= NEGLIGIBLE * absolute
    lower, upper = np.maximum(equal, np.trace(Q, axis1=1, axis2=2)), absolute + rounding
    rest = np.flatnonzero(~aligned)
    if rest.size:
        Z = _plus_diagonal(-Q[rest], row_sums[rest])
        diagonal = np.abs(np.diagonal(Z, axis1=1, axis2=2))
        slack = ROUNDING * (rounds + 3) * (rounds * diagonal + absolute_rows[rest])
        proven = _positive_definite(_plus_diagonal(Z, -slack)[:, 1:, 1:])
        aligned[rest[proven]] = True
        upper[rest[proven]] = (equal + rounding)[rest[proven]]
        rest = rest[~proven]
        lower[rest] = np.maximum(lower[rest], _signed(Q[rest]))
    lower[aligned] = equal[aligned]
    return lower, upper, aligned


def _signed(Q: Array) -> Array:
    """Value of gradients that are equal up to signs, chosen one at a time: d'Qd.

    The next round is always the one most strongly tied to those that have a sign. If some signs make D Q D >= 0, no tie
    ever cancels and these signs are found, up to a flip of each connected part of the rounds.
    """
    count, rounds, _ = Q.shape
    each = np.arange(count)
    signs = np.zeros((count, rounds))
    signs[:, 0] = 1
    ties = Q[:, 0].copy()  # Q d so far
    for _ in range(rounds - 1):
        chosen = np.where(signs == 0, np.abs(ties), -1).argmax(axis=1)
        sign = np.where(ties[each, chosen] < 0, -1.0, 1.0)
        signs[each, chosen] = sign
        ties += sign[:, None] * Q[each, chosen]
    value: Array = (signs * ties).sum(axis=1)
    return value


def _proven(Q: Array, y: Array) -> Array:
    """The bound sum y raised by what rounding can hide; infinite where Diag(y) - Q does not factorise."""
    rounds = Q.shape[1]
    Z = _plus_diagonal(-Q, y)
    bound = np.maximum(y, 0).sum(axis=1) + ROUNDING * (rounds + 3) * (
        rounds * np.trace(Z, axis1=1, axis2=2) + np.abs(Q).sum(axis=(1, 2))
    )
    return np.where(_positive_definite(Z), bound, np.inf)


def _interior_point(Q: Array, relative_gap: float, max_steps: int) -> tuple[Array, Array]:
    """Unit vectors' value <Q, R> [B] and dual variables y [B, T], close to optimal for each matrix of the stack."""
    count, rounds, _ = Q.shape
    value, dual = np.zeros(count), np.zeros((count, rounds))
    active, centring = np.arange(count), np.full(count, 2 * CENTRING)
    R = np.tile(np.eye(rounds), (count, 1, 1))
    absolute_rows = np.abs(Q).sum(axis=2)
    y = 1.1 * absolute_rows + 0.01 * absolute_rows.mean(axis=1, keepdims=True)  # Diag(y) - Q is diagonally dominant
    for _ in range(max_steps):
        norms = np.sqrt(np.diagonal(R, axis1=1, axis2=2))  # 1 but for rounding
        value[active], dual[active] = np.einsum("bst,bs,bt->b", Q * R, 1 / norms, 1 / norms), y
        gap = y.sum(axis=1) - value[active]
        keep = (gap > relative_gap * y.sum(axis=1)) & (centring <= 1)
        if not keep.any():
            break
        if not keep.all():
            active, Q, R, y, gap, centring = active[keep], Q[keep], R[keep], y[keep], gap[keep], centring[keep]
        mu = centring * gap / rounds
        Z = _plus_diagonal(-Q, y)
        inverse = _inverse(Z)
        dy = _solve(inverse * R, mu[:, None] * np.diagonal(inverse, axis1=1, axis2=2) - 1)
        dR = mu[:, None, None] * inverse - R - inverse @ (dy[:, :, None] * R)
        dR = (dR + dR.transpose(0, 2, 1)) / 2
        primal_length, dual_length = _step_length(R, dR), _step_length(Z, dy)
        R = np.where(primal_length[:, None, None] > 0, R + primal_length[:, None, None] * dR, R)
        y = np.where(dual_length[:, None] > 0, y + dual_length[:, None] * dy, y)
        length = np.minimum(primal_length, dual_length)
        centring = np.where((length == 0) & (centring == 1), np.inf, np.maximum(CENTRING, 1 - length))  # inf: stuck
    return value, dual


def _step_length(A: Array, change: Array) -> Array:
    """How far each positive definite matrix may move and still have room to the border: 1, or less, or 0.

    `change` is a stack of matrices, or of diagonals.
    """
    length, open_ = np.ones(len(A)), np.arange(len(A))
    for _ in range(TRIALS):
        whole = open_.size == len(A)
        start, step = (A, change) if whole else (A[open_], change[open_])
        reach = length[open_, None] / BACK_OFF
        moved = _plus_diagonal(start, reach * step) if step.ndim == 2 else start + reach[:, :, None] * step
        open_ = open_[~_positive_definite(moved)]
        if not open_.size:
            break
        length[open_] *= SHRINK
    length[open_] = 0
    return length


def _plus_diagonal(A: Array, diagonal: Array) -> Array:
    """A + Diag(diagonal) for each matrix of the stack, as a new array."""
    total = A.copy()
    each = np.arange(A.shape[1])
    total[:, each, each] += diagonal
    return total


def _positive_definite(A: Array) -> Flags:
    """Whether all pivots of the Cholesky factorisation of each matrix are positive; only its lower triangle is read."""
    count, rounds, _ = A.shape
    if rounds > VECTORISED or count < 2 * rounds:
        return np.array([_cholesky(one) is not None for one in A], dtype=bool)
    work = np.ascontiguousarray(A.transpose(1, 2, 0))  # [T, T, B]: each operation runs along the stack
    positive = np.ones(count, dtype=bool)
    for k in range(rounds):
        pivot = work[k, k]
        positive &= pivot > 0
        column = work[k + 1 :, k]
        work[k + 1 :, k + 1 :] -= column[:, None] * (column / np.where(pivot > 0, pivot, np.inf))
    return positive


def _cholesky(A: Array) -> Array | None:
    """Upper triangular factor U (below it: rubbish) with U'U = A for one matrix; None if a pivot is not positive."""
    from scipy.linalg import lapack

    factor, failed = lapack.dpotrf(A.T, lower=0, clean=0)
    return None if failed or not np.isfinite(factor.diagonal()).all() else factor


def _inverse(A: Array) -> Array:
    """Inverse of each positive definite matrix; not a number where rounding has made it indefinite."""
    from scipy.linalg import lapack

    if A.shape[1] <= VECTORISED:
        with suppress(np.linalg.LinAlgError):  # one singular matrix fails the whole stack
            return np.asarray(np.linalg.inv(A), dtype=np.float64)
    result = np.full_like(A, np.nan)
    for place, one in enumerate(A):
        factor = _cholesky(one)
        if factor is not None:
            half = np.triu(lapack.dpotri(factor, lower=0)[0])
            result[place] = half + np.triu(half, 1).T
    return result


def _solve(A: Array, b: Array) -> Array:
    """A^-1 b for each positive definite matrix and its vector; not a number where rounding has made it indefinite."""
    from scipy.linalg import lapack

    if A.shape[1] <= VECTORISED:
        with suppress(np.linalg.LinAlgError):
            return np.asarray(np.linalg.solve(A, b[:, :, None])[:, :, 0], dtype=np.float64)
    result = np.full_like(b, np.nan)
    for place, one in enumerate(A):
        factor = _cholesky(one)
        if factor is not None:
            result[place] = lapack.dpotrs(factor, b[place], lower=0)[0]
    return result
