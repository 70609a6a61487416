"""One model that may be released: reserved before anything is drawn, counted whatever happens, and never drawn again."""

import json
import os
import signal
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.attacks.bounds import gaussian_dp
from sottovoce.deployment.ledger import Ledger, Reserved
from sottovoce.deployment.privacy import Cost
from sottovoce.deployment.store import Store, StoreError
from sottovoce.errors import BudgetExhausted, ConfigError, IncompatibleChoice, UnsupportedClaim
from sottovoce.experiments import load_model, may_be_released, parse, release, train, train_model
from sottovoce.experiments.demo import demo_config, demo_text
from sottovoce.experiments.privacy import sensitivities
from sottovoce.experiments.release import CENTRAL, DEALT, ONCE, prepare_release
from sottovoce.experiments.scores import measure_of
from sottovoce.linear import centroid
from sottovoce.simulation import simulate

FILE = {
    "experiment": {"name": "x", "rounds": 5, "repeats": 3, "seed": 4},
    "topology": {"kind": "ring", "agents": 4},
    "problem": {
        "kind": "logistic_regression",
        "data": "breast_cancer",
        "ridge": 0.01,
        "partition": {"kind": "dirichlet", "alpha": 0.5},
        "test_fraction": 0.2,
    },
    "algorithm": {"kind": "atc", "step_size": 0.5},
    "noise": {"kind": "independent", "law": "gaussian", "std": 0.05},
    "privacy": {"unit": "record", "clip": 0.5, "clip_norm": "l2", "delta": 1e-5, "observers": ["eavesdropper"]},
}
ONE_COSTS = 1.0  # epsilon of one training of this file, at most


def config(store=None, *, budget=None, name="patients", **changes):
    """The file with keys changed, as {table: {key: value}}, or {table: None} to leave it out; with a ledger where one is named."""
    tables = {table: {**FILE.get(table, {}), **(keys or {})} for table, keys in {**FILE, **changes}.items()}
    tables = {table: keys for table, keys in tables.items() if changes.get(table, {}) is not None}
    if store is not None:
        tables["ledger"] = {"store": str(store), "name": name, **({} if budget is None else {"budget": budget})}
    return parse(tables, source="test")


def ledger_of(path):
    with Store.open(path, writer=False) as store:
        ledger = Ledger(store)
        return ledger.entries(), ledger.totals(), store.runs()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    return train_model(config(folder / "l", budget="unlimited"), folder / "model", progress=False), folder / "l"


def test_a_model_says_that_it_may_be_released_and_by_which_guarantee(trained):
    done, _ = trained
    plain = json.loads((done.folder / "model.json").read_text())
    assert next(iter(plain)) == "releasable"
    assert plain["releasable"] is True
    assert may_be_released(done.folder)
    epsilon = done.stated["guarantees"][0]["epsilon"]["1e-05"]
    assert plain["guarantee"][0].startswith(f"For whoever gets the final model, epsilon is at most {epsilon:.4g}"[:60])
    assert "adds to it" in plain["guarantee"][-1]
    assert load_model(done.folder).parameters.dtype == np.float64
    assert 0 < epsilon < ONE_COSTS


def test_what_was_measured_is_for_the_owner_alone(trained):
    done, _ = trained
    assert sorted(path.name for path in done.folder.iterdir()) == ["model.json", "model.safetensors", "owner-only.json"]
    assert stat.S_IMODE((done.folder / "owner-only.json").stat().st_mode) == 0o600
    told = json.loads((done.folder / "owner-only.json").read_text())
    assert told == done.owner_only
    assert told["held_out"] is True
    assert "together" in told["rows"]
    for word in ("accuracy", "seed", "owner"):
        assert word not in (done.folder / "model.json").read_text()


def test_every_training_is_an_entry_with_what_the_model_costs(trained):
    done, path = trained
    entries, totals, runs = ledger_of(path)
    reserved = [entry for entry in entries if isinstance(entry, Reserved)]
    assert len(reserved) == totals.runs == 1
    assert reserved[0].observer == "whoever gets the model"
    assert reserved[0].cost.epsilon(1e-5) == pytest.approx(done.stated["guarantees"][0]["epsilon"]["1e-05"], rel=1e-6)
    assert totals.spent == totals.reserved
    assert runs[0].status in ("finished", "closed")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_two_trainings_over_the_budget_the_second_is_refused_and_nothing_is_written(tmp_path):
    asked = config(tmp_path / "l", budget=ONE_COSTS)
    train_model(asked, tmp_path / "first", progress=False)
    with pytest.raises(BudgetExhausted, match="above its budget of 1"):
        train_model(asked, tmp_path / "second", progress=False)
    assert not (tmp_path / "second").exists()
    assert ledger_of(tmp_path / "l")[1].runs == 1


