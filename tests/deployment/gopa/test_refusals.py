"""What is refused: changed, replayed, late, repeated, malformed messages; second and withheld publications."""

import dataclasses
import random

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from deployment.gopa.rounds import VALUE, expected_units, identity, public, setting, state, terms
from sottovoce.deployment.gopa import (
    Board,
    Kind,
    Party,
    Phase,
    Transcript,
    beacon_message,
    open_message,
    seal,
    total,
)
from sottovoce.deployment.gopa.messages import pack_parties, parse
from sottovoce.deployment.gopa.refusals import (
    Duplicate,
    Equivocation,
    FalseList,
    Forged,
    Malformed,
    OutOfPhase,
    Replayed,
    SecondPublication,
    TooFewParties,
    UnknownSender,
    WithheldPublication,
    WrongTime,
)
from sottovoce.errors import ConfigError, ProtocolError

SENDER_OF = {Kind.CLOSE: "board", Kind.FREEZE: "board", Kind.DROPS: "board", Kind.BEACON: "beacon"}


@pytest.fixture(scope="module")
def played():
    """A complete round of six parties with one dropped: every kind of message is in its log."""
    rehearsal = setting(6, silence={5: "publication"}, out_degree=3)
    rehearsal.play(beacon_value=VALUE)
    assert {parse(entry.raw).kind for entry in rehearsal.board.log} == set(Kind)
    return rehearsal


def before(played, kind):
    """A transcript at the point where the first message of a kind is due, and that message."""
    transcript = Transcript(played.server.terms)
    for entry in played.board.log:
        if parse(entry.raw).kind is kind:
            return transcript, entry.raw
        transcript.append(entry.raw)
    raise AssertionError(kind)


def signer(played, raw):
    sender = parse(raw).sender
    names = ["board", "beacon", *range(6)]
    return next(identity(name) for name in names if public(name) == sender)


def resealed(played, raw, **changes):
    """The message with other fields, validly signed by its own sender."""
    return seal(dataclasses.replace(parse(raw), **changes), signer(played, raw))


def mutated(raw, others, chance):
    """One of the ways in which bytes get damaged or forged."""
    way = chance.randrange(6)
    place = chance.randrange(len(raw))
    if way == 0:
        return raw[:place] + bytes([raw[place] ^ (1 << chance.randrange(8))]) + raw[place + 1 :]
    if way == 1:
        return raw[:place]
    if way == 2:
        return raw + chance.randbytes(chance.randrange(1, 40))
    if way == 3:
        other = chance.choice(others)
        return raw[:place] + other[place:] if raw[:place] + other[place:] != raw else b""
    if way == 4:
        return chance.randbytes(len(raw))
    return raw[:place] + chance.randbytes(1) * chance.randrange(2, 9) + raw[place:]


