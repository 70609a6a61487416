"""Pictures of a walking token: epsilon against the number of agents, and what learns at the noise of every account."""

from __future__ import annotations

from pathlib import Path

from sottovoce.reports.save import save
from sottovoce.reports.scaling import scaling
from sottovoce.studies.privacy_study import PrivacyStudyResult
from sottovoce.studies.walk import WalkLearningSection, WalkSection

_PROVEN = (
    "'proven': the noise up to the next visit of the observer or of the agent itself hides a contribution (validity amplified by iteration, "
    "convex smooth losses, steps of at most 2/beta; docs/guarantees.md, Walks), whatever the observer knows of the token's way"
)


def draw_walk(result: PrivacyStudyResult, folder: str | Path, document: str) -> list[Path]:
    """Write epsilon against the number of agents; returns the files."""
    section = result.section
    assert isinstance(section, WalkSection)
    figure = scaling(
        _series(result, "epsilon"),
        x_label=section.axis,
        y_label=section.measures["epsilon"],
        title="a token on the complete graph",
    )
    caption = (
        f"{document}. Observer: one curious agent, and for the local lines whoever reads every hop. {section.hops_per_agent} hops for every agent; a "
        f"contribution alone has ({section.epsilon:g}, {section.delta:g})-differential privacy by the classical Gaussian mechanism. delta of the "
        f"whole walk is {section.whole_delta:.3g}, that of Theorem 3, but {2 * section.delta:.3g} for Theorem 4 and {section.composed_delta:.3g} for "
        f"advanced composition. 'published' lines are printed bounds, not relied on; {_PROVEN}."
    )
    return save(figure, folder, section.name, caption=caption)


def draw_walk_learning(result: PrivacyStudyResult, folder: str | Path, document: str) -> list[Path]:
    """Write test error and noise against epsilon; returns the files."""
    section = result.section
    assert isinstance(section, WalkLearningSection)
    paths: list[Path] = []
    told = (
        f"{document}. {section.agents:,} agents with {section.samples} made records each, {section.hops:,} hops on the complete graph, step "
        f"{section.step_size:g}, at most {section.contributions} contributions of an agent, delta = {section.delta:g}, all data of an agent "
        f"protected. Observer: 'local' holds towards whoever reads every hop, the others towards one curious agent. 'published' is Lemma 1 of "
        f"the document, as printed; {_PROVEN}. "
    )
    ends = {
        "test_error": f"Mean over the last {section.tail:,} hops and {section.repeats} repeats; bars of one standard error over repeats.",
        "std": "The noise that each account asks for.",
    }
    for measure, end in ends.items():
        series = _series(result, measure)
        if measure == "std":
            series = {line: points for line, points in series.items() if min(points[1]) > 0}
        figure = scaling(
            series, x_label=section.axis, y_label=section.measures[measure], title="learning by a walking token"
        )
        paths += save(figure, folder, f"{section.name}-{measure}".replace("_", "-"), caption=told + end)
    return paths


def _series(result: PrivacyStudyResult, measure: str) -> dict[str, tuple[list[float], list[float], list[float] | None]]:
    """{line: (x, y, standard errors)} of one measure."""
    found: dict[str, tuple[list[float], list[float], list[float] | None]] = {}
    for line, row in result.cells[measure].items():
        errors = [cell.error for cell in row.values()]
        found[line] = (
            [float(place) for place in row],
            [cell.value for cell in row.values()],
            errors if any(errors) else None,
        )
    return found
