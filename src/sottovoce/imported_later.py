"""Names of a package whose modules are imported when one of the names is first used, so that the package itself starts at once."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def imported_later(package: str, modules: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """The `__getattr__` of a package.

    A name must differ from that of its module: Python binds the module to its own name in the package once it is imported, and would find that.

    Args:
        package: its dotted name.
        modules: module below the package -> the names that it provides.
    """
    places = {name: module for module, names in modules.items() for name in names}

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{places[name]}"), name)

    return find
