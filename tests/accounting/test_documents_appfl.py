"""The sensitivities of the APPFL notes against all neighbouring data sets of 30 records."""

import math

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.accounting import documents
from sottovoce.accounting.question.message_change import largest_change_on_these_data
from sottovoce.algorithms import fedavg, inexact_admm
from sottovoce.problems import linear_regression, logistic_regression, mean_estimation

C, ETA, RHO, N = 0.8, 0.3, 1.7, 30
ONE_STEP = fedavg(step_size=ETA)
FAR = 1e4  # a target that no model of these tests comes near: the clipped gradient never turns


def fedavg_bound(case, *, norm="l1", records=N, clip=C):
    formula = {"remove": documents.appfl_removal_sensitivity, "replace": documents.appfl_replacement_sensitivity}[case]
    statement = formula(clip=clip, norm=norm, step_size=ETA, num_records=records)
    assert statement.upper_bound
    return statement.value


def admm_bound(*, penalty, total, norm="l1", goes_on_from="noised"):
    return documents.appfl_admm_sensitivity(
        clip=C, norm=norm, penalty=penalty, total_records=total, goes_on_from=goes_on_from
    )


def change(algorithm, problem, model, *, case="replace", norm="l1", **options):
    adjacency = {"remove": "add-remove", "replace": "replace"}[case]
    return largest_change_on_these_data(
        algorithm, problem, model, **({"agent": 0, "adjacency": adjacency, "norm": norm} | options)
    ).value


def two_sided(positive, norm, *, agents=1, records=N):
    """Logistic records with one feature vector and both labels: at w = 0 their clipped gradients are opposite, of norm C."""
    x = np.tile([3.0, -4.0, 5.0], (agents, records, 1))
    labels = np.tile(np.where(np.arange(records) < positive, 1.0, -1.0), (agents, 1))
    return logistic_regression(x, labels, ridge=0.2).with_clipping(C, norm)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_replacing_one_of_30_records_attains_case_2(norm):
    attained = change(ONE_STEP, two_sided(15, norm), np.zeros(3), norm=norm)
    assert attained == pytest.approx(fedavg_bound("replace", norm=norm), rel=1e-12)
    assert fedavg_bound("replace") == pytest.approx(0.016, rel=1e-12)  # 2 * 0.8 * 0.3 / 30
    assert attained > 1.9 * (C * ETA / N)  # half the bound is not enough


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_removing_one_of_30_records_attains_case_1_with_clipping(norm):
    """The removed record is opposite to all others. I_p counts it: with the smaller number the bound would be loose."""
    attained = change(ONE_STEP, two_sided(1, norm), np.zeros(3), case="remove", norm=norm)
    assert attained == pytest.approx(fedavg_bound("remove", norm=norm), rel=1e-12)
    assert attained == pytest.approx(29 / 30 * fedavg_bound("remove", norm=norm, records=29), rel=1e-12)
    assert attained > 1.9 * (C * ETA / N)  # what a fixed divisor would give


def test_a_bound_in_l2_is_exceeded_in_l1_by_up_to_the_root_of_the_dimension():
    x = np.tile([2.0, -2.0, 2.0, 2.0], (1, N, 1))
    problem = logistic_regression(x, np.resize([-1.0, 1.0], (1, N))).with_clipping(C, "l2")
    ratio = change(ONE_STEP, problem, np.zeros(4), norm="l1") / fedavg_bound("replace", norm="l2")
    assert ratio == pytest.approx(2.0, rel=1e-12)  # sqrt(4)


@pytest.mark.parametrize("received", [[], [[0.0, 0.0, 0.0]]], ids=["first", "second"])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_admm_at_the_global_point_attains_example_2_in_both_conventions(norm, received):
    """Three agents with 10 records each: our penalty is three times the notes', and their I is 30."""
    problem = two_sided(5, norm, agents=3, records=10)
    attained = change(inexact_admm(penalty=3 * RHO), problem, np.zeros(3), norm=norm, received=received)
    assert attained == pytest.approx(admm_bound(penalty=RHO, total=30, norm=norm).value, rel=1e-12)
    assert attained == pytest.approx(2.0 * C / (3 * RHO * 10), rel=1e-12)
    assert attained > 1.9 * C / (RHO * 30)


def random_problem(rng, norm, agents, records):
    d = int(rng.integers(1, 5))
    x = rng.normal(size=(agents, records, d)) * rng.choice([0.1, 1.0, 30.0])
    kind = int(rng.integers(3))
    if kind == 0:
        problem = linear_regression(x, rng.standard_cauchy(size=(agents, records)), ridge=0.1)
    elif kind == 1:
        problem = logistic_regression(x, np.resize([-1.0, 1.0], (agents, records)), ridge=0.1)
    else:
        problem = mean_estimation(x, radius=1000.0)
    return problem.with_clipping(C, norm), rng.normal(size=d) * rng.choice([0.0, 1.0, 5.0])


