"""Sizes are estimated before anything is made: what cannot fit is refused in one sentence, what fits is not."""

import subprocess
import sys

import pytest

import sottovoce as sv
from sottovoce import resources

HUGE = 10**12


@pytest.mark.parametrize(
    "make",
    [
        lambda: sv.topologies.ring(HUGE),
        lambda: sv.topologies.path(HUGE),
        lambda: sv.topologies.grid(10**6, 10**6),
        lambda: sv.topologies.complete(10**5),
        lambda: sv.topologies.star(HUGE),
        lambda: sv.topologies.hypercube(24),
        lambda: sv.topologies.erdos_renyi(10**7, 0.5),
        lambda: sv.topologies.geometric(10**7, 2.0),
        lambda: sv.topologies.k_out(HUGE, 3),
        lambda: sv.topologies.from_edges(HUGE, [(0, 1)]),
    ],
)
def test_a_graph_that_cannot_fit_is_refused_with_both_numbers(make, monkeypatch):
    monkeypatch.setattr(resources, "free_memory", lambda: 8 * 2**30)
    with pytest.raises(sv.ConfigError, match=r"agents and about .* links, and would need .*iB of memory and 8 GiB are"):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: sv.problems.synthetic_regression(num_agents=3, samples=HUGE, dimension=2, seed=0),
        lambda: sv.problems.synthetic_regression(num_agents=HUGE, samples=3, dimension=2, seed=0),
        lambda: sv.problems.synthetic_regression(num_agents=3, samples=3, dimension=HUGE, seed=0),
        lambda: sv.problems.truncated_gaussian(num_agents=3, samples=HUGE, dimension=2, radius=1.0, seed=0),
        lambda: sv.problems.synthetic_clicks(num_records=HUGE, seed=0),
        lambda: sv.problems.synthetic_clicks(num_records=10, num_fields=HUGE, seed=0),
    ],
)
def test_records_that_cannot_fit_are_refused(make):
    with pytest.raises(sv.ConfigError, match=r"would need .*iB of memory and .*iB are free\. Lower"):
        make()


MADE = {
    "ring(1_000_000)": "sv.topologies.ring(1_000_000)",
    "complete(3000)": "sv.topologies.complete(3000)",
    "k_out(200_000, 5)": "sv.topologies.k_out(200_000, 5)",
    "erdos_renyi": "sv.topologies.erdos_renyi(4000, 0.3)",
    "regression": "sv.problems.synthetic_regression(num_agents=10, samples=100_000, dimension=10, seed=0)",
    "wide regression": "sv.problems.synthetic_regression(num_agents=2, samples=10, dimension=3000, seed=0)",
    "points": "sv.problems.truncated_gaussian(num_agents=10, samples=100_000, dimension=10, radius=1.0, seed=0)",
    "clicks": "sv.problems.synthetic_clicks(num_records=200_000, seed=0)",
}


@pytest.mark.slow
@pytest.mark.parametrize("call", MADE.values(), ids=MADE.keys())
def test_the_estimate_is_within_a_factor_of_two_of_the_peak(call):
    script = f"""
import importlib
import numpy, scipy.special, scipy.optimize, scipy.sparse.csgraph, scipy.spatial
import sottovoce as sv
asked = []
def told(what, needed, remedy): asked.append(needed)
for name in ("topologies.graphs", "problems.synthetic", "problems.synthetic_clicks", "problems.synthetic_points"):
    importlib.import_module("sottovoce." + name).refuse_too_large = told
sv.topologies.ring(3), sv.topologies.erdos_renyi(10, 0.9)
asked.clear()
def status(name):  # of this program alone: ru_maxrss would start with that of the program which started it
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))
def start():  # forget the peak of everything before
    open("/proc/self/clear_refs", "w").write("5")
    return status("VmRSS")
before = start()
kept = {call}
print(asked[0], status("VmHWM") - before)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    estimated, measured = map(float, done.stdout.split())
    assert measured / 2 < estimated < 2 * measured


def test_a_limit_of_a_container_counts(tmp_path, monkeypatch):
    (tmp_path / "meminfo").write_text("MemTotal: 9000 kB\nMemAvailable: 4000 kB\n")
    (tmp_path / "group").write_text("0::/inner\n")
    (tmp_path / "fs" / "inner").mkdir(parents=True)
    (tmp_path / "fs" / "inner" / "memory.max").write_text("3000000\n")
    (tmp_path / "fs" / "inner" / "memory.current").write_text("1000000\n")
    monkeypatch.setattr(resources, "_MEMORY", tmp_path / "meminfo")
    monkeypatch.setattr(resources, "_GROUPS", tmp_path / "group")
    monkeypatch.setattr(resources, "_MOUNTED", tmp_path / "fs")
    assert resources.free_memory() == 2_000_000
    (tmp_path / "fs" / "inner" / "memory.max").write_text("max\n")
    assert resources.free_memory() == 4000 * 1024
    (tmp_path / "group").write_text("4:memory:/elsewhere/on/the/host\n0::/\n")
    (tmp_path / "fs" / "memory").mkdir()
    (tmp_path / "fs" / "memory" / "memory.limit_in_bytes").write_text("700\n")
    (tmp_path / "fs" / "memory" / "memory.usage_in_bytes").write_text("200\n")
    assert resources.free_memory() == 500


def test_nothing_is_refused_where_the_machine_does_not_say(tmp_path, monkeypatch):
    for name in ("_MEMORY", "_GROUPS", "_MOUNTED"):
        monkeypatch.setattr(resources, name, tmp_path / "none")
    assert resources.free_memory() is None
    resources.refuse_too_large("anything", 1e30, "Nothing.")


def test_sizes_and_times_are_said_for_people():
    assert resources.in_bytes(109 * 2**40) == "109 TiB"
    assert resources.in_bytes(1536) == "1.5 KiB"
    assert resources.in_time(3 * 3600) == "about 3 hours"
    assert resources.in_time(60) == "about 1 minute"
    with pytest.raises(sv.ConfigError, match=r"a run would take about 3 years, and more than a year is refused\. Less"):
        resources.refuse_too_long("a run", 3 * resources.LONGEST, "Less.")
