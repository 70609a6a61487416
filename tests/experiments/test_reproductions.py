"""Reproductions: reading, judging, and (slow) agreement with what is stored, which a wrong noise scale must break."""

import copy
import json

import pytest

import sottovoce as sv
from sottovoce.experiments.reproduction import (
    ClaimSection,
    differences,
    expected_of,
    judge,
    list_reproductions,
    read_expected,
    read_reproduction,
    reproduce,
)
from sottovoce.experiments.study import Cell, StudySection, replace_key, run_study

NAMES = ["rizk2023-classification", "rizk2023-regression", "showkatbakhsh-figures"]
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


def louder(reproduction):
    """The same reproduction with every noise scale multiplied by 1.5."""

    def scale(table):
        if isinstance(table, dict):
            table = {key: scale(value) for key, value in table.items()}
            if table.get("kind") == "showkatbakhsh":
                table["document_epsilon"] /= 1.5  # the noise is nearly proportional to 1 / epsilon
            if table.get("key") == "noise.document_epsilon":
                table["values"] = {place: float(place) / 1.5 for place in map(str, table["values"])}
            if "law" in table:
                table["std"] *= 1.5
        return table

    studies = tuple(StudySection.model_validate(scale(s.model_dump(exclude_none=True))) for s in reproduction.studies)
    from dataclasses import replace

    return replace(reproduction, base=scale(copy.deepcopy(reproduction.base)), studies=studies)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_reproduction_agrees_with_its_expected_numbers_and_a_wrong_noise_scale_does_not(name):
    reproduction = read_reproduction(name)
    expected = read_expected(reproduction)
    outcome = reproduce(reproduction)
    assert differences(outcome, expected) == []
    assert json.loads(json.dumps(expected_of(outcome, 0.1)))["verdicts"] == expected["verdicts"]
    assert differences(reproduce(louder(reproduction)), expected) != []
