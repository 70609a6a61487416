"""Designed noise in an experiment's file: its numbers are agreed on, and four parties as processes realise it from the keys of their pairs."""

import json

import numpy as np
import pytest

import sottovoce as sv
from experiments.parties import Entry
from sottovoce.deployment.agent import Rehearsed, play
from sottovoce.deployment.integers import Lattice
from sottovoce.deployment.store import Store
from sottovoce.deployment.terms import PublicCoin, differences
from sottovoce.experiments import agreement, build, outcome_of, prepare_rehearsal, public_parts, read
from sottovoce.experiments.rehearsing.saved_draws import SavedDraws
from sottovoce.experiments.whole_numbers import Watchers, deployed_guarantees

FILE = """
[experiment]
name = "designed"
rounds = 5
repeats = 1
seed = 4
[topology]
kind = "ring"
agents = 4
[problem]
kind = "logistic_regression"
data = "digits"
ridge = 0.001
[algorithm]
kind = "atc"
step_size = 0.5
[noise]
kind = "designed"
file = "design.json"
[privacy]
unit = "record"
clip = 1.0
clip_norm = "l2"
delta = 1e-5
observers = ["eavesdropper"]
[deployment]
run = "designed-1"
roster = "roster.json"
collude = 1
time_limit = 60
"""
DESIGN = {
    "std": 0.02,
    "own": [0.62, 0.8, 0.54, 1.0],
    # The last pair is not linked in a ring of four.
    "pairs": [[0, 1], [1, 2], [2, 3], [0, 3], [0, 2]],
    "factors": [[1.2, -0.83], [0.9, -1.1], [0.713, -0.456], [-1.4, 0.377], [0.6, -0.3011]],
}
ROSTER = [Entry(f"party-{number}") for number in range(4)]


def written(folder, design=DESIGN, name="design.json", **changes):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps({"format": 1, "noise": {**design, **changes}, "error": 1.0}))
    path = folder / "study.toml"
    path.write_text(FILE.replace("design.json", str(folder / name)))
    return path


def test_the_numbers_of_the_file_take_its_place(tmp_path):
    path = written(tmp_path / "there")
    config = read(path)
    held = config.as_dict()["noise"]
    assert "file" not in held
    assert held["std"] == 0.02
    noise = build(config).noise
    assert noise.name == "designed"
    assert noise.parameters == {key: DESIGN[key] for key in ("own", "pairs", "factors")}
    stronger = read(path, ["noise.std=0.04"])
    assert build(stronger).noise.std == 0.04


def test_schedules_generators_and_memories_are_read_and_the_last_two_refused_among_parties(tmp_path):
    by_round = [1.0, 2.0, 1.5, 1.0, 0.5]
    scheduled = read(written(tmp_path / "schedule", factors_by_round=by_round, joint=None))
    assert build(scheduled).noise.factors(5).tolist() == by_round
    assert agreement(scheduled, ROSTER).noise.factors == tuple(by_round)
    joint = read(written(tmp_path / "joint", {"std": 0.02, "joint": (np.eye(4) + 0.1).tolist()}))
    assert build(joint).noise.parameters["joint"][0] == [1.1, 0.1, 0.1, 0.1]
    with pytest.raises(sv.IncompatibleChoice, match="drawn by a generator"):
        agreement(joint, ROSTER)
    remembering = written(tmp_path / "memory", memory=[[[0.3]]])
    with pytest.raises(sv.IncompatibleChoice, match="earlier rounds"):
        agreement(read(remembering), ROSTER)


@pytest.mark.parametrize(
    ("text", "reason"), [(None, "no such file|cannot be|not"), ("{}", "is no design"), ("[1", "is no design")]
)
def test_what_is_no_design_is_refused(tmp_path, text, reason):
    path = written(tmp_path)
    (tmp_path / "design.json").unlink()
    if text is not None:
        (tmp_path / "design.json").write_text(text)
    with pytest.raises(sv.ConfigError, match=reason):
        read(path)


