"""The worst direction of gradient changes: by hand, by exhaustion, by another solver, and on real observers' views."""

import itertools
import math
import time
from fractions import Fraction

import clarabel
import mpmath
import networkx as nx
import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import toeplitz

from sottovoce.accounting.linear_view.worst_direction import _proven, best_pattern, worst_direction
from sottovoce.errors import ConfigError


def random_gram(rng, rounds, rank):
    factor = rng.normal(size=(rounds, rank))
    return factor @ factor.T


def ring_weights(num_agents):
    return toeplitz([1 / 3, 1 / 3] + [0] * (num_agents - 3) + [1 / 3])


def regular_weights(num_agents, degree, seed):
    graph = nx.random_regular_graph(degree, num_agents, seed=seed)
    return (nx.to_numpy_array(graph) + np.eye(num_agents)) / (degree + 1)


def read_links(weights, observer):
    return [agent for agent in range(len(weights)) if agent != observer and weights[agent, observer] > 0]


def filtered_gram(weights, agent, observer, rounds, *, step=0.4, sigma=0.7):
    """Gram matrix of `agent`'s gradients in the view of a curious neighbour, by a Kalman filter.

    ATC with broadcast noise that the sender keeps: x_i = A'(x_{i-1} - step g_i + sigma z_i). The observer reads the
    brackets of its neighbours and knows its own z. Each innovation is whitened; Q is the Gram matrix of the whitened
    responses to unit gradients.
    """
    read = read_links(weights, observer)
    hidden = np.diag([float(other != observer) for other in range(len(weights))])
    forward, select = weights.T, np.eye(len(weights))[read]
    covariance, response, whitened = np.zeros_like(weights), np.zeros((len(weights), rounds)), []
    for i in range(rounds):
        before = covariance + sigma**2 * hidden  # of the brackets, given what was seen before
        response[agent, i] -= step
        innovation = select @ before @ select.T
        gain = before @ select.T @ np.linalg.inv(innovation)
        whitened.append(np.linalg.solve(np.linalg.cholesky(innovation), select @ response))
        response = forward @ (response - gain @ select @ response)
        covariance = forward @ (before - gain @ innovation @ gain.T) @ forward.T
        covariance = (covariance + covariance.T) / 2
    stacked = np.concatenate(whitened)
    return stacked.T @ stacked


def stacked_gram(weights, agent, observer, rounds, *, step=0.4, sigma=0.7):
    """The same matrix from the whole transcript at once: Phi' (Psi Psi')^+ Phi."""
    K, read = len(weights), read_links(weights, observer)
    powers = [np.linalg.matrix_power(weights.T, lag) for lag in range(rounds)]
    blocks = [[powers[i - j] if i >= j else np.zeros((K, K)) for j in range(rounds)] for i in range(rounds)]
    seen = np.block(blocks).reshape(rounds, K, rounds, K)[:, read]  # [T, links, T, K]
    to_rows = seen.reshape(rounds * len(read), rounds, K)
    phi = -step * to_rows[:, :, agent]
    psi = sigma * np.delete(to_rows, observer, axis=2).reshape(len(to_rows), -1)
    return phi.T @ np.linalg.pinv(psi @ psi.T) @ phi


