"""The JSON Schema that is shipped describes the files that are written, by the word of an independent validator."""

import json
from importlib.resources import files

import jsonschema
import pytest

from experiments.test_model_file import finished, told  # noqa: F401 - a fixture, and how to read
from sottovoce.experiments.model_file import ModelFile

SCHEMA = json.loads((files("sottovoce.experiments") / "model.schema.json").read_text(encoding="utf-8"))


def test_it_is_a_schema_of_the_keys_that_are_read():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert list(SCHEMA["properties"]) == [field.alias or name for name, field in ModelFile.model_fields.items()]
    assert SCHEMA["additionalProperties"] is False
    assert next(iter(SCHEMA["properties"])) == "releasable"


def test_a_written_file_is_valid(finished):  # noqa: F811
    jsonschema.validate(told(finished), SCHEMA)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("releasable", "no"), ("why", 1), ("format_version", 2), ("kind", "tree"), ("features", [{"name": "age"}]), ("guarantee", []),
        ("configuration_digest", "abc"), ("parameters", {}), ("loss", 0.3),
    ],
)  # fmt: skip
def test_a_file_that_is_none_is_invalid(finished, key, value):  # noqa: F811
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**told(finished), key: value}, SCHEMA)


def test_a_file_without_its_first_key_is_invalid(finished):  # noqa: F811
    with pytest.raises(jsonschema.ValidationError, match="releasable"):
        jsonschema.validate({key: value for key, value in told(finished).items() if key != "releasable"}, SCHEMA)
