"""Schemes are compared at the same epsilon, honestly: calibrated by the accountant, measured by the engine, ranked with their errors."""

import dataclasses
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.accounting.calibration import calibrate
from sottovoce.accounting.mechanisms import laplace
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.experiments.comparison.file import read_comparison, run_comparison
from sottovoce.experiments.comparison.result import Measured
from sottovoce.rounding import shown

GAUSSIAN, LAPLACE, L2 = sv.noise.Gaussian(std=1.0), sv.noise.Laplace(std=1.0), sv.noise.L2Laplace(scale=1.0)
NOISES = {
    "graph-homomorphic": sv.noise.graph_homomorphic(GAUSSIAN),
    "independent": sv.noise.independent(GAUSSIAN),
    "own copy clear": sv.noise.independent(GAUSSIAN, self_noise=False),
}
EAVESDROPPER, FINAL = sv.observers.eavesdropper(), sv.observers.final_model()
RIZK = Path(__file__).parents[2] / "comparisons" / "rizk-regression.toml"


def regression(clip=None):
    generator = np.random.default_rng(1)
    features, targets = generator.normal(size=(6, 20, 2)), generator.normal(size=(6, 20))
    problem = sv.problems.linear_regression(features, targets, ridge=0.0)
    return problem if clip is None else problem.with_clipping(clip, "l2")


def averages():
    """Points in a box: unclipped, with exact theory, and one record has a sensitivity all the same."""
    problem = sv.problems.mean_estimation(np.random.default_rng(0).uniform(-1, 1, size=(6, 20, 2)), radius=1.0)
    sensitivity = problem.sensitivity(unit="record", adjacency="replace", norm="l2")
    return {"problem": problem, "unit": "record", "sensitivity": sensitivity, "losses": problem.losses}


def compared(problem=None, algorithms=None, noises=NOISES, observers=(EAVESDROPPER,), **changes):
    options = {
        "rounds": 8, "sensitivity": 2.0, "epsilons": [2.0, 8.0], "delta": 1e-5, "repeats": 20, "seed": 3, "progress": False,
    } | changes  # fmt: skip
    return sv.compare(
        regression(clip=1.0) if problem is None else problem,
        sv.topologies.ring(6),
        {"atc": sv.algorithms.atc(step_size=0.05)} if algorithms is None else algorithms,
        noises,
        observers,
        **options,
    )


@pytest.fixture(scope="module")
def usual():
    return compared(observers=(EAVESDROPPER, FINAL))


def test_every_row_with_a_guarantee_has_exactly_the_epsilon_asked_for(usual):
    possible = [row for row in usual.rows if row.possible]
    assert len(possible) == 8  # three schemes for the eavesdropper, one for the final model, two epsilons
    for row in possible:
        assert row.guarantee.epsilon(1e-5) == pytest.approx(row.epsilon, rel=1e-9)
        again = sv.account(
            sv.topologies.ring(6),
            sv.algorithms.atc(step_size=0.05),
            row.noise,
            EAVESDROPPER if row.observer == "eavesdropper" else FINAL,
            rounds=8,
            sensitivity=2.0,
        )
        assert again.epsilon(1e-5) == pytest.approx(row.epsilon, rel=1e-9)
        assert again.linear_mu == pytest.approx(row.guarantee.linear_mu, rel=1e-9)
        assert again.validity == row.guarantee.validity


@pytest.mark.parametrize("law", [GAUSSIAN, LAPLACE, L2])
def test_the_noise_is_the_one_that_calibrate_gives(law):
    noises = {"one": sv.noise.graph_homomorphic(law), "other": sv.noise.independent(law)}
    sensitivity = regression(clip=1.0).sensitivity(unit="agent", adjacency="replace", norm=law.norm)
    found = compared(noises=noises, sensitivity=sensitivity, repeats=1)
    for row in found.rows:
        expected = calibrate(
            sv.topologies.ring(6), sv.algorithms.atc(step_size=0.05), noises[row.scheme], EAVESDROPPER, rounds=8,
            sensitivity=sensitivity, epsilon=row.epsilon, delta=1e-5,
        )  # fmt: skip
        assert row.scale == pytest.approx(expected.law.scale, rel=1e-12)
        assert row.std == pytest.approx(math.sqrt(expected.law.variance(2)), rel=1e-12)


