"""`sottovoce account`: what every observer named in a file can learn, without running anything."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType

from sottovoce.cli.guarantees import coalitions, guarantee_table
from sottovoce.cli.output import JsonOption, Notes, OverridesArgument, QuietOption, show, wrapped


def account(
    file: Annotated[Path, typer.Argument(help="A TOML configuration with observers in \\[privacy].")],
    overrides: OverridesArgument = None,
    per_agent: Annotated[bool, typer.Option("--per-agent", help="One row for every agent.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Add mu, the linear view, and what each row means and assumes.")
    ] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """State what every observer can learn: who sees what, epsilon, and how sure that is."""
    from sottovoce.experiments import build, coalition_table, guarantees, guarantees_of_agents, read, statement

    notes = Notes()
    experiment = build(read(file, overrides or (), say=notes))
    found = guarantees_of_agents(experiment) if per_agent else guarantees(experiment)
    stated = statement(experiment, found)
    parts: list[RenderableType] = [guarantee_table(stated, per_agent=per_agent, explain=explain)]
    against = coalition_table(experiment)
    if against is not None:
        stated["coalitions"] = against
        parts.append(coalitions(against, stated["delta"]))
    if explain and not quiet:
        delta = stated["delta"]
        parts += [wrapped(f"\n{each.explain(delta)}") for each in found]
    show(stated, as_json=as_json, text=Group(*parts), notes=notes)
