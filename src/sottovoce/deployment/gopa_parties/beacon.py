"""The beacon of a run: 32 bytes for every round, drawn once all who take part in it have registered, and never again.

It reads the log for itself. When it has read the board's word that registration is closed it draws from the operating system, writes the signed message
down, and posts it; after a crash it posts the same one. A board that shows it a second history of a round gets no second value.
"""

import secrets
from collections.abc import Callable, Sequence
from typing import Protocol

from sottovoce.deployment.gopa import Phase, beacon_message
from sottovoce.deployment.gopa_parties.log import Log, is_opening
from sottovoce.deployment.gopa_parties.plan import Plan
from sottovoce.deployment.identity import Identity
from sottovoce.errors import ConfigError


class Values(Protocol):
    """Where a beacon writes down what it has drawn."""

    def write(self, round_: int, raw: bytes) -> None:
        """Keep the message of a round durably; a second one for a round is refused."""

    def last(self) -> tuple[int, bytes] | None:
        """(round, message) of the last one; None before the first."""


class Beacon:
    """The beacon of one run.

    Attributes:
        log: what it has read.
    """

    def __init__(
        self, plan: Plan, identity: Identity, values: Values, draw: Callable[[int], bytes] = secrets.token_bytes
    ) -> None:
        """Begin, or go on; the log is read again from its beginning.

        Args:
            plan: of the run.
            identity: the beacon's.
            values: its store.
            draw: how many -> random bytes; the operating system's outside of tests.
        """
        if identity.public_key != plan.beacon:
            raise ConfigError(
                f"{identity.name} is not the beacon that the agreement lists. Give the beacon its own key."
            )
        self._identity, self._values, self._draw = identity, values, draw
        self.log = Log(plan)

    def read(self, entries: Sequence[bytes]) -> None:
        """Follow the log.

        Raises:
            ProtocolError: the board accepted what the rules forbid, or shows another history.
        """
        for raw in entries:
            (self.log.open if is_opening(raw) else self.log.append)(raw)

    def act(self) -> bytes | None:
        """The message of the round, where it is its time: drawn and written down the first time, and the same ever after.

        Raises:
            StoreError: it could not be written down; then it may not be sent.
        """
        transcript = self.log.transcript
        if transcript is None or transcript.phase is not Phase.DRAWING:
            return None
        last = self._values.last()
        if last is not None and last[0] >= self.log.round_:
            return last[1] if last[0] == self.log.round_ else None
        raw = beacon_message(transcript, self._identity.signing_key, self._draw(32))
        self._values.write(self.log.round_, raw)
        return raw