def test_scales_are_those_of_the_closed_forms():
    # docs/guarantees.md: all links, ATC with step s: mu = s D sqrt(T) / sigma with self-noise, s D sqrt(T(T+1)(2T+1)/6) / sigma for
    # graph-homomorphic noise. mu(epsilon = 4.37718, delta = 1e-5) = 1.
    found = compared(epsilons=[4.37718], repeats=1)
    scales = {row.scheme: row.scale for row in found.rows}
    assert scales["independent"] == pytest.approx(0.05 * 2 * math.sqrt(8), rel=1e-5)
    assert scales["graph-homomorphic"] == pytest.approx(0.05 * 2 * math.sqrt(8 * 9 * 17 / 6), rel=1e-5)


def test_measurements_are_those_of_simulate_with_the_calibrated_noise(usual):
    row = next(row for row in usual.rows if row.scheme == "own copy clear" and row.epsilon == 8.0)
    run = sv.simulate(
        regression(clip=1.0), sv.topologies.ring(6), sv.algorithms.atc(step_size=0.05), row.noise, rounds=8, repeats=20, seed=3,
        dtype="float64", progress=False,
    )  # fmt: skip
    for name in ("msd_centroid", "msd_average"):
        values = run.metrics[name][:, -1]
        assert row.measured[name].value == pytest.approx(values.mean(), rel=1e-12)
        assert row.measured[name].standard_error == pytest.approx(values.std(ddof=1) / math.sqrt(20), rel=1e-12)


def test_the_tail_is_averaged_repeat_by_repeat():
    whole, last = compared(tail=8), compared(tail=1)
    run = sv.simulate(
        regression(clip=1.0), sv.topologies.ring(6), sv.algorithms.atc(step_size=0.05), whole.rows[0].noise, rounds=8, repeats=20,
        seed=3, dtype="float64", progress=False,
    )  # fmt: skip
    expected = run.metrics["msd_average"].mean(axis=1)
    np.testing.assert_allclose(whole.rows[0].measured["msd_average"].per_repeat, expected, rtol=1e-12)
    assert not np.allclose(last.rows[0].measured["msd_average"].per_repeat, expected, rtol=1e-3)


def test_exact_theory_stands_beside_unclipped_quadratic_runs_and_agrees():
    found = compared(**averages(), repeats=400)
    for row in (*found.rows, *found.references):
        for name, each in row.measured.items():
            assert each.theory is not None
            assert abs(each.value - each.theory) < 4.5 * each.standard_error + 1e-12, (row.scheme, row.epsilon, name)
    # power: with the noise of another epsilon the same test would fail
    first, second = (row.measured["msd_average"] for row in found.rows[:2])
    assert abs(first.value - second.theory) > 10 * first.standard_error


def test_clipped_runs_have_no_theory(usual):
    assert all(each.theory is None for row in usual.rows for each in row.measured.values())


def test_the_run_without_noise_is_the_reference(usual):
    (reference,) = usual.references
    assert math.isinf(reference.epsilon)
    clear = sv.simulate(
        regression(clip=1.0), sv.topologies.ring(6), sv.algorithms.atc(step_size=0.05), sv.noise.none(), rounds=8, dtype="float64",
        progress=False,
    )  # fmt: skip
    assert reference.measured["msd_centroid"].value == pytest.approx(clear.metrics["msd_centroid"][0, -1], rel=1e-12)


def test_schemes_that_nothing_helps_say_why(usual):
    rows = [row for row in usual.rows if row.observer == "final model" and row.scheme == "graph-homomorphic"]
    assert len(rows) == 2
    for row in rows:
        assert not row.possible
        assert row.noise is row.guarantee is row.scale is None
        assert "cancels in the centroid" in row.reason
        assert row.measured == {}
    assert usual.winner(FINAL, "msd_centroid", 2.0).impossible == (
        ("atc", "graph-homomorphic"),
        ("atc", "own copy clear"),
    )


