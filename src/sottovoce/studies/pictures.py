"""What a reproduction shows: curves with exact theory on top, or a measure against the swept quantity; and its tables."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from sottovoce.reports.caption import describe
from sottovoce.reports.curves import NAMES, curve_grid
from sottovoce.reports.demo import with_test_error
from sottovoce.reports.gopa import draw_silent, draw_variance
from sottovoce.reports.pairwise import gossip_distance_figures, gossip_rounds_figures, learning_distance_figures
from sottovoce.reports.reconstruction import draw_images
from sottovoce.reports.sandwich import draw_audits
from sottovoce.reports.save import save
from sottovoce.reports.scaling import scaling
from sottovoce.reports.similarity import draw_directions, draw_exact
from sottovoce.reports.walk import draw_walk, draw_walk_learning
from sottovoce.studies.curves import TEST_ERROR, Cell, StudyResult
from sottovoce.studies.privacy_study import PrivacyStudyResult
from sottovoce.studies.reproduction import Outcome

Draw = Callable[[PrivacyStudyResult, str | Path, str], list[Path]]  # draw(result, folder, document) writes files
DRAWN: dict[str, Draw] = {  # kind of a privacy study -> its pictures
    "audit": draw_audits,
    "gopa_silent": draw_silent,
    "gopa_variance": draw_variance,
    "gossip_distance": gossip_distance_figures,
    "gossip_rounds": gossip_rounds_figures,
    "leak_direction": draw_directions,
    "leak_exact": draw_exact,
    "leak_images": draw_images,
    "learning_distance": learning_distance_figures,
    "walk": draw_walk,
    "walk_learning": draw_walk_learning,
}
SMOOTHED_SHARE = 50  # of the rounds: lines are running means over one fiftieth of the run


def outcome_figures(outcome: Outcome, folder: str | Path) -> list[Path]:
    """Draw every study of a reproduction; returns the files written."""
    paths: list[Path] = []
    document = outcome.reproduction.about.document
    for name, result in outcome.studies.items():
        if isinstance(result, PrivacyStudyResult):
            paths += DRAWN[result.section.kind](result, folder, document)
            continue
        for measure in result.section.measures:
            draw = _scaling if result.section.figure == "scaling" else _curves
            paths += draw(result, measure, folder, f"{name}-{measure}".replace("_", "-"), document)
    return paths


class CellTable(NamedTuple):
    """One measure of one study, as it is printed."""

    title: str
    header: list[str]  # what is swept, then its values
    rows: list[list[str]]  # one per series: its label, then "value +- standard error" at every place


def cell_tables(outcome: Outcome) -> list[CellTable]:
    """Every number a reproduction found, one table for each study and measure."""
    found = []
    for name, result in outcome.studies.items():
        for measure, table in result.cells.items():
            rows = [[line, *(_cell(cell) for cell in row.values())] for line, row in table.items()]
            found.append(CellTable(f"{name}: {_measure(result, measure)}", _header(result), rows))
    return found


def _measure(result: StudyResult | PrivacyStudyResult, measure: str) -> str:
    if isinstance(result, PrivacyStudyResult):
        return result.section.measures[measure]
    return NAMES.get(measure, measure) + (" over the squared norm of the optimum" if result.section.relative else "")


def _header(result: StudyResult | PrivacyStudyResult) -> list[str]:
    if isinstance(result, PrivacyStudyResult):
        return [result.section.axis, *result.section.places()]
    across = result.section.across
    return [across.label or across.key, *across.items()]


def markdown(outcome: Outcome) -> str:
    """The same tables as a Markdown page."""
    about = outcome.reproduction.about
    parts = [
        f"# {about.title}\n{about.document}. Values with +- are means over repeats, +- one standard error; others are computed."
    ]
    for table in cell_tables(outcome):
        lines = [table.header, ["---"] * len(table.header), *table.rows]
        parts.append(f"## {table.title}\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines))
    return "\n\n".join(parts) + "\n"


def _cell(cell: Cell) -> str:
    """The value to the second digit of its standard error (four digits without one), and exact theory in brackets."""
    digits = 4
    if cell.error > 0 and cell.value != 0:
        digits = min(max(math.floor(math.log10(abs(cell.value))) - math.floor(math.log10(cell.error)) + 2, 2), 6)
    text = f"{cell.value:#.{digits}g}".rstrip(".") + (f" +- {cell.error:#.2g}" if cell.error > 0 else "")
    return text + ("" if cell.theory is None else f" ({cell.theory:#.4g})")


def _curves(result: StudyResult, measure: str, folder: str | Path, name: str, document: str) -> list[Path]:
    metric = measure
    section = result.section
    example = next(iter(result.runs.values()))
    panels = {
        f"{section.across.label or section.across.key.split('.')[-1]}: {across}": {
            series: with_test_error(result.runs[series, across])
            if measure == TEST_ERROR
            else result.runs[series, across]
            for series in section.lines()
        }
        for across in section.across.items()
    }
    exact = None
    if result.curves and metric in next(iter(result.curves.values())):
        exact = {
            panel: {series: result.curves[series, across][metric] for series in section.lines()}
            for panel, across in zip(panels, section.across.items(), strict=True)
        }
    same = not section.across.key.startswith("problem")  # errors on different data have no common scale
    window = max(example.rounds // SMOOTHED_SHARE, 1)
    figure = curve_grid(panels, metric, theory=exact, smooth=window, same_scale=same, title=NAMES.get(measure, measure))
    caption = (
        f"{document}. First line: {describe(example)} Each repeat is drawn as its mean over the last {window} rounds; lines are means over "
        f"repeats, bands go from the 10th to the 90th percentile."
    )
    return save(figure, folder, name, caption=caption)


def _scaling(result: StudyResult, measure: str, folder: str | Path, name: str, document: str) -> list[Path]:
    section = result.section
    x = [float(across) for across in section.across.items()]
    lines = {
        series: (x, [cell.value for cell in row.values()], [cell.error for cell in row.values()])
        for series, row in result.cells[measure].items()
    }
    label = section.across.label or section.across.key
    figure = scaling(
        lines,
        x_label=label,
        y_label=("relative " if section.relative else "") + NAMES.get(measure, measure),
        reference_slopes=section.slopes or None,
        title=section.name.replace("-", " "),
    )
    example = next(iter(result.runs.values()))
    caption = (
        f"{document}. {'After the last round' if section.tail == 1 else f'Mean over the last {section.tail} rounds'}, against {label}; "
        f"error bars of one standard error over repeats. "
        f"First point: {describe(example)}"
    )
    return save(figure, folder, name, caption=caption)
