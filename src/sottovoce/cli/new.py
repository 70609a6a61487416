"""`sottovoce new`: write a commented configuration to start from, one that runs as it is or one for somebody's own files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group

from sottovoce.cli.output import JsonOption, QuietOption, show, table, wrapped
from sottovoce.errors import ConfigError

if TYPE_CHECKING:
    from sottovoce.experiments import Roles, Survey

_SHOWN = (
    "For the data's owner only: these are exact facts about the records, covered by no guarantee. Nothing was written. A range, a label or "
    "a code that is copied from here into a configuration is a leak, for instance of the one person who has it: write what is known without "
    "the data. Leave out --show-values to write the configuration."
)


def new(
    file: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("experiment.toml"),
    template: Annotated[
        str | None,
        typer.Option("--template", help="One of peers (the default), federation, gopa, gossip, parties, walk."),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", help="Own .csv or .parquet files, a folder or a pattern; may be repeated."),
    ] = None,
    target: Annotated[str | None, typer.Option("--target", help="With --data: the column to predict.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="With --data: the column of who holds a record.")] = None,
    person: Annotated[str | None, typer.Option("--person", help="With --data: the column of whom it is about.")] = None,
    kind: Annotated[
        str | None,
        typer.Option("--kind", help="With --data: logistic_regression, linear_regression or classification."),
    ] = None,
    show_values: Annotated[
        bool,
        typer.Option(
            "--show-values", help="With --data: print what was found, for the data's owner, and write nothing."
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a commented configuration to start from; with --data one for own files, from the names and kinds of their columns alone."""
    from sottovoce.experiments import Roles
    from sottovoce.experiments import template as template_named

    if data:
        if template is not None:
            raise ConfigError("--data and --template both say what to write; keep one of them.")
        if show_values:
            _show_values(data, as_json=as_json)
            return
        if target is None:
            raise ConfigError("--data needs --target, the column to predict; give its name.")
        _for_own_files(
            file, data, Roles(target=target, owner=owner, person=person, kind=kind), force=force, as_json=as_json, quiet=quiet
        )  # fmt: skip
        return
    given = {
        "--target": target,
        "--owner": owner,
        "--person": person,
        "--kind": kind,
        "--show-values": show_values or None,
    }
    if idle := [option for option, value in given.items() if value is not None]:
        raise ConfigError(f"{', '.join(idle)} speak of own files; name these by --data.")
    name = template or "peers"
    _write(file, template_named(name), force=force)
    uses = {"gossip": "pairwise", "parties": "deploy-local"}
    following = "" if quiet else f" Next: sottovoce {uses.get(name, 'run')} {file}"
    show({"file": str(file)}, as_json=as_json, text=f"{file} written.{following}")


def _for_own_files(file: Path, data: list[str], roles: "Roles", *, force: bool, as_json: bool, quiet: bool) -> None:
    from sottovoce.experiments import draft, lines_to_complete, survey

    found = survey(data)
    text = draft(data, found, roles)
    _write(file, text, force=force)
    count = lines_to_complete(text)
    said = [
        f"{file} written, from the names and kinds of {len(found.columns)} columns; no value of the data is in it.",
        f"Next: complete its {count} lines that say FILL IN, from what is known without the data. Then\n  sottovoce check {file}\n  "
        f"sottovoce run {file}",
        *_empty(found, roles),
    ]
    value: dict[str, Any] = {
        "file": str(file),
        "lines_to_complete": count,
        "columns": {each.name: each.kind for each in found.columns.values()},
    }
    show(value, as_json=as_json, text=said[0] if quiet else Group(*map(wrapped, said)))


def _empty(found: "Survey", roles: "Roles") -> list[str]:
    """Which lines of [problem.missing] are needed: a fact about the records, hence for their owner and in no file."""
    unused = ("identifier", "date", "text")
    roled = (roles.target, roles.owner, roles.person)
    names = [
        each.name
        for each in found.columns.values()
        if each.empty and each.kind not in unused and each.name not in roled
    ]
    if not names:
        return []
    return [
        f"For the data's owner only: there are empty cells in {', '.join(names)}. Uncomment these lines of [problem.missing], and say what "
        "stands for an empty cell."
    ]


def _show_values(data: list[str], *, as_json: bool) -> None:
    from sottovoce.experiments import survey

    if as_json:
        raise ConfigError("--show-values is for the eyes of the data's owner and has no JSON; leave out --json.")
    found = survey(data)
    rows = [(each.name, each.kind, f"{each.empty}", each.values()) for each in found.columns.values()]
    header = ("column", "kind", "empty", "found")
    shown = table(header, rows, words=("column", "kind", "found"), title="for the data's owner only")
    show({}, as_json=False, text=Group(shown, wrapped(_SHOWN)))


def _write(file: Path, text: str, *, force: bool) -> None:
    try:
        if file.exists() and not file.is_file():
            raise ConfigError(f"{file} exists and is no plain file; choose another name.")
        with file.open("w" if force else "x", encoding="utf-8") as target:
            target.write(text)
    except FileExistsError as error:
        raise ConfigError(f"{file} exists; choose another name, or overwrite it with --force.") from error
    except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{file} cannot be written ({reason}); choose another place.") from error
