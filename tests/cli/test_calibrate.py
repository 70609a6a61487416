"""calibrate: two of epsilon, delta and noise give the third, on the safe side of rounding."""

import json
import math
from pathlib import Path

import mpmath
import pytest
from dp_accounting.pld import privacy_loss_distribution

PRIVACY = """
[privacy]
unit = "record"
clip = 1.0
clip_norm = "l2"
delta = 1e-5
observers = ["eavesdropper"]
"""
EVERYBODY = 'privacy.observers=["eavesdropper", "curious_agent:0", "final_model"]'
CTA = "algorithm={kind='cta', step_size=0.1}"
NOISES = [
    "noise={kind='independent', law='gaussian', std=0.1}",
    "noise={kind='independent', law='laplace', std=0.1}",
    "noise={kind='independent', law='l2_laplace', scale=0.1}",
    "noise={kind='independent', law='gaussian', epsilon=9.0}",
    "noise={kind='gopa', law='gaussian', std=0.1, pairwise_std=0.3}",
]
LAPLACE = NOISES[1]
STEP, SENSITIVITY, ROUNDS = 0.1, 2 / 2, 12  # of the file: 2C / batch size


@pytest.fixture
def private(small: Path) -> Path:
    small.write_text(small.read_text() + PRIVACY)
    return small


@pytest.fixture
def without_delta(small: Path) -> Path:
    small.write_text(small.read_text() + PRIVACY.replace("delta = 1e-5\n", ""))
    return small


def loaded(result):
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def first_epsilon(stated):
    (value,) = stated["guarantees"][0]["epsilon"].values()
    return value


def flat(text: str) -> str:
    """Text without the line breaks of a terminal."""
    return " ".join(text.split())


def gaussian_mu(std):
    """A reader of all messages of ATC with self-noise: step Delta sqrt(T) / std."""
    return STEP * SENSITIVITY * math.sqrt(ROUNDS) / std


def gaussian_delta(mu, epsilon):
    """The exact curve (Balle & Wang 2018) with 60 digits."""
    with mpmath.workdps(60):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        upper, lower = (mpmath.ncdf(-epsilon / mu + sign * mu / 2) for sign in (1, -1))
        return upper - mpmath.exp(epsilon) * lower


def gaussian_epsilon(mu, delta):
    """By bisection of the exact delta."""
    low, high = 0.0, 200.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(mu, middle) > delta else (low, middle)
    return high


@pytest.mark.parametrize("std", [0.0731, 0.1, 0.37, 2.9])
def test_noise_gives_the_exact_epsilon_rounded_up(sottovoce, private, std):
    found = loaded(sottovoce("calibrate", private, "--noise", std, "--json"))
    exact = gaussian_epsilon(gaussian_mu(std), 1e-5)
    assert (found["asked_for"], found["std"], found["delta"]) == ("epsilon", std, 1e-5)
    assert exact * (1 - 1e-12) <= found["epsilon"] <= exact * (1 + 1.01e-6)
    text = sottovoce("calibrate", private, "--noise", std).stdout
    assert f"std = {std} gives eavesdropper epsilon = {found['epsilon']!r} at delta = 1e-05." in text
    assert len(repr(found["epsilon"]).replace(".", "").lstrip("0")) <= 7


@pytest.mark.parametrize(("std", "epsilon"), [(0.731, 2.0), (0.37, 0.5), (0.37, 0.0), (0.9, 12.3456789), (2.9, 3.0)])
def test_epsilon_and_noise_give_the_exact_delta_rounded_up(sottovoce, private, std, epsilon):
    options = ("--epsilon", epsilon, "--noise", std)
    found = loaded(sottovoce("calibrate", private, *options, "--json"))
    exact = gaussian_delta(gaussian_mu(std), epsilon)
    assert (found["asked_for"], found["std"], found["epsilon"]) == ("delta", std, epsilon)
    assert exact * (1 - 1e-12) <= found["delta"] <= exact * (1 + 1.01e-5)
    assert found["guarantees"][0]["epsilon"] == {f"{found['delta']:g}": pytest.approx(epsilon, rel=1e-5, abs=1e-5)}
    assert float(f"{found['delta']:g}") == found["delta"]
    text = sottovoce("calibrate", private, *options).stdout
    shown = repr(epsilon).removesuffix(".0")
    assert f"std = {std} gives eavesdropper epsilon = {shown} at delta = {found['delta']!r}." in text


