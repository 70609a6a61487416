"""Who sees what, worked out by hand on small graphs."""

import inspect
import re

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.observers import OBSERVERS, TEXT_FORMS, Observer, View, observer_named, view

observers = sv.observers
PATH = sv.topologies.path(4)  # 0 - 1 - 2 - 3
FEDERATION = sv.topologies.federation(4)


def read(observer, topology=PATH):
    """The links it reads, as (sender, receiver)."""
    (links,) = view(observer, topology).links
    return {(int(s), int(r)) for (s, r), seen in zip(topology.links, links, strict=True) if seen}


def members(observer, topology=PATH):
    return set(np.flatnonzero(view(observer, topology).members).tolist())


EVERY_LINK = {(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)}


def test_an_eavesdropper_reads_every_link_and_is_no_agent():
    assert read(observers.eavesdropper()) == EVERY_LINK
    assert members(observers.eavesdropper()) == set()


def test_a_curious_agent_reads_what_it_is_sent():
    assert read(observers.curious_agent(1)) == {(0, 1), (2, 1)}
    assert members(observers.curious_agent(1)) == {1}


def test_a_coalition_puts_together_what_its_members_are_sent():
    assert read(observers.coalition([3, 0])) == {(1, 0), (2, 3)}
    assert members(observers.coalition([3, 0])) == {0, 3}


def test_single_links_are_read_in_one_direction():
    assert read(observers.links([(2, 1)])) == {(2, 1)}
    assert members(observers.links([(2, 1)])) == set()


def test_whoever_gets_the_final_model_reads_no_message():
    seen = view(observers.final_model(), PATH)
    assert read(observers.final_model()) == set()
    assert seen.final_model
    assert not seen.every_message
    assert not observers.final_model().sees_messages


def test_directed_links_are_read_by_their_receiver():
    cycle = sv.topologies.from_matrix(np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]]))  # 0 -> 1 -> 2 -> 0
    assert read(observers.curious_agent(1), cycle) == {(0, 1)}


@pytest.mark.parametrize(
    ("observer", "topology", "expected"),
    [
        (observers.eavesdropper(), PATH, True),
        (observers.curious_agent(1), PATH, False),
        (observers.curious_agent(0), sv.topologies.star(4), True),  # the hub hears everybody
        (observers.curious_agent(1), sv.topologies.star(4), False),
        (observers.coalition([1, 2]), PATH, True),  # 0 talks to 1 only, 3 to 2 only, and what 1 and 2 send they know
        (observers.coalition([0, 2]), PATH, True),  # 1 talks to 0 and 2, 3 to 2
        (observers.coalition([0, 3]), PATH, False),  # 1 and 2 talk to each other
        (observers.coalition([0, 3]) + observers.links([(1, 2), (2, 1)]), PATH, True),
        (observers.coalition([0, 3]) + observers.links([(1, 2)]), PATH, False),
        (observers.links(sorted(EVERY_LINK)), PATH, True),
        (observers.coalition([1, 2, 3]), sv.topologies.complete(4), True),
    ],
)
def test_every_message_is_read_when_nothing_passes_unheard(observer, topology, expected):
    assert view(observer, topology).every_message is expected


def test_nobody_on_a_peer_graph_hears_a_relay():
    for observer in (observers.eavesdropper(), observers.curious_agent(0), observers.final_model()):
        assert not view(observer, PATH).broadcast


@pytest.mark.parametrize(
    ("observer", "every_message", "broadcast", "whom"),
    [
        (observers.server(), True, True, set()),
        (observers.eavesdropper(), True, True, set()),
        (observers.curious_agent(2), False, True, {2}),
        (observers.coalition([0, 2]), False, True, {0, 2}),
        (observers.final_model(), False, False, set()),
        (observers.server() + observers.curious_agent(1), True, True, {1}),
        (observers.curious_agent(1) + observers.final_model(), False, True, {1}),
    ],
    ids=str,
)
def test_a_federation_is_seen_from_the_relay_or_by_its_broadcast(observer, every_message, broadcast, whom):
    seen = view(observer, FEDERATION)
    assert seen.every_message is every_message
    assert seen.broadcast is broadcast
    assert members(observer, FEDERATION) == whom
    assert seen.links[0].all() == seen.links[0].any() == every_message  # agents of a federation have no links to tap


