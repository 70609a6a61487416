"""A file that parties run among themselves, and the records of three of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sottovoce.experiments import Config, parse

HOSPITALS = ("basel", "bern", "chur")
COUNTS = {"basel": 12, "bern": 20, "chur": 8}


@dataclass(frozen=True)
class Entry:
    """An entry of a roster, as far as an agreement needs it."""

    name: str
    role: str = "agent"

    @property
    def identity_key(self) -> bytes:
        return self.name.encode().ljust(32, b".")


ROSTER = [Entry("chur"), Entry("basel"), Entry("bern")]


def rows(hospital: str) -> Iterator[str]:
    """The lines of one hospital; in Chur everybody is ill."""
    random = np.random.default_rng(HOSPITALS.index(hospital))
    for number in range(COUNTS[hospital]):
        ill = "yes" if hospital == "chur" or random.random() < 0.5 else "no"
        yield f"{hospital}-{number // 2},{hospital},{random.integers(20, 90)},{'fm'[number % 2]},{random.uniform(0.5, 3):.2f},{ill}"


HEADER = "id,hospital,age,sex,creatinine,ill"


def write_files(folder: Path) -> dict[str, Path]:
    """One file with all records, and one of each hospital; Chur's has no column that names it."""
    paths = {name: folder / f"{name}.csv" for name in (*HOSPITALS, "all")}
    for name in HOSPITALS:
        paths[name].write_text("\n".join([HEADER, *rows(name)]) + "\n")
    everybody = [line for name in HOSPITALS for line in rows(name)]
    paths["all"].write_text("\n".join([HEADER, *everybody]) + "\n")
    without = [
        ",".join(cell for place, cell in enumerate(line.split(",")) if place != 1) for line in [HEADER, *rows("chur")]
    ]
    paths["chur"].write_text("\n".join(without) + "\n")
    return paths


TABLES: dict[str, Any] = {
    "experiment": {"name": "own", "rounds": 4, "seed": 3},
    "topology": {"kind": "ring"},
    "problem": {
        "kind": "logistic_regression", "data": "nowhere.csv", "owner": "hospital", "target": "ill", "labels": ["no", "yes"],
        "bounds": {"age": [0, 120], "creatinine": [0, 10]}, "categories": {"sex": ["f", "m"]}, "drop": ["id"], "ridge": 0.01, "intercept": True,
    },
    "algorithm": {"kind": "atc", "step_size": 0.1},
    "noise": {"kind": "independent", "law": "gaussian", "std": 0.1},
    "privacy": {"unit": "record", "clip": 1.0, "clip_norm": "l2", "delta": 1e-5, "observers": ["eavesdropper"]},
    "deployment": {"run": "spring", "roster": "roster.json", "records": COUNTS, "fraction_bits": 28},
}  # fmt: skip


def tables(**changes: Any) -> dict[str, Any]:
    """The tables, with some keys of some of them changed; None removes a key, or a whole table."""
    made: dict[str, Any] = {}
    for name, table in TABLES.items():
        changed = {**table, **(changes.get(name) or {})}
        made[name] = {key: value for key, value in changed.items() if value is not None}
    return {name: table for name, table in made.items() if name not in changes or changes[name] is not None}


def config(**changes: Any) -> Config:
    """The file."""
    return parse(tables(**changes), source="own.toml")
