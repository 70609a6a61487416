"""model.json says first that it may not be released, holds what a model needs and nothing of the data, and is read with care."""

import contextlib
import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save as to_bytes

import sottovoce as sv
from sottovoce.errors import ConfigError
from sottovoce.experiments import load, model_file, parse, run_and_weigh
from sottovoce.experiments.guarantee_words import PROMISED, in_words
from sottovoce.experiments.model_file import configuration_digest, load_model, write_model

SECRET = "station-f7"  # a value that only the data hold
ROWS = [(age, sex, smoker, f"{SECRET}{k}", ill) for k, (age, sex, smoker, ill) in enumerate(
    (20 + 3 * i % 70, "fm"[i % 2], ("yes", "no", "")[i % 3], ("no", "yes")[i * i % 3 % 2]) for i in range(36)
)]  # fmt: skip
FILE = {
    "experiment": {"name": "x", "rounds": 4, "repeats": 2, "seed": 731},
    "topology": {"kind": "ring"},
    "problem": {
        "kind": "logistic_regression",
        "target": "ill",
        "labels": ["no", "yes"],
        "owner": "house",
        "bounds": {"age": [0, 120]},
        "categories": {"sex": ["f", "m"]},
        "booleans": ["smoker"],
        "missing": {"smoker": False},
        "indicators": ["smoker"],
        "drop": ["id"],
        "ridge": 0.01,
        "intercept": True,
        "test_fraction": 0.2,
    },
    "algorithm": {"kind": "atc", "step_size": 0.5},
    "noise": {"kind": "independent", "law": "gaussian", "std": 0.5},
    "privacy": {
        "unit": "record",
        "clip": 0.5,
        "clip_norm": "l2",
        "delta": 1e-5,
        "observers": ["eavesdropper", "final_model"],
    },
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    lines = ["age,sex,smoker,id,house,ill"]
    lines += [
        f"{age},{sex},{smoker},{name},{'abc'[k % 3]}house,{ill}" for k, (age, sex, smoker, name, ill) in enumerate(ROWS)
    ]
    (folder / "wardlist.csv").write_text("\n".join(lines) + "\n")
    table = {**FILE["problem"], "data": str(folder / "wardlist.csv")}
    run_and_weigh(parse({**FILE, "problem": table}, source="test"), folder / "run", progress=False)
    return folder / "run"


@pytest.fixture(scope="module")
def shared(finished, tmp_path_factory) -> Path:
    """What somebody gets who is given the model and nothing else."""
    folder = tmp_path_factory.mktemp("shared")
    for name in ("model.json", "model.safetensors"):
        shutil.copy(finished / name, folder / name)
    return folder


def told(folder: Path) -> dict:
    return json.loads((folder / "model.json").read_text(encoding="utf-8"))


def test_the_first_key_says_that_a_simulated_model_may_not_be_released_and_why(finished):
    first, second, *_ = told(finished).items()
    assert first == ("releasable", False)
    assert second[0] == "why"
    assert "simulated" in second[1]
    assert "seed" in second[1]


@pytest.mark.parametrize("releasable", [True, False])
def test_others_on_the_machine_read_a_model_only_if_it_may_be_released(finished, tmp_path, releasable):
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    model = sv.load_model(finished)
    write_model(folder, model, guarantee=["none"], configuration=None, version="1", releasable=releasable)
    (folder / "any").touch()
    usual = (folder / "any").stat().st_mode & 0o777
    for name in ("model.json", "model.safetensors"):
        assert (folder / name).stat().st_mode & 0o777 == (usual if releasable else 0o600)


def test_it_says_what_every_input_is(finished):
    told_features = {entry["name"]: entry for entry in told(finished)["features"]}
    names = ["age", "smoker", "smoker is missing", "sex = f", "sex = m", "(intercept)"]
    assert list(told_features) == names
    assert told_features["age"] == {
        "name": "age", "column": "age", "kind": "number", "bounds": [0.0, 120.0], "scaled_to": [-1.0, 1.0],
    }  # fmt: skip
    assert [told_features[name]["kind"] for name in names[1:]] == [
        "boolean", "missing", "category", "category", "intercept",
    ]  # fmt: skip
    plain = told(finished)
    assert (plain["target"], plain["classes"], plain["intercept"]) == ("ill", ["no", "yes"], True)


def test_nothing_in_it_tells_about_the_data_or_where_they_are(finished, shared):
    text = (shared / "model.json").read_text() + (shared / "model.safetensors").read_bytes().decode("latin-1")
    worth = json.loads((finished / "owner-only.json").read_text())
    header = json.loads((finished / "run.json").read_text())
    assert header["description"]["agents"] == ["ahouse", "bhouse", "chouse"]
    for leak in (SECRET, "wardlist", "csv", str(finished.parent), "731", header["records"], worth["heading"]):
        assert leak not in text, leak
    assert not {"rows", "sizes", "records", "agents", "seed", "data", "loss", "accuracy"} & _keys(told(shared))
    assert "ahouse" not in text  # the name of the column of owners is public, those of the owners are not
    assert told(shared)["schema"]["drop"] == ["id", "house"]
    assert "owner" not in told(shared)["schema"]


def _keys(value) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(_keys, value.values()))
    return set().union(*map(_keys, value)) if isinstance(value, list) else set()