def test_two_together_see_what_either_sees():
    one, other = (
        observers.coalition([0]) + observers.links([(2, 3)]),
        observers.curious_agent(3) + observers.final_model(),
    )
    both = one + other
    assert read(both) == read(one) | read(other)
    assert members(both) == members(one) | members(other)
    assert both.final_model
    assert both.name == f"{one.name} + {other.name}"
    assert str(both) == both.name


def test_putting_together_is_symmetric_but_for_the_name():
    one, other = observers.curious_agent(2), observers.links([(0, 1)]) + observers.final_model()
    first, second = one + other, other + one
    for field in ("all_links", "server", "members", "links", "final_model"):
        assert getattr(first, field) == getattr(second, field)
    again = first + one
    assert again.members == first.members
    assert again.links == first.links


def test_only_observers_are_put_together():
    for other in (3, "server", None, [observers.server()]):
        with pytest.raises(TypeError):
            observers.eavesdropper() + other


def test_names_say_who_looks():
    assert str(observers.eavesdropper()) == "eavesdropper"
    assert str(observers.curious_agent(3)) == "curious agent 3"
    assert str(observers.coalition([4, 1, 4])) == "coalition 1, 4"
    assert str(observers.links([(2, 3), (0, 1)])) == "links 0->1, 2->3"
    assert str(observers.server()) == "server"
    assert str(observers.final_model()) == "final model"


def test_order_and_repetition_do_not_matter():
    assert observers.coalition([3, 1]) == observers.coalition([1, 3, 3])
    assert observers.links([(2, 3), (0, 1)]) == observers.links([(0, 1), (2, 3), (0, 1)])
    assert observers.curious_agent(np.int64(2)) == observers.curious_agent(2)


def test_an_observer_is_a_value():
    assert hash(observers.curious_agent(1)) == hash(observers.curious_agent(1))
    with pytest.raises(AttributeError):
        observers.server().server = False


@pytest.mark.parametrize("agent", [-1, 1.0, True, "0", None])
def test_agents_are_whole_numbers(agent):
    for make in (observers.curious_agent, lambda a: observers.coalition([0, a]), lambda a: observers.links([(a, 1)])):
        with pytest.raises(sv.ConfigError, match="agent"):
            make(agent)


def test_an_observer_of_nothing_is_refused():
    with pytest.raises(sv.ConfigError, match="at least one"):
        observers.coalition([])
    with pytest.raises(sv.ConfigError, match="at least one"):
        observers.links([])


