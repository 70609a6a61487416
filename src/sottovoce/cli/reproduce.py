"""`sottovoce reproduce`: run a document's experiment and judge its claims."""

import contextlib
import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sottovoce.cli.output import JsonOption, show
from sottovoce.errors import ConfigError

if TYPE_CHECKING:
    from sottovoce.studies.pictures import CellTable
    from sottovoce.studies.reproduction import Outcome, Reproduction, Verdict


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
) -> None:
    """Run a reproduction: figures, numbers beside exact theory, and a verdict on every claim of the document."""
    from sottovoce.studies.reproduction import list_reproductions, read_expected, read_reproduction

    if accept is not None and (overrides or not 0 < accept < 1):
        raise ConfigError(
            f"--accept {accept:g} stores what is found as expected.json: it needs a relative tolerance between 0 and 1, such as 0.05, "
            f"and no overrides."
        )
    if name == "list":
        known = list_reproductions()
        table = Table("name", "what", box=None)
        for key, title in known.items():
            table.add_row(escape(key), escape(title))
        show({"reproductions": known}, as_json=as_json, text=table)
        return
    # All files are read before the first reproduction runs, which may take hours.
    chosen = [read_reproduction(each, overrides or []) for each in (list_reproductions() if name == "all" else [name])]
    compared = not overrides and accept is None
    expected = [read_expected(each) if compared else None for each in chosen]
    found = [
        _one(each, stored, out / each.name, as_json=as_json, accept=accept, replaced=bool(overrides))
        for each, stored in zip(chosen, expected, strict=True)
    ]
    show({"reproductions": [value for value, _ in found]}, as_json=as_json, text=Group(*(text for _, text in found)))
    if any(value["differences_from_expected"] for value, _ in found):
        raise typer.Exit(1)


def _one(
    chosen: "Reproduction",
    expected: dict[str, Any] | None,
    folder: Path,
    *,
    as_json: bool,
    accept: float | None,
    replaced: bool,
) -> tuple[dict[str, Any], RenderableType]:
    """Run one reproduction, keep its results, and hold them against what is expected, if anything is."""
    from sottovoce.experiments.results_folder import results_folder
    from sottovoce.studies import reproduction as experiments
    from sottovoce.studies.pictures import cell_tables, markdown, outcome_figures

    started = time.perf_counter()
    with results_folder(folder):
        with _telling(chosen.name, shown=not as_json) as tell:
            outcome = experiments.reproduce(chosen, progress=tell)
        figures = outcome_figures(outcome, folder)
        result = experiments.expected_of(outcome, 0.0)
        (folder / "result.json").write_text(json.dumps(result, indent=2), encoding="utf-8")
        (folder / "table.md").write_text(markdown(outcome), encoding="utf-8")
    if accept is not None:
        expected = experiments.expected_of(outcome, accept)
        (chosen.folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")
    departures = None if expected is None else experiments.differences(outcome, expected)
    value = {
        "name": chosen.name,
        "verdicts": {verdict.claim.id: _described(verdict) for verdict in outcome.verdicts},
        "differences_from_expected": departures,
        "figures": [str(path) for path in figures],
        "seconds": time.perf_counter() - started,
    }
    agreement = "not compared, since values were replaced" if replaced else "no expected numbers stored"
    if departures is not None:
        agreement = (
            "agrees with expected.json" if not departures else "DEPARTS from expected.json:\n" + "\n".join(departures)
        )
    cells = [_printed(each) for each in cell_tables(outcome)]
    found = f"{agreement}; figures, table.md and result.json in {folder}; {value['seconds']:.0f} s"
    return value, Group(*cells, _verdicts(outcome), Text(found))


def _described(verdict: "Verdict") -> dict[str, Any]:
    """Plain values for JSON, which has no infinite numbers."""
    numbers, exact = (
        {place: number if math.isfinite(number) else None for place, number in found.items()}
        for found in (verdict.numbers, verdict.exact)
    )
    return {
        "text": verdict.claim.text, "verdict": verdict.verdict, "where": list(verdict.where), "numbers": numbers, "exact": exact
    }  # fmt: skip


def _verdicts(outcome: "Outcome") -> Table:
    title = escape(outcome.reproduction.about.title)
    table = Table("claim of the document", "verdict", "found", "exact theory", title=title)
    for v in outcome.verdicts:
        verdict = v.verdict if v.verdict != "holds when" else f"holds when {', '.join(v.where)}"
        table.add_row(*map(escape, (v.claim.text, verdict, _numbers(v.numbers), _numbers(v.exact))))
    return table


@contextlib.contextmanager
def _telling(name: str, *, shown: bool) -> Iterator[Callable[[str], None]]:
    """Say what is being done: in one line that changes on a terminal, else line by line."""
    console = Console(stderr=True)
    if not shown:
        yield lambda text: None
    elif console.is_terminal:
        with console.status(escape(f"{name}: start")) as status:
            yield lambda text: status.update(escape(f"{name}: {text}"))
    else:
        yield lambda text: console.print(escape(f"{name}: {text}"))


def _printed(cells: "CellTable") -> Table:
    table = Table(*map(escape, cells.header), title=escape(cells.title))
    for row in cells.rows:
        table.add_row(*map(escape, row))
    return table


def _numbers(numbers: dict[str, float]) -> str:
    return "\n".join(f"{place}: {number:.3g}" for place, number in numbers.items())