def test_a_training_over_the_whole_budget_begins_no_ledger(tmp_path):
    with pytest.raises(BudgetExhausted, match="Nothing was trained"):
        train_model(config(tmp_path / "l", budget=0.01), tmp_path / "model", progress=False)
    assert list(tmp_path.iterdir()) == []


def test_the_reservation_is_on_the_disk_before_the_first_random_number(tmp_path, monkeypatch):
    asked = []

    class Watched(train.SecretRandomness):
        def source(self, position, source, scale):
            if not asked:
                asked.append(ledger_of(tmp_path / "l"))
            return super().source(position, source, scale)

    monkeypatch.setattr(train, "SecretRandomness", Watched)
    train_model(config(tmp_path / "l", budget=ONE_COSTS), tmp_path / "model", progress=False)
    ((_, totals, runs),) = asked
    assert totals.runs == 1
    assert totals.spent == totals.reserved > 0
    assert runs[0].status == "running"


@pytest.mark.parametrize("ends", [MemoryError, KeyboardInterrupt])
def test_a_training_that_ends_early_stays_spent(tmp_path, monkeypatch, ends):
    def fails(*_, **__):
        raise ends

    monkeypatch.setattr(train, "play", fails)
    asked = config(tmp_path / "l", budget=ONE_COSTS)
    with pytest.raises(ends) as stopped:
        train_model(asked, tmp_path / "model", progress=False)
    if ends is KeyboardInterrupt:
        assert "stays spent in the ledger of 'patients'" in str(stopped.value)
    assert not (tmp_path / "model").exists()
    _, totals, runs = ledger_of(tmp_path / "l")
    assert totals.spent == totals.reserved > 0
    with Store.open(tmp_path / "l") as store, pytest.raises(StoreError):  # it cannot be taken back either
        Ledger(store).cancel(runs[0].digest)
    monkeypatch.undo()
    with pytest.raises(BudgetExhausted):
        train_model(asked, tmp_path / "model", progress=False)


