"""Reproductions: reading, judging, and (slow) agreement with what is stored, which a wrong noise scale must break."""

import copy
import json
from dataclasses import replace

import pytest

import sottovoce as sv
from sottovoce.studies.cells import Cell, replace_key
from sottovoce.studies.curves import StudySection, run_study
from sottovoce.studies.kinds import read_privacy_study
from sottovoce.studies.reproduction import (
    ClaimSection,
    differences,
    expected_of,
    judge,
    list_reproductions,
    read_expected,
    read_reproduction,
    reproduce,
)
from sottovoce.studies.tables import cell_tables, markdown

NAMES = [
    "appfl-output-perturbation",
    "audit-sandwich",
    "bellet2022-central-vs-local",
    "cyffers2022-walk",
    "decor-conversion",
    "muffliato2022-distance",
    "muffliato2022-sgd",
    "rizk2023-classification",
    "rizk2023-regression",
    "sabater2022-learning",
    "sabater2022-variance",
    "showkatbakhsh-figures",
    "vlaski-leakage",
    "walks-at-distance",
    "whisper-dsgd",
]
BASE = {
    "experiment": {"name": "small", "rounds": 6, "repeats": 3},
    "topology": {"kind": "ring", "agents": 5},
    "problem": {"kind": "linear_regression", "data": "synthetic", "samples": 8, "dimension": 2, "ridge": 0.1},
    "algorithm": {"kind": "atc", "step_size": 0.1, "batch_size": 1},
    "noise": {"kind": "none"},
}


def study(**changes):
    noises = {"clear": {"kind": "none"}, "noisy": {"kind": "independent", "law": "gaussian", "std": 0.5}}
    values = {
        "name": "s",
        "series": {"key": "noise", "values": noises},
        "across": {"key": "algorithm.step_size", "values": [0.1, 0.2]},
        "measures": ["msd_centroid"],
        "tail": 2,
        "theory": True,
    }
    return StudySection.model_validate(values | changes)


def cells(rows):
    return {name: {place: Cell(value=value, error=0.0) for place, value in row.items()} for name, row in rows.items()}


def claim(**check):
    return ClaimSection.model_validate({"id": "c", "text": "t", "study": "s", "measure": "m", "check": check})


def test_all_reproductions_are_listed_with_their_titles_and_have_a_readme_and_expected_numbers():
    assert list(list_reproductions()) == NAMES
    for name in NAMES:
        found = read_reproduction(name)
        assert (found.folder / "README.md").is_file()
        stored = read_expected(found)
        assert stored["verdicts"].keys() == {c.id for c in found.claims}
        assert not list(found.folder.glob("*.py"))


def test_an_unknown_reproduction_is_refused_with_the_known_names():
    with pytest.raises(sv.ConfigError, match="rizk2023-regression"):
        read_reproduction("nothing-like-it")


def test_a_claim_on_a_study_that_does_not_exist_is_refused(tmp_path):
    text = (
        '[reproduction]\ntitle = "t"\ndocument = "d"\n[[claim]]\nid = "c"\ntext = "t"\nstudy = "gone"\nmeasure = "m"\n'
    )
    (tmp_path / "config.toml").write_text(text + 'check = { kind = "falls", of = "a", at_most = 1.0 }\n')
    with pytest.raises(sv.ConfigError, match="gone"):
        read_reproduction(tmp_path)


@pytest.mark.parametrize(
    ("values", "verdict", "where"),
    [
        ({"x": 1.0, "y": 1.5}, "holds", ("x", "y")),
        ({"x": 3.0, "y": 5.0}, "does not hold", ()),
        ({"x": 1.0, "y": 5.0}, "holds when", ("x",)),
    ],
)
def test_ratio_claims_hold_everywhere_nowhere_or_in_places(values, verdict, where):
    table = cells({"a": values, "b": {"x": 1.0, "y": 1.0}})
    found = judge(claim(kind="ratio", of="a", to="b", at_most=2.0), table)
    assert (found.verdict, found.where) == (verdict, where)
    assert found.numbers == values


