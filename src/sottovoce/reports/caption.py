"""Captions: the sentence that says what was run, and its place under a picture."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.textpath import TextPath

from sottovoce.errors import ConfigError

if TYPE_CHECKING:
    from sottovoce.simulation import Run

MARK = "sottovoce-caption"
SIZE = 8.5  # points
LINE = SIZE * 1.35 / 72  # inches
MARGIN = 0.14  # inches, on all sides
# A viewer may draw an SVG's text in another, wider font.
USABLE = 0.95


def describe(run: Run) -> str:
    """One sentence on what was run, for a caption.

    Raises:
        ConfigError: The run's description lacks what a reader needs.
    """
    given = run.description
    missing = [name for name in ("algorithm", "noise", "topology", "rounds", "repeats", "seed") if name not in given]
    if missing:
        raise ConfigError(f"the run's description lacks {', '.join(missing)}. Use a run from simulate or load.")
    topology, problem = given["topology"], given.get("problem", {})
    batch = given.get("batch_size")
    parts = [
        _algorithm(given["algorithm"]) + (f" on {_words(problem['kind'])}" if "kind" in problem else ""),
        _noise(given["noise"]),
        f"{_words(topology['name'])} network of {topology['num_agents']:,} agents ({_weights(topology)})",
        _count(given["rounds"], "round"),
        _count(given["repeats"], "repeat"),
        _batches(batch, given.get("batch")),
        f"seed {given['seed']}",
    ]
    return ", ".join(parts) + "."


def _batches(size: int | None, turns: Mapping[str, Any] | None) -> str:
    """Which records enter a gradient."""
    if turns is not None:
        return f"records in turns, every {turns['gap']:,} rounds"
    return "full gradients" if size is None else f"batch size {size:,}"


def put_caption(figure: Figure, caption: str | None) -> float:
    """Write a caption below the frame of a figure, in place of the one it has; the room it takes, in inches.

    Below the frame, because figure legends and labels keep to the frame and would not make room for it.
    """
    old = _caption_of(figure)
    if old is not None:
        old.remove()
    if caption is None:
        return 0.0
    width, height = figure.get_size_inches()
    lines = _wrap(caption, (width - 2 * MARGIN) * USABLE)
    figure.text(
        MARGIN / width, -MARGIN / height, "\n".join(lines), fontsize=SIZE, color="#333333", ha="left", va="top",
        linespacing=1.25, gid=MARK, parse_math=False,
    )  # fmt: skip
    return float(len(lines) * LINE + 2 * MARGIN)


def caption_of(figure: Figure) -> str | None:
    """The caption a figure has, on one line."""
    text = _caption_of(figure)
    return None if text is None else " ".join(text.get_text().split())


def _caption_of(figure: Figure) -> Text | None:
    return next((text for text in figure.texts if text.get_gid() == MARK), None)


def _wrap(caption: str, inches: float) -> list[str]:
    """Break a caption into lines of at most this width; words are measured, spaces are a third of the font size."""
    words, space = caption.split(), SIZE / 3
    # A dollar sign would start mathematics.
    widths = {word: TextPath((0, 0), word.replace("$", "S"), size=SIZE).get_extents().width for word in set(words)}
    lines: list[str] = []
    filled = np.inf
    for word in words:
        if filled + space + widths[word] <= inches * 72:
            lines[-1] += f" {word}"
            filled += space + widths[word]
        else:
            lines.append(word)
            filled = widths[word]
    return lines


def _words(name: str) -> str:
    return {"atc": "ATC", "cta": "CTA", "dgd": "DGD"}.get(
        name, name.replace("graph_homomorphic", "graph-homomorphic").replace("_", " ")
    )


def _number(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _algorithm(given: dict[str, Any]) -> str:
    settings = [
        f"{_words(key)} {_number(value)}"
        for key, value in given.items()
        if key not in ("name", "exchanges") and value is not None
    ]
    return _words(given["name"]) + (f" ({', '.join(settings)})" if settings else "")


def _noise(given: dict[str, Any]) -> str:
    if "law" not in given:
        return "no noise" if given["name"] == "none" else f"{_words(given['name'])} noise"
    match given["law"]:
        case "Laplace":
            scale = f"std {_number(given['scale'] * math.sqrt(2.0))}"
        case "Gaussian":
            scale = f"std {_number(given['scale'])}"
        case _:
            scale = f"scale {_number(given['scale'])}"
    details = [scale]
    if given.get("schedule"):
        details.append("times a factor per round")
    if given.get("per_edge"):
        details.append("one source per link")
    if given.get("self_noise") is False:
        details.append("own copy without noise")
    known = ("name", "law", "scale", "schedule", "factors", "per_edge", "self_noise")
    details += [
        f"{_words(key)} {_number(value)}" for key, value in given.items() if key not in known and value is not None
    ]
    return f"{_words(given['name'])} {given['law']} noise ({', '.join(details)})"


def _weights(topology: dict[str, Any]) -> str:
    weights = f"{topology['weights']} weights" if "weights" in topology else "weights not stated"
    schedule = topology.get("schedule", {"kind": "static"})
    if schedule["kind"] == "static":
        return weights
    details = "".join(f" {_number(value)}" for key, value in schedule.items() if key == "probability")
    return f"{weights}, {_words(schedule['kind'])}{details}"
