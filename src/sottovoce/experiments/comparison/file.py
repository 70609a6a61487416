"""A comparison from a file: an ordinary experiment plus a table [compare], without [noise].

    [compare]
    epsilons = [1.0, 3.0, 10.0]
    observers = ["eavesdropper", "final_model"]                                # as in [privacy]; left out: those of [privacy]
    algorithms = ["atc", "cta"]                                                # kinds that replace the one of [algorithm]; left out: that one
    measures = ["msd_centroid", "msd_average"]
    tail = 1                                                                   # rounds averaged over, at the end
    [compare.schemes]
    "graph-homomorphic" = { kind = "graph_homomorphic", law = "gaussian" }     # a [noise] table without its size, which epsilon decides
    "independent" = { kind = "independent", law = "gaussian", self_noise = true }

What is protected, how gradients are clipped, delta and promises stand in [privacy]. For gopa, `pairwise_std` is in units of the agents'
own standard deviation.
"""

import csv
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError
from pydantic_core import ErrorDetails

from sottovoce.errors import ConfigError
from sottovoce.experiments.build import build
from sottovoce.experiments.comparison.compare import compare
from sottovoce.experiments.comparison.result import Comparison
from sottovoce.experiments.config.overrides import silent
from sottovoce.experiments.config.privacy import ObserverName
from sottovoce.experiments.config.toml_file import parse, read_toml
from sottovoce.experiments.config.values import Count, Positive, Section, ShownLabel, complaint
from sottovoce.experiments.experiment import Experiment, refuse_turns
from sottovoce.experiments.privacy import sensitivities
from sottovoce.experiments.protection import Privacy
from sottovoce.noise import Gaussian, Noise
from sottovoce.observers import Observer, observer_named
from sottovoce.wording import brief, suggest

_SIZES = ("std", "scale", "epsilon", "delta")


class CompareSection(Section):
    """The table [compare]."""

    epsilons: Annotated[list[Positive], Field(min_length=1)]
    schemes: Annotated[dict[ShownLabel, dict[str, Any]], Field(min_length=1)]
    observers: Annotated[list[ObserverName], Field(min_length=1)] | None = None
    algorithms: Annotated[list[Literal["atc", "cta", "consensus", "dgd"]], Field(min_length=1)] | None = None
    measures: list[str] = Field(default_factory=lambda: ["msd_centroid", "msd_average"], min_length=1)
    tail: Count = 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComparisonFile:
    """A comparison as read from its file, everything made and checked."""

    name: str
    section: CompareSection
    experiments: Mapping[str, Experiment]  # by algorithm
    noises: Mapping[str, Noise]
    observers: tuple[Observer, ...]
    privacy: Privacy


def read_comparison(
    path: str | Path, overrides: Sequence[str] = (), *, say: Callable[[str], None] = silent
) -> ComparisonFile:
    """Read a comparison, with `section.key=value` overrides on top.

    Args:
        path: of the file, or the name of a comparison that comes with the package.
        overrides: used instead of what the file says.
        say: told what of the file was left out because another kind was chosen.

    Raises:
        ConfigError: naming the file, and what is wrong in it.
        IncompatibleChoice: parts are valid but not together.
    """
    path = _shipped_or_own(Path(path))
    data = read_toml(path, overrides, say=say)
    section = _section(data.pop("compare", None), str(path))
    _refuse_idle_tables(data, str(path))
    base = {**data, "noise": {"kind": "none"}}
    config = parse(base, source=str(path))
    refuse_turns(config.algorithm.turns, "a comparison")
    kinds: Sequence[str] = section.algorithms or [config.algorithm.kind]
    experiments = {
        kind: build(parse({**base, "algorithm": {**base["algorithm"], "kind": kind}}, source=str(path)))
        for kind in kinds
    }
    first = next(iter(experiments.values()))
    assert first.privacy is not None  # refused above
    return ComparisonFile(
        name=config.experiment.name,
        section=section,
        experiments=experiments,
        noises={label: _noise(base, label, table, str(path)) for label, table in section.schemes.items()},
        observers=tuple(map(observer_named, section.observers)) if section.observers else first.privacy.observers,
        privacy=first.privacy,
    )


