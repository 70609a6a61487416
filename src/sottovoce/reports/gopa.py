"""Pictures of private averaging by GOPA: variance against the number of parties, and what silent parties cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from sottovoce.reports import style
from sottovoce.reports.save import save
from sottovoce.studies.gopa import CENTRAL, LOCAL, SilentSection, VarianceSection
from sottovoce.studies.privacy_study import PrivacyStudyResult

_BOUNDS: dict[str, tuple[str, Any]] = {LOCAL: ("#4D4D4D", (0, (1.2, 1.2))), CENTRAL: ("black", "-")}
_EXACT: Any = style.THEORY["linestyle"]
_VALIDITY = (
    "Observer: the server and all parties but a share rho; the guarantee holds for every honest party that publishes, "
    "on average over the public draw of partners, with rounding and imperfect draws counted (docs/guarantees.md, "
    "Masked averages)"
)


def draw_variance(result: PrivacyStudyResult, folder: str | Path, document: str) -> list[Path]:
    """Write the variance, and its ratio to a trusted curator's, against the number of parties; returns the files."""
    section = result.section
    assert isinstance(section, VarianceSection)
    with style.applied():
        figure, picture = style.new_figure(9.6, 4.6)
        left, right = picture.subplots(1, 2)
        for axes, relative in ((left, False), (right, True)):
            _draw_lines(axes, result, relative=relative)
            axes.set_xscale("log")
            axes.set_xlabel(section.axis)
        left.set_yscale("log")
        left.set_ylabel(section.measures["variance"])
        right.set_ylabel("variance over that of a trusted curator")
        most = max(1 / who.honest for who in section.series.values())
        right.set_ylim(0, 1.3 * most)
        picture.legend(handles=_handles(result), loc="outside lower center", ncols=4)
    silent = max((who.silent for who in section.series.values()), default=0.0)
    caption = (
        f"{document}. One round of the protocol in whole numbers with uniform masks, {section.coordinates:,} "
        f"coordinates, vectors of l2 diameter 1, epsilon = {section.epsilon:g}, delta = {section.delta:g}. Markers: "
        f"measured, with bars of two standard errors over coordinates; dashed lines: exact; right: local is above the "
        f"picture, at n. "
        + (
            f"'{100 * silent:g} % silent': masks are repaired, and the silent are counted as honest parties that left. "
            if silent
            else ""
        )
        + f"{_VALIDITY}."
    )
    return save(figure, folder, section.name, caption=caption)


def draw_silent(result: PrivacyStudyResult, folder: str | Path, document: str) -> list[Path]:
    """Write the variance against the number of silent parties; returns the files."""
    section = result.section
    assert isinstance(section, SilentSection)
    with style.applied():
        figure, picture = style.new_figure(6.8, 4.5)
        axes = picture.subplots()
        _draw_lines(axes, result, relative=False)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(section.axis)
        axes.set_ylabel(section.measures["variance"])
        picture.legend(handles=_handles(result), loc="outside lower center", ncols=3)
    caption = (
        f"{document}. One round of the protocol in whole numbers with {section.parties:,} parties, rho = "
        f"{section.honest:g}, {section.partners} partners, Gaussian masks of standard deviation "
        f"{result.pictures['mask_std']:.3g} and own noise of {result.pictures['own_std']:.3g} (vectors of l2 diameter "
        f"1, epsilon = {section.epsilon:g}, delta = {section.delta:g}); {section.coordinates:,} coordinates. Markers: "
        f"measured, with bars of two standard errors; dashed lines: exact, for the masks that are left. Silent parties "
        f"have agreed on masks and then publish nothing. Observer: the server and the parties that are not counted on; "
        f"the guarantee holds for every honest party on the graph that was drawn."
    )
    return save(figure, folder, section.name, caption=caption)


def _measured(result: PrivacyStudyResult) -> list[str]:
    return [line for line in result.section.lines() if line not in _BOUNDS]


def _draw_lines(axes: Axes, result: PrivacyStudyResult, *, relative: bool) -> None:
    """Markers where something was measured, dashed lines for what is exact."""
    table, looks = result.cells["variance"], style.line_looks(_measured(result))
    x = [float(place) for place in result.section.places()]
    unit = [cell.value if relative else 1.0 for cell in table[CENTRAL].values()]
    for line, (colour, dashes) in _BOUNDS.items():
        y = [cell.value / one for cell, one in zip(table[line].values(), unit, strict=True)]
        axes.plot(x, y, color=colour, linestyle=dashes, linewidth=1.4, zorder=1)
    for line, look in looks.items():
        cells = list(zip(table[line].values(), unit, strict=True))
        exact = [(cell.theory or 0.0) / one for cell, one in cells]
        axes.plot(x, exact, color=look.color, linestyle=_EXACT, linewidth=1.0, zorder=2)
        axes.errorbar(
            x, [cell.value / one for cell, one in cells], yerr=[2 * cell.error / one for cell, one in cells], color=look.color,
            marker=look.marker, linestyle="", markersize=5.5, capsize=3, elinewidth=1.0, zorder=3,
        )  # fmt: skip
        if relative:
            axes.annotate(
                f"{exact[-1]:.3g}", (x[-1], exact[-1]), xytext=(10, 0), textcoords="offset points", va="center",
                fontsize=9, color=look.color, annotation_clip=False,
            )  # fmt: skip


def _handles(result: PrivacyStudyResult) -> list[Line2D]:
    found = {
        line: Line2D([], [], color=look.color, marker=look.marker, markersize=5.5, linestyle=_EXACT, linewidth=1.0)
        for line, look in style.line_looks(_measured(result)).items()
    }  # fmt: skip
    found |= {
        line: Line2D([], [], color=colour, linestyle=dashes, linewidth=1.4)
        for line, (colour, dashes) in _BOUNDS.items()
    }
    for line in result.section.lines():
        found[line].set_label(line)
    return [found[line] for line in result.section.lines()]