def test_slope_and_falls_claims():
    table = cells({"a": {"1": 4.0, "2": 1.0, "4": 0.25}})
    slope = judge(claim(kind="slope", of="a", between=[-2.1, -1.9]), table)
    assert slope.verdict == "holds"
    assert slope.numbers["slope"] == pytest.approx(-2.0)
    assert judge(claim(kind="slope", of="a", between=[-1.5, -1.0]), table).verdict == "does not hold"
    assert judge(claim(kind="falls", of="a", at_most=0.1), table).verdict == "holds"
    assert judge(claim(kind="falls", of="a", at_most=0.01), table).verdict == "does not hold"


def test_a_study_runs_its_cells_as_single_runs_would():
    result = run_study(study(), BASE, source="test")
    for series, noise in result.section.series.items().items():
        for across in ("0.1", "0.2"):
            data = copy.deepcopy(BASE)
            replace_key(data, "noise", noise)
            replace_key(data, "algorithm.step_size", float(across))
            from sottovoce.experiments import build, parse

            experiment = build(parse(data, source="test"))
            alone = sv.simulate(
                experiment.problem, experiment.topology, experiment.algorithm, experiment.noise, rounds=6, repeats=3, batch_size=1,
                progress=False,
            )  # fmt: skip
            cell = result.cells["msd_centroid"][series][across]
            assert cell.value == pytest.approx(alone.metrics["msd_centroid"][:, -2:].mean(), rel=1e-4)
            exact = sv.expected_msd(
                experiment.problem, experiment.topology, experiment.algorithm, experiment.noise, rounds=6, batch_size=1
            )
            assert cell.theory == pytest.approx(exact["msd_centroid"][-2:].mean())


@pytest.mark.parametrize(
    ("check", "measure", "words"),
    [
        ('{ kind = "ratio", of = "a", to = "gone", at_most = 1.0 }', "msd_centroid", "gone"),
        ('{ kind = "ratio", of = "a", to = "b" }', "msd_centroid", "at_most or at_least"),
        ('{ kind = "falls", of = "a", at_most = 1.0 }', "loss", "names measure"),
        ('{ kind = "slope", of = "a", between = [-2.0, -1.0] }', "msd_centroid", "not numbers"),
        ('{ kind = "limits", of = "a", at_most = { dgd = 1.0 } }', "msd_centroid", "names the place 'dgd'"),
    ],
)
def test_a_malformed_claim_is_refused_before_anything_runs(tmp_path, check, measure, words):
    (tmp_path / "config.toml").write_text(
        '[reproduction]\ntitle = "t"\ndocument = "d"\n'
        '[[study]]\nname = "s"\nmeasures = ["msd_centroid"]\n'
        'series = { key = "noise", values = { a = { kind = "none" }, b = { kind = "none" } } }\n'
        'across = { key = "algorithm.kind", values = ["atc", "cta"] }\n'
        f'[[claim]]\nid = "c"\ntext = "t"\nstudy = "s"\nmeasure = "{measure}"\ncheck = {check}\n'
    )
    with pytest.raises(sv.ConfigError, match=words):
        read_reproduction(tmp_path)


def test_averaging_over_more_rounds_than_there_are_is_refused():
    with pytest.raises(sv.ConfigError, match="last 500 of only 6"):
        run_study(study(tail=500), BASE, source="test")


class TestPrescribedNoise:
    """The levels a document prescribes belong to one record, and follow the batch."""

    def config(self, **changes):
        from sottovoce.experiments import parse

        data = copy.deepcopy(read_reproduction("showkatbakhsh-figures").base)
        for key, value in changes.items():
            replace_key(data, key.replace("__", "."), value)
        return parse(data, source="test")

    def test_smaller_batches_need_more_noise(self):
        from sottovoce.experiments import build

        full, batch = (
            build(self.config(**change)).noise.factors(130) for change in ({}, {"algorithm__batch_size": 10})
        )
        assert batch[1] == pytest.approx(10 * full[1])  # 2 R sqrt(p) / 10 instead of / 100

    def test_the_levels_are_stored_with_the_run(self):
        from sottovoce.experiments import build

        experiment = build(self.config())
        assert experiment.describe()["noise"]["factors"] == experiment.noise.factors(130).tolist()

    def test_agents_as_the_unit_and_other_algorithms_are_refused(self):
        from sottovoce.experiments import build

        with pytest.raises(sv.IncompatibleChoice, match="one record"):
            build(self.config(privacy={"unit": "agent", "clip": 1.0, "clip_norm": "l2"}))
        with pytest.raises(sv.IncompatibleChoice, match="two-stage"):
            build(self.config(algorithm={"kind": "atc", "step_size": 0.1}))


