"""What the table [deployment] may say; whatever decides privacy is at its worst unless somebody writes otherwise."""

import pytest

from experiments.parties import COUNTS, TABLES, config, tables
from sottovoce.errors import ConfigError
from sottovoce.experiments import Config, build, parse
from sottovoce.experiments.config.toml_file import read


def test_nobody_is_trusted_who_is_not_named():
    given = config(deployment={"fraction_bits": None}).deployment
    assert (given.collude, given.relay, given.releases, given.lost_neighbour) == ("all", "untrusted", "own", "wait")
    assert given.fraction_bits is None


def test_what_is_written_is_taken():
    federated = config(
        topology={"kind": "federation"}, algorithm={"kind": "fedavg"}, noise={"kind": "central"},
        deployment={"collude": 2, "relay": "trusted", "releases": ["basel", "bern"], "time_limit": 60},
    ).deployment  # fmt: skip
    assert (federated.collude, federated.relay, federated.releases, federated.time_limit) == (
        2,
        "trusted",
        ("basel", "bern"),
        60,
    )


WRONG = [
    ({"run": None}, r"\[deployment\] run: this key is missing"),
    ({"roster": None}, r"\[deployment\] roster: this key is missing"),
    ({"run": "../x"}, r"\[deployment\] run:"),
    ({"run": ""}, r"\[deployment\] run:"),
    ({"collude": 0}, r'\[deployment\] collude: write "all", or how many others'),
    ({"collude": "none"}, r'\[deployment\] collude: write "all"'),
    ({"collude": True}, r'\[deployment\] collude: write "all"'),
    ({"relay": "untrused"}, r"\[deployment\] relay: unknown value 'untrused'; did you mean 'untrusted'"),
    ({"releases": "all"}, r'\[deployment\] releases: write "own", "public", or a list of names'),
    ({"releases": []}, r"\[deployment\] releases: write"),
    ({"releases": ["a", "a"]}, r"\[deployment\] releases: a name stands twice"),
    ({"records": {}}, r"\[deployment\] records"),
    ({"records": {**COUNTS, "bern": 0}}, r"\[deployment\] records.bern"),
    ({"records": {**COUNTS, " bern": 3}}, "which no party has"),
    ({"fraction_bits": 53}, r"\[deployment\] fraction_bits"),
    ({"lost_neighbour": "drop"}, r"\[deployment\] lost_neighbour: unknown value 'drop'"),
    ({"time_limit": 0}, r"\[deployment\] time_limit"),
    ({"colude": 1}, r"\[deployment\] colude: unknown key; did you mean 'collude'"),
    ({"relay": "trusted"}, 'there is none in kind = "ring" to be trusted'),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "said"), WRONG)
def test_other_values_are_refused_by_name(changes, said):
    with pytest.raises(ConfigError, match=said):
        config(deployment=changes)


def test_a_relay_that_adds_noise_must_be_trusted():
    central = {"topology": {"kind": "federation"}, "algorithm": {"kind": "fedavg"}, "noise": {"kind": "central"}}
    with pytest.raises(ConfigError, match=r'reads all messages in clear; write relay = "trusted" if all parties do'):
        config(**central)


def test_parties_must_say_what_is_protected():
    with pytest.raises(ConfigError, match=r"\[privacy\]: this section is missing; parties that run a file"):
        config(privacy=None)


@pytest.mark.parametrize(
    ("changes", "needed"),
    [
        ({}, True),
        ({"algorithm": {"batch_size": 2}}, False),
        ({"privacy": {"unit": "agent"}}, False),
        ({"privacy": {"unit": "agent"}, "topology": {"kind": "federation", "weights": "records"}}, True),
        ({"privacy": {"unit": "agent", "clips": "gradient"}}, False),
        ({"topology": {"kind": "federation"}, "algorithm": {"kind": "fedavg"}, "privacy": {"clips": "update"}}, False),
        ({"problem": {"person": "id", "records_per_person": 2, "drop": None}, "privacy": {"unit": "person"}}, True),
        (
            {
                "problem": {"person": "id", "records_per_person": 2, "drop": None},
                "privacy": {"unit": "person", "adjacency": "add-remove"},
                "algorithm": {"batch_size": 2},
            },
            True,
        ),
    ],
)
def test_numbers_of_records_are_asked_for_exactly_where_they_enter(changes, needed):
    if needed:
        assert config(**changes).deployment.records == COUNTS
    else:
        with pytest.raises(ConfigError, match="would be published without need; remove records"):
            config(**changes)


def test_the_table_changes_nothing_in_a_simulation(tmp_path):
    without = {name: table for name, table in TABLES.items() if name != "deployment"}
    data = {"data": "synthetic_clicks", "records": 60, "kind": "logistic_regression", "ridge": 0.1}
    public = {"problem": data, "topology": {"kind": "ring", "agents": 3}, "privacy": TABLES["privacy"]}
    with_table = {**without, **public, "deployment": {"run": "a", "roster": "r"}}
    first, second = build(parse({**without, **public}, source="x")), build(parse(with_table, source="x"))
    assert first.describe() == second.describe()
    assert "deployment" not in parse({**without, **public}, source="x").as_dict()


def test_the_command_line_may_say_it_otherwise(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(
        '[experiment]\nname = "x"\nrounds = 2\n[topology]\nkind = "ring"\nagents = 3\n'
        '[problem]\nkind = "logistic_regression"\ndata = "breast_cancer"\nridge = 0.1\n[algorithm]\nkind = "atc"\nstep_size = 0.1\n'
        '[noise]\nkind = "none"\n[privacy]\nunit = "agent"\nclip = 1.0\nclip_norm = "l2"\n[deployment]\nrun = "spring"\nroster = "roster.json"\ncollude = 1\n'
    )
    assert read(path, ["deployment.run=autumn", "deployment.collude=~"]).deployment.collude == "all"
    assert read(path, ["deployment.run=autumn"]).deployment.run == "autumn"
    assert read(path, ["deployment=~"]).deployment is None
    assert read(path, ["deployment.releases=['a', 'b']"]).deployment.releases == ("a", "b")
    assert tables()["deployment"]["run"] == "spring"


def test_the_table_comes_back_from_plain_values():
    made = config(deployment={"releases": ["bern"], "collude": 2})
    assert Config.model_validate(made.as_dict()) == made