@pytest.mark.parametrize("noise", NOISES)
def test_the_noise_found_gives_back_epsilon_and_delta(sottovoce, private, noise):
    def third(*options):
        return loaded(sottovoce("calibrate", private, noise, *options, "--json"))

    found = third("--epsilon", 2, "--delta", 1e-4)
    size = found["scale" if "l2" in noise else "std"]
    assert found["asked_for"] == "noise"
    assert 2 * (1 - 1e-5) <= third("--noise", size, "--delta", 1e-4)["epsilon"] <= 2
    # Seven digits of noise hold fewer of delta: d ln(delta) is about 20 d ln(std) for Gaussian noise, and for a pure
    # epsilon near 2 about 2 d ln(std) / delta.
    off = 2e-6 * (50 if "gaussian" in noise else 2.5 / 1e-4)
    delta = third("--noise", size, "--epsilon", 2)["delta"]
    assert 1e-4 * (1 - off) <= delta <= 1e-4
    assert 2 * (1 - 1e-5) <= third("--noise", size, "--delta", delta)["epsilon"] <= 2
    assert third("--noise", size * 2 / 3, "--delta", 1e-4)["epsilon"] > 2 * 1.4


@pytest.mark.parametrize("noise", NOISES)
def test_the_delta_found_gives_back_the_noise(sottovoce, private, noise):
    delta = loaded(sottovoce("calibrate", private, noise, "--epsilon", 2, "--noise", 0.4, "--json"))["delta"]
    found = loaded(sottovoce("calibrate", private, noise, "--epsilon", 2, "--delta", delta, "--json"))
    size = found["scale" if "l2" in noise else "std"]
    assert size == pytest.approx(0.4, rel=1e-5)


def test_laplace_noise_needs_no_delta(sottovoce, without_delta):
    scale, l1_sensitivity = 0.8 / math.sqrt(2), math.sqrt(2) * SENSITIVITY  # two coordinates
    pure = ROUNDS * STEP * l1_sensitivity / scale
    for options in (("--delta", 0), ()):
        found = loaded(sottovoce("calibrate", without_delta, LAPLACE, "--noise", 0.8, *options, "--json"))
        assert pure * (1 - 1e-12) <= found["epsilon"] <= pure * (1 + 1.01e-6)
        assert found["delta"] == 0
    assert found["overrides"] == ["noise.std=0.8"]


def test_a_delta_of_zero_replaces_that_of_the_file(sottovoce, private):
    zero, given = (
        loaded(sottovoce("calibrate", private, LAPLACE, "--noise", 0.8, *options, "--json"))
        for options in (("--delta", 0), ())
    )
    assert (zero["delta"], given["delta"]) == (0, 1e-5)
    pure, rounds = zero["guarantees"][0]["pure_epsilon"], zero["guarantees"][0]["rounds"]
    by_another = privacy_loss_distribution.from_laplace_mechanism(rounds / pure, value_discretization_interval=1e-4)
    expected = by_another.self_compose(rounds).get_epsilon_for_delta(1e-5)
    assert first_epsilon(given) == pytest.approx(expected, rel=1e-3)


def test_laplace_delta_is_zero_from_the_pure_epsilon_on(sottovoce, private):
    zero = loaded(sottovoce("calibrate", private, LAPLACE, "--noise", 0.8, "--delta", 0, "--json"))
    pure, rounds = zero["epsilon"], zero["guarantees"][0]["rounds"]
    options = (LAPLACE, "--noise", 0.8, "--epsilon")
    assert "at delta = 0." in sottovoce("calibrate", private, *options, pure * (1 + 1e-9)).stdout
    below = loaded(sottovoce("calibrate", private, *options, 2, "--json"))["delta"]
    by_another = privacy_loss_distribution.from_laplace_mechanism(rounds / pure, value_discretization_interval=1e-4)
    assert below == pytest.approx(by_another.self_compose(rounds).get_delta_for_epsilon(2.0), rel=1e-2)


def test_a_delta_too_small_for_floating_point_is_said_to_be_smaller(sottovoce, private):
    options = ("--epsilon", 300, "--noise", 0.8)
    with mpmath.workdps(60):
        assert 0 < gaussian_delta(gaussian_mu(0.8), 300) < mpmath.mpf("1e-320")
    found = loaded(sottovoce("calibrate", private, *options, "--json"))
    assert found["delta"] == 1e-300
    assert "The smallest delta is below 1e-300, which is stated instead." in found["notes"]
    assert "epsilon = 300 at delta below 1e-300." in sottovoce("calibrate", private, *options).stdout
    assert "below" not in sottovoce("calibrate", private, "--noise", 0.8, "--delta", 1e-300).stdout


