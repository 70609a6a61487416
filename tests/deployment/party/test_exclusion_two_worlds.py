"""What one agent's messages give away across an exclusion, with the noise of a second world solved from the first.

One agent is replayed with another record: it hears the same words and says the same words, so that its noise has to differ. By how much is what a message
gives away. Where every agent goes on from what it sent, that is one gradient's change in every message, whoever was left out and whenever; so rounds before
and after a cut add up as they do in one run.
"""

import numpy as np
import pytest

import sottovoce as sv
from deployment.agent.cases import AGENTS, DIMENSION, GRAPH, LATTICE, LAW, PROBLEM, public_run
from deployment.party.remaining import Draws, Remaining
from deployment.party.test_exclusion import check_all_went_on, lose_when
from sottovoce.deployment.agent import Own, Wiring, own_of
from sottovoce.deployment.party import AgentWork
from sottovoce.deployment.terms import PublicCoin, successor

STEP = 0.05
ATC = sv.algorithms.atc(step_size=STEP)
AGENT = "agent-0"


class Solved:
    """Noise that makes a message what was said in the other world."""

    def __init__(self) -> None:
        self.drawn = np.zeros(PROBLEM.dimension, dtype=np.int64)

    def source(self, position: int, source: int, scale: float) -> np.ndarray:
        return self.drawn


def other_world() -> Own:
    """The agent's records with one of them exchanged."""
    generator = np.random.default_rng(0)  # as `cases.problem` makes them
    features = [generator.normal(size=(8 + k, DIMENSION)) for k in range(AGENTS)]
    targets = [x @ np.ones(DIMENSION) + generator.normal(size=len(x)) for x in features]
    features[0][0], targets[0][0] = -2.0 * features[0][0], targets[0][0] + 3.0
    return own_of(sv.problems.linear_regression(features[:1], targets[:1], ridge=0.1))


def replayed(parties: Remaining, own, agreement):
    """[T] by how much the noise differs, in units, and the change of the gradient at the point of each message."""
    run, solved = parties.run, Solved()
    before = AgentWork(
        Wiring(run, LATTICE, PublicCoin(agreement.digest)), parties.names, parties.names.index(AGENT), own, solved
    )
    cut = agreement.continues.after
    made, smaller = successor(parties.agreement, run, list(agreement.continues.excluded), after=cut)
    names = [member.name for member in made.members]
    after = AgentWork(Wiring(smaller, LATTICE, PublicCoin(agreement.digest)), names, names.index(AGENT), own, solved)
    said = {entry[2]: entry[3] for entry in parties.log if entry[:2] == ("prepared", AGENT)}
    heard = {entry[2]: entry[4] for entry in parties.log if entry[:2] == ("taken", AGENT)}
    state, differences, changes = before.start(), [], []
    for position in range(run.end):
        work = before if lost_is_there(agreement, said[position]) else after
        solved.drawn = np.zeros(PROBLEM.dimension, dtype=np.int64)
        plain = next(iter(work.prepare(position, state, {}, {}).words.values())).view(np.int64)
        word = np.frombuffer(next(iter(said[position].values())), dtype=np.int64)
        solved.drawn = word - plain
        spoken = work.prepare(position, state, {}, {})
        drawn = Draws(AGENT, PROBLEM.dimension).source(position, 0, LAW.std / LATTICE.unit)
        differences.append(solved.drawn - drawn)
        changes.append(gradient_change(own, state[0] * LATTICE.unit))
        taker = before if set(heard[position]) >= set(before.senders(position)) else after
        state = taker.take(position, spoken.state, spoken.held, heard[position])
    return np.array(differences), np.array(changes)


def lost_is_there(agreement, words: dict) -> bool:
    return any(name in words for name in agreement.continues.excluded)


def gradient_change(own: Own, point: np.ndarray) -> np.ndarray:
    """What the record changes at a point, in units of a message."""
    return STEP * (own.gradient(point, None) - own_of(PROBLEM, 0).gradient(point, None)) / LATTICE.unit


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("lost", ["agent-1", "agent-3"])
def test_a_message_gives_away_one_gradient_across_an_exclusion(seed, lost, folder) -> None:
    run = public_run(GRAPH, ATC, sv.noise.independent(LAW), rounds=8)
    parties = Remaining(folder, run, minimum=3, seed=seed)
    lose_when(parties, lost, seed)
    parties.play()
    agreement = check_all_went_on(parties, {lost})
    differences, changes = replayed(parties, other_world(), agreement)
    assert np.abs(changes).max() > 1000, "the record matters"
    np.testing.assert_allclose(differences, changes, atol=2.0)


def test_without_self_noise_differences_pile_up_and_would_be_noticed(folder) -> None:
    """The power of the test above: a scheme for which nothing of the kind is proved, and which `prepare_joining` refuses."""
    run = public_run(GRAPH, ATC, sv.noise.independent(LAW, self_noise=False), rounds=8)
    parties = Remaining(folder, run, minimum=3)
    lose_when(parties, "agent-1", 2)
    parties.play()
    agreement = next(iter(parties.ended.values()))
    differences, changes = replayed(parties, other_world(), agreement)
    assert np.abs(differences - changes).max() > 1000
