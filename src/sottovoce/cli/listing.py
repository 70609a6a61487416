"""`sottovoce list`: what can be chosen, in the words of each docstring's first line."""

import inspect
from collections.abc import Mapping
from typing import Any

from rich.markup import escape
from rich.table import Table

from sottovoce.algorithms import ALGORITHMS
from sottovoce.cli.output import JsonOption, show
from sottovoce.noise import LAWS, SCHEMES
from sottovoce.observers import OBSERVERS
from sottovoce.problems import PROBLEMS
from sottovoce.topologies import TOPOLOGIES

_REGISTRIES: Mapping[str, Mapping[str, Any]] = {
    "topologies": TOPOLOGIES,
    "problems": PROBLEMS,
    "algorithms": ALGORITHMS,
    "noise schemes": SCHEMES,
    "noise laws": LAWS,
    "observers": OBSERVERS,
}


def list_choices(as_json: JsonOption = False) -> None:
    """List topologies, problems, algorithms, noise schemes and laws, observers, and attacks."""
    from sottovoce.attacks import ATTACKS  # takes a while to load, and only this command needs it

    registries = {**_REGISTRIES, "attacks": ATTACKS}
    choices = {
        title: {name: _first_line(thing) for name, thing in things.items()} for title, things in registries.items()
    }
    table = Table.grid(padding=(0, 2))
    for title, things in choices.items():
        table.add_row(f"[bold]{title}[/bold]")
        for name, line in things.items():
            table.add_row(f"  {escape(name)}", escape(line))
    show(choices, as_json=as_json, text=table)


def _first_line(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0]
