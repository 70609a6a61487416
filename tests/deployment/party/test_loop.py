"""The loop of a party over real sessions, stores and agents: same models as without a network, whatever is lost, doubled or crashes."""

import pytest

import sottovoce as sv
from deployment.agent.cases import FEDERATED, FEDERATION, LINKS, SCHEMES, peers
from deployment.party.parties import DIGEST, Parties, public_run, same
from sottovoce.deployment.store import Store

ONE_WAY = sv.topologies.from_matrix(
    [[0.5, 0, 0, 0, 0.5], [0.5, 0.5, 0, 0, 0], [0, 0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5, 0], [0, 0, 0, 0.5, 0.5]]
)
SHAPES = {
    "fixed links": (LINKS["static"], "atc", "independent"),
    "two exchanges a round": (LINKS["static"], "muffliato", "graph_homomorphic"),
    "keys of others than neighbours": (LINKS["static"], "consensus", "local_graph_homomorphic"),
    "links that drop out": (LINKS["dropout"], "atc", "independent, per edge"),
    "one pair at a time": (LINKS["random pair"], "consensus", "gopa"),
    "one-way links": (ONE_WAY, "atc", "independent"),
    "a relay": (FEDERATION, "fedavg", "independent"),
    "a relay and few agents at a time": (FEDERATION, "fedavg, two agents", "central"),
}


def run_of(shape: str, rounds: int = 4):
    topology, algorithm, scheme = SHAPES[shape]
    known = FEDERATED if topology.relay else peers(topology)
    return public_run(topology, known[algorithm], SCHEMES[scheme], rounds=rounds)


def closed(parties: Parties) -> bool:
    """Whether every party has erased its key and state, and nothing waits to be sent."""
    for name in parties.names:
        with Store.open(parties.store_path(name), writer=False) as store:
            if store.run(DIGEST).status != "closed" or store.current(DIGEST) is not None or store.outgoing(DIGEST):
                return False
    return True


@pytest.mark.parametrize("shape", SHAPES)
def test_parties_end_with_the_models_of_the_run_without_a_network(shape, folder):
    parties = Parties(folder, run_of(shape))
    models = parties.play()
    assert same(models, parties.played())
    assert closed(parties)
    assert parties.now < 3.0  # nobody waited for the end of a time limit
    assert [event for _, event, _ in parties.logged if event == "refused"] == []


@pytest.mark.parametrize("shape", ["fixed links", "one-way links", "one pair at a time"])
def test_lost_and_doubled_messages_change_nothing(shape, folder):
    parties = Parties(folder, run_of(shape, rounds=3), seed=1, loss=0.2, twice=0.2)
    assert same(parties.play(), parties.played())
    assert closed(parties)


def test_no_receiver_is_owed_more_than_two_exchanges(folder):
    parties = Parties(folder, run_of("one-way links", rounds=6))
    most = [0]
    begun = parties.start

    def watched(name):
        loop = begun(name)
        put = loop._post.outbox.put

        def counted(receiver, position, words, now):
            put(receiver, position, words, now)
            most[0] = max(most[0], len(loop._post.outbox.of(receiver)))

        loop._post.outbox.put = counted
        return loop

    parties.start = watched
    assert same(parties.play(), parties.played())
    assert 1 <= most[0] <= 2
