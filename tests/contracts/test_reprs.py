"""What a session shows of a value: a few lines, no numbers of records, and public names only behind the dot."""

import dataclasses
import importlib
import inspect
import json
import pkgutil
import re
from collections.abc import Mapping

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import sottovoce as sv
from contracts.public_names import LISTED
from sottovoce import reprs
from sottovoce.experiments import Config, build, parse
from sottovoce.simulation import Settings

NAMES = json.loads(LISTED.read_text())
SECRET = 0.123456789  # a number of the data; its digits may not be seen
LAW = sv.noise.Gaussian(std=0.5)
TOPOLOGY, ALGORITHM, NOISE = sv.topologies.ring(4), sv.algorithms.atc(step_size=0.1), sv.noise.independent(LAW)
FEATURES = np.full((4, 30, 3), SECRET)
LABELS = np.tile([1.0, -1.0], (4, 15))
QUESTION = sv.Question(rounds=3, sensitivity=1.0)
OBSERVER = sv.observers.eavesdropper()


def config() -> Config:
    return parse(
        {
            "experiment": {"name": "x", "rounds": 3},
            "topology": {"kind": "ring", "agents": 4},
            "problem": {"kind": "linear_regression", "data": "synthetic", "samples": 30, "dimension": 3, "ridge": 0.1},
            "algorithm": {"kind": "atc", "step_size": 0.1},
            "noise": {"kind": "independent", "law": "gaussian", "std": 0.5},
        },
        source="x.toml",
    )


def run() -> sv.Run:
    return sv.simulate(regression(), TOPOLOGY, ALGORITHM, NOISE, rounds=3, progress=False)


def regression():
    return sv.problems.linear_regression(FEATURES, np.full((4, 30), SECRET), ridge=0.1)


def comparison():
    return sv.compare(
        regression().with_clipping(1.0, "l2"), TOPOLOGY, {"atc": ALGORITHM}, {"own": NOISE}, OBSERVER, rounds=3, epsilons=[1.0],
        delta=1e-5, repeats=2, sensitivity=2.0, progress=False,
    )  # fmt: skip


def audit():
    return sv.audit(TOPOLOGY, ALGORITHM, NOISE, OBSERVER, delta=0.01, confidence=0.9, pairs=20, question=QUESTION)


MADE = {
    "topology": lambda: TOPOLOGY,
    "random pairs": lambda: TOPOLOGY.with_random_pair(),
    "schedule": lambda: TOPOLOGY.with_dropout(0.1).schedule,
    "federation": lambda: sv.topologies.federation(40),
    "linear regression": regression,
    "logistic regression": lambda: sv.problems.logistic_regression(FEATURES, LABELS, ridge=0.1),
    "clipped": lambda: sv.problems.logistic_regression(FEATURES, LABELS, ridge=0.1).with_clipping(1.0, "l2"),
    "mean estimation": lambda: sv.problems.mean_estimation(FEATURES, radius=1.0),
    "classification": lambda: sv.problems.classification(FEATURES, (LABELS + 1) / 2, classes=2),
    "algorithm": lambda: ALGORITHM,
    "federated averaging": lambda: sv.algorithms.fedavg(step_size=0.1, local_steps=3),
    "walk": lambda: sv.algorithms.random_walk(step_size=0.1),
    "noise": lambda: NOISE,
    "no noise": sv.noise.none,
    "pairwise noise": lambda: sv.noise.gopa(LAW, pairwise_std=3.0),
    "gaussian": lambda: LAW,
    "laplace": lambda: sv.noise.Laplace(std=1.0),
    "l2 laplace": lambda: sv.noise.L2Laplace(scale=1.0),
    "observer": lambda: sv.observers.coalition(range(200)) + sv.observers.final_model(),
    "question": lambda: QUESTION,
    "question of every agent": lambda: sv.Question(rounds=3, sensitivity=[SECRET] * 400),
    "guarantee": lambda: sv.account(TOPOLOGY, ALGORITHM, NOISE, OBSERVER, question=QUESTION),
    "no guarantee": lambda: sv.account(TOPOLOGY, ALGORITHM, sv.noise.none(), OBSERVER, question=QUESTION),
    "pairwise loss": lambda: sv.accounting.gossip.pairwise(TOPOLOGY, rounds=2, std=1.0, sensitivity=1.0),
    "losses": lambda: sv.accounting.ConvexSmooth(2.0),
    "run": run,
    "settings": lambda: Settings(rounds=3),
    "experiment": lambda: build(config()),
    "configuration": config,
    "synthetic": lambda: sv.problems.synthetic_regression(num_agents=4, samples=30, dimension=3, seed=1),
    "comparison": comparison,
    "audit": audit,
    "view": lambda: sv.observe(regression(), TOPOLOGY, ALGORITHM, NOISE, OBSERVER, rounds=2),
    "schema": lambda: sv.problems.Schema(target="y", labels=("no", "yes"), bounds={f"x{k}": (0, 1) for k in range(50)}),
}  # fmt: skip


@pytest.mark.parametrize("kind", MADE)
def test_a_value_shows_itself_in_a_few_lines_without_its_numbers(kind):
    text = repr(MADE[kind]())
    assert 1 <= len(text.splitlines()) <= 5
    assert len(text) <= 700
    assert "0.1234" not in text
    assert "array(" not in text
    assert "<function" not in text


def classes():
    found = {}
    for dotted in NAMES:
        path, name = dotted.rsplit(".", 1)
        value = getattr(importlib.import_module(path), name)
        if inspect.isclass(value) and (dataclasses.is_dataclass(value) or hasattr(value, "_fields")):
            found[value] = dotted
    return found


def test_every_public_class_that_holds_arrays_or_functions_has_a_repr_of_its_own():
    held = re.compile(r"ndarray|NDArray|Array\b|Callable|sparse|Floats|Mapping|dict\[")
    default = []
    for value, dotted in classes().items():
        annotations = [str(each) for base in value.__mro__ for each in inspect.get_annotations(base).values()]
        written = "def __repr__" in inspect.getsource(value) or issubclass(value, BaseEstimator)
        if any(map(held.search, annotations)) and not written:
            default.append(dotted)
    assert default == ["sottovoce.sklearn.Tried"]  # whose mapping is the parameters that were tried


def test_arrays_are_shapes_and_long_lists_are_counts():
    assert reprs.shown_part(np.zeros((2, 3))) == "float64[2, 3]"
    assert reprs.shown_part(tuple(range(1000))) == "(1,000 items)"
    assert reprs.shown_part({"a": SECRET}) == "{a}"
    assert reprs.shown_part((1, "b")) == "(1, 'b')"


PACKAGES = sorted(
    {"sottovoce"} | {each.name for each in pkgutil.walk_packages(sv.__path__, "sottovoce.") if each.ispkg}
)


@pytest.mark.parametrize("package", [each for each in PACKAGES if hasattr(importlib.import_module(each), "__all__")])
def test_only_public_names_stand_behind_the_dot(package):
    module = importlib.import_module(package)
    public = {name.rpartition(".")[0] for name in NAMES}
    submodules = {name for name in dir(module) if f"{package}.{name}" in public}
    assert set(dir(module)) - submodules - {"__version__"} <= set(module.__all__)
    assert set(module.__all__) <= set(dir(module))
    for name in dir(module):
        getattr(module, name)


def test_a_mapping_in_a_repr_shows_names_only():
    @dataclasses.dataclass
    class Holder:
        held: Mapping[str, float]

        def __repr__(self) -> str:
            return reprs.short_repr(self)

    assert repr(Holder({"a": SECRET})) == "Holder(held={a})"