def test_a_section_without_kind_is_merged_and_one_with_kind_replaces():
    data = {"noise": {"kind": "independent", "law": "gaussian", "std": 1.0}}
    replace_key(data, "noise", {"std": 2.0})
    assert data["noise"] == {"kind": "independent", "law": "gaussian", "std": 2.0}
    replace_key(data, "noise", {"kind": "none"})
    assert data["noise"] == {"kind": "none"}


def test_overrides_replace_keys_of_the_base_configuration():
    found = read_reproduction(
        "rizk2023-classification", ["experiment.rounds=7", 'problem={kind="logistic_regression", data="x.libsvm"}']
    )
    assert found.base["experiment"]["rounds"] == 7
    assert found.base["problem"] == {"kind": "logistic_regression", "data": "x.libsvm"}
    assert found.studies[0].across.items()["clicks"] == {}


def test_an_override_that_every_study_replaces_is_refused():
    with pytest.raises(sv.ConfigError, match="no effect"):
        read_reproduction("rizk2023-regression", ["noise.std=9"])
    # one of the two studies of that reproduction leaves the algorithm alone, and "clicks" takes the base problem
    read_reproduction("rizk2023-regression", ["algorithm.step_size=0.3"])
    read_reproduction("rizk2023-classification", ["problem.ridge=0.01"])


FEDERATED = {
    "experiment": {"name": "small", "rounds": 1, "repeats": 200},
    "topology": {"kind": "federation", "agents": 4},
    "problem": {"kind": "mean_estimation", "data": "truncated_gaussian", "samples": 1, "dimension": 4, "radius": 1.0},
    "algorithm": {"kind": "fedavg", "step_size": 1.0},
    "noise": {"kind": "none"},
    "privacy": {"unit": "record", "clip": 2.0, "clip_norm": "l2", "delta": 1e-5, "observers": ["server"]},
}
TRUST = {
    "local": {"noise": {"kind": "independent", "law": "gaussian", "epsilon": 1.0}},
    "central": {
        "noise": {"kind": "central", "law": "gaussian", "epsilon": 1.0},
        "privacy": {"observers": ["curious_agent:0"]},
    },
}


def test_a_value_of_config_changes_several_sections_at_once():
    data = copy.deepcopy(FEDERATED)
    replace_key(data, "config", TRUST["central"])
    assert data["noise"] == TRUST["central"]["noise"]  # has a kind, so it replaces
    assert data["privacy"] == {**FEDERATED["privacy"], "observers": ["curious_agent:0"]}  # has none, so it is merged
    assert FEDERATED["noise"] == {"kind": "none"}
    for wrong in ({"a": {"noise": 3}}, {"a": 3}):
        with pytest.raises(ValueError, match="table of sections"):
            study(series={"key": "config", "values": wrong})


def test_local_noise_costs_as_many_times_more_as_there_are_agents_and_a_reference_ignores_the_sweep():
    changed = study(
        series={"key": "config", "values": TRUST}, across={"key": "topology.agents", "values": [4, 16]},
        references={"exact": {"noise": {"kind": "none"}}}, tail=1, theory=False,
    )  # fmt: skip
    result = run_study(changed, FEDERATED, source="test")
    found = result.cells["msd_centroid"]
    gap = judge(claim(kind="gap", of="local", to="central", between=[0.75, 1.25]), found)
    assert gap.verdict == "holds"
    assert gap.numbers["4"] == pytest.approx(4, rel=0.25)  # 800 chi-square degrees of freedom on either side: 7 %
    assert judge(claim(kind="gap", of="local", to="central", between=[0.3, 0.7]), found).verdict == "does not hold"
    assert [place for line, place in result.runs if line == "exact"] == ["4"]
    assert found["exact"]["16"].value == pytest.approx(0, abs=1e-9)


