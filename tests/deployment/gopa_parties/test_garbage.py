"""Blobs that nobody has signed stop no role of a run with GOPA, and take no room."""

import sys
from types import SimpleNamespace

import pytest

import sottovoce.deployment.gopa_parties.run_gopa  # noqa: F401
from deployment.gopa_parties.roles import Roles, public_run
from sottovoce.deployment.gopa_parties import wire
from sottovoce.deployment.gopa_parties.reader import Reader
from sottovoce.deployment.identity.refusals import DifferentAgreement
from sottovoce.deployment.party import Refused
from sottovoce.deployment.store import Counters, Proof
from sottovoce.deployment.transports import Delivery

run_gopa = sys.modules[
    "sottovoce.deployment.gopa_parties.run_gopa"
]  # the module; the package gives the function its name
PROOF = Proof(Counters(store=bytes(16), exchanges=0, boots=0, entries=0).to_bytes(), bytes(64))


def reading(folder):
    """An agent in its first round, the way to its board, and what was logged."""
    roles, logged = Roles(folder, public_run(rounds=1)), []
    roles.tick()
    agent = roles.agents[0]
    book = SimpleNamespace(look_back=lambda proofs: None, proof=PROOF)
    reader = Reader(agent, "board", SimpleNamespace(send=lambda to, blob: None), book, roles.plan.digest, 0.0)
    refused = Refused(lambda event, **values: logged.append((event, values)))
    role = SimpleNamespace(names=lambda: {"board": ("board",)}, refused=refused)
    return roles, agent, lambda blob: run_gopa._take(role, reader, Delivery("board", blob), 0.0), refused


def test_an_agent_goes_on_after_garbage_in_the_name_of_its_board(tmp_path):
    roles, agent, take, refused = reading(tmp_path)
    head, length = agent.log.transcript.head, agent.log.length
    garbage = wire.Shown(roles.plan.digest, length, length + 1, (), [bytes(300)])
    forged = garbage._replace(entries=[roles.kept[0][:-1] + bytes([roles.kept[0][-1] ^ 1])])
    other = garbage._replace(digest=bytes(32))
    for blob in (b"S", wire.showing(garbage), wire.showing(forged), wire.showing(other), wire.showing(garbage)[:-3]):
        take(blob)
    assert sum(refused.counts["board"].values()) == 5
    assert (agent.log.transcript.head, agent.log.length) == (head, length)


def test_another_agreement_stops_an_agent_that_has_read_nothing(tmp_path):
    roles, _, _, _ = reading(tmp_path)
    fresh = roles.agents[0]
    reader = Reader(
        SimpleNamespace(log=SimpleNamespace(length=0), read=fresh.read), "board", None, None, roles.plan.digest, 0.0
    )
    role = SimpleNamespace(names=lambda: {"board": ("board",)}, refused=Refused(lambda event, **values: None))
    blob = wire.showing(wire.Shown(bytes(32), 0, 0, (), ()))
    with pytest.raises(DifferentAgreement):
        run_gopa._take(role, reader, Delivery("board", blob), 0.0)


def test_what_is_too_large_to_be_a_publication_is_not_kept(tmp_path):
    _, agent, _, _ = reading(tmp_path)
    agent.witness(1, bytes(100))
    agent.witness(2, bytes(10**6))
    assert set(agent._round.handed) == {1}
