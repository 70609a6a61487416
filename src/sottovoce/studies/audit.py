"""A study of guarantees between two bounds: what an attack shows from below, what is proven from above.

    kind = "audit"

Every cell is an experiment with one observer, audited with canaries (sottovoce.experiments.audit). `series` have a guarantee, `clear` have none:
there the attack has to tell the worlds apart every time. All audits of a study share the error 1 - confidence, so that with this confidence NO true
guarantee is called false.

    epsilon     promised at the delta of [privacy]             shown       lower bound on it
    share       shown over promised, of epsilon or of mu, whichever is larger: above 1 exactly where a promise is refuted
    auc         how well the worlds are told apart
    computed    distance of the scores in standard deviations, as the linear view has it
    measured    the same, from the scores
    agreement   measured over computed
"""

import copy
import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from sottovoce.attacks.audit import Audit
from sottovoce.errors import ConfigError
from sottovoce.experiments.audit import audit_observer
from sottovoce.experiments.build import build
from sottovoce.experiments.config.privacy import ObserverName, observer_named
from sottovoce.experiments.config.toml_file import parse
from sottovoce.experiments.config.values import Count, Section
from sottovoce.studies.curves import CONFIG, Cell, Cells, replace_key
from sottovoce.studies.privacy_study import PrivacyStudyResult, PrivacyStudySection

LARGEST = "largest of all"
SMALLEST = "smallest of all"
PROMISED = "the promise"
LEAST_CLEAR = "least without a promise"

Say = Callable[[str], None]
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


def run_audit(section: AuditSection, base: Mapping[str, Any], *, source: str, progress: Say) -> PrivacyStudyResult:
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
            progress(f"study {section.name}: {line}, {place}")
            found = _audited(section, base, who, change, each, f"{source}, study {section.name!r}, {line}, {place}")
            if math.isinf(found.epsilon) != (line in section.clear):
                none = math.isinf(found.epsilon)
                said = "has no guarantee" if none else f"has epsilon = {found.epsilon:.4g}"
                raise ConfigError(
                    f"{source}: study {section.name!r}: {line!r} {said} with {place}. "
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
    data = copy.deepcopy(dict(base))
    for sections in (change, who.config, {"privacy": {"observers": [who.observer]}}):
        replace_key(data, CONFIG, sections)
    experiment = build(parse(data, source=where))
    return audit_observer(experiment, observer_named(who.observer), pairs=section.pairs, confidence=confidence)


def _cells(section: AuditSection, audits: Mapping[str, Mapping[str, Audit]]) -> Cells:
    cells: Cells = {measure: {} for measure in section.measures}
    for line, row in audits.items():
        for place, found in row.items():
            for measure, cell in cells_of(found).items():
                cells[measure].setdefault(line, {})[place] = cell
    for measure in ("share", "agreement"):
        table = cells[measure]
        for place in section.places():
            values = [row[place] for row in table.values() if place in row]
            if not values:
                continue
            extremes = {LARGEST: max(values, key=lambda c: c.value), SMALLEST: min(values, key=lambda c: c.value)}
            for name, cell in {**extremes, PROMISED: Cell(value=1.0, error=0.0)}.items():
                cells[measure].setdefault(name, {})
                table[name][place] = cell
    if section.clear:
        for place in section.places():
            least = min((cells["auc"][line][place] for line in section.clear), key=lambda c: c.value)
            cells["auc"].setdefault(LEAST_CLEAR, {})[place] = least
        cells["auc"][PROMISED] = {place: Cell(value=1.0, error=0.0) for place in section.places()}
    return cells


def cells_of(found: Audit) -> dict[str, Cell]:
    """The numbers of one audit; those that it does not have are left out."""
    assert found.lower.epsilon is not None
    numbers = {"shown": Cell(value=found.lower.epsilon, error=0.0)}
    numbers["auc"] = Cell(value=found.auc.value, error=found.auc.standard_error)
    if math.isinf(found.epsilon):
        return numbers
    numbers["epsilon"] = Cell(value=found.epsilon, error=0.0)
    numbers["share"] = Cell(value=found.worst_ratio, error=0.0)
    mu, computed = None if found.gaussian is None else found.gaussian.estimate, found.computed_mu
    if mu is not None and computed is not None and 0 < computed < math.inf:
        error = math.sqrt((2.0 + mu**2 / 4.0) / found.pairs)  # of (m_1 - m_0) / s, normal scores
        numbers["computed"] = Cell(value=computed, error=0.0)
        numbers["measured"] = Cell(value=mu, error=error, theory=computed)
        numbers["agreement"] = Cell(value=mu / computed, error=error / computed)
    return numbers