def run_comparison(file: ComparisonFile, *, progress: bool = True) -> Comparison:
    """Calibrate and simulate what the file says."""
    experiment = next(iter(file.experiments.values()))
    privacy, laws = file.privacy, [noise.law for noise in file.noises.values() if noise.law is not None]
    if not file.observers:
        raise ConfigError('[compare] observers: nobody looks. List them, for example ["eavesdropper", "final_model"].')
    if privacy.delta is None and any(isinstance(law, Gaussian) for law in laws):
        raise ConfigError("[privacy] delta: this key is missing; Gaussian noise has no finite epsilon without it.")
    found = compare(
        experiment.problem,
        experiment.topology,
        {kind: each.algorithm for kind, each in file.experiments.items()},
        file.noises,
        file.observers,
        rounds=experiment.rounds,
        sensitivity={norm: sensitivities(experiment, norm=norm) for norm in {law.norm for law in laws}},
        epsilons=file.section.epsilons,
        delta=privacy.delta or 0.0,
        unit=privacy.unit,
        adjacency=privacy.adjacency,
        losses=privacy.losses,
        same_model=privacy.same_model,
        repeats=experiment.repeats,
        seed=experiment.seed,
        batch_size=experiment.batch_size,
        dtype=experiment.dtype,
        measures=file.section.measures,
        tail=file.section.tail,
        test=experiment.accuracy_test,
        progress=progress,
    )
    premises = tuple(f"{text[0].upper()}{text[1:]}." for text in privacy.premises)
    return replace(found, notes=found.notes + premises)


def write_comparison(comparison: Comparison, folder: str | Path) -> list[Path]:
    """Write folder/comparison.json and folder/comparison.csv."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = {
        folder / "comparison.json": json.dumps(comparison.describe(), indent=2, allow_nan=False) + "\n",
        folder / "comparison.csv": _csv(comparison),
    }
    for path, text in written.items():
        path.write_text(text, encoding="utf-8")
    return list(written)


def _csv(comparison: Comparison) -> str:
    """One line per row; the runs without noise last, with epsilon inf and no observer."""
    fixed = (
        "observer",
        "algorithm",
        "scheme",
        "epsilon",
        "epsilon_of_repeats",
        "law",
        "scale",
        "std",
        "validity",
        "mu",
        "linear_mu",
    )
    parts = ("value", "standard_error", "theory")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*fixed, *(f"{name} {part}" for name in comparison.measures for part in parts), "reason"])
    for row in (*comparison.rows, *comparison.references):
        plain = row.describe()
        if math.isinf(row.epsilon):
            plain["epsilon"] = "inf"
        numbers = [plain["measures"].get(name, {}).get(part) for name in comparison.measures for part in parts]
        writer.writerow([*(plain[key] for key in fixed), *numbers, plain["reason"]])
    return text.getvalue()


def _shipped_or_own(path: Path) -> Path:
    """Where the file is: a bare name that is no file here may be that of a comparison in the package."""
    shipped = Path(str(files("sottovoce.experiments.comparison") / "comparisons" / f"{path.name}.toml"))
    bare = len(path.parts) == 1 and not path.suffix
    return shipped if bare and not path.exists() and shipped.is_file() else path


def _section(table: Any, source: str) -> CompareSection:
    if not isinstance(table, dict):
        raise ConfigError(f"{source}: [compare]: this section is missing; give epsilons and schemes in it.")
    try:
        return CompareSection.model_validate(table)
    except ValidationError as error:
        problems = [f"[compare] {_explained(detail)}" for detail in error.errors(include_url=False)]
    raise ConfigError(f"{source}: " + "\n  ".join(problems))


def _explained(detail: ErrorDetails) -> str:
    name = str(detail["loc"][0]) if detail["loc"] else ""
    if detail["type"] == "extra_forbidden":
        return f"{brief(name)}: unknown key{suggest(name, CompareSection.model_fields)}"
    return complaint(detail)


def _refuse_idle_tables(data: Mapping[str, Any], source: str) -> None:
    """Tables that a comparison would not use, or cannot do without."""
    privacy = data.get("privacy")
    if "noise" in data:
        raise ConfigError(f"{source}: [noise]: the schemes to compare stand in [compare] schemes; remove this section.")
    if not isinstance(privacy, dict):
        raise ConfigError(
            f"{source}: [privacy]: this section is missing; schemes are compared at equal privacy, which needs unit, clip and clip_norm."
        )
    if "budget" in privacy:
        raise ConfigError(f"{source}: [privacy] budget: a comparison spends epsilons of its own; remove this key.")
    if privacy.get("participation", "every-round") != "every-round":
        raise ConfigError(
            f"{source}: [privacy] participation: a simulated run uses its records in every round, so epsilon would be false; remove this key."
        )


def _noise(base: Mapping[str, Any], label: str, table: Mapping[str, Any], source: str) -> Noise:
    """The scheme with a law of size one."""
    place = f"{source}, [compare] schemes.{label!r}"
    if given := [key for key in _SIZES if key in table]:
        raise ConfigError(f"{place}: {given[0]}: the size of the noise follows from epsilons; remove this key.")
    size = {} if "law" not in table else {"scale": 1.0} if table["law"] == "l2_laplace" else {"std": 1.0}
    return build(parse({**base, "noise": {**table, **size}}, source=place)).noise
