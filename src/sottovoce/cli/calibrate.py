"""`sottovoce calibrate`: how much noise meets an epsilon, and what the other observers then learn."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from sottovoce.cli.guarantees import guarantee_table
from sottovoce.cli.output import JsonOption, show
from sottovoce.cli.run import OverridesArgument
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.experiments import Config, Experiment, build, privacy, read
from sottovoce.experiments.noise_sections import GopaNoise, LawSection
from sottovoce.experiments.privacy_sections import asked, same_view
from sottovoce.observers import view


def calibrate(
    file: Annotated[Path, typer.Argument(help="A TOML configuration with a section \\[privacy].")],
    epsilon: Annotated[float, typer.Option("--epsilon", help="What the observer may learn at most.")],
    overrides: OverridesArgument = None,
    delta: Annotated[float | None, typer.Option("--delta", help="Instead of the delta in \\[privacy].")] = None,
    observer: Annotated[
        str | None, typer.Option("--observer", help="For whom (default: the first in \\[privacy]).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Find the size of the noise that gives an observer this epsilon; the file stays as it is."""
    config = read(file, [*(overrides or ()), *([] if delta is None else [f"privacy.delta={delta!r}"])])
    section = _section(config)
    experiment = _asking_first(build(config), observer)
    assert experiment.privacy is not None  # its observers were found
    watched, used_delta = experiment.privacy.observers[0], privacy.stated_delta(experiment)
    noise = privacy.calibrated(experiment, watched, epsilon=epsilon, delta=used_delta)
    assert noise.law is not None  # the section has one
    size = float(f"{privacy.size(noise.law):.7g}")
    found = replace(experiment, noise=noise)
    stated = privacy.statement(found, privacy.guarantees(found))
    pasted = _overrides(section, size)
    if not as_json:
        typer.echo(
            f"{section.size_key} = {size!r} gives {watched} epsilon = {epsilon:g} at delta = {used_delta:g}. To use it, add\n"
            f"  {' '.join(pasted)}"
        )
    show(
        {"observer": watched.name, "epsilon": epsilon, section.size_key: size, "overrides": pasted, **stated},
        as_json=as_json,
        text=guarantee_table(stated),
    )


def _section(config: Config) -> LawSection:
    if not isinstance(config.noise, LawSection):
        raise IncompatibleChoice(
            f'noise "{config.noise.kind}" has no size to calibrate. Choose another kind, such as "independent".'
        )
    return config.noise


def _asking_first(experiment: Experiment, name: str | None) -> Experiment:
    """The experiment with the observer to calibrate for in front, and no budget to hold the old noise against."""
    if experiment.privacy is None or (name is None and not experiment.privacy.observers):
        raise ConfigError(
            "there is nobody to calibrate for. Add a section [privacy] with observers, or name one with --observer."
        )
    listed = experiment.privacy.observers
    first = listed[0] if name is None else privacy.observer_named(name)
    view(first, experiment.topology)  # refuses one that this topology does not have
    everybody = asked([first, *(each for each in listed if not same_view(each, first))])
    return replace(experiment, privacy=replace(experiment.privacy, observers=tuple(everybody), budget=None))


def _overrides(section: LawSection, size: float) -> list[str]:
    """What to put behind `sottovoce run FILE`; a section that gives an epsilon is replaced as a whole."""
    values: dict[str, Any] = {section.size_key: size}
    if isinstance(section, GopaNoise):
        assert section.std is not None  # `noise_sections` refuses an epsilon here
        values["pairwise_std"] = float(f"{section.pairwise_std * size / section.std:.7g}")
    if section.epsilon is None:
        return [f"noise.{key}={value!r}" for key, value in values.items()]
    kept = section.model_dump(exclude_none=True, exclude={"epsilon", "delta"})
    return ["'noise={" + ", ".join(f"{key}={json.dumps(value)}" for key, value in {**kept, **values}.items()) + "}'"]
