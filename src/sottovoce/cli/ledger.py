"""`sottovoce ledger`: what all runs on a data set may have given away, and how much more may be.

sottovoce ledger FILE                  entries and sums
sottovoce ledger create FILE ...       begin the ledger of a data set
sottovoce ledger export FILE ...       a signed head, to be deposited elsewhere
sottovoce ledger check FILE HEAD       is this the ledger of that head, perhaps grown since?
sottovoce ledger cancel FILE RUN       give back what a run reserved that has sent nothing
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import Group

from sottovoce.cli.output import JsonOption, QuietOption, show, table, wrapped
from sottovoce.errors import ConfigError
from sottovoce.rounding import shown, upwards

if TYPE_CHECKING:
    from sottovoce.deployment.ledger import Ledger, Reserved, Totals
    from sottovoce.deployment.privacy import Cost
    from sottovoce.deployment.store import RunRecord, Store

_DIGITS = 4
_METER = "Reserved is guaranteed never to exceed the budget. Spent is a meter of what was committed so far; nothing rests on it."
_BLIND = (
    "No ledger sees the same records kept under another name, data sets that overlap, or a person in two parties' data. Every run counts, also "
    "those of a search for good settings."
)


class _Asked(NamedTuple):
    """What the command line says beside the use and its words."""

    options: dict[str, Any]  # those that were given, by the name on the command line
    as_json: bool
    quiet: bool


def ledger(
    words: Annotated[
        list[str], typer.Argument(metavar="[USE] FILE [HEAD|RUN]", help="What to do, and with which ledger.")
    ],
    name: Annotated[str | None, typer.Option("--name", "-n", help="Of the data set; else that of the file.")] = None,
    unit: Annotated[str | None, typer.Option("--unit", "-u", help="record, person or agent.")] = None,
    adjacency: Annotated[str | None, typer.Option("--adjacency", "-a", help="replace or add-remove.")] = None,
    delta: Annotated[float | None, typer.Option("--delta", "-d", help="At which all runs are summed.")] = None,
    budget: Annotated[str | None, typer.Option("--budget", "-b", help="The most epsilon, or unlimited.")] = None,
    signer: Annotated[str | None, typer.Option("--as", help="Whose key signs a head.")] = None,
    folder: Annotated[Path | None, typer.Option("--folder", "-f", help="Where that key is.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where the head is written.")] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Show what all runs on a data set may have given away, and how much more may be.

    FILE shows the entries of a ledger and their sums.

    create FILE begins one, with --unit, --adjacency, --delta and --budget.

    export FILE writes a head, signed with a key (--as, --folder), to --out: deposit it elsewhere.

    check FILE HEAD compares it with a head that was deposited elsewhere.

    cancel FILE RUN gives back what a run reserved, if it has sent nothing.

    erase FILE RUN ends a run that nobody will go on with; its cost stays.
    """
    given = {
        "--name": name, "--unit": unit, "--adjacency": adjacency, "--delta": delta, "--budget": budget,
        "--as": signer, "--folder": folder, "--out": out,
    }  # fmt: skip
    asked = _Asked({option: value for option, value in given.items() if value is not None}, as_json, quiet)
    use, rest = (words[0], words[1:]) if words[0] in _USES else ("show", words)
    act, needed, options = _USES[use]
    if len(rest) != len(needed):
        raise ConfigError(
            f"`sottovoce ledger {use if use != 'show' else ''}` needs {' and '.join(needed)}, and got {len(rest)} words: {' '.join(rest) or 'none'}. "
            f"See `sottovoce ledger --help`."
        )
    surplus = [option for option in asked.options if option not in options]
    if surplus:
        raise ConfigError(f"{', '.join(surplus)} has no meaning for `sottovoce ledger {use}`. Leave it out.")
    act(asked, *rest)


def _show(asked: _Asked, file: str) -> None:
    from sottovoce.deployment.ledger import Ledger
    from sottovoce.deployment.store import Store

    with Store.open(file, writer=False) as store:
        book = Ledger(store)
        totals, entries, runs = book.totals(), book.entries(), {run.entry: run for run in store.runs()}
        value = {
            **_head_line(book, totals),
            "entries": [_entry_value(number, entry, runs) for number, entry in enumerate(entries)],
        }
        reserved = [_row(number, entry, book, runs) for number, entry in _reservations(book)]
    text = [wrapped(_sentence(book, totals))]
    if reserved:
        text.append(
            table(("run", "begun", "state", "epsilon\nreserved", "epsilon\nspent"), reserved, words=("run", "state"))
        )
    text.append(wrapped(f"{_METER} {_BLIND}", style="dim"))
    show(value, as_json=asked.as_json, text=Group(*text))


