"""`sottovoce deploy-local`: rehearse a run with all its parties as processes on this machine, and hold the result against the simulation."""

import math
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live

from sottovoce.cli.output import JsonOption, Notes, OverridesArgument, QuietOption, complain, show, table, wrapped
from sottovoce.errors import ProtocolError

if TYPE_CHECKING:
    from sottovoce.experiments import Outcome, Rehearsal

_SEEDED = (
    "This was a rehearsal. All random numbers followed from the file's seed, so whoever has the file can take the noise off: these models must not be "
    "released, and nothing was counted in any ledger of yours."
)
_SECRET = (
    "This was a rehearsal with secret noise, but one machine held all records and keys, and nothing was counted in a ledger of yours: these models must "
    "not be released. `sottovoce train` makes one that may be."
)


def deploy_local(
    file: Annotated[Path, typer.Argument(help="A TOML configuration; `sottovoce new` writes one.")],
    overrides: OverridesArgument = None,
    secret: Annotated[bool, typer.Option("--secret", help="Draw real noise; nothing is compared.")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Keep logs and stores in this new folder.")] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Rehearse a run among real parties, all of them on this machine.

    Starts every party of the file as a process with keys, a store and encrypted messages over loopback, and compares their models with the simulation that is
    fed the same random integers.
    """
    from sottovoce.experiments import outcome_of, prepare_rehearsal, read

    notes = Notes()
    config = read(file, overrides or (), say=notes)
    with _folder(out) as folder:
        rehearsal = prepare_rehearsal(config, folder, secret=secret)
        told = _watch(rehearsal, shown=not (as_json or quiet))
        outcome = None if secret else outcome_of(rehearsal)
        value = _value(rehearsal, told, outcome, folder if out is not None else None)
    show(value, as_json=as_json, text=_text(value, told, secret=secret), notes=notes)
    if outcome is not None and not outcome.within:
        complain("sottovoce: the parties' models are further from the simulation's than rounding allows.")
        raise typer.Exit(1)


@contextmanager
def _folder(out: Path | None) -> Iterator[Path]:
    if out is None:
        with tempfile.TemporaryDirectory(prefix="sottovoce-rehearsal-") as name:
            yield Path(name)
        return
    from sottovoce.experiments import results_folder

    with results_folder(out):
        yield out


class _Told:
    """What every party said last."""

    def __init__(self, rehearsal: "Rehearsal") -> None:
        self.began = time.monotonic()
        self.ready = math.inf  # seconds until the last party had greeted all others
        self.seconds = 0.0
        self.last: dict[str, dict[str, Any]] = {name: {"event": "started"} for name in rehearsal.names}
        self.memory: dict[str, dict[str, int]] = {}

    def take(self, party: str, values: dict[str, Any]) -> None:
        """Take in one line."""
        self.seconds = time.monotonic() - self.began
        if values["event"] == "done":
            self.memory[party] = values["memory"]
        if values["event"] == "ended":
            if values["code"]:
                reason = self.last[party].get("reason", f"its process ended with code {values['code']}")
                raise ProtocolError(f"{party} stopped, and with it the rehearsal: {reason}")
            return
        self.last[party] = {**self.last[party], **values}
        if math.isinf(self.ready) and all(each.get("phase", "greet") != "greet" for each in self.last.values()):
            self.ready = self.seconds

    def table(self) -> RenderableType:
        """One line for each party."""
        rows = []
        for name, values in self.last.items():
            phase = values.get("phase", values["event"])
            position = f"{values['position']} of {values['end']}" if "position" in values else ""
            took = f"{1000 * values['seconds']:.0f}" if values.get("seconds") else ""
            waits = ", ".join(values.get("awaited", ())[:3])
            rows.append([name, phase, position, took, str(values.get("resends", "")), waits])
        header = ("party", "does", "exchange", "ms", "again", "waits for")
        return table(header, rows, words=("party", "does", "waits for"))


def _watch(rehearsal: "Rehearsal", *, shown: bool) -> _Told:
    """Run all parties to the end, with a table that changes where somebody looks on."""
    told, console = _Told(rehearsal), Console(stderr=True)
    live = Live(console=console, refresh_per_second=5, transient=True) if shown and console.is_terminal else None
    if live is None:
        for event in rehearsal.run():
            told.take(event.party, event.values)
        return told
    with live:
        for event in rehearsal.run():
            told.take(event.party, event.values)
            live.update(told.table())
    return told


def _value(rehearsal: "Rehearsal", told: _Told, outcome: "Outcome | None", folder: Path | None) -> dict[str, Any]:
    agreed = rehearsal.agreement
    most = max((each.get("pss", 0) for each in told.memory.values()), default=0)
    return {
        "parties": list(rehearsal.names),
        "rounds": agreed.rounds,
        "parameters": agreed.dimension,
        "fraction_bits": agreed.fraction_bits,
        "seconds": round(told.seconds, 3),
        "ready_after": None if math.isinf(told.ready) else round(told.ready, 3),
        "largest_memory_kb": most or None,
        "sent_again": sum(int(each.get("resends", 0)) for each in told.last.values()),
        "difference_units": None if outcome is None else outcome.units,
        "bound_units": None if outcome is None else outcome.bound,
        "bound_per_round": None if outcome is None else outcome.factor,
        "releasable": False,
        "folder": None if folder is None else str(folder),
    }


def _text(value: dict[str, Any], told: _Told, *, secret: bool) -> RenderableType:
    rows = [
        ("parties", f"{len(value['parties'])}, ready after {value['ready_after'] or 0:.1f} s"),
        ("rounds", f"{value['rounds']} of {value['parameters']} numbers, {value['seconds']:.1f} s in all"),
        ("messages sent again", str(value["sent_again"])),
    ]
    if value["largest_memory_kb"]:
        rows.append(("memory of a party", f"at most {value['largest_memory_kb'] / 1024:.0f} MB"))
    if not secret:
        rows.append(
            ("difference from the simulation", f"{value['difference_units']:.3g} units of 2^-{value['fraction_bits']}")
        )
        rows.append(("it may be at most", _bound(value)))
    return Group(
        table(("what", "is"), rows, words=("what", "is"), title="a rehearsal on this machine"),
        wrapped(_SECRET if secret else _SEEDED),
    )


def _bound(value: dict[str, Any]) -> str:
    if value["bound_units"] is None:
        return "nothing is derived for this loss or algorithm: measured only"
    return f"{value['bound_units']:.4g} units: {value['rounds']} rounds of {value['bound_per_round']:.3g}"