class TestFuzz:
    @pytest.mark.parametrize("kind", list(Kind))
    def test_a_thousand_damaged_messages_of_a_kind_change_nothing(self, played, kind):
        transcript, raw = before(played, kind)
        others = [entry.raw for entry in played.board.log]
        untouched, chance = state(transcript), random.Random(int(kind))
        genuine = set(others)
        refused = 0
        while refused < 1000:
            bad = mutated(raw, others, chance)
            if bad in genuine:
                continue
            with pytest.raises(ProtocolError) as caught:
                transcript.append(bad)
            assert isinstance(caught.value, Malformed | Forged | UnknownSender | Replayed)
            refused += 1
        assert state(transcript) == untouched
        transcript.append(raw)
        assert state(transcript) != untouched

    @pytest.mark.parametrize("kind", list(Kind))
    def test_every_other_message_of_the_round_is_refused_out_of_turn(self, played, kind):
        transcript, _ = before(played, kind)
        untouched = state(transcript)
        for entry in played.board.log:
            if parse(entry.raw).kind is not kind and parse(entry.raw).kind not in (
                Kind.REGISTER,
                Kind.READY,
                Kind.PUBLISH,
            ):
                with pytest.raises(ProtocolError) as caught:
                    transcript.append(entry.raw)
                assert isinstance(caught.value, OutOfPhase | Replayed)
        assert state(transcript) == untouched

    @pytest.mark.parametrize("kind", list(Kind))
    @pytest.mark.parametrize(
        ("changes", "refusal"),
        [
            ({"run": b"other run 16 byt"}, Replayed),
            ({"round_number": 4}, Replayed),
            ({"reference": bytes(32)}, Replayed),
            ({"payload": b"x" * 7}, Malformed),
        ],
    )
    def test_signed_messages_of_other_rounds_histories_and_forms_are_refused(self, played, kind, changes, refusal):
        transcript, raw = before(played, kind)
        untouched = state(transcript)
        with pytest.raises(refusal):
            transcript.append(resealed(played, raw, **changes))
        assert state(transcript) == untouched

    @pytest.mark.parametrize("kind", list(Kind))
    def test_nobody_else_may_send_a_message_in_its_senders_place(self, played, kind):
        transcript, raw = before(played, kind)
        untouched = state(transcript)
        stranger = "stranger" if kind not in SENDER_OF else 0
        wrong = dataclasses.replace(parse(raw), sender=public(stranger))
        with pytest.raises(UnknownSender):
            transcript.append(seal(wrong, identity(stranger)))
        assert state(transcript) == untouched

    @pytest.mark.parametrize("kind", [Kind.READY, Kind.PUBLISH, Kind.COSIGN, Kind.REPAIR])
    def test_parties_that_left_earlier_are_refused_later(self, kind):
        # Party 6 never registered, 7 was not ready at the freeze, 8 did not publish.
        silence = {6: "registration", 7: "preparation", 8: "publication"}
        rehearsal = setting(9, silence=silence, out_degree=3)
        rehearsal.play(beacon_value=VALUE)
        transcript, raw = before(rehearsal, kind)
        untouched = state(transcript)
        gone = {Kind.READY: [6], Kind.PUBLISH: [6, 7]}.get(kind, [6, 7, 8])
        for number in gone:
            wrong = dataclasses.replace(parse(raw), sender=public(number))
            with pytest.raises(UnknownSender, match=f"Party {number}"):
                transcript.append(seal(wrong, identity(number)))
        assert state(transcript) == untouched

    @pytest.mark.parametrize("kind", [Kind.REGISTER, Kind.READY, Kind.PUBLISH, Kind.COSIGN, Kind.REPAIR])
    def test_a_repeated_message_is_refused_and_the_first_one_stands(self, played, kind):
        transcript, raw = before(played, kind)
        transcript.append(raw)
        untouched = state(transcript)
        with pytest.raises(Duplicate):
            transcript.append(raw)
        if kind in (Kind.PUBLISH, Kind.REPAIR):
            with pytest.raises(Duplicate):
                transcript.append(resealed(played, raw, payload=bytes(16)))
        assert state(transcript) == untouched

    def test_late_messages_of_every_kind_are_refused_after_the_end(self, played):
        transcript = Transcript(played.server.terms)
        for entry in played.board.log:
            transcript.append(entry.raw)
        result = total(transcript).units.tolist()
        for entry in played.board.log:
            with pytest.raises(OutOfPhase):
                transcript.append(entry.raw)
        assert total(transcript).units.tolist() == result == expected_units(played, range(5))

    def test_a_repair_from_a_party_with_nothing_to_repair_is_refused(self):
        rehearsal = setting(12, silence={0: "publication"})
        rehearsal.play(beacon_value=VALUE, until=Phase.REPAIR)
        idle = min(rehearsal.server.survivors - rehearsal.server.repairers)
        with pytest.raises(UnknownSender, match="nothing for it to repair"):
            rehearsal.board.post(rehearsal.parties[idle].repair())


class TestMessages:
    def test_parsing_and_sealing_are_inverse(self, played):
        for entry in played.board.log:
            assert seal(open_message(entry.raw), signer(played, entry.raw)) == entry.raw

    def test_signed_bytes_after_the_payload_are_refused(self, played):
        raw = played.board.log[0].raw
        longer = raw[:-64] + b"more"
        with pytest.raises(Malformed, match="announces"):
            open_message(longer + signer(played, raw).sign(longer))

    def test_nobody_seals_for_somebody_else(self, played):
        with pytest.raises(Forged):
            seal(parse(played.board.log[0].raw), identity("stranger"))

    @pytest.mark.parametrize("bad", [b"", b"x", None, "text", bytearray(300)])
    def test_what_is_not_a_message_is_refused(self, bad):
        with pytest.raises(Malformed):
            parse(bad)

    @pytest.mark.parametrize("payload", [b"\x01\x00\x00", pack_parties(frozenset({1})) * 2, b"\x02\0\0\0\x01\0\0\0"])
    def test_lists_that_are_not_increasing_are_refused(self, played, payload):
        transcript, raw = before(played, Kind.FREEZE)
        with pytest.raises(Malformed):
            transcript.append(resealed(played, raw, payload=payload))