def test_unproven_combinations_are_rows_with_a_reason_and_not_errors():
    found = compared(unit="record", sensitivity=0.1)  # without a promise only self-noise has a guarantee for a record
    assert {row.scheme for row in found.rows if row.possible} == {"independent"}
    assert all("needs a promise" in row.reason for row in found.rows if not row.possible)
    gaussian_only = compared(delta=0.0)
    assert all("delta = 0" in row.reason for row in gaussian_only.rows)
    assert str(gaussian_only.winner("eavesdropper", "msd_average", 2.0)).endswith("no scheme has a guarantee.")


def test_the_same_seed_gives_the_same_comparison_and_another_one_does_not(usual):
    again, other = compared(observers=(EAVESDROPPER, FINAL)), compared(observers=(EAVESDROPPER, FINAL), seed=4)
    assert json.dumps(again.describe(), allow_nan=False) == json.dumps(usual.describe(), allow_nan=False)
    assert other.rows[0].measured["msd_average"].value != usual.rows[0].measured["msd_average"].value


def test_observers_with_the_same_needs_share_their_runs(usual):
    values = {
        row.observer: row.measured["msd_average"].per_repeat
        for row in usual.rows
        if row.scheme == "independent" and row.epsilon == 2.0
    }
    assert values["eavesdropper"] is values["final model"]


def rizk_data(num_agents):
    """The regression of Rizk et al., smaller, with the promise that its full losses keep."""
    features, targets, _ = sv.problems.synthetic_regression(num_agents=num_agents, samples=100, dimension=2, seed=7)
    problem = sv.problems.linear_regression(features, targets, ridge=0.01)
    assert problem.constants.local_smoothness.max() < 2.0
    return problem.with_clipping(1.0, "l2"), sv.accounting.ConvexSmooth(2.0, 0.02)


def test_independent_noise_beats_graph_homomorphic_noise_at_equal_epsilon_and_loses_when_their_scales_are_swapped():
    (problem, losses), topology, algorithm = rizk_data(10), sv.topologies.ring(10), sv.algorithms.atc(step_size=0.4)
    options = {"rounds": 40, "repeats": 60, "seed": 5, "dtype": "float64", "progress": False}
    noises = {name: NOISES[name] for name in ("graph-homomorphic", "independent")}
    found = sv.compare(
        problem, topology, {"atc": algorithm}, noises, EAVESDROPPER, sensitivity=0.02, unit="record", losses=losses, epsilons=[3.0],
        delta=1e-5, **options,
    )  # fmt: skip
    for measure in ("msd_centroid", "msd_average"):
        winner = found.winner(EAVESDROPPER, measure)
        assert winner.best == (("atc", "independent"),)
        assert winner.beaten == (("atc", "graph-homomorphic"),)
    cancelling, plain = (row.noise for row in found.rows)
    swapped = {
        "graph-homomorphic": cancelling._replace(law=plain.law),
        "independent": plain._replace(law=cancelling.law),
    }
    runs = sv.simulate(problem, topology, algorithm, swapped, **options)
    rows = [
        dataclasses.replace(
            row,
            measured={
                name: Measured(per_repeat=runs["atc", row.scheme].metrics[name][:, -1], theory=None)
                for name in found.measures
            },
        )
        for row in found.rows
    ]
    wrong = dataclasses.replace(found, rows=tuple(rows))
    for measure in ("msd_centroid", "msd_average"):
        assert wrong.winner(EAVESDROPPER, measure).best == (("atc", "graph-homomorphic"),)


def test_with_equal_curvature_the_centroid_under_graph_homomorphic_noise_is_free_of_it_but_no_agent_has_it():
    found = compared(**averages(), observers=(EAVESDROPPER, EAVESDROPPER + FINAL), epsilons=[0.1, 0.3])
    (reference,) = found.references
    for row in found.rows:
        if row.scheme == "graph-homomorphic" and row.possible:
            assert row.measured["msd_centroid"].value == pytest.approx(
                reference.measured["msd_centroid"].value, rel=1e-6
            )
            assert row.measured["msd_average"].value > 10 * reference.measured["msd_average"].value
    assert found.winner(EAVESDROPPER, "msd_centroid", 0.1).best == (("atc", "graph-homomorphic"),)
    released = found.winner(EAVESDROPPER + FINAL, "msd_centroid", 0.1)
    assert released.best == (("atc", "independent"),)
    assert ("atc", "graph-homomorphic") in released.impossible


