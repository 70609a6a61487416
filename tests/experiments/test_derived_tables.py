"""The keys of a table are the parameters of the function that makes what it names."""

from collections.abc import Callable
from typing import Any, Literal

import pytest
from pydantic import TypeAdapter, ValidationError

from sottovoce.algorithms import ALGORITHMS
from sottovoce.experiments.config import algorithm, noise
from sottovoce.experiments.config.algorithm import GradientAlgorithm
from sottovoce.experiments.config.derived import choice, tables
from sottovoce.noise import SCHEMES


def made(
    law: object,
    *,
    step_size: float | Callable[[Any], Any],
    steps: int = 2,
    box: float | None = None,
    order: Literal["first", "last"] = "first",
    quiet: bool = False,
) -> None:
    """What is made."""


def unreadable(*, start: Callable[[], float]) -> None:
    """Takes a function alone."""


TABLE = tables({"made": made}, GradientAlgorithm, {})["made"]


def test_every_keyword_of_a_factory_is_a_key_with_its_default_and_the_others_are_not():
    table = TABLE.model_validate({"kind": "made", "step_size": 0.5})
    assert table.model_dump() == {
        "kind": "made", "step_size": 0.5, "steps": 2, "box": None, "order": "first", "quiet": False, "batch_size": None,
        "batch": None,
    }  # fmt: skip
    assert TABLE.__doc__ == "What is made."


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("step_size", None),
        ("step_size", 0.0),
        ("step_size", "fast"),
        ("steps", 0),
        ("steps", 1.5),
        ("box", -1.0),
        ("order", "middle"),
        ("quiet", 1),
        ("law", "gaussian"),
        ("kind", "mad"),
    ],
)
def test_a_value_that_the_annotation_does_not_allow_is_refused(key, value):
    with pytest.raises(ValidationError, match=key):
        TABLE.model_validate({"kind": "made", "step_size": 0.5, key: value})


def test_what_no_file_can_say_needs_a_section_written_by_hand():
    with pytest.raises(TypeError, match=r"unreadable: no file can say start.*by hand"):
        tables({"unreadable": unreadable}, GradientAlgorithm, {})
    assert tables({"unreadable": unreadable}, GradientAlgorithm, {"unreadable": TABLE}) == {"unreadable": TABLE}


def test_a_choice_of_tables_takes_each_of_them():
    second = tables({"second": made}, GradientAlgorithm, {})["second"]
    adapter = TypeAdapter(choice({"made": TABLE, "second": second}))
    assert type(adapter.validate_python({"kind": "second", "step_size": 1.0})) is second


def test_everything_registered_has_a_table():
    assert algorithm.TABLES.keys() == ALGORITHMS.keys()
    assert noise.TABLES.keys() == SCHEMES.keys() | {"showkatbakhsh", "designed"}
