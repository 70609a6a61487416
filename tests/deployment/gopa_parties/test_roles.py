"""A run with GOPA, role by role and without processes: the model of the simulation, whatever crashes in time; the repaired sum of the others if not."""

import numpy as np
import pytest

import sottovoce as sv
from deployment.agent.cases import PROBLEM
from deployment.gopa_parties.roles import AGENTS, LATTICE, SEED, Roles, public_run, same
from sottovoce.deployment.gopa import Kind, Message, Phase, open_message, seal
from sottovoce.deployment.gopa.messages import pack_parties

UNITS = 4.0


@pytest.fixture
def roles(tmp_path):
    return Roles(tmp_path, public_run())


def simulated(roles):
    run = roles.run
    found = sv.simulate(
        PROBLEM, run.topology, roles.open_run.algorithm, run.noise, rounds=run.rounds, seed=SEED, batch_size=run.batch_size,
        dtype="float64", draws="sources", fraction_bits=LATTICE.fraction_bits, start=run.initial_model, record=(), progress=False,
    )  # fmt: skip
    return np.asarray(found.models)[0][0]


def phase(roles, wanted, round_=1):
    def reached(_):
        log = roles.board.log
        return log.round_ == round_ and log.transcript is not None and log.transcript.phase is wanted

    roles.play(until=reached)


def test_all_agents_end_with_the_model_of_the_simulation(roles):
    roles.play()
    models = roles.models()
    assert len(models) == AGENTS
    assert same(models)
    assert np.abs(models[0] - simulated(roles)).max() / LATTICE.unit < UNITS
    assert [ended.sum.parties for ended in roles.ended[0]] == [frozenset(range(AGENTS))] * 3


@pytest.mark.parametrize("when", [Phase.REGISTRATION, Phase.PREPARATION, Phase.PUBLICATION])
def test_an_agent_that_crashes_and_returns_in_time_changes_nothing(roles, when):
    phase(roles, when, round_=2)
    before = {raw for number, raw in roles.sent if number == 3}
    roles.end(3)
    roles.start(3)
    roles.play()
    assert same(roles.models())
    assert np.abs(roles.models()[3] - simulated(roles)).max() / LATTICE.unit < UNITS
    assert all(ended.sum is not None and len(ended.sum.parties) == AGENTS for ended in roles.ended[0])
    kinds = [(open_message(raw).kind, open_message(raw).round_number) for raw in {r for n, r in roles.sent if n == 3}]
    assert len(kinds) == len(set(kinds)), "one step was said in two versions"
    assert before


def test_an_agent_that_does_not_return_is_left_out_and_comes_back_later(roles):
    phase(roles, Phase.PUBLICATION, round_=2)
    roles.end(3)
    phase(roles, Phase.REGISTRATION, round_=3)
    roles.start(3)
    roles.play()
    assert same(roles.models())
    assert len(roles.models()) == AGENTS
    counted = [ended.sum.parties for ended in roles.ended[0]]
    everybody = frozenset(range(AGENTS))
    assert counted == [everybody, everybody - {3}, everybody]


def test_a_run_goes_on_without_an_agent_that_is_gone_for_good(tmp_path):
    """Also where everybody picks everybody: of those who are there."""
    roles = Roles(tmp_path, public_run(gopa=sv.algorithms.Gopa(partners=4, silence=0.1, minimum_agents=4)))
    phase(roles, Phase.PUBLICATION, round_=1)
    roles.end(3)
    roles.play()
    others = frozenset(range(AGENTS)) - {3}
    assert [ended.sum.parties for ended in roles.ended[0]] == [others] * 3
    assert same(roles.models())
    for ended in roles.ended[0][1:]:
        assert ended.transcript.registered.keys() == others
        assert all(ended.transcript.neighbours[n] == others - {n} for n in others)


def test_a_process_whose_publication_was_not_heard_stops_before_masks_are_revealed(roles):
    phase(roles, Phase.PUBLICATION)
    roles.swallow = lambda number, raw: number == 2 and open_message(raw).kind is Kind.PUBLISH
    roles.turn()
    terms = roles.agents[2].log.transcript.terms
    half = (terms.publish_until + terms.drops_from) // 2
    assert not roles.agents[2].unheard(half)
    assert roles.agents[2].unheard(half + 1)
    assert half + 1 < terms.drops_from
    assert not roles.agents[1].unheard(half + 1)  # the log shows it
    roles.start(2)
    assert not roles.agents[2].unheard(half + 1)  # this process has sent nothing


def test_the_sum_without_a_dropped_agent_is_that_of_the_others(roles):
    phase(roles, Phase.PUBLICATION, round_=1)
    values = {n: agent._with_value(agent.log.transcript) for n, agent in roles.agents.items()}
    roles.end(0)
    phase(roles, Phase.REGISTRATION, round_=2)
    expected = sum(values[n].units + values[n].own_noise() for n in range(1, AGENTS))
    assert np.array_equal(roles.ended[1][0].sum.units, expected)