def test_unknown_numbers_of_a_design_are_refused(tmp_path):
    with pytest.raises(sv.ConfigError, match="strange"):
        read(written(tmp_path, strange=3))


def test_parties_agree_if_their_files_say_the_same_and_only_then(tmp_path):
    first = agreement(read(written(tmp_path / "a")), ROSTER)
    same = agreement(read(written(tmp_path / "b", name="other-name.json")), ROSTER)
    assert first.digest == same.digest
    for share, where in ((1e-3, "factors"), (1e-6, "own")):  # so little changes no fraction, but what is paid for it
        changed = [list(row) for row in DESIGN["factors"]]
        changed[0][1] = -0.83 * (1 + share)
        other = agreement(read(written(tmp_path / where, factors=changed)), ROSTER)
        assert first.digest != other.digest
        assert any(where in each for each in differences(first, other))
    assert type(first).parse(first.canonical()) == first


def test_the_agreed_noise_is_that_of_the_file_within_a_millionth(tmp_path):
    config = read(written(tmp_path))
    agreed, parts = agreement(config, ROSTER), public_parts(config)
    held = agreed.noise.parameters
    assert held == parts.run.noise.parameters
    for name in ("own", "factors"):
        np.testing.assert_allclose(held[name], DESIGN[name], rtol=1e-6)


def test_the_guarantee_among_parties_is_above_that_of_the_simulation_by_rounding_alone(tmp_path):
    config = read(written(tmp_path))
    agreed, experiment = agreement(config, ROSTER), build(config)
    found = deployed_guarantees(
        experiment, Watchers(collude=1, relay_trusted=False, released_to="own"), fraction_bits=agreed.fraction_bits
    )
    for agent, one in enumerate(found):
        change = experiment.problem.sensitivity(unit="record", adjacency="replace", norm="l2", agent=agent)
        question = {"rounds": 5, "sensitivity": change, "unit": "record", "adjacency": "replace", "agent": agent}
        exact = max(
            sv.account(experiment.topology, experiment.algorithm, experiment.noise, sv.observers.curious_agent(k), **question).mu
            for k in range(4) if k != agent
        )  # fmt: skip
        assert exact < one.cost.value < exact * (1 + one.rounding) * (1 + one.floating_point) * (1 + 1e-8)
        assert one.rounding < 1e-3


def models_of(rehearsal):
    found = []
    for name in rehearsal.agreement.agents:
        with Store.open(rehearsal.store(name), writer=False) as store:
            found.append(store.model(rehearsal.agreement.digest))
    return np.stack(found)


def played(rehearsal):
    ended = [event.values for event in rehearsal.run() if event.values["event"] == "ended"]
    assert [each["code"] for each in ended] == [0] * 4
    return models_of(rehearsal)


@pytest.mark.slow
def test_four_processes_play_it_bit_by_bit(tmp_path):
    rehearsal = prepare_rehearsal(read(written(tmp_path / "file")), tmp_path / "run", secret=False)
    models = played(rehearsal)
    run, lattice = rehearsal.parts.run, Lattice(rehearsal.agreement.fraction_bits)
    draws = SavedDraws(tmp_path / "run" / "draws", run)
    problem = build(rehearsal.config).problem
    alone = play(run, lattice, problem, lambda agent: Rehearsed(run, lattice, draws, agent), PublicCoin(bytes(32)))
    assert models.tobytes() == alone.tobytes()  # the same integers in one process
    outcome = outcome_of(rehearsal)  # the simulation, which does not round its sources
    assert 0 < outcome.units <= outcome.bound


@pytest.mark.slow
def test_four_processes_draw_it_from_their_own_keys(tmp_path):
    path = written(tmp_path / "file")
    strong, weak = (
        played(prepare_rehearsal(read(path, [f"noise.std={std}"]), tmp_path / f"run-{std}", secret=True))
        for std in (0.02, 0.02 * 2**-20)
    )
    apart = np.abs(strong - weak).max()
    assert 1e-3 < apart < 1.0  # noise is there, and masks of pairs did not get lost
