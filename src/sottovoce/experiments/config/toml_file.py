"""Reading an experiment: a TOML file becomes a frozen `Config`, or one message with everything that is wrong in it.

The file is read once and never written. What it may contain is in `sections`.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from sottovoce.errors import ConfigError
from sottovoce.experiments.config.algorithm import NESTED as IN_ALGORITHM
from sottovoce.experiments.config.config import CHOICES, Config, ExperimentSection
from sottovoce.experiments.config.deployment import DeploymentSection
from sottovoce.experiments.config.design import DesignSection
from sottovoce.experiments.config.design_file import with_numbers
from sottovoce.experiments.config.ledger import LedgerSection
from sottovoce.experiments.config.overrides import apply_overrides, silent
from sottovoce.experiments.config.privacy import NESTED as IN_PRIVACY
from sottovoce.experiments.config.privacy import PrivacySection
from sottovoce.experiments.config.unfilled import without_unfilled
from sottovoce.experiments.config.values import Section
from sottovoce.problems import check_plain_file
from sottovoce.wording import brief, brief_value, suggest

NESTED = {**IN_PRIVACY, **IN_ALGORITHM}  # tables inside tables
DEEPEST = 12  # levels of tables and lists; no key of ours lies deeper than six


def read(path: str | Path, overrides: Sequence[str] = (), *, say: Callable[[str], None] = silent) -> Config:
    """Read an experiment from a TOML file, with `section.key=value` overrides applied on top (`section.key=~` removes).

    Args:
        path: of the file.
        overrides: used instead of what the file says.
        say: told what of the file was left out because another kind was chosen.

    Raises:
        ConfigError: naming the file, and every section and key that is wrong.
    """
    return parse(read_toml(Path(path), overrides, say=say), source=str(path))


def read_toml(path: Path, overrides: Sequence[str] = (), *, say: Callable[[str], None] = silent) -> dict[str, Any]:
    """The tables of a TOML file, with overrides applied on top, and nothing known yet about what they should hold.

    Raises:
        ConfigError: no plain file, no TOML, an override that cannot be read, or tables within tables beyond all measure.
    """
    check_plain_file(path)
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error}). Give the path of a TOML file in UTF-8.") from error
    try:
        data = tomllib.loads(text)
    except ValueError as error:  # also an integer of more digits than Python converts
        raise ConfigError(f"{path}: not valid TOML: {brief(str(error), 200)}. Correct that place.") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: {_TOO_DEEP}") from error
    apply_overrides(data, overrides, say=say)
    if _deeper_than(data, DEEPEST):
        raise ConfigError(f"{path}: {_TOO_DEEP}")
    return data


_TOO_DEEP = f"tables and lists lie more than {DEEPEST} levels within each other. Write them flat; no key needs that."


def _deeper_than(value: Any, levels: int) -> bool:
    """Whether tables and lists are nested deeper; level by level, since deep ones would exhaust a recursion."""
    layer = [value]
    for _ in range(levels + 1):
        layer = [
            inner
            for outer in layer
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return bool(layer)


def parse(data: Mapping[str, Any], *, source: str) -> Config:
    """Check plain values and freeze them; `source` says in messages where they came from."""
    checked, unfilled = without_unfilled(with_numbers(data))
    found, problems = validated(checked)
    if found is None or unfilled:
        raise ConfigError(_report(source, [*(each.sentence() for each in unfilled), *problems]))
    return found


def validated(data: Mapping[str, Any]) -> tuple[Config | None, list[str]]:
    """The configuration that plain values make, or everything that is wrong with them."""
    try:
        return Config.model_validate(dict(data)), []
    except ValidationError as error:
        return None, [line for detail in error.errors(include_url=False) for line in _explain(detail, data)]


def _report(source: str, problems: Sequence[str]) -> str:
    if len(problems) == 1:
        return f"{source}: {problems[0].rstrip('?')}{'?' if problems[0].endswith('?') else '.'}"
    return "\n".join([f"{source}: {len(problems)} problems:", *(f"  - {problem}" for problem in problems)])


def _explain(detail: ErrorDetails, data: Mapping[str, Any]) -> list[str]:
    """What one pydantic complaint says, each as `[section] key: what is wrong, and what would be right`."""
    if detail["type"] == "disagreements":
        return list(detail["ctx"]["messages"])
    return [_sentence(detail, data)]


def _sentence(detail: ErrorDetails, data: Mapping[str, Any]) -> str:
    path, tables = _locate(detail["loc"], data)
    given, context = detail["input"], detail.get("ctx", {})
    match detail["type"]:
        case "extra_forbidden" if len(path) == 1:
            return f"{_place(path)}: unknown section{suggest(path[0], Config.model_fields)}"
        case "extra_forbidden":
            return f"{_place(path)}: {_unknown_key(path, tables[len(path) - 1])}"
        case "missing":
            return f"{_place(path)}: this {'section' if len(path) == 1 else 'key'} is missing"
        case "union_tag_not_found":
            return f"{_place([*path, 'kind'])}: this key is missing; known: {', '.join(CHOICES[path[-1]])}"
        case "union_tag_invalid":
            kind = str(tables[len(path)]["kind"])
            return f"{_place([*path, 'kind'])}: unknown kind {brief(kind)!r}{suggest(kind, CHOICES[path[-1]])}"
        case "does_not_fit":
            return f"{_place(path)}: {context['message']}"
        case "literal_error":
            choices = re.findall(r"'([^']+)'", str(context["expected"]))
            return f"{_place(path)}: unknown value {brief_value(given)}{suggest(str(given), choices)}"
        case "model_type" | "model_attributes_type":
            keys = f" ({', '.join(NESTED[path[-1]].model_fields)})" if path[-1] in NESTED else ""
            return f"{_place(path)}: this must be a table of keys{keys}; given {brief_value(given)}"
        case _:
            message = brief(detail["msg"], 400)
            return f"{_place(path)}: {message[0].lower()}{message[1:]}; given {brief_value(given)}"


def _place(path: Sequence[str]) -> str:
    return f"[{brief(path[0])}] {'.'.join(map(brief, path[1:]))}".rstrip()


def _locate(location: Iterable[int | str], data: Mapping[str, Any]) -> tuple[list[str], list[dict[str, Any]]]:
    """The keys of the file behind a pydantic location, which also lists the chosen kinds, and the tables on the way.

    tables[n] is what lies at the first n keys, an empty table where that is a single value.
    """
    path: list[str] = []
    tables: list[Any] = [data]
    for step in map(str, location):
        table = tables[-1]
        if step not in table and table.get("kind") == step:
            continue
        path.append(step)
        inner = table.get(step)
        tables.append(inner if isinstance(inner, dict) else {})
    return path, tables


def _unknown_key(path: Sequence[str], table: Mapping[str, Any]) -> str:
    key, section = path[-1], path[-2]
    if section not in CHOICES:
        plain: dict[str, type[Section]] = {
            "experiment": ExperimentSection,
            "privacy": PrivacySection,
            "deployment": DeploymentSection,
            "design": DesignSection,
            "ledger": LedgerSection,
            **NESTED,
        }
        return f"unknown key{suggest(key, plain[section].model_fields)}"
    kind = table["kind"]
    elsewhere = [name for name, model in CHOICES[section].items() if key in model.model_fields]
    if elsewhere:
        return f"does not apply to kind = {kind!r}, only to {', '.join(elsewhere)}; remove it"
    return f"unknown key{suggest(key, CHOICES[section][kind].model_fields)}"
