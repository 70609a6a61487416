"""All records of one person: accounted as a record is, with the sensitivity of all of them, and never amplified as a single record is."""

import math

import numpy as np
import pytest
from scipy import stats

import sottovoce as sv
from accounting.two_worlds import Data, Parts, Stage, judge
from sottovoce.accounting import ConvexSmooth, account_each, cyclic, poisson

RING, HUB = sv.topologies.ring(5), sv.topologies.federation(4)
EVE, CURIOUS, FINAL = sv.observers.eavesdropper(), sv.observers.curious_agent(2), sv.observers.final_model()
GAUSSIAN, LAPLACE = sv.noise.Gaussian(std=0.7), sv.noise.Laplace(std=0.7)
BOUND = 0.5
CLIPPED = sv.algorithms.fedavg(step_size=0.5, local_steps=3, update_clip=sv.clipping.Clip(BOUND, "l2"))
PROMISE = {"losses": ConvexSmooth(1.0)}


def regression(most=3, *, checked=True, sizes=(6, 8, 8, 8, 8), clip=(BOUND, "l2")):
    """Constant record gradients: features so long that every gradient is clipped."""
    features = [np.tile([50.0, 0.0], (n, 1)) for n in sizes]
    problem = sv.problems.linear_regression(features, [np.full(n, 1000.0) for n in sizes]).with_clipping(*clip)
    persons = [np.arange(n) // most + 100 * agent for agent, n in enumerate(sizes)]
    return problem.with_persons(most, persons if checked else None)


def of_person(problem, norm="l2", **options):
    return problem.sensitivity(unit="person", adjacency="replace", norm=norm, **options)


# Whatever is proved at the same model holds for a record and a person alike.

ASKED = {
    "self": (RING, sv.algorithms.atc(step_size=0.3), sv.noise.independent(GAUSSIAN), [EVE, CURIOUS, EVE + FINAL], {}),
    "laplace": (RING, sv.algorithms.cta(step_size=0.3), sv.noise.independent(LAPLACE), [EVE, CURIOUS], {}),
    "clean": (RING, sv.algorithms.atc(step_size=0.3), sv.noise.graph_homomorphic(GAUSSIAN), [EVE, CURIOUS], PROMISE),
    "consensus": (RING, sv.algorithms.consensus(step_size=0.3), sv.noise.independent(GAUSSIAN), [EVE], PROMISE),
    "local": (HUB, sv.algorithms.fedavg(step_size=0.3, local_steps=3), sv.noise.independent(GAUSSIAN), [sv.observers.server(), FINAL], PROMISE),
    "gradients": (RING, sv.algorithms.consensus(step_size=0.3), sv.noise.gradient(GAUSSIAN), [EVE, FINAL], {}),
    "random": (RING.with_dropout(0.2), sv.algorithms.atc(step_size=0.3), sv.noise.independent(GAUSSIAN), [EVE], PROMISE),
    "walk": (sv.topologies.complete(4).with_walk(), sv.algorithms.random_walk(step_size=0.3), sv.noise.independent(GAUSSIAN), [EVE, CURIOUS], PROMISE),
}  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
def test_a_person_has_the_guarantee_of_a_record_of_the_same_sensitivity(name):
    *parts, observers, promise = ASKED[name]
    for observer in observers:
        record, person = (
            sv.account(*parts, observer, rounds=4, sensitivity=0.4, unit=unit, **promise)
            for unit in ("record", "person")
        )
        assert person.epsilon(1e-5) == record.epsilon(1e-5) < math.inf
        assert (person.validity, person.mu, person.linear_mu) == (record.validity, record.mu, record.linear_mu)


@pytest.mark.parametrize("name", ["clean", "consensus", "local", "random"])
def test_without_a_promise_a_person_is_refused_where_a_record_is(name):
    *parts, observers, _ = ASKED[name]
    for unit in ("record", "person"):
        with pytest.raises(sv.UnsupportedClaim):
            sv.account(*parts, observers[0], rounds=4, sensitivity=0.4, unit=unit)


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("sampling", [{}, {"participation": 0.5}, {"agents_per_round": 2}])
def test_an_update_that_is_clipped_as_a_whole_turns_round_for_a_person_as_for_a_record(adjacency, sampling):
    algorithm = sv.algorithms.fedavg(
        step_size=0.5, local_steps=3, update_clip=sv.clipping.Clip(BOUND, "l2"), **sampling
    )
    asked = {"rounds": 3, "sensitivity": 2 * BOUND, "adjacency": adjacency}
    for noise, observer in (
        (sv.noise.independent(GAUSSIAN), sv.observers.server()),
        (sv.noise.central(GAUSSIAN), sv.observers.curious_agent(1)),
    ):
        record, person = (
            sv.account(HUB, algorithm, noise, observer, unit=unit, **asked) for unit in ("record", "person")
        )
        assert person.tradeoff == record.tradeoff
    with pytest.raises(sv.ConfigError, match=f"changes one by at most {2 * BOUND:g}"):
        sv.account(HUB, algorithm, noise, observer, unit="person", **(asked | {"sensitivity": BOUND}))


# What limits or hides a single record says nothing of a person.


@pytest.mark.parametrize(
    "participation",
    ["once", cyclic(2, 3), poisson(0.1), poisson(0.1, record_norm=1.0)],
    ids=["once", "cyclic", "coins", "norm"],
)
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_a_participation_of_single_records_is_refused_for_persons(participation, adjacency):
    with pytest.raises(sv.ConfigError, match=r"records of one person may enter different rounds.*unit='record'"):
        sv.Question(rounds=9, sensitivity=1.0, unit="person", adjacency=adjacency, participation=participation)


def test_secret_records_hide_less_of_a_person_than_of_one_record_as_large():
    # One round: a person of m records of norm 1, each drawn by its own coin; and one record of norm m, drawn by one coin.
    rate, most, std, epsilon, y = 0.05, 4, 0.15, 0.1, np.linspace(-2.0, 6.0, 20_001)

    def delta(chances, shifts):
        present = sum(chance * stats.norm.pdf(y, shift, std) for chance, shift in zip(chances, shifts, strict=True))
        return np.trapezoid(np.clip(present - math.exp(epsilon) * stats.norm.pdf(y, 0.0, std), 0.0, None), y)

    each = np.arange(most + 1)
    of_person = delta(stats.binom.pmf(each, most, rate), each)
    of_record = delta([1 - rate, rate], [0.0, float(most)])
    assert of_record == pytest.approx(rate, rel=1e-6)
    assert of_person > 3.5 * of_record  # so a record's rule with m times its sensitivity would be false


# A sensitivity that a problem computed is taken for its own unit only.


@pytest.mark.parametrize(
    ("asked", "computed"), [("person", "record"), ("record", "person"), ("agent", "person"), ("person", "agent")]
)
def test_a_sensitivity_of_another_unit_is_refused(asked, computed):
    size = regression().sensitivity(unit=computed, adjacency="replace", norm="l2")
    with pytest.raises(
        sv.ConfigError, match=f"unit = '{asked}', but the sensitivity .* was computed for unit = '{computed}'"
    ):
        sv.Question(rounds=3, sensitivity=size, unit=asked)


def test_gradients_of_a_person_are_compared_at_the_same_model_only():
    assert sv.Question(rounds=3, sensitivity=1.0, unit="person").compares_same_model
    with pytest.raises(sv.ConfigError, match="a person's sensitivity is known at the same model only"):
        sv.Question(rounds=3, sensitivity=1.0, unit="person", same_model=False)


# What a guarantee says.


def guaranteed(problem, adjacency="replace", **changes):
    size = [problem.sensitivity(unit="person", adjacency=adjacency, norm="l2", agent=k) for k in range(5)]
    parts = RING, sv.algorithms.atc(step_size=0.3), sv.noise.independent(GAUSSIAN), EVE
    return sv.account(*parts, rounds=4, unit="person", adjacency=adjacency, **({"sensitivity": size} | changes))


def test_a_guarantee_says_that_all_records_of_a_person_are_protected_and_what_is_public():
    found = guaranteed(regression())
    assert (found.agent, found.records_per_person, found.describe()["records_per_person"]) == (0, 3, 3)
    text = found.explain(1e-5)
    assert "Protected: all records of one person (at most 3) of agent 0 (replaced), 4 rounds." in text
    assert (
        "a change of all records of one person (at most 3) moves one gradient by at most 0.5 in l2, at the same model"
        in text
    )
    assert "all records of one person are at one agent and at most 3 of them (checked on the records at hand)" in text
    assert "how many records each person has, and at which agent, is public" in text


def test_what_was_not_checked_is_called_a_promise():
    assert "(promised, not checked)" in guaranteed(regression(checked=False)).explain()
    claimed = guaranteed(regression(), sensitivity=0.5)
    assert claimed.records_per_person is None
    assert "records_per_person" not in claimed.describe()
    assert "Protected: all records of one person of agent" in claimed.explain()
    assert "all records of one person are at one agent (promised, not checked)" in claimed.explain()


def test_where_persons_come_and_go_their_numbers_of_records_are_not_called_public():
    text = guaranteed(regression(), "add-remove").explain()
    assert "the records of one person are there or not" in text
    assert "is public" not in text


def test_a_refusal_names_the_person():
    parts = RING, sv.algorithms.consensus(step_size=0.3), sv.noise.independent(GAUSSIAN), EVE
    with pytest.raises(
        sv.UnsupportedClaim, match=r"a guarantee for all records of one person \(at most 3\) under 'consensus'"
    ):
        sv.account(*parts, rounds=3, unit="person", sensitivity=of_person(regression()))


def test_every_agent_has_its_own_number_of_records():
    problem = regression(sizes=(4, 6, 12, 6, 6))
    sizes = [of_person(problem, agent=k) for k in range(5)]
    found = account_each(RING, sv.algorithms.atc(step_size=0.3), sv.noise.independent(GAUSSIAN), EVE, rounds=2, unit="person", sensitivity=sizes)  # fmt: skip
    assert [one.mu / found[2].mu for one in found] == pytest.approx([3, 2, 1, 2, 2])


# Two worlds as the simulator plays them: one person's records turned round, at agent 0.


def two_worlds(problem, turned):
    """The tables of gradients of both worlds, by the problem's own clipped gradients; in the second, these records have another sign."""
    own = {name: array[0] for name, array in problem.arrays.items()}
    other = dict(own, targets=np.where(np.isin(np.arange(len(own["targets"])), turned), -1.0, 1.0) * own["targets"])
    first, second = (problem.gradient(np.zeros(2), data) for data in (own, other))
    table = np.zeros((problem.num_agents, 3, 2, 2))
    table[0] = (first + second) / 2
    changes = np.broadcast_to((first - second) / 2, (1, 3, 2, 2))
    return Data(0, table, changes, np.zeros((problem.num_agents, 2, 2)))


@pytest.mark.parametrize("law", [GAUSSIAN, pytest.param(LAPLACE, marks=pytest.mark.slow)], ids=["gaussian", "laplace"])
def test_no_record_of_two_worlds_gives_away_more_of_a_person_than_is_stated(law):
    problem = regression(clip=(BOUND, law.norm))
    parts = Parts(RING, sv.algorithms.atc(step_size=0.3), sv.noise.independent(law), 3)
    data = two_worlds(problem, turned=[3, 4, 5])
    right = {"unit": "person", "sensitivity": of_person(problem, law.norm, agent=0)}
    forgotten = problem.sensitivity(unit="record", adjacency="replace", norm=law.norm, agent=0)
    wrong = {"unit": "person", "sensitivity": float(forgotten)}
    stage = Stage(parts, data)
    stated, false = judge(stage, data, [(EVE, right), (EVE, wrong)])
    assert stated.attained == pytest.approx(stated.stated, rel=1e-6)
    assert stated.validity == "exact"
    assert false.attained == pytest.approx(3 * false.stated, rel=1e-6)
    assert not false.holds


def test_sensitivities_of_different_persons_are_not_mixed():
    checked, promised = regression(), regression(checked=False)
    asked = {"unit": "person", "adjacency": "replace", "norm": "l2"}
    first, second = (one.sensitivity(**asked, agent=0) for one in (checked, promised))
    with pytest.raises(sv.ConfigError, match="at most 3 and 5 records were given together"):
        sv.accounting.Question(
            rounds=2, sensitivity=[first, checked.with_persons(5).sensitivity(**asked, agent=1)], unit="person"
        )
    assert sv.accounting.Question(rounds=2, sensitivity=[first, first], unit="person").persons.checked
    assert not sv.accounting.Question(rounds=2, sensitivity=[first, second], unit="person").persons.checked
    assert sv.accounting.Question(rounds=2, sensitivity=[first, float(second)], unit="person").persons is None