def with_values(comparison, values):
    """The same comparison with other measurements, by scheme."""
    rows = [
        dataclasses.replace(
            row, measured={"msd_average": Measured(per_repeat=np.array(values[row.scheme]), theory=None)}
        )
        for row in comparison.rows
    ]
    return dataclasses.replace(comparison, rows=tuple(rows), measures=("msd_average",))


def test_a_distance_within_two_standard_errors_of_the_paired_difference_is_a_tie():
    base = compared(epsilons=[2.0], repeats=2)
    shared = np.array([1.0, 5.0, 2.0, 9.0])  # repeats differ more than schemes do; pairing removes it
    jitter = np.array([0.1, -0.1, 0.1, -0.1])  # standard error of the difference: 0.2 / sqrt(3 * 4) = 0.0577

    def winner(gap):
        values = {"independent": shared, "own copy clear": shared + gap + jitter, "graph-homomorphic": shared + 50}
        return with_values(base, values).winner("eavesdropper", "msd_average")

    far, near = winner(0.12), winner(0.11)
    assert far.best == (("atc", "independent"),)
    assert far.beaten == (("atc", "own copy clear"), ("atc", "graph-homomorphic"))
    assert not far.tie
    assert near.best == (("atc", "independent"), ("atc", "own copy clear"))
    assert near.tie
    assert "a tie between independent (atc) and own copy clear (atc)" in str(near)
    assert "independent (atc) wins" in str(far)


def test_a_single_repeat_names_no_winner():
    with pytest.raises(ConfigError, match="repeats of 2 or more"):
        compared(repeats=1).winner("eavesdropper", "msd_average", 2.0)


def test_a_winner_is_asked_for_among_what_was_compared(usual):
    for arguments, message in (
        (("server", "msd_average", 2.0), "observer 'server' was not compared"),
        (("eavesdropper", "loss", 2.0), "measure 'loss' was not compared"),
        (("eavesdropper", "msd_average", 3.0), "epsilon = 3.0 was not compared"),
        (("eavesdropper", "msd_average"), "several epsilons"),
    ):
        with pytest.raises(ConfigError, match=message):
            usual.winner(*arguments)
    with pytest.raises(ConfigError, match="algorithm 'cta'"):
        usual.winner("eavesdropper", "msd_average", 2.0, algorithm="cta")


def test_schemes_of_one_algorithm_can_be_ranked_alone():
    algorithms = {"atc": sv.algorithms.atc(step_size=0.05), "cta": sv.algorithms.cta(step_size=0.05)}
    found = compared(algorithms=algorithms, epsilons=[2.0])
    assert found.winner(EAVESDROPPER, "msd_average", algorithm="cta").best[0][0] == "cta"
    assert len(found.rows) == 6
    assert [row.algorithm for row in found.references] == ["atc", "cta"]


def test_the_table_shows_every_number_once_and_every_reason(usual):
    text = usual.table()
    assert (
        sum(line.endswith("no guarantee") for line in text.splitlines()) == 2
    )  # two schemes for the final model, one line each for all epsilons
    for row in usual.rows:
        if row.possible:
            assert f"{row.measured['msd_average'].value:.3g} +- " in text
        else:
            assert row.reason in text
    assert "Sensitivity 2 (l2): enforced by clipping every record's gradient to 1 (l2)." in text
    assert "final model" not in usual.table(EAVESDROPPER)