class TestBoard:
    def test_a_board_that_lists_others_than_the_ready_ones_is_refused(self, played):
        transcript, raw = before(played, Kind.FREEZE)
        for parties in (frozenset(range(5)), frozenset(range(7)), frozenset()):
            with pytest.raises(FalseList):
                transcript.append(resealed(played, raw, payload=pack_parties(parties)))

    def test_a_board_that_calls_a_published_party_dropped_is_refused(self, played):
        transcript, raw = before(played, Kind.DROPS)
        for parties in (frozenset({4, 5}), frozenset({4}), frozenset(), frozenset({5, 9})):
            with pytest.raises(FalseList):
                transcript.append(resealed(played, raw, payload=pack_parties(parties)))

    def test_the_drop_list_is_final(self, played):
        transcript, raw = before(played, Kind.DROPS)
        transcript.append(raw)
        with pytest.raises(OutOfPhase):
            transcript.append(resealed(played, raw, reference=transcript.head, payload=pack_parties(frozenset({4, 5}))))

    def test_the_board_waits_for_publications_that_may_be_on_their_way(self):
        rehearsal = setting(6)
        rehearsal.play(beacon_value=VALUE, until=Phase.PUBLICATION)
        for party in rehearsal.parties[1:]:
            rehearsal.post(party.publish(now=100))
        with pytest.raises(WrongTime, match=r"\[0\]"):
            rehearsal.board.close_publication(now=119)
        rehearsal.post(rehearsal.parties[0].publish(now=100))
        rehearsal.board.close_publication(now=101)

    def test_a_changed_head_is_equivocation(self, played):
        party = Party.join(Transcript(played.server.terms), identity(0), np.zeros(2))
        entry = played.board.log[0]
        with pytest.raises(Equivocation):
            party.read([entry._replace(head=bytes(32))])

    def test_readers_of_logs_in_another_order_do_not_agree(self, played):
        one, two = Transcript(played.server.terms), Transcript(played.server.terms)
        first, second = (entry.raw for entry in played.board.log[:2])
        for transcript, order in ((one, (first, second)), (two, (second, first))):
            for raw in order:
                transcript.append(raw)
        assert one.head != two.head
        with pytest.raises(Replayed):
            two.append(before(played, Kind.CLOSE)[1])

    def test_registration_does_not_close_with_too_few(self):
        rehearsal = setting(6, silence=dict.fromkeys(range(3), "registration"), out_degree=3)
        with pytest.raises(TooFewParties, match="registered"):
            rehearsal.play(beacon_value=VALUE)

    def test_the_freeze_needs_the_promised_number(self):
        rehearsal = setting(6, silence={0: "preparation", 1: "preparation"}, minimum_parties=5)
        with pytest.raises(TooFewParties, match="ready"):
            rehearsal.play(beacon_value=VALUE)

    def test_the_graph_is_not_known_before_registration_closed(self):
        # The same beacon value gives another graph once another key has registered.
        graphs = []
        for seed in range(2):
            rehearsal = setting(9, seed=seed)
            rehearsal.play(beacon_value=VALUE, until=Phase.PREPARATION)
            graphs.append(rehearsal.server.neighbours)
        assert graphs[0] != graphs[1]

    def test_a_beacon_before_the_close_is_refused(self):
        rehearsal = setting(6)
        with pytest.raises(OutOfPhase):
            rehearsal.board.post(beacon_message(rehearsal.board.transcript, identity("beacon"), VALUE))

    def test_only_the_named_identity_opens_the_board(self):
        with pytest.raises(ConfigError, match="board"):
            Board(Transcript(terms(6)), identity(0))

    def test_one_exchange_key_registers_once(self):
        agreed = terms(6)
        board = Board(Transcript(agreed), identity("board"))
        key = X25519PrivateKey.generate()
        for number, refusal in ((0, None), (1, Duplicate)):
            party = Party(Transcript(agreed), identity(number), np.zeros(2), exchange=key, noise_secret=bytes(32))
            if refusal is None:
                board.post(party.register())
            else:
                with pytest.raises(refusal):
                    board.post(party.register())
        assert len(board.log) == 1

    def test_an_exchange_key_of_small_order_does_not_register(self, played):
        transcript, raw = before(played, Kind.REGISTER)
        with pytest.raises(Malformed, match="small order"):
            transcript.append(resealed(played, raw, payload=bytes(32)))


