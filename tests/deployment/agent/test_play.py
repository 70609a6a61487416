"""What parties play in whole numbers is the recursion in real ones, fed the same noise, to a few units of the lattice."""

import re

import numpy as np
import pytest

import sottovoce as sv
from deployment.agent.cases import (
    DIMENSION,
    FEDERATED,
    GRAPH,
    LATTICE,
    LINKS,
    PROBLEM,
    SCHEMES,
    bound_of,
    every_run,
    peers,
    played,
    public_run,
)
from deployment.agent.recursion import Table, reference

# What is refused, and the words of the reason.
REFUSED = {
    "central": "noise is added by a relay that everybody trusts",
    "local_graph_homomorphic": "can be left with one|cannot be carried|stops adding noise|needs at least two active",
    "graph_homomorphic": "cannot be carried|stops adding noise",
    "designed": "links come and go by a coin|does not cancel when only some|stops adding noise",
    "gopa": "does not cancel when only some|stops adding noise",
    "gradient": "goes on without noise",
    "independent": "cannot be carried|stops adding noise",
}
MEASURED = 4.0  # units after 8 rounds, where no bound is derived: updates clipped as a whole


def compare(runs) -> dict[str, tuple[float, float]]:
    """(units between parties and recursion, bound on them) of every run that is not refused for a reason that is known."""
    found, refused = {}, {}
    for name, run in runs:
        table = Table(1, DIMENSION, run.noise.law)
        try:
            models = played(run, table)
        except sv.IncompatibleChoice as refusal:
            refused[name] = str(refusal)
            continue
        apart = np.abs(models - reference(run, LATTICE, PROBLEM, table)).max() / LATTICE.unit
        found[name] = float(apart), bound_of(run, table)
    for name, reason in refused.items():
        assert re.search(REFUSED[name.split(" / ")[1].partition(",")[0]], reason), (name, reason)
    beyond = {name: one for name, one in found.items() if one[0] > (one[1] or MEASURED)}
    assert not beyond
    return found


def test_the_cases_name_every_algorithm_and_scheme():
    algorithms = {name.partition(",")[0] for name in (*peers(GRAPH), *FEDERATED)}
    assert set(sv.algorithms.ALGORITHMS) - {"random_walk"} <= algorithms
    assert {name.partition(",")[0] for name in SCHEMES} == {*sv.noise.SCHEMES, "designed"}


def test_every_algorithm_with_every_scheme_is_the_recursion_on_fixed_links_and_federations():
    found = compare(every_run(links=("static",), rounds=7))
    assert len(found) == 160
    assert max(apart for apart, _ in found.values()) < 6.0


@pytest.mark.parametrize("kind", ["listed", "dropout", "random pair"])
def test_every_scheme_is_the_recursion_where_links_come_and_go(kind):
    runs = [
        (f"atc / {name} / {kind}", public_run(LINKS[kind], sv.algorithms.atc(step_size=0.05), noise, batch_size=4))
        for name, noise in SCHEMES.items()
    ]
    assert len(compare(runs)) == (12 if kind == "listed" else 10)


@pytest.mark.slow
def test_every_combination_is_the_recursion(capsys):
    found = compare(every_run(batch_sizes=(None, 4), rounds=20))
    assert len(found) > 600
    worst = max(found.items(), key=lambda one: one[1][0])
    bounded = [one for name, one in found.items() if one[1] is not None and not name.startswith("inexact_admm")]
    with capsys.disabled():
        print(f"\n{len(found)} runs of 20 rounds: at most {worst[1][0]:.2f} units apart ({worst[0]});")  # noqa: T201
        print(f"factors from {min(b for _, b in bounded) / 20:.2f} to {max(b for _, b in bounded) / 20:.2f}")  # noqa: T201


def test_a_source_that_is_a_hundred_units_off_is_noticed():
    run = public_run(GRAPH, sv.algorithms.atc(step_size=0.05), SCHEMES["independent"])

    class Another(Table):
        def source(self, position, source, scale):
            return super().source(position, source, scale) + 100 * (position == 7 and source == 2)

    table, other = (kind(1, DIMENSION, run.noise.law) for kind in (Table, Another))
    apart = np.abs(played(run, other) - reference(run, LATTICE, PROBLEM, table)).max() / LATTICE.unit
    assert apart > bound_of(run, table)