def test_limits_are_held_place_by_place_and_elsewhere_nothing_is_claimed():
    table = cells({"a": {"near": 3.0, "far": 1.0, "else": 9.0}})
    found = judge(claim(kind="limits", of="a", at_most={"near": 2.0, "far": 1.0}), table)
    assert (found.verdict, found.where, found.numbers) == ("holds when", ("far",), {"near": 3.0, "far": 1.0})
    assert judge(claim(kind="limits", of="a", at_most={"near": 3.0, "far": 1.5}), table).verdict == "holds"
    assert judge(claim(kind="limits", of="a", at_most={"else": 8.9}), table).verdict == "does not hold"


def test_a_gap_is_the_slope_of_a_ratio():
    table = cells({"a": {"1": 2.0, "10": 60.0, "100": 1800.0}, "b": {"1": 1.0, "10": 3.0, "100": 9.0}})
    found = judge(claim(kind="gap", of="a", to="b", between=[0.99, 1.01]), table)
    assert (found.verdict, found.where) == ("holds", ("slope",))
    assert found.numbers == pytest.approx({"slope": 1.0, "1": 2.0, "10": 20.0, "100": 200.0})
    assert judge(claim(kind="gap", of="b", to="a", between=[0.99, 1.01]), table).verdict == "does not hold"


def test_one_epsilon_is_other_noise_for_another_algorithm():
    halves = {"one": {"kind": "fedavg", "step_size": 1.0}, "half": {"kind": "fedavg", "step_size": 0.5}}
    base = {**FEDERATED, "noise": TRUST["local"]["noise"]}
    changed = study(
        series={"key": "algorithm", "values": halves}, across={"key": "noise.epsilon", "values": [1.0]}, tail=1, theory=False
    )  # fmt: skip
    runs = run_study(changed, base, source="test").runs
    scales = {line: run.description["noise"]["scale"] for (line, _), run in runs.items()}
    assert scales["half"] == pytest.approx(scales["one"] / 2, rel=1e-5)


def test_a_study_of_a_promise_that_the_simulator_does_not_keep_is_refused():
    base = {**FEDERATED, "privacy": {**FEDERATED["privacy"], "participation": "once"}}
    with pytest.raises(sv.IncompatibleChoice, match="participation was promised"):
        run_study(
            study(series={"key": "config", "values": TRUST}, across={"key": "topology.agents", "values": [4]}, tail=1),
            base, source="test",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"figure": "scaling", "across": {"key": "algorithm.kind", "values": ["atc"]}}, "no place on an axis"),
        ({"references": {"clear": {"noise": {"kind": "none"}}}}, "both a series and a reference"),
        ({"across": {"key": "noise", "values": {"x": {}}}}, "one of them has no effect"),
    ],
)
def test_a_study_that_cannot_be_shown_is_refused(change, words):
    with pytest.raises(ValueError, match=words):
        study(**change)


def test_overrides_under_a_series_of_sections_are_refused_only_if_every_cell_replaces_them():
    changed = study(series={"key": "config", "values": TRUST})
    assert changed.sets("noise.std")
    assert not changed.sets("privacy.observers")  # "local" leaves it alone
    assert not changed.sets("privacy.clip")
    assert not study(series={"key": "config", "values": TRUST}, references={"r": {}}).sets("noise.std")


def small_outcome(tmp_path):
    (tmp_path / "config.toml").write_text(
        '[reproduction]\ntitle = "Small"\ndocument = "A document"\n'
        '[experiment]\nname = "small"\nrounds = 3\nrepeats = 4\n[topology]\nkind = "ring"\nagents = 5\n'
        '[problem]\nkind = "linear_regression"\ndata = "synthetic"\nsamples = 8\ndimension = 2\nridge = 0.1\n'
        '[algorithm]\nkind = "atc"\nstep_size = 0.1\n[noise]\nkind = "none"\n'
        '[[study]]\nname = "s"\nmeasures = ["msd_centroid"]\ntheory = true\n'
        'series = { key = "noise", values = { noisy = { kind = "independent", law = "gaussian", std = 1.0 } } }\n'
        'references = { clear = { noise = { kind = "none" } } }\n'
        'across = { key = "algorithm.step_size", values = [0.1, 0.2], label = "step" }\n'
    )
    told = []
    return reproduce(read_reproduction(tmp_path), progress=told.append), told


