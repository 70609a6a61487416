"""Noise of unequal factors among parties: what both ends add, and what is refused."""

import numpy as np
import pytest

import sottovoce as sv
from deployment.agent.cases import DESIGNED, DIMENSION, GRAPH, LATTICE, LAW, LINKS, PROBLEM, SCHEMES, public_run
from deployment.agent.recursion import Rehearsal, Table
from sottovoce.deployment.agent import Wiring, check_deployable, own_of, prepare, start
from sottovoce.deployment.integers import SecretRandomness, signed
from sottovoce.deployment.terms import check_exclusion, in_whole_multiples

ATC = sv.algorithms.atc(step_size=0.05)
TABLE = Table(5, DIMENSION, LAW)


def words(noise, agent, randomness):
    """What an agent sends in the first exchange, in units; the same to all."""
    run = public_run(GRAPH, ATC, noise)
    made = prepare(Wiring(run, LATTICE, TABLE), agent, own_of(PROBLEM, agent), start(run, LATTICE), 0, randomness, None)
    sent = {tuple(signed(word).tolist()) for word in made.words.values()}
    assert len(sent) == 1
    assert np.array_equal(made.held.own, np.array(next(iter(sent))))  # an agent goes on from what it sent
    return np.array(next(iter(sent)))


def test_both_ends_add_whole_multiples_of_the_same_draw():
    noise = SCHEMES["designed"]
    held, scale = noise.parameters, LAW.std / LATTICE.unit
    pairs = [tuple(pair) for pair in held["pairs"]]
    clear = {agent: words(sv.noise.none(), agent, Rehearsal(TABLE, agent)) for agent in range(5)}
    added = np.zeros((5, DIMENSION), dtype=np.int64)
    for e, ((i, j), factors) in enumerate(zip(pairs, held["factors"], strict=True)):
        size = np.gcd.reduce([int(abs(each) * 2.0**60) for each in factors]) / 2.0**60
        drawn = TABLE.source(0, e, scale * size)
        for agent, factor in zip((i, j), factors, strict=True):
            assert factor == round(factor / size) * size
            added[agent] += round(factor / size) * drawn
    for agent in range(5):
        added[agent] += TABLE.source(0, len(pairs) + agent, scale * held["own"][agent])
        found = words(noise, agent, Rehearsal(TABLE, agent)) - clear[agent]
        np.testing.assert_array_equal(found, added[agent])


def test_the_noise_of_real_keys_has_the_covariance_that_is_accounted():
    noise, repeats = SCHEMES["designed"], 400
    generator = np.random.default_rng(3)
    clear = np.stack([words(sv.noise.none(), agent, Rehearsal(TABLE, agent)) for agent in range(5)])
    run, samples = public_run(GRAPH, ATC, noise), []
    wiring, owns = Wiring(run, LATTICE, TABLE), [own_of(PROBLEM, agent) for agent in range(5)]
    for _ in range(repeats):
        keys = {pair: generator.bytes(32) for pair in [(i, j) for j in range(5) for i in range(j)]}
        sent = []
        for agent in range(5):
            drawn = SecretRandomness(
                LAW, DIMENSION, lambda other, agent=agent, keys=keys: keys[tuple(sorted((agent, other)))], run=bytes(32)
            )
            made = prepare(wiring, agent, owns[agent], start(run, LATTICE), 0, drawn, None)
            sent.append(signed(next(iter(made.words.values()))))
        samples.append((np.stack(sent) - clear) * LATTICE.unit / LAW.std)
    held = noise.parameters
    expected = np.diag(np.array(held["own"]) ** 2)
    for (i, j), (a, b) in zip(held["pairs"], held["factors"], strict=True):
        c = np.zeros(5)
        c[i], c[j] = a, b
        expected += np.outer(c, c)
    flat = np.concatenate(samples, axis=1)  # [5, 400 x 3] independent columns
    found = flat @ flat.T / flat.shape[1]
    scale = np.sqrt(np.diag(expected))
    error = np.abs(found - expected) / np.outer(scale, scale)
    assert error.max() < 4.5 / np.sqrt(flat.shape[1])  # 1,200 columns: one sigma of an entry is at most sqrt(2 / 1200)
    without = np.diag(np.diag(expected))
    assert (np.abs(found - without) / np.outer(scale, scale)).max() > 0.3


def test_agents_that_are_not_linked_share_a_key_all_the_same():
    sources = Wiring(public_run(GRAPH, ATC, SCHEMES["designed"]), LATTICE, TABLE).part(1, 0).sources
    assert {source.other for source in sources} == {-1, 0, 2, 3}
    assert not any({1, 3} == set(link) for link in GRAPH.links.tolist())


def refused(noise, topology=GRAPH):
    with pytest.raises(sv.IncompatibleChoice) as found:
        check_deployable(public_run(topology, ATC, noise), relay_trusted=False)
    return str(found.value)


def test_factors_that_are_no_whole_multiples_are_refused_with_what_to_do():
    assert "in_whole_multiples(noise)" in refused(DESIGNED)
    check_deployable(public_run(GRAPH, ATC, in_whole_multiples(DESIGNED)), relay_trusted=False)


def test_a_generator_and_sources_of_three_are_refused():
    joint = sv.noise.designed(LAW, joint=np.eye(5) + 0.1)
    assert "drawn by a generator" in refused(joint)
    base = SCHEMES["designed"]

    def of_three(links):
        made = base.spread(links)
        third = np.where((made.owners == (0, 1)).all(axis=1), 2, -1)
        return made._replace(owners=np.column_stack([made.owners, third]))

    assert "the keys of parties are keys of two" in refused(base._replace(spread=of_three))


def test_noise_of_earlier_rounds_and_maps_that_change_are_refused():
    noise = SCHEMES["designed"]
    assert "earlier rounds" in refused(noise._replace(memory=np.full((1, 1, 1), 0.3)))
    assert "one map for all rounds" in refused(noise._replace(turns=(noise.spread, noise.spread)))


@pytest.mark.parametrize("kind", ["dropout", "random pair"])
def test_links_that_are_drawn_are_refused(kind):
    assert "come and go by a coin" in refused(SCHEMES["designed"], LINKS[kind])


def test_nobody_is_excluded_where_pairs_share_noise():
    with pytest.raises(sv.IncompatibleChoice, match="cancels between messages"):
        check_exclusion(public_run(GRAPH, ATC, SCHEMES["designed"]))
