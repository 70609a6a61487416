"""The federated benchmark without its peers: it runs, names who is missing, and compares rightly. Nothing is said about time."""

import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def federated():
    """The benchmark as a module; it imports its neighbours by name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        names = ("federated", "engine", "measure")
        for name in names:
            patch.delitem(sys.modules, name, raising=False)
        yield importlib.import_module("federated")
        for name in names:
            sys.modules.pop(name, None)


def turn_of(federated, name, *, seconds, after, processor=None, compiler=None):
    """A turn whose models are those after `after` rounds where all are compared, and nothing elsewhere."""
    data, lengths = federated.make_data(), federated.COMPETITORS[name].rounds(quick=False)
    model = federated.reference_model(data, after)
    turn = {
        "versions": {},
        "start_up": 1.0,
        "seconds": seconds,
        "models": [model.tolist() if rounds == federated.COMMON else None for rounds in lengths],
    }
    turn |= {"cpu_seconds": processor} if processor else {}
    return turn | ({"compile_seconds": compiler or [0.0] * len(lengths)} if name == "sottovoce" else {})


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    output = tmp_path_factory.mktemp("benchmark") / "federated.json"
    finished = subprocess.run(
        [sys.executable, str(FOLDER / "federated.py"), "--quick", "--skip", "flower", "--skip", "pfl", "--output", str(output)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    return finished.stdout, json.loads(output.read_text())


def test_without_peers_our_rate_and_the_missing_peers_are_reported(quick):
    printed, results = quick
    assert results["facts"]["quick"]
    assert set(results["competitors"]) == {"sottovoce"}
    ours = results["competitors"]["sottovoce"]
    assert ours["rounds_per_second"]["median"] > 0
    assert ours["start_up_seconds"] > 0
    assert results["ratios"] == results["cpu_ratios"] == {}
    assert results["skipped"] == {name: "left out with --skip" for name in ("flower", "pfl")}
    for name in results["skipped"]:
        assert f"{name} is skipped: left out with --skip" in printed
        assert results["besides"][name] in printed


def test_seconds_of_the_compiler_are_never_negative(quick, federated):
    _, results = quick
    assert results["competitors"]["sottovoce"]["compilation_seconds"] > 0
    stored = json.loads(federated.RESULTS.read_text())["competitors"]["sottovoce"]
    assert stored["compilation_seconds"] is None or stored["compilation_seconds"] > 0


def test_our_model_is_that_of_float64_numpy(quick):
    _, results = quick
    ours = results["competitors"]["sottovoce"]
    assert ours["agrees"]
    assert ours["relative_difference"] < 1e-5


def test_ratios_are_of_differences_between_long_and_short_runs_within_each_turn(federated):
    # Seconds per round by hand. Ours: 16384 more rounds in 2 and 4 s; Flower: 20 more in 10 and 4 s; pfl: 400 more in 5 and 20 s.
    turns = {
        "flower": [
            turn_of(federated, "flower", seconds=[9.0, 3.0, 13.0], after=25),
            turn_of(federated, "flower", seconds=[8.0, 1.0, 5.0], after=25),
        ],
        "sottovoce": [
            turn_of(
                federated,
                "sottovoce",
                seconds=[2.0, 1.5, 0.5, 2.5],
                after=25,
                processor=[2.0, 1.0, 0.5, 1.5],
                compiler=[1.5, 1.0, 0.1, 0.0],
            ),
            turn_of(
                federated,
                "sottovoce",
                seconds=[2.0, 1.5, 1.0, 5.0],
                after=25,
                processor=[2.0, 1.0, 0.5, 1.5],
                compiler=[1.5, 0.5, 0.1, 0.0],
            ),
        ],
        "pfl": [
            turn_of(federated, "pfl", seconds=[0.1, 1.0, 6.0], after=25, processor=[0.1, 1.0, 5.0]),
            turn_of(federated, "pfl", seconds=[0.1, 1.0, 21.0], after=25, processor=[0.1, 1.0, 5.0]),
        ],
    }
    results = federated.summary(turns, {}, quick=False)
    assert [results["competitors"]["flower"]["rounds_per_second"][key] for key in ("worst", "best")] == [2.0, 5.0]
    assert results["competitors"]["sottovoce"]["rounds_per_second"]["best"] == 8192.0
    assert results["competitors"]["sottovoce"]["compilation_seconds"] == 0.75  # the compiler's own, of the second run
    first, second = (10 / 20) / (2 / 16384), (4 / 20) / (4 / 16384)  # 4096 and 819.2
    assert results["ratios"]["flower"] == pytest.approx(
        {
            "median": (first + second) / 2,
            "worst": second,
            "best": first,
            "target": 300,
            "reached": True,
            "reached_in_worst_turn": True,
        }
    )
    pfl = results["ratios"]["pfl"]
    assert (pfl["worst"], pfl["best"]) == pytest.approx(((5 / 400) / (2 / 16384), (20 / 400) / (4 / 16384)))
    assert results["cpu_ratios"]["pfl"]["median"] == pytest.approx((4 / 400) / (1 / 16384))
    assert "flower" not in results["cpu_ratios"]


def test_whoever_computes_something_else_is_not_compared(federated, capsys):
    # One round too few is far above the tolerance.
    turns = {
        "sottovoce": [turn_of(federated, "sottovoce", seconds=[2.0, 1.5, 0.5, 2.5], after=25)],
        "pfl": [turn_of(federated, "pfl", seconds=[0.1, 1.0, 6.0], after=24)],
    }
    results = federated.summary(turns, {"flower": "left out with --skip"}, quick=False)
    assert results["competitors"]["sottovoce"]["agrees"]
    assert not results["competitors"]["pfl"]["agrees"]
    assert results["ratios"] == {}
    federated.print_results({"facts": {"quick": False}, **results})
    assert "pfl        not compared: the models differ" in capsys.readouterr().out


def test_a_client_left_out_shows_in_the_compared_model(federated):
    data = federated.make_data()
    whole = federated.reference_model(data, federated.COMMON)
    fewer = {**data, "features": data["features"][1:], "labels": data["labels"][1:]}
    difference = np.abs(federated.reference_model(fewer, federated.COMMON) - whole).max() / np.abs(whole).max()
    assert difference > 100 * federated.TOLERANCE


def test_everyone_runs_the_common_number_of_rounds_and_ours_keeps_its_compiled_program(federated):
    for chosen in federated.COMPETITORS.values():
        for quick in (False, True):
            lengths = chosen.rounds(quick)
            assert federated.COMMON in lengths
            assert lengths[-2] < lengths[-1]
    for quick in (False, True):
        lengths = federated.COMPETITORS["sottovoce"].rounds(quick)
        assert lengths[-3] == lengths[-2] >= 512


def test_a_machine_too_busy_to_measure_is_said(federated):
    with pytest.raises(SystemExit, match="too busy"):
        federated.seconds_per_round((1, 25, 425), [0.1, 5.0, 4.0])


def test_a_peer_that_cannot_be_installed_gives_one_line_and_is_no_error(federated, tmp_path, capsys, monkeypatch):
    (tmp_path / "flower").mkdir()
    (tmp_path / "flower" / "mine.txt").write_text("not an environment")
    monkeypatch.setattr(federated, "install", guarded(federated.install, tmp_path / "flower"))
    interpreters, skipped = federated.install_peers(tmp_path, ["pfl"])
    assert interpreters == {"sottovoce": sys.executable}
    assert set(skipped) == {"flower", "pfl"}
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("flower is skipped")]
    assert len(lines) == 1
    assert "is not an environment" in lines[0]
    assert (tmp_path / "flower" / "mine.txt").exists()


def guarded(install, expected):
    """Refuse any folder but the expected one, so that a test never installs anything."""

    def checked(requirements, folder):
        assert folder == expected.resolve()
        return install(requirements, folder)

    return checked


def test_an_environment_with_the_same_requirements_is_used_again(federated, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    (tmp_path / "requirements.txt").write_text("first==1\nsecond==2\n")
    assert federated.install(("first==1", "second==2"), tmp_path).installed
    assert not federated.install(("first==1", "second==3"), tmp_path).installed  # and not an environment of ours


def test_a_failing_process_is_named_by_its_last_error(federated, tmp_path):
    with (tmp_path / "log").open("w+") as log:
        problem = federated.run_bounded(
            [sys.executable, "-c", "print('fine'); raise ValueError('no wheel found')"], dict(os.environ), log, 60
        )
    assert problem == "ValueError: no wheel found"


def test_a_process_past_its_limit_leaves_none_of_its_children(federated, tmp_path):
    pid_file = tmp_path / "pid"
    code = (
        "import subprocess, sys, time, pathlib\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(120)'])\n"
        f"pathlib.Path({str(pid_file)!r}).write_text(str(child.pid))\n"
        "time.sleep(120)\n"
    )
    with (tmp_path / "log").open("w+") as log:
        problem = federated.run_bounded([sys.executable, "-c", code], dict(os.environ), log, 3)
    assert problem == "stopped after 3 s"
    pid = int(pid_file.read_text())
    for _ in range(100):  # the child's new parent may need a moment to collect it
        if not running(pid):
            return
        time.sleep(0.05)
    pytest.fail(f"process {pid} is still running")


def running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")  # a zombie is not running
    return not (status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] == "Z")
