"""Records in turns: what the compiled simulator does, what the accountant counts on, and what a gradient is, by other routes."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.accounting.question.participation import patterns
from sottovoce.simulation.views import observe

RING = sv.topologies.ring(3)
ATC = sv.algorithms.atc(step_size=0.1)
NONE = sv.noise.none()
SIZES = (7, 4, 9)  # unequal, and mostly no multiples of the gap


def _features(rng, sizes=SIZES):
    return [rng.normal(size=(n, 2)) for n in sizes], [np.sign(rng.normal(size=n)) for n in sizes]


def _loss(parameters, batch):
    return ((batch[0] @ parameters["w"] - batch[1]) ** 2).mean()


PROBLEMS = {
    "linear": lambda x, y: sv.problems.linear_regression(x, y, ridge=0.3),
    "linear, clipped": lambda x, y: sv.problems.linear_regression(x, y, ridge=0.3).with_clipping(0.5, "l2"),
    "logistic": lambda x, y: sv.problems.logistic_regression(x, y, ridge=0.1),
    "logistic, clipped": lambda x, y: sv.problems.logistic_regression(x, y, ridge=0.1).with_clipping(0.2, "l2"),
    "mean": lambda x, y: sv.problems.mean_estimation([np.clip(part, -1, 1) for part in x], radius=1.0),
    "mean, clipped": lambda x, y: sv.problems.mean_estimation(
        [np.clip(part, -1, 1) for part in x], radius=1.0
    ).with_clipping(0.3, "l2"),
    "custom": lambda x, y: sv.problems.custom_loss(_loss, {"w": np.zeros(2)}, x, y, ridge=0.2),
    "custom, clipped": lambda x, y: sv.problems.custom_loss(_loss, {"w": np.zeros(2)}, x, y, ridge=0.2).with_clipping(
        0.5, "l2"
    ),
    "whole gradients": lambda x, y: sv.problems.linear_regression(x, y, ridge=0.3).with_gradient_clipping(0.5, "l2"),
}


def _record_gradient(problem, agent, record, model):
    """One record's (clipped) gradient without the ridge, from a batch of it alone."""
    data = {name: value[agent] for name, value in problem.arrays.items()}
    ridge = {"linear_regression": 2.0, "mean_estimation": 0.0}.get(problem.kind, 1.0) * getattr(problem, "ridge", 0.0)
    return problem.batch_gradient(model, problem.records(data, np.array([record]))) - ridge * model, ridge * model


def _by_hand(problem, gap, rounds, step=0.1):
    """ATC on the ring without noise, the gradient of a round as the sum over the records whose turn it is."""
    inner = problem.problem if isinstance(problem, sv.problems.ClippedGradients) else problem
    models = np.zeros((3, 2))
    seen = []
    for t in range(1, rounds + 1):
        psi = np.empty_like(models)
        for k, n in enumerate(problem.sizes):
            total, ridge = np.zeros(2), None
            for i in range(n):
                own, ridge = _record_gradient(inner, k, i, models[k])
                if (t - 1) % gap == i % gap:
                    total += gap / n * own
            gradient = total + ridge
            if inner is not problem:
                gradient *= min(1.0, problem.gradient_clip.bound / np.linalg.norm(gradient))
            psi[k] = models[k] - step * gradient
        models = RING.matrix.T @ psi
        seen.append(models)
    return np.array(seen)


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_run_takes_the_weighted_gradients_of_the_records_whose_turn_it_is(name):
    problem = PROBLEMS[name](*_features(np.random.default_rng(0)))
    run = sv.simulate(
        problem, RING, ATC, NONE, rounds=9, batch=sv.problems.cyclic_batch(4), dtype="float64", record=["models"], progress=False
    )  # fmt: skip
    assert run.models_by_round[0] == pytest.approx(_by_hand(problem, 4, 9), rel=1e-10, abs=1e-12)


def test_turns_of_one_round_are_the_full_gradient():
    problem = PROBLEMS["logistic, clipped"](*_features(np.random.default_rng(1)))
    more = {"rounds": 12, "dtype": "float64", "progress": False}
    full = sv.simulate(problem, RING, ATC, NONE, **more)
    turns = sv.simulate(problem, RING, ATC, NONE, batch=sv.problems.cyclic_batch(1), **more)
    assert turns.models == pytest.approx(full.models, rel=1e-12)
    assert turns.description["batch"] == {"kind": "cyclic", "gap": 1}
    assert "batch" not in full.description


