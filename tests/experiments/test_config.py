"""A configuration is accepted whole, or refused with everything that is wrong in it."""

from pathlib import Path

import pytest

from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.experiments.config import parse, read
from sottovoce.experiments.sections import CHOICES, Config

VALID = """
[experiment]
name = "small"
rounds = 10
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
kind = "independent"
law = "gaussian"
std = 0.1
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(VALID)
    return path


def refusal(file: Path, *overrides: str, error: type[Exception] = ConfigError) -> str:
    with pytest.raises(error) as caught:
        read(file, overrides)
    assert type(caught.value) is error
    return str(caught.value)


def test_values_and_defaults_are_read(file):
    config = read(file)
    assert config.experiment.rounds == 10
    assert config.experiment.repeats == 1
    assert config.topology.kind == "ring"
    assert config.noise.std == 0.1
    assert config.privacy is None


def test_configuration_survives_the_trip_through_plain_values(file):
    config = read(
        file, ['topology={kind="geometric", agents=5, radius=0.9}', 'privacy={unit="record", clip=1, clip_norm="l2"}']
    )
    assert Config.model_validate(config.as_dict()) == config


def test_configuration_cannot_be_changed_afterwards(file):
    with pytest.raises(Exception, match="frozen"):
        read(file).experiment.rounds = 3


@pytest.mark.parametrize(
    ("override", "section", "key", "suggestion"),
    [
        ("experiment.repeat=3", "[experiment]", "repeat", "did you mean 'repeats'?"),
        ("topology.agnets=3", "[topology]", "agnets", "did you mean 'agents'?"),
        ("algorithm.stepsize=1.0", "[algorithm]", "stepsize", "did you mean 'step_size'?"),
        ("noise.selfnoise=true", "[noise]", "selfnoise", "did you mean 'self_noise'?"),
        ("privacy.clipp=1.0", "[privacy]", "clipp", "did you mean 'clip'?"),
        ("topologie.agents=3", "[topologie]", "unknown section", "did you mean 'topology'?"),
        ("topology.kind=rign", "[topology]", "kind", "did you mean 'ring'?"),
        ("noise.law=gausian", "[noise]", "law", "did you mean 'gaussian'?"),
        ("problem.partition={kind='dirichlett'}", "[problem]", "partition.kind", "did you mean 'dirichlet'?"),
        ("problem.partition={kind='dirichlet', alpa=1}", "[problem]", "partition.alpa", "did you mean 'alpha'?"),
        ("algorithm.kind=zzz", "[algorithm]", "kind", "known: atc, cta, consensus, dgd"),
    ],
)
def test_unknown_name_is_refused_with_place_and_suggestion(file, override, section, key, suggestion):
    message = refusal(file, override)
    for part in ("small.toml", section, key, suggestion):
        assert part in message


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("topology.probability=0.3", "[topology] probability: does not apply to kind = 'ring', only to erdos_renyi"),
        ("topology.radius=0.3", "only to geometric"),
        ("algorithm.gradient_rounds=3", "only to dgd"),
        ("noise.scale=0.3", 'scale does not apply to law = "gaussian"'),
        ("noise.law=l2_laplace", 'std does not apply to law = "l2_laplace"'),
        ("problem.radius=1.0", "only to mean_estimation"),
        ("problem.test_fraction=0.2", "only to logistic_regression"),
        ("problem.partition={kind='iid'}", "partition does not apply to synthetic data"),
        ("problem.data=breast_cancer", 'samples and dimension apply to data = "synthetic" only'),
        ("noise.kind=none", "[noise] law: does not apply to kind = 'none'"),
    ],
)
def test_key_that_means_nothing_for_the_chosen_kind_is_refused(file, override, expected):
    assert expected in refusal(file, override)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("experiment.rounds=0", "greater than or equal to 1; given 0"),
        ("experiment.rounds='ten'", "valid integer; given 'ten'"),
        ("experiment.rounds=1.5", "valid integer"),
        ("experiment.name='../escape'", "[experiment] name"),
        ("experiment.dtype=float16", "unknown value 'float16'"),
        ("noise.std=-1", "greater than 0"),
        ("noise.std=inf", "finite"),
        ("noise.std=nan", "[noise] std"),
        ("noise.self_noise=1", "valid boolean"),
        ("problem={kind='logistic_regression', data='breast_cancer', ridge=0.1, test_fraction=1.0}", "less than 1"),
        ("noise={kind='independent', law='gaussian'}", "needs std"),
        ("noise={law='gaussian', std=1}", "[noise] kind: this key is missing"),
        ("topology={kind='ring'}", "[topology] agents: this key is missing"),
        ("privacy={unit='record', clip=1.0}", "[privacy] clip_norm: this key is missing"),
    ],
)
def test_wrong_value_is_refused(file, override, expected):
    assert expected in refusal(file, override)


def test_two_schedules_at_once_are_refused(file):
    assert "keep one" in refusal(file, "topology.dropout=0.1", "topology.random_pair=true")


def test_missing_noise_is_not_taken_as_none(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(VALID.partition("[noise]")[0])
    assert "[noise]: this section is missing" in refusal(path)


def test_all_problems_are_reported_together(file):
    message = refusal(file, "experiment.rounds=0", "topology.kind=rign", "noise.law=gausian", "extra.x=1")
    assert "4 problems" in message
    for part in ("[experiment] rounds", "[topology] kind", "[noise] law", "[extra]"):
        assert part in message


@pytest.mark.parametrize(
    "override",
    [
        "privacy={observers=['eavesdropper']}",
        "privacy={unit='record', clip=1.0, clip_norm='l2', delta=1e-5}",
        "privacy={budget={epsilon=8.0}}",
        "noise={kind='independent', law='gaussian', epsilon=1.0, delta=1e-5, std=1.0}",
        "noise={kind='none', epsilon=1.0}",
    ],
)
def test_asking_for_a_guarantee_is_refused_not_ignored(file, override):
    assert "this version cannot account yet; remove these keys" in refusal(file, override, error=UnsupportedClaim)


def test_refused_guarantee_does_not_hide_other_problems(file):
    message = refusal(file, "noise.epsilon=1.0", "experiment.rounds=0", error=UnsupportedClaim)
    assert "[noise] epsilon" in message
    assert "[experiment] rounds" in message


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("noise.std=2", 2.0),
        ("noise.std = 0.5", 0.5),
        ("noise.std=1e-3", 1e-3),
    ],
)
def test_override_takes_toml_values(file, override, value):
    assert read(file, [override]).noise.std == value


def test_override_accepts_bare_and_quoted_strings(file):
    assert read(file, ["noise.law=laplace"]).noise.law == "laplace"
    assert read(file, ['noise.law="laplace"']).noise.law == "laplace"


def test_override_of_a_whole_section_replaces_it(file):
    assert read(file, ['noise={kind="none"}']).noise.kind == "none"


def test_override_reaches_into_nested_tables(file):
    synthetic = 'problem={kind="linear_regression", data="breast_cancer", ridge=0.1, partition={kind="iid"}}'
    changed = read(file, [synthetic, "problem.partition.kind=dirichlet", "problem.partition.alpha=0.5"])
    assert changed.problem.partition.alpha == 0.5


def test_later_override_wins(file):
    assert read(file, ["experiment.rounds=3", "experiment.rounds=4"]).experiment.rounds == 4


@pytest.mark.parametrize(
    "override",
    ["rounds", "rounds=3", "=3", "a b.c=1", "noise.std=", "noise.law=two words", "noise.law='x", "noise.std.x=1"],
)
def test_malformed_override_is_refused_and_quoted(file, override):
    assert repr(override) in refusal(file, override)


def test_override_cannot_smuggle_in_a_second_line(file):
    assert "no TOML value" in refusal(file, "noise.std=1\n[privacy]")


def test_syntax_error_names_file_and_line(tmp_path):
    path = tmp_path / "broken.toml"
    path.write_text("[experiment]\nname = \n")
    message = refusal(path)
    assert "broken.toml" in message
    assert "line 2" in message


def test_unreadable_file_is_refused(tmp_path):
    assert "absent.toml" in refusal(tmp_path / "absent.toml")
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    assert "UTF-8" in refusal(binary)


def test_reading_leaves_the_file_untouched(file):
    read(file, ["noise.std=0.7"])
    assert file.read_text() == VALID


@pytest.mark.parametrize(
    "data", [{}, {"noise": 3}, {"noise": []}, {"noise": {"kind": {}}}, {"topology": [{"kind": "ring"}]}]
)
def test_any_shape_of_input_gives_a_clear_refusal(data):
    with pytest.raises(ConfigError, match="given: "):
        parse(data, source="given")


def test_every_registered_name_has_a_section_and_the_other_way_round():
    from sottovoce.algorithms import ALGORITHMS
    from sottovoce.noise import SCHEMES
    from sottovoce.problems import PROBLEMS
    from sottovoce.topologies import TOPOLOGIES

    prescribed = {"showkatbakhsh"}  # a configuration of `independent`, with the levels its document prescribes
    registries = {"topology": TOPOLOGIES, "problem": PROBLEMS, "algorithm": ALGORITHMS, "noise": SCHEMES}
    for section, registry in registries.items():
        assert set(CHOICES[section]) == set(registry) | (prescribed if section == "noise" else set())


def test_shipped_configurations_are_valid():
    root = Path(__file__).parents[2]
    for path in [*root.glob("examples/*.toml"), root / "src/sottovoce/cli/template.toml"]:
        read(path)
