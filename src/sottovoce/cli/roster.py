"""`sottovoce roster`: who takes part.

sottovoce roster add ENTRY...        put members into the roster, from the files that they sent
sottovoce roster show                the members and their numbers
sottovoce roster check               whether a run can be made with it
sottovoce roster renew ENTRY...      newer entries of members: another address or certificate, the same key
sottovoce roster remove NAME...      take members out: lost or stolen keys
sottovoce roster evidence FILE...    whether a member has signed two different messages where it had agreed to one
"""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType

from sottovoce.cli.output import JsonOption, Notes, QuietOption, show, table, wrapped
from sottovoce.errors import ConfigError
from sottovoce.wording import brief

if TYPE_CHECKING:
    from sottovoce.deployment.identity import Roster

_SOON = dt.timedelta(days=30)
_COMPARE = (
    "Before the first run compare each number with its owner by voice; the last one, of all members together, has to be the same at everybody. A "
    "number that differs is another key: do not run with it."
)


def roster(
    use: Annotated[str, typer.Argument(metavar="USE", help="add, show, check, renew, remove or evidence.")],
    members: Annotated[
        list[str] | None, typer.Argument(metavar="[ENTRY|NAME]...", help="Files, or names to remove.")
    ] = None,
    path: Annotated[Path, typer.Option("--roster", "-r", help="The file.")] = Path("roster.json"),
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Keep the list of all parties, each entry signed by its owner.

    add ENTRY... puts members in, from the files that they sent.

    show prints members and the numbers to compare by voice.

    check refuses what a run would refuse, such as a certificate that has expired.

    renew ENTRY... takes in another address or certificate of the same key.

    remove NAME... takes members out, such as one whose key was lost or stolen.

    evidence FILE... checks what a party wrote when it stopped because a member had cheated; code 1 where it proves nothing.
    """
    if use not in _USES:
        raise ConfigError(
            f"`sottovoce roster {use}` does not exist; there are {', '.join(_USES)}. See `sottovoce roster --help`."
        )
    needs, change = _USES[use]
    if bool(members) != bool(needs):
        wanted = f"needs {needs}" if needs else "takes no names or files"
        raise ConfigError(
            f"`sottovoce roster {use}` {wanted}. Example: sottovoce roster {use}{' ' + _EXAMPLES[use] if needs else ''}"
        )
    roster = _read(path, use)
    if use == "evidence":
        _judge(roster, members or [], as_json=as_json)
        return
    changed = change(roster, members or []) if change else roster
    if change:
        changed.save(path)
    notes = Notes()
    for entry in changed:
        if entry.valid_until - dt.datetime.now(dt.UTC) < _SOON:
            notes(
                f"the certificate of {entry.name} ends on {entry.valid_until:%Y-%m-%d}; {entry.name} makes a new one with `sottovoce keys renew`."
            )
    show(_value(changed, path), as_json=as_json, text=_text(changed, path, quiet=quiet), notes=notes)


def _read(path: Path, use: str) -> "Roster":
    from sottovoce.deployment.identity import Roster, load_roster

    if use == "add" and not path.exists():
        return Roster(())
    return load_roster(path, expired=use != "check")


def _add(roster: "Roster", files: list[str]) -> "Roster":
    from sottovoce.deployment.identity import load_entry

    for file in files:
        roster = roster.added(load_entry(Path(file)))
    return roster


def _renew(roster: "Roster", files: list[str]) -> "Roster":
    from sottovoce.deployment.identity import load_entry

    for file in files:
        roster = roster.replaced(load_entry(Path(file)))
    return roster


def _remove(roster: "Roster", names: list[str]) -> "Roster":
    for name in names:
        roster = roster.removed(name)
    return roster


_USES: dict[str, tuple[str, Callable[["Roster", list[str]], "Roster"] | None]] = {
    "add": ("files of entries", _add),
    "show": ("", None),
    "check": ("", None),
    "renew": ("files of entries", _renew),
    "remove": ("names", _remove),
    "evidence": ("files of evidence", None),
}
_EXAMPLES = {
    "add": "hospital-3.entry.json",
    "renew": "hospital-3.entry.json",
    "remove": "hospital-3",
    "evidence": "evidence-hospital-3-17.json",
}


def _judge(roster: "Roster", files: list[str], *, as_json: bool) -> None:
    """Say of every file whether it proves something against a member; leave with 1 where one does not."""
    from sottovoce.deployment.party import parse_evidence
    from sottovoce.errors import ProtocolError

    found, said = [], []
    for file in files:
        evidence = parse_evidence(_content(file))
        reason = ""
        try:
            if roster[evidence.sender].identity_key != evidence.identity_key:
                reason = f"the roster has another key of {brief(evidence.sender)} than the one that signed"
            evidence.check()
        except ProtocolError as error:
            reason = str(error)
        found.append(
            {"file": file, "sender": evidence.sender, "run": evidence.run, "agreement": evidence.agreement.hex(), "position": evidence.position,
             "proven": not reason, "reason": reason}
        )  # fmt: skip
        said.append(
            f"{file}: proves nothing: {reason}"
            if reason
            else f"{file}: {brief(evidence.sender)} has signed two different messages for exchange {evidence.position} of the run {brief(evidence.run)!r}, "
            f"agreement {evidence.agreement.hex()[:16]}. Both signatures are genuine."
        )
    show({"evidence": found}, as_json=as_json, text=Group(*(wrapped(each) for each in said)))
    if not all(each["proven"] for each in found):
        raise typer.Exit(1)


def _content(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be read ({error.strerror}). Give a file evidence-NAME-POSITION.json."
        ) from error


def _value(roster: "Roster", path: Path) -> dict[str, object]:
    members = [
        {
            "name": entry.name,
            "role": entry.role,
            "address": entry.address,
            "identity_key": entry.identity_key.hex(),
            "fingerprint": entry.fingerprint,
            "certificate_until": entry.valid_until.isoformat(),
        }
        for entry in roster
    ]
    return {"roster": str(path), "members": members, "fingerprint": roster.fingerprint, "digest": roster.digest.hex()}


def _text(roster: "Roster", path: Path, *, quiet: bool) -> RenderableType:
    header = ("member", "address", "certificate until", "number of the key")
    rows = [
        (f"{each.name} ({each.role})", each.address, f"{each.valid_until:%Y-%m-%d}", each.fingerprint)
        for each in roster
    ]
    parts = [
        table(
            header,
            rows,
            words=header,
            title=f"{path}: {len(roster)} member{'' if len(roster) == 1 else 's'}, every entry signed by its owner",
        ),
        wrapped(f"number of all members together: {roster.fingerprint}"),
    ]
    return Group(*parts, *([] if quiet else [wrapped(_COMPARE, style="dim")]))