@pytest.mark.parametrize(("name", "rounds"), [("linear", 10), ("mean, clipped", 12), ("custom", 3)])
def test_a_record_takes_part_in_the_rounds_that_the_accountant_counts_on(name, rounds):
    """Perturb every record of every agent: messages of the compiled run change first in its first turn, and gradients in its turns alone.

    The step is so small that models hardly move and the curvature is that of a run at one model: gradients are read off the messages.
    """
    gap, step = 4, 1e-7
    batch = sv.problems.cyclic_batch(gap)
    algorithm = sv.algorithms.atc(step_size=step)
    x, y = _features(np.random.default_rng(2))
    counted = {tuple(np.flatnonzero(row)) for row in patterns(batch.participation(rounds), rounds)}
    found = set()

    def gradients(features):
        problem = PROBLEMS[name](features, y)
        more = {"rounds": rounds, "batch": batch, "dtype": "float64", "progress": False, "record": ["models"]}
        models = sv.simulate(problem, RING, algorithm, NONE, **more).models_by_round[0]
        before = np.concatenate([np.zeros((1, 3, 2)), models[:-1]])
        return (models - RING.matrix.T @ before) / step  # every agent's gradient, as the neighbours combine it

    plain = gradients(x)
    for agent in range(3):
        for record in range(SIZES[agent]):
            other = [part.copy() for part in x]
            other[agent][record] *= -0.7
            changed = np.abs(gradients(other) - plain).max(axis=(1, 2)) > 1e-4
            assert (changed == batch.takes_part(SIZES[agent], rounds)[record]).all()
            if changed.any():
                found.add(tuple(np.flatnonzero(changed)))
    assert found == counted


def test_one_record_changes_a_gradient_by_no_more_than_the_stated_sensitivity():
    """Attained by records with opposite clipped gradients; gap times that of the full gradient."""
    batch, clip = sv.problems.cyclic_batch(3), 0.4
    points = [np.zeros((n, 2)) for n in (6, 3, 7)]  # models stay at zero until record 1 has its turn

    def problem(points):
        return sv.problems.mean_estimation(points, radius=1.0).with_clipping(clip, "l2")

    stated = [
        problem(points).sensitivity(unit="record", adjacency="replace", norm="l2", batch=batch, agent=k)
        for k in range(3)
    ]
    full = [problem(points).sensitivity(unit="record", adjacency="replace", norm="l2", agent=k) for k in range(3)]
    assert stated == pytest.approx([3 * one for one in full], rel=1e-14)
    assert problem(points).sensitivity(unit="record", adjacency="replace", norm="l2", batch=batch) == max(stated)
    for k in range(3):
        worlds = []
        for value in (1.0, -1.0):
            own = [part.copy() for part in points]
            own[k][1] = [value, 0.0]
            run = sv.simulate(
                problem(own), RING, sv.algorithms.atc(step_size=1.0), NONE, rounds=2, batch=batch, dtype="float64",
                record=["models"], progress=False,
            )  # fmt: skip
            worlds.append(run.models_by_round[0])
        assert (worlds[0][0] == worlds[1][0]).all()  # record 1 has its turn in the second round
        received = worlds[0][1] - worlds[1][1]
        assert np.linalg.norm(received, axis=1) == pytest.approx(RING.matrix[k] * stated[k], rel=1e-12)


@pytest.mark.parametrize(("unit", "expected"), [("record", 3 / 6), ("person", 2 * 3 / 6), ("agent", (1 + 6 / 4) / 2)])
def test_sensitivities_of_units_in_diameters(unit, expected):
    problem = (
        sv.problems.linear_regression(np.ones((2, 6, 1)), np.ones((2, 6))).with_clipping(0.5, "l2").with_persons(2)
    )
    found = problem.sensitivity(unit=unit, adjacency="replace", norm="l2", batch=sv.problems.cyclic_batch(3))
    assert found == pytest.approx(expected, rel=1e-14)
    assert found.compares == ("any two models" if unit == "agent" else "same model")


def test_a_whole_agent_is_bounded_whatever_data_take_its_place():
    """Every number of records, all gradients at the clip: the norms of a round's gradient sum to no more than is stated."""
    gap, clip = 4, 1.0
    batch = sv.problems.cyclic_batch(gap)
    largest = {}
    for n in range(gap, 6 * gap):
        weights = batch.table([n])[1][:, 0].sum(axis=1)
        assert weights.mean() == pytest.approx(1.0)
        assert weights.max() == pytest.approx(batch.largest_share([n])[0])
        assert weights.min() == pytest.approx(batch.smallest_share([n])[0])
        largest[n] = clip * weights.max()
    for n in largest:
        problem = sv.problems.linear_regression(np.ones((1, n, 1)), np.ones((1, n))).with_clipping(clip, "l2")
        stated = problem.sensitivity(unit="agent", adjacency="replace", norm="l2", batch=batch)
        assert stated >= largest[n] + max(largest.values()) - 1e-12
        assert problem.sensitivity(unit="agent", adjacency="add-remove", norm="l2", batch=batch) >= largest[n] - 1e-12


@pytest.mark.parametrize("unit", ["record", "person"])
def test_taking_a_record_away_is_refused(unit):
    problem = (
        sv.problems.linear_regression(np.ones((2, 6, 1)), np.ones((2, 6))).with_clipping(0.5, "l2").with_persons(2)
    )
    with pytest.raises(sv.UnsupportedClaim, match="Use adjacency='replace'"):
        problem.sensitivity(unit=unit, adjacency="add-remove", norm="l2", batch=sv.problems.cyclic_batch(3))


def test_whole_clipped_gradients_keep_their_bound():
    problem = sv.problems.linear_regression(np.ones((2, 7, 1)), np.ones((2, 7))).with_gradient_clipping(0.5, "l2")
    found = problem.sensitivity(unit="agent", adjacency="replace", norm="l2", batch=sv.problems.cyclic_batch(3))
    assert found == 1.0


