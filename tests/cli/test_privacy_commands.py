"""account, gradients, and run with a budget: what they print, and the code they leave with."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sottovoce.accounting import gaussian, pure
from sottovoce.cli import guarantees
from sottovoce.errors import UnsupportedClaim
from sottovoce.experiments import load
from sottovoce.rounding import shown

PRIVACY = """
[privacy]
unit = "record"
clip = 1.0
clip_norm = "l2"
delta = 1e-5
observers = ["eavesdropper", "curious_agent:0", "final_model"]
"""
ROWS = [
    "eavesdropper",
    "eavesdropper + final model",
    "curious agent 0",
    "curious agent 0 + final model",
    "final model",
]
FULL = "algorithm={kind='atc', step_size=0.1}"
EXCEEDED = "privacy.budget={epsilon=1.0, observer='eavesdropper'}"


@pytest.fixture
def private(small: Path) -> Path:
    small.write_text(small.read_text() + PRIVACY)
    return small


def loaded(result):
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def epsilons(stated):
    return {row["observer"]: row["epsilon"]["1e-05"] for row in stated["guarantees"]}


def flat(text: str) -> str:
    """Text without the line breaks of a terminal."""
    return " ".join(text.split())


def test_account_states_every_observer(sottovoce, private):
    stated = loaded(sottovoce("account", private, FULL, "--json"))
    assert [row["observer"] for row in stated["guarantees"]] == ROWS
    assert stated["delta"] == 1e-5
    mu = 0.1 * (2 / 6) * math.sqrt(12) / 0.1  # step (2C/n) sqrt(T) / std
    assert stated["guarantees"][0]["mu"] == pytest.approx(mu)
    result = sottovoce("account", private, FULL)
    assert result.exit_code == 0
    for part in (
        "eavesdropper",
        "every message",
        "proven bound",
        "epsilon at delta = 1e-05",
        shown(gaussian.epsilon(mu, 1e-5), 4),
    ):
        assert part in result.stdout
    limit = "is no guarantee when gradients depend on models the observer does not see"
    for word in (" mu ", "sent-messages", limit):
        assert word not in flat(result.stdout)
        assert word in flat(sottovoce("account", private, FULL, "--explain").stdout)
    assert "number of records is public" in flat(result.stdout)
    assert "must not be released" not in flat(result.stdout)


def test_account_follows_overrides_and_leaves_the_file(sottovoce, private):
    before = private.read_bytes()
    base, louder = (loaded(sottovoce("account", private, *more, "--json")) for more in ((), ("noise.std=0.2",)))
    assert louder["guarantees"][0]["mu"] == pytest.approx(base["guarantees"][0]["mu"] / 2)
    assert private.read_bytes() == before


def test_infinity_is_printed_with_its_reason_and_null_in_json(sottovoce, private):
    cta = "algorithm={kind='cta', step_size=0.1}"
    stated = loaded(sottovoce("account", private, cta, "--json"))
    assert [name for name, epsilon in epsilons(stated).items() if epsilon is None] == [ROWS[1], ROWS[3], ROWS[4]]
    text = sottovoce("account", private, cta).stdout
    assert "inf for final model: The last gradient is added after the last exchange" in flat(text)


def test_without_the_final_model_a_note_says_not_to_release_it(sottovoce, private):
    text = sottovoce("account", private, "privacy.observers=['eavesdropper']").stdout
    assert "must not be released to them" in flat(text)


def test_account_per_agent_marks_the_worst(sottovoce, private):
    uneven = [
        "problem={kind='logistic_regression', data='breast_cancer', ridge=0.1, partition={kind='dirichlet', alpha=0.5}}",
        "privacy.observers=['eavesdropper', 'curious_agent:1']",
        FULL,
    ]
    stated = loaded(sottovoce("account", private, *uneven, "--per-agent", "--json"))
    agents = [(row["observer"], row["agent"]) for row in stated["guarantees"]]
    assert agents == [("eavesdropper", k) for k in range(4)] + [("curious agent 1", k) for k in (0, 2, 3)]
    worst = max(stated["guarantees"][:4], key=lambda row: row["mu"])["agent"]
    text = sottovoce("account", private, *uneven, "--per-agent").stdout
    marked = [line.split() for line in text.splitlines() if " worst " in line]
    assert len(marked) == 2
    assert marked[0][:5] == ["eavesdropper", "every", "message", f"{worst}", "worst"]


def test_account_explains_in_words(sottovoce, private):
    text = flat(sottovoce("account", private, "privacy.delta=1e-6", "--explain").stdout)
    assert text.count("It assumes: a change of one record") == len(ROWS)
    assert text.count("Stated: epsilon = ") == len(ROWS)
    assert text.count("at delta = 1e-06, mu = ") == len(ROWS)
    assert "any record may be drawn in any round" in text


def test_account_tells_whether_the_budget_would_do(sottovoce, private):
    assert "so a run would be refused" in flat(sottovoce("account", private, EXCEEDED).stdout)
    enough = "privacy.budget={epsilon=50.0, observer='eavesdropper'}"
    stated = loaded(sottovoce("account", private, enough, "--json"))
    assert stated["budget"]["needed"] == pytest.approx(epsilons(stated)["eavesdropper"])
    assert "which fits" in flat(sottovoce("account", private, enough).stdout)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["privacy.observers=['evesdropper']"], "did you mean 'eavesdropper'?"),
        (["privacy.observers=['curious_agent:9']"], "there is no agent 9"),
        (["noise.self_noise=false"], "[privacy] losses"),
        (["privacy={unit='record', clip=1, clip_norm='l2'}"], "nobody to account for"),
    ],
)
def test_account_refuses_what_it_cannot_answer(sottovoce, private, overrides, expected):
    result = sottovoce("account", private, *overrides)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert expected in result.stderr
    assert "Traceback" not in result.stderr


def test_account_without_privacy_says_what_to_add(sottovoce, small):
    result = sottovoce("account", small)
    assert result.exit_code == 2
    assert "Add a section [privacy]" in result.stderr


def test_gradients_shows_norms_and_warns(sottovoce, private):
    found = loaded(sottovoce("gradients", private, "--json"))
    assert {(row["whose"], row["norm"]) for row in found["norms"]} == {
        (whose, norm) for whose in ("record", "agent") for norm in ("l1", "l2")
    }
    text = sottovoce("gradients", private).stdout
    assert "median" in text
    assert "A clip chosen by private data costs privacy budget" in flat(text)
    assert "public or synthetic data" in flat(text)
    assert "The clip acts on the gradient of every record" in found["notes"][0]
    whole = loaded(sottovoce("gradients", private, "privacy.unit=agent", "privacy.clips=gradient", "--json"))
    assert "The clip acts on every agent's whole gradient, ridge and all" in whole["notes"][0]


def test_run_prints_and_keeps_guarantees_and_spending(sottovoce, private, tmp_path):
    enough = "privacy.budget={epsilon=50.0, observer='eavesdropper'}"
    printed = loaded(sottovoce("run", private, enough, "--out", tmp_path / "out", "--json"))
    assert [row["observer"] for row in printed["guarantees"]] == ROWS
    needed = epsilons(printed)["eavesdropper"]
    assert printed["final_metrics"]["epsilon_spent"]["mean"] == pytest.approx(needed)
    assert printed["final_metrics"]["epsilon_left"]["mean"] == pytest.approx(50 - needed)
    kept = json.loads((tmp_path / "out" / "guarantees.json").read_text())
    assert kept["guarantees"] == printed["guarantees"]
    text = sottovoce("run", private, enough, "--explain", "--out", tmp_path / "out").stdout
    assert "epsilon_left" in text
    assert "curious agent 0" in text


def test_run_says_what_its_models_may_not_be_used_for_and_states_one_run_and_all_repeats(sottovoce, private, tmp_path):
    enough = "privacy.budget={epsilon=50.0, observer='eavesdropper'}"
    arguments = ("run", private, FULL, enough, "experiment.seed=41", "--out", tmp_path / "out")
    printed = loaded(sottovoce(*arguments, "--json"))
    mu = 0.1 * (2 / 6) * math.sqrt(12) / 0.1  # step (2C/n) sqrt(T) / std, of one run
    one, three = gaussian.epsilon(mu, 1e-5), gaussian.epsilon(mu * math.sqrt(3), 1e-5)
    first = printed["guarantees"][0]
    assert first["epsilon"]["1e-05"] == pytest.approx(one, rel=1e-9)
    assert first["epsilon_of_repeats"]["1e-05"] == pytest.approx(three, rel=1e-9)
    assert printed["repeats"] == printed["budget"]["repeats"] == 3
    assert printed["budget"]["needed"] == pytest.approx(one, rel=1e-9)
    assert printed["budget"]["needed_by_repeats"] == pytest.approx(three, rel=1e-9)
    assert json.loads((tmp_path / "out" / "guarantees.json").read_text())["notes"] == printed["notes"]
    text = sottovoce(*arguments).stdout
    assert max(map(len, text.splitlines())) <= 80
    assert (
        f"which fits. That is one run; all 3 repeats together: {shown(three, 4)}. Simulated: anyone can draw this noise again from seed 41, so "
        f"the models must not be released. The 3 repeats would be 3 releases about the same data; all together have epsilon up to "
        f"{shown(three, 4)}."
    ) in flat(text)


def test_a_run_kept_by_an_older_version_is_shown_with_the_same_warning(sottovoce, private, tmp_path):
    loaded(sottovoce("run", private, FULL, "--out", tmp_path / "out", "--json"))
    kept = tmp_path / "out" / "guarantees.json"
    stated = json.loads(kept.read_text())
    del stated["repeats"]
    kept.write_text(json.dumps({**stated, "notes": []}))
    text = flat(sottovoce("run", private, FULL, "--out", tmp_path / "out").stdout)
    assert "The 3 repeats would be 3 releases about the same data; epsilon of all together is not computed." in text


def test_a_budget_is_that_of_one_run_and_accounting_alone_releases_nothing(sottovoce, private):
    tight = "privacy.budget={epsilon=7.0, observer='eavesdropper'}"  # one run needs less, three together more
    stated = loaded(sottovoce("account", private, FULL, tight, "--json"))
    assert stated["budget"]["needed"] < 7 < stated["budget"]["needed_by_repeats"]
    assert sottovoce("run", private, FULL, tight).exit_code == 0
    assert not any("Simulated" in note for note in stated["notes"])
    single = flat(sottovoce("account", private, FULL, tight, "experiment.repeats=1").stdout)
    assert "which fits." in single
    assert "repeats together" not in single


def test_run_beyond_its_budget_has_exit_code_3_and_leaves_nothing(sottovoce, private, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    result = sottovoce("run", private, EXCEEDED)
    assert result.exit_code == 3
    assert result.stdout == ""
    assert "the budget is 1" in result.stderr
    assert "Traceback" not in result.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_run_until_spent_stops_in_time(sottovoce, private, tmp_path):
    budget = "privacy.budget={epsilon=3.0, observer='eavesdropper', until_spent=true}"
    printed = loaded(sottovoce("run", private, FULL, budget, "--out", tmp_path / "out", "--json"))
    run = load(tmp_path / "out")
    assert 1 <= run.rounds < 12
    assert 0 <= printed["final_metrics"]["epsilon_left"]["mean"] < 3.0
    left = loaded(sottovoce("account", private, FULL, f"experiment.rounds={run.rounds + 1}", "--json"))
    assert epsilons(left)["eavesdropper"] > 3.0
    np.testing.assert_array_less(0, run.metrics["epsilon_spent"])


def test_run_does_not_start_without_a_proof(sottovoce, private, tmp_path):
    result = sottovoce("run", private, "noise.self_noise=false", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "eavesdropper" in result.stderr
    assert not (tmp_path / "out").exists()
    shown = sottovoce("--debug", "run", private, "noise.self_noise=false", "--out", tmp_path / "out")
    assert isinstance(shown.exception, UnsupportedClaim)


def test_installed_commands_answer_alike(private, tmp_path):
    command = Path(sys.executable).with_name("sottovoce")
    wanted = {
        ("account", private, "--json"): 0,
        ("calibrate", private, "--epsilon", "2", "--json"): 0,
        ("gradients", private, "--json"): 0,
        ("run", private, "--out", "out", "--json"): 0,
        ("run", private, EXCEEDED): 3,
    }
    running = {
        arguments: subprocess.Popen(
            [command, *arguments], cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for arguments in wanted
    }
    for arguments, process in running.items():
        out, error = process.communicate(timeout=120)
        assert process.returncode == wanted[arguments], error
        if wanted[arguments] == 0:
            assert json.loads(out)
        else:
            assert out == ""
            assert error.startswith("sottovoce: ")
    assert (tmp_path / "out" / "guarantees.json").is_file()
    assert not (tmp_path / "runs").exists()


MASKED = """
[experiment]
name = "masked"
rounds = 3
[topology]
kind = "federation"
agents = 60
[problem]
kind = "mean_estimation"
data = "truncated_gaussian"
samples = 1
dimension = 2
radius = 1.0
[algorithm]
kind = "fedavg"
step_size = 0.1
aggregation = "gopa"
partners = 20
silence = 0.1
minimum_agents = 50
[noise]
kind = "independent"
law = "gaussian"
epsilon = 1.0
[privacy]
unit = "agent"
clip = 1.0
clip_norm = "l2"
clips = "update"
delta = 1e-5
observers = ["colluding_server:0.25", "server"]
"""


def small_masks(small):
    path = small.with_name("small_masks.toml")
    path.write_text(MASKED.replace("partners = 20", "partners = 20\npairwise_ratio = 2.0"))
    return path


def test_account_of_masked_averages_has_a_row_for_every_coalition(sottovoce, small):
    small.write_text(MASKED)
    stated = loaded(sottovoce("account", small, "--json"))
    rows = {row["colluding"]: row for row in stated["coalitions"]}
    assert rows[0.25]["epsilon"] == pytest.approx(1.0, rel=1e-5)
    assert rows[0.0]["honest"] == 50
    assert rows[0.5]["honest"] == 20
    assert [row["masks_count"] for row in stated["coalitions"]] == [True, True, True, True, False, False]
    assert {row["validity"] for row in stated["coalitions"]} == {"sent-messages"}
    # Gaussian masks over three rounds: nothing is proved for so few agents, although the graph is as good.
    gaussian = [row["masks_count"] for row in loaded(sottovoce("account", small_masks(small), "--json"))["coalitions"]]
    assert not any(gaussian)
    values = [row["epsilon"] for row in stated["coalitions"]]
    assert values == sorted(values)
    shown = flat(sottovoce("account", small).stdout)
    assert "the relay and a share of the agents" in shown
    assert "More partners" in shown  # three quarters of the agents leave a graph that falls apart


def test_masks_shared_with_all_others_are_those_of_one_agent_less_than_there_are(sottovoce, small):
    rows = []
    for partners in ('"all"', "59"):
        small.write_text(MASKED.replace("partners = 20", f"partners = {partners}"))
        rows.append(loaded(sottovoce("account", small, "--json"))["coalitions"])
    assert rows[0] == rows[1]
    assert all(row["graph_risk"] == 0 for row in rows[0][:4])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("partners = 20\n", ""), "needs partners"),
        (('aggregation = "gopa"\n', ""), 'belong to aggregation = "gopa"'),
        (("minimum_agents = 50\n", ""), "silence needs minimum_agents"),
        (("partners = 20", "partners = 0"), 'partners: write a whole number of at least 1, or "all"'),
        (("partners = 20", 'partners = "al"'), "for every other agent; given 'al'"),
        (("partners = 20", "partners = 60"), "must be below the number of agents"),
        (("silence = 0.1", "participation = 0.5"), "everybody takes part who is not silent"),
        (('kind = "independent"', 'kind = "central"'), "noise of its own"),
        (('"colluding_server:0.25"', '"colluding_server:1.5"'), "colluding_server:0.5"),
    ],
)
def test_masks_that_do_not_fit_are_refused_in_one_sentence(sottovoce, small, change, message):
    assert change[0] in MASKED
    small.write_text(MASKED.replace(*change))
    result = sottovoce("account", small)
    assert result.exit_code == 2
    assert message in flat(result.stderr)


def test_an_exact_pure_epsilon_of_an_earlier_version_is_said_to_be_exact_at_zero():
    row = {"validity": "exact", "pure_epsilon": 3.0, "epsilon": {"1e-05": pure.epsilon(3.0, 1e-5)}}
    assert guarantees._validity(row) == "exact at 0"
    assert guarantees._validity({**row, "epsilon": {"1e-05": 2.5}}) == "exact"
    assert guarantees._validity({**row, "validity": "sent-messages"}) == "sent-messages"
    assert guarantees._validity({**row, "pure_epsilon": None}) == "exact"