def test_no_neighbour_of_a_random_problem_exceeds_the_bounds_and_many_exceed_half():
    rng, ratios = np.random.default_rng(0), []
    for norm in ("l1", "l2") * 10:
        problem, model = random_problem(rng, norm, 1, N)
        for case in ("remove", "replace"):
            ratios.append(change(ONE_STEP, problem, model, case=case, norm=norm) / fedavg_bound(case, norm=norm))
        problem, model = random_problem(rng, norm, 3, 10)
        received = list(rng.normal(size=(int(rng.integers(3)), len(model))))
        attained = change(inexact_admm(penalty=3 * RHO), problem, model, agent=1, norm=norm, received=received)
        ratios.append(attained / admm_bound(penalty=RHO, total=30, norm=norm).value)
    assert max(ratios) <= 1.0 + 1e-12
    assert np.mean(np.array(ratios) > 0.5) > 0.5  # C eta / I_p is no bound


def regression(records, *, norm="l2"):
    """One agent with records (x, y) in one dimension; the clipped gradient is C sign(x^2 w - x y) away from y / x."""
    x, y = np.array(records).T
    return linear_regression([x[:, None]], [y]).with_clipping(C, norm)


def universe(*records):
    x, y = np.array(records).T
    return x[:, None], y


def flat(sign):
    """A record whose clipped gradient is sign C everywhere."""
    return (1.0, -sign * FAR)


def steep(threshold):
    """A record whose clipped gradient turns from -C to C at a threshold."""
    return (200.0, 200.0 * threshold)


def test_with_two_local_steps_the_one_step_formula_is_exceeded_twice_by_the_record_alone():
    problem = regression([flat(1)] * 15 + [flat(-1)] * 15)
    ratios = [change(fedavg(step_size=ETA, local_steps=steps), problem, [0.0]) for steps in (1, 2, 5)]
    assert np.array(ratios) / fedavg_bound("replace") == pytest.approx([1.0, 2.0, 5.0], rel=1e-12)


def test_with_two_local_steps_the_other_records_answer_and_the_change_is_27_times_the_formula():
    """29 records turn between the two worlds' points after one step.

    In units of C eta / 30 the worlds go 0 -> 30 -> 2 and 0 -> 28 -> 56: 54 apart, and the formula says 2.
    """
    problem = regression([flat(-1)] + [steep(29 * C * ETA / 30)] * 29)
    two_steps = fedavg(step_size=ETA, local_steps=2)
    attained = change(two_steps, problem, [0.0], universe=universe(flat(1)))
    assert attained / fedavg_bound("replace") == pytest.approx(27.0, rel=1e-9)
    assert attained <= 2 * 2 * C * ETA  # what the client as a unit is bounded by


def test_in_a_batch_a_record_weighs_more_than_the_formula_says():
    problem = two_sided(15, "l1")
    data = {name: array[0] for name, array in problem.arrays.items()}
    first, second = (
        problem.batch_gradient(np.zeros(3), problem.records(data, np.array(batch))) for batch in ([0, 1, 2], [0, 1, 29])
    )
    ratio = ETA * np.abs(first - second).sum() / fedavg_bound("replace")
    assert ratio == pytest.approx(10.0, rel=1e-12)  # 30 records, batches of 3


OWN = inexact_admm(penalty=RHO, linearise_at="own")
TURN = C / (RHO * N)  # half the distance of the two worlds' points after the first gradient


def turning():
    """30 records, and a replacement of the first, whose gradients at 0 are opposite and then both turn."""
    return regression([steep(TURN / 2)] + [flat(1)] * 15 + [flat(-1)] * 14), universe(steep(-TURN / 2))


def test_admm_at_its_own_point_exceeds_example_2_two_and_three_times():
    """With one agent both conventions of the penalty agree. The first message holds no data, the second 2v, the third v' - 2v."""
    problem, new = turning()
    formula = admm_bound(penalty=RHO, total=N, goes_on_from="clean")
    assert not formula.upper_bound
    heard = [[TURN], [0.3]]
    ratios = [change(OWN, problem, [0.0], universe=new, received=heard[:t]) / formula.value for t in range(3)]
    assert ratios == pytest.approx([0.0, 2.0, 3.0], rel=1e-9)


