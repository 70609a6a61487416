"""What the [problem] table may say about own files: who holds a record, what the columns mean, and which records are for testing.

data = "patients.csv"                       or ["basel.csv", "bern.csv"], a folder, or "hospitals/*.csv": then each file is one agent
owner = "hospital"                          the column that names the agents
person = "id"                               the column that says whom a record is about; with it,
records_per_person = 4                      the most records of one person
target = "readmitted"
labels = ["no", "yes"]                      or positive = "yes"
bounds = { age = [0, 120] }                 public ranges, to be scaled to [-1, 1]
categories = { sex = ["f", "m"] }           one input for each value; unknown = "other" makes one more for all others
booleans = ["smoker"]
unscaled = ["bmi"]                          numbers that are taken as they are
missing = { creatinine = 1.0 }              what stands for an empty cell
indicators = ["creatinine"]                 the model is told that the cell was empty
drop = ["date"]
test = "later.csv"                          records to test on
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from sottovoce.errors import ConfigError
from sottovoce.experiments.config.values import Count, Section, wrong
from sottovoce.problems import LOADERS, TABLES, Schema, is_pattern
from sottovoce.wording import brief, brief_value

_ENDINGS = (*TABLES, ".npz", ".libsvm", ".svm", ".txt", ".gz", "ubyte")


def _sources(given: Any) -> Any:
    """One name or path, or a list of paths as a tuple."""
    if isinstance(given, str) and given:
        return given
    paths = isinstance(given, list | tuple) and all(isinstance(each, str) and each for each in given)
    if not paths or not given:
        raise wrong(f"write a name, a path, or a list of paths; given {brief_value(given)}")
    return tuple(given)


def _value(given: Any) -> Any:
    if isinstance(given, str | bool | int | float):
        return given
    raise wrong(f"write text, a number, true or false; given {brief_value(given)}")


def _values(given: Any) -> Any:
    if not isinstance(given, list | tuple) or not given:
        raise wrong(f"write a list of values; given {brief_value(given)}")
    return tuple(map(_value, given))


def _names(given: Any) -> Any:
    if not isinstance(given, list | tuple) or not all(isinstance(each, str) for each in given):
        raise wrong(f"write a list of names of columns; given {brief_value(given)}")
    return tuple(given)


Sources = Annotated[str | tuple[str, ...], BeforeValidator(_sources)]
Value = Annotated[str | bool | int | float, BeforeValidator(_value)]
Values = Annotated[tuple[str | bool | int | float, ...], BeforeValidator(_values)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]

DECLARING = (
    "owner", "person", "records_per_person", "labels", "positive", "categories", "unknown", "booleans", "unscaled", "missing", "indicators",
    "drop", "test",
)  # fmt: skip


class ColumnsSection(Section):
    """Own files: who holds their records, and what their columns mean."""

    if TYPE_CHECKING:
        kind: str
        unit_norm: bool
        intercept: bool
        bounds: Any

    data: Sources
    target: str | None = None  # the column to predict; of a numeric .csv alone, None is the last
    owner: str | None = Field(default=None, min_length=1)
    person: str | None = Field(default=None, min_length=1)
    records_per_person: Count | None = None
    labels: Values | None = None
    positive: Value | None = None
    categories: dict[str, Values] | None = None
    unknown: Literal["refuse", "other"] | None = None  # None: refuse
    booleans: Names | None = None
    unscaled: Names | None = None
    missing: dict[str, Value] | None = None
    indicators: Names | None = None
    drop: Names | None = None
    test: str | None = Field(default=None, min_length=1)

    @property
    def sources(self) -> tuple[str, ...]:
        """Names or paths of the data."""
        return (self.data,) if isinstance(self.data, str) else self.data

    @property
    def name(self) -> str:
        """The data in messages."""
        return self.data if isinstance(self.data, str) else ", ".join(self.data)

    @property
    def many(self) -> bool:
        """Whether each file is one agent: a list, a folder or a pattern was given, and no column names owners."""
        one = isinstance(self.data, str) and not self._names_files(self.data)
        return self.owner is None and not one

    @property
    def owned(self) -> bool:
        """Whether the data say who holds a record."""
        return self.owner is not None or self.many

    @property
    def is_table(self) -> bool:
        """Whether the data are files whose columns have names."""
        return all(each.lower().endswith(TABLES) or self._names_files(each) for each in self.sources)

    @property
    def declares(self) -> bool:
        """Whether the columns are declared; those of a single numeric .csv need not be."""
        given = [key for key in DECLARING if getattr(self, key) is not None]
        many_tables = self.is_table and (self.many or self.name.lower().endswith(".parquet"))
        return bool(given) or isinstance(self.bounds, dict) or many_tables

    def declared_schema(self) -> Schema | None:
        """What the columns mean; None where nothing is declared about them."""
        return self._schema() if self.declares else None

    @staticmethod
    def _names_files(source: str) -> bool:
        """Whether a text names a folder or a pattern; by its form alone, so that a file means the same everywhere."""
        known = source in LOADERS or source.lower().endswith(_ENDINGS)
        return is_pattern(source) or source.endswith("/") or (not known and "/" in source)

    def _schema(self) -> Schema:
        bounds = self.bounds if isinstance(self.bounds, dict) else {}
        try:
            return Schema(
                target=self.target, labels=self.labels, positive=self.positive, owner=self.owner, person=self.person,
                records_per_person=self.records_per_person, bounds=bounds, unscaled=self.unscaled or (), booleans=self.booleans or (),
                categories=self.categories or {}, unknown=self.unknown or "refuse", missing=self.missing or {},
                indicators=self.indicators or (), drop=self.drop or (), unit_norm=self.unit_norm, intercept=self.intercept,
            )  # fmt: skip
        except ConfigError as error:
            raise wrong(str(error).removeprefix("schema: ").rstrip(".")) from error

    @model_validator(mode="after")
    def _columns_fit(self) -> Self:
        if not self.declares:
            return self
        if not self.is_table:
            given = next((key for key in DECLARING if getattr(self, key) is not None), "bounds")
            raise wrong(
                f"{given} speaks of columns with names, which .csv and .parquet files have; data is {brief(self.name)!r}"
            )
        if self.bounds is not None and not isinstance(self.bounds, dict):
            raise wrong("bounds go by name where columns are declared: bounds = { age = [0, 120], .. }")
        if self.target is None and self.kind != "mean_estimation":
            raise wrong("target, the column to predict, is missing")
        self._labels_fit()
        self._schema()  # refuses what cannot be declared together
        return self

    def _labels_fit(self) -> None:
        classes = self.labels is not None or self.positive is not None
        if self.kind in ("logistic_regression", "classification") and not classes:
            raise wrong('the labels of the target are not declared; write labels = ["no", "yes"], or positive = "yes"')
        if self.kind in ("linear_regression", "mean_estimation") and classes:
            raise wrong(f"labels and positive are for classes, and kind = {self.kind!r} predicts none; remove them")
        if self.kind == "logistic_regression" and self.labels is not None and len(self.labels) != 2:
            raise wrong(
                f'logistic regression tells two labels apart, and {len(self.labels)} are declared; use kind = "classification"'
            )
        if self.person is not None and not self.owned:
            raise wrong(
                "person needs to be known who holds the records: name the column owner, or give one file for each agent"
            )
