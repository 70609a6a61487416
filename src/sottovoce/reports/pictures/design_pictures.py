"""What a designed noise costs and looks like, as plain values: gains by network, error against mu, both errors, and the strengths of pairs."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.errors import ConfigError
from sottovoce.reports.pictures import colours
from sottovoce.reports.pictures.network_picture import NetworkPicture, network_picture
from sottovoce.reports.pictures.picture import Axis, Key, Line, Panel, Picture, Text, floats
from sottovoce.reports.pictures.sweep_picture import sweep_picture
from sottovoce.topologies import Topology

GAIN = "variance that independent noise leaves in a model, over that of the scheme"
WEAKEST, STRONGEST = 0.4, 6.0  # widths of the lines of pairs, in points


class FrontierPoint(NamedTuple):
    """The two errors of one scheme; `label` is written beside the point."""

    average: float
    centroid: float
    label: str = ""


def gains_picture(gains: Mapping[str, Mapping[str, float]], *, title: str = "", subtitle: str = "") -> Picture:
    """A row per network with a mark per scheme; independent noise is the line at one.

    Args:
        gains: network -> scheme -> gain over independent noise at the same guarantee, above 0.
        title: above the picture.
        subtitle: below the title.

    Raises:
        ConfigError: nothing to draw, or a gain that is no number above 0.
    """
    schemes = list(dict.fromkeys(scheme for row in gains.values() for scheme in row))
    if not schemes:
        raise ConfigError("gains is empty; there is nothing to draw. Give a scheme and its gain for a network.")
    _require_positive({f"{scheme} on {name}": gain for name, row in gains.items() for scheme, gain in row.items()})
    looks = colours.looks(schemes, colours.DESIGNS, colours.SCHEMES)
    heights = {name: float(len(gains) - 1 - position) for position, name in enumerate(gains)}
    lines = [_marks(scheme, gains, heights, looks[scheme]) for scheme in schemes]
    ends = (min(1.0, *(min(line.x) for line in lines)), max(max(line.x) for line in lines))
    panel = Panel(
        x=Axis(label=GAIN, scale="log", ticks=_ticks(*ends), limits=(0.9 * ends[0], 1.15 * ends[1])),
        y=Axis(label="", limits=(-0.6, len(gains) - 0.4), ticks=tuple((y, name) for name, y in heights.items())),
        lines=tuple(lines),
    )
    keys = tuple(
        Key(name=scheme, colour=looks[scheme].colour, marker=looks[scheme].marker, dash="none") for scheme in schemes
    )
    return Picture(
        title=title, subtitle=subtitle, panels=(panel,), keys=keys, panel_size=(8.0, max(1.6, 0.55 * len(gains) + 1.2))
    )


def _marks(
    scheme: str, gains: Mapping[str, Mapping[str, float]], heights: Mapping[str, float], look: colours.Look
) -> Line:
    """The marks of one scheme, one on the row of every network that has it."""
    found = [(row[scheme], heights[name]) for name, row in gains.items() if scheme in row]
    x, y = np.array(found).T
    return Line(name=scheme, x=floats(x), y=floats(y), colour=look.colour, marker=look.marker, dash="none")


def _ticks(low: float, high: float) -> tuple[tuple[float, str], ...]:
    """Round numbers from low to high, on a logarithmic axis."""
    steps = [digit * 10.0**power for power in range(-3, 7) for digit in (1, 2, 5)]
    return tuple((step, f"{step:,.10g}") for step in steps if 0.95 * low <= step <= 1.1 * high)


def error_picture(
    errors: Mapping[str, float], mu: float, *, measure: str, observer: str, title: str = "", subtitle: str = ""
) -> Picture:
    """Error against mu for every scheme: a straight line each, since twice the noise halves mu and has four times the variance.

    Args:
        errors: scheme -> noise part of the error where every scheme has this mu.
        mu: of the observer.
        measure: which error, in words.
        observer: whose mu.
        title: above the picture.
        subtitle: below the title.

    Raises:
        ConfigError: nothing to draw, or numbers that are not above 0.
    """
    _require_positive({"mu": mu, **errors})
    places = np.array([step for step, _ in _ticks(mu / 5.0, mu * 5.0)])
    series: dict[str, tuple[ArrayLike, ArrayLike, ArrayLike | None]] = {
        scheme: (places, error * (mu / places) ** 2, None) for scheme, error in errors.items()
    }
    return sweep_picture(
        series, Axis(label=f"mu of {observer}", scale="log"), Axis(label=measure, scale="log"), title=title, subtitle=subtitle
    )  # fmt: skip


def frontier_picture(
    designs: Sequence[FrontierPoint], others: Mapping[str, FrontierPoint], *, title: str = "", subtitle: str = ""
) -> Picture:
    """The error of the centroid against that of an agent: designs for several weights, joined, and other schemes as points.

    Args:
        designs: by rising weight of the centroid.
        others: scheme -> its two errors at the same guarantee.
        title: above the picture.
        subtitle: below the title.

    Raises:
        ConfigError: no designs, or errors that are not above 0.
    """
    if not designs:
        raise ConfigError("designs is empty; there is nothing to draw. Give the two errors of at least one design.")
    named = {"designed": designs[0], **others}
    _require_positive(
        {f"{name}, {part}": getattr(point, part) for name, point in named.items() for part in ("average", "centroid")}
    )
    looks = colours.looks(named, colours.DESIGNS, colours.SCHEMES)
    lines = [_frontier_line("designed", designs, looks["designed"], dash="solid")]
    lines += [_frontier_line(name, [point], looks[name], dash="none") for name, point in others.items()]
    texts = [
        Text(x=point.average, y=point.centroid, text=point.label, colour=looks["designed"].colour)
        for point in designs
        if point.label
    ]
    panel = Panel(
        x=Axis(label="noise part of an agent's mean-square error", scale="log"),
        y=Axis(label="noise part of the common model's error", scale="log"),
        lines=tuple(lines),
        texts=tuple(texts),
    )
    keys = tuple(
        Key(name=name, colour=look.colour, marker=look.marker, dash="solid" if name == "designed" else "none")
        for name, look in looks.items()
    )
    return Picture(title=title, subtitle=subtitle, panels=(panel,), keys=keys, panel_size=(7.4, 4.6))


def _frontier_line(name: str, points: Sequence[FrontierPoint], look: colours.Look, *, dash: str) -> Line:
    return Line(
        name=name, x=floats([point.average for point in points]), y=floats([point.centroid for point in points]),
        colour=look.colour, marker=look.marker, dash=dash,
    )  # fmt: skip


def design_network_picture(
    topology: Topology,
    pairs: ArrayLike,
    covariances: ArrayLike,
    own_shares: ArrayLike,
    *,
    title: str = "",
    labels: Sequence[str] | None = None,
) -> NetworkPicture:
    """The network with a line per pair that shares noise: as wide as the noise is strong, blue where it cancels, orange where it adds up.

    Links without shared noise stay thin and grey. Circles are coloured by the share of an agent's noise that it draws alone.

    Args:
        topology: at most 500 agents.
        pairs: [m, 2] agents that share noise.
        covariances: [m] of what the two add: below 0 where one takes back what the other adds.
        own_shares: [K] variance of the noise that an agent draws alone, over that of all noise on its message.
        title: above the picture.
        labels: [K] a short text in every circle; None: the agents' numbers.

    Raises:
        ConfigError: arrays of another size or with values that are not finite, or too many agents.
    """
    ends = np.asarray(pairs, dtype=int).reshape(-1, 2)
    values = np.asarray(covariances, dtype=float)
    if values.shape != (len(ends),) or not np.isfinite(values).all():
        raise ConfigError(
            f"covariances has shape {values.shape}; give one finite number for each of {len(ends)} pairs."
        )
    # Bounds of rounding are no shares; a scale from 0 to 1 says at a glance how much is drawn alone.
    picture: Any = network_picture(
        topology, colours=np.clip(own_shares, 0.0, 1.0), labels=labels, title=title,
        colour_label="share of an agent's noise that it draws alone",
    )  # fmt: skip
    largest = float(np.abs(values).max(initial=0.0)) or 1.0
    widths = WEAKEST + (STRONGEST - WEAKEST) * np.sqrt(np.abs(values) / largest)
    return NetworkPicture(
        **{
            **{name: getattr(picture, name) for name in picture.__dataclass_fields__},
            "values_limits": (0.0, 1.0),
            "shared": tuple((int(i), int(j)) for i, j in ends),
            "shared_widths": floats(widths),
            "shared_colours": tuple(colours.BLUE if value <= 0 else colours.VERMILION for value in values),
            "shared_names": (("takes back what the other adds", colours.BLUE), ("adds the same", colours.VERMILION)),
        }
    )


def _require_positive(numbers: Mapping[str, float]) -> None:
    for name, value in numbers.items():
        if not (np.isfinite(value) and value > 0):
            raise ConfigError(f"{name} is {value!r}; a figure with a logarithmic axis needs finite numbers above 0.")
