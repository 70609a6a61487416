"""`sottovoce party status`: where a party stands, whether its process runs or not."""

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType

from sottovoce.cli.output import JsonOption, QuietOption, show, table, verbatim, wrapped
from sottovoce.errors import ConfigError, SottovoceError
from sottovoce.rounding import shown
from sottovoce.wording import brief

if TYPE_CHECKING:
    from sottovoce.deployment.store import RunRecord, Store

_PARTIES = Path("parties")
_LIVES = {
    "runs": "runs",
    "silent": "there, but has not looked around for a while: it computes, or is stuck",
    "elsewhere": "runs, in another container or on another machine",
    "ended": "ended",
    "crashed": "gone without having ended; the same command goes on",
}
_METER = "Reserved is guaranteed. Spent is a meter of what was committed so far; nothing rests on it."


def party_status(
    folder: Annotated[
        Path | None, typer.Argument(help="Where the party keeps log and model; else all below parties/.")
    ] = None,
    store: Annotated[
        Path | None, typer.Option("--store", "-s", help="Its store, if not the one that it names.")
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Show where a party stands, whether its process runs or not.

    FOLDER is that of `party run`: parties/RUN/NAME, or its --out. Without it all parties below parties/ are shown.

    With --store alone it shows what the store knows of its newest run.
    """
    if folder is None and store is not None:
        kept = _newest(store)
        show({"ledger": kept}, as_json=as_json, text=_ledger_table(kept, store))
        return
    folders = [folder] if folder is not None else _found()
    values = [_value(each, store if folder is not None else None) for each in folders]
    if len(values) == 1:
        show(values[0], as_json=as_json, text=_text(values[0], quiet=quiet))
    else:
        show({"parties": values}, as_json=as_json, text=_brief(values))


def _found() -> list[Path]:
    from sottovoce.deployment.party import STATUS

    found = sorted(path.parent for path in _PARTIES.glob(f"*/*/{STATUS}"))
    if not found:
        raise ConfigError(
            f"No party has run below {_PARTIES}/ of this folder. Give the folder of one, its --out, or its store: sottovoce party status --store my.ledger"
        )
    return found


def _value(folder: Path, store: Path | None) -> dict[str, Any]:
    """What the file and the store say together; ages counted to now."""
    from sottovoce.deployment.party import life, read_status

    status, now = read_status(folder), time.time()
    later = max(0.0, now - status["written"])
    standing = status["standing"]
    if standing is not None:
        standing["moved"] = _later(standing["moved"], later)
        for other in standing["others"]:
            other["heard"] = _later(other["heard"], later)
    path = store or Path(status["store"])
    try:
        ledger: dict[str, Any] | None = _ledger(path, status["digest"])
    except SottovoceError as error:
        ledger = {"trouble": str(error)}
    return {
        "folder": str(folder),
        "process_is": life(status, now),
        "written_seconds_ago": round(later, 3),
        **status,
        "ledger": ledger,
    }


def _later(age: float | None, later: float) -> float | None:
    return None if age is None else round(age + later, 3)


def _ledger(path: Path, digest: str) -> dict[str, Any]:
    from sottovoce.deployment.store import Store

    with Store.open(path, writer=False) as opened:
        begun = opened.run(bytes.fromhex(digest))
        if begun is None:
            raise ConfigError(f"the store {path} knows no run of the digest {digest[:16]}...")
        # A run that went on without somebody is the newest one of its entry in the ledger.
        return _record(opened, [run for run in opened.runs() if run.entry == begun.entry][-1])


def _newest(path: Path) -> dict[str, Any]:
    from sottovoce.deployment.store import Store

    with Store.open(path, writer=False) as opened:
        runs = opened.runs()
        if not runs:
            raise ConfigError(f"{path} has no run yet; a party that has not accepted one stands nowhere.")
        return _record(opened, runs[-1])


def _record(opened: "Store", record: "RunRecord") -> dict[str, Any]:
    from sottovoce.deployment.ledger import Ledger
    from sottovoce.deployment.privacy import Cost

    ledger = Ledger(opened)
    delta, standing = ledger.created.delta, ledger.standing()
    spent = Cost.parse(record.spent) if record.spent else Cost.pure(0.0)
    waiting = opened.outgoing(record.digest)
    return {
        "run": record.name,
        "digest": record.digest.hex(),
        "state": record.status,
        "committed": record.position,
        "starts": record.boots,
        "unacknowledged": len(waiting),
        "delta": delta,
        "reserved": _finite(standing[record.entry].cost.epsilon(delta)) if record.entry in standing else 0.0,
        "spent_meter": _finite(spent.epsilon(delta)),
    }


def _text(value: dict[str, Any], *, quiet: bool) -> RenderableType:
    standing = value["standing"]
    title = f"{value['party']} ({value['role']}) in {brief(value['run'])}"
    rows = [
        ("process", _process(value)),
        *_standing_rows(standing, sum(value["refusals"].values())),
        *_ledger_rows(value["ledger"]),
    ]
    parts: list[RenderableType] = [table(("what", "is"), rows, words=("what", "is"), title=title)]
    if standing is not None and standing["others"]:
        parts.append(_others(standing["others"]))
    if standing is not None:
        parts += [wrapped(line) for line in _stalls(standing)]
    refused = [f"{each['time']} {each['sender']}: {each['says']}" for each in value["last_refusals"]]
    if refused:
        parts.append(wrapped("\n".join(["Refused last:", *(f"  {line}" for line in refused)])))
    if value["ended"] and value["ended"]["how"] != "done":
        parts.append(wrapped(f"It ended: {value['ended']['says']}"))
    parts.append(verbatim(f"digest {value['digest']}"))
    return Group(*parts, *([] if quiet else [wrapped(_METER, style="dim")]))


def _process(value: dict[str, Any]) -> str:
    said = f"{value['process']['pid']}, {_LIVES[value['process_is']]}"
    ended = value["ended"]
    return (
        f"{said} ({ended['how']}, {ended['time']})" if ended else f"{said}; wrote {_ago(value['written_seconds_ago'])}"
    )


def _standing_rows(standing: dict[str, Any] | None, refusals: int) -> list[tuple[str, str]]:
    if standing is None:
        return [("stands", "it has started, and has not looked around yet")]
    return [
        ("phase", f"{standing['phase']}, start {standing['boots']}"),
        ("round", f"{standing['round']} of {standing['rounds']}"),
        ("exchange", f"{standing['exchange']} of {standing['exchanges']}"),
        ("moved last", _ago(standing["moved"])),
        ("waits for", ", ".join(standing["awaited"]) or "nobody"),
        ("sent", f"{standing['sent_bytes']:,} bytes, {standing['resends']} messages again, {refusals} refused"),
    ]


def _ledger_rows(ledger: dict[str, Any]) -> list[tuple[str, str]]:
    if "trouble" in ledger:
        return [("store", ledger["trouble"])]
    committed = f"exchange {ledger['committed']}" if ledger["committed"] >= 0 else "no exchange"
    return [
        ("store", f"{ledger['state']}, {committed} committed, {ledger['unacknowledged']} messages unacknowledged"),
        (
            "epsilon",
            f"{_number(ledger['reserved'])} reserved, {_number(ledger['spent_meter'])} spent so far (a meter), delta = {ledger['delta']:g}",
        ),
    ]


def _ledger_table(ledger: dict[str, Any], path: Path) -> RenderableType:
    rows = [("run", ledger["run"]), ("starts", str(ledger["starts"])), *_ledger_rows(ledger)]
    title = f"the newest run in {path}"
    return Group(
        table(("what", "is"), rows, words=("what", "is"), title=title),
        verbatim(f"digest {ledger['digest']}"),
        wrapped(_METER, style="dim"),
    )


def _others(others: list[dict[str, Any]]) -> RenderableType:
    header = ("neighbour", "heard", "has taken", "start", "refused", "trouble")
    rows = [
        (
            other["name"],
            "never" if other["heard"] is None else _ago(other["heard"]),
            "-" if other["taken"] is None else str(other["taken"]),
            "-" if other["start"] is None else str(other["start"]),
            str(other["refusals"]),
            other["trouble"] or ("" if other["greeted"] else "not greeted"),
        )
        for other in others
    ]
    return table(header, rows, words=("neighbour", "heard", "trouble"))


def _stalls(standing: dict[str, Any]) -> list[str]:
    from sottovoce.deployment.party import Missing, stall_in_words

    return [stall_in_words(Missing(**each), standing["exchange"]) for each in standing["missing"]]


def _brief(values: list[dict[str, Any]]) -> RenderableType:
    header = ("party", "run", "process", "round", "moved", "waits for")
    rows = []
    for value in values:
        standing = value["standing"]
        known = standing is not None
        rows.append(
            (
                value["party"],
                value["run"],
                value["process_is"] if not value["ended"] else value["ended"]["how"],
                f"{standing['round']} of {standing['rounds']}" if known else "-",
                _ago(standing["moved"]) if known else "-",
                (", ".join(standing["awaited"]) or "nobody") if known else "-",
            )
        )
    return table(header, rows, words=("party", "run", "process", "moved", "waits for"))


def _ago(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s ago"
    return f"{seconds / 60:.0f} min ago" if seconds < 6000 else f"{seconds / 3600:.0f} h ago"


def _number(value: float | None) -> str:
    return "infinite" if value is None else shown(value, 4)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
