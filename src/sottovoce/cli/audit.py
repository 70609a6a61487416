"""`sottovoce audit`: attack what every observer sees, and hold what it shows against the guarantees."""

import contextlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType

from sottovoce.cli.guarantees import how_sure
from sottovoce.cli.output import (
    JsonOption,
    Notes,
    OverridesArgument,
    QuietOption,
    percent,
    show,
    table,
    telling,
    wrapped,
)
from sottovoce.numbers import chosen
from sottovoce.observers import observer_named
from sottovoce.rounding import shown

if TYPE_CHECKING:
    from sottovoce.attacks.audit import Audit

ATTACKS = ("best", "likelihood", "transcript", "fitted")


def audit(
    file: Annotated[Path, typer.Argument(help="A TOML configuration with a section \\[privacy].")],
    pairs: Annotated[int, typer.Option("--pairs", help="Runs of each of the two worlds; more of them show more.")],
    confidence: Annotated[
        float, typer.Option("--confidence", help="With which a failed audit proves a guarantee false, such as 0.99.")
    ],
    overrides: OverridesArgument = None,
    observer: Annotated[
        list[str] | None,
        typer.Option("--observer", help="Who looks (default: those listed in \\[privacy]); may be repeated."),
    ] = None,
    attack: Annotated[str, typer.Option("--attack", help=f"One of {', '.join(ATTACKS)}.")] = "best",
    agent: Annotated[
        int | None, typer.Option("--agent", help="Whose data (default: of whom an observer learns most).")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for audit.json and pictures.")] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Attack what observers see in simulated runs; leaves with 1 if an attack shows more than is promised."""
    from sottovoce.experiments import audits, build, describe_audits, protection_notes, read, results_folder

    chosen("--attack", attack, ATTACKS)
    notes = Notes()
    experiment = build(read(file, overrides or (), say=notes))
    who = [observer_named(name) for name in observer or ()]
    with contextlib.nullcontext() if out is None else results_folder(out):
        with telling("audit", shown=not (as_json or quiet)) as tell:
            found = audits(
                experiment, who, pairs=pairs, confidence=confidence, attack=attack, agent=agent, progress=tell  # type: ignore[arg-type]
            )  # fmt: skip
        value = {**describe_audits(found), "notes": protection_notes(experiment)}
        value["files"] = [] if out is None else _written(value, found, out)
    broken = [_broken(each) for each in found if not each.passed]
    ends = [*value["notes"], value["meaning"], *broken, *_written_where(out)]
    remarks = _reasons(found) if quiet else [*_reasons(found), _certainty(found), _reach(pairs)]
    show(value, as_json=as_json, text=Group(_table(found, confidence), *map(wrapped, [*remarks, *ends])), notes=notes)
    if broken:
        if as_json:
            typer.echo("\n".join(broken), err=True)
        raise typer.Exit(1)


def _written(value: dict[str, Any], found: "Sequence[Audit]", folder: Path) -> list[str]:
    from sottovoce.reports import audit_figures

    stored = folder / "audit.json"
    stored.write_text(json.dumps(value, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    return [str(stored), *(str(path) for path in audit_figures(found, folder))]


def _written_where(folder: Path | None) -> list[str]:
    return [] if folder is None else [f"audit.json and pictures in {folder}"]


def _reasons(found: "Sequence[Audit]") -> list[str]:
    """Why some epsilons are infinite."""
    return [f"inf for {each.guarantee.observer}: {each.guarantee.reason}" for each in found if math.isinf(each.epsilon)]


def _certainty(found: "Sequence[Audit]") -> str:
    """How sure the promised epsilons are, observers alike together."""
    kinds: dict[str, list[str]] = {}
    for each in found:
        kinds.setdefault(how_sure(each.guarantee.validity), []).append(each.guarantee.observer)
    return "Promised as " + "; ".join(f"{sure}: {', '.join(names)}" for sure, names in kinds.items()) + "."


def _reach(pairs: int) -> str:
    """What so many runs cannot show."""
    return (
        f"With {pairs:,} runs of each world an epsilon much above {math.log(pairs):.2g} cannot be shown. Told apart: how often the attack ranks "
        f"a run of each world rightly (AUC); 50 % is a coin toss."
    )


def _broken(audit: "Audit") -> str:
    if not audit.refuted:
        return f"The runs seen by {audit.guarantee.observer} are not those that were promised. {audit.explain()}"
    return (
        f"The guarantee for {audit.guarantee.observer} is FALSE (confidence {audit.confidence:g}): epsilon = "
        f"{shown(audit.epsilon, 4)} is promised at delta = {audit.delta:g}, and the attack shows more: "
        f"{audit.lower}{'' if audit.tradeoff_mu is None else f'; {audit.tradeoff_mu}'}."
    )


def _table(found: "Sequence[Audit]", confidence: float) -> RenderableType:
    first, rows = found[0], []
    for each in found:
        infinite = math.isinf(each.epsilon)
        rows.append(
            (
                each.guarantee.observer,
                f"{each.agent}",
                "inf" if infinite else shown(each.epsilon, 4),
                f"{each.lower.epsilon:.4g}",
                "" if infinite else percent(each.ratio, 0),
                percent(each.auc.value, 0),
                each.attack,
                each.verdict,
            )
        )
    header = (
        "who looks",
        "agent",
        "epsilon\npromised",
        "shown\n>=",
        "of the\npromise",
        "told\napart",
        "attack",
        "verdict",
    )
    title = f"audit: epsilon at delta = {first.delta:g}, confidence {100 * confidence:g} % of all together, {first.pairs:,} runs of each world"
    return table(header, rows, words=("who looks", "attack", "verdict"), title=title)
