"""sv.Question: one value in place of eight keywords, checked once."""

import array
import dataclasses
import inspect

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.accounting import account_each, cyclic, poisson, sent_by_round

RING, ATC = sv.topologies.ring(6), sv.algorithms.atc(step_size=0.3)
NOISE, EVE = sv.noise.independent(sv.noise.Gaussian(std=2.0)), sv.observers.eavesdropper()
PARTS = (RING, ATC, NOISE, EVE)
KEYWORDS = {
    "plain": {"rounds": 5, "sensitivity": 1.0},
    "record": {"rounds": 5, "sensitivity": 0.5, "unit": "record", "adjacency": "add-remove", "participation": "once"},
    "promise": {"rounds": 4, "sensitivity": 0.5, "losses": sv.accounting.ConvexSmooth(1.0, nu=0.1), "same_model": True},
    "agents": {"rounds": 3, "sensitivity": [1.0, 2.0, 1.0, 1.0, 1.0, 1.0], "agent": 1},
    "array": {"rounds": 3, "sensitivity": np.linspace(1.0, 2.0, 6)},
}


@pytest.mark.parametrize("name", KEYWORDS)
def test_a_question_is_answered_like_its_keywords(name):
    keywords = KEYWORDS[name]
    question = sv.Question(**keywords)
    assert sv.account(*PARTS, question=question) == sv.account(*PARTS, **keywords)
    assert sv.account(*PARTS[:3], [EVE, EVE], question=question) == [sv.account(*PARTS, **keywords)] * 2
    target = {"epsilon": 1.0, "delta": 1e-5}
    by_question, by_keywords = (
        sv.calibrate(*PARTS, question=question, **target),
        sv.calibrate(*PARTS, **keywords, **target),
    )
    assert by_question.law == by_keywords.law
    for function in (account_each, sent_by_round):
        if "agent" not in keywords:
            assert function(*PARTS, question=question) == function(*PARTS, **keywords)


@pytest.mark.parametrize("function", [sv.account, sv.calibrate, account_each, sent_by_round])
@pytest.mark.parametrize(
    "extra",
    [
        {"rounds": 5}, {"sensitivity": 1.0}, {"unit": "agent"}, {"unit": "record"}, {"adjacency": "replace"}, {"participation": "every-round"},
        {"losses": sv.accounting.ConvexSmooth(1.0)}, {"same_model": True},
    ],
)  # fmt: skip
def test_a_question_and_a_keyword_of_it_are_refused_together(function, extra):
    question = sv.Question(rounds=5, sensitivity=1.0)
    target = {"epsilon": 1.0, "delta": 1e-5} if function is sv.calibrate else {}
    with pytest.raises(sv.ConfigError, match=f"question= was given together with {next(iter(extra))}="):
        function(*PARTS, question=question, **extra, **target)


@pytest.mark.parametrize("left_out", ["rounds", "sensitivity"])
def test_rounds_and_sensitivity_stay_needed_without_a_question(left_out):
    keywords = {"rounds": 5, "sensitivity": 1.0}
    del keywords[left_out]
    with pytest.raises(sv.ConfigError, match=f"{left_out} not given"):
        sv.account(*PARTS, **keywords)
    with pytest.raises(TypeError):
        sv.account(*PARTS, **keywords)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"rounds": 0}, "rounds = 0"),
        ({"rounds": 2.5}, "rounds = 2.5"),
        ({"sensitivity": 0.0}, "sensitivity = 0.0"),
        ({"sensitivity": [1.0, -1.0]}, "one for each agent"),
        ({"sensitivity": [[1.0]]}, "one for each agent"),
        ({"sensitivity": "2"}, "sensitivity = '2'"),
        ({"unit": "user"}, "unit = 'user'"),
        ({"adjacency": "swap"}, "adjacency = 'swap'"),
        ({"unit": "record", "participation": "twice"}, "participation = 'twice'"),
        ({"unit": "record", "participation": cyclic(3, 4)}, "spans 9 rounds"),
        ({"participation": "once"}, "speaks of single records"),
        ({"unit": "record", "participation": poisson(0.1)}, "needs the largest norm of ONE record"),
        ({"losses": 2.0}, "losses = 2.0"),
        ({"same_model": "yes"}, "same_model = 'yes'"),
        ({"unit": "record", "same_model": False}, "at the same model only"),
        ({"losses": sv.accounting.ConvexSmooth(1.0, nu=0.5), "same_model": False}, "Both cannot be true"),
    ],
)
def test_a_question_that_says_nothing_is_refused_before_any_network_is_named(wrong, said):
    with pytest.raises(sv.ConfigError, match=said):
        sv.Question(**{"rounds": 5, "sensitivity": 1.0, **wrong})


def test_a_sensitivity_per_agent_must_fit_the_network():
    with pytest.raises(sv.ConfigError, match="one for each of the 6 agents"):
        sv.account(*PARTS, question=sv.Question(rounds=5, sensitivity=[1.0, 2.0]))


def test_what_accounts_for_every_agent_refuses_one():
    for function in (account_each, sent_by_round):
        with pytest.raises(sv.ConfigError, match="Leave agent out"):
            function(*PARTS, question=sv.Question(rounds=5, sensitivity=1.0, agent=2))


def test_anything_else_is_no_question():
    with pytest.raises(sv.ConfigError, match=r"give sv\.Question"):
        sv.account(*PARTS, question={"rounds": 5, "sensitivity": 1.0})


def test_questions_are_values():
    one, other = sv.Question(rounds=5, sensitivity=np.ones(6)), sv.Question(rounds=5, sensitivity=[1.0] * 6)
    assert one == other
    assert hash(one) == hash(other)
    assert dataclasses.replace(one, rounds=6).rounds == 6
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.rounds = 7


def test_the_defaults_of_a_question_are_those_of_the_keywords():
    own = {name: one.default for name, one in inspect.signature(sv.Question).parameters.items()}
    for function in (sv.account, sv.calibrate):
        given = inspect.signature(function).parameters
        for name in own.keys() - {"rounds", "sensitivity"}:
            assert given[name].default == own[name], name


def test_an_audit_asks_with_a_question_too():
    target = {"delta": 1e-5, "confidence": 0.95, "pairs": 60, "seed": 1}
    question = sv.Question(rounds=3, sensitivity=1.0, agent=2)
    by_question = sv.audit(*PARTS, question=question, **target)
    by_keywords = sv.audit(*PARTS, rounds=3, sensitivity=1.0, agent=2, **target)
    assert by_question.describe() == by_keywords.describe()
    with pytest.raises(sv.ConfigError, match="given together with agent="):
        sv.audit(*PARTS, question=question, agent=2, **target)
    with pytest.raises(sv.ConfigError, match="sensitivity not given"):
        sv.audit(*PARTS, rounds=3, **target)


def test_what_was_checked_cannot_be_changed_afterwards():
    given = array.array("d", [1.0] * 6)
    question = sv.Question(rounds=5, sensitivity=given)
    given[0] = 100.0
    assert question.sensitivity == (1.0,) * 6
    with pytest.raises(sv.ConfigError, match="participation = "):
        sv.Question(rounds=5, sensitivity=1.0, unit="record", participation=np.array(["once"]))
    with pytest.raises(sv.ConfigError, match="times = 0"):
        sv.accounting.question.participation.Cyclic(0, 1)