@pytest.mark.slow
def test_a_training_that_is_killed_stays_spent(tmp_path):
    program = (
        "import os, signal, sys, json\n"
        "from pathlib import Path\n"
        "from sottovoce.experiments import parse, train, train_model\n"
        "class Killed(train.SecretRandomness):\n"
        "    def source(self, position, source, scale):\n"
        "        if position == 2: os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return super().source(position, source, scale)\n"
        "train.SecretRandomness = Killed\n"
        "train_model(parse(json.loads(sys.argv[1]), source='test'), Path(sys.argv[2]), progress=False)\n"
    )
    asked = config(tmp_path / "l", budget=ONE_COSTS)
    arguments = [sys.executable, "-c", program, json.dumps(asked.as_dict()), str(tmp_path / "model")]
    ended = subprocess.run(arguments, env=os.environ, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert not list((tmp_path / "model").glob("*"))
    assert ledger_of(tmp_path / "l")[1].spent > 0
    with pytest.raises(BudgetExhausted):
        train_model(asked, tmp_path / "again", progress=False)


def test_the_seed_of_the_file_draws_no_noise():
    ready = prepare_release(config())
    models = [train._play(ready, bytes(32), lambda _: None) for _ in range(2)]
    assert (models[0] != models[1]).all()


@pytest.mark.slow
def test_models_scatter_as_simulated_ones_do_and_half_the_noise_is_noticed():
    """240 trainings of 30 parameters against as many repeats: the ratio of variances is within 10 % of one, which is far from a quarter."""
    ready = prepare_release(config())
    played = np.stack([train._play(ready, bytes(32), lambda _: None) for _ in range(240)])
    e = ready.experiment
    parts = e.problem, e.topology, e.algorithm, e.noise
    run = simulate(*parts, rounds=e.rounds, repeats=240, seed=1, dtype="float64", record=["loss"], progress=False)
    ratio = played.var(axis=0).mean() / run.models.var(axis=0).mean()
    assert 0.9 < ratio < 1.1
    np.testing.assert_allclose(played.mean(axis=0), run.models.mean(axis=0), atol=6 * 0.06 / np.sqrt(240))


def test_records_are_dealt_out_without_looking_at_labels():
    ready = prepare_release(config())
    sizes = ready.experiment.problem.sizes
    assert sizes.max() - sizes.min() <= 1
    assert {DEALT, ONCE} <= set(ready.notes)
    assert not any("labels" in one for one in ready.guarantee.assumptions)
    by_size = {"partition": {"kind": "by_size", "growth": "linear"}}
    kept = prepare_release(config(problem=by_size, experiment={"repeats": 1}))
    assert kept.experiment.problem.sizes.max() > 2 * kept.experiment.problem.sizes.min()
    assert not {DEALT, ONCE} & set(kept.notes)


@pytest.mark.parametrize(("law", "norm"), [("gaussian", "l2"), ("laplace", "l1")])
def test_an_epsilon_in_the_file_holds_for_whoever_gets_the_model(law, norm):
    noise = {"law": law, "std": None, "epsilon": 2.0}
    asked = config(noise=noise, privacy={"clip_norm": norm})
    ready = prepare_release(asked)
    assert 2.0 * (1 - 1e-3) <= ready.guarantee.epsilon(1e-5) <= 2.0
    observer = sv.observers.final_model()
    e = ready.experiment
    simulated = sv.account(
        e.topology, e.algorithm, e.noise, observer, rounds=e.rounds, sensitivity=sensitivities(e), unit="record"
    )
    assert simulated.epsilon(1e-5) <= ready.guarantee.epsilon(1e-5)  # roundings are paid for


def test_clipped_updates_are_bounded_whatever_the_gradients_are():
    ready = prepare_release(
        config(
            topology={"kind": "federation", "agents": 4},
            algorithm={"kind": "fedavg", "step_size": 0.5, "local_steps": 2},
            noise={"std": None, "epsilon": 6.0},
            privacy={"clips": "update"},
        )
    )
    assert 5.99 < ready.guarantee.epsilon(1e-5) <= 6.0


def test_of_laplace_noise_the_ledger_keeps_what_adds_less(tmp_path):
    """A pure epsilon adds up over rounds; what the rounds compose to at half of delta is far less where they are many."""
    changes = {"experiment": {"rounds": 60}, "noise": {"law": "laplace", "std": 0.4}, "privacy": {"clip_norm": "l1"}}
    many = config(tmp_path / "l", budget=0.6, **changes)
    ready = prepare_release(many)
    assert ready.cost.epsilon(1e-5) > 0.6 > ready.cost_at(5e-6).value
    train_model(many, tmp_path / "model", progress=False)
    reserved = [entry.cost for entry in ledger_of(tmp_path / "l")[0] if isinstance(entry, Reserved)]
    assert [cost.kind for cost in reserved] == ["epsilon-delta"]
    assert reserved[0].at_delta == 5e-6


def test_the_whole_data_set_pays_what_its_most_exposed_agent_does():
    ready = prepare_release(config(problem={"partition": {"kind": "by_size", "growth": "linear"}}))
    alone = [one.cost.value for one in ready.agents]
    assert max(alone) > 2 * min(alone)
    assert ready.cost.value == max(alone)
    assert ready.guarantee.agent == int(np.argmin(ready.experiment.problem.sizes))
    assert ready.cost_at(1e-6).value == max(one.guarantee.epsilon(1e-6) for one in ready.agents)
    assert release.worst_of([Cost.gaussian(1.0, 0.1), Cost.gaussian(0.5, 0.2)]) == Cost.gaussian(1.0, 0.2)
    assert release.worst_of([Cost.gaussian(1.0), Cost.infinite()]) == Cost.infinite()


def test_an_epsilon_that_no_delta_pays_for_makes_no_releasable_model(tmp_path):
    """So much of an agent's data shows that the draws' distance from their law, times e^epsilon, exceeds delta."""
    done = train_model(
        config(tmp_path / "l", budget="unlimited", privacy={"unit": "agent"}, noise={"std": 0.02}),
        tmp_path / "model",
        progress=False,
    )
    assert not done.releasable
    assert "Nothing is hidden" in json.loads((tmp_path / "model" / "model.json").read_text())["guarantee"][0]


def test_noise_that_no_one_sees_the_whole_of_is_given_by_the_deployed_proofs_alone():
    """Clipped updates through a trusted relay: the machine that trains is the relay."""
    ready = prepare_release(
        config(
            topology={"kind": "federation", "agents": 4},
            algorithm={"kind": "fedavg", "step_size": 0.5},
            noise={"kind": "central", "law": "gaussian", "std": 0.05},
        )
    )
    assert np.isfinite(ready.guarantee.epsilon(1e-5))
    assert CENTRAL not in ready.notes
    of_agents = prepare_release(config(topology={"kind": "federation", "agents": 4}, algorithm={"kind": "fedavg"}))
    assert CENTRAL in of_agents.notes
    assert of_agents.guarantee.epsilon(1e-5) > ready.guarantee.epsilon(1e-5)


@pytest.mark.parametrize(
    ("changes", "kind", "said"),
    [
        ({"privacy": None}, ConfigError, r"Add a section \[privacy\]"),
        ({"privacy": {"adjacency": "add-remove"}}, UnsupportedClaim, 'Use "replace"'),
        ({"privacy": {"participation": "once"}}, IncompatibleChoice, "Remove participation"),
        ({"privacy": {"budget": {"epsilon": 0.1, "observer": "eavesdropper"}}}, BudgetExhausted, r"allows 0\.1"),
        ({"algorithm": {"kind": "random_walk"}}, IncompatibleChoice, "token"),
        (
            {
                "topology": {"kind": "federation"},
                "algorithm": {"kind": "fedavg", "aggregation": "gopa", "partners": "all"},
            },
            IncompatibleChoice,
            "noise.kind=central algorithm.aggregation=~ algorithm.partners=~",
        ),
    ],
)
def test_what_no_release_may_rest_on_is_refused(changes, kind, said):
    with pytest.raises(kind, match=said):
        prepare_release(config(**changes))


def test_no_record_decides_how_many_parameters_a_released_model_has(tmp_path):
    """One record with a large index would show in their number, with certainty."""
    path = tmp_path / "ill.libsvm"
    for last in ("1 2:0.5", "1 9:0.5"):
        path.write_text("".join(f"{2 * (place % 2) - 1} 1:{place / 40} 2:0.1\n" for place in range(40)) + last + "\n")
        with pytest.raises(ConfigError, match="one record can show in their number"):
            prepare_release(config(problem={"data": str(path), "test_fraction": 0.0}))


def test_classes_are_declared_and_never_read_off_labels():
    problem = {"kind": "classification", "data": "digits_classes", "model": "linear", "test_fraction": 0.0}
    with pytest.raises(ConfigError, match="Write classes"):
        prepare_release(config(problem=problem))


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda path: config(), "--ledger, --dataset and --budget"),
        (lambda path: config(path / "new"), r"needs \[ledger\] budget"),
        (lambda path: config(path / "new", budget=1.0, privacy={"delta": None}, noise={"law": "laplace"}), "delta"),
        (lambda path: config(path / "l", name="others"), "is the ledger of 'patients'"),
        (lambda path: config(path / "l", budget=2.0), "was begun with 'unlimited'"),
    ],
)
def test_a_ledger_that_is_not_this_one_is_refused(trained, tmp_path, made, said):
    for suffix in ("", ".lock"):
        source = Path(f"{trained[1]}{suffix}")
        if source.exists():
            (tmp_path / f"l{suffix}").write_bytes(source.read_bytes())
            (tmp_path / f"l{suffix}").chmod(0o600)
    with pytest.raises(ConfigError, match=said):
        train_model(made(tmp_path), tmp_path / "model", progress=False)
    assert not (tmp_path / "model").exists()
    assert not (tmp_path / "new").exists()


