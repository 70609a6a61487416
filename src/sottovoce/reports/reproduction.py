"""The figures of a reproduction: learning curves with exact theory on top, or a measure against the swept quantity."""

from pathlib import Path

from sottovoce.experiments.reproduction import Outcome
from sottovoce.experiments.study import TEST_ERROR, StudyResult
from sottovoce.reports.caption import describe
from sottovoce.reports.curves import NAMES, curve_grid
from sottovoce.reports.demo import with_test_error
from sottovoce.reports.save import save
from sottovoce.reports.scaling import scaling

SMOOTHED_SHARE = 50  # of the rounds: lines are running means over one fiftieth of the run


def outcome_figures(outcome: Outcome, folder: str | Path) -> list[Path]:
    """Draw every study of a reproduction; returns the files written."""
    paths: list[Path] = []
    document = outcome.reproduction.about.document
    for name, result in outcome.studies.items():
        for measure in result.section.measures:
            draw = _scaling if result.section.figure == "scaling" else _curves
            paths += draw(result, measure, folder, f"{name}-{measure}".replace("_", "-"), document)
    return paths


def _curves(result: StudyResult, measure: str, folder: str | Path, name: str, document: str) -> list[Path]:
    metric = measure
    section = result.section
    example = next(iter(result.runs.values()))
    panels = {
        f"{section.across.label or section.across.key.split('.')[-1]}: {across}": {
            series: with_test_error(result.runs[series, across])
            if measure == TEST_ERROR
            else result.runs[series, across]
            for series in section.series.items()
        }
        for across in section.across.items()
    }
    exact = None
    if result.curves and metric in next(iter(result.curves.values())):
        exact = {
            panel: {series: result.curves[series, across][metric] for series in section.series.items()}
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