def test_a_board_that_crashes_goes_on_with_the_log_it_has_shown(roles):
    for round_, when in ((1, Phase.PREPARATION), (2, Phase.PUBLICATION)):
        phase(roles, when, round_=round_)
        roles.start_board()
    roles.play()
    assert same(roles.models())
    assert np.abs(roles.models()[0] - simulated(roles)).max() / LATTICE.unit < UNITS


def test_a_beacon_that_crashes_says_the_same_again(roles):
    phase(roles, Phase.PREPARATION)
    roles.start_beacon()
    roles.play()
    assert [round_ for round_, _ in roles.drawn.values] == [1, 2, 3]
    assert same(roles.models())


def test_a_round_with_too_few_agents_changes_nothing(roles):
    phase(roles, Phase.PUBLICATION, round_=2)
    model = roles.agents[0].model
    roles.end(3)
    roles.end(4)
    roles.play(until=lambda r: r.board.log.transcript.phase is Phase.COSIGNING)
    assert roles.board.log.round_ == 2
    for n in (3, 4):
        roles.start(n)
    roles.play(until=lambda r: r.agents[0].log.round_ == 3)
    assert roles.ended[0][1].sum is None
    assert np.array_equal(roles.agents[0].model, model)
    roles.play()
    assert same(roles.models())
    assert not np.array_equal(roles.agents[0].model, model)


def test_nothing_that_holds_a_publication_leaves_an_agent_too_late(roles):
    phase(roles, Phase.PUBLICATION)
    roles.swallow = lambda number, raw: number == 2 and open_message(raw).kind is Kind.PUBLISH
    roles.turn()
    agent = roles.agents[2]
    terms = agent.log.transcript.terms
    assert any(open_message(raw).kind is Kind.PUBLISH for raw in agent.waiting(terms.publish_until))
    assert agent.to_neighbours(terms.publish_until) is not None
    roles.start(2)  # also after a crash
    for each in (agent, roles.agents[2]):
        assert each.waiting(terms.publish_until + 1) == []
        assert each.to_neighbours(terms.publish_until + 1) is None


def test_a_swallowed_publication_keeps_its_masks(roles):
    """A board that hides a publication gets no mask of its publisher revealed: the neighbours have it from itself."""
    phase(roles, Phase.PUBLICATION)
    roles.swallow = lambda number, raw: number == 2 and open_message(raw).kind is Kind.PUBLISH
    roles.play(until=lambda r: r.board.log.round_ == 2)
    ended = roles.ended[0][0]
    assert ended.sum is None
    assert 2 in ended.transcript.dropped
    neighbours = ended.transcript.neighbours[2]
    assert not neighbours & ended.transcript.cosigners
    assert not neighbours & ended.transcript.repairs.keys()


def test_witnesses_remember_after_a_crash(roles):
    phase(roles, Phase.PUBLICATION)
    roles.swallow = lambda number, raw: number == 2 and open_message(raw).kind is Kind.PUBLISH
    terms = roles.board.log.transcript.terms
    roles.play(until=lambda r: r.now > terms.publish_until + 500)
    neighbours = roles.board.log.transcript.neighbours[2]
    for n in neighbours:
        roles.start(n)
    roles.play(until=lambda r: r.board.log.round_ == 2)
    ended = roles.ended[min(neighbours)][0]
    assert ended.sum is None
    assert not neighbours & ended.transcript.cosigners


def test_witnesses_remember_also_where_a_board_names_the_dropped_early(roles):
    """A board that hides a publication and ends the phase at once: neighbours that crash later still know that its masks must stay hidden."""
    phase(roles, Phase.PUBLICATION)
    roles.swallow = lambda number, raw: number == 2 and open_message(raw).kind is Kind.PUBLISH
    log = roles.board.log
    roles.play(until=lambda r: log.transcript.survivors == log.transcript.active - {2})
    dropped = Message(
        kind=Kind.DROPS, run=log.transcript.terms.run, round_number=1, sender=roles.keys["board"].public_key,
        reference=log.transcript.head, payload=pack_parties(frozenset({2})),
    )  # fmt: skip
    roles.board.take(seal(dropped, roles.keys["board"].signing_key))
    roles.show()
    assert roles.now < log.transcript.terms.publish_until
    neighbours = log.transcript.neighbours[2]
    assert (
        roles.agents[2].to_neighbours(roles.now)[0] == neighbours
    )  # for those who have lost it before they wrote it down
    roles.play(until=lambda r: r.now > log.transcript.terms.publish_until + 500)
    for n in neighbours:
        roles.start(n)
    roles.play(until=lambda r: r.board.log.round_ == 2)
    ended = roles.ended[min(neighbours)][0]
    assert ended.sum is None
    assert not neighbours & ended.transcript.cosigners