def test_a_folder_with_a_model_in_it_is_refused_before_anything_is_reserved(trained):
    done, path = trained
    before = ledger_of(path)[1].runs
    with pytest.raises(ConfigError, match="Choose another with --out"):
        train_model(config(path, budget="unlimited"), done.folder, progress=False)
    assert ledger_of(path)[1].runs == before


def test_an_interrupt_after_the_model_was_written_says_so(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Store, "finish", interrupted)
    with pytest.raises(KeyboardInterrupt, match="the model was written"):
        train_model(config(tmp_path / "l", budget=ONE_COSTS), tmp_path / "model", progress=False)
    assert may_be_released(tmp_path / "model")
    assert ledger_of(tmp_path / "l")[1].spent > 0


def test_where_nothing_is_hidden_the_ledger_must_be_unlimited_and_the_model_may_not_be_released(tmp_path):
    consensus = {"algorithm": {"kind": "consensus", "step_size": 0.5}}  # its last gradient leaves without noise
    with pytest.raises(BudgetExhausted):
        train_model(config(tmp_path / "l", budget=8.0, **consensus), tmp_path / "model", progress=False)
    done = train_model(config(tmp_path / "l", budget="unlimited", **consensus), tmp_path / "model", progress=False)
    assert not done.releasable
    assert not may_be_released(tmp_path / "model")
    assert json.loads((tmp_path / "model" / "model.json").read_text())["why"].startswith(
        "trained, but nothing is promised"
    )
    assert ledger_of(tmp_path / "l")[1].reserved == np.inf


