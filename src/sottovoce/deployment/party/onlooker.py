"""Who looks on at a party: its clock, its log, its status file, its health, and whoever asks it to stop.

A party calls `look` whenever it looks around, many times a second or after a pause of half a second at most; only once a second is anything made of it.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from sottovoce.deployment.party.exposition import exposition
from sottovoce.deployment.party.health import Health, HealthServer
from sottovoce.deployment.party.journal import Journal, utc
from sottovoce.deployment.party.standing import Standing, process, write_status
from sottovoce.deployment.party.stopping import Stopped
from sottovoce.deployment.privacy import Cost
from sottovoce.deployment.store import Meter
from sottovoce.wording import brief

AT_MOST_EVERY = 1.0  # seconds between two status files
LONG = 120.0  # seconds after which a party that has not looked around is not well, unless its exchanges take as long
_SLOWER = 5.0  # times the longest exchange so far
_MOST_KINDS, _LAST = 32, 5  # kinds of refusals that are counted apart; refusals that are kept in words
_LONGEST = 300  # characters of one


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """How a process is operated.

    Attributes:
        health: host:port of loopback where health and metrics are served; empty: nowhere.
        log_to: where lines of the log are written beside the file.
        asked_to_stop: the number of the signal that asks to stop; 0: none has come.
    """

    health: str = ""
    log_to: IO[str] | None = None
    asked_to_stop: Callable[[], int] = lambda: 0

    def __repr__(self) -> str:
        return f"<Operation: health at {self.health or 'no address'}>"


class Onlooker:
    """The clock, everything that people see, and the hook of tests."""

    clock = staticmethod(time.monotonic)

    def __init__(
        self,
        journal: Journal,
        moment: Callable[[str], None],
        folder: Path | None = None,
        facts: Mapping[str, Any] | None = None,
        operation: Operation | None = None,
    ) -> None:
        """Begin to look on, and serve health where it is wanted.

        Args:
            journal: the log.
            moment: the hook of tests.
            folder: where the status file goes; None: there is none.
            facts: what does not change: names of run and party, digest, role, store, program, wire version, and what was reserved, at which
                delta.
            operation: how the process is operated.

        Raises:
            ConfigError: health cannot be served at its address.
        """
        operation = Operation() if operation is None else operation
        self.moment, self._journal, self._folder = moment, journal, folder
        self._facts = {"reserved": 0.0, "delta": 0.0, **(facts or {})}
        self._asked_to_stop, self.measure = operation.asked_to_stop, journal.measure
        self._fixed = {
            **self._facts,
            "reserved": _finite(self._facts["reserved"]),
            "process": process(),
            "began": utc(),
        }
        self._refusals: dict[str, int] = {}
        self._last: list[dict[str, str]] = []
        self._standing: Standing | None = None
        self._looked, self._written, self._longest = self.clock(), -math.inf, 0.0
        self._ended: dict[str, str] | None = None
        self._mark = -1, self._looked
        self._server = HealthServer(operation.health, self._health, self._metrics) if operation.health else None
        if self._server is not None:
            self.log("looked on", address=operation.health)
        self._write()
        self._written = -math.inf  # the first look is shown at once

    def log(self, event: str, **values: Any) -> None:
        """Take down an event."""
        self._journal.log(event, **values)
        if event == "refused":
            self._count(str(values.get("kind", "Unexpected")))
            said = {"sender": str(values.get("sender", "")), "says": brief(str(values.get("reason", "")), _LONGEST)}
            self._last = [*self._last, {"time": utc(), **said}][-_LAST:]

    def epsilon(self, meter: Meter) -> float:
        """What a meter says, at the ledger's delta."""
        return Cost.parse(meter).epsilon(self._facts["delta"]) if meter else 0.0

    def since(self, mark: int) -> float:
        """When a number that grows with what is achieved came to what it is now."""
        if mark != self._mark[0]:
            self._mark = mark, self.clock()
        return self._mark[1]

    def look(self, standing: Callable[[], Standing], *, at_once: bool = False) -> None:
        """Note that the party looks around; from time to time, or at once, ask where it stands and show it."""
        self._looked = self.clock()
        if at_once or self._looked - self._written >= AT_MOST_EVERY:
            self._standing = standing()
            self._longest = max(self._longest, self._standing.seconds)
            self._write()

    def check_stop(self) -> None:
        """End a party that was asked to.

        Raises:
            Stopped: it was.
        """
        number = self._asked_to_stop()
        if number:
            stopped = Stopped(number)
            self.log("asked to stop", signal=stopped.signal)
            raise stopped

    def end(self, how: str, says: str) -> None:
        """Mark the status file, and serve no more."""
        self._ended = {"time": utc(), "how": how, "says": brief(says, 2 * _LONGEST)}
        self.log("failed" if how == "failed" else "ended", how=how, says=self._ended["says"])
        self._write()
        if self._server is not None:
            self._server.close()

    def _count(self, kind: str) -> None:
        kept = kind if kind in self._refusals or len(self._refusals) < _MOST_KINDS else "other"
        self._refusals[kept] = self._refusals.get(kept, 0) + 1

    def _write(self) -> None:
        now = self._written = self.clock()
        if self._folder is None:
            return
        standing = None if self._standing is None else self._standing.as_json(now)
        write_status(
            self._folder,
            {
                **self._fixed,
                "standing": standing,
                "refusals": self._refusals,
                "last_refusals": self._last,
                "lost_lines": self._journal.lost,
                "ended": self._ended,
            },
        )

    def _health(self) -> Health:
        standing, age = self._standing, self.clock() - self._looked
        well = self._ended is None and age <= max(LONG, _SLOWER * self._longest)
        return well, {
            "status": "stopped" if self._ended else "ok" if well else "stuck",
            "phase": "start" if standing is None else standing.phase,
            "exchange": None if standing is None else standing.exchange,
            "awaited": 0 if standing is None else len(standing.awaited),
            "looked_seconds_ago": round(age, 3),
        }

    def _metrics(self) -> str:
        return exposition(self._facts, self._standing, dict(self._refusals), self._looked, self.clock())


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
