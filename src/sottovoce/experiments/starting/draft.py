"""A commented configuration for somebody's own files: what is known from names and kinds, and lines to complete for everything else.

Nothing that was found in a cell is written, nor how many rows or owners there are: the draft is shown around before anything is protected.
Whatever decides privacy (epsilon, delta, clip, rounds) has no default and is a line to complete too.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sottovoce.errors import ConfigError
from sottovoce.experiments.starting.survey import Kind, Survey, Surveyed
from sottovoce.numbers import chosen
from sottovoce.problems import is_pattern
from sottovoce.wording import brief

PROBLEM_KINDS = ("logistic_regression", "linear_regression", "classification")
_WHY_DROPPED: dict[Kind, str] = {
    "identifier": "looks like an identifier, which would be learnt by heart",
    "date": "looks like a date; if time matters, make a number of it",
    "text": "text of many values; if they are few after all, move it to categories",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """What the columns are for, as the command line says.

    Attributes:
        target: to predict.
        owner: who holds a record; None: each file is one agent, or a single file is dealt out.
        person: whom a record is about; None: a record is one row.
        kind: of the problem; None: by the kind of the target.
    """

    target: str
    owner: str | None = None
    person: str | None = None
    kind: str | None = None


def draft(data: Sequence[str], found: Survey, roles: Roles) -> str:
    """The text of a configuration for these data.

    Args:
        data: paths, folders or patterns, as they shall stand in the file.
        found: names and kinds of their columns.
        roles: what they are for.

    Raises:
        ConfigError: a role names no column, or two roles name the same.
    """
    _check_roles(found, roles)
    kind = roles.kind or _problem_kind(found.columns[roles.target])
    chosen("--kind", kind, PROBLEM_KINDS)
    sources = [f"{each}/" if Path(each).is_dir() and not each.endswith("/") else each for each in data]
    owned = roles.owner is not None or len(sources) > 1 or is_pattern(sources[0]) or sources[0].endswith("/")
    if roles.person is not None and not owned:
        raise ConfigError(
            "--person needs to be known who holds the records; name that column by --owner, or give one file for each agent."
        )
    lines = [
        *_opening(),
        *_problem(sources, found, roles, kind),
        *_bounds(found, roles, kind),
        *_categories(found, roles),
        *_missing(found, roles),
        *_privacy(roles),
        *_experiment(sources, kind),
        *_topology(owned=owned),
        *_algorithm(kind),
    ]
    return "\n".join(lines) + "\n"


def key(name: str) -> str:
    """A name as a key of TOML."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _text(value: str) -> str:
    """Text as TOML writes it; names of columns are printable, so that JSON's escapes are TOML's."""
    return json.dumps(value, ensure_ascii=False)


def _check_roles(found: Survey, roles: Roles) -> None:
    named = {"--target": roles.target, "--owner": roles.owner, "--person": roles.person}
    seen: dict[str, str] = {}
    for option, name in named.items():
        if name is None:
            continue
        found.role(option, name)
        if name in seen:
            raise ConfigError(
                f"{seen[name]} and {option} both name {brief(name)!r}; a column has one role, so name another."
            )
        seen[name] = option


def _problem_kind(target: Surveyed) -> str:
    if target.kind == "number":
        return "linear_regression"
    two = target.kind == "yes or no" or len(set(target.cells)) == 2
    return "logistic_regression" if two else "classification"


def _features(found: Survey, roles: Roles, *kinds: Kind) -> list[str]:
    """Names of the columns of these kinds that have no other role."""
    roled = (roles.target, roles.owner, roles.person)
    return [each.name for each in found.columns.values() if each.kind in kinds and each.name not in roled]


def _opening() -> list[str]:
    return [
        "# For `sottovoce check` and `sottovoce run`, written from the names and kinds of columns alone: no value of the data is in it.",
        "# Complete every line that says FILL IN, from what is known without the data: the field, the form that was filled in, the law.",
        "# A range, a code or a label that is copied from the records tells whoever reads this file about somebody.",
        "# `sottovoce check FILE` says what is still missing. All who learn together need the same file.",
        "",
    ]


def _problem(sources: Sequence[str], found: Survey, roles: Roles, kind: str) -> Iterable[str]:
    yield "[problem]"
    yield f'kind = "{kind}"' + _remark(f"or {', '.join(each for each in PROBLEM_KINDS if each != kind)}")
    many = "[" + ", ".join(map(_text, sources)) + "]"
    yield f"data = {_text(sources[0]) if len(sources) == 1 else many}" + _remark(
        "relative to the folder in which the command is given"
        + ("" if roles.owner or len(sources) == 1 else "; each file is one agent, and names it")
    )
    if roles.owner is not None:
        yield f"owner = {_text(roles.owner)}" + _remark("who holds a record: each value is one agent")
    if roles.person is not None:
        yield f"person = {_text(roles.person)}" + _remark(
            "whom a record is about; all records of one person are protected together"
        )
        yield 'records_per_person = "FILL IN: the most records that one person may have; more of them take more noise"'
    yield f"target = {_text(roles.target)}" + _remark("to be predicted")
    if kind == "logistic_regression":
        yield (
            'labels = "FILL IN: the two labels, the negative one first, as [\\"no\\", \\"yes\\"]; '
            'by the form, since a rare one tells about somebody"'
        )
    if kind == "classification":
        yield (
            'labels = "FILL IN: all labels that can occur, as [\\"a\\", \\"b\\", \\"c\\"]; by the form, since a rare one tells '
            'about somebody"'
        )
        yield 'model = "linear"' + _remark('or "mlp", a small network')
    else:
        yield "intercept = true" + _remark("the model need not pass through the origin")
    yield "ridge = 0.001" + _remark("keeps the model small")
    yield "test_fraction = 0.2" + _remark('share of the records that is kept away from learning; or test = "later.csv"')
    if booleans := _features(found, roles, "yes or no"):
        yield f"booleans = [{', '.join(map(_text, booleans))}]" + _remark("yes and no")
    yield from _dropped(found, roles)
    if _features(found, roles, "category"):
        yield '# unknown = "other"' + _remark(
            "values that no line of categories names count as one more; without this line they are refused"
        )
    yield ""


