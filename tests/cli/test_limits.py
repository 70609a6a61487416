"""What cannot fit, cannot end or cannot be computed: one paragraph, exit code 2, nothing left behind."""

import pytest

HUGE = 10**12
PRIVATE = """
[privacy]
unit = "agent"
clip = 1.0
clip_norm = "l2"
delta = 0.02
observers = ["eavesdropper"]
"""


@pytest.fixture
def private(small):
    small.write_text(small.read_text().replace("ridge = 0.1", "ridge = 0.0").replace("batch_size = 2", "") + PRIVATE)
    return small


def refused(result, tmp_path):
    assert result.exit_code == 2, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert [path.name for path in tmp_path.iterdir()] == ["small.toml"]
    said = result.stderr.split("sottovoce: ")[1].strip()
    assert "\n" not in said
    return said


@pytest.mark.parametrize("command", ["run", "account", "pairwise", "gradients", "calibrate", "audit"])
@pytest.mark.parametrize(
    "override",
    [
        f"experiment.rounds={HUGE}",
        f"topology.agents={HUGE}",
        f"problem.samples={HUGE}",
        f"problem.dimension={HUGE}",
    ],
)
def test_sizes_that_cannot_fit_are_refused_by_every_command(sottovoce, private, tmp_path, command, override):
    more = {"calibrate": ("--epsilon", 1), "audit": ("--pairs", 100, "--confidence", 0.9)}.get(command, ())
    said = refused(sottovoce(command, private, override, *more), tmp_path)
    assert "would need" in said
    assert "iB are free" in said


@pytest.mark.parametrize("repeats", [10**9, HUGE])
def test_repeats_that_cannot_fit_are_refused(sottovoce, small, tmp_path, repeats):
    said = refused(sottovoce("run", small, f"experiment.repeats={repeats}"), tmp_path)
    assert "metrics (rounds x repeats x schemes)" in said


@pytest.mark.parametrize("pairs", [10**10, HUGE])
def test_pairs_that_cannot_fit_are_refused(sottovoce, private, tmp_path, pairs):
    assert f"{pairs:,} pairs of runs" in refused(
        sottovoce("audit", private, "--pairs", pairs, "--confidence", 0.9), tmp_path
    )


@pytest.mark.parametrize(
    ("override", "because"),
    [
        ("algorithm.step_size=1e300", "should be less than or equal to"),
        ("privacy.clip=1e12", "double precision does not resolve"),
    ],
)
def test_an_audit_whose_numbers_fail_does_not_blame_the_guarantee(sottovoce, private, tmp_path, override, because):
    said = refused(sottovoce("audit", private, override, "--pairs", 100, "--confidence", 0.9), tmp_path)
    assert because in said


def test_a_long_audit_says_how_long_before_it_starts(sottovoce, private, monkeypatch):
    from sottovoce.experiments import audit

    monkeypatch.setattr(audit, "LONG", 1e-9)
    result = sottovoce("audit", private, "--pairs", 100, "--confidence", 0.9)
    assert "100 runs of each of two worlds, about 1 second" in " ".join(result.stderr.split())
