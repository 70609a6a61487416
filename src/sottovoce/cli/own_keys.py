"""`sottovoce keys`: who this party is among others.

sottovoce keys new NAME --address host:port --folder DIR [--role agent]     make keys
sottovoce keys show NAME --folder DIR                                       the number that others compare by voice
sottovoce keys renew NAME --folder DIR [--address host:port]                a new certificate, perhaps at another address, for the same key
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group

from sottovoce.cli.output import JsonOption, QuietOption, show, table, verbatim, wrapped
from sottovoce.errors import ConfigError

if TYPE_CHECKING:
    from sottovoce.deployment.identity import Identity

_OPTIONS = {
    "new": ("--address", "--folder", "--role", "--days"),
    "show": ("--folder",),
    "renew": ("--address", "--folder", "--days"),
}
_NEXT = (
    "Send the entry file to the others; it holds nothing secret. Read the number to them by voice, so that they know it is yours. Keep the key file to "
    "yourself: there is no passphrase, so that a party can start again by itself; keep it on an encrypted disk. See docs/deployment.md."
)


def keys(
    use: Annotated[str, typer.Argument(metavar="USE", help="new, show or renew.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the party, the same in all runs.")],
    folder: Annotated[Path | None, typer.Option("--folder", "-f", help="Where the keys are.")] = None,
    address: Annotated[
        str | None, typer.Option("--address", "-a", help="host:port under which the others reach it.")
    ] = None,
    role: Annotated[str | None, typer.Option("--role", "-r", help="agent (default), relay, board or beacon.")] = None,
    days: Annotated[int | None, typer.Option("--days", help="How long the certificate is valid: 1826.")] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make the keys by which other parties know this one, and show their number.

    new NAME makes them, with --address and --folder.

    show NAME prints the number that others compare by voice.

    renew NAME makes a new certificate for the same key, perhaps at another --address.
    """
    given = {"--folder": folder, "--address": address, "--role": role, "--days": days}
    _check_options(use, {option for option, value in given.items() if value is not None})
    assert folder is not None  # every use needs it
    if use == "new":
        from sottovoce.deployment.identity import DAYS, new_identity

        identity = new_identity(name, folder, str(address), role=role or "agent", days=DAYS if days is None else days)
    elif use == "renew":
        from sottovoce.deployment.identity import DAYS, renew_identity

        identity = renew_identity(name, folder, address=address, days=DAYS if days is None else days)
    else:
        from sottovoce.deployment.identity import load_identity, write_entry

        identity = load_identity(name, folder)
        write_entry(identity, folder)  # which a crash may have kept from being written with the key
    _print(identity, folder, advice=use != "show" and not quiet, as_json=as_json)


def _check_options(use: str, given: set[str]) -> None:
    if use not in _OPTIONS:
        raise ConfigError(
            f"`sottovoce keys {use}` does not exist; there are {', '.join(_OPTIONS)}. See `sottovoce keys --help`."
        )
    surplus = sorted(given - set(_OPTIONS[use]))
    if surplus:
        raise ConfigError(f"{', '.join(surplus)} has no meaning for `sottovoce keys {use}`. Leave it out.")
    missing = sorted({"--folder", *(("--address",) if use == "new" else ())} - given)
    if missing:
        raise ConfigError(
            f"`sottovoce keys {use}` needs {' and '.join(missing)}. Example: sottovoce keys new hospital-3 --address hospital-3.example.org:7443 --folder keys"
        )


def _print(identity: "Identity", folder: Path, *, advice: bool, as_json: bool) -> None:
    from sottovoce.deployment.identity import entry_path, key_path

    entry = identity.entry()
    value: dict[str, Any] = {
        "name": entry.name,
        "role": entry.role,
        "address": entry.address,
        "identity_key": entry.identity_key.hex(),
        "fingerprint": entry.fingerprint,
        "certificate_until": entry.valid_until.isoformat(),
        "key_file": str(key_path(folder, entry.name)),
        "entry_file": str(entry_path(folder, entry.name)),
    }
    rows = [
        ("name", f"{entry.name} ({entry.role})"),
        ("address", entry.address),
        ("certificate until", f"{entry.valid_until:%Y-%m-%d}"),
        ("number of the key", entry.fingerprint),
    ]
    files = f"key file    {value['key_file']}\nentry file  {value['entry_file']}"
    text = [table(("what", "is"), rows, words=("what", "is")), verbatim(files)]
    show(value, as_json=as_json, text=Group(*text, *([wrapped(_NEXT)] if advice else [])))
