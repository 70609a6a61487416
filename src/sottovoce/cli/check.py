"""`sottovoce check`: whether a file will run, everything that is in the way, and what every observer would learn."""

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType

from sottovoce.cli.guarantees import guarantee_table
from sottovoce.cli.output import JsonOption, Notes, OverridesArgument, QuietOption, paragraph, show, wrapped

if TYPE_CHECKING:
    from sottovoce.experiments import Checked

_MOST = 12  # names of features on the terminal


def check(
    file: Annotated[Path, typer.Argument(help="A TOML configuration; `sottovoce new` writes one.")],
    overrides: OverridesArgument = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Say everything that is still missing or wrong in a file and its data, or what will run; runs nothing."""
    from sottovoce.experiments import check_file

    notes = Notes()
    found = check_file(file, overrides or (), say=notes)
    described = found.describe()
    command = shlex.join(["sottovoce", "run", str(file), *(overrides or ())])
    parts = (
        _fine(command, described, found, quiet=quiet) if found.runs else list(map(wrapped, _in_the_way(file, found)))
    )
    show({"file": str(file), **described}, as_json=as_json, text=Group(*parts), notes=notes)
    if not found.runs:
        raise typer.Exit(2)


def _in_the_way(file: Path, found: "Checked") -> Iterable[str]:
    counts = {
        "line(s) to complete": len(found.unfilled),
        "mistake(s) in the file": len(found.wrong),
        "problem(s) with the data": len(found.complaints),
    }
    yield f"{file} does not run yet: {', '.join(f'{count} {what}' for what, count in counts.items() if count)}."
    if found.unfilled:
        yield "\nTo complete, from what is known without the data:"
        yield from (f"- {paragraph(f'{each.place}: {each.hint}')}" for each in found.unfilled)
    if found.wrong:
        yield "\nMistakes:"
        yield from (f"- {paragraph(each)}" for each in found.wrong)
    if found.complaints:
        yield "\nFor the data's owner only, since numbers of cells are facts about the records:"
    for source in dict.fromkeys(each.source for each in found.complaints):
        yield f"\n{paragraph(source)}:"
        yield from (f"- {paragraph(each.sentence())}" for each in found.complaints if each.source == source)


def _fine(command: str, described: dict[str, Any], found: "Checked", *, quiet: bool) -> list[RenderableType]:
    told = described["will_run"]
    agents, features, apart = told["agents"], told["features"], told["for_the_owner_only"]
    said = [
        f"{shlex.split(command)[2]} will run: {len(agents)} agents, {told['rounds']} rounds, {told['repeats']} repeat(s)."
    ]
    if not quiet:
        if isinstance(agents[0], str):
            said.append(f"Agents: {', '.join(agents[:_MOST])}{_more(agents)}.")
        if features is not None:
            said.append(f"{len(features)} features: {', '.join(features[:_MOST])}{_more(features)}.")
        if told["classes"] is not None:
            said.append(f"To tell apart: {', '.join(told['classes'])}.")
        sizes = [f"{name} {size}" for name, size in apart["records"].items()]
        said.append(
            f"For the data's owner only: records to learn from: {', '.join(sizes[:_MOST])}{_more(sizes)}; to test on: {apart['test_records']}."
        )
    parts: list[RenderableType] = [wrapped(paragraph(each)) for each in said]
    if found.stated is not None:
        parts.append(guarantee_table(found.stated))
    if not quiet:
        parts.append(wrapped(f"Next: {command}"))
    return parts


def _more(names: list[Any]) -> str:
    return f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
