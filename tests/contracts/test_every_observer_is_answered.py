"""Every algorithm with every noise, law and observer: a guarantee with its reason, or a refusal with advice."""

import json
import math
from functools import partial

import pytest

import sottovoce as sv
from contracts.test_registries import MAKE_ALGORITHM, SCHEMES_AND_LAWS, scheme
from sottovoce.observers import OBSERVERS, TEXT_FORMS, observer_named

MAKE_OBSERVER = {
    name: partial(observer_named, TEXT_FORMS[name].example if name in TEXT_FORMS else name) for name in OBSERVERS
} | {
    "curious_agent": lambda: sv.observers.curious_agent(1),
    "coalition": lambda: sv.observers.coalition([1, 3]),
    "colluding_server": lambda: sv.observers.colluding_server(0.2),
    "links": lambda: sv.observers.links([(0, 1)]),
}


def ask(algorithm, noise, observer, topology, **options):
    """The guarantee, or the text of the refusal."""
    try:
        return sv.account(topology, algorithm, noise, observer, rounds=4, sensitivity=0.5, **options)
    except (sv.UnsupportedClaim, sv.IncompatibleChoice) as refusal:
        return str(refusal)


@pytest.mark.parametrize("observer", sv.observers.OBSERVERS)
@pytest.mark.parametrize("algorithm", sv.algorithms.ALGORITHMS)
def test_every_question_gets_a_guarantee_with_its_reason_or_a_refusal_with_advice(algorithm, observer):
    answered = 0
    for name, law in SCHEMES_AND_LAWS:
        for topology in (sv.topologies.ring(5), sv.topologies.federation(5), sv.topologies.ring(5).with_walk()):
            for options in ({}, {"unit": "record"}, {"unit": "record", "losses": sv.accounting.ConvexSmooth(1.0, 0.1)}):
                found = ask(
                    MAKE_ALGORITHM[algorithm](), scheme(name, law), MAKE_OBSERVER[observer](), topology, **options
                )
                if isinstance(found, str):
                    assert any(word in found for word in ("Use", "use ", "Promise", "Leave", "take", "Ask"))
                    continue
                answered += 1
                assert found.validity in ("exact", "sent-messages", "absorption", "amplified-by-iteration", "infinite")
                assert found.reason.endswith(".")
                assert "docs/guarantees.md" in found.source
                assert (found.mu == math.inf) == (found.validity == "infinite")
                assert found.mu is not None or topology.schedule == sv.topologies.Walk()
                assert found.validity == "infinite" or found.assumptions
                assert found.epsilon(1e-5) >= 0
                assert name != "none" or found.mu == math.inf
                json.dumps(found.describe([1e-5]), allow_nan=False)
    made = MAKE_ALGORITHM[algorithm]()
    impossible = (made.needs_relay is not None and observer == "links") or (made.walks and observer == "server")
    unnamed = observer == "colluding_server"  # answered for masked averages only, which no bare name has
    assert answered > 0 or impossible or unnamed  # a federation has no single links, and a walk no server