def _dropped(found: Survey, roles: Roles) -> Iterable[str]:
    names = _features(found, roles, *_WHY_DROPPED)
    if names:
        yield "drop = [" + _remark("not used")
        yield from (f"    {_text(name)}," + _remark(_WHY_DROPPED[found.columns[name].kind]) for name in names)
        yield "]"


def _bounds(found: Survey, roles: Roles, kind: str) -> Iterable[str]:
    names = _features(found, roles, "number")
    if kind == "linear_regression":
        names = [*names, roles.target]
    if not names:
        return
    yield "[problem.bounds]"
    yield "# Ranges that are known without the data, such as [0, 120] for an age: the largest value in the data is somebody's."
    yield "# Values outside are cut to them; much too wide ones leave little to learn from. A number that is a code belongs in categories."
    yield from (f'{key(name)} = "FILL IN: [lowest, highest] that can reasonably occur"' for name in names)
    yield ""


def _categories(found: Survey, roles: Roles) -> Iterable[str]:
    names = _features(found, roles, "category")
    if not names:
        return
    yield "[problem.categories]"
    yield "# All values that the form allows, whether they occur or not: a code that occurs once is one person's."
    yield from (f'{key(name)} = "FILL IN: [\\"..\\", \\"..\\"], all values that can occur"' for name in names)
    yield ""


def _missing(found: Survey, roles: Roles) -> Iterable[str]:
    names = _features(found, roles, "number", "yes or no", "category")
    yield "[problem.missing]"
    yield "# What stands for an empty cell: a usual value, from the field and not from the data (their mean is a statistic of all records)."
    yield '# Uncomment the columns that have empty cells; without a line they are refused. With `indicators = [".."]` in [problem] the model'
    yield "# is told which cells were empty."
    forms: dict[Kind, str] = {"number": "a usual number", "yes or no": "false", "category": "one of its values"}
    yield from (f'# {key(name)} = "FILL IN: {forms[found.columns[name].kind]}"' for name in names)
    yield ""


def _privacy(roles: Roles) -> Iterable[str]:
    unit = "record" if roles.person is None else "person"
    yield "[privacy]"
    what = (
        "one row of the data; if a person has several, name that column as `person` in [problem]"
        if unit == "record"
        else "all records of one person"
    )
    yield f'unit = "{unit}"' + _remark(f"what is protected: {what}")
    yield 'clip = "FILL IN: no record moves a gradient by more than this; 1.0 suits scaled columns, and is chosen before looking"'
    yield 'clip_norm = "l2"' + _remark("`sottovoce gradients` helps to choose a clip, with public data only")
    yield 'delta = "FILL IN: how often the promise may fail; well below 1 / all records, such as 1e-5 or 1e-6"'
    yield "# Who looks. Nobody is trusted here: the relay reads masked sums alone, even if half of the agents help it; `final_model` is"
    yield "# whoever is given the model. With a relay that everybody trusts: `sottovoce new --template federation`."
    yield 'observers = ["colluding_server:0.5", "server", "final_model"]'
    yield ""
    yield "[noise]"
    yield 'kind = "independent"' + _remark("every agent adds its own; the masks come on top and cancel in the sum")
    yield 'law = "gaussian"'
    yield (
        'epsilon = "FILL IN: what the first observer may learn of one '
        + unit
        + '; 1 is strong, 4 is usual, above 10 says little. Odds change by e^epsilon at most"'
    )
    yield ""


def _experiment(sources: Sequence[str], kind: str) -> Iterable[str]:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(sources[0]).stem).strip("-._") if len(sources) == 1 else ""
    yield "[experiment]"
    yield f'name = "{name or "own-data"}"' + _remark("names the folder of results")
    yield 'rounds = "FILL IN: averages of all agents, such as 20 to 50; every one of them shows something, so that more take more noise"'
    if kind == "logistic_regression":
        yield "# With unit_norm = true in [problem], `sv.recommended_setting(records=, parameters=, epsilon=, delta=)` proposes rounds, step_size"
        yield "# and clip from these public numbers alone."
    yield "seed = 0" + _remark(
        "of the simulation, which can be repeated; a model to be given away needs secret noise instead"
    )
    yield ""


def _topology(*, owned: bool) -> Iterable[str]:
    yield "[topology]"
    yield 'kind = "federation"' + _remark("agents talk to a relay without data, which adds up what they send")
    if owned:
        yield "# agents" + _remark("as many as the data name")
    else:
        yield (
            'agents = "FILL IN: how many agents the rows are dealt out to, for a simulation; or remove this line and name '
            'the column of owners: owner in [problem]"'
        )
    yield ""


def _algorithm(kind: str) -> Iterable[str]:
    yield "[algorithm]"
    yield 'kind = "fedavg"'
    yield f"step_size = {0.2 if kind == 'linear_regression' else 2.0}" + _remark(
        "shorter if the loss goes up and down, longer if it still falls at the end"
    )
    yield 'aggregation = "gopa"' + _remark("messages are masked in pairs, so that the relay learns sums alone")
    yield 'partners = "all"' + _remark("with whom an agent shares masks; for hundreds of agents a number, such as 40")


def _remark(text: str) -> str:
    """A comment that is added to a line."""
    return f"  # {text}"
