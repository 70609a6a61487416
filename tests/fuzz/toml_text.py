"""Tables as TOML text; the standard library reads TOML but does not write it."""

import json
import math
import re
from typing import Any


def toml_text(table: dict[str, Any]) -> str:
    """A file with one `[section]` per table, `[[section]]` for lists of tables, and everything below them inline."""
    lines = [f"{_key(name)} = {value_text(value)}" for name, value in table.items() if not _is_section(value)]
    for name, value in table.items():
        if _is_section(value):
            for each in value if isinstance(value, list) else [value]:
                lines.append(f"[[{_key(name)}]]" if isinstance(value, list) else f"[{_key(name)}]")
                lines += [f"{_key(key)} = {value_text(inner)}" for key, inner in each.items()]
    return "\n".join(lines) + "\n"


def value_text(value: Any) -> str:
    """One value, inline."""
    match value:
        case bool():
            return "true" if value else "false"
        case float() if not math.isfinite(value):
            return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
        case int() | float():
            return repr(value)
        case dict():
            return "{ " + ", ".join(f"{_key(name)} = {value_text(inner)}" for name, inner in value.items()) + " }"
        case list() | tuple():
            return "[" + ", ".join(map(value_text, value)) + "]"
        case _:
            return _string(str(value))


def _is_section(value: Any) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)
    )


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _string(name)


def _string(text: str) -> str:
    # JSON escapes are TOML escapes, except for pairs of surrogates and for the delete character.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