class HalfTheNoise(train.SecretRandomness):
    """What a party draws, at half the scale that its guarantee counts on."""

    def source(self, position, source, scale):
        return super().source(position, source, 0.5 * scale)


@pytest.mark.slow
@pytest.mark.parametrize(("drawn", "kept"), [(train.SecretRandomness, True), (HalfTheNoise, False)])
def test_an_attack_on_released_models_stays_below_the_ledger_and_finds_halved_noise(tmp_path, monkeypatch, drawn, kept):
    """Two agents, one round, one parameter: the model is the mean of two messages, so that an attack reaches mu / sqrt 2, with half the noise sqrt 2 mu.

    400 models of each world bound mu from below within 0.3 at a confidence of 0.9999.
    """
    monkeypatch.setattr(train, "SecretRandomness", drawn)
    scores = []
    for label in ("yes", "no"):
        rows = [f"1,a,{label}", "0,a,no", "0,b,no", "0,b,yes"]
        (tmp_path / f"{label}.csv").write_text("\n".join(["x,who,y", *rows]) + "\n")
        problem = {
            "kind": "logistic_regression", "data": str(tmp_path / f"{label}.csv"), "target": "y", "labels": ["no", "yes"], "owner": "who",
            "bounds": {"x": [-1, 1]}, "ridge": 0.0,
        }  # fmt: skip
        tables = {
            **FILE,
            "experiment": {"name": "x", "rounds": 1},
            "topology": {"kind": "complete"},
            "problem": problem,
            "algorithm": {"kind": "atc", "step_size": 1.0},
            "noise": {"kind": "independent", "law": "gaussian", "std": 0.25},
        }
        ready = prepare_release(parse(tables, source="test"))
        scores.append([train._play(ready, bytes(32), lambda _: None).mean() for _ in range(400)])
    assert ready.cost.value == pytest.approx(2.0, rel=1e-3)
    found = gaussian_dp(scores[1], scores[0], confidence=0.9999)
    assert (found.mu <= ready.cost.value) is kept
    assert found.mu > 0.7  # the attack is no idle one


@pytest.mark.slow
def test_on_the_demonstration_accuracy_is_that_of_the_simulation_at_the_same_epsilon():
    """Three splits, 30 trainings and 50 repeats each: the difference of means has a standard error of a quarter of a percent."""
    differences = []
    for seed in (1, 2, 3):
        ready = prepare_release(demo_config(experiment={**tomllib.loads(demo_text())["experiment"], "seed": seed}))
        e, score = ready.experiment, measure_of(ready.experiment).score
        assert 7.99 < ready.guarantee.epsilon(1e-5) <= 8.0
        weights = centroid(e.algorithm, e.topology).weights
        trained = [score(weights @ train._play(ready, bytes(32), lambda _: None)) for _ in range(30)]
        noise = sv.calibrate(
            e.topology, e.algorithm, e.noise, sv.observers.eavesdropper(), epsilon=8.0, delta=1e-5, rounds=e.rounds,
            sensitivity=sensitivities(e), unit="record",
        )  # fmt: skip
        run = simulate(
            e.problem, e.topology, e.algorithm, noise, rounds=e.rounds, repeats=50, seed=seed, test=e.test, record=["accuracy"], progress=False
        )  # fmt: skip
        differences.append(np.mean(trained) - run.metrics["accuracy"][:, -1].mean())
    print(f"accuracy of trainings minus that of simulated runs: {[round(float(each), 4) for each in differences]}")  # noqa: T201
    assert abs(np.mean(differences)) < 0.01