class TestParty:
    def at(self, phase, **changes):
        rehearsal = setting(8, silence={0: "publication"}, out_degree=3, **changes)
        rehearsal.play(beacon_value=VALUE, until=phase)
        return rehearsal

    def test_never_a_second_publication(self):
        party = self.at(Phase.PUBLICATION).parties[1]
        party.publish(now=0)
        with pytest.raises(SecondPublication):
            party.publish(now=0)

    def test_no_publication_after_the_deadline_even_if_the_board_still_takes_it(self):
        party = self.at(Phase.PUBLICATION).parties[1]
        with pytest.raises(WrongTime):
            party.publish(now=101)
        party.publish(now=100)

    def test_no_publication_after_the_drop_list_even_with_a_slow_clock(self):
        party = self.at(Phase.COSIGNING).parties[0]
        with pytest.raises(OutOfPhase):
            party.publish(now=0)

    def test_no_publication_before_the_freeze(self):
        with pytest.raises(OutOfPhase):
            self.at(Phase.PREPARATION).parties[1].publish(now=0)

    def test_a_party_that_was_not_ready_does_not_publish(self):
        rehearsal = setting(8, silence={2: "preparation"}, out_degree=3)
        rehearsal.play(beacon_value=VALUE, until=Phase.PUBLICATION)
        with pytest.raises(OutOfPhase, match="not ready"):
            rehearsal.parties[2].publish(now=0)

    def test_nobody_is_called_dropped_before_the_clocks_allow_it(self):
        party = self.at(Phase.COSIGNING).parties[1]
        with pytest.raises(WrongTime):
            party.cosign(now=119)
        party.cosign(now=120)

    def test_no_mask_is_revealed_before_two_thirds_have_signed(self):
        rehearsal = self.at(Phase.COSIGNING)
        repairer = rehearsal.parties[min(rehearsal.server.repairers)]
        # Eight are active: five signatures are too few, six are enough.
        for number in range(1, 6):
            rehearsal.post(rehearsal.parties[number].cosign(now=120))
        with pytest.raises(OutOfPhase):
            repairer.repair()
        rehearsal.post(rehearsal.parties[6].cosign(now=120))
        repairer.repair()

    def test_a_withheld_publication_stops_signatures_and_repairs(self):
        # Server and board keep party 0's publication to themselves and call it dropped; 0 has told its neighbours.
        rehearsal = setting(8, out_degree=3)
        rehearsal.play(beacon_value=VALUE, until=Phase.PUBLICATION)
        withheld = rehearsal.parties[0].publish(now=0)
        for party in rehearsal.parties[1:]:
            rehearsal.post(party.publish(now=0))
        rehearsal.deliver(rehearsal.board.close_publication(now=120))
        assert rehearsal.server.dropped == {0}
        neighbours = rehearsal.server.neighbours[0]
        signing = [number for number in range(1, 8) if number not in neighbours]
        for number in neighbours:
            rehearsal.parties[number].witness(withheld)
            with pytest.raises(WithheldPublication):
                rehearsal.parties[number].cosign(now=120)
        for number in signing:
            rehearsal.post(rehearsal.parties[number].cosign(now=120))
        assert not rehearsal.server.certified

    def test_a_publication_seen_after_signing_still_stops_the_repair(self):
        rehearsal = setting(8, out_degree=3)
        rehearsal.play(beacon_value=VALUE, until=Phase.PUBLICATION)
        withheld = rehearsal.parties[0].publish(now=0)
        for party in rehearsal.parties[1:]:
            rehearsal.post(party.publish(now=0))
        rehearsal.deliver(rehearsal.board.close_publication(now=120))
        for party in rehearsal.parties[1:]:
            if rehearsal.server.phase is Phase.COSIGNING:
                rehearsal.post(party.cosign(now=120))
        assert rehearsal.server.phase is Phase.REPAIR
        for number in rehearsal.server.repairers:
            rehearsal.parties[number].witness(withheld)
            with pytest.raises(WithheldPublication):
                rehearsal.parties[number].repair()

    def test_what_the_withholding_attack_would_gain_without_the_refusal(self):
        # With all masks of party 0 revealed, its publication is its vector plus its own noise: the attack is real.
        rehearsal = setting(8, out_degree=3)
        rehearsal.play(beacon_value=VALUE, until=Phase.PUBLICATION)
        victim = rehearsal.parties[0]
        withheld = np.frombuffer(parse(victim.publish(now=0)).payload, dtype="<u8")
        revealed = sum(rehearsal.parties[number].mask(0) for number in rehearsal.server.neighbours[0])
        bare = (withheld + revealed).view(np.int64)
        np.testing.assert_array_equal(bare - victim.own_noise(), victim.units)

    def test_the_victim_itself_does_not_sign_its_own_drop(self):
        rehearsal = setting(8, out_degree=3)
        rehearsal.play(beacon_value=VALUE, until=Phase.PUBLICATION)
        rehearsal.parties[0].publish(now=0)
        for party in rehearsal.parties[1:]:
            rehearsal.post(party.publish(now=0))
        rehearsal.deliver(rehearsal.board.close_publication(now=120))
        with pytest.raises(WithheldPublication):
            rehearsal.parties[0].cosign(now=120)

    def test_only_genuine_publications_are_witnessed(self, played):
        rehearsal = self.at(Phase.PUBLICATION)
        genuine = rehearsal.parties[1].publish(now=0)
        witness = rehearsal.parties[2]
        for bad in (genuine[:-1], genuine[:-1] + bytes([genuine[-1] ^ 1]), played.board.log[0].raw):
            with pytest.raises(ProtocolError):
                witness.witness(bad)
        # Nothing else that may be in a log counts as a publication, whoever sent it.
        reader = Party.join(Transcript(played.server.terms), identity(0), np.zeros(2))
        reader.read(played.board.log)
        for entry in played.board.log:
            if parse(entry.raw).kind is Kind.PUBLISH:
                reader.witness(entry.raw)
            else:
                with pytest.raises(UnknownSender):
                    reader.witness(entry.raw)
        witness.witness(genuine)

    def test_nobody_signs_when_fewer_are_left_than_promised(self):
        rehearsal = setting(8, silence={0: "publication"}, out_degree=3, minimum_parties=8)
        with pytest.raises(TooFewParties, match="promise 8"):
            rehearsal.play(beacon_value=VALUE)

    def test_nobody_takes_part_with_fewer_neighbours_than_promised(self):
        rehearsal = setting(8, out_degree=1, minimum_neighbours=7)
        with pytest.raises(TooFewParties, match="share masks"):
            rehearsal.play(beacon_value=VALUE)

    def test_nobody_signs_when_fewer_neighbours_are_left_than_promised(self):
        rehearsal = setting(8, silence={0: "publication"}, out_degree=7, minimum_neighbours=7)
        with pytest.raises(TooFewParties, match="with 6 parties"):
            rehearsal.play(beacon_value=VALUE)

    @pytest.mark.parametrize("step", ["register", "ready"])
    def test_every_step_is_taken_once(self, step):
        rehearsal = setting(6)
        rehearsal.play(beacon_value=VALUE, until=Phase.REGISTRATION if step == "register" else Phase.PREPARATION)
        getattr(rehearsal.parties[0], step)()
        with pytest.raises(Duplicate):
            getattr(rehearsal.parties[0], step)()

    def test_strangers_and_wrong_dimensions_are_refused(self):
        with pytest.raises(ConfigError, match="roster"):
            Party.join(Transcript(terms(6)), identity("stranger"), np.zeros(2))
        with pytest.raises(ConfigError, match="3 entries"):
            Party.join(Transcript(terms(6)), identity(0), np.zeros(3))

    def test_a_fresh_party_has_fresh_noise_and_a_fresh_exchange_key(self):
        first, second = (Party.join(Transcript(terms(6, dimension=50)), identity(0), np.zeros(50)) for _ in range(2))
        assert (first.own_noise() != second.own_noise()).any()
        assert parse(first.register()).payload != parse(second.register()).payload
