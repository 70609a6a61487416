"""Where a party stands, for people who look on: a value, the file that shows it to `sottovoce party status`, and whether its process is alive.

    status.json    in the folder of the party, mode 0600, written anew at most once a second while the process lives, and marked at its end

Nothing in it is secret. Ages are seconds before the file was written.
"""

import contextlib
import json
import math
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from sottovoce.deployment.party.journal import utc
from sottovoce.deployment.party.stalls import Missing
from sottovoce.errors import ConfigError

STATUS = "status.json"
FORMAT, VERSION = "sottovoce status", 1
FRESH = 15.0  # seconds within which a process that lives has written, unless it computes
_LARGEST = 2**20
Life = Literal["runs", "silent", "elsewhere", "ended", "crashed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """What was heard last of one other party.

    Attributes:
        name: of it.
        heard: when something genuine came last, by the party's clock; minus infinity: never.
        greeted: whether both know each other's start.
        taken: exchanges that it has said to have taken.
        start: number of its start.
        refusals: how many of its messages were refused.
        trouble: why it cannot be reached, as far as the transport knows.
    """

    name: str
    heard: float
    greeted: bool = True
    taken: int | None = None
    start: int | None = None
    refusals: int = 0
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a party stands.

    Attributes:
        phase: what it does.
        round: from 1.
        rounds: of the run.
        exchange: its position.
        exchanges: of the run.
        moved: when something was last achieved, by the party's clock.
        awaited: of whom something is missing.
        missing: who is missing anywhere, as far as neighbours have told.
        others: everybody whom it talks to.
        boots: starts of this run.
        sent_bytes: in this start.
        resends: messages that were sent again in this start.
        seconds: of the last exchange.
        spent: epsilon so far, a meter.
    """

    phase: str
    round: int
    rounds: int
    exchange: int
    exchanges: int
    moved: float
    awaited: tuple[str, ...] = ()
    missing: tuple[Missing, ...] = ()
    others: tuple[Other, ...] = ()
    boots: int = 0
    sent_bytes: int = 0
    resends: int = 0
    seconds: float = 0.0
    spent: float = 0.0

    def as_json(self, now: float) -> dict[str, Any]:
        """Plain values; times as ages."""
        value = asdict(self)
        value["missing"] = [each._asdict() for each in self.missing]
        for other in value["others"]:
            other["heard"] = _age(other["heard"], now)
        return value | {"moved": _age(self.moved, now), "spent": self.spent if math.isfinite(self.spent) else None}


def _age(when: float, now: float) -> float | None:
    return round(now - when, 3) if math.isfinite(when) else None


def process() -> dict[str, Any]:
    """By what the process of a party is recognised later."""
    pid = os.getpid()
    return {"pid": pid, "since": _started(pid), "machine": _machine()}


def write_status(folder: Path, value: dict[str, Any]) -> None:
    """Put the file in place of the last one, whole; where that is impossible, as on a full disk, the last one stays."""
    path, part = folder / STATUS, folder / f"{STATUS}.part"
    value = {"format": FORMAT, "version": VERSION, "written": time.time(), "time": utc(), **value}
    with contextlib.suppress(OSError):
        part.unlink(missing_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            json.dump(value, file, allow_nan=False)
        part.replace(path)


def read_status(folder: Path) -> dict[str, Any]:
    """What the file says.

    Raises:
        ConfigError: there is none, or it is none.
    """
    path = folder / STATUS
    try:
        with path.open("rb") as file:
            value = json.loads(file.read(_LARGEST))
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read ({error.strerror}). Give the folder in which `sottovoce party run` keeps log and model: parties/RUN/NAME, or its --out."
        ) from error
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or value.get("format") != FORMAT or not isinstance(value.get("process"), dict):
        raise ConfigError(f"{path} is no status of a party. Give the folder in which a party runs.")
    if value.get("version") != VERSION:
        raise ConfigError(
            f"{path} was written by another release, in version {value.get('version')!r}; this one reads {VERSION}. Use the release that runs the party."
        )
    return value


def life(value: dict[str, Any], now: float) -> Life:
    """Whether the process that wrote a status is still there."""
    if value.get("ended"):
        return "ended"
    wrote, fresh = value["process"], now - value["written"] <= FRESH
    if wrote.get("machine") != _machine():
        return "elsewhere" if fresh else "silent"  # another container or machine: only its file can be looked at
    if not _alive(wrote.get("pid"), wrote.get("since")):
        return "crashed"
    return "runs" if fresh else "silent"


def _alive(pid: Any, since: Any) -> bool:
    if not isinstance(pid, int) or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # somebody else's, but there
    return since is None or _started(pid) == since


def _started(pid: int) -> str | None:
    """When a process began, in the system's own units: another process may have its number later."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        return None if words[0] == "Z" else words[19]  # a zombie has ended, and waits for its parent to notice
    except (OSError, IndexError):
        return None


def _machine() -> str:
    """A name for where process numbers mean the same processes."""
    try:
        return f"{os.uname().nodename} {os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return os.uname().nodename