def solved_by_clarabel(gram):
    """max <Q, R> over correlation matrices R by a general conic solver; R by columns, off-diagonals times sqrt 2."""
    rounds = len(gram)
    pairs = [(s, t) for t in range(rounds) for s in range(t + 1)]
    cost = [-gram[s, t] * (1 if s == t else math.sqrt(2)) for s, t in pairs]
    size = len(pairs)
    places = [k for k, (s, t) in enumerate(pairs) if s == t]
    ones = sparse.csc_array((np.ones(rounds), (np.arange(rounds), places)), shape=(rounds, size))
    constraints = sparse.csc_matrix(sparse.vstack([ones, -sparse.eye_array(size)]))
    cones = [clarabel.ZeroConeT(rounds), clarabel.PSDTriangleConeT(rounds)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    right = np.concatenate([np.ones(rounds), np.zeros(size)])
    solver = clarabel.DefaultSolver(sparse.csc_matrix((size, size)), cost, constraints, right, cones, settings)
    return -solver.solve().obj_val


def best_signs(gram):
    """Largest s'Qs over signs: the worst direction of gradients with one parameter."""
    signs = np.array([(1, *rest) for rest in itertools.product((1, -1), repeat=len(gram) - 1)], dtype=float)
    return np.einsum("ns,st,nt->n", signs, gram, signs).max()


def assert_encloses(found, value, relative):
    assert found.lower <= found.upper
    assert found.lower <= value * (1 + 1e-13)
    assert found.upper >= value * (1 - 1e-13)
    assert found.upper - found.lower <= relative * found.upper


def test_one_round_is_its_own_worst_case():
    found = worst_direction([[3.0]])
    assert found.aligned
    assert_encloses(found, 3.0, 1e-14)


@pytest.mark.parametrize(("a", "b", "c"), [(1.0, 0.5, 2.0), (1.0, -0.5, 2.0), (4.0, -2.0, 1.0), (1.0, 0.0, 0.0)])
def test_two_rounds_by_hand(a, b, c):
    """|v1|^2 a + |v2|^2 c + 2 b <v1, v2>: parallel for b > 0, opposite for b < 0."""
    found = worst_direction([[a, b], [b, c]])
    assert_encloses(found, a + c + 2 * abs(b), 1e-14)
    assert bool(found.aligned) is (b >= 0)


def test_three_rounds_that_repel_are_worst_at_120_degrees():
    """Q_st = -1/2: <v_s, v_t> = -1/2 gives 3 + 6/4; the best signs (1, 1, -1) give only 4, equal vectors 0."""
    gram = 1.5 * np.eye(3) - 0.5
    found = worst_direction(gram, relative_gap=1e-10)
    assert_encloses(found, 4.5, 1e-10)
    assert not found.aligned
    assert best_signs(gram) == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("a", "b", "c", "value"),
    [(0.5, 0.4, 0.3, 3 + 0.5 * 0.4 / 0.3 + 0.4 * 0.3 / 0.5 + 0.3 * 0.5 / 0.4), (0.5, 0.4, 0.05, 3 + 2 * 0.85)],
)
def test_three_rounds_that_repel_unequally_by_hand(a, b, c, value):
    """-2(a r12 + b r23 + c r13) = x^2 + y^2 + z^2 - |x v1 + y v2 + z v3|^2 with xy = a, yz = b, xz = c.

    If x, y, z are the sides of a triangle the norm can vanish: x^2 + y^2 + z^2 = ac/b + ab/c + bc/a. In the second case
    y > x + z; then the norm is smallest for v1 = -v2 = v3, which leaves 2(a + b - c).
    """
    found = worst_direction([[1, -a, -c], [-a, 1, -b], [-c, -b, 1]], relative_gap=1e-10)
    assert_encloses(found, value, 1e-10)


@pytest.mark.parametrize("rounds", [5, 30, 201])
def test_cycle_meets_its_exact_value_from_above(rounds):
    """Circulant Q: the scaled projector on the top eigenspace is feasible, and so is y = lmax 1: both give T lmax."""
    gram = toeplitz([1.0, -0.5] + [0.0] * (rounds - 3) + [-0.5])
    with mpmath.workdps(40):
        exact = rounds * max(1 - mpmath.cos(2 * mpmath.pi * k / rounds) for k in range(rounds))
        found = worst_direction(gram, relative_gap=1e-9)
        assert mpmath.mpf(float(found.upper)) >= exact
        assert mpmath.mpf(float(found.lower)) <= exact * (1 + mpmath.mpf("1e-14"))
    assert found.upper - found.lower <= 1.5e-9 * found.upper


def test_nonnegative_gram_is_worst_when_aligned():
    gram = np.abs(random_gram(np.random.default_rng(0), 8, 3)) + 10 * np.eye(8)
    found = worst_direction(gram)
    assert found.aligned
    assert_encloses(found, math.fsum(gram.ravel()), 1e-13)