def test_one_measure_is_shown_with_a_column_per_epsilon_and_without_those_that_have_no_guarantee(usual):
    header, *lines = usual.by_epsilon("final model", "msd_average")
    assert header == ["scheme", "algorithm", "epsilon = 2", "epsilon = 8"]
    assert [line[:2] for line in lines] == [["independent", "atc"], ["noise-free", "atc"]]
    rows = [row for row in usual.rows if row.observer == "final model" and row.scheme == "independent"]
    for cell, row in zip(lines[0][2:], rows, strict=True):
        assert cell.startswith(f"{row.measured['msd_average'].value:.3g} +- ")
    assert len(usual.by_epsilon("eavesdropper", "msd_average")) == 1 + 3 + 1


def test_neighbouring_epsilons_with_the_same_winner_share_a_sentence():
    base = compared(epsilons=[1.0, 2.0, 4.0], repeats=2)
    level = {"independent": 1.0, "own copy clear": 2.0, "graph-homomorphic": 3.0}

    def value(row):
        return 9.0 if row.scheme == "independent" and row.epsilon == 4.0 else level[row.scheme]

    rows = [
        dataclasses.replace(row, measured={"msd_average": Measured(per_repeat=np.full(3, value(row)), theory=None)})
        for row in base.rows
    ]
    (sentence,) = dataclasses.replace(base, rows=tuple(rows), measures=("msd_average",)).sentences()
    assert sentence == (
        "eavesdropper, msd_average: independent (atc) wins at epsilon = 1 and 2; own copy clear (atc) wins at epsilon = 4."
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "Sensitivity 2 (l2): enforced by clipping every record's gradient to 1 (l2)."),
        ({"sensitivity": 3.0}, "Sensitivity 3 (l2): enforced by clipping every record's gradient to 1 (l2)."),
        (averages(), "Sensitivity 0.1414 (l2): enforced by the box [-1, 1] that holds every point's coordinates."),
        (
            averages(),
            "Promised, checked on the data at hand: every local loss is convex, 1-smooth and 1-strongly convex.",
        ),
        (
            {"problem": dataclasses.replace(regression(1.0), ridge=0.1)},
            "to 1 (l2); at the same model, since the ridge is added after.",
        ),
        ({"batch_size": 5}, "Batches are drawn at random; any record may be drawn in any round"),
    ],
)
def test_the_notes_say_what_enforces_the_sensitivity(changes, expected):
    found = compared(epsilons=[2.0], repeats=1, **changes)
    assert any(expected in note for note in found.notes)


def test_every_row_states_what_its_repeats_would_give_away_and_the_notes_say_not_to_release_them(usual):
    for row in usual.rows:
        if not row.possible:
            assert row.epsilon_of_repeats is None
            continue
        expected = sv.accounting.gaussian.epsilon(row.guarantee.mu * math.sqrt(20), 1e-5)
        assert row.epsilon_of_repeats == row.describe()["epsilon_of_repeats"] == pytest.approx(expected, rel=1e-9)
    by_epsilon = {row.epsilon: shown(row.epsilon_of_repeats, 4) for row in usual.rows if row.possible}
    assert usual.notes[-1] == (
        "Simulated: anyone can draw this noise again from seed 3, so the models must not be released. All rows use the same random "
        "numbers; epsilon is that of one run of one row, and its 20 repeats would be 20 releases, with epsilon up to "
        f"{by_epsilon[2.0]} where one has 2, up to {by_epsilon[8.0]} where one has 8."
    )
    assert usual.notes[-1] in usual.table()
    assert "exact statistics of the records, for the data's owner only" in usual.notes[-2]
    assert (
        compared(epsilons=[2.0], repeats=1)
        .notes[-1]
        .endswith("that of one row, whose one repeat would be one release.")
    )
    hopeless = compared(delta=0.0, repeats=2)
    assert hopeless.notes[-1].endswith("its 2 repeats would be 2 releases.")


def test_with_batches_the_observer_is_given_the_draws_and_nothing_is_exact():
    noises = {"independent": NOISES["independent"]}
    full, drawn = (compared(noises=noises, epsilons=[2.0], repeats=1, batch_size=size).rows[0] for size in (None, 5))
    assert (full.guarantee.validity, drawn.guarantee.validity) == ("exact", "sent-messages")
    assert full.scale == drawn.scale


