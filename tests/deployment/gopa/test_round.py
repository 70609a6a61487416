"""Whole rounds as messages: the sum is exact whoever falls silent, and equals that of the fast form."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployment.gopa.rounds import VALUE, expected_units, identity, setting, terms
from sottovoce.deployment.gopa import (
    FixedPoint,
    GaussianMasks,
    Phase,
    RoundedGaussian,
    Sources,
    UniformMasks,
    missing_repairs,
    play_round,
    rehearse,
    total,
    total_with_residual,
)
from sottovoce.deployment.gopa.refusals import OutOfPhase, TooFewParties, Unrepaired
from sottovoce.errors import ConfigError, UnsupportedClaim

GAUSSIAN = GaussianMasks(law=RoundedGaussian(std=2.0**20))


def sources_of(rehearsal):
    """The sources of a played round in the order of the fast form."""
    transcript, parties = rehearsal.server, rehearsal.parties
    edges, masks = [], []
    for party in sorted(transcript.neighbours):
        for other in sorted(transcript.neighbours[party]):
            if transcript.registered[party] < transcript.registered[other]:
                edges.append((party, other))
                masks.append(parties[party].mask(other))
    return Sources(np.array(edges), np.array(masks), np.array([party.own_noise() for party in parties]))


def silent_patterns(num_parties, most):
    steps = st.sampled_from(["registration", "preparation", "publication"])
    return st.dictionaries(st.integers(0, num_parties - 1), steps, max_size=most)


class TestExactSum:
    def test_without_silence_the_sum_is_that_of_inputs_and_own_noise(self):
        rehearsal = setting(6)
        server = rehearsal.play(beacon_value=VALUE)
        result = total(server)
        assert result.units.tolist() == expected_units(rehearsal, range(6))
        assert result.parties == frozenset(range(6))
        assert result.residual_variance == 0.0
        np.testing.assert_allclose(result.mean, np.array(expected_units(rehearsal, range(6))) / 6 / 2**16, rtol=1e-12)

    def test_secrets_from_the_operating_system_give_an_exact_sum_as_well(self):
        rehearsal = rehearse(
            terms(6),
            identities=[identity(number) for number in range(6)],
            board=identity("board"),
            beacon=identity("beacon"),
            values=list(np.random.default_rng(0).normal(size=(6, 2))),
            silence={},
        )
        assert total(rehearsal.play(beacon_value=VALUE)).units.tolist() == expected_units(rehearsal, range(6))

    def test_masks_are_in_what_is_published(self):
        rehearsal = setting(6)
        server = rehearsal.play(beacon_value=VALUE)
        for number, words in server.publications.items():
            bare = rehearsal.parties[number].units + rehearsal.parties[number].own_noise()
            assert (words.view(np.int64) != bare).all()

    @settings(max_examples=60, deadline=None)
    @given(st.integers(6, 9), st.sampled_from([UniformMasks(), GAUSSIAN]), st.data())
    def test_any_silence_that_leaves_a_quorum_is_repaired_exactly(self, num_parties, masks, data):
        silence = data.draw(silent_patterns(num_parties, 3))
        rehearsal = setting(num_parties, silence=silence, masks=masks, dimension=3, seed=data.draw(st.integers(0, 99)))
        survivors = [number for number in range(num_parties) if number not in silence]
        active = [number for number in range(num_parties) if silence.get(number, "publication") == "publication"]
        try:
            server = rehearsal.play(beacon_value=VALUE)
        except TooFewParties:
            # A party that is left without a neighbour refuses, and there is no sum.
            assert any(not rehearsal.server.neighbours[number] & set(survivors) for number in survivors)
            return
        if 3 * len(survivors) > 2 * len(active):
            assert total(server).units.tolist() == expected_units(rehearsal, survivors)
            assert server.dropped == frozenset(active) - frozenset(survivors)
        else:
            assert server.phase is Phase.COSIGNING
            with pytest.raises(Unrepaired):
                total(server)

    def test_those_who_fall_silent_before_the_freeze_cost_nothing(self):
        rehearsal = setting(7, silence={0: "registration", 3: "preparation"}, out_degree=3)
        server = rehearsal.play(beacon_value=VALUE)
        assert not server.dropped
        assert not server.repairs
        assert total(server).units.tolist() == expected_units(rehearsal, [1, 2, 4, 5, 6])

    def test_noise_variance_is_that_of_the_noise(self):
        # 60 rounds of 5 parties and 40 entries: the standard error of a variance from 2400 numbers is 3 %.
        errors = []
        for seed in range(60):
            rehearsal = setting(5, dimension=40, seed=seed)
            result = total(rehearsal.play(beacon_value=VALUE))
            truth = sum(party.units for party in rehearsal.parties) / 5 / 2**16
            errors.extend(result.mean - truth)
        ratio = np.var(errors) / result.noise_variance
        assert abs(ratio - 1) < 0.15
        assert not abs(ratio * 4 / 9 - 1) < 0.15
        assert not abs(ratio * 9 / 4 - 1) < 0.15


class TestTwoSpeeds:
    @pytest.mark.parametrize("masks", [UniformMasks(), GAUSSIAN])
    @pytest.mark.parametrize(
        "silence", [{}, {2: "publication"}, {1: "publication", 4: "publication", 6: "preparation"}]
    )
    def test_fed_the_same_sources_both_forms_give_the_same_integers(self, masks, silence):
        rehearsal = setting(8, silence=silence, masks=masks, dimension=4, out_degree=3)
        server = rehearsal.play(beacon_value=VALUE)
        numbers = np.arange(8)
        active = np.isin(numbers, [n for n in numbers if silence.get(int(n), "publication") == "publication"])
        survivors = np.isin(numbers, [n for n in numbers if int(n) not in silence])
        units = np.array([party.units for party in rehearsal.parties])
        fast = play_round(units, sources_of(rehearsal), active=active, survivors=survivors)
        for number in range(8):
            np.testing.assert_array_equal(fast.published[number], server.publications.get(number, np.zeros(4)))
            np.testing.assert_array_equal(fast.repairs[number], server.repairs.get(number, np.zeros(4)))
        np.testing.assert_array_equal(fast.total.view(np.int64), total(server).units)
        assert fast.residual_masks == 0


class TestUnrepaired:
    def silent_repairer(self, masks):
        rehearsal = setting(8, silence={0: "publication"}, masks=masks, out_degree=3)
        rehearsal.play(beacon_value=VALUE, until=Phase.REPAIR)
        return rehearsal

    def test_one_unrepaired_silent_party_is_detected_and_then_repaired(self):
        rehearsal = self.silent_repairer(UniformMasks())
        with pytest.raises(Unrepaired, match=r"\[0\] fell silent"):
            total(rehearsal.server)
        assert missing_repairs(rehearsal.server) == rehearsal.server.neighbours[0]
        assert total(rehearsal.play(beacon_value=VALUE)).units.tolist() == expected_units(rehearsal, range(1, 8))

    def test_uniform_masks_leave_no_sum_without_repair(self):
        with pytest.raises(UnsupportedClaim, match="uniform"):
            total_with_residual(self.silent_repairer(UniformMasks()).server)

    def test_residual_is_exactly_the_missing_masks_and_its_variance_is_stated(self):
        rehearsal = self.silent_repairer(GAUSSIAN)
        server = rehearsal.server
        missing = sorted(missing_repairs(server))
        for number in missing[:-2]:
            rehearsal.post(rehearsal.parties[number].repair())
        result = total_with_residual(server)
        left = sum(rehearsal.parties[number].mask(0).view(np.int64) for number in missing[-2:])
        assert (result.units - left).tolist() == expected_units(rehearsal, range(1, 8))
        assert math.isclose(result.residual_variance, 2 * 2.0**40 / 2.0**32 / 7**2, rel_tol=1e-9)

    def test_a_repaired_sum_has_no_residual(self):
        rehearsal = setting(8, silence={0: "publication"}, masks=GAUSSIAN, out_degree=3)
        server = rehearsal.play(beacon_value=VALUE)
        assert total_with_residual(server).residual_variance == 0.0

    def test_a_repairer_that_falls_silent_leaves_the_round_unrepaired(self):
        rehearsal = setting(8, silence={0: "publication"}, out_degree=7)
        rehearsal.silence[1] = "repair"
        server = rehearsal.play(beacon_value=VALUE)
        assert server.phase is Phase.REPAIR
        assert missing_repairs(server) == {1}

    def test_there_is_no_sum_before_the_publications_end(self):
        rehearsal = setting(6)
        server = rehearsal.play(beacon_value=VALUE, until=Phase.PUBLICATION)
        for ask in (total, total_with_residual):
            with pytest.raises(OutOfPhase):
                ask(server)


class TestTerms:
    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"run": b"short"}, "run must be 16 bytes"),
            ({"board": b"short"}, "identity keys of 32 bytes"),
            ({"dimension": 0}, "dimension = 0"),
            ({"out_degree": 6}, "out_degree = 6"),
            ({"minimum_parties": 1}, "minimum_parties = 1"),
            ({"minimum_neighbours": True}, "minimum_neighbours = True"),
            ({"drops_from": 100}, "must come after"),
            ({"round_number": -1}, "round_number = -1"),
        ],
    )
    def test_terms_that_cannot_be_used_are_refused(self, changes, words):
        with pytest.raises(ConfigError, match=words):
            terms(6, **changes)

    def test_all_problems_are_reported_together(self):
        with pytest.raises(ConfigError, match=r"run must.*dimension.*minimum_parties"):
            terms(6, run=b"", dimension=0, minimum_parties=0)

    def test_an_identity_has_one_role(self):
        with pytest.raises(ConfigError, match="twice"):
            terms(6, board=terms(6).roster[0])

    def test_a_sum_that_could_overflow_is_refused(self):
        with pytest.raises(ConfigError, match="fraction bits"):
            terms(2048, encoding=FixedPoint(clip=1.0, fraction_bits=52))
        terms(2047, encoding=FixedPoint(clip=1.0, fraction_bits=52))

    def test_every_term_changes_the_digest(self):
        base = terms(6)
        changes = [
            {"run": b"x" * 16},
            {"round_number": 4},
            {"dimension": 3},
            {"own_noise": RoundedGaussian(std=1001.0)},
            {"masks": GAUSSIAN},
            {"masks": GaussianMasks(law=RoundedGaussian(std=2.0))},
            {"out_degree": 3},
            {"minimum_parties": 3},
            {"minimum_neighbours": 2},
            {"publish_until": 101},
            {"drops_from": 121},
            {"roster": base.roster[::-1]},
        ]
        digests = {base.digest, *(terms(6, **change).digest for change in changes)}
        assert len(digests) == len(changes) + 1
        assert base.digest == terms(6).digest
