"""The public names of the package with their signatures, as data: `python tests/contracts/public_names.py` adds new ones.

A public name is one that some `__all__` lists. From one release to the next names may be added; one that goes, moves or takes other arguments
needs a release with a warning first. So the file beside this one is only ever added to.
"""

import importlib
import inspect
import json
import pkgutil
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import sottovoce

LISTED = Path(__file__).with_name("public_names.json")


def public_names() -> dict[str, list[str] | None]:
    """Every public name, dotted, and its parameters as text; None for what cannot be called."""
    modules = [sottovoce.__name__, *(info.name for info in pkgutil.walk_packages(sottovoce.__path__, "sottovoce."))]
    found: dict[str, list[str] | None] = {}
    for name in modules:
        module = importlib.import_module(name)
        if name not in _first_names().setdefault(id(module), {name}):
            continue
        for public in getattr(module, "__all__", ()):
            found[f"{name}.{public}"] = parameters(getattr(module, public))
    return dict(sorted(found.items()))


@cache
def _first_names() -> dict[int, set[str]]:
    """The names under which modules are listed: one that moved is known by its first name, and not once more by its new place."""
    listed = {name.rpartition(".")[0] for name in json.loads(LISTED.read_text())}
    found: dict[int, set[str]] = {}
    for name in listed:
        found.setdefault(id(importlib.import_module(name)), set()).add(name)
    return found


def parameters(value: Any) -> list[str] | None:
    """The parameters of a function or class: name, how it is given, and its default."""
    if isinstance(value, ModuleType) or not callable(value):
        return None
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return None
    return [_parameter(one) for one in signature.parameters.values()]


def _parameter(one: inspect.Parameter) -> str:
    mark = {one.KEYWORD_ONLY: "*, ", one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**", one.POSITIONAL_ONLY: "/, "}.get(
        one.kind, ""
    )
    if one.default is one.empty:
        return mark + one.name
    plain = one.default is None or isinstance(one.default, bool | int | float | str | tuple)
    return f"{mark}{one.name}={one.default!r}" if plain else f"{mark}{one.name}=..."


if __name__ == "__main__":
    listed = json.loads(LISTED.read_text())  # as they were: what is new is added, nothing is rewritten
    LISTED.write_text(json.dumps(dict(sorted({**public_names(), **listed}.items())), indent=1) + "\n")
