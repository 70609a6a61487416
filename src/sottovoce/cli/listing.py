"""`sottovoce list`: what can be chosen, in the words of each docstring's first line."""

import inspect
from collections.abc import Mapping
from typing import Any

from rich.console import Group

from sottovoce.algorithms import ALGORITHMS
from sottovoce.cli.output import JsonOption, QuietOption, show, table, wrapped
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


def list_choices(as_json: JsonOption = False, quiet: QuietOption = False) -> None:
    """List topologies, problems, algorithms, noise schemes and laws, observers, and attacks."""
    from sottovoce.attacks import ATTACKS  # takes a while to load, and only this command needs it

    registries = {**_REGISTRIES, "attacks": ATTACKS}
    choices = {
        title: {name: _first_line(thing) for name, thing in things.items()} for title, things in registries.items()
    }
    if quiet:
        text = Group(*(wrapped(f"{title}: {', '.join(things)}") for title, things in choices.items()))
    else:
        words = ("name", "what it is")
        text = Group(*(table(words, things.items(), words=words, title=title) for title, things in choices.items()))
    show(choices, as_json=as_json, text=text)


def _first_line(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0]
