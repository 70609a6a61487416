"""A configuration is accepted whole, or refused with everything that is wrong in it."""

from pathlib import Path

import pytest

from sottovoce.errors import ConfigError
from sottovoce.experiments.config.config import CHOICES, Config
from sottovoce.experiments.config.privacy import asked
from sottovoce.experiments.config.toml_file import parse, read
from sottovoce.experiments.config.values import complaint
from sottovoce.observers import observer_named

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


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("ledger={store='a', name='b', budget=0}", "[ledger] budget"),
        ("ledger={store='a', name='b', budget='much'}", 'write an epsilon above 0, or "unlimited"'),
        ("ledger={store=' ', name='b'}", "write the path of a file"),
        ("ledger={store='a', name=' b'}", "without blanks at the ends"),
        ("ledger={store='a'}", "[ledger] name: this key is missing"),
    ],
)
def test_a_ledger_without_what_counts_is_refused(file, override, expected):
    assert expected in refusal(file, override)


def test_a_ledger_survives_the_trip_through_plain_values_and_has_no_default_budget(file):
    for budget, kept in (("8", 8.0), ("2.5", 2.5), ("'unlimited'", "unlimited")):
        config = read(file, [f"ledger={{store='a', name='b', budget={budget}}}"])
        assert Config.model_validate(config.as_dict()).ledger.budget == kept
    assert read(file, ["ledger={store='a', name='b'}"]).ledger.budget is None


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
        ("ledger.stor=x", "[ledger]", "stor", "did you mean 'store'?"),
        ("privacy.clipp=1.0", "[privacy]", "clipp", "did you mean 'clip'?"),
        ("topologie.agents=3", "[topologie]", "unknown section", "did you mean 'topology'?"),
        ("topology.kind=rign", "[topology]", "kind", "did you mean 'ring'?"),
        ("noise.law=gausian", "[noise]", "law", "did you mean 'gaussian'?"),
        ("problem.partition={kind='dirichlett'}", "[problem]", "partition.kind", "did you mean 'dirichlet'?"),
        ("problem.partition={kind='dirichlet', alpa=1}", "[problem]", "partition.alpa", "did you mean 'alpha'?"),
        ("algorithm.kind=zzz", "[algorithm]", "kind", "known: consensus, cta, atc, dgd"),
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
        ("problem.radius=0.2", "only to mean_estimation"),
        ("problem.partition={kind='iid'}", "partition does not apply to synthetic data"),
        ("problem.data=breast_cancer", 'samples and dimension apply to data = "synthetic" only'),
        ("noise={kind='none', law='gaussian'}", "[noise] law: does not apply to kind = 'none'"),
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


PRIVACY = "privacy={unit='record', clip=1.0, clip_norm='l2', delta=1e-5, observers=['eavesdropper', 'final_model']}"
WITHOUT_STD = "noise={kind='independent', law='gaussian', epsilon=2.0}"


def test_every_key_about_privacy_is_read_and_survives_the_trip_through_plain_values(file):
    config = read(
        file,
        [
            PRIVACY,
            "privacy.adjacency=add-remove",
            "privacy.losses={beta=2.0, nu=0.5}",
            "privacy.participation={times=2, gap=3}",
            "privacy.budget={epsilon=8, observer='eavesdropper+final_model', until_spent=true}",
        ],
    )
    privacy = config.privacy
    assert (privacy.adjacency, privacy.delta, privacy.observers) == (
        "add-remove",
        1e-5,
        ["eavesdropper", "final_model"],
    )
    assert (privacy.losses.beta, privacy.losses.nu) == (2.0, 0.5)
    assert (privacy.participation.times, privacy.participation.gap) == (2, 3)
    assert (privacy.budget.epsilon, privacy.budget.until_spent) == (8.0, True)
    assert Config.model_validate(config.as_dict()) == config


