"""Names of a package that are found when they are first used."""

import sys
from importlib import import_module

import pytest

from sottovoce.imported_later import imported_later


def test_a_module_is_imported_when_one_of_its_names_is_used_and_not_before():
    sys.modules.pop("xml.sax.saxutils", None)
    find = imported_later("xml.sax", {"saxutils": ("escape", "quoteattr")})
    assert "xml.sax.saxutils" not in sys.modules
    assert find("escape")("<") == "&lt;"
    assert "xml.sax.saxutils" in sys.modules


def test_an_unknown_name_is_an_attribute_error_as_python_expects():
    with pytest.raises(AttributeError, match=r"module 'xml.sax' has no attribute 'nothing'"):
        imported_later("xml.sax", {})("nothing")


@pytest.mark.parametrize(("package", "name"), [("experiments", "run_experiment"), ("reports", "sandwiches")])
def test_packages_find_names_later_and_refuse_others(package, name):
    module = import_module(f"sottovoce.{package}")
    assert getattr(module, name).__name__ == name
    with pytest.raises(AttributeError, match=f"'sottovoce.{package}' has no attribute 'nothing'"):
        _ = module.nothing