def test_participation_of_a_run_is_stated_and_accounted():
    """mu of a record in turns, by hand: times x (gap 2C/n)^2 step^2 / std^2."""
    batch = sv.problems.cyclic_batch(5)
    assert batch.participation(23) == sv.accounting.cyclic(5, 5)
    problem = sv.problems.linear_regression(np.ones((3, 10, 1)), np.ones((3, 10))).with_clipping(1.0, "l2")
    delta = problem.sensitivity(unit="record", adjacency="replace", norm="l2", batch=batch)
    found = sv.account(
        RING, ATC, sv.noise.independent(sv.noise.Gaussian(std=2.0)), sv.observers.eavesdropper(), rounds=23, sensitivity=delta,
        unit="record", participation=batch.participation(23),
    )  # fmt: skip
    assert found.mu == pytest.approx(np.sqrt(5) * 0.1 * (5 * 2.0 / 10) / 2.0, rel=1e-12)


def test_a_late_class_with_fewer_turns_counts_where_its_rounds_have_less_noise():
    """Eight rounds, gap five: rounds 4 and 5 are the only turns of their records, and there the noise is small."""
    factors = np.array([1.0, 1.0, 1.0, 0.1, 1.0, 1.0, 1.0, 1.0])
    noise = sv.noise.independent(sv.noise.Gaussian(std=1.0)).scaled(factors)
    participation = sv.problems.cyclic_batch(5).participation(8)
    found = sv.account(
        RING,
        ATC,
        noise,
        sv.observers.eavesdropper(),
        rounds=8,
        sensitivity=1.0,
        unit="record",
        participation=participation,
    )
    assert found.mu == pytest.approx(0.1 / 0.1, rel=1e-12)


def test_views_and_runs_see_the_same_turns():
    problem = PROBLEMS["linear"](*_features(np.random.default_rng(4)))
    batch = sv.problems.cyclic_batch(4)
    seen = observe(problem, RING, ATC, NONE, sv.observers.eavesdropper(), rounds=6, repeats=2, batch=batch)
    run = sv.simulate(
        problem, RING, ATC, NONE, rounds=6, batch=batch, dtype="float64", record=["models"], progress=False
    )
    models = np.zeros((3, 2))
    for t in range(6):
        messages = {int(sender): seen.messages[0][1, t, row] for row, (sender, _) in enumerate(seen.layout.links[0])}
        models = RING.matrix.T @ np.stack([messages[k] for k in range(3)])
        assert models == pytest.approx(run.models_by_round[0][t], rel=1e-12)


def test_batches_do_not_depend_on_chunks_repeats_or_company():
    problem = PROBLEMS["logistic"](*_features(np.random.default_rng(5)))
    batch = sv.problems.cyclic_batch(4)
    more = {"rounds": 11, "batch": batch, "dtype": "float64", "progress": False}
    noise = sv.noise.independent(sv.noise.Gaussian(std=0.1))
    alone = sv.simulate(problem, RING, ATC, noise, chunk=3, **more)
    several = sv.simulate(
        problem, RING, {"a": ATC, "c": sv.algorithms.cta(step_size=0.1)}, {"n": noise, "0": NONE}, repeats=3, **more
    )
    assert several["a", "n"].models[:1] == pytest.approx(alone.models, rel=1e-12)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"batch": sv.problems.cyclic_batch(5)}, "agent 1 has 4 record"),
        ({"batch": sv.problems.cyclic_batch(2), "batch_size": 1}, "Give one of them"),
        ({"batch": 3}, "cyclic_batch"),
    ],
)
def test_runs_without_such_batches_are_refused(more, message):
    problem = PROBLEMS["linear"](*_features(np.random.default_rng(6)))
    with pytest.raises(sv.ConfigError, match=message):
        sv.simulate(problem, RING, ATC, NONE, rounds=2, progress=False, **more)


@pytest.mark.parametrize("gap", [0, -1, 1.5, True, None, "2"])
def test_gaps_are_whole_numbers(gap):
    with pytest.raises(sv.ConfigError, match="gap"):
        sv.problems.cyclic_batch(gap)


def test_a_problem_without_weights_is_refused():
    problem = PROBLEMS["linear"](*_features(np.random.default_rng(7)))

    class Bare:
        weighted_gradient = None

        def __getattr__(self, name):
            return getattr(problem, name)

    with pytest.raises(sv.ConfigError, match="weighted_gradient"):
        sv.simulate(Bare(), RING, ATC, NONE, rounds=2, batch=sv.problems.cyclic_batch(2), progress=False)


def test_a_run_that_diverges_names_the_smoothness_of_a_round():
    problem = PROBLEMS["linear"](*_features(np.random.default_rng(8)))
    with pytest.raises(sv.Diverged, match="records in turns, steps above"):
        sv.simulate(
            problem,
            RING,
            sv.algorithms.atc(step_size=1e6),
            NONE,
            rounds=300,
            batch=sv.problems.cyclic_batch(4),
            progress=False,
        )
