"""`sottovoce reproduce`: run a document's experiment and judge its claims."""

import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType

from sottovoce.cli.output import JsonOption, QuietOption, show, table, telling, wrapped
from sottovoce.errors import ConfigError

if TYPE_CHECKING:
    from sottovoce.studies import CellTable, Outcome, Reproduction, Verdict


def reproduce(
    name: Annotated[str, typer.Argument(help="`list`, `all`, the name of a reproduction, or its folder.")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SECTION.KEY=VALUE]...", help="Values to use instead; not compared with expected.json."
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder of results.")] = Path("runs/reproductions"),
    accept: Annotated[
        float | None, typer.Option(help="Store what is found as expected.json, with this relative tolerance.")
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run a reproduction: figures, numbers beside exact theory, and a verdict on every claim of the document."""
    if accept is not None and (overrides or not 0 < accept < 1):
        raise ConfigError(
            f"--accept {accept:g} stores what is found as expected.json: it needs a relative tolerance between 0 and 1, such as 0.05, "
            f"and no overrides."
        )
    if name == "list":
        _list(as_json)
        return
    wish = _Wish(overrides=tuple(overrides or ()), accept=accept, shown=not (as_json or quiet), quiet=quiet)
    found = [_one(each, stored, out / each.name, wish) for each, stored in _chosen(name, wish)]
    show({"reproductions": [value for value, _ in found]}, as_json=as_json, text=Group(*(text for _, text in found)))
    if any(value["differences_from_expected"] for value, _ in found):
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """What the command line asks for, the same for every reproduction."""

    overrides: tuple[str, ...]
    accept: float | None
    shown: bool  # say what is being done
    quiet: bool  # verdicts alone, without the numbers they rest on


def _list(as_json: bool) -> None:
    from sottovoce.studies import list_reproductions

    known = list_reproductions()
    words = ("name", "what")
    show({"reproductions": known}, as_json=as_json, text=table(words, known.items(), words=words))


def _chosen(name: str, wish: _Wish) -> "list[tuple[Reproduction, dict[str, Any] | None]]":
    """What to run and what is expected of it; all files are read before the first reproduction runs, which may take hours."""
    from sottovoce.studies import list_reproductions, read_expected, read_reproduction

    names = list_reproductions() if name == "all" else [name]
    chosen = [read_reproduction(each, wish.overrides) for each in names]
    shipped = [each for each in chosen if each.comes_with_package]
    if wish.accept is not None and shipped:
        raise ConfigError(
            f"--accept would write into the installed package, {shipped[0].folder}. Copy this folder and give the path of the copy."
        )
    compared = not wish.overrides and wish.accept is None
    return [(each, read_expected(each) if compared else None) for each in chosen]


def _one(
    chosen: "Reproduction", expected: dict[str, Any] | None, folder: Path, wish: _Wish
) -> tuple[dict[str, Any], RenderableType]:
    """Run one reproduction, keep its results, and hold them against what is expected, if anything is."""
    from sottovoce import studies
    from sottovoce.experiments import results_folder

    started = time.perf_counter()
    with results_folder(folder):
        with telling(chosen.name, shown=wish.shown) as tell:
            outcome = studies.reproduce(chosen, progress=tell)
        figures = studies.outcome_figures(outcome, folder)
        result = studies.expected_of(outcome, 0.0)
        (folder / "result.json").write_text(json.dumps(result, indent=2), encoding="utf-8")
        (folder / "table.md").write_text(studies.markdown(outcome), encoding="utf-8")
    if wish.accept is not None:
        expected = studies.expected_of(outcome, wish.accept)
        (chosen.folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")
    departures = None if expected is None else studies.differences(outcome, expected)
    value = {
        "name": chosen.name,
        "verdicts": {verdict.claim.id: _described(verdict) for verdict in outcome.verdicts},
        "differences_from_expected": departures,
        "figures": [str(path) for path in figures],
        "seconds": time.perf_counter() - started,
    }
    cells = [] if wish.quiet else [_printed(each) for each in studies.cell_tables(outcome)]
    agreement = _agreement(departures, replaced=bool(wish.overrides))
    found = f"{agreement}; figures, table.md and result.json in {folder}; {value['seconds']:.0f} s"
    return value, Group(*cells, _verdicts(outcome), wrapped(found))


def _agreement(departures: list[str] | None, *, replaced: bool) -> str:
    if departures is None:
        return "not compared, since values were replaced" if replaced else "no expected numbers stored"
    return "DEPARTS from expected.json:\n" + "\n".join(departures) if departures else "agrees with expected.json"


def _described(verdict: "Verdict") -> dict[str, Any]:
    """Plain values for JSON, which has no infinite numbers."""
    numbers, exact = (
        {place: number if math.isfinite(number) else None for place, number in found.items()}
        for found in (verdict.numbers, verdict.exact)
    )
    return {
        "text": verdict.claim.text, "verdict": verdict.verdict, "where": list(verdict.where), "numbers": numbers, "exact": exact
    }  # fmt: skip


def _verdicts(outcome: "Outcome") -> RenderableType:
    header = ["claim of the document", "verdict", "found", "exact theory"]
    if not any(each.exact for each in outcome.verdicts):
        header.pop()
    rows = []
    for each in outcome.verdicts:
        verdict = each.verdict if each.verdict != "holds when" else f"holds when {', '.join(each.where)}"
        rows.append([each.claim.text, verdict, _numbers(each.numbers), _numbers(each.exact)][: len(header)])
    return table(header, rows, words=header, title=outcome.reproduction.about.title)


def _printed(cells: "CellTable") -> RenderableType:
    return table(cells.header, cells.rows, words=cells.header[:1], title=cells.title)


def _numbers(numbers: dict[str, float]) -> str:
    return "\n".join(f"{place}: {number:.3g}" for place, number in numbers.items())
