"""What finished rounds reveal: the final honest graph by another route, composition, charges, refusals, a Monte Carlo."""

import itertools
import math

import numpy as np
import pytest

from deployment.gopa.rounds import VALUE, public, setting
from sottovoce.accounting import Guarantee, gaussian
from sottovoce.deployment.gopa import (
    FixedPoint,
    GaussianMasks,
    Phase,
    RoundedGaussian,
    Sources,
    UniformMasks,
    final_graph,
    guarantee,
    play_round,
)
from sottovoce.deployment.gopa.refusals import OutOfPhase
from sottovoce.errors import ConfigError, UnsupportedClaim

DIAMETER, STD = 2.0 * 2**16, 2.0**16  # of the encoded vectors, and of own noise, in units
MASKS = GaussianMasks(law=RoundedGaussian(std=3.0 * 2**16))


def played(num_parties, *, until=Phase.COMPLETE, **changes):
    changes = {"own_noise": RoundedGaussian(std=STD), "out_degree": 2} | changes
    return setting(num_parties, **changes).play(beacon_value=VALUE, until=until)


def reached(transcript, party, coalition):
    """Honest parties that published and that a walk over their pairs reaches from one of them."""
    allowed = set(transcript.publications) - set(coalition)
    found, waiting = {party}, [party]
    while waiting:
        new = (transcript.neighbours[waiting.pop()] & allowed) - found
        found |= new
        waiting += new
    return found


def proof(stated, number=0):
    return stated.tradeoff.ways[number]


@pytest.mark.parametrize("coalition", [(), (0,), (1, 5, 6), (0, 2, 4, 6, 8)])
@pytest.mark.parametrize("silence", [{}, {3: "publication"}, {3: "publication", 7: "preparation"}])
def test_uniform_masks_hide_a_party_among_those_it_is_connected_to(coalition, silence):
    transcript = played(10, silence=silence)
    assert transcript.phase is Phase.COMPLETE
    mus = {}
    for party in sorted(transcript.survivors - set(coalition)):
        stated = guarantee(transcript, coalition=coalition, party=party)
        mus[party] = DIAMETER / (STD * math.sqrt(len(reached(transcript, party, coalition))))
        assert proof(stated).mu == pytest.approx(mus[party], rel=1e-12)
        assert (stated.agent, stated.rounds, stated.unit, stated.adjacency) == (party, 1, "agent", "replace")
    worst = guarantee(transcript, coalition=coalition)
    assert proof(worst).mu == pytest.approx(max(mus.values()), rel=1e-12)
    assert mus[worst.agent] == max(mus.values())


def test_some_coalition_leaves_a_party_alone_and_it_has_its_own_noise_only():
    transcript = played(10)
    stated = guarantee(transcript, coalition=transcript.neighbours[4], party=4)
    assert proof(stated).mu == pytest.approx(DIAMETER / STD)
    assert "1 honest" in stated.reason


@pytest.mark.parametrize("coalition", [(), (1, 5)])
@pytest.mark.parametrize("silence", [{}, {3: "publication"}])
def test_gaussian_masks_have_the_inverse_covariance_of_the_final_graph(coalition, silence):
    transcript = played(10, silence=silence, masks=MASKS)
    honest = sorted(transcript.survivors - set(coalition))
    pairs = [(u, v) for u in honest for v in honest if u < v and v in transcript.neighbours[u]]
    K = np.array([[(u == ends[0]) - (u == ends[1]) for ends in pairs] for u in honest], dtype=float)
    inverse = np.linalg.inv(STD**2 * np.eye(len(honest)) + (3.0 * 2**16) ** 2 * K @ K.T)
    for place, party in enumerate(honest):
        stated = guarantee(transcript, coalition=coalition, party=party)
        assert proof(stated).mu == pytest.approx(DIAMETER * math.sqrt(inverse[place, place]), rel=1e-9)
        assert proof(stated).mu >= proof(guarantee(played(10, silence=silence), coalition=coalition, party=party)).mu