def test_the_digest_of_the_configuration_gives_away_neither_files_nor_seed():
    first = {**FILE, "problem": {**FILE["problem"], "data": "a.csv"}}
    other = {
        **FILE,
        "problem": {**FILE["problem"], "data": "b.csv", "test": "t.csv"},
        "experiment": {**FILE["experiment"], "seed": 2},
    }
    assert configuration_digest(first) == configuration_digest(other)
    assert configuration_digest(first) != configuration_digest({**first, "noise": {"kind": "none"}})


def test_the_guarantee_is_said_in_words(finished):
    first, together, second, assumed = told(finished)["guarantee"]
    assert first.startswith("For somebody who reads every message, epsilon is at most ")
    assert together.startswith("For somebody who reads every message together with whoever gets the final model, ")
    assert second.startswith("For whoever gets the final model, epsilon is at most ")
    assert "at delta = 1e-05 when one record is replaced by any other; one run of 4 rounds." in first
    assert in_words(None) == ["Nothing is promised: no observer was named, so nothing was accounted for."]
    row = {"observer": "server", "unit": "agent", "adjacency": "add-remove", "rounds": 2, "epsilon": {"0": None}}
    assert in_words({"guarantees": [row]}) == [
        "Nothing is hidden from the server, which sees what agents send it (epsilon is infinite).",
        "Nobody named above is given the model itself: for whoever has it, nothing is promised.",
    ]
    row = {**row, "observer": "server and 50 % of the agents", "epsilon": {"1e-05": 4.0}}
    assert in_words({"guarantees": [row]})[0] == (
        "For the server and 50 % of the agents, which put together what they are sent and what they know, epsilon is at most 4 at delta = 1e-05 "
        "when all data of one agent are added or removed; one run of 2 rounds."
    )
    one = {
        "unit": "record",
        "adjacency": "replace",
        "rounds": 2,
        "epsilon": {"1e-05": 0.06},
        "observer": "curious agent 0",
    }
    for observer in (
        "curious agent 0",
        "coalition 0, 1",
        "links 0 -> 1",
    ):  # far away from whom they are asked about, they learn little
        assert "asked about" in in_words({"guarantees": [one | {"observer": observer}]})[0]
    promise = "every local loss, full or batch, is convex, 0.731-smooth and 0-strongly convex (promised, not checked)"
    rests = in_words({"guarantees": [{**row, "assumptions": ["noise is fresh", promise]}]})
    assert PROMISED in rests
    assert not any("0.731" in line for line in rests)
    assert not any(
        "promise, " in line for line in in_words({"guarantees": [{**row, "assumptions": ["noise is fresh"]}]})
    )
    assert assumed.startswith("Assumed besides: a record is one row of the file, not one person")
    assert not any("seed" in sentence for sentence in told(finished)["guarantee"])


def test_who_is_given_the_two_files_predicts_as_the_owner_does(finished, shared):
    new = {"age": [30, 80], "sex": ["f", "m"], "smoker": ["yes", ""]}
    run, model = load(finished), load_model(shared)
    np.testing.assert_array_equal(model.predict(new), run.predict(new))
    np.testing.assert_array_equal(model.predict_proba(new), run.predict_proba(new))
    np.testing.assert_array_equal(model.parameters, run.common[0])


def test_runs_saved_from_python_have_a_model_too(tmp_path):
    problem = sv.problems.mean_estimation(np.random.default_rng(0).uniform(-1, 1, size=(3, 2, 2)), radius=1.0)
    run = sv.simulate(
        problem, sv.topologies.ring(3), sv.algorithms.atc(step_size=0.1), sv.noise.none(), rounds=3, progress=False
    )
    sv.save(run, tmp_path / "run")
    plain = told(tmp_path / "run")
    assert next(iter(plain.items())) == ("releasable", False)
    assert plain["configuration_digest"] is None
    np.testing.assert_array_equal(load_model(tmp_path / "run").parameters, run.common[0])


