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
    every_run,
    peers,
    played,
    public_run,
)
from deployment.agent.rehearsal import Table, reference

REFUSED_BY_NATURE = {
    "central": "'central' noise is added by a relay",
    "local_graph_homomorphic": "local_graph_homomorphic|cannot be carried",
    "graph_homomorphic": "cannot be carried|stops adding noise",
    "gopa": "does not cancel when only some|stops adding noise",
    "gradient": "goes on without noise",
    "independent": "cannot be carried|stops adding noise",
}


def units_apart(run, seed: int = 1) -> float:
    table = Table(seed, DIMENSION, run.noise.law)
    return float(np.abs(played(run, table) - reference(run, LATTICE, PROBLEM, table)).max() / LATTICE.unit)


def within(runs, limit: float) -> dict[str, float]:
    """The runs that were played, and how many units they are from the recursion; those that are refused say why."""
    found, refused = {}, {}
    for name, run in runs:
        try:
            found[name] = units_apart(run)
        except sv.IncompatibleChoice as refusal:
            refused[name] = str(refusal)
    for name, reason in refused.items():
        assert re.search(REFUSED_BY_NATURE[name.split(" / ")[1].partition(",")[0]], reason), (name, reason)
    assert max(found.values()) <= limit, max(found.items(), key=lambda item: item[1])
    return found


def test_the_cases_name_every_algorithm_and_scheme():
    algorithms = {name.partition(",")[0] for name in (*peers(GRAPH), *FEDERATED)}
    assert set(sv.algorithms.ALGORITHMS) - {"random_walk"} <= algorithms
    assert {name.partition(",")[0] for name in SCHEMES} == set(sv.noise.SCHEMES)


def test_every_algorithm_with_every_scheme_is_the_recursion_on_fixed_links_and_federations():
    found = within(every_run(links=("static",)), limit=6.0)
    assert len(found) == 146


@pytest.mark.parametrize("kind", ["listed", "dropout", "random pair"])
def test_every_scheme_is_the_recursion_where_links_come_and_go(kind):
    runs = [
        (f"atc / {name} / {kind}", public_run(LINKS[kind], sv.algorithms.atc(step_size=0.05), noise, batch_size=4))
        for name, noise in SCHEMES.items()
    ]
    assert len(within(runs, limit=6.0)) == (11 if kind == "listed" else 10)


@pytest.mark.slow
def test_every_combination_is_the_recursion():
    found = within(every_run(batch_sizes=(None, 4), rounds=20), limit=10.0)
    assert len(found) > 600


def test_other_noise_gives_other_models():
    """The comparison above would notice one source that is another one."""
    run = public_run(GRAPH, sv.algorithms.atc(step_size=0.05), SCHEMES["independent"])

    class Another(Table):
        def source(self, position, source, scale):
            return super().source(position, source, scale) + 100 * (position == 3 and source == 2)

    table, other = (kind(1, DIMENSION, run.noise.law) for kind in (Table, Another))
    assert np.abs(played(run, other) - reference(run, LATTICE, PROBLEM, table)).max() > 8 * LATTICE.unit
