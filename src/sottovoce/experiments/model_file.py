"""model.json and model.safetensors: one model, and all that is needed to use it, in a form that is read without running anything.

The first key is `releasable`. It is false for whatever was simulated: the noise comes from a seed that stands in the run's own folder, so whoever
has the folder can take it off again. It is true for what `sottovoce train` made with secret noise, a guarantee and an entry in a ledger. Everything else in the file is declared in public: features with their kinds, ranges and scaling, classes, the
guarantee in words, and a digest of the configuration without names of files and without the seed, which a digest would give away to whoever tries
them all. Nothing in it depends on a record except the parameters: no statistics, no path, no digest of data, no number of records, no names of agents.
`model.schema.json` beside this module describes the format; `checksum` notices damage, it protects against nobody.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from safetensors import SafetensorError
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as to_bytes

from sottovoce.durable_files import write
from sottovoce.errors import ConfigError
from sottovoce.problems import Architecture, Column, Model, Preparation, Schema, size_of
from sottovoce.wording import brief

FORMAT = "sottovoce-model"
FORMAT_VERSION = 1
MODEL_JSON, PARAMETERS = "model.json", "model.safetensors"
MOST_TEXT = 2**26  # bytes of model.json
MOST_PARAMETERS = 2**31  # bytes of model.safetensors
SIMULATED = (
    "simulated: the noise comes from a seed that the run's folder holds, so that whoever has it can take the noise off again; the model is for "
    "measuring, not for release"
)
TRAINED = (
    "trained with noise that nobody can draw again, in whole numbers, and written into the ledger of its data set: whoever gets the model learns "
    "no more than the guarantee says"
)
KINDS = ("linear_regression", "logistic_regression", "classification", "mean_estimation", "custom_loss")

Finite = Annotated[float, Field(allow_inf_nan=False)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Text = Annotated[str, Field(max_length=1000)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class FeatureEntry(_Part):
    """One input of the model."""

    name: Text
    column: Text | None  # of the table; None for an intercept, and where columns have no names
    kind: Literal["number", "boolean", "category", "missing", "intercept"]
    bounds: tuple[Finite, Finite] | None = None  # public range, outside of which values are clipped
    scaled_to: tuple[Finite, Finite] | None = None  # what the range is mapped to; null: taken as it is


class NetworkEntry(_Part):
    """The shape of a network."""

    model: Literal["linear", "mlp", "cnn"]
    hidden: list[Annotated[int, Field(ge=1, le=2**20)]] = Field(max_length=100)
    classes: Annotated[int, Field(ge=2, le=2**20)]
    shape: list[Annotated[int, Field(ge=1, le=2**20)]] = Field(min_length=1, max_length=3)


class PreparationEntry(_Part):
    """What is done to plain numbers; a schema says it of named columns."""

    bounds: list[tuple[Finite, Finite]] | None
    unit_norm: bool
    intercept: bool


class ParametersEntry(_Part):
    """Where the numbers are."""

    file: Literal["model.safetensors"]
    name: Literal["common"]
    count: Annotated[int, Field(ge=1)]
    dtype: Literal["float32", "float64"]
    sha256: Digest


class ModelFile(_Part):
    """A model of sottovoce, apart from its parameters."""

    releasable: bool
    why: Text
    format: Literal["sottovoce-model"]
    format_version: Literal[1]
    kind: Literal["linear_regression", "logistic_regression", "classification", "mean_estimation", "custom_loss"]
    classes: list[Text | int] | None
    target: Text | None
    target_bounds: tuple[Finite, Finite] | None
    features: list[FeatureEntry] | None  # None: only the maker of the loss knows them
    intercept: bool
    unit_norm: bool
    table: dict[str, Any] | None = Field(
        alias="schema"
    )  # what the columns of a table mean; null: the model takes arrays
    preparation: PreparationEntry | None
    network: NetworkEntry | None
    guarantee: list[Text] = Field(min_length=1)
    configuration_digest: Digest | None
    sottovoce: Text
    parameters: ParametersEntry
    checksum: Digest

    @model_validator(mode="after")
    def _says_enough(self) -> Self:
        if (self.network is not None) != (self.kind == "classification"):
            raise ValueError("network goes with kind = classification, and only with it")
        if self.table is not None and self.preparation is not None:
            raise ValueError("schema and preparation exclude each other")
        return self


def write_model(
    folder: Path,
    model: Model,
    *,
    guarantee: list[str],
    configuration: Mapping[str, Any] | None,
    version: str,
    releasable: bool = False,
    why: str | None = None,
) -> None:
    """Write a model into a folder.

    Args:
        folder: of the run.
        model: the common one, of the first repeat.
        guarantee: in words.
        configuration: of the run; None where it was made in Python.
        version: of sottovoce.
        releasable: trained with secret noise and written into a ledger, not simulated.
        why: it may be released, or not, in words; None: because it was trained, or simulated.
    """
    content = to_bytes({"common": np.ascontiguousarray(model.parameters)})
    plain = {
        **describe_model(model, guarantee=guarantee, configuration=configuration, version=version),
        **({"releasable": True, "why": TRAINED} if releasable else {}),
        **({} if why is None else {"why": why}),
    }
    plain["parameters"] = {
        "file": PARAMETERS,
        "name": "common",
        "count": len(model.parameters),
        "dtype": str(model.parameters.dtype),
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    plain["checksum"] = _checksum(plain)
    text = (json.dumps(plain, indent=2, allow_nan=False, ensure_ascii=False) + "\n").encode()
    # What may not be released is its owner's alone: nobody was promised anything about the numbers in it.
    write(folder / PARAMETERS, content, private=not releasable)
    write(folder / MODEL_JSON, text, private=not releasable)


def describe_model(
    model: Model, *, guarantee: list[str], configuration: Mapping[str, Any] | None, version: str
) -> dict[str, Any]:
    """What model.json says of a simulated model, before its parameters.

    Args:
        model: the common one.
        guarantee: in words.
        configuration: of the run; None where it was made in Python.
        version: of sottovoce.
    """
    shape = model.architecture
    network = None if shape is None else {**shape._asdict(), "hidden": list(shape.hidden), "shape": list(shape.shape)}
    return {
        "releasable": False,
        "why": SIMULATED,
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "kind": model.kind,
        "classes": None if model.classes is None else list(model.classes),
        **(_of_arrays(model) if model.schema is None else _of_tables(model, public_schema(model.schema))),
        "network": network,
        "guarantee": guarantee,
        "configuration_digest": None if configuration is None else configuration_digest(configuration),
        "sottovoce": version,
    }


def _of_tables(model: Model, schema: Schema) -> dict[str, Any]:
    """What is said of the inputs of a model that takes tables."""
    return {
        "target": schema.target,
        "target_bounds": None if schema.target_bounds is None else list(schema.target_bounds),
        "features": _features(model),
        "intercept": schema.intercept,
        "unit_norm": schema.unit_norm,
        "schema": schema.as_dict(),
        "preparation": None,
    }


def _of_arrays(model: Model) -> dict[str, Any]:
    """What is said of the inputs of a model that takes arrays; of a loss of one's own nothing is known."""
    unknown, prepared = model.kind == "custom_loss", model.preparation
    return {
        "target": None,
        "target_bounds": None,
        "features": None if unknown else _features(model),
        "intercept": prepared.intercept,
        "unit_norm": prepared.unit_norm,
        "schema": None,
        "preparation": None if unknown else prepared.as_dict(),
    }