@pytest.mark.parametrize("masks", [UniformMasks(), MASKS])
def test_imperfect_draws_of_all_who_hide_a_party_are_charged(masks):
    transcript = played(6, masks=masks)
    draws = 6 * RoundedGaussian(std=STD).total_variation
    if masks is MASKS:
        draws += sum(map(len, transcript.neighbours.values())) // 2 * MASKS.law.total_variation
    stated = guarantee(transcript, coalition=())
    for number in range(2):
        assert proof(stated, number).total_variation == pytest.approx(2 * draws, rel=1e-9)  # two entries
    assert stated.mu is None
    mu = proof(stated).mu
    assert gaussian.delta(mu, 1.0) <= stated.delta(1.0) <= gaussian.delta(mu, 1.0) * (1 + 1e-9)
    assert stated.epsilon(1e-6) == pytest.approx(gaussian.epsilon(mu, 1e-6), rel=1e-9)
    assert stated.epsilon(1e-40) == math.inf


def test_coarse_noise_pays_for_whole_numbers():
    coarse = {"own_noise": RoundedGaussian(std=0.9), "encoding": FixedPoint(clip=1.0, fraction_bits=0)}
    stated = guarantee(played(6, **coarse), coalition=())
    assert proof(stated).total_variation > 0.001
    assert proof(stated, 1).mu > proof(stated).mu
    assert stated.delta(2.0) > 1.1 * gaussian.delta(proof(stated).mu, 2.0)


def test_rounds_compose_and_only_those_count_in_which_a_party_published():
    first = played(8, round_number=1)
    second = played(8, round_number=2, silence={3: "publication"})
    third = played(8, round_number=3, masks=MASKS)
    apart = {p: [guarantee(one, coalition=(1,), party=p) for one in (first, third)] for p in (0, 3)}
    missed = guarantee([first, second, third], coalition=(1,), party=3)
    assert proof(missed).mu == pytest.approx(math.hypot(*(proof(one).mu for one in apart[3])))
    assert proof(missed).total_variation == pytest.approx(sum(proof(one).total_variation for one in apart[3]))
    assert (missed.rounds, missed.participation) == (3, "2 of 3 rounds")
    stated = guarantee([first, second, third], coalition=(1,), party=0)
    middle = guarantee(second, coalition=(1,), party=0)
    assert proof(stated).mu == pytest.approx(math.hypot(*(proof(one).mu for one in (*apart[0], middle))))
    assert stated.participation == "every-round"
    worst = guarantee([first, second, third], coalition=(1,))
    assert proof(worst).mu >= max(proof(stated).mu, proof(missed).mu)
    assert isinstance(worst, Guarantee)


def test_a_larger_coalition_never_knows_less():
    transcript = played(12, masks=MASKS)
    for party in (0, 7):
        others = [number for number in range(12) if number != party]
        mus = [proof(guarantee(transcript, coalition=others[:size], party=party)).mu for size in range(12)]
        assert all(small <= large * (1 + 1e-12) for small, large in itertools.pairwise(mus))
        assert mus[-1] == pytest.approx(DIAMETER / STD)


def test_a_round_that_is_stuck_counts_as_if_it_were_repaired():
    repaired = played(10, silence={3: "publication"})
    stuck = played(10, silence={3: "publication", min(repaired.repairers): "repair"})
    assert (stuck.phase, repaired.phase) == (Phase.REPAIR, Phase.COMPLETE)
    stated, later = (guarantee(one, coalition=(1,)) for one in (stuck, repaired))
    assert stated.tradeoff == later.tradeoff
    assert "Round 3 has no sum" in stated.reason
    assert "no sum" not in later.reason


def test_the_statement_names_observer_and_assumptions_and_can_be_written_down():
    stated = guarantee(played(12), coalition=(4, 2))
    assert stated.observer == "the server, the board and parties 2, 4"
    text = stated.explain(1e-6)
    for words in ("epsilon = ", "follow the protocol", "drop lists are final", "upper bound", "silent parties"):
        assert words in text
    assert stated.describe([1e-6])["epsilon"]["1e-06"] == stated.epsilon(1e-6)
    assert guarantee(played(12), coalition=()).observer == "the server and the board"
    assert "coalition of 9" in guarantee(played(12), coalition=range(9)).observer


@pytest.mark.parametrize("phase", [Phase.REGISTRATION, Phase.DRAWING, Phase.PREPARATION])
def test_rounds_without_publications_are_refused(phase):
    with pytest.raises(OutOfPhase, match=phase.name):
        guarantee(played(5, until=phase), coalition=())