@pytest.mark.parametrize(
    ("observer", "topology", "error", "match"),
    [
        (observers.curious_agent(4), PATH, sv.ConfigError, "no agent 4; the agents are 0 to 3"),
        (observers.coalition([1, 7]), FEDERATION, sv.ConfigError, "no agent 7"),
        (observers.coalition(range(4)), PATH, sv.ConfigError, "nobody"),
        (observers.coalition(range(4)), FEDERATION, sv.ConfigError, "nobody"),
        (observers.links([(0, 2)]), PATH, sv.ConfigError, "no link from 0 to 2"),
        (observers.links([(0, 9)]), PATH, sv.ConfigError, "no link from 0 to 9"),
        (observers.links([(1, 1)]), PATH, sv.ConfigError, "no link from 1 to 1"),
        (observers.server(), PATH, sv.IncompatibleChoice, "federation"),
        (observers.links([(0, 1)]), FEDERATION, sv.IncompatibleChoice, "relay"),
        (observers.curious_agent(0) + observers.server(), PATH, sv.IncompatibleChoice, "federation"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_what_the_topology_does_not_have_is_refused(observer, topology, error, match):
    with pytest.raises(error, match=match):
        view(observer, topology)


def test_a_round_of_several_exchanges_is_seen_exchange_by_exchange():
    ring = sv.topologies.ring(4)
    seen = view(observers.curious_agent(0), PATH, ring)
    assert [int(links.sum()) for links in seen.links] == [1, 2]  # one neighbour on the path, two on the ring
    hub = view(observers.curious_agent(0), sv.topologies.star(4), ring)
    assert not hub.every_message  # all of the star's messages, but not all of the ring's
    tapped = view(observers.links([(3, 0)]), PATH, ring)  # a link of the ring alone
    assert [int(links.sum()) for links in tapped.links] == [0, 1]
    with pytest.raises(sv.IncompatibleChoice, match="relay"):
        view(observers.eavesdropper(), PATH, FEDERATION)


def test_links_of_a_schedule_are_those_of_all_its_rounds():
    pair = np.eye(4)
    pair[:2, :2] = 0.5
    listed = PATH.with_schedule([pair, PATH])
    assert read(observers.curious_agent(1), listed) == {(0, 1), (2, 1)}


def test_every_observer_is_registered_and_can_be_named():
    given = {
        "curious_agent": 3,
        "coalition": [1, 2],
        "any_coalition": 2,
        "links": [(2, 3), (4, 3)],
        "colluding_server": 0.5,
    }
    assert TEXT_FORMS.keys() == {name for name, make in OBSERVERS.items() if inspect.signature(make).parameters}
    assert given.keys() <= TEXT_FORMS.keys()
    for name, make in OBSERVERS.items():
        made = observer_named(TEXT_FORMS[name].example if name in TEXT_FORMS else name)
        if name in given or name not in TEXT_FORMS:
            assert made == make(*([given[name]] if name in given else []))
        made = observers.coalitions(made, 6)[0]
        assert isinstance(view(made, sv.topologies.federation(6) if made.server else sv.topologies.ring(6)), View)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("links:2->", "write it like 'links:2->3,4->3'"),
        ("colluding_server:1.5", "write it like 'colluding_server:0.5'"),
        ("colluding_server:0.1,0.2", "write it like"),
        ("server:1", "takes nothing after its name"),
        ("servr", "did you mean 'server'"),
        ("curious_agent:1,2", "several are 'coalition:1,2'"),
        ("curious_agent:x,y", "write it like 'curious_agent:3'"),
    ],
)
def test_text_that_names_no_observer_is_refused_with_what_to_write(text, said):
    with pytest.raises(sv.ConfigError, match=re.escape(said)):
        observer_named(text)


def test_colluding_agents_add_up_and_are_counted_downwards():
    both = observers.colluding_server(0.25) + observers.coalition([0, 1])
    assert both.corrupted(10) == 4
    assert observers.colluding_server(0.3).corrupted(10) == 3
    assert observers.colluding_server(0.0).corrupted(10) == 0
    assert (observers.colluding_server(0.25) + observers.colluding_server(0.5)).colluding == 0.75


@pytest.mark.parametrize("share", [float("nan"), float("inf"), -float("inf"), -0.1, 1.1, True, np.True_, "0.5", None])
def test_a_share_of_agents_that_is_none_is_refused(share):
    with pytest.raises(sv.ConfigError, match=r"colluding = .*; it is the part of the agents .* from 0 to 1"):
        Observer(name="they", server=True, colluding=share)


@pytest.mark.parametrize("share", [0, 0.0, 0.25, np.float64(0.25), np.float32(0.25), 1.0])
def test_a_share_of_agents_may_be_any_number_from_zero_to_one(share):
    assert Observer(name="they", server=True, colluding=share).corrupted(8) == 8 * share


def test_any_coalition_stands_for_every_choice_of_its_members():
    pair = observers.any_coalition(2)
    assert [each.members for each in observers.coalitions(pair, 3 + 1)] == [
        (0, 1),
        (0, 2),
        (0, 3),
        (1, 2),
        (1, 3),
        (2, 3),
    ]
    beside = observers.coalitions(pair + observers.curious_agent(1) + observers.eavesdropper(), 4)
    assert [each.members for each in beside] == [(0, 1, 2), (0, 1, 3), (1, 2, 3)]
    assert all(each.all_links and not each.any_members for each in beside)
    assert (pair + observers.any_coalition(1)).any_members == 3
    assert observers.coalitions(observers.eavesdropper(), 4) == [observers.eavesdropper()]
    assert observer_named("any_coalition:2") == pair


def test_any_coalition_is_no_single_observer():
    with pytest.raises(sv.ConfigError, match="stands for many"):
        view(observers.any_coalition(1), PATH)
    with pytest.raises(sv.ConfigError, match="nobody is left"):
        observers.coalitions(observers.any_coalition(4), 4)
    with pytest.raises(sv.ConfigError, match="the limit is"):
        observers.coalitions(observers.any_coalition(10), 40)
    for bad in (0, 1.5, True, "2"):
        with pytest.raises(sv.ConfigError):
            observers.any_coalition(bad)