def test_infinite_epsilon_comes_with_its_reason(sottovoce, private):
    options = (CTA, "--noise", 0.8, "--observer", "final_model")
    found = loaded(sottovoce("calibrate", private, *options, "--json"))
    assert found["epsilon"] is None
    assert found["guarantees"][0]["validity"] == "infinite"
    result = sottovoce("calibrate", private, *options)
    assert result.exit_code == 0
    assert "gives final model no guarantee: epsilon is infinite." in flat(result.stdout)
    assert "inf for final model: The last gradient is added after the last exchange" in flat(result.stdout)
    assert "To use it" not in result.stdout


def test_delta_one_comes_with_its_reason(sottovoce, private):
    options = (CTA, "--noise", 0.8, "--epsilon", 2, "--observer", "final_model")
    found = loaded(sottovoce("calibrate", private, *options, "--json"))
    assert (found["epsilon"], found["delta"], found["std"]) == (2, 1, 0.8)
    assert [row["validity"] for row in found["guarantees"]] == ["infinite"]
    assert "delta" not in " ".join(found["overrides"])
    result = sottovoce("calibrate", private, *options)
    assert result.exit_code == 0
    assert "final model no guarantee: at epsilon = 2, delta is 1. The last gradient is added" in flat(result.stdout)


def test_hardly_any_noise_hides_nothing_and_gives_no_false_reason(sottovoce, private):
    text = flat(sottovoce("calibrate", private, "--noise", 1e-3, "--epsilon", 2).stdout)
    assert text.endswith("delta is 1. So little noise hides nothing at this epsilon.")


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--delta", 1e-5),
        ("--epsilon", 2, "--delta", 1e-5, "--noise", 0.1),
        ("noise={kind='independent', law='gaussian', epsilon=9.0}",),
    ],
)
def test_too_few_or_too_many_numbers_are_refused_with_the_three_uses(sottovoce, private, options):
    result = sottovoce("calibrate", private, *options)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.count("finds") == 3
    for use in ("--epsilon E [--delta D]", "--noise SIZE [--delta D]", "--epsilon E --noise SIZE"):
        assert use in result.stderr


def test_help_explains_the_three_uses(sottovoce):
    text = flat(sottovoce("calibrate", "--help").stdout)
    for use in ("--epsilon E [--delta D] finds", "--noise SIZE [--delta D] finds", "--epsilon E --noise SIZE finds"):
        assert use in text


def test_a_file_without_delta_can_be_asked_for_one(sottovoce, without_delta):
    found = loaded(sottovoce("calibrate", without_delta, "--epsilon", 2, "--noise", 0.8, "--json"))
    again = loaded(sottovoce("account", without_delta, *found["overrides"], "--json"))
    assert 2 * (1 - 1e-5) < first_epsilon(again) <= 2
    refused = sottovoce("calibrate", without_delta, "--noise", 0.8)
    assert refused.exit_code == 2
    assert "delta" in refused.stderr


def test_an_epsilon_of_the_file_that_no_noise_meets_does_not_stand_in_the_way(sottovoce, private):
    impossible = ("noise={kind='independent', law='gaussian', epsilon=9.0}", CTA, 'privacy.observers=["final_model"]')
    assert sottovoce("account", private, *impossible).exit_code == 2
    for options in (("--noise", 0.8), ("--epsilon", 2)):
        stated = loaded(sottovoce("calibrate", private, *impossible, *options, "--observer", "eavesdropper", "--json"))
        assert stated["epsilon"] < math.inf


def test_the_delta_that_a_file_gives_to_its_noise_counts_and_is_kept(sottovoce, without_delta):
    noise = "noise={kind='independent', law='gaussian', epsilon=9.0, delta=1e-3}"
    found = loaded(sottovoce("calibrate", without_delta, noise, "--epsilon", 2, "--json"))
    pasted = [override.strip("'") for override in found["overrides"]]
    again = loaded(sottovoce("account", without_delta, *pasted, "--json"))
    assert found["delta"] == again["delta"] == 1e-3
    assert 2 * (1 - 1e-5) < first_epsilon(again) <= 2