def test_laws_in_different_norms_need_a_sensitivity_in_each():
    noises = {"laplace": sv.noise.independent(LAPLACE), "gaussian": sv.noise.independent(GAUSSIAN)}
    with pytest.raises(ConfigError, match="'laplace' needs it in l1 and 'gaussian' in l2"):
        compared(noises=noises)
    with pytest.raises(ConfigError, match="needs a sensitivity in l1"):
        compared(noises=noises, sensitivity={"l2": 2.0})
    found = compared(noises=noises, sensitivity={"l1": 2.0 * math.sqrt(2), "l2": 2.0}, epsilons=[2.0], repeats=1)
    scale = found.rows[0].scale
    assert laplace.epsilon([0.05 * 2 * math.sqrt(2) / scale] * 8, 1e-5) == pytest.approx(2.0, rel=1e-6)
    assert scale < 0.05 * 8 * 2 * math.sqrt(2) / 2.0, "less noise than epsilons that add up would ask for"


def test_test_error_is_one_minus_the_accuracy():
    generator = np.random.default_rng(0)
    features = generator.normal(size=(6, 20, 2))
    problem = sv.problems.logistic_regression(features, (features.sum(-1) > 0) * 2.0 - 1.0, ridge=0.1).with_clipping(
        1.0, "l2"
    )
    held_out = generator.normal(size=(50, 2))
    test = (held_out, (held_out.sum(-1) > 0) * 2.0 - 1.0)
    found = compared(
        problem=problem, noises={"independent": NOISES["independent"]}, measures="test_error", test=test, epsilons=[2.0], same_model=True
    )  # fmt: skip
    run = sv.simulate(
        problem, sv.topologies.ring(6), sv.algorithms.atc(step_size=0.05), found.rows[0].noise, rounds=8, repeats=20, seed=3,
        dtype="float64", test=test, progress=False,
    )  # fmt: skip
    assert found.rows[0].measured["test_error"].value == pytest.approx(
        1 - run.metrics["accuracy"][:, -1].mean(), rel=1e-12
    )
    assert found.rows[0].measured["test_error"].theory is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilons": []}, "epsilons is empty"),
        ({"epsilons": [1.0, 1.0]}, "twice"),
        ({"epsilons": [math.inf]}, "must be a number in"),
        ({"epsilons": [math.nan]}, "must be a number in"),
        ({"epsilons": [True]}, "must be a number in"),
        ({"epsilons": [-1.0]}, "must be a number in"),
        ({"delta": 1.0}, r"it must be a number in \[0, 1\)"),
        ({"delta": math.nan}, r"it must be a number in \[0, 1\)"),
        ({"delta": True}, r"it must be a number in \[0, 1\)"),
        ({"tail": 0}, "at least 1"),
        ({"tail": 9}, "only 8 rounds"),
        ({"rounds": True}, "at least 1"),
        ({"measures": ["accuracy"]}, "test_error"),
        ({"measures": ["nonsense"]}, "not a metric of this problem"),
        ({"measures": []}, "measures is empty"),
        ({"observers": []}, "observers is empty"),
        ({"observers": [EAVESDROPPER, EAVESDROPPER]}, "twice"),
        ({"noises": {}}, "noises is empty"),
        ({"noises": NOISES["independent"]}, "give a dict"),
        ({"algorithms": sv.algorithms.atc(step_size=0.1)}, "give a dict"),
        ({"sensitivity": 0.0}, "sensitivity"),
    ],
)
def test_malformed_questions_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        compared(**changes)


def test_what_cannot_run_together_is_refused():
    with pytest.raises(IncompatibleChoice):
        compared(observers=[sv.observers.server()])


@pytest.mark.slow
def test_the_example_runs_and_names_its_winners():
    script = RIZK.parents[1] / "examples" / "compare.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "eavesdropper, msd_average: independent (atc) wins at every epsilon." in done.stdout
    assert "No guarantee for graph-homomorphic (atc)" in done.stdout


