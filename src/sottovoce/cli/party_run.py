"""`sottovoce party run`: take part in a run with one's own data, once one has seen what it costs and has accepted it."""

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, Group

from sottovoce.cli.output import (
    JsonOption,
    Notes,
    OverridesArgument,
    QuietOption,
    complain,
    show,
    table,
    verbatim,
    wrapped,
)
from sottovoce.errors import ConfigError
from sottovoce.rounding import shown

if TYPE_CHECKING:
    from sottovoce.deployment.identity import Roster
    from sottovoce.deployment.ledger import Ledger
    from sottovoce.deployment.party import Progress
    from sottovoce.deployment.store import Store
    from sottovoce.deployment.terms import Agreement
    from sottovoce.errors import BudgetExhausted
    from sottovoce.experiments import Config, Joining

_COMPARE = (
    "This command has sent nothing and reserved nothing. Compare the digest with the other parties, by voice or on paper: whoever has the same has agreed to the same "
    "numbers. Then run again with"
)
_ASSUMED = (
    "How sure: proved against whom the table names, with every rounding counted, as long as those whom it calls trusted are, keys stay secret, this program "
    "runs as it is, and the records are in no other party's data. It does not hide that this party takes part, nor when it sends."
)


def party_run(
    file: Annotated[Path, typer.Argument(help="The TOML configuration that all parties have.")],
    overrides: OverridesArgument = None,
    data: Annotated[
        Path | None, typer.Option("--data", "-d", help="This party's own records; a relay, board or beacon has none.")
    ] = None,
    name: Annotated[str | None, typer.Option("--as", help="Who this party is, in the roster.")] = None,
    keys: Annotated[Path | None, typer.Option("--keys", "-k", help="The folder of its keys.")] = None,
    store: Annotated[Path | None, typer.Option("--store", "-s", help="File of its data set's ledger and runs.")] = None,
    accept: Annotated[str | None, typer.Option("--accept", help="The digest of what is accepted.")] = None,
    roster: Annotated[Path | None, typer.Option("--roster", help="In place of the file's.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for model, log and measures.")] = None,
    listen: Annotated[str, typer.Option("--listen", help="host:port to listen at, if not the roster's.")] = "",
    relay: Annotated[Path | None, typer.Option("--relay", help="relay.json of a relay, to talk over it.")] = None,
    shape: Annotated[str | None, typer.Option("--shape", help="BYTES/SECONDS of messages over a relay.")] = None,
    health: Annotated[str, typer.Option("--health", help="127.0.0.1:port for health and metrics.")] = "",
    log_stderr: Annotated[bool, typer.Option("--log-stderr", help="Write the log on stderr too, as JSON.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show the guarantee and all it assumes.")] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Take part in a run with one's own data.

    Without --accept it shows what the run costs, whom it protects against and who gets which model, and sends nothing.

    After a crash, SIGTERM (exit code 143), Ctrl-C (130), or when others were not there, the same command goes on.
    """
    from sottovoce.deployment.identity import load_identity
    from sottovoce.deployment.party import Operation, health_address, stop_on_signals
    from sottovoce.experiments import check_line, prepare_joining, read, results_folder

    name, keys, store = _needed(name, keys, store)
    if health:
        health_address(health)
    notes = Notes()
    config = read(file, overrides or (), say=notes)
    members = _roster(config, file, roster)
    identity = load_identity(name, keys)
    joining = prepare_joining(config, members, name, data)
    for note in joining.parts.notes:
        notes(note)
    with _opened(store, joining) as opened:
        folder = out or Path("parties") / joining.agreement.run / name
        transport = _transport(identity, members, listen, relay, shape)  # refuses a key that the roster does not list
        place = _place(identity, members, opened, folder, transport, relayed=relay is not None)
        check_line(joining, relayed=place.relayed)
        if accept is None:
            _ask(joining, opened, relay, explain=explain, as_json=as_json, notes=notes)
        _check_accepted(joining, accept)
        # Before anything is reserved the folder has to be there; from here on a signal ends the party between two transactions.
        with results_folder(folder, private=True), stop_on_signals() as asked:
            operation = Operation(health=health, log_to=sys.stderr if log_stderr else None, asked_to_stop=asked)
            shown_bar = not (as_json or quiet or log_stderr)
            _take_part(
                joining, replace(place, operation=operation), data, shown_bar=shown_bar, as_json=as_json, notes=notes
            )


def _needed(name: str | None, keys: Path | None, store: Path | None) -> tuple[str, Path, Path]:
    missing = [option for option, given in (("--as", name), ("--keys", keys), ("--store", store)) if given is None]
    if name is None or keys is None or store is None:
        raise ConfigError(
            f"`sottovoce party run` needs {' and '.join(missing)}. Example: sottovoce party run my.toml --data my.csv --as hospital-3 --keys keys "
            f"--store my.ledger"
        )
    return name, keys, store


def _roster(config: "Config", file: Path, given: Path | None) -> "Roster":
    from sottovoce.deployment.identity import load_roster

    if given is not None:
        return load_roster(given)
    if config.deployment is None:
        raise ConfigError(
            "[deployment]: this section is missing. Parties agree on the name of the run and on who takes part: add run and roster."
        )
    return load_roster(file.parent / config.deployment.roster)


@contextmanager
def _opened(path: Path, joining: "Joining") -> "Iterator[Store]":
    """The store of the data set; whoever has none, such as a relay, gets an empty one."""
    from sottovoce.deployment.ledger import create_ledger
    from sottovoce.deployment.store import Store

    protection = joining.agreement.protection
    if not path.exists():
        delta = 1e-5 if protection.delta is None else protection.delta
        if joining.has_records:
            raise ConfigError(
                f"There is no ledger {path}, in which all runs on a data set are counted. Say once how much may be given away, for example: sottovoce "
                f"ledger create {path} -u {protection.unit} -a {protection.adjacency} -d {delta:g} --budget 8"
            )
        create_ledger(
            path, name=f"{joining.role} {joining.name}: no records", unit=protection.unit, adjacency=protection.adjacency, delta=delta,
            budget="unlimited",
        )  # fmt: skip
    with Store.open(path) as store:
        yield store


def _transport(identity: Any, members: "Roster", listen: str, relay: Path | None, shape: str | None) -> Any:
    """Direct connections, or a relay where one is given."""
    from sottovoce.deployment.relays import load_relay
    from sottovoce.deployment.transports import GrpcTransport, NatsTransport, read_shape

    if relay is None:
        if shape is not None:
            raise ConfigError(
                f"--shape {shape} is for messages over a relay; direct ones have no shape. Give --relay relay.json, or leave it out."
            )
        return GrpcTransport(identity, members, listen=listen)
    if listen:
        raise ConfigError(
            f"--listen {listen} has no meaning with --relay: over a relay nobody listens but the relay. Leave one out."
        )
    return NatsTransport(identity, members, load_relay(relay), shape=None if shape is None else read_shape(shape))


def _place(identity: Any, members: "Roster", store: "Store", folder: Path, transport: Any, *, relayed: bool) -> Any:
    from sottovoce.deployment.party import Place

    return Place(
        identity=identity, roster=members, store=store, transport=transport, folder=folder, trouble=transport.trouble, relayed=relayed
    )  # fmt: skip


def _check_accepted(joining: "Joining", accept: str | None) -> None:
    digest = joining.agreement.digest.hex()
    if accept != digest:
        raise ConfigError(
            f"--accept {str(accept)[:64]!r} is not the digest of what this file, this roster and this program resolve to, which is {digest}. Nothing was sent. "
            f"Leave --accept out to see it, and find out from the others who has changed what."
        )


def _ask(joining: "Joining", store: "Store", relay: Path | None, *, explain: bool, as_json: bool, notes: Notes) -> None:
    """Show what there is to accept, and leave with code 2, or 3 where the ledger would not allow it."""
    from sottovoce.deployment.ledger import Ledger
    from sottovoce.deployment.relays import load_relay

    ledger = Ledger(store)
    value = _terms(joining, ledger)
    if relay is not None:
        value["talks_over"] = load_relay(relay).in_words
    over = _over_budget(joining, ledger, value.get("observer", ""))
    show(
        value,
        as_json=as_json,
        text=Group(
            table(
                ("what", "is"),
                _rows(value),
                words=("what", "is"),
                title=f"{joining.name} is asked to take part in {joining.agreement.run}",
            ),
            *([wrapped(_ASSUMED)] if joining.has_records else []),
            *([wrapped(value["explained"])] if explain and joining.has_records else []),
            *([wrapped(_COMPARE), verbatim(f"  --accept {value['digest']}")] if over is None else []),
        ),
        notes=notes,
    )
    if over is not None:
        complain(f"sottovoce: {over}")
        raise typer.Exit(3) from over
    raise typer.Exit(2)


def _over_budget(joining: "Joining", ledger: "Ledger", observer: str) -> "BudgetExhausted | None":
    """Why the ledger would not allow the run; nothing is written."""
    from sottovoce.errors import BudgetExhausted
    from sottovoce.experiments import run_cost

    agreed = joining.agreement
    if not joining.has_records or ledger.store.run(agreed.digest) is not None:
        return None
    cost, protection = run_cost(joining, ledger), agreed.protection
    try:
        ledger.reserve(
            agreed.run, agreed.digest, cost, unit=protection.unit, adjacency=protection.adjacency, observer=observer
        )
    except BudgetExhausted as over:
        return over
    return None


def _terms(joining: "Joining", ledger: "Ledger") -> dict[str, Any]:
    """What there is to accept, as plain values."""
    from sottovoce.experiments import run_cost

    agreed, totals = joining.agreement, ledger.totals()
    protection = agreed.protection
    delta = ledger.created.delta
    value: dict[str, Any] = {
        "run": agreed.run,
        "party": joining.name,
        "role": joining.role,
        "digest": agreed.digest.hex(),
        "rounds": agreed.rounds,
        "parameters": agreed.dimension,
        "members": list(joining.names),
        "releases": agreed.releases if isinstance(agreed.releases, str) else list(agreed.releases),
        "unit": protection.unit,
        "adjacency": protection.adjacency,
        "time_limit": agreed.time_limit,
        "lost_neighbour": agreed.lost_neighbour,
        "minimum_agents": agreed.minimum_agents,
        "exclude_after": agreed.exclude_after,
    }
    if joining.deployed is None:
        return value
    cost = run_cost(joining, ledger)
    begun = ledger.store.run(agreed.digest) is not None
    return value | {
        "epsilon": _finite(cost.epsilon(delta)),
        "delta": delta,
        "observer": joining.deployed.guarantee.observer,
        "trusted": _trusted(agreed),
        "explained": joining.deployed.explain(delta),
        "ledger": {
            "name": ledger.created.name,
            "before": _finite(totals.reserved),
            "after": _finite(totals.reserved if begun else ledger.with_run(cost)),
            "budget": totals.budget,
            "begun": begun,
        },
    }


def _trusted(agreed: "Agreement") -> list[str]:
    """On whose good will the guarantee rests: of these, it says nothing about what they learn."""
    found = []
    if agreed.relay == "trusted" and any(member.role == "relay" for member in agreed.members):
        clear = ", before any noise" if agreed.noise.scheme == "central" else ""
        found.append(f"the relay: it reads all that this party sends{clear}, and nothing is promised against it")
    if agreed.collude != "all":
        found.append(f"all but {agreed.collude} of the others, not to put together what they know")
    return found


def _rows(value: dict[str, Any]) -> list[tuple[str, str]]:
    given = {
        "own": "each party its own model, nobody any other",
        "public": "everybody gets all models",
    }.get(str(value["releases"]), f"all models go to {', '.join(value['releases'])}")
    rows = [
        ("who takes part", ", ".join(value["members"])),
        (
            "how long",
            f"{value['rounds']} rounds, {value['parameters']} numbers in a message; waits {value['time_limit']} s for others",
        ),
        *([("talks over", value["talks_over"])] if "talks_over" in value else []),
        ("if somebody is lost", _if_lost(value)),
        ("who gets a model", given),
    ]
    if "epsilon" in value:
        unit = {"record": "one record", "person": "all records of one person", "agent": "all records of this party"}[
            value["unit"]
        ]
        ledger = value["ledger"]
        rows += [
            (
                "what is protected",
                f"{unit}, against being {'replaced' if value['adjacency'] == 'replace' else 'added or removed'}",
            ),
            ("what it costs", f"epsilon {_number(value['epsilon'])} at delta = {value['delta']:g}"),
            ("against whom", value["observer"]),
            ("who is trusted", "; ".join(value["trusted"]) or "nobody"),
            (
                f"ledger of {ledger['name']}",
                f"epsilon {_number(ledger['before'])} before, {_number(ledger['after'])} after, of {_budget(ledger['budget'])}"
                + (" (this run is counted already)" if ledger["begun"] else ""),
            ),
        ]
    else:
        rows.append(("what it costs", f"nothing: a {value['role']} has no records"))
    return [*rows, ("digest", value["digest"])]


def _if_lost(value: dict[str, Any]) -> str:
    return {
        "wait": "everybody waits, and goes on when it is back",
        "stop": f"the run ends after {value['time_limit']} s; what it cost stays spent",
        "exclude": f"after {value['exclude_after']} s of silence the others go on without it, at least {value['minimum_agents']} of them",
    }[value["lost_neighbour"]]


def _take_part(
    joining: "Joining", place: Any, data: Path | None, *, shown_bar: bool, as_json: bool, notes: Notes
) -> None:
    from sottovoce.experiments import take_part, write_own_model

    with _progress_line(joining, shown=shown_bar) as progress:
        served = take_part(joining, place, data=data, progress=progress)
    value: dict[str, Any] = {
        "run": joining.agreement.run,
        "party": joining.name,
        "digest": joining.agreement.digest.hex(),
        "unacknowledged": list(served.unacknowledged),
        "folder": str(place.folder),
    }
    said = []
    if joining.has_records:
        value["releasable"] = write_own_model(joining, served.model, place.folder)
        may = "may be given to those whom the agreement names" if value["releasable"] else "is for this party alone"
        said.append(f"The run is done. model.json and model.safetensors in {place.folder}: the model {may}.")
    else:
        said.append(f"The run is done. A {joining.role} keeps no model.")
    if served.unacknowledged:
        said.append(
            f"{', '.join(served.unacknowledged)} has not said that it has everything. When it comes back, run the same command again to serve it."
        )
    show(value, as_json=as_json, text="\n".join(said), notes=notes)


@contextmanager
def _progress_line(joining: "Joining", *, shown: bool) -> "Iterator[Callable[[Progress], None]]":
    """One line that changes: the round, who is waited for, and what is spent of what was reserved."""
    console = Console(stderr=True)
    if not shown or not console.is_terminal:
        yield lambda progress: None
        return
    exchanges, rounds = joining.parts.run.exchanges, joining.agreement.rounds
    costs, delta = (
        None if joining.deployed is None else joining.deployed.by_position,
        joining.agreement.protection.delta,
    )
    with console.status("greeting the others") as status:

        def tell(progress: "Progress") -> None:
            done = min(progress.position // exchanges + 1, rounds)
            waits = f", waiting for {', '.join(progress.awaited[:3])}" if progress.awaited else ""
            spent = ""
            if costs is not None and delta is not None and progress.position:
                last = costs[min(progress.position, len(costs)) - 1].epsilon(delta)
                spent = f", spent so far epsilon {_number(_finite(last))} (a meter)"
            status.update(f"{progress.phase}: round {done} of {rounds}{spent}{waits}")

        yield tell


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _number(value: float | None) -> str:
    return "infinite" if value is None else shown(value, 4)


def _budget(budget: float | str) -> str:
    return budget if isinstance(budget, str) else f"{budget:g}"