def test_a_round_that_never_closes_counts_with_what_was_published():
    """A board that keeps the publication open cannot make a round disappear from the account."""
    rehearsal = setting(5, own_noise=RoundedGaussian(std=STD), out_degree=2)
    rehearsal.play(beacon_value=VALUE, until=Phase.PUBLICATION)
    with pytest.raises(UnsupportedClaim, match="published"):
        guarantee(rehearsal.server, coalition=())
    for party in rehearsal.parties[:3]:
        rehearsal.post(party.publish(now=rehearsal.server.terms.publish_until))
    found = guarantee(rehearsal.server, coalition=())
    whole = guarantee(played(5), coalition=())
    assert "still open" in found.reason
    assert found.epsilon(1e-5) > whole.epsilon(1e-5)  # fewer parties hide each other
    assert "fixed beforehand" in " ".join(found.assumptions)


@pytest.mark.parametrize("coalition", [(5,), (-1,), (True,), (0.5,), (0, 17)])
def test_coalitions_outside_the_roster_are_refused(coalition):
    with pytest.raises(ConfigError, match="coalition"):
        guarantee(played(5), coalition=coalition)


def test_questions_without_an_answer_are_refused():
    transcript = played(6, silence={3: "publication"})
    with pytest.raises(ConfigError, match="in the coalition"):
        guarantee(transcript, coalition=(2,), party=2)
    with pytest.raises(ConfigError, match="reveal nothing"):
        guarantee(transcript, coalition=(), party=3)
    with pytest.raises(UnsupportedClaim, match="smaller coalition"):
        guarantee(transcript, coalition=(0, 1, 2, 4, 5))
    with pytest.raises(ConfigError, match="no round"):
        guarantee([], coalition=())
    with pytest.raises(ConfigError, match="twice"):
        guarantee([transcript, transcript], coalition=())
    renamed = played(6, round_number=4, roster=tuple(public(number) for number in (1, 0, 2, 3, 4, 5)))
    with pytest.raises(ConfigError, match="rosters"):
        guarantee([transcript, renamed], coalition=())


def test_final_graph_has_the_honest_parties_that_published():
    transcript = played(10, silence={3: "publication"})
    honest, graph = final_graph(transcript, (1, 5))
    assert honest == sorted(transcript.survivors - {1, 5}) == [0, 2, 4, 6, 7, 8, 9]
    for place, party in enumerate(honest):
        linked = {honest[other] for other in graph.adjacency[[place]].indices}
        assert linked == transcript.neighbours[party] & set(honest)


def loss(published, inverse, change):
    """Log-likelihood ratio of Gaussian views, party 0 holding 0 or `change`; [entries]."""
    weights = change * inverse[0]
    return 0.5 * change * weights[0] - weights @ published


@pytest.mark.parametrize(("scale", "within"), [(1.0, True), (2 / 3, False), (3 / 2, False)])
def test_played_rounds_on_six_parties_have_the_stated_loss_within_one_per_cent_and_other_scales_do_not(scale, within):
    # 400,000 entries: the loss has mean mu^2/2 and variance mu^2, standard errors 0.19 % and 0.22 %.
    count, own, mask, change = 400_000, 40.0, 60.0, 120.0
    edges = np.array([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (1, 4)])
    generator = np.random.default_rng(7)
    noise, words = (
        RoundedGaussian(std=scale * std).from_words(
            generator.integers(0, 2**64, size=(rows, count, 2), dtype=np.uint64)
        )
        for std, rows in ((own, 6), (mask, len(edges)))
    )
    sources = Sources(edges, words.view(np.uint64), noise)
    published = play_round(np.zeros((6, count), dtype=np.int64), sources).published.view(np.int64)
    K = np.zeros((6, len(edges)))
    K[edges[:, 0], np.arange(len(edges))], K[edges[:, 1], np.arange(len(edges))] = 1.0, -1.0
    inverse = np.linalg.inv(own**2 * np.eye(6) + mask**2 * K @ K.T)
    mu = change * math.sqrt(inverse[0, 0])
    losses = loss(published, inverse, change)
    if within:  # the mean does not depend on the scale
        assert abs(losses.mean() / (mu**2 / 2) - 1) < 0.01
    assert (abs(losses.var() / mu**2 - 1) < 0.01) == within
    delta = np.maximum(0.0, 1.0 - np.exp(1.0 - losses)).mean()
    assert (abs(delta / gaussian.delta(mu, 1.0) - 1) < 0.01) == within  # standard error 0.15 %