def test_admm_at_its_own_point_changes_57_times_as_much_when_other_records_answer():
    """Gradients in units of C/30: g0 = -30 and -28, then g1 = 28 and -28, so g0 - 2 g1 differs by 114; the formula says 2."""
    problem = regression([flat(-1)] + [steep(29 * TURN)] * 29)
    attained = change(OWN, problem, [0.0], universe=universe(flat(1)), received=[[0.0], [0.3]])
    assert attained / admm_bound(penalty=RHO, total=N).value == pytest.approx(57.0, rel=1e-9)
    assert attained <= 3 * 2 * C / RHO  # what the client as a unit is bounded by


def lone_record(rng, kind):
    """An agent with one record, 20 that may replace it, all clipped in l2, and no ridge."""
    x = rng.normal(size=(21, 2)) * rng.choice([1.0, 30.0])
    y = rng.normal(size=21) if kind == "linear" else np.resize([-1.0, 1.0], 21)
    if kind == "mean":
        return mean_estimation(x[None, :1], radius=1000.0).with_clipping(C, "l2"), (x[1:],)
    make = linear_regression if kind == "linear" else logistic_regression
    other = (x[1:], y[1:])  # a second agent, so that both labels occur
    return make([x[:1], other[0]], [y[:1], other[1]]).with_clipping(C, "l2"), other


@pytest.mark.parametrize("kind", ["linear", "logistic", "mean"])
def test_a_lone_record_without_a_ridge_never_exceeds_three_times_example_2_at_its_own_point(kind):
    rng = np.random.default_rng(4)
    for _ in range(20):
        problem, new = lone_record(rng, kind)
        start, *received = rng.normal(size=(3, 2))
        attained = change(OWN, problem, start, norm="l2", universe=new, received=received)
        assert attained <= (3.0 + 1e-12) * admm_bound(penalty=RHO, total=1, norm="l2").value


def test_a_ridge_at_the_own_point_takes_a_lone_record_beyond_three_times_example_2():
    """The worlds' points are 2C/rho apart, so the ridge's gradient 2 r w adds 2 (2 r) 2C/rho^2, that is 4 r/rho times 2C/rho."""
    x, y = np.array(steep(C / (2 * RHO)))
    problem = linear_regression([[[x]]], [[y]], ridge=0.1).with_clipping(C, "l2")
    attained = change(OWN, problem, [0.0], universe=universe(steep(-C / (2 * RHO))), received=[[0.0], [0.3]])
    assert attained / admm_bound(penalty=RHO, total=1).value == pytest.approx(3.0 + 4 * 0.1 / RHO, rel=1e-9)


def notes_recursion(gradient, start, models, noises, *, goes_on_from):
    """Example 2 written out: the clean z of every round, the client going on from what it sent or from the clean one."""
    z = point = start
    dual, sent = 0.0, []
    for w, noise in zip(models, noises, strict=True):
        z = w + (dual - gradient(point)) / RHO
        sent.append(z)
        point = z + noise if goes_on_from == "noised" else z
        dual = dual + RHO * (w - point)
    return sent


def test_the_notes_client_attains_example_2_from_its_noised_model_and_twice_that_from_its_clean_one():
    """The second world's noise is such that both worlds send the same before their last message, as densities are compared."""
    (problem, new), models, noises = turning(), [TURN, 0.3], np.array([-TURN, 0.0])
    data = [{name: array[0] for name, array in problem.arrays.items()}]
    changed = regression(
        [(new[0][0, 0], new[1][0]), *zip(problem.features[0, 1:, 0], problem.targets[0, 1:], strict=True)]
    )
    data.append({name: array[0] for name, array in changed.arrays.items()})
    gradients = [lambda w, d=d: problem.gradient(np.array([w]), d)[0] for d in data]
    formula = 2.0 * C / (RHO * N)
    for goes_on_from, expected in (("noised", 1.0), ("clean", 2.0)):
        first = notes_recursion(gradients[0], 0.0, models, noises, goes_on_from=goes_on_from)
        early = notes_recursion(gradients[1], 0.0, models[:1], noises[:1], goes_on_from=goes_on_from)
        same_messages = noises + np.array([first[0] - early[0], 0.0])
        second = notes_recursion(gradients[1], 0.0, models, same_messages, goes_on_from=goes_on_from)
        assert abs(first[0] - second[0]) == pytest.approx(formula, rel=1e-9)
        assert abs(first[1] - second[1]) == pytest.approx(expected * formula, rel=1e-9)
    assert admm_bound(penalty=RHO, total=N).upper_bound
    assert not admm_bound(penalty=RHO, total=N, goes_on_from="clean").upper_bound


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_case_1_as_printed_is_the_change_on_the_data_at_hand(norm):
    rng = np.random.default_rng(3)
    points = rng.uniform(-1.0, 1.0, size=(1, N, 4))
    model = rng.normal(size=4)
    printed = documents.appfl_removal_as_printed(model - points[0], step_size=ETA, norm=norm)
    attained = change(ONE_STEP, mean_estimation(points, radius=1.0), model, case="remove", norm=norm)
    assert printed.value == pytest.approx(attained, rel=1e-11)
    assert not printed.upper_bound


