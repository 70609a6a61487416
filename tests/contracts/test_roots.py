"""Packages import each other through their roots: what lies inside one may be moved without its neighbours knowing."""

import ast
import json
from pathlib import Path

import pytest

from contracts.public_names import LISTED

SOURCE = Path(__file__).parents[2] / "src" / "sottovoce"
PACKAGES = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))
# What holds public names is a root too: `from sottovoce.accounting.gopa import ...`.
PUBLIC = {name.rpartition(".")[0] for name in json.loads(LISTED.read_text())}
# These still reach inside others; the list may shrink, not grow.
REACHES_INSIDE = {"attacks", "deployment"}


def imported(path: Path):
    """(line, dotted name of the module) of every import in a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield node.lineno, node.module or ""
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)


def inside(package: str) -> list[str]:
    """Imports of a package that reach inside another one."""
    found = []
    for path in sorted((SOURCE / package).rglob("*.py")):
        for line, module in imported(path):
            parts = module.split(".")
            others = parts[0] == "sottovoce" and len(parts) > 2 and parts[1] in PACKAGES and parts[1] != package
            if others and module not in PUBLIC:
                found.append(f"{path.relative_to(SOURCE)}:{line} imports {module}")
    return found


@pytest.mark.parametrize("package", sorted(set(PACKAGES) - REACHES_INSIDE))
def test_a_package_imports_others_through_their_roots(package):
    assert inside(package) == []


def test_an_import_of_a_module_inside_another_package_is_noticed(tmp_path, monkeypatch):
    package = tmp_path / "cli"
    package.mkdir()
    (package / "one.py").write_text(
        "def late():\n    from sottovoce.experiments.record import load\n"
        "from sottovoce.experiments import load\nimport sottovoce.reports.save\nfrom sottovoce.accounting.gopa import party_mu\n"
    )
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    assert [each.partition(" ")[0] for each in inside("cli")] == ["cli/one.py:4", "cli/one.py:2"]