def damaged(shared: Path, tmp_path: Path, *, text: bytes | None = None, tensors: bytes | None = None) -> Path:
    folder = tmp_path / "damaged"
    folder.mkdir(exist_ok=True)
    (folder / "model.json").write_bytes((shared / "model.json").read_bytes() if text is None else text)
    (folder / "model.safetensors").write_bytes(
        (shared / "model.safetensors").read_bytes() if tensors is None else tensors
    )
    return folder


def resealed(plain: dict) -> bytes:
    """A file whose author knows how to compute its checksum."""
    return json.dumps({**plain, "checksum": model_file._checksum(plain)}).encode()


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_mutated_file_is_refused_or_gives_the_same_model(shared, tmp_path, data):
    which = data.draw(st.sampled_from(["model.json", "model.safetensors"]))
    content = bytearray((shared / which).read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content) - 1))
        action = data.draw(st.sampled_from(["change", "delete", "insert", "cut"]))
        if action == "change":
            content[place] = data.draw(st.integers(0, 255))
        elif action == "delete":
            del content[place : place + data.draw(st.integers(1, 20))]
        elif action == "insert":
            content[place:place] = data.draw(st.binary(min_size=1, max_size=20))
        else:
            del content[place:]
        content = content or bytearray(b" ")
    option = {"text": bytes(content)} if which == "model.json" else {"tensors": bytes(content)}
    _same_or_refused(damaged(shared, tmp_path, **option), load_model(shared))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_file_written_by_somebody_else_is_refused_or_can_be_used(shared, tmp_path, data):
    """With a right checksum: whatever is loaded answers or complains, and nothing else."""
    plain = told(shared)
    holder = data.draw(st.sampled_from([plain, plain["schema"], plain["features"][0], plain["parameters"]]))
    key = data.draw(st.sampled_from(sorted(holder)))
    if data.draw(st.booleans()):
        holder[key] = data.draw(VALUES)
    else:
        del holder[key]
    folder = damaged(shared, tmp_path, text=resealed(plain))
    try:
        model = load_model(folder)
    except ConfigError:
        return
    assert len(model.features) == len(model.parameters) == 6
    with contextlib.suppress(ConfigError):
        model.predict({"age": [30], "sex": ["f"], "smoker": ["yes"]})


def _same_or_refused(folder: Path, original) -> None:
    try:
        model = load_model(folder)
    except ConfigError:
        return
    np.testing.assert_array_equal(model.parameters, original.parameters)
    assert (model.kind, model.schema, model.features) == (original.kind, original.schema, original.features)


@pytest.mark.parametrize(
    "change",
    [
        {"releasable": True},
        {"format_version": 2},
        {"format_version": True},
        {"format": "pickle"},
        {"network": {"model": "mlp", "hidden": [2**20] * 100, "classes": 2**20, "shape": [2**20]}},
        {"classes": ["yes", "no"]},
        {"unknown": 1},
    ],
)
def test_what_contradicts_itself_is_refused(shared, tmp_path, change):
    plain = {**told(shared), **change}
    folder = damaged(shared, tmp_path, text=json.dumps(plain).encode())
    with pytest.raises(ConfigError, match=r"damaged|format"):
        load_model(folder)
    if "releasable" not in change:  # who writes a checksum may say so; the parts must still fit
        (folder / "model.json").write_bytes(resealed(plain))
        with pytest.raises(ConfigError, match=r"damaged|format"):
            load_model(folder)


@pytest.mark.parametrize(
    "tensors",
    [
        {"common": np.zeros(5, np.float32)},
        {"common": np.zeros((6, 1), np.float32)},
        {"common": np.full(6, np.nan, np.float32)},
        {"common": np.zeros(6, np.int32)},
        {"other": np.zeros(6, np.float32)},
        {"common": np.zeros(6, np.float32), "more": np.zeros(1)},
    ],
)
def test_other_parameters_are_refused_even_with_their_own_digest(shared, tmp_path, tensors):
    content, plain = to_bytes(tensors), told(shared)
    plain["parameters"]["sha256"] = hashlib.sha256(content).hexdigest()
    with pytest.raises(ConfigError, match="damaged"):
        load_model(damaged(shared, tmp_path, text=resealed(plain), tensors=content))


def test_files_larger_than_any_model_are_not_read(shared, tmp_path, monkeypatch):
    folder = damaged(shared, tmp_path)
    for limit in ("MOST_TEXT", "MOST_PARAMETERS"):
        with monkeypatch.context() as patch:
            patch.setattr(model_file, limit, 10)
            with pytest.raises(ConfigError, match="larger than 10 bytes"):
                load_model(folder)
    (folder / "model.json").unlink()
    with pytest.raises(ConfigError, match=r"no model\.json"):
        load_model(folder)
    (folder / "model.json").symlink_to("/dev/null")  # as /dev/zero, which would never end
    with pytest.raises(ConfigError, match="no ordinary file"):
        load_model(folder)
