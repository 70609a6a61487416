"""Somebody who has recorded every blob and is later given all keys of the run: what did each party really say, and did it ever say two things?"""

import contextlib
from collections import defaultdict

from deployment.party.parties import DIGEST, RUN, Parties
from sottovoce.deployment.identity import Session
from sottovoce.deployment.identity.refusals import Equivocation, OtherBoot
from sottovoce.deployment.party import wire


def plaintexts(parties: Parties) -> dict[tuple[str, str, int], list[bytes]]:
    """(sender, receiver, position) -> the words of every sealed message, in the order in which they were sent."""
    found = defaultdict(list)
    ends = {
        name: [
            Session(parties.identities[name], parties.roster, DIGEST, RUN, parties.run_keys[name], boot)
            for boot in boots
        ]
        for name, boots in parties.boots.items()
    }
    for sender, receiver, blob in parties.wires.sent:
        if blob[:1] == wire.HELLO:
            for session in ends[receiver]:
                with contextlib.suppress(
                    Equivocation
                ):  # what a store that was set back says is not believed here either
                    session.greet(wire.read_greeting(blob).hello)
            continue
        opened = [each for session in ends[receiver] if (each := _opened(session, sender, blob)) is not None]
        assert len(opened) == 1, f"{len(opened)} starts of {receiver} can read a message of {sender}"
        if opened[0].kind == wire.WORDS:
            found[sender, receiver, opened[0].position].append(wire.unpacked(opened[0].payload).words)
    return dict(found)


def _opened(session: Session, sender: str, blob: bytes):
    try:
        return session.open(sender, blob)
    except OtherBoot:
        return None