def public_schema(schema: Schema) -> Schema:
    """What a model needs of a schema: who owned the records it learnt from, and whom they were about, is no part of it."""
    others = tuple(name for name in (schema.owner, schema.person) if name is not None)
    return replace(schema, owner=None, person=None, records_per_person=None, drop=(*schema.drop, *others))


def configuration_digest(configuration: Mapping[str, Any]) -> str:
    """A digest of what was chosen, without the names of files and the seed: both are few enough to try them all."""
    chosen = {
        table: {key: value for key, value in keys.items() if (table, key) not in _LEFT_OUT}
        for table, keys in configuration.items()
        if table
        not in ("ledger", "deployment")  # where is counted, and among whom it runs, is no part of what was learnt
    }
    return _digest(chosen)


_LEFT_OUT = (("problem", "data"), ("problem", "test"), ("experiment", "seed"), ("experiment", "name"))


def load_model(path: str | Path) -> Model:
    """Read the model of a finished run, or of a folder that holds only model.json and model.safetensors.

    Nothing in these files is run, and files larger than any model are refused before they are read.

    Raises:
        ConfigError: there is no model, it is damaged, or another version of the format wrote it.
    """
    folder = Path(path)
    plain = _read_json(folder / MODEL_JSON)
    told = _checked(folder, plain)
    try:
        schema = None if told.table is None else Schema.from_dict(told.table)
        network = told.network
        shape = None if network is None else Architecture(
            network.model, tuple(network.hidden), network.classes, tuple(network.shape)
        )  # fmt: skip
        model = Model(
            kind=told.kind,
            parameters=_read_parameters(folder / PARAMETERS, told.parameters),
            schema=schema,
            preparation=Preparation()
            if told.preparation is None
            else Preparation.from_dict(told.preparation.model_dump()),
            architecture=shape,
        )
        _check_agreement(model, plain)
    except (ConfigError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise _damaged(folder, str(error)) from error
    return model


def may_be_released(path: str | Path) -> bool:
    """Whether the file of a model says that it may be released; what was simulated may not.

    Raises:
        ConfigError: there is no model, or it is damaged.
    """
    folder = Path(path)
    return _checked(folder, _read_json(folder / MODEL_JSON)).releasable


def _checked(folder: Path, plain: dict[str, Any]) -> ModelFile:
    """What model.json says, of the right form and undamaged."""
    version = plain.get("format_version")
    if plain.get("format") != FORMAT or type(version) is not int or version != FORMAT_VERSION:
        raise ConfigError(
            f"{folder / MODEL_JSON} has format {brief(repr(plain.get('format')))} of version {brief(repr(version))}; this version of sottovoce "
            f"reads {FORMAT!r} of version {FORMAT_VERSION}. Read it with the version that wrote it."
        )
    try:
        told = ModelFile.model_validate_json(json.dumps(plain))
    except (ValidationError, RecursionError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": "nested too deeply"}
        where = ".".join(map(str, first["loc"]))
        raise _damaged(folder, f"{brief(where)}: {first['msg']}") from error
    if told.checksum != _checksum(plain):
        raise _damaged(folder, "its checksum differs")
    return told


def _check_agreement(model: Model, plain: Mapping[str, Any]) -> None:
    """Refuse a file whose parts contradict each other, whoever wrote it."""
    needed = None if model.kind == "custom_loss" else size_of(model.kind, len(plain["features"]), model.architecture)
    if needed is not None and needed != len(model.parameters):
        raise ConfigError(f"{len(model.parameters)} parameters for a model that has {needed}")
    described = describe_model(model, guarantee=plain["guarantee"], configuration=None, version=plain["sottovoce"])
    for key in ("target", "target_bounds", "classes", "features", "intercept", "unit_norm", "schema"):
        if described[key] != plain[key]:
            raise ConfigError(f"{key} does not go with the rest of the file")


def _read_json(path: Path) -> dict[str, Any]:
    if path.exists() and not path.is_file():  # a pipe or a device has no size, and may never end
        raise ConfigError(f"{path} is no ordinary file, which a model is; it is not read.")
    if path.exists() and path.stat().st_size > MOST_TEXT:
        raise ConfigError(f"{path} is larger than {MOST_TEXT:,} bytes, which no model is; it is not read.")
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"{path.parent} holds no model (it has no {MODEL_JSON}). Give the folder that `sottovoce run` printed."
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path.parent, f"{MODEL_JSON}: {type(error).__name__}") from error
    if not isinstance(plain, dict):
        raise _damaged(path.parent, f"{MODEL_JSON} is no JSON object")
    return plain


def _read_parameters(path: Path, told: ParametersEntry) -> np.ndarray:
    if not path.is_file() or path.stat().st_size > MOST_PARAMETERS:
        raise ConfigError(f"{path.name} is missing, or larger than {MOST_PARAMETERS:,} bytes")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != told.sha256:
        raise ConfigError(f"{path.name} is not the file that {MODEL_JSON} speaks of")
    try:
        held = from_bytes(content)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path.name}: {type(error).__name__}") from error
    if held.keys() != {told.name}:
        raise ConfigError(f"{path.name} holds other tensors than {told.name}")
    parameters = held[told.name]
    if parameters.shape != (told.count,) or str(parameters.dtype) != told.dtype or not np.isfinite(parameters).all():
        raise ConfigError(f"{path.name} does not hold {told.count} finite numbers of type {told.dtype}")
    return parameters