def _create(asked: _Asked, file: str) -> None:
    from sottovoce.deployment.ledger import create_ledger

    missing = _missing(asked, "--unit", "--adjacency", "--delta", "--budget")
    if missing:
        raise ConfigError(
            f"{missing} not given. A ledger counts for one unit, adjacency and delta, up to one budget, for "
            f"ever: none of them has a default. Example: sottovoce ledger create {file} --unit record --adjacency replace --delta 1e-5 --budget 8"
        )
    named = asked.options.get("--name", Path(file).stem)
    budget = asked.options["--budget"]
    create_ledger(
        file,
        name=named,
        unit=asked.options["--unit"],
        adjacency=asked.options["--adjacency"],
        delta=asked.options["--delta"],
        budget=budget if budget == "unlimited" else _number(budget),
    )
    kept = "It holds keys and models without noise while runs last: keep it private, on a local disk, and close runs before you copy it."
    said = f"The ledger of {named!r} begins in {file}."
    show({"created": file, "name": named}, as_json=asked.as_json, text=said if asked.quiet else f"{said} {kept}")


def _export(asked: _Asked, file: str) -> None:
    from sottovoce import durable_files
    from sottovoce.deployment.identity import load_identity
    from sottovoce.deployment.ledger import Ledger, export_head
    from sottovoce.deployment.store import Store

    missing = _missing(asked, "--as", "--folder", "--out")
    if missing:
        raise ConfigError(
            f"{missing} not given. A head is signed by its owner and written to a file. Example: sottovoce ledger export {file} --as basel --folder keys "
            f"--out head.json"
        )
    out = asked.options["--out"]
    if out.exists():
        raise ConfigError(
            f"{out} is there already, perhaps an earlier head. Choose another name: earlier heads stay worth comparing."
        )
    signer = load_identity(asked.options["--as"], asked.options["--folder"])
    with Store.open(file, writer=False) as store:
        head = export_head(Ledger(store), signer)
    try:
        durable_files.write(out, head.to_bytes())
    except OSError as error:
        raise ConfigError(f"{out} cannot be written ({error.strerror or error}). Choose another place.") from error
    said = f"The head of {head.name!r} with {head.entries} entries is in {out}."
    advice = "Deposit it where this ledger is not; `sottovoce ledger check` compares them. It names runs in numbers only, and holds no secret."
    value = {"head": str(out), "entries": head.entries, "hash": head.hash}
    show(value, as_json=asked.as_json, text=said if asked.quiet else f"{said} {advice}")


def _check(asked: _Asked, file: str, head_file: str) -> None:
    from sottovoce.deployment.ledger import Ledger, disagreement, read_head
    from sottovoce.deployment.store import Store

    head = read_head(head_file)
    with Store.open(file, writer=False) as store:
        why, entries = disagreement(Ledger(store), head), len(store.entries())
    value = {"agrees": not why, "why": why, "entries": entries, "entries_of_head": head.entries, "key": head.key}
    grown = entries - head.entries
    fine = f"The ledger is the one whose head was taken at {head.at}" + (
        f", with {grown} {'entry' if grown == 1 else 'entries'} more." if grown else "."
    )
    told = (
        f"The ledger contradicts its head: {why} Do not run on this data set until that is explained." if why else fine
    )
    show(value, as_json=asked.as_json, text=f"{told}\nThe head was signed by the key\n{head.key}")
    if why:
        raise typer.Exit(1)


def _cancel(asked: _Asked, file: str, name: str) -> None:
    from sottovoce.deployment.ledger import Ledger
    from sottovoce.deployment.store import Store

    with Store.open(file) as store:
        run = _run_called(store, name)
        Ledger(store).cancel(run.digest)
        totals = Ledger(store).totals()
    said = f"The run {run.name!r} had sent nothing; what it reserved is given back. Reserved now: epsilon {_epsilon(totals.reserved)}."
    show({"cancelled": run.name, "reserved": _finite(totals.reserved)}, as_json=asked.as_json, text=said)


def _erase(asked: _Asked, file: str, name: str) -> None:
    from sottovoce.deployment.store import Store

    with Store.open(file) as store:
        run = _run_called(store, name)
        waiting = len(store.outgoing(run.digest))
        store.give_up(run.digest)
    lost = (
        f" {waiting} messages that waited to be sent are erased with them: neighbours that need them cannot go on."
        if waiting
        else ""
    )
    said = f"The key and the state of the run {run.name!r} are erased.{lost} What it reserved stays in the ledger."
    show({"erased": run.name, "unsent": waiting}, as_json=asked.as_json, text=said)