def test_every_cell_is_in_the_table_with_its_error_and_exact_value_and_progress_names_cells(tmp_path):
    outcome, told = small_outcome(tmp_path)
    (table,) = cell_tables(outcome)
    assert table.header == ["step", "0.1", "0.2"]
    assert [row[0] for row in table.rows] == ["noisy", "clear"]
    cell = outcome.studies["s"].cells["msd_centroid"]["noisy"]["0.2"]
    shown = table.rows[0][2]
    assert float(shown.split()[0]) == pytest.approx(cell.value, rel=0.05)
    assert float(shown.split()[2]) == pytest.approx(cell.error, rel=0.05)
    assert float(shown.split("(")[1].rstrip(")")) == pytest.approx(cell.theory, rel=1e-3)
    assert f"| noisy | {table.rows[0][1]} | {shown} |" in markdown(outcome)
    assert "study s: prepare noisy at 0.1" in told
    assert any(text.startswith("study s: run") for text in told)


@pytest.mark.parametrize(
    ("name", "overrides"),
    [("bellet2022-central-vs-local", ["problem.dimension=2"]), ("appfl-output-perturbation", ["topology.agents=2"])],
)
def test_the_federated_reproductions_keep_their_main_verdict_when_shrunken(name, overrides):
    found = read_reproduction(name, overrides)
    kept = found.studies[0]
    places = [10, 100] if name.startswith("bellet") else [5, 200]
    kept = kept.model_copy(
        update={"across": kept.across.model_copy(update={"values": places}), "set": {"experiment.repeats": 100 if name.startswith("bellet") else 2}}
    )  # fmt: skip
    claims = found.claims[:1]
    outcome = reproduce(replace(found, studies=(kept,), claims=claims))
    assert outcome.verdicts[0].verdict == "holds"


SMALL_GRAPHS = (
    "graphs={hypercube={kind='hypercube', dimension=7}, Erdos-Renyi={kind='erdos_renyi', agents=150, probability=0.03, seed=6}, "
    "geometric={kind='geometric', agents=150, radius=0.16, seed=0}, grid={kind='grid', rows=8, columns=8}}"
)


def test_the_published_sum_of_gossip_is_no_upper_bound_on_small_graphs_either():
    overrides = [
        f"six-rounds.{SMALL_GRAPHS}",
        f"ten-rounds.{SMALL_GRAPHS}",
        "ten-rounds.rounds=4",
        "ten-rounds.distances=[1, 2]",
    ]
    found = read_reproduction(
        "muffliato2022-distance", [*overrides, "ten-rounds.attackers=20", "many-rounds.rounds=[1, 16]"]
    )
    outcome = reproduce(found)
    verdicts = {each.claim.id: each for each in outcome.verdicts}
    for graph in ("hypercube", "erdos-renyi", "geometric", "grid"):
        bound = verdicts[f"published-bounds-{graph}"]
        assert bound.verdict == "holds when"
        assert bound.where[0] == "1"
        assert "6" not in bound.where
    assert verdicts["neighbours-have-the-local-value"].where == ("1",)
    assert verdicts["ring-is-exposed"].where == ("16",)
    assert verdicts["hypercube-is-exposed"].verdict == "does not hold"
    tables = {table.title: table for table in cell_tables(outcome)}
    table = tables["six-rounds: Renyi epsilon, mean over pairs"]
    assert table.header == ["graph distance", "1", "2", "3", "4", "5", "6"]
    assert "| local | 1.000 |" in markdown(outcome)


def test_privacy_studies_are_drawn_with_captions_that_say_observer_validity_and_source(tmp_path):
    from sottovoce.studies.reproduction import outcome_figures

    found = read_reproduction("muffliato2022-distance", [f"six-rounds.{SMALL_GRAPHS}"])
    kept = tuple(each for each in found.privacy_studies if each.name != "ten-rounds")
    paths = outcome_figures(reproduce(replace(found, privacy_studies=kept, claims=())), tmp_path)
    assert {path.stem for path in paths} == {"six-rounds", "six-rounds-network", "many-rounds"}
    for path in paths:
        if path.suffix == ".svg":
            text = path.read_text()
            assert all(words in text for words in ("Observer", "guarantee", "Source", "Cyffers"))


