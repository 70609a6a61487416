"""Noise of an agent of its own that remembers, for records that take part once or in turns.

An agent draws fresh noise e_t and adds n_t = e_t - sum_j m[t, j] n_(t-j) to its message: with B unit lower triangular of `bands` bands,
B[t, t - j] = m[t, j], and the factors f_t of the fresh noise, n = C^-1 z for white z and C = Diag(1/f) B, so that

    Sigma = Cov(n) = (C' C)^-1,      error = trace(G Sigma)      (G: `time.round_gram`)

A record of class r takes part in the rounds r, r + gap, r + 2 gap, .. and nowhere else. Columns of C that are `gap` apart share no row when
bands <= gap, so whatever the record changes there, its squared price is at most

    sens^2 = max over classes r of sum over the rounds t of r of |C e_t|^2         (times step^2 Delta^2)

Minimising trace(G Sigma) sens^2 is the factorisation of prefix sums in another dress, with what
the network does with noise in place of sums. Independent rounds cost trace(G) times, `times` = ceil(T / gap).

No own noise does better, banded or not, than (trace (Y^1/2 G Y^1/2)^1/2)^2 / sum_r y_r for any y >= 0 that is constant on classes,
Y = Diag(y): a price of at most one for every change of a record means that the precisions X_tt of a class sum to at most one (the mean over
random signs), and trace(G X^-1) trace(Y X) is at least the numerator by the Cauchy-Schwarz inequality.

    steady    C is the same in every round, f = 1: a table of `bands - 1` numbers for each agent
    varying   every round has numbers of its own, the same for all agents, since the factors of rounds are
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import minimize
from scipy.signal import lfilter

from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.numbers import chosen, positive_numbers, whole

Floats = NDArray[np.float64]
Kind = Literal["steady", "varying"]

_FEW_ROUNDS = (
    200  # up to here the dual point is iterated until it stands, beyond it a few times: an eigendecomposition each
)


class Banded(NamedTuple):
    """One agent's noise over rounds, at the largest price of one record equal to one."""

    memory: Floats  # [T or 1, bands - 1]
    factors: Floats  # [T] of the fresh noise, the first one 1
    variance: float  # of the fresh noise at factor one
    error: float  # trace(G Sigma)


class OwnNoise(NamedTuple):
    """All agents' own noise over rounds, as `Noise(memory=..., schedule=factors)` takes it on sources of these variances."""

    memory: Floats  # [T or 1, bands - 1, K or 1]
    factors: Floats  # [T]
    variances: Floats  # [K] of every agent's fresh noise at factor one
    error: float
    lower_bound: float  # no own noise with these prices has a smaller error, whatever it remembers
    independent: float  # the error of independent rounds with equal factors
    message_std: Floats  # [T, K] of what is added to messages

    @property
    def gain(self) -> float:
        """By how much the error of independent rounds is larger."""
        return self.independent / self.error


