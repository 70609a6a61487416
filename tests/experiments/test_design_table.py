"""The table [design]: what it may say, and what it is refused for."""

import tomllib

import pytest

from sottovoce.errors import ConfigError
from sottovoce.experiments.config.config import Config
from sottovoce.experiments.config.toml_file import parse
from sottovoce.observers import coalition, eavesdropper, final_model

FILE = """
[experiment]
name = "small"
rounds = 12
[topology]
kind = "ring"
agents = 4
[problem]
kind = "linear_regression"
data = "synthetic"
samples = 6
dimension = 2
ridge = 0.1
[algorithm]
kind = "atc"
step_size = 0.1
[noise]
kind = "none"
[privacy]
unit = "agent"
clip = 1.0
clip_norm = "l2"
"""


def read(text: str, file: str = FILE) -> Config:
    return parse(tomllib.loads(f"{file}{text}"), source="small.toml")


def test_both_forms_of_targets_name_the_same_observers_and_numbers():
    mapping = read(
        '[design]\ntargets = { "eavesdropper+final_model" = 1, "coalition:1,2" = { epsilon = 2.0, delta = 1e-6 } }'
    )
    listed = read(
        "[[design.targets]]\nobserver = 'eavesdropper+final_model'\nmu = 1.0\n"
        "[[design.targets]]\nobserver = 'coalition:1,2'\nepsilon = 2.0\ndelta = 1e-6\n"
    )
    wanted = {eavesdropper() + final_model(): 1.0, coalition([1, 2]): (2.0, 1e-6)}
    assert mapping.design is not None
    assert mapping.design.asked_for(None) == wanted
    assert mapping.design == listed.design


def test_an_epsilon_without_a_delta_takes_that_of_the_privacy_table_and_has_no_default():
    given = "[design]\ntargets = { eavesdropper = { epsilon = 2.0 } }"
    found = read(given, FILE + "delta = 1e-7\n").design
    assert found is not None
    assert found.asked_for(1e-7) == {eavesdropper(): (2.0, 1e-7)}
    with pytest.raises(ConfigError, match=r"\[design\] targets: an epsilon needs a delta"):
        read(given)


def test_the_objective_may_weigh_both_errors():
    found = read("[design]\ntargets = { eavesdropper = 1.0 }\nobjective = { average = 1.0, centroid = 10.0 }").design
    assert found is not None
    assert found.weights == {"average": 1.0, "centroid": 10.0}


def test_a_file_with_a_design_survives_the_trip_through_plain_values():
    config = read(
        "[design]\ntargets = { eavesdropper = 1.0, 'curious_agent:2' = { epsilon = 1.0, delta = 1e-6 } }\ncap = 0.5\n"
        "objective = { centroid = 1.0 }\ngraphs = { small = { kind = 'erdos_renyi', agents = 5, probability = 0.8 } }"
    )
    assert Config.model_validate(config.as_dict()) == config


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("targets = {}", "at least 1"),
        ("targets = 3", "observers with the mu"),
        ("targets = { eavesdropper = -1.0 }", "eavesdropper: input should be greater than 0"),
        ("targets = { eavesdropper = { epsilon = 1.0, mu = 2.0 } }", "mu says all"),
        ("targets = { eavesdropper = { epsilon = 1.0, dela = 1e-5 } }", "dela"),
        ("targets = { evesdropper = 1.0 }", "unknown observer 'evesdropper'"),
        ("targets = { 'coalition:1,2' = 1.0, 'coalition:2,1' = 1.0 }", "twice"),
        ("targets = [{ mu = 1.0 }]", "needs an observer"),
        ("targets = { eavesdropper = 1.0 }\nkeys = 'edge'", "did you mean 'edges'"),
        ("targets = { eavesdropper = 1.0 }\ntimes = 'white'", "did you mean 'time'"),
        ("targets = { eavesdropper = 1.0 }\nobjective = { average = 0.0 }", "no error is made small"),
        ("targets = { eavesdropper = 1.0 }\nobjective = 'mean'", 'write "average"'),
        ("targets = { eavesdropper = 1.0 }\ngraphs = { a = { kind = 'rin', agents = 3 } }", "a: input tag 'rin'"),
        ("targets = { eavesdropper = 1.0 }\ntime = 'schedule'\nfrontier = [0.0, 1.0]", "rounds alike"),
        ("targets = { eavesdropper = 1.0 }\ncap = 0.0", "cap: input should be greater than 0"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_sentence(text, told):
    with pytest.raises(ConfigError, match=r"^small.toml: \[design\]") as caught:
        read(f"[design]\n{text}")
    assert told in str(caught.value)


def test_noise_is_designed_only_for_what_is_said_to_be_protected():
    with pytest.raises(ConfigError, match=r"\[privacy\]: this section is missing"):
        read("[design]\ntargets = { eavesdropper = 1.0 }", FILE.partition("[privacy]")[0])