def test_rounding_of_sums_never_lowers_the_bound():
    """Exact rational sums; without the allowance for rounding about half of the bounds would lie below."""
    rng = np.random.default_rng(2)
    stack = np.array([np.abs(random_gram(rng, 9, 3)) + 9 * np.eye(9) for _ in range(200)])
    found = worst_direction(stack)
    exact = [sum(map(Fraction, gram.ravel().tolist())) for gram in stack]
    assert all(Fraction(upper) >= value for upper, value in zip(found.upper.tolist(), exact, strict=True))
    assert (
        sum(Fraction(plain) < value for plain, value in zip(stack.sum(axis=(1, 2)).tolist(), exact, strict=True)) > 20
    )


@pytest.mark.parametrize(("rounds", "copies"), [(12, 1), (12, 24), (80, 1)])
def test_a_factorisation_that_rounding_lets_through_still_proves_a_true_bound(rounds, copies):
    """Q = q q' with whole numbers has maximum (sum |q_t|)^2, at y_t = |q_t| sum |q|; a bit less is infeasible."""
    rng = np.random.default_rng(rounds)
    slipped = 0
    for _ in range(200):
        q = rng.integers(1, 2**18, size=rounds).astype(float) * rng.choice([-1, 1], size=rounds)
        exact = np.abs(q).sum() ** 2  # whole numbers below 2^53: no rounding so far
        y = np.abs(q) * np.abs(q).sum()
        y[y.argmax()] -= np.spacing(y.max())
        bounds = _proven(np.tile(np.outer(q, q), (copies, 1, 1)), np.tile(y, (copies, 1)))
        assert (bounds > exact).all()
        slipped += int(np.isfinite(bounds[0]))
    assert slipped > 10, "no infeasible y slipped through: the test has no power"


def test_an_infeasible_dual_proves_nothing():
    assert np.isinf(_proven(np.ones((1, 3, 3)), np.array([[2.9, 2.9, 2.9]])))[0]


def test_aligned_despite_negative_entries_when_the_laplacian_is_psd():
    gram = np.ones((6, 6))
    gram[0, 1] = gram[1, 0] = -0.2
    gram += 2 * np.eye(6)
    assert np.linalg.eigvalsh(np.diag(gram.sum(axis=1)) - gram)[0] > -1e-12
    found = worst_direction(gram)
    assert found.aligned
    assert_encloses(found, gram.sum(), 1e-13)
    assert found.upper == pytest.approx(solved_by_clarabel(gram), rel=1e-8)


def test_not_called_aligned_when_the_laplacian_has_a_negative_eigenvalue():
    gram = np.ones((3, 3)) + 2 * np.eye(3)
    gram[0, 1] = gram[1, 0] = -0.8
    assert np.linalg.eigvalsh(np.diag(gram.sum(axis=1)) - gram)[0] < -0.1
    found = worst_direction(gram)
    assert not found.aligned
    assert found.lower > gram.sum() * 1.02


def test_signs_that_make_the_gram_nonnegative_give_the_sum_of_absolute_values():
    """Also on a sparse chain in shuffled order, where most pairs of rounds have no entry that tells their sign."""
    rng = np.random.default_rng(1)
    signs = rng.choice([-1.0, 1.0], size=40)
    order = rng.permutation(40)
    chain = toeplitz([1.0, 0.5] + [0.0] * 38)[np.ix_(order, order)]
    for gram in (np.abs(random_gram(rng, 40, 3)) + 40 * np.eye(40), chain):
        found = worst_direction(signs[:, None] * gram * signs)
        assert_encloses(found, gram.sum(), 1e-13)
        assert not found.aligned


@pytest.mark.parametrize("rank", [1, 2, 5, 12])
def test_no_choice_of_signs_beats_the_bounds_and_they_are_within_grothendieck_of_it(rank):
    """For psd Q the programme is at most pi/2 times the best signs (Nesterov 1998), so a loose bound would show."""
    rng = np.random.default_rng(rank)
    for rounds in (3, 7, 12):
        gram = random_gram(rng, rounds, rank)
        found, signs = worst_direction(gram), best_signs(gram)
        assert found.upper >= signs
        assert found.lower >= signs * (1 - 1e-6)
        assert found.upper <= math.pi / 2 * signs