def own_noise(
    grams: Sequence[Any], kappa: Any, *, gap: int, bands: int, kind: Kind = "steady", ridge: float = 0.0
) -> OwnNoise:
    """The own noise of every agent that costs least, where a record takes part in every `gap`-th round.

    Args:
        grams: per agent G_p [T, T], what unit noise of this agent alone does to the error: `time.round_gram(lag_gram(.., e_p))`. Where one is
            singular, as for the final model, noise in some directions costs nothing and grows without end: give a ridge.
        kappa: [K] or one number: the largest price of a record, (mu / (step Delta))^2.
        gap: rounds between two participations of a record; T or more for records that take part once.
        bands: of C; what is added depends on the `bands - 1` rounds before. At most `gap`.
        kind: "steady" or "varying"; see the module.
        ridge: the share of its mean gain at which every round counts besides while noise is looked for; errors and the bound are without it.

    Raises:
        ConfigError: matrices of different shapes, or no numbers.
        IncompatibleChoice: more bands than the gap, so that two participations of a record would meet in one fresh noise.
    """
    chosen("kind", kind, get_args(Kind))
    each, prices, gap, bands = _checked(grams, kappa, gap, bands)
    alike = _alike(each)
    ridged = [G + ridge * np.trace(G) / len(G) * np.eye(len(G)) for G in each]
    bound = {first: class_bound(each[first], gap) for first in set(alike)}
    if kind == "steady":
        found = {first: steady(ridged[first], gap=gap, bands=bands) for first in bound}
        made = [found[first] for first in alike]
        memory = np.stack([one.memory for one in made], axis=2)
    else:
        common = varying((np.stack(ridged) / prices[:, None, None]).sum(0), gap=gap, bands=bands)
        made, memory = [common] * len(each), common.memory[:, :, None]
    variances = np.array([one.variance for one in made]) / prices
    spread = _spreads(made)
    errors = [variance * (G * s).sum() for variance, G, s in zip(variances, each, spread, strict=True)]
    times = -(-len(each[0]) // gap)
    return OwnNoise(
        memory=memory,
        factors=made[0].factors,
        variances=variances,
        error=float(np.sum(errors)),
        lower_bound=float((np.array([bound[first] for first in alike]) / prices).sum()),
        independent=float((np.array([np.trace(G) for G in each]) / prices).sum() * times),
        message_std=np.sqrt(variances * np.stack([np.diag(s) for s in spread], axis=1)),
    )


def _checked(grams: Sequence[Any], kappa: Any, gap: int, bands: int) -> tuple[list[Floats], Floats, int, int]:
    """The matrices, the prices [K], and gap and bands as far as there are rounds."""
    each = [np.asarray(one, dtype=float) for one in grams]
    T = len(each[0]) if each else 0
    if not T or any(one.shape != (T, T) or not np.isfinite(one).all() for one in each):
        raise ConfigError("grams must be one square matrix of finite numbers for each agent, all of as many rounds.")
    prices = np.broadcast_to(positive_numbers("kappa", kappa, count=len(each)), (len(each),))
    gap, bands = min(whole("gap", gap), T), min(whole("bands", bands), T)
    if bands > gap:
        raise IncompatibleChoice(
            f"bands = {bands} with records that take part every {gap} rounds: two participations of one record would meet in the same fresh "
            f"noise, and their prices would not add up. Use at most {gap} bands."
        )
    return each, prices, gap, bands


def precision_factor(memory: Any, factors: Any) -> Floats:
    """C = Diag(1/f) B [T, T] for fresh noise of variance one.

    Args:
        memory: [T or 1, lags].
        factors: [T].
    """
    f, m = np.asarray(factors, dtype=float), np.asarray(memory, dtype=float)
    B = np.eye(len(f))
    for lag in range(1, min(m.shape[1] + 1, len(f))):
        rows = np.arange(lag, len(f))
        B[rows, rows - lag] = m[rows if len(m) > 1 else 0, lag - 1]
    return np.asarray(B / f[:, None])


def covariance(memory: Any, factors: Any) -> Floats:
    """Sigma [T, T] of what is added, for fresh noise of variance one."""
    C = precision_factor(memory, factors)
    inverse = solve_triangular(C, np.eye(len(C)), lower=True)
    return np.asarray(inverse @ inverse.T)


def class_prices(factor: Any, gap: int) -> Floats:
    """[gap] the squared price of a record of every class, for C [T, T] of at most `gap` bands."""
    columns = (np.asarray(factor) ** 2).sum(0)
    return np.asarray(np.bincount(np.arange(len(columns)) % gap, weights=columns), dtype=float)


def class_bound(gram: Any, gap: int) -> float:
    """A lower bound on trace(G Sigma) over all own noise, of any memory, with a price of one for a record in every `gap`-th round."""
    G = np.asarray(gram, dtype=float)
    T = len(G)
    of_class = np.arange(T) % min(gap, T)
    y, best = np.ones(min(gap, T)), 0.0
    for _ in range(200 if T <= _FEW_ROUNDS else 4):
        h = np.sqrt(y[of_class])
        values, vectors = np.linalg.eigh(G * h[:, None] * h)
        # An eigenvalue within rounding of zero would count with its square root, so it is left out.
        roots = np.sqrt(np.where(values > T * np.finfo(float).eps * values[-1], values, 0.0))
        bound = float(roots.sum() ** 2 / y.sum())
        if bound <= best * (1.0 + 1e-10):
            break
        best, new = bound, np.bincount(of_class, weights=(vectors * vectors) @ roots)
        y = new / new.mean()
    return best


def steady(gram: Any, *, gap: int, bands: int) -> Banded:
    """The best C that is the same in every round: with columns (1, a_1, .., a_(bands-1)), n = (1/a)(shift) e.

    1/a is a power series y, and trace(G Sigma) = y' Q y with Q[j, l] = sum_s G[s + j, s + l]; d y = -y * y * d a (convolutions).
    """
    G = np.asarray(gram, dtype=float)
    T = len(G)
    Q = G.copy()
    for row in range(T - 2, -1, -1):
        Q[row, :-1] += Q[row + 1, 1:]
    impulse = np.eye(1, T)[0]

    def value(tail: Floats) -> tuple[float, Floats]:
        column = np.append(1.0, tail)
        y = lfilter([1.0], column, impulse)
        if not np.abs(y).max() < 1e50:  # far from any minimum; a line search turns back from there
            return 1e10, np.zeros_like(tail)
        moved, twice = Q @ y, np.convolve(y, y)[:T]
        error, square = y @ moved, column @ column
        slope = np.array([-2.0 * (moved[lag:] @ twice[: T - lag]) for lag in range(1, bands)])
        return float(np.log(error) + np.log(square)), slope / error + 2.0 * tail / square

    tail = np.zeros(bands - 1)
    if bands > 1:
        options = {"maxiter": 2000, "maxfun": 4000, "maxcor": 20, "ftol": 1e-14, "gtol": 1e-10}
        tail = minimize(value, tail - 0.01, jac=True, method="L-BFGS-B", options=options).x
    return _priced(G, tail[None, :], np.ones(T), gap)


def varying(gram: Any, *, gap: int, bands: int) -> Banded:
    """The best C with numbers of its own in every round, from the steady one on; every class has the same price."""
    G = np.asarray(gram, dtype=float)
    T = len(G)
    of_class = np.arange(T) % gap
    rows = np.concatenate([np.arange(lag, T) for lag in range(bands)])
    columns = np.concatenate([np.arange(T - lag) for lag in range(bands)])

    def value(entries: Floats) -> tuple[float, Floats]:
        C = np.zeros((T, T))
        C[rows, columns] = entries
        if not np.abs(np.diag(C)).min() > 0:
            return 1e10, np.zeros_like(entries)
        Y = solve_triangular(C, np.eye(T), lower=True, check_finite=False)
        prices = np.bincount(of_class, weights=(C * C).sum(0))
        # Dividing the columns of a class by the root of its price makes all prices one, and multiplies the rows of Y.
        scale = np.sqrt(prices)[of_class]
        moved = (G * scale[:, None] * scale) @ Y
        by_round = (moved * Y).sum(1)
        error = by_round.sum()
        slope = -2.0 * ((Y.T @ moved) @ Y.T)[rows, columns]
        slope += 2.0 * entries * (np.bincount(of_class, weights=by_round) / prices)[of_class][columns]
        return float(np.log(error)), slope / error

    begin = steady(G, gap=gap, bands=bands)
    entries = precision_factor(begin.memory, begin.factors)[rows, columns]
    options = {"maxiter": 300, "maxfun": 600, "maxcor": 20, "ftol": 1e-11, "gtol": 1e-9}
    C = np.zeros((T, T))
    C[rows, columns] = minimize(value, entries, jac=True, method="L-BFGS-B", options=options).x
    C /= np.sqrt(class_prices(C, gap))[of_class]
    C *= np.sign(np.diag(C))[:, None]  # the sign of a fresh noise does not matter
    memory = np.zeros((T, bands - 1))
    for lag in range(1, bands):
        memory[lag:, lag - 1] = np.diag(C, -lag) / np.diag(C)[lag:]
    return _priced(G, memory, C[0, 0] / np.diag(C), gap)


def _priced(G: Floats, memory: Floats, factors: Floats, gap: int) -> Banded:
    """The noise with the variance at which the worst class has price one, read off the tables that are returned."""
    variance = float(class_prices(precision_factor(memory, factors), gap).max())
    return Banded(memory, factors, variance, variance * float((G * covariance(memory, factors)).sum()))


def _spreads(made: Sequence[Banded]) -> list[Floats]:
    """Sigma of every agent at variance one, computed once for agents with the same tables."""
    found = {id(one): covariance(one.memory, one.factors) for one in {id(one): one for one in made}.values()}
    return [found[id(one)] for one in made]


def _alike(grams: Sequence[Floats]) -> list[int]:
    """For every agent the first one with the same matrix up to rounding, so that it is solved once."""
    firsts: list[int] = []
    found = []
    for agent, one in enumerate(grams):
        size = np.abs(one).max()
        same = (first for first in firsts if np.abs(grams[first] - one).max() <= 1e-12 * size)
        first = next(same, agent)
        if first == agent:
            firsts.append(agent)
        found.append(first)
    return found
