"""Values given on the command line instead of those of a file, in the tables as TOML has them.

section.key=value           sets a key; `section={...}` replaces a whole section
section.key=~               removes a key, `section=~` a section
section.kind=value          chooses another kind: keys of the file that only the old kind has are removed, and that is said

A key with other characters than letters, digits, - and _ is quoted as in TOML: `problem.bounds."blood pressure"=[0, 300]`.
"""

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sottovoce.errors import ConfigError
from sottovoce.experiments.config.config import CHOICES
from sottovoce.experiments.config.values import Section
from sottovoce.wording import brief, suggest

Path = tuple[str, ...]  # of keys, from the outermost table inwards

_TABLES_WITH_KINDS: Mapping[Path, str] = {  # where a `kind` is chosen -> its table in CHOICES
    ("topology",): "topology",
    ("problem",): "problem",
    ("problem", "partition"): "partition",
    ("algorithm",): "algorithm",
    ("noise",): "noise",
}


def silent(note: str) -> None:
    """Say nothing."""


def apply_overrides(data: dict[str, Any], overrides: Sequence[str], *, say: Callable[[str], None]) -> None:
    """Apply all overrides in their order, and remove what a newly chosen kind does not take.

    A key that is itself given on the command line is never removed: where the new kind does not take it, that is a mistake to be told.

    Args:
        data: the tables of a file, which are changed.
        overrides: as the module says.
        say: told what was removed.

    Raises:
        ConfigError: an override that cannot be read, or that removes what is not there.
    """
    kinds = {place: _at(data, (*place, "kind")) for place in _TABLES_WITH_KINDS}
    given = [apply_override(data, override) for override in overrides]
    for place, old in kinds.items():
        if (*place, "kind") in given and _at(data, (*place, "kind")) is not None:
            _drop_keys_of(old, place, data, given, say)


def apply_override(data: dict[str, Any], override: str) -> Path:
    """Set or remove one key in nested tables, and say which it was."""
    written, equals, text = override.partition("=")
    keys = _keys(written)
    if not equals or not keys:
        raise ConfigError(f"override {brief(override)!r}: write section.key=value, for example noise.std=0.1.")
    if text.strip() == "~":
        _remove(data, keys, override)
        return keys
    value = _toml_value(override, text.strip())
    if len(keys) == 1 and not isinstance(value, dict):
        raise ConfigError(
            f"override {brief(override)!r} names no section; write section.key=value, for example noise.std=0.1."
        )
    table = data
    for key in keys[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise ConfigError(
                f"override {brief(override)!r}: {key!r} is a single value in the file, so it has no keys below it."
            )
    table[keys[-1]] = value
    return keys


def _keys(written: str) -> Path:
    """The keys of a dotted path, quoted where TOML asks for it; none where it is no such path."""
    if not written.isprintable() or "#" in written:
        return ()
    try:
        table: Any = tomllib.loads(f"{written} = 0")
    except (ValueError, RecursionError):
        return ()
    keys = []
    while isinstance(table, dict):
        ((key, table),) = table.items()
        keys.append(key)
    return tuple(keys)


def _remove(data: dict[str, Any], keys: Path, override: str) -> None:
    """Remove a key or a section; one that is not there was meant to be another."""
    table: Any = data
    for depth, key in enumerate(keys):
        if not isinstance(table, dict) or key not in table:
            where = f"[{'.'.join(map(brief, keys[:depth]))}]" if depth else "the file"
            known = suggest(key, table) if isinstance(table, dict) and table else ""
            raise ConfigError(f"override {brief(override)!r}: {where} has no {brief(key)!r} to remove{known}.")
        if depth == len(keys) - 1:
            del table[key]
        else:
            table = table[key]


def _at(data: Mapping[str, Any], place: Path) -> Any:
    """What lies at the end of these keys; None where they lead nowhere."""
    found: Any = data
    for key in place:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _drop_keys_of(
    old: Any, place: Path, data: dict[str, Any], given: Sequence[Path], say: Callable[[str], None]
) -> None:
    """Remove the keys of the file that the old kind of this table takes and the new kind does not."""
    models, table = CHOICES[_TABLES_WITH_KINDS[place]], _at(data, place)
    new = table["kind"]
    if place in given or not (_known(old, models) and _known(new, models)):
        return
    kept = {"kind", *(path[len(place)] for path in given if path[:-1][: len(place)] == place)}
    dropped = [key for key, value in table.items() if key not in kept and _only(models[old], models[new], key, value)]
    for key in dropped:
        del table[key]
    if dropped:
        verbs = "do not apply and are" if len(dropped) > 1 else "does not apply and is"
        say(
            f'[{".".join(place)}] kind = "{new}" is given instead of "{old}", so {", ".join(dropped)} of the file {verbs} left out.'
        )


def _known(kind: Any, models: Mapping[str, type[Section]]) -> bool:
    return isinstance(kind, str) and kind in models


def _only(old: type[Section], new: type[Section], key: str, value: Any) -> bool:
    """Whether the old kind takes this key with this value, and the new one does not."""
    return _takes(old, key, value) and not _takes(new, key, value)


def _takes(model: type[Section], key: str, value: Any) -> bool:
    """Whether a kind has this key, and this value may stand there: both federations and peers have weights, but not the same."""
    field = model.model_fields.get(key)
    if field is None:
        return False
    taken: TypeAdapter[Any] = TypeAdapter(field.rebuild_annotation())
    try:
        taken.validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


def _toml_value(override: str, text: str) -> Any:
    if "\n" not in text:
        try:
            return tomllib.loads(f"value = {text}")["value"]
        except (ValueError, RecursionError):  # also integers with too many digits, and lists nested too deep
            if re.fullmatch(r"[A-Za-z_./~][^\s\"'\[\]{}#]*", text):
                return text  # a bare string: noise.law=gaussian
    raise ConfigError(
        f"override {brief(override)!r}: {brief(text)!r} is no TOML value; quote text with spaces or brackets."
    )
