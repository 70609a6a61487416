"""Values of the command line set keys, remove them, and choose another kind without the keys of the old one."""

import pytest

from sottovoce.errors import ConfigError
from sottovoce.experiments.config.overrides import apply_override, apply_overrides, silent


def tables():
    return {
        "topology": {"kind": "geometric", "agents": 4, "radius": 0.5, "weights": "metropolis"},
        "problem": {"kind": "logistic_regression", "partition": {"kind": "dirichlet", "alpha": 0.5}},
        "noise": {"kind": "independent", "law": "gaussian", "std": 0.1, "self_noise": True},
        "privacy": {"clip": 1.0, "losses": "problem"},
    }


def changed(*overrides):
    said = []
    data = tables()
    apply_overrides(data, overrides, say=said.append)
    return data, said


def test_a_tilde_removes_a_key_and_a_section():
    data, said = changed("privacy.losses=~", "problem.partition=~", "noise = ~")
    assert data["privacy"] == {"clip": 1.0}
    assert data["problem"] == {"kind": "logistic_regression"}
    assert "noise" not in data
    assert said == []  # the user said it


def test_a_quoted_tilde_and_a_path_that_begins_with_one_are_text():
    data, _ = changed('problem.data="~"', "problem.test=~/patients.csv")
    assert (data["problem"]["data"], data["problem"]["test"]) == ("~", "~/patients.csv")


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("privacy.loses=~", "[privacy] has no 'loses' to remove; did you mean 'losses'?"),
        ("privacie=~", "the file has no 'privacie' to remove; did you mean 'privacy'?"),
        ("privacy.clip.size=~", "[privacy.clip] has no 'size' to remove"),
    ],
)
def test_what_is_not_there_cannot_be_removed(override, expected):
    with pytest.raises(ConfigError) as caught:
        changed(override)
    assert expected in str(caught.value)


@pytest.mark.parametrize("order", [1, -1])
def test_another_kind_drops_the_keys_of_the_old_one_and_says_so(order):
    data, said = changed(*("noise.kind=none", "topology.kind=erdos_renyi", "topology.probability=0.5")[::order])
    assert data["noise"] == {"kind": "none"}
    assert data["topology"] == {"kind": "erdos_renyi", "agents": 4, "weights": "metropolis", "probability": 0.5}
    assert sorted(said) == [
        '[noise] kind = "none" is given instead of "independent", so law, std, self_noise of the file do not apply and are left out.',
        '[topology] kind = "erdos_renyi" is given instead of "geometric", so radius of the file does not apply and is left out.',
    ]


def test_another_kind_drops_a_value_that_it_does_not_know():
    data, said = changed("topology.kind=federation")
    assert data["topology"] == {"kind": "federation", "agents": 4}
    assert "radius, weights" in said[0]


def test_kinds_of_nested_tables_are_kinds():
    data, said = changed("problem.partition.kind=iid")
    assert data["problem"]["partition"] == {"kind": "iid"}
    assert said[0].startswith('[problem.partition] kind = "iid"')


def test_nothing_is_dropped_that_is_misspelt_or_given_with_the_kind():
    data = tables()
    data["noise"]["stdd"] = 1
    apply_overrides(data, ["noise.kind=none", "noise.std=0.3"], say=silent)
    assert data["noise"] == {"kind": "none", "stdd": 1, "std": 0.3}


def test_a_kind_within_a_whole_table_drops_nothing():
    data, said = changed("noise={kind='none', std=1}")
    assert data["noise"] == {"kind": "none", "std": 1}
    assert said == []


@pytest.mark.parametrize("kind", ["zzz", "3", "[1]", "independent"])
def test_an_unknown_or_the_same_kind_drops_nothing(kind):
    data, said = changed(f"noise.kind={kind}")
    assert data["noise"].keys() == tables()["noise"].keys()
    assert said == []


def test_names_that_toml_quotes_are_quoted():
    data = {}
    assert apply_override(data, 'problem.bounds."blood pressure"=[0, 300]') == ("problem", "bounds", "blood pressure")
    apply_override(data, "problem.bounds.'créatinine'=[0, 20]")
    assert data == {"problem": {"bounds": {"blood pressure": [0, 300], "créatinine": [0, 20]}}}


@pytest.mark.parametrize("override", ["a.b\nc.d=1", "a.b#c=1", '"a.b=1', "a..b=1", "[a].b=1", "a.é=1"])
def test_what_is_no_path_of_keys_is_refused(override):
    with pytest.raises(ConfigError, match=r"write section\.key=value"):
        apply_override({}, override)
