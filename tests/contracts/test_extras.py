"""What can be installed is what code uses: no extra is declared before a line imports one of its packages."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
IMPORTED_AS = {
    "scikit-learn": "sklearn",
    "dp-accounting": "dp_accounting",
    "dm-haiku": "haiku",
    "grpcio": "grpc",
    "nats-py": "nats",
}


def imported(path: Path) -> Iterator[str]:
    """The first names of all that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


@pytest.fixture(scope="module")
def modules() -> set[str]:
    return {name for folder in ("src", "examples") for path in (ROOT / folder).rglob("*.py") for name in imported(path)}


@pytest.mark.parametrize("extra", sorted(set(PROJECT["optional-dependencies"]) - {"dev"}))
def test_every_package_of_an_extra_is_imported_somewhere(extra, modules):
    for requirement in PROJECT["optional-dependencies"][extra]:
        package = requirement.partition(">")[0]
        assert IMPORTED_AS.get(package, package) in modules, f"extra {extra}: nothing imports {package}"


def test_every_requirement_says_its_lowest_version():
    extras = PROJECT["optional-dependencies"].values()
    for requirement in [*PROJECT["dependencies"], *(each for extra in extras for each in extra)]:
        assert ">=" in requirement
