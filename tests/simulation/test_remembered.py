"""Simulated noise of earlier rounds that enters again: by hand, beside other schemes, resumed, and as recorded views."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.errors import IncompatibleChoice
from sottovoce.experiments.record import load, save
from sottovoce.simulation.engine import chunks
from sottovoce.simulation.settings import Settings
from sottovoce.simulation.views import observe

K, T, STEP = 6, 7, 0.3
RING = sv.topologies.ring(K)
ATC = sv.algorithms.atc(step_size=STEP)
DRAW = np.random.default_rng(0)
PROBLEM = sv.problems.linear_regression(DRAW.normal(size=(K, 8, 2)), DRAW.normal(size=(K, 8)), ridge=0.1)
MEMORY = DRAW.uniform(-0.7, 0.7, size=(T, 2, K))
BROADCAST = sv.noise.independent(sv.noise.Gaussian(std=0.5))
PAIRS = sv.noise.gopa(sv.noise.Gaussian(std=0.3), pairwise_std=0.4)
SCHEMES = {
    "plain": BROADCAST,
    "broadcast": BROADCAST._replace(memory=MEMORY).scaled(np.linspace(1.0, 2.0, T)),
    "pairs": PAIRS._replace(memory=MEMORY[:, :1]),
    "one factor": PAIRS._replace(memory=np.array([[[0.4]]])),
    "none": sv.noise.none(),
}


def by_hand(noise, algorithm=ATC, *, seed=1):
    """The models and the messages of every round, from the sources of the seed."""
    drawn = sv.simulation.drawn(PROBLEM, RING, algorithm, noise, rounds=T, seed=seed)
    w, messages, added = np.zeros((K, 2)), [], []
    bound = noise.spread(RING.active_links())
    for t in range(1, T + 1):
        gradient = (PROBLEM.quadratic.hessian @ w[:, :, None])[:, :, 0] - PROBLEM.quadratic.offset
        fresh, z = np.zeros((K, 2)), drawn.sources(t, 0)
        np.add.at(fresh, bound.self_index, bound.self_value[:, None] * z[bound.self_source])
        for j in range(1, 1 + min(t - 1, noise.memory.shape[1])):
            fresh = fresh - noise.remembered(T, K)[t - 1, j - 1][:, None] * added[t - 1 - j]
        added.append(fresh)
        messages.append(w - STEP * gradient + fresh)
        w = RING.matrix.T @ messages[-1]
    return w, np.stack(messages)


@pytest.mark.parametrize("name", ["broadcast", "pairs", "one factor"])
def test_a_run_is_the_recursion_played_by_hand(name):
    run = sv.simulate(PROBLEM, RING, ATC, SCHEMES[name], rounds=T, seed=1, dtype="float64", chunk=3)
    assert run.models[0] == pytest.approx(by_hand(SCHEMES[name])[0], abs=1e-12)
    forgotten = sv.simulate(
        PROBLEM, RING, ATC, SCHEMES[name]._replace(memory=None), rounds=T, seed=1, dtype="float64", draws="sources"
    )
    assert np.abs(run.models - forgotten.models).max() > 0.01  # power


def test_schemes_side_by_side_are_those_alone():
    algorithms = {"atc": ATC, "cta": sv.algorithms.cta(step_size=0.2)}
    together = sv.simulate(PROBLEM, RING, algorithms, SCHEMES, rounds=T, repeats=3, seed=2, dtype="float64")
    for (a, n), run in together.items():
        alone = sv.simulate(PROBLEM, RING, algorithms[a], SCHEMES[n], rounds=T, repeats=3, seed=2, dtype="float64")
        assert run.models == pytest.approx(alone.models, abs=1e-12)
        assert ("memory" in run.description["noise"]) == (SCHEMES[n].memory is not None)


def test_a_run_that_goes_on_is_the_run_that_was_not_stopped():
    settings = Settings(rounds=T, repeats=2, seed=3, dtype="float64", chunk=3)
    parts = list(chunks(PROBLEM, RING, {"atc": ATC}, SCHEMES, settings))
    again = list(chunks(PROBLEM, RING, {"atc": ATC}, SCHEMES, settings, start=(parts[0].round, parts[0].state)))
    for labels, models in parts[-1].models.items():
        assert np.array_equal(models, again[-1].models[labels])
    plain = {"plain": BROADCAST}
    held = next(iter(chunks(PROBLEM, RING, {"atc": ATC}, plain, settings))).state
    assert len(held) == 1  # without memory a state is what it was


@pytest.mark.parametrize("name", ["broadcast", "pairs"])
@pytest.mark.parametrize("chunk", [None, 2])
def test_recorded_messages_are_those_of_the_recursion(name, chunk):
    noise = SCHEMES[name]
    seen = observe(
        PROBLEM,
        RING,
        ATC,
        noise,
        sv.observers.eavesdropper() + sv.observers.coalition([2]),
        rounds=T,
        seed=1,
        chunk=chunk,
    )
    _, messages = by_hand(noise)
    senders = seen.layout.links[0][:, 0]
    assert seen.messages[0][0] == pytest.approx(messages[:, senders], abs=1e-12)
    drawn = sv.simulation.drawn(PROBLEM, RING, ATC, noise, rounds=T, seed=1)
    owners = noise.spread(RING.active_links()).owners
    known = np.flatnonzero((owners == 2).any(axis=1))
    assert seen.sources[0][0, 3] == pytest.approx(drawn.sources(4, 0)[known], abs=1e-12)


def test_a_lattice_refuses_memory():
    with pytest.raises(IncompatibleChoice, match="lattice"):
        sv.simulate(
            PROBLEM, RING, ATC, SCHEMES["broadcast"], rounds=T, dtype="float64", draws="sources", fraction_bits=20
        )


def test_a_saved_run_keeps_its_memory(tmp_path):
    run = sv.simulate(PROBLEM, RING, ATC, SCHEMES["pairs"], rounds=T, seed=1)
    save(run, tmp_path / "run")
    assert load(tmp_path / "run").description["noise"]["memory"] == MEMORY[:, :1].tolist()
