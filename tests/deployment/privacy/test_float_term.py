"""What float64 does before anything is rounded, against exact rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.algorithms import Algorithm, Exchange
from sottovoce.deployment.privacy import GradientArithmetic, deployed_guarantee, gradient_arithmetic
from sottovoce.deployment.privacy.arithmetic import traced_round
from sottovoce.deployment.privacy.gradients import UNIT_ROUNDOFF, float_term
from sottovoce.deployment.terms import PublicRun
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.problems import Sensitivity

D = 3


def squared(vector):
    return sum(Fraction(float(entry)) ** 2 for entry in vector)


def difference(first, second):
    """The exact squared l2 distance of two float64 vectors."""
    return sum((Fraction(float(a)) - Fraction(float(b))) ** 2 for a, b in zip(first, second, strict=True))


def made(kind, records, ridge):
    features, targets = records
    if kind == "mean":
        return sv.problems.mean_estimation(features, radius=1e6).with_clipping(0.37, "l2")
    make = {"linear": sv.problems.linear_regression, "logistic": sv.problems.logistic_regression}[kind]
    return make(features, targets, ridge=ridge).with_clipping(0.37, "l2")


def gradient(problem, model, batch):
    data = {name: values[0] for name, values in problem.arrays.items()}
    if batch is None:
        return problem.gradient(model, data)
    return problem.batch_gradient(model, problem.records(data, batch))


@pytest.mark.parametrize("batch", [None, 7])
@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("kind", ["linear", "logistic", "mean"])
def test_computed_gradients_stay_within_the_sensitivity_and_its_float_term(kind, ridge, batch):
    generator = np.random.default_rng(5)
    n, exceeded, bound = 40, 0, 50.0
    for _ in range(60):
        features = generator.normal(size=(1, n, D)) * 10.0 ** generator.integers(-2, 3)
        targets = np.sign(generator.normal(size=(1, n)))
        other, turned = features.copy(), targets.copy()
        other[0, 0] = -features[0, 0] if kind == "mean" else features[0, 0]
        turned[0, 0] = -targets[0, 0] if kind == "logistic" else -1e3 * targets[0, 0]
        model = generator.normal(size=D) * bound / 5 if kind != "mean" else np.zeros(D)
        here, there = made(kind, (features, targets), ridge), made(kind, (other, turned), ridge)
        indices = None if batch is None else np.arange(batch)
        sensitivity = here.sensitivity(unit="record", adjacency="replace", norm="l2", batch_size=batch)
        term = float_term(sensitivity, gradient_arithmetic(here, batch_size=batch), dimension=D, bound=bound)
        found = difference(gradient(here, model, indices), gradient(there, model, indices))
        assert found <= Fraction(float(sensitivity) + term) ** 2
        exceeded += found > Fraction(float(sensitivity)) ** 2
    if kind == "mean":
        assert exceeded > 0  # the term is needed: clipped vectors overshoot by a few units in the last place


def test_any_two_gradients_of_an_agent_stay_within_the_sensitivity_and_its_float_term():
    generator = np.random.default_rng(6)
    exceeded = 0
    for _ in range(60):
        features = np.tile(generator.normal(size=(1, 1, D)) * 100, (1, 25, 1))
        here, there = (made("mean", (sign * features, None), 0.0) for sign in (1, -1))
        sensitivity = here.sensitivity(unit="agent", adjacency="replace", norm="l2")
        term = float_term(sensitivity, gradient_arithmetic(here, batch_size=None), dimension=D, bound=1.0)
        found = difference(gradient(here, np.zeros(D), None), gradient(there, np.zeros(D), None))
        assert found <= Fraction(float(sensitivity) + term) ** 2
        exceeded += found > Fraction(float(sensitivity)) ** 2
    assert exceeded > 0


def test_sums_of_very_many_records_cost_as_much_as_one_record_moves():
    """2C/n falls with n while the error of a sum grows: the term says so."""
    few, many = (
        Sensitivity(2.0 / n, unit="record", adjacency="replace", norm="l2", compares="same model")
        for n in (10**3, 10**8)
    )
    small = float_term(few, GradientArithmetic(terms=10**3, added=0.0), dimension=D, bound=1.0)
    large = float_term(many, GradientArithmetic(terms=10**8, added=0.0), dimension=D, bound=1.0)
    assert small < 1e-9 * float(few)
    assert large > float(many)


def test_a_ridge_is_charged_at_the_size_of_the_model():
    given = Sensitivity(0.01, unit="record", adjacency="replace", norm="l2", compares="same model")
    plain = float_term(given, GradientArithmetic(terms=100, added=0.0), dimension=4, bound=1e6)
    ridge = float_term(given, GradientArithmetic(terms=100, added=0.5), dimension=4, bound=1e6)
    assert ridge - plain == pytest.approx(4 * UNIT_ROUNDOFF * 0.5 * 1e6 * 2.0)


def test_claims_and_changing_shapes_are_refused():
    with pytest.raises(ConfigError, match="plain number"):
        float_term(0.1, GradientArithmetic(terms=1, added=0.0), dimension=1, bound=1.0)
    removed = Sensitivity(0.1, unit="record", adjacency="add-remove", norm="l2", compares="same model")
    with pytest.raises(UnsupportedClaim, match="add-remove"):
        float_term(removed, GradientArithmetic(terms=1, added=0.0), dimension=1, bound=1.0)
    unclipped = sv.problems.linear_regression(np.ones((1, 2, 1)), np.ones((1, 2)))
    with pytest.raises(UnsupportedClaim, match="not clipped"):
        gradient_arithmetic(unclipped, batch_size=None)


ALGORITHMS = [
    sv.algorithms.atc(step_size=0.3),
    sv.algorithms.consensus(step_size=lambda t: 0.7 / t),
    sv.algorithms.cta(step_size=0.1),
    sv.algorithms.dgd(step_size=0.9, gradient_rounds=2, box=4.0),
    sv.algorithms.gossip(acceleration=0.3),
    sv.algorithms.muffliato(step_size=0.1, gossip_steps=2, acceleration=0.3),
    sv.algorithms.inexact_admm(penalty=3.7),
    sv.algorithms.inexact_admm(penalty=0.13, linearise_at="own"),
    sv.algorithms.fedavg(step_size=0.3, server_step_size=0.7),
]


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda one: one.name)
def test_the_traced_error_bounds_what_float64_really_does(algorithm):
    """Every function on float64 and on rational numbers, with entries of very different sizes."""
    from sottovoce.linear import refill, state_blocks

    generator, template = np.random.default_rng(1), algorithm.init(np.zeros(1))
    blocks = len(state_blocks(template))
    for round_ in (1, 2, 5):
        one = traced_round(algorithm, round_, bound=2.0**20, received=2.0**21, gradient=lambda point: 2.0**10)
        for _ in range(30):
            size = 2.0 ** generator.integers(-10, 10)
            values = [float(generator.uniform(-size, size) * 2.0**10) for _ in range(blocks)]
            received, slope = float(generator.uniform(-1, 1) * 2.0**21), float(generator.uniform(-1, 1) * 2.0**10)
            for j, exchange in enumerate(algorithm.exchanges):
                for stage, function, given in (
                    (one.messages[j], exchange.message, ()),
                    (one.updates[j], exchange.update, (received,)),
                ):
                    computed = _run(
                        function,
                        refill(template, [np.array([v]) for v in values]),
                        [np.array([r]) for r in given],
                        np.array([slope]),
                        round_,
                    )
                    exact = _run(
                        function,
                        refill(template, [_Exact(v) for v in values]),
                        [_Exact(r) for r in given],
                        _Exact(slope),
                        round_,
                    )
                    for traced, got, true in zip(
                        stage.values, state_blocks(computed), state_blocks(exact), strict=True
                    ):
                        assert abs(Fraction(float(got[0])) - true.value) <= Fraction(traced.error)
                        assert abs(float(got[0])) <= traced.size + traced.error


def _run(function, state, given, slope, round_):
    return function(state, *given, lambda w, step=0: slope, round_)


class _Exact:
    """A rational number with the operations that agents' functions use."""

    def __init__(self, value):
        self.value = Fraction(value)

    def _with(self, other, make):
        return _Exact(make(self.value, other.value if isinstance(other, _Exact) else Fraction(float(other))))

    def __add__(self, other):
        return self._with(other, lambda a, b: a + b)

    def __sub__(self, other):
        return self._with(other, lambda a, b: a - b)

    def __mul__(self, other):
        return self._with(other, lambda a, b: a * b)

    def __truediv__(self, other):
        return self._with(other, lambda a, b: a / b)

    __radd__, __rmul__ = __add__, __mul__
    __array_ufunc__ = None

    def __array_namespace__(self):
        class Namespace:
            @staticmethod
            def clip(value, low, high):
                return _Exact(min(max(value.value, Fraction(low)), Fraction(high)))

            @staticmethod
            def where(condition, first, second):
                return first if condition else second

        return Namespace()


