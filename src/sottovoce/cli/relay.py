"""`sottovoce relay`: a NATS server between parties that cannot reach each other, for whoever runs it.

sottovoce relay config ROSTER --address host:port --out FOLDER     write the server's configuration, and relay.json for the members
sottovoce relay open FOLDER                                        make the members' mailboxes in the server that runs
sottovoce relay check FOLDER                                       whether it runs, its version, and what waits in it
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group

from sottovoce.cli.output import JsonOption, Notes, QuietOption, show, table, verbatim, wrapped
from sottovoce.errors import ConfigError

if TYPE_CHECKING:
    from sottovoce.deployment.relays import Found

_OPTIONS = {"config": {"--address", "--out", "--messages", "--hours"}, "open": set(), "check": set()}
_NEXT = (
    "Start the server in its folder, where it stays, then run `sottovoce relay open` in another terminal. Give relay.json to all members and read its number to them by voice; keep everything "
    "else in the folder to yourself. See docs/relay.md."
)
_OLD = "nats-server {} must not be used among parties: releases before 2.14 have known faults. Install an official release, 2.14 or later."


def relay(
    use: Annotated[str, typer.Argument(metavar="USE", help="config, open or check.")],
    path: Annotated[Path, typer.Argument(metavar="ROSTER|FOLDER", help="For config the roster, else the folder.")],
    address: Annotated[
        str | None, typer.Option("--address", "-a", help="host:port under which members reach it.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for the configuration.")] = None,
    messages: Annotated[
        int | None, typer.Option("--messages", help="Kept of one sender for one receiver: 128.")
    ] = None,
    hours: Annotated[int | None, typer.Option("--hours", help="After which a message is forgotten: 24.")] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Configure a relay for parties that cannot reach each other, and make their mailboxes.

    config ROSTER writes what nats-server needs, with --address and --out.

    open FOLDER makes the mailboxes once the server runs, also after it lost its disk.

    check FOLDER says whether it runs, its version, and how much waits in it.
    """
    given = {"--address": address, "--out": out, "--messages": messages, "--hours": hours}
    _check_options(use, {option for option, value in given.items() if value is not None})
    if use == "config":
        assert out is not None  # checked
        _configure(path, str(address), out, messages, hours, as_json=as_json, quiet=quiet)
        return
    from sottovoce.deployment.relays import look_at_mailboxes, open_mailboxes

    found = (open_mailboxes if use == "open" else look_at_mailboxes)(path)
    notes = Notes()
    if not found.fit:
        notes(_OLD.format(found.version))
    missing = [name for name, waiting in found.waiting.items() if waiting is None]
    if missing:
        notes(f"no mailbox of {', '.join(missing)}; make it: sottovoce relay open {path}")
    value = {"version": found.version, "fit": found.fit, "waiting": found.waiting, "removed": list(found.removed)}
    show(value, as_json=as_json, text=_mailboxes(found), notes=notes)


def _check_options(use: str, given: set[str]) -> None:
    if use not in _OPTIONS:
        raise ConfigError(
            f"`sottovoce relay {use}` does not exist; there are {', '.join(_OPTIONS)}. See `sottovoce relay --help`."
        )
    surplus = sorted(given - _OPTIONS[use])
    if surplus:
        raise ConfigError(f"{', '.join(surplus)} has no meaning for `sottovoce relay {use}`. Leave it out.")
    missing = sorted({"--address", "--out"} - given) if use == "config" else []
    if missing:
        raise ConfigError(
            f"`sottovoce relay config` needs {' and '.join(missing)}. Example: sottovoce relay config roster.json --address relay.example.org:4222 "
            "--out relay"
        )


def _configure(
    path: Path, address: str, out: Path, messages: int | None, hours: int | None, *, as_json: bool, quiet: bool
) -> None:
    from sottovoce.deployment.identity import load_roster
    from sottovoce.deployment.relays import Limits, configured

    usual = Limits()
    limits = Limits(
        messages=usual.messages if messages is None else messages, hours=usual.hours if hours is None else hours
    )
    roster = load_roster(path)
    written = configured(roster, address, out, limits)
    value: dict[str, Any] = {
        "folder": str(out),
        "address": address,
        "members": list(roster.names),
        "fingerprint": written.relay.fingerprint,
        "relay_file": str(out / "relay.json"),
        "largest_disk": written.disk,
        "messages": limits.messages,
        "hours": limits.hours,
    }
    rows = [
        ("address", address),
        ("members", ", ".join(roster.names)),
        ("number of the relay", written.relay.fingerprint),
        ("disk at most", f"{written.disk / 2**30:.1f} GiB, {limits.messages} messages of each sender to each receiver"),
        ("forgotten after", f"{limits.hours} hours"),
    ]
    commands = f"(cd {out} && nats-server -c nats.conf)\nsottovoce relay open {out}"
    text = [table(("what", "is"), rows, words=("what", "is")), verbatim(commands)]
    show(value, as_json=as_json, text=Group(*text, *([] if quiet else [wrapped(_NEXT)])))


def _mailboxes(found: "Found") -> Group:
    header = ("member", "messages waiting")
    rows = [(name, "no mailbox" if waiting is None else str(waiting)) for name, waiting in found.waiting.items()]
    said = [table(header, rows, words=header, title=f"nats-server {found.version}")]
    return Group(*said, *([wrapped(f"removed: {', '.join(found.removed)}")] if found.removed else []))