def test_the_linear_view_of_muffliato_falls_with_distance_and_the_proven_value_does_not():
    found = read_reproduction("muffliato2022-sgd", ["experiment.rounds=8"])
    ours = tuple(claim for claim in found.claims if claim.study == "pairs")
    outcome = reproduce(replace(found, studies=(), claims=ours))
    verdicts = {each.claim.id: each for each in outcome.verdicts}
    assert verdicts["linear-view-falls"].verdict == "holds"
    assert verdicts["proven-falls"].verdict == "does not hold"
    table = outcome.studies["pairs"].cells["epsilon"]
    assert table["1 averaging step, proven"]["6"].value == pytest.approx(10.0, rel=1e-4)  # the local epsilon asked for
    assert table["1 averaging step, linear view"]["6"].value < 1


def test_two_studies_with_one_name_and_overrides_that_do_not_fit_are_refused(tmp_path):
    config = read_reproduction("muffliato2022-distance").folder / "config.toml"
    (tmp_path / "config.toml").write_text(config.read_text().replace('"ten-rounds"', '"six-rounds"'))
    with pytest.raises(sv.ConfigError, match="one name"):
        read_reproduction(tmp_path)
    with pytest.raises(sv.ConfigError, match="out of reach"):
        read_reproduction("muffliato2022-distance", ["six-rounds.rounds=2"])


def multiplied(table, factors):
    return table | {key: table[key] * factor for key, factor in factors.items() if key in table}


def louder(reproduction):
    """The same reproduction with every noise scale multiplied by 1.5."""

    def scale(table):
        if isinstance(table, dict):
            table = {key: scale(value) for key, value in table.items()}
            if table.get("kind") == "showkatbakhsh":
                table["document_epsilon"] /= 1.5  # the noise is nearly proportional to 1 / epsilon
            if table.get("key") == "noise.document_epsilon":
                table["values"] = {place: float(place) / 1.5 for place in map(str, table["values"])}
            if table.get("key") == "noise.epsilon":
                table["values"] = {f"{place}": float(place) / 1.5 for place in table["values"]}
            table = multiplied(table, {"local_epsilon": 1.5**-2, "noise_multiplier": 1.5})  # Renyi goes with the square
            if ("law" in table and "epsilon" in table) or table.get("kind") in ("walk", "gopa_silent", "gopa_variance"):
                table["epsilon"] /= 1.5
            elif "law" in table or table.get("kind") == "decor_row":
                table["std"] *= 1.5
            if table.get("kind") == "renyi_conversion":
                table["delta"] /= 1.5  # mu follows from epsilon and delta alone
        return table

    studies = tuple(StudySection.model_validate(scale(s.model_dump(exclude_none=True))) for s in reproduction.studies)
    others = tuple(read_privacy_study(scale(s.model_dump(exclude_none=True))) for s in reproduction.privacy_studies)
    base = scale(copy.deepcopy(reproduction.base))
    return replace(reproduction, base=base, studies=studies, privacy_studies=others)


LOUDER_STUDY = {  # where one study is enough to notice, and all of them take minutes
    "appfl-output-perturbation": "gaussian",
    "audit-sandwich": "federation",
    "bellet2022-central-vs-local": "averaging",
    "cyffers2022-walk": "epsilon-against-agents",
    "decor-conversion": "ring-16",
    "muffliato2022-distance": "six-rounds",
    "muffliato2022-sgd": "pairs",
    "sabater2022-variance": "silent",
    "vlaski-leakage": "exact",
    "walks-at-distance": "small-walks",
    "whisper-dsgd": "conversion",
}


def one_study(reproduction, expected, name):
    """The reproduction with this study alone, and what is expected of it."""
    kept = {
        part: tuple(s for s in getattr(reproduction, part) if s.name == name) for part in ("studies", "privacy_studies")
    }
    return replace(reproduction, claims=(), **kept), {
        **expected,
        "cells": {name: expected["cells"][name]},
        "verdicts": {},
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_reproduction_agrees_with_its_expected_numbers_and_a_wrong_noise_scale_does_not(name):
    reproduction = read_reproduction(name)
    expected = read_expected(reproduction)
    outcome = reproduce(reproduction)
    assert differences(outcome, expected) == []
    assert json.loads(json.dumps(expected_of(outcome, 0.1)))["verdicts"] == expected["verdicts"]
    if name in LOUDER_STUDY:
        reproduction, expected = one_study(reproduction, expected, LOUDER_STUDY[name])
    assert differences(reproduce(louder(reproduction)), expected) != []