def _run_called(store: "Store", name: str) -> "RunRecord":
    # A run that went on without somebody who was lost has one entry, and stands in the store once for each agreement: the last one counts.
    found = [*{run.entry: run for run in store.runs() if name in (run.name, run.digest.hex())}.values()]
    if len(found) != 1:
        names = ", ".join(run.name for run in store.runs()) or "none"
        raise ConfigError(
            f"{len(found)} runs are called {name!r}; the ledger has: {names}. Give the name, or the digest, of one run."
        )
    return found[0]


_CREATE = ("--name", "--unit", "--adjacency", "--delta", "--budget")
_USES: dict[str, tuple[Callable[..., None], tuple[str, ...], tuple[str, ...]]] = {
    "show": (_show, ("FILE",), ()),
    "create": (_create, ("FILE",), _CREATE),
    "export": (_export, ("FILE",), ("--as", "--folder", "--out")),
    "check": (_check, ("FILE", "HEAD"), ()),
    "cancel": (_cancel, ("FILE", "RUN"), ()),
    "erase": (_erase, ("FILE", "RUN"), ()),
}


def _missing(asked: _Asked, *options: str) -> str:
    missing = [option for option in options if option not in asked.options]
    return f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'}" if missing else ""


def _sentence(book: "Ledger", totals: "Totals") -> str:
    from sottovoce.deployment.ledger import plain

    created = book.created
    limit = "an unlimited budget" if created.budget == "unlimited" else f"a budget of epsilon {plain(created.budget)}"
    runs = f"{totals.runs} run{'' if totals.runs == 1 else 's'}"
    files = (
        f" The data file changed between them: {totals.data_files} versions were used." if totals.data_files > 1 else ""
    )
    return (
        f"The data set {created.name!r} has {limit} at delta {created.delta:g}, for one {created.unit} ({created.adjacency}).\n"
        f"Reserved by {runs}: epsilon {_epsilon(totals.reserved)}. Spent so far (a meter): epsilon {_epsilon(totals.spent)}.{files}"
    )


def _head_line(book: "Ledger", totals: "Totals") -> dict[str, Any]:
    created = book.created
    return {
        "name": created.name,
        "unit": created.unit,
        "adjacency": created.adjacency,
        "delta": created.delta,
        "budget": created.budget,
        "runs": totals.runs,
        "reserved": _finite(totals.reserved),
        "spent_meter": _finite(totals.spent),
        "data_files": totals.data_files,
    }


def _reservations(book: "Ledger") -> list[tuple[int, "Reserved"]]:
    from sottovoce.deployment.ledger import Reserved

    return [(number, entry) for number, entry in enumerate(book.entries()) if isinstance(entry, Reserved)]


def _row(number: int, entry: "Reserved", book: "Ledger", runs: "dict[int, RunRecord]") -> tuple[str, ...]:
    delta, run = book.created.delta, runs[number]
    cancelled = run.status == "cancelled"
    return (
        entry.run,
        entry.at[:10],
        run.status if run.position < 0 or run.status != "running" else f"running, exchange {run.position}",
        "given back" if cancelled else _epsilon(entry.cost.epsilon(delta)),
        _epsilon(_spent(run).epsilon(delta)),
    )


def _entry_value(number: int, entry: Any, runs: "dict[int, RunRecord]") -> dict[str, Any]:
    from sottovoce.deployment.ledger import Created, Reserved

    if isinstance(entry, Created):
        return {"number": number, "entry": "created", "at": entry.at}
    if not isinstance(entry, Reserved):
        return {"number": number, "entry": "released", "of": entry.of, "at": entry.at}
    run = runs[number]
    return {
        "number": number,
        "entry": "reserved",
        "run": entry.run,
        "digest": entry.digest,
        "cost": entry.cost.describe(),
        "observer": entry.observer,
        "data": entry.data,
        "at": entry.at,
        "status": run.status,
        "exchange": run.position,
        "spent_meter": dict(run.spent),
    }


def _spent(run: "RunRecord") -> "Cost":
    from sottovoce.deployment.privacy import Cost

    return Cost.parse(run.spent) if run.spent else Cost.pure(0.0)


def _epsilon(value: float) -> str:
    return "infinite" if math.isinf(value) else shown(value, _DIGITS)


def _finite(value: float) -> float | None:
    return None if math.isinf(value) else upwards(value, 12)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f'--budget = {text!r}; it must be an epsilon above 0, or the word "unlimited".') from None
