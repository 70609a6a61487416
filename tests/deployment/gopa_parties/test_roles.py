"""A run with GOPA, role by role and without processes: the model of the simulation, whatever crashes in time; the repaired sum of the others if not."""

import numpy as np
import pytest

import sottovoce as sv
from deployment.agent.cases import PROBLEM
from deployment.gopa_parties.roles import AGENTS, LATTICE, SEED, Roles, public_run, said_once, same
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


EVERYBODY = frozenset(range(AGENTS))


@pytest.mark.parametrize(
    ("when", "others"),
    [(Phase.REGISTRATION, False), (Phase.PREPARATION, False), (Phase.PUBLICATION, True)],
)
def test_an_agent_that_crashes_is_in_the_sum_unless_it_was_ready(roles, when, others):
    """Who had not said that it is ready changes nothing; who had is left out of this sum, and of no other."""
    phase(roles, when, round_=2)
    roles.end(3)
    roles.start(3)
    roles.play()
    assert same(roles.models())
    second = EVERYBODY - {3} if others else EVERYBODY
    assert [ended.sum.parties for ended in roles.ended[0]] == [EVERYBODY, second, EVERYBODY]
    if not others:
        assert np.abs(roles.models()[3] - simulated(roles)).max() / LATTICE.unit < UNITS
    assert said_once(roles)


@pytest.mark.parametrize("written", [Kind.READY, Kind.PUBLISH])
def test_an_agent_that_crashes_after_it_wrote_that_it_is_ready_stays_silent(roles, written):
    """Nothing of it had left: it is not active, or it is repaired; in no case does what it wrote leave it later."""
    phase(roles, {Kind.READY: Phase.PREPARATION, Kind.PUBLISH: Phase.PUBLICATION}[written], round_=2)
    assert open_message(roles.agents[3].act()).kind is written
    roles.start(3)
    roles.play()
    assert same(roles.models())
    assert [ended.sum.parties for ended in roles.ended[0]] == [EVERYBODY, EVERYBODY - {3}, EVERYBODY]
    assert (3 in roles.ended[0][1].transcript.dropped) == (written is Kind.PUBLISH)
    assert not any(n == 3 and open_message(raw).round_number == 2 and open_message(raw).kind is written for n, raw in roles.sent)  # fmt: skip


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
    published = roles.now
    roles.turn()
    ready = roles.agents[2]._round.deadlines.ready.monotonic
    half = ready + (roles.plan.times.publish + roles.plan.times.drops) // 2
    roles.now = half
    assert not roles.agents[2].unheard()
    roles.now = half + 1
    assert roles.agents[2].unheard()
    assert half + 1 < published + roles.plan.times.drops
    assert not roles.agents[1].unheard()  # the log shows it
    roles.start(2)
    assert not roles.agents[2].unheard()  # this process has sent nothing


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
    last = agent._round.deadlines.ready.monotonic + roles.plan.times.publish
    roles.now = last
    assert any(open_message(raw).kind is Kind.PUBLISH for raw in agent.waiting())
    assert agent.to_neighbours() is not None
    roles.now = last + 1
    assert agent.waiting() == []
    assert agent.to_neighbours() is None
    assert "stays silent" in agent.late


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


@pytest.mark.parametrize("early", [False, True])
def test_who_was_restarted_does_not_sign_what_it_may_have_forgotten(roles, early):
    """A board hides a publication, and names its agent dropped, at once or in time; neighbours that had it are restarted once nobody hands it over any more."""
    phase(roles, Phase.PUBLICATION)
    roles.swallow = lambda number, raw: number == 2 and open_message(raw).kind is Kind.PUBLISH
    log = roles.board.log
    roles.play(until=lambda r: log.transcript.survivors == log.transcript.active - {2})
    over = roles.now + roles.plan.times.publish
    if early:
        dropped = Message(
            kind=Kind.DROPS, run=log.transcript.terms.run, round_number=1, sender=roles.keys["board"].public_key,
            reference=log.transcript.head, payload=pack_parties(frozenset({2})),
        )  # fmt: skip
        roles.board.take(seal(dropped, roles.keys["board"].signing_key))
        roles.show()
    neighbours = log.transcript.neighbours[2]
    assert roles.agents[2].to_neighbours()[0] == neighbours  # whatever the board says
    roles.play(until=lambda r: r.now > over)
    assert roles.agents[2].to_neighbours() is None
    for n in neighbours:
        roles.start(n)
    roles.play(until=lambda r: r.board.log.round_ == 2)
    ended = roles.ended[min(neighbours)][0]
    assert ended.sum is None
    assert not neighbours & ended.transcript.cosigners


def test_masks_are_revealed_by_who_has_waited_or_has_signed(roles):
    """A list of dropped agents that enough others have signed does not make an agent reveal masks before its own time."""
    phase(roles, Phase.PUBLICATION)
    roles.end(2)
    log = roles.board.log
    roles.play(until=lambda r: log.transcript.survivors == log.transcript.active - {2})
    agent = roles.agents[min(log.transcript.neighbours[2])]
    transcript, active = agent.log.transcript, agent._round.deadlines.active
    roles.now = active + roles.plan.times.drops - 1
    transcript.dropped, transcript.phase = frozenset({2}), Phase.REPAIR  # as if all others had signed
    assert agent.act() is None
    roles.now = active + roles.plan.times.drops
    assert open_message(agent.act()).kind is Kind.REPAIR


def test_who_signed_that_others_dropped_reveals_masks_after_a_restart_too(roles):
    phase(roles, Phase.PUBLICATION)
    roles.end(2)
    roles.play(until=lambda r: r.board.log.transcript.phase is Phase.REPAIR)
    for n in list(roles.agents):
        roles.start(n)
    roles.play()
    assert [ended.sum.parties for ended in roles.ended[0]] == [EVERYBODY - {2}] * 3
    assert same(roles.models())