def test_noise_in_proportion_to_case_1_as_printed_is_not_private():
    """Neighbouring data ask for other scales, and far out the two Laplace densities differ by any factor."""
    gradients = np.array([[1.0], [1.0], [1.0], [-1.0]])
    scales = [documents.appfl_removal_as_printed(g, step_size=ETA, norm="l1").value for g in (gradients, gradients[:3])]
    assert scales[0] == pytest.approx(ETA * 0.5, rel=1e-12)  # 2 eta / 4
    assert scales[1] == pytest.approx(0.0, abs=1e-15)  # equal gradients: no noise at all
    near = documents.appfl_removal_as_printed([[1.0], [0.5], [1.0], [-1.0]], step_size=ETA, norm="l1").value
    epsilon, output = 1.0, 10.0
    log_ratio = math.log(near / scales[0]) + epsilon * output * (1.0 / near - 1.0 / scales[0])
    assert log_ratio > 5.0 * epsilon


ARGUMENTS = {
    documents.appfl_removal_sensitivity: {"clip": 1.0, "norm": "l1", "step_size": 0.1, "num_records": 30},
    documents.appfl_replacement_sensitivity: {"clip": 1.0, "norm": "l2", "step_size": 0.1, "num_records": 30},
    documents.appfl_admm_sensitivity: {
        "clip": 1.0,
        "norm": "l1",
        "penalty": 2.0,
        "total_records": 90,
        "goes_on_from": "noised",
    },
}
EACH = [
    pytest.param(formula, arguments, name, id=f"{formula.__name__}-{name}")
    for formula, arguments in ARGUMENTS.items()
    for name in arguments
]


@pytest.mark.parametrize(("formula", "arguments"), ARGUMENTS.items(), ids=[f.__name__ for f in ARGUMENTS])
@pytest.mark.parametrize("asked", [{"local_steps": 2}, {"batch_size": 10}, {"local_steps": 5, "batch_size": 1}])
def test_other_than_one_step_on_all_records_is_refused_with_the_two_sound_ways(formula, arguments, asked):
    formula(**arguments, local_steps=1, batch_size=None)
    with pytest.raises(sv.UnsupportedClaim, match=r"sv\.noise\.gradient\(law\).*update_clip="):
        formula(**arguments, **asked)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, 0.0, True, "x", None])
@pytest.mark.parametrize(("formula", "arguments", "name"), EACH)
def test_no_formula_takes_what_is_no_number_in_its_range(formula, arguments, name, bad):
    with pytest.raises(sv.ConfigError, match=name):
        formula(**(arguments | {name: bad}))


@pytest.mark.parametrize(("name", "bad"), [("local_steps", 0), ("local_steps", True), ("batch_size", 1.5)])
def test_steps_and_batches_that_do_not_exist_are_refused(name, bad):
    for formula, arguments in ARGUMENTS.items():
        with pytest.raises(sv.ConfigError, match=name):
            formula(**arguments, **{name: bad})


def test_a_removal_needs_two_records():
    with pytest.raises(sv.ConfigError, match="at least 2"):
        documents.appfl_removal_sensitivity(clip=1.0, norm="l1", step_size=0.1, num_records=1)
    for bad in ([[1.0, 2.0]], [1.0, 2.0], [[math.nan], [1.0]], [[True], [False]], [["x"], ["y"]], np.zeros((3, 0))):
        with pytest.raises(sv.ConfigError, match="gradients"):
            documents.appfl_removal_as_printed(bad, step_size=0.1, norm="l1")
    for arguments in ({"step_size": 0.0, "norm": "l1"}, {"step_size": 0.1, "norm": "linf"}):
        with pytest.raises(sv.ConfigError, match=r"step_size|norm"):
            documents.appfl_removal_as_printed([[1.0], [2.0]], **arguments)


def test_a_statement_says_for_which_norm_and_noise_it_holds():
    text = str(documents.appfl_replacement_sensitivity(clip=1.0, norm="l2", step_size=0.15, num_records=30))
    assert text == (
        "APPFL notes, Example 1, Case 2 states sensitivity = 0.01, which holds: one record replaced; in one message, "
        "given all before, in the l2 norm and so for Gaussian or L2Laplace noise."
    )
    clean = admm_bound(penalty=1.0, total=30, goes_on_from="clean")
    assert "does not hold" in str(clean)
    assert "clean dual variable" in clean.verdict