def test_noise_of_pairs_keeps_its_proportion_rounded_up(sottovoce, private):
    for std, pairwise, size, expected in ((0.1, 0.3, 0.2, 0.6), (0.3, 0.1, 0.1, 0.03333334), (0.1, 1 / 3, 0.1, 1 / 3)):
        noise = f"noise={{kind='gopa', law='gaussian', std={std}, pairwise_std={pairwise!r}}}"
        found = loaded(sottovoce("calibrate", private, noise, "--noise", size, "--json"))
        assert found["overrides"] == [f"noise.std={size}", f"noise.pairwise_std={expected!r}"]
        again = loaded(sottovoce("account", private, noise, *found["overrides"], "--json"))
        assert first_epsilon(again) == first_epsilon(found) <= found["epsilon"]


@pytest.mark.parametrize("noise", NOISES)
def test_what_calibrate_prints_gives_the_epsilon_asked_for(sottovoce, private, noise):
    found = loaded(sottovoce("calibrate", private, noise, EVERYBODY, "--epsilon", "2", "--json"))
    pasted = [override.strip("'") for override in found["overrides"]]
    again = loaded(sottovoce("account", private, noise, EVERYBODY, *pasted, "--json"))
    assert found["observer"] == again["guarantees"][0]["observer"] == "eavesdropper"
    assert 2 * (1 - 1e-5) < first_epsilon(again) <= 2
    for ours, theirs in zip(found["guarantees"], again["guarantees"], strict=True):
        assert ours["epsilon"] == pytest.approx(theirs["epsilon"], rel=1e-6)
    text = sottovoce("calibrate", private, noise, EVERYBODY, "--epsilon", "2").stdout
    assert " ".join(found["overrides"]) in text
    assert "curious agent 0" in text


def test_calibrate_for_another_observer_and_delta(sottovoce, private):
    options = ("--epsilon", "2", "--delta", "1e-6", "--observer", "coalition:1,2+final_model", "--json")
    found = loaded(sottovoce("calibrate", private, EVERYBODY, *options))
    row = found["guarantees"][0]
    assert row["observer"] == "coalition 1, 2 + final model"
    assert row["epsilon"] == {"1e-06": pytest.approx(2.0, rel=1e-5)}
    assert [other["observer"] for other in found["guarantees"][1:]] == [
        "eavesdropper",
        "eavesdropper + final model",
        "curious agent 0",
        "curious agent 0 + final model",
        "final model",
    ]


def test_calibrate_needs_no_observers_in_the_file_and_leaves_it(sottovoce, small):
    small.write_text(small.read_text() + PRIVACY.partition("delta")[0])
    before = small.read_bytes()
    refused = sottovoce("calibrate", small, "--epsilon", "2")
    assert refused.exit_code == 2
    assert "--observer" in refused.stderr
    without_delta = sottovoce("calibrate", small, "--epsilon", "2", "--observer", "eavesdropper")
    assert without_delta.exit_code == 2
    assert "delta" in without_delta.stderr
    options = ("--epsilon", "2", "--observer", "eavesdropper", "--delta", "1e-5", "--json")
    assert first_epsilon(loaded(sottovoce("calibrate", small, *options))) == pytest.approx(2, rel=1e-5)
    assert small.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--epsilon", "-1"], "epsilon = -1"),
        (["--epsilon", "nan"], "epsilon"),
        (["--epsilon", "inf"], "epsilon"),
        (["--epsilon", "0"], "epsilon = 0.0"),
        (["--epsilon", "2", "--delta", "1.5"], "delta = 1.5"),
        (["--epsilon", "2", "--delta", "nan"], "delta = nan"),
        (["--epsilon", "2", "--delta", "0"], "Give a --delta above 0"),
        (["--noise", "0.1", "--delta", "0"], "Give a --delta above 0"),
        (["--noise", "0.1", "--epsilon", "-1"], "epsilon = -1"),
        (["--noise", "0"], "noise = 0.0"),
        (["--noise", "-1"], "noise = -1"),
        (["--noise", "inf", "--epsilon", "2"], "noise = inf"),
        (["--noise", "nan"], "noise = nan"),
        (["--epsilon", "2", "--observer", "curious_agent:9"], "there is no agent 9"),
        (["--epsilon", "2", "--observer", "nobody"], "unknown observer 'nobody'"),
        (["noise={kind='none'}", "--epsilon", "2"], "no size to calibrate"),
        (["noise={kind='none'}", "--noise", "2"], "no size to calibrate"),
        (["algorithm={kind='cta', step_size=0.1}", "--epsilon", "2", "--observer", "final_model"], "no amount of"),
    ],
)
def test_calibrate_refuses_what_cannot_be_met(sottovoce, private, arguments, expected):
    result = sottovoce("calibrate", private, *arguments)
    assert result.exit_code == 2
    assert expected in result.stderr