def test_what_decides_how_much_is_promised_has_no_default(file):
    privacy = read(file, ["privacy={unit='record', clip=1, clip_norm='l2'}"]).privacy
    assert (privacy.delta, privacy.observers, privacy.losses, privacy.budget) == (None, None, None, None)
    assert (privacy.adjacency, privacy.participation) == ("replace", "every-round")


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("privacy.observers=['evesdropper']", "unknown observer 'evesdropper'; did you mean 'eavesdropper'?"),
        ("privacy.observers=['eavesdropper+final_modle']", "'final_modle' in 'eavesdropper+final_modle'; did you mean"),
        ("privacy.observers=['eavesdropper:2']", "eavesdropper takes nothing after its name"),
        ("privacy.observers=['curious_agent']", "write it like 'curious_agent:3'"),
        ("privacy.observers=['curious_agent:-1']", "write it like 'curious_agent:3'"),
        ("privacy.observers=['curious_agent:1,2']", "several are 'coalition:1,2'"),
        ("privacy.observers=['coalition:1,']", "write it like 'coalition:1,2'"),
        ("privacy.observers=['links:2-3']", "write it like 'links:2->3,4->3'"),
        ("privacy.observers=['eavesdropper+']", "unknown observer ''"),
        ("privacy.observers=[]", "[privacy] observers"),
        ("privacy.observers=[3]", "[privacy] observers.0"),
        ("privacy.observers='eavesdropper'", "[privacy] observers"),
        ("privacy.observers=['coalition:1,2', 'coalition:2,1']", "'coalition 1, 2' twice"),
        ("privacy.delta=0.0", "greater than 0"),
        ("privacy.delta=1.0", "less than 1"),
        ("privacy.delta=nan", "[privacy] delta"),
        ("privacy.delta=true", "[privacy] delta"),
        ("privacy.adjacency=swap", "unknown value 'swap'"),
        ("privacy.losses=convex", 'write "problem"'),
        ("privacy.losses={nu=1.0}", "[privacy] losses.beta: this key is missing"),
        ("privacy.losses={beta=1.0, nu=2.0}", "needed is nu <= beta"),
        ("privacy.losses={betta=1.0}", "did you mean 'beta'?"),
        ("privacy.participation=twice", 'write "every-round", "once"'),
        ("privacy.participation={times=2}", "[privacy] participation.gap: this key is missing"),
        ("privacy.participation={times=0, gap=1}", "[privacy] participation.times"),
        ("privacy.budget={epsilon=8.0}", "[privacy] budget.observer: this key is missing"),
        ("privacy.budget={epsilon=inf, observer='eavesdropper'}", "[privacy] budget.epsilon"),
        ("privacy.budget={epsilon=8.0, observer='server'}", "budget watches 'server', which observers does not list"),
        ("privacy.budget={epsilon=8.0, observer='eavesdropper', untl_spent=true}", "did you mean 'until_spent'?"),
        ("privacy.observer=['eavesdropper']", "did you mean 'observers'?"),
    ],
)
def test_wrong_key_about_privacy_is_refused_with_what_would_be_right(file, override, expected):
    assert expected in refusal(file, PRIVACY, override)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["noise.epsilon=1.0"], "std and epsilon both say how much noise there is"),
        (["noise={kind='independent', law='l2_laplace', scale=1.0, epsilon=1.0}"], "scale and epsilon both"),
        (["noise.delta=1e-5"], "delta belongs to epsilon"),
        (["noise={kind='none', epsilon=1.0}"], "[noise] epsilon: does not apply to kind = 'none'"),
        (
            ["noise={kind='showkatbakhsh', document_epsilon=1.0, document_delta=1e-5, epsilon=1.0}"],
            "does not apply to kind = 'showkatbakhsh'",
        ),
        (["noise={kind='gopa', law='gaussian', pairwise_std=1.0, epsilon=1.0}"], "cannot set the two sizes of gopa"),
        (["noise={kind='independent', law='gaussian'}"], "or epsilon, to calibrate it for; there is no default"),
    ],
)
def test_noise_is_given_by_one_size_or_by_one_epsilon(file, overrides, expected):
    assert expected in refusal(file, PRIVACY, *overrides)


