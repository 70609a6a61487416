"""Names that the outside relies on stay where they are, with the arguments they take."""

import importlib
import json

import pytest

from contracts.public_names import LISTED, parameters, public_names

NAMES = json.loads(LISTED.read_text())


def reached(dotted: str):
    """The object by attributes from the package, and by importing its module."""
    path, name = dotted.rsplit(".", 1)
    by_import = getattr(importlib.import_module(path), name)
    by_attribute = importlib.import_module("sottovoce")
    for part in dotted.split(".")[1:]:
        by_attribute = getattr(by_attribute, part)
    return by_attribute, by_import


@pytest.mark.parametrize("module", sorted({name.rsplit(".", 1)[0] for name in NAMES}))
def test_public_names_stay_reachable_with_their_arguments(module):
    wrong = []
    for dotted, needed in NAMES.items():
        if dotted.rsplit(".", 1)[0] != module:
            continue
        by_attribute, by_import = reached(dotted)
        if by_attribute is not by_import:
            wrong.append(f"{dotted} is one thing by attribute and another by import")
        found = parameters(by_import)
        # Arguments may be added, with a default, and one that was needed may get one; the others stay as they were.
        relaxed = {one.split("=")[0] for one in found or ()}
        missing = {one for one in set(needed or ()) - set(found or ()) if "=" in one or one not in relaxed}
        added = [one for one in set(found or ()) - set(needed or ()) if "=" not in one]
        if missing or added:
            wrong.append(f"{dotted} lost {sorted(missing)} and asks for {sorted(added)}")
    assert not wrong, "\n".join(wrong)


def test_every_public_name_is_listed():
    new = sorted(set(public_names()) - set(NAMES))
    assert not new, f"add them with `python tests/contracts/public_names.py`: {', '.join(new)}"
