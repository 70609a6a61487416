"""A study of guarantees between two bounds: what an attack shows from below, what is proven from above.

    kind = "audit"

Every cell is an experiment with one observer, audited with canaries (`audit_observer`). `series` have a guarantee, `clear` have none:
there the attack has to tell the worlds apart every time. All audits of a study share the error 1 - confidence, so that with this confidence NO true
guarantee is called false.

    epsilon     promised at the delta of [privacy]             shown       lower bound on it
    share       shown over promised, of epsilon or of mu, whichever is larger: above 1 exactly where a promise is refuted
    auc         how well the worlds are told apart
    computed    distance of the scores in standard deviations, as the linear view has it
    measured    the same, from the scores
    agreement   measured over computed
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from sottovoce.attacks.audit import Audit
from sottovoce.errors import ConfigError
from sottovoce.experiments import Count, ObserverName, Section, audit_observer
from sottovoce.observers import observer_named
from sottovoce.reports import audit_table, sandwiches, save
from sottovoce.studies.cells import CONFIG, Cell, Cells, StudyFile, changed, computed
from sottovoce.studies.privacy_study import Kind, PrivacyStudyResult, PrivacyStudySection

LARGEST = "largest of all"
SMALLEST = "smallest of all"
PROMISED = "the promise"
LEAST_CLEAR = "least without a promise"
Confidence = Annotated[float, Field(ge=0.5, lt=1)]


class Audited(Section):
    """One line: who looks, and the sections to change."""

    observer: ObserverName
    config: dict[str, dict[str, Any]] = Field(default_factory=dict)


class AuditSection(PrivacyStudySection):
    """Audits of many schemes and observers."""

    axis: ClassVar[str] = "variant"
    measures: ClassVar[Mapping[str, str]] = {
        "epsilon": "promised epsilon",
        "shown": "lower bound on epsilon that an attack shows",
        "share": "shown over promised, the larger of epsilon's and mu's",
        "computed": "distance of the scores in standard deviations, computed",
        "measured": "distance of the scores in standard deviations, measured",
        "agreement": "measured over computed",
        "auc": "area under the ROC curve of the attack",
    }

    kind: Literal["audit"]
    pairs: Annotated[Count, Field(ge=100)]
    confidence: Confidence  # of all audits together
    across: dict[str, dict[str, dict[str, Any]]] = Field(min_length=1)  # label -> sections to change
    series: dict[str, Audited] = Field(min_length=1)
    clear: dict[str, Audited] = Field(default_factory=dict)

    def lines(self) -> list[str]:
        """Schemes and observers, and what sums them up."""
        return [*self.series, *self.clear, LARGEST, SMALLEST, PROMISED, LEAST_CLEAR]

    def places(self) -> list[str]:
        """The variants."""
        return list(self.across)

    @model_validator(mode="after")
    def _one_name_each(self) -> Self:
        if both := self.series.keys() & self.clear.keys():
            raise ValueError(f"{sorted(both)[0]!r} stands in series and in clear; a guarantee is finite or not")
        return self


def run_audit(section: AuditSection, file: StudyFile) -> PrivacyStudyResult:
    """Audit every line in every variant.

    Raises:
        ConfigError: a line of `series` without a guarantee, or one of `clear` with one.
    """
    audits: dict[str, dict[str, Audit]] = {}
    chosen = {**section.series, **section.clear}
    each = 1.0 - (1.0 - section.confidence) / (len(chosen) * len(section.across))
    for line, who in chosen.items():
        audits[line] = {}
        for place, change in section.across.items():
            file.say(f"study {section.name}: {line}, {place}")
            found = _audited(
                section, file.base, who, change, each, f"{file.source}, study {section.name!r}, {line}, {place}"
            )
            if math.isinf(found.epsilon) != (line in section.clear):
                none = math.isinf(found.epsilon)
                said = "has no guarantee" if none else f"has epsilon = {found.epsilon:.4g}"
                raise ConfigError(
                    f"{file.source}: study {section.name!r}: {line!r} {said} with {place}. "
                    f"Move it to {'clear' if none else 'series'}."
                )
            audits[line][place] = found
    return PrivacyStudyResult(section=section, cells=_cells(section, audits), pictures={"audits": audits})


def _audited(
    section: AuditSection,
    base: Mapping[str, Any],
    who: Audited,
    change: Mapping[str, Any],
    confidence: float,
    where: str,
) -> Audit:
    watched = {"privacy": {"observers": [who.observer]}}
    experiment = changed(base, *({CONFIG: sections} for sections in (change, who.config, watched)), source=where)
    return audit_observer(experiment, observer_named(who.observer), pairs=section.pairs, confidence=confidence)


def _cells(section: AuditSection, audits: Mapping[str, Mapping[str, Audit]]) -> Cells:
    cells: Cells = {measure: {} for measure in section.measures}
    for line, row in audits.items():
        for place, found in row.items():
            for measure, cell in cells_of(found).items():
                cells[measure].setdefault(line, {})[place] = cell
    for measure in ("share", "agreement"):
        for place in section.places():
            _add_extremes(cells[measure], place)
    if section.clear:
        clear = [cells["auc"][line] for line in section.clear]
        cells["auc"][LEAST_CLEAR] = {
            place: min((row[place] for row in clear), key=_value) for place in section.places()
        }
        cells["auc"][PROMISED] = {place: computed(1.0) for place in section.places()}
    return cells


def _add_extremes(table: dict[str, dict[str, Cell]], place: str) -> None:
    """The largest and the smallest of all lines at one place, beside the promise that they are held against."""
    values = [row[place] for row in table.values() if place in row]
    if values:
        extremes = {LARGEST: max(values, key=_value), SMALLEST: min(values, key=_value), PROMISED: computed(1.0)}
        for name, cell in extremes.items():
            table.setdefault(name, {})[place] = cell


def _value(cell: Cell) -> float:
    return cell.value


def cells_of(found: Audit) -> dict[str, Cell]:
    """The numbers of one audit; those that it does not have are left out."""
    assert found.lower.epsilon is not None
    numbers = {"shown": computed(found.lower.epsilon)}
    numbers["auc"] = Cell(value=found.auc.value, error=found.auc.standard_error)
    if math.isinf(found.epsilon):
        return numbers
    numbers["epsilon"] = computed(found.epsilon)
    numbers["share"] = computed(found.worst_ratio)
    mu, linear = None if found.gaussian is None else found.gaussian.estimate, found.computed_mu
    if mu is not None and linear is not None and 0 < linear < math.inf:
        error = math.sqrt((2.0 + mu**2 / 4.0) / found.pairs)  # of (m_1 - m_0) / s, normal scores
        numbers["computed"] = computed(linear)
        numbers["measured"] = Cell(value=mu, error=error, theory=linear)
        numbers["agreement"] = Cell(value=mu / linear, error=error / linear)
    return numbers


def draw_audits(result: PrivacyStudyResult, folder: str | Path, document: str) -> list[Path]:
    """Write the picture and the table of a study; returns the files."""
    section, audits = result.section, result.pictures["audits"]
    assert isinstance(section, AuditSection)
    delta = next(a.delta for row in audits.values() for a in row.values())
    caption = (
        f"{document}. Every row: from the lower bound that an attack on the observer's own view shows "
        f"({section.pairs:,} runs of each of two worlds) to the proven epsilon, at delta = {delta:g}. With confidence "
        f"{section.confidence:g} all lower bounds hold together. Rows without a promise: the worlds are told apart in "
        f"every run, and only the number of runs limits what is shown. A lower bound below the promise proves nothing: "
        f"a better attack may exist."
    )
    paths = save(sandwiches(audits), folder, section.name, caption=caption)
    table = Path(folder) / f"{section.name}.md"
    table.write_text(audit_table(audits), encoding="utf-8")
    return [*paths, table]


KINDS = {"audit": Kind(AuditSection, run_audit, draw_audits)}
