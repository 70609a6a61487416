"""Parties and `sv.simulate`, fed the same whole numbers, end at the same models."""

import numpy as np
import pytest

import sottovoce as sv
from deployment.agent.cases import (
    FEDERATED,
    FEDERATION,
    GRAPH,
    LATTICE,
    LAW,
    LINKS,
    PROBLEM,
    SCHEMES,
    bound_of,
    peers,
    public_run,
)
from sottovoce.deployment.agent import Rehearsed, RehearsedCoin, play
from sottovoce.deployment.terms import in_whole_multiples

SEED = 3
MEASURED = 4.0  # units, where no bound is derived: updates clipped as a whole
TOGETHER = ("independent, per edge", "graph_homomorphic", "gopa")


def rehearsed(run):
    """(models of the parties, the public coin) on the numbers of the simulation."""
    drawn = sv.simulation.drawn(
        PROBLEM, run.topology, run.algorithm, run.noise, rounds=run.rounds, seed=SEED, batch_size=run.batch_size,
        fraction_bits=LATTICE.fraction_bits,
    )  # fmt: skip
    coin = RehearsedCoin(run, drawn)
    models = play(run, LATTICE, PROBLEM, lambda k: Rehearsed(run, LATTICE, drawn, k), coin, relay_trusted=True)
    return models, coin


def units_apart(
    topology, algorithms, noises, *, rounds=8, batch_size=None
) -> dict[tuple[str, str], tuple[float, float | None]]:
    """Per algorithm and scheme, simulated in one program: units between parties and simulation, and the bound on them."""
    runs = sv.simulate(
        PROBLEM, topology, algorithms, noises, rounds=rounds, seed=SEED, batch_size=batch_size, dtype="float64", draws="sources",
        fraction_bits=LATTICE.fraction_bits, start=public_run(topology, None, None).initial_model, record=(), progress=False,
    )  # fmt: skip
    found = {}
    for (a, n), simulated in runs.items():
        run = public_run(topology, algorithms[a], noises[n], rounds=rounds, batch_size=batch_size)
        models, coin = rehearsed(run)
        apart = np.abs(models - np.asarray(simulated.models)[0]).max() / LATTICE.unit
        found[a, n] = float(apart), bound_of(run, coin, rehearsed=True)
    return found


def check(found) -> None:
    beyond = {name: one for name, one in found.items() if one[0] > (one[1] or MEASURED)}
    assert not beyond


def test_peers_with_links_that_drop_out_are_the_simulation():
    check(
        units_apart(
            LINKS["dropout"], {"atc": peers(GRAPH)["atc"]}, {n: SCHEMES[n] for n in TOGETHER}, rounds=4, batch_size=4
        )
    )


def test_a_sampled_federation_is_the_simulation():
    algorithms = {name: FEDERATED[name] for name in ("fedavg, a coin each", "fedavg, two agents")}
    check(units_apart(FEDERATION, algorithms, {n: SCHEMES[n] for n in ("independent", "central")}))


def test_noise_of_unequal_factors_is_the_simulation():
    found = units_apart(GRAPH, {"atc": peers(GRAPH)["atc"]}, {"designed": SCHEMES["designed"]}, rounds=4)
    check(found)
    # A source is rounded before it is multiplied, by up to 4096: that is what sets the two apart, and nothing else.
    ((apart, bound),) = found.values()
    assert 6.0 < apart < bound


def test_noise_of_whole_factors_is_the_simulation_up_to_the_roundings_of_any_run():
    """Where every factor is a whole number no source is rounded twice, and both add the very same integers."""
    pairs = [(0, 1), (1, 2), (2, 3), (0, 3), (1, 4)]
    factors = [(3.0, -2.0), (-1.0, 4.0), (2.0, -5.0), (1.0, -1.0), (7.0, 3.0)]
    whole = sv.noise.designed(LAW, own=[1.0, 2.0, 1.0, 3.0, 1.0], pairs=pairs, factors=factors)
    assert in_whole_multiples(whole).parameters == whole.parameters
    ((apart, bound),) = units_apart(GRAPH, {"atc": peers(GRAPH)["atc"]}, {"whole": whole}, rounds=4).values()
    run = public_run(GRAPH, peers(GRAPH)["atc"], whole, rounds=4)
    assert bound == bound_of(run, None)
    assert apart < 2.0


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [None, 4])
@pytest.mark.parametrize("kind", sorted(LINKS))
def test_all_peers_are_the_simulation(kind, batch_size):
    algorithms, noises = peers(LINKS[kind]), dict(SCHEMES)
    noises.pop("central")
    if kind in ("dropout", "random pair"):
        for name in ("local_graph_homomorphic", "designed"):  # refused where links come and go
            noises.pop(name)
    two_stages = {"dgd": algorithms.pop("dgd")}
    check(units_apart(LINKS[kind], algorithms, noises, batch_size=batch_size))
    if kind == "static":  # it falls silent, for which links and own copies must fit
        quiet = {name: noises[name] for name in ("none", "independent", "independent, Laplace", "gopa")}
        check(units_apart(LINKS[kind], two_stages, quiet, batch_size=batch_size))


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [None, 4])
def test_all_federations_are_the_simulation(batch_size):
    alone = ("none", "independent", "independent, Laplace", "independent, schedule", "central", "gradient")
    check(units_apart(FEDERATION, FEDERATED, {name: SCHEMES[name] for name in alone}, batch_size=batch_size))
    whole = {name: one for name, one in FEDERATED.items() if one.sampling is None}
    check(units_apart(FEDERATION, whole, {"gopa": SCHEMES["gopa"]}, batch_size=batch_size))