def test_sections_that_do_not_agree_are_all_reported(file):
    message = refusal(file, WITHOUT_STD, "privacy={unit='record', clip=1, clip_norm='l2'}")
    assert "2 problems" in message
    assert "[noise] epsilon: noise is calibrated for an observer" in message
    assert "[noise] epsilon: Gaussian noise has no epsilon without a delta" in message
    assert "list observers in [privacy]" in refusal(file, WITHOUT_STD, "noise.delta=1e-5")


def test_gaussian_guarantees_need_a_delta_and_pure_ones_do_not(file):
    listed = "privacy={unit='record', clip=1, clip_norm='l2', observers=['eavesdropper']}"
    assert "[privacy] delta: this key is missing" in refusal(file, listed)
    assert read(file, [listed, "noise.law=laplace"]).privacy.delta is None
    read(file, [listed, WITHOUT_STD, "noise.delta=1e-5"])


def test_participation_of_single_records_does_not_fit_the_unit_agent(file):
    assert "speaks of single records" in refusal(file, PRIVACY, "privacy.unit=agent", "privacy.participation=once")


def test_weights_by_records_do_not_fit_added_and_removed_records(file):
    federation = "topology={kind='federation', agents=4, weights='records'}"
    assert "changes the weights of all agents" in refusal(file, PRIVACY, federation, "privacy.adjacency=add-remove")
    read(file, [PRIVACY, federation])
    read(file, [PRIVACY, "topology={kind='federation', agents=4}", "privacy.adjacency=add-remove"])


@pytest.mark.parametrize(
    ("text", "members", "links", "final_model"),
    [
        ("curious_agent:3", (3,), (), False),
        ("coalition: 2, 1", (1, 2), (), False),
        ("links:2->3, 4 -> 3", (), ((2, 3), (4, 3)), False),
        ("final_model", (), (), True),
        ("coalition:1,2 + links:0->1 + final_model", (1, 2), ((0, 1),), True),
    ],
)
def test_observers_are_read_from_their_names(text, members, links, final_model):
    observer = observer_named(text)
    assert (observer.members, observer.links, observer.final_model) == (members, links, final_model)


def test_readers_of_messages_are_also_asked_about_together_with_a_released_model():
    named = [observer_named(text) for text in ("eavesdropper", "curious_agent:0", "final_model")]
    rows = [observer.name for observer in asked(named)]
    assert rows == [
        "eavesdropper",
        "eavesdropper + final model",
        "curious agent 0",
        "curious agent 0 + final model",
        "final model",
    ]
    assert asked(named[:2]) == named[:2]
    both = [observer_named("eavesdropper"), observer_named("final_model+eavesdropper")]
    assert asked(both) == both


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

    # A configuration of `independent`, with the levels its document prescribes, and noise whose numbers stand in a file.
    prescribed = {"showkatbakhsh", "designed"}
    registries = {"topology": TOPOLOGIES, "problem": PROBLEMS, "algorithm": ALGORITHMS, "noise": SCHEMES}
    for section, registry in registries.items():
        assert set(CHOICES[section]) == set(registry) | (prescribed if section == "noise" else set())


def test_shipped_configurations_are_valid():
    root = Path(__file__).parents[2]
    for path in [*root.glob("examples/*.toml"), *root.glob("src/sottovoce/experiments/**/*.toml")]:
        read(path)


def test_what_is_said_about_a_long_word_is_short():
    word = "x" * 5000
    said = complaint(
        {"type": "union_tag_invalid", "loc": ("check",), "msg": f"Input tag '{word}' is unknown", "input": word}
    )
    assert len(said) < 600
    assert said.startswith("check: input tag 'xxx")


def test_a_number_in_place_of_a_table_is_told_the_keys_of_the_table():
    from sottovoce.experiments.demo import demo_config

    with pytest.raises(ConfigError, match=r"budget: this must be a table of keys \(epsilon, observer, until_spent\)"):
        demo_config(privacy={**demo_config().privacy.model_dump(exclude_none=True), "budget": 3})