def _features(model: Model) -> list[dict[str, Any]]:
    """Every input of a model: where it comes from, and how it is scaled."""
    if model.schema is not None:
        entries = [entry for column in model.schema.columns for entry in _entries(column)]
        return [*entries, _intercept(model.features[-1])] if model.schema.intercept else entries
    bounds = model.preparation.bounds
    names = model.features[: -1 if model.preparation.intercept else None]
    entries = [_entry(name, None, "number", None if bounds is None else bounds[i]) for i, name in enumerate(names)]
    return [*entries, _intercept(model.features[-1])] if model.preparation.intercept else entries


def _entries(column: Column) -> list[dict[str, Any]]:
    names = column.features
    main, missing = (names[:-1], names[-1:]) if column.indicator else (names, ())
    entries = [_entry(name, column.name, column.kind, column.bounds) for name in main]
    return [*entries, *(_entry(name, column.name, "missing", None) for name in missing)]


def _entry(name: str, column: str | None, kind: str, bounds: tuple[float, float] | None) -> dict[str, Any]:
    scaled = None if bounds is None else [-1.0, 1.0]
    return {
        "name": name,
        "column": column,
        "kind": kind,
        "bounds": None if bounds is None else list(bounds),
        "scaled_to": scaled,
    }


def _intercept(name: str) -> dict[str, Any]:
    return _entry(name, None, "intercept", None)


def _checksum(plain: Mapping[str, Any]) -> str:
    return _digest({key: value for key, value in plain.items() if key != "checksum"})


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _damaged(folder: Path, reason: str) -> ConfigError:
    return ConfigError(
        f"the model in {folder} is damaged ({brief(reason, 200)}). Copy {MODEL_JSON} and {PARAMETERS} again, or run again."
    )


def json_schema() -> dict[str, Any]:
    """The format of model.json as a JSON Schema; `model.schema.json` holds the same."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"https://sottovoce.invalid/model-{FORMAT_VERSION}.schema.json",
        **ModelFile.model_json_schema(),
    }