@pytest.mark.parametrize("rounds", [2, 3, 6, 15, 30])
def test_both_bounds_agree_with_a_conic_solver(rounds):
    rng = np.random.default_rng(rounds)
    for rank in {1, 2, max(1, rounds // 2), rounds}:
        gram = random_gram(rng, rounds, rank)
        reference = solved_by_clarabel(gram)
        found = worst_direction(gram)
        assert found.lower == pytest.approx(reference, rel=1e-6)
        assert found.upper == pytest.approx(reference, rel=1e-6)
        assert found.upper >= reference * (1 - 1e-9)


def test_a_bound_stopped_early_is_wide_but_true():
    gram = random_gram(np.random.default_rng(5), 20, 20)
    reference = solved_by_clarabel(gram)
    for steps in (1, 2, 3):
        found = worst_direction(gram, max_steps=steps)
        assert found.lower <= reference * (1 + 1e-9)
        assert found.upper >= reference * (1 - 1e-9)
        assert found.upper > 1.001 * found.lower


def test_rounds_that_are_never_sent_change_nothing():
    rng = np.random.default_rng(6)
    for rounds, used in ((6, 4), (40, 25)):
        gram = np.zeros((rounds, rounds))
        kept = np.sort(rng.choice(rounds, size=used, replace=False))
        gram[np.ix_(kept, kept)] = random_gram(rng, used, used)
        whole, small = worst_direction(gram), worst_direction(gram[np.ix_(kept, kept)])
        assert whole.upper == pytest.approx(small.upper, rel=1e-6)
        assert whole.lower == pytest.approx(small.lower, rel=1e-6)


def test_zero_gram_loses_nothing():
    found = worst_direction(np.zeros((2, 4, 4)))
    assert np.array_equal(found.upper, [0, 0])
    assert np.array_equal(found.lower, [0, 0])
    assert found.aligned.all()


@pytest.mark.parametrize("scale", [2.0**-900, 1e-12, 1e12, 2.0**900])
def test_bounds_scale_with_the_gram(scale):
    gram = random_gram(np.random.default_rng(7), 12, 5)
    one, other = worst_direction(gram), worst_direction(scale * gram)
    assert other.upper / scale == pytest.approx(one.upper, rel=1e-6)
    assert other.lower / scale == pytest.approx(one.lower, rel=1e-6)


def test_rounds_of_very_different_sensitivity_keep_a_small_gap():
    rng = np.random.default_rng(8)
    sensitivity = 10.0 ** rng.uniform(-7, 0, size=25)
    found = worst_direction(random_gram(rng, 25, 25) * np.outer(sensitivity, sensitivity))
    assert found.upper - found.lower <= 1e-6 * found.upper


def test_a_stack_gives_what_its_matrices_give_one_by_one():
    rng = np.random.default_rng(9)
    stack = np.array([random_gram(rng, 10, 1 + k % 10) for k in range(118)] + [np.eye(10), np.zeros((10, 10))])
    stack[::3] = np.abs(stack[::3]) + 20 * np.eye(10)
    stack[1, 7:], stack[1, :, 7:] = 0, 0
    together = worst_direction(stack.reshape(4, 30, 10, 10))
    assert together.upper.shape == together.lower.shape == together.aligned.shape == (4, 30)
    for gram, lower, upper, aligned in zip(stack, *(np.ravel(part) for part in together), strict=True):
        alone = worst_direction(gram)
        assert alone.aligned == aligned
        assert upper == pytest.approx(alone.upper, rel=2e-6)
        assert lower == pytest.approx(alone.lower, rel=2e-6)
        assert lower <= alone.upper
        assert alone.lower <= upper
    assert 0.3 < together.aligned.mean() < 0.5


def test_an_empty_stack_has_empty_bounds():
    assert worst_direction(np.zeros((0, 3, 3))).upper.shape == (0,)


def test_thousands_of_small_matrices_reach_the_gap():
    factors = np.random.default_rng(0).normal(size=(3000, 10, 10))
    found = worst_direction(factors @ factors.transpose(0, 2, 1))
    assert ((found.upper - found.lower) / found.upper).max() <= 1.01e-6


@pytest.mark.parametrize("gap", [1e-4, 1e-9, 1e-12])
def test_the_gap_asked_for_is_reached(gap):
    gram = random_gram(np.random.default_rng(10), 14, 4)
    found = worst_direction(gram, relative_gap=gap)
    assert found.upper - found.lower <= (gap + 1e-12) * found.upper
    assert found.upper - found.lower > 0


def test_curious_neighbour_of_the_small_ring_matches_independent_numbers():
    """Ring of 6, weights 1/3, ATC, step 0.4, sigma 0.7, 7 rounds; agent 2 seen by agent 3, who knows its own noise.

    Golden: mu = sqrt(loss) from separate programs (pseudo-inverse and two filters; exhaustion over signs; block
    coordinate ascent with an eigenvalue certificate: 1.4623519565952563 from below and 1.46235195860868 from above).
    """
    gram = filtered_gram(ring_weights(6), 2, 3, 7)
    assert gram == pytest.approx(stacked_gram(ring_weights(6), 2, 3, 7), abs=1e-14)
    found = worst_direction(gram, relative_gap=1e-11)
    assert math.sqrt(gram.sum()) == pytest.approx(1.3456005713550125, rel=1e-13)
    assert math.sqrt(best_signs(gram)) == pytest.approx(1.4623318156791174, rel=1e-13)
    assert math.sqrt(7 * np.linalg.eigvalsh(gram)[-1]) == pytest.approx(1.5118578920369092, rel=1e-13)
    assert math.sqrt(np.abs(gram).sum()) == pytest.approx(1.512992356368884, rel=1e-13)
    assert math.sqrt(found.lower) == pytest.approx(1.4623519565952563, rel=1e-11)
    assert math.sqrt(found.upper) == pytest.approx(1.4623519565952563, rel=1e-11)
    assert 1.4623519565952563 <= math.sqrt(found.upper) <= 1.46235195860868
    assert not found.aligned


def test_distant_observer_of_the_small_ring_is_worst_when_aligned():
    """Golden: mu = 0.3713287882685082 for agent 2 seen from distance 3 (same separate programs)."""
    found = worst_direction(filtered_gram(ring_weights(6), 2, 5, 7))
    assert found.aligned
    assert math.sqrt(found.upper) == pytest.approx(0.3713287882685082, rel=1e-13)


def test_a_hundred_rounds_of_a_curious_neighbour_agree_with_coordinate_ascent():
    """Independent route from below: v_t <- normalise(sum_{s != t} Q_ts v_s), one round at a time."""
    weights = regular_weights(30, 4, seed=0)
    gram = filtered_gram(weights, 0, read_links(weights, 0)[0], 100)
    found = worst_direction(gram)
    vectors = np.random.default_rng(0).normal(size=(100, 16))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    for _ in range(400):
        for t in range(100):
            pull = gram[t] @ vectors - gram[t, t] * vectors[t]
            if np.linalg.norm(pull) > 0:  # the first round is seen apart from all others
                vectors[t] = pull / np.linalg.norm(pull)
    ascent = np.sum(gram * (vectors @ vectors.T))
    assert found.upper - found.lower <= 1e-6 * found.upper
    assert ascent <= found.upper
    assert ascent == pytest.approx(found.lower, rel=1e-4)
    assert gram.sum() < 0.8 * found.lower, "alignment would understate the loss by more than a fifth"
    assert found.upper < 0.95 * min(np.abs(gram).sum(), 100 * np.linalg.eigvalsh(gram)[-1])


def test_a_thousand_rounds_reach_a_gap_of_one_in_ten_thousand_in_seconds():
    weights = regular_weights(30, 4, seed=0)
    gram = filtered_gram(weights, 0, read_links(weights, 0)[0], 1000)
    started = time.process_time()
    found = worst_direction(gram, relative_gap=1e-4)
    assert time.process_time() - started < 8
    assert 0 < found.upper - found.lower <= 1e-4 * found.upper
    every_message = 1000 * (0.4 / 0.7) ** 2  # closed form for an observer of all links
    assert max(gram.sum(), np.trace(gram)) < found.lower < found.upper < every_message


def test_best_pattern_of_cyclic_participation_matches_independent_numbers():
    """Every fourth of 12 rounds, step 0.4, sigma 0.7, own noise cancelled (carry 1) or kept (carry 0), all links read.

    Golden: mu by a scalar recursion and by a pseudo-inverse of the whole network, in separate programs.
    """
    cyclic = [np.arange(offset, 12, 4) for offset in range(4)]
    single = [[t] for t in range(12)]
    for carry, thrice, once in [
        (1.0, 4.276179870598791, 1.979486637221574),
        (0.0, 0.9897433186107871, 0.5714285714285715),
    ]:
        rows = np.tril(carry ** np.abs(np.subtract.outer(np.arange(12), np.arange(12))).astype(float))
        gram = (0.4 / 0.7) ** 2 * rows.T @ rows
        found = best_pattern(gram, cyclic)
        assert math.sqrt(found.upper) == pytest.approx(thrice, rel=1e-12)
        assert math.sqrt(best_pattern(gram, single).upper) == pytest.approx(once, rel=1e-12)
        assert found.lower <= found.upper
        assert found.pattern == 0


def test_best_pattern_is_the_best_of_the_restricted_bounds():
    rng = np.random.default_rng(11)
    stack = np.array([random_gram(rng, 9, 4), random_gram(rng, 9, 9)])
    patterns = [[0, 3, 6], [8, 1], [2, 5, 7], [4], [1, 3, 8], [0, 1, 2, 3, 4]]
    found = best_pattern(stack, patterns)
    for place, gram in enumerate(stack):
        each = [worst_direction(gram[np.ix_(rows, rows)]) for rows in patterns]
        uppers = [float(bound.upper) for bound in each]
        assert found.upper[place] == pytest.approx(max(uppers), rel=2e-6)
        assert found.lower[place] == pytest.approx(max(float(bound.lower) for bound in each), rel=2e-6)
        assert found.pattern[place] == np.argmax(uppers)


def test_the_pattern_of_all_rounds_is_the_whole_matrix():
    gram = random_gram(np.random.default_rng(12), 7, 3)
    assert best_pattern(gram, [np.arange(7)]).upper == worst_direction(gram).upper


@pytest.mark.parametrize(
    ("gram", "message"),
    [
        (np.array([[1.0, 2.0], [2.0, 1.0]]), "eigenvalue of -0.25 times"),
        (np.array([[0.0, 1.0], [1.0, 0.0]]), "eigenvalue"),
        (np.diag([1.0, -1e-6]), "eigenvalue"),
        (np.array([np.eye(2), [[1.0, 0.1], [0.0, 1.0]]]), "matrix 1 is not symmetric"),
        (np.full((2, 2), np.nan), "not finite"),
        (np.diag([1.0, np.inf]), "infinite"),
        (np.ones((2, 3)), r"\(2, 3\)"),
        (np.ones(3), "shape"),
        (np.ones((0, 0)), "T >= 1"),
        (np.ones((2, 2), dtype=bool), "bool"),
        (np.ones((2, 2), dtype=complex), "complex"),
    ],
)
def test_what_is_not_a_gram_matrix_is_refused(gram, message):
    with pytest.raises(ConfigError, match=message):
        worst_direction(gram)


def test_a_negative_eigenvalue_of_rounding_size_is_accepted_and_bounded_from_above():
    gram = np.outer([1.0, -1.0, 1.0], [1.0, -1.0, 1.0]) - 1e-13 * np.eye(3)
    assert worst_direction(gram).upper >= 9 - 3e-13


@pytest.mark.parametrize("options", [{"relative_gap": g} for g in (0, 1.0, -1e-6, 1e-13, math.nan, True)])
def test_a_gap_that_cannot_be_reached_is_refused(options):
    with pytest.raises(ConfigError, match="relative_gap"):
        worst_direction(np.eye(2), **options)


@pytest.mark.parametrize("steps", [0, -1, 2.5, True])
def test_a_number_of_steps_that_is_no_number_is_refused(steps):
    with pytest.raises(ConfigError, match="max_steps"):
        worst_direction(np.eye(2), max_steps=steps)


@pytest.mark.parametrize(
    "patterns", [[], [[]], [[0, 0]], [[0, 3]], [[-1]], [[0.5]], [[True]], [[[0, 1]]], [[0], [1, 5]]]
)
def test_a_pattern_that_is_no_set_of_rounds_is_refused(patterns):
    with pytest.raises(ConfigError, match="pattern"):
        best_pattern(np.eye(3), patterns)