@pytest.fixture(scope="module")
def rizk():
    """The comparison of the folder `comparisons` at reduced size, ATC alone."""
    small = [
        "experiment.rounds=30", "experiment.repeats=60", "topology.agents=15", "topology.radius=0.5", 'compare.algorithms=["atc"]',
        "compare.epsilons=[1.0]", 'compare.observers=["eavesdropper", "final_model", "eavesdropper+final_model"]',
    ]  # fmt: skip
    return run_comparison(read_comparison(RIZK, small), progress=False)


@pytest.mark.slow
def test_the_winners_stated_for_the_regression_of_rizk_hold_at_reduced_size(rizk):
    centroid, average = (rizk.winner("eavesdropper", measure) for measure in ("msd_centroid", "msd_average"))
    assert centroid.best == (("atc", "pairwise"),)
    assert average.best == (("atc", "independent"),)
    for winner in (centroid, average):
        assert winner.beaten[-2:] == (("atc", "graph-homomorphic"), ("atc", "graph-homomorphic l2-Laplace"))
    for observer in ("final model", "eavesdropper + final model"):
        impossible = {scheme for _, scheme in rizk.winner(observer, "msd_average").impossible}
        assert {"graph-homomorphic", "graph-homomorphic l2-Laplace"} <= impossible
    assert rizk.winner("eavesdropper + final model", "msd_average").best == (("atc", "independent"),)
    final = {scheme for _, scheme in rizk.winner("final model", "msd_average").best}
    assert final <= {"independent", "own copy clear"}
    assert final


def asked(question, algorithms=None, **changes):
    noises = {"independent": NOISES["independent"]}
    options = {"rounds": None, "sensitivity": None, "epsilons": [2.0], "repeats": 2, "question": question} | changes
    return compared(algorithms=algorithms, noises=noises, **options)


def test_a_question_takes_the_place_of_its_keywords():
    by_keywords = compared(noises={"independent": NOISES["independent"]}, epsilons=[2.0], repeats=2)
    by_question = asked(sv.Question(rounds=8, sensitivity=2.0))
    assert by_question.describe() == by_keywords.describe()
    assert asked({"atc": sv.Question(rounds=8, sensitivity=2.0)}).describe() == by_keywords.describe()


def test_every_algorithm_may_have_a_question_of_its_own():
    algorithms = {"short": sv.algorithms.atc(step_size=0.05), "long": sv.algorithms.atc(step_size=0.1)}
    questions = {"short": sv.Question(rounds=8, sensitivity=4.0), "long": sv.Question(rounds=8, sensitivity=2.0)}
    found = asked(questions, algorithms)
    stds = {row.algorithm: row.std for row in found.rows}
    assert stds["short"] == pytest.approx(stds["long"], rel=1e-9)  # half the step, twice the change
    said = found.description["questions"]
    assert said["short"]["sensitivity"] == {"l2": 4.0}
    assert said["long"]["sensitivity"] == {"l2": 2.0}


@pytest.mark.parametrize(
    ("question", "changes", "message"),
    [
        (sv.Question(rounds=8, sensitivity=2.0), {"rounds": 8}, "question= was given together with rounds="),
        (sv.Question(rounds=8, sensitivity=2.0), {"unit": "agent"}, "question= was given together with unit="),
        (sv.Question(rounds=8, sensitivity=2.0, agent=1), {}, "calibrated for the worst agent"),
        ({"cta": sv.Question(rounds=8, sensitivity=2.0)}, {}, r"given for \['cta'\]"),
        ({"atc": {"rounds": 8}}, {}, r"give sv\.Question"),
        (None, {"rounds": 8}, "sensitivity not given"),
    ],
)
def test_questions_that_do_not_fit_are_refused(question, changes, message):
    with pytest.raises(ConfigError, match=message):
        asked(question, **changes)


def test_algorithms_are_compared_after_the_same_number_of_rounds():
    algorithms = {"one": sv.algorithms.atc(step_size=0.05), "other": sv.algorithms.cta(step_size=0.05)}
    questions = {"one": sv.Question(rounds=8, sensitivity=2.0), "other": sv.Question(rounds=9, sensitivity=2.0)}
    with pytest.raises(ConfigError, match="after the same number"):
        asked(questions, algorithms)