def stated(algorithm, unit="record"):
    run = PublicRun(
        topology=sv.topologies.ring(4), algorithm=algorithm, noise=sv.noise.independent(sv.noise.Gaussian(std=1.0)), rounds=3, batch_size=None,
        initial_model=np.zeros(1),
    )  # fmt: skip
    compares = "same model" if unit == "record" else "any two models"
    return deployed_guarantee(
        run, agent=0, sensitivity=Sensitivity(0.1, unit=unit, adjacency="replace", norm="l2", compares=compares),
        arithmetic=GradientArithmetic(terms=10, added=0.0), fraction_bits=20, collude="all", relay_trusted=False, released_to="own", losses=None,
        unit=unit, adjacency="replace",
    )  # fmt: skip


def test_numbers_that_cancel_on_paper_but_not_in_float64_count_as_different():
    """CTA at the point w + received - w: in real numbers the combination alone, in float64 a trace of w, which holds a gradient."""

    def message(w, gradient, round_):
        return w

    def update(w, received, gradient, round_):
        point = (w + received) - w
        return point - 0.1 * gradient(point)

    sly = Algorithm("sly", (Exchange(message, update),))
    account = sv.account(
        sv.topologies.ring(4), sly, sv.noise.independent(sv.noise.Gaussian(std=1.0)), sv.observers.eavesdropper(), rounds=3, agent=0, unit="record",
        adjacency="replace", sensitivity=0.1,
    )  # fmt: skip
    assert np.isfinite(account.mu)
    found = stated(sly)
    assert found.cost.kind == "infinite"
    assert "different" in found.guarantee.reason
    assert stated(sv.algorithms.cta(step_size=0.1)).cost.kind == "gaussian"


def test_functions_that_do_more_than_add_scale_and_clip_are_not_stated():
    def message(w, gradient, round_):
        return w - 0.1 * gradient(w)

    def update(w, received, gradient, round_):
        return received * (received * received).sum() / (received * received).sum()

    assert stated(Algorithm("normed", (Exchange(message, update),)), unit="agent").cost.kind == "infinite"


def test_huge_words_would_let_float64_tell_worlds_apart():
    """Why words beyond what honest parties send are refused: neighbours that cancel leave whole numbers of their own last place."""
    own = [0.25 * float(copy) for copy in (510, 514)]
    huge = 0.25 * 2.0**62
    apart = abs(((own[0] + huge) - huge) - ((own[1] + huge) - huge))
    assert apart > 100 * abs(own[0] - own[1])
