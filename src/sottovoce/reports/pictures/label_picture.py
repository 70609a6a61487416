"""What every agent's data look like, as plain values: counts of its labels, or quantiles of its targets."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sottovoce.errors import ConfigError
from sottovoce.reports.pictures.colours import PALETTE

MAX_LABELS = 12
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelPicture:
    """Counts of labels per agent, or quantiles of targets where these are numbers; exactly one of the two is there.

    Attributes:
        agents: how many.
        counts: label -> its records, one number per agent; None where targets are numbers.
        colours: label -> colour.
        quantiles: agent -> its 5, 25, 50, 75 and 95 % quantiles, of agents with records; None where targets are labels.
        title: above the picture.
    """

    agents: int
    counts: dict[str, tuple[int, ...]] | None = None
    colours: dict[str, str] | None = None
    quantiles: dict[int, tuple[float, ...]] | None = None
    title: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def label_picture(targets: Sequence[np.ndarray], *, title: str | None = None) -> LabelPicture:
    """Counts of labels for up to 12 of them, quantiles per agent for real targets or more labels.

    Args:
        targets: one array of labels or numbers per agent, of any lengths.
        title: above the picture.

    Raises:
        ConfigError: no records, values that are not finite, or more than 12 labels that are texts.
    """
    agents = [np.asarray(values).ravel() for values in targets]
    labels = _labels(agents)
    if labels is None:
        found = {
            agent: tuple(float(each) for each in np.quantile(values, LEVELS))
            for agent, values in enumerate(agents)
            if len(values)
        }
        return LabelPicture(agents=len(agents), quantiles=found, title=title or "")
    return LabelPicture(
        agents=len(agents),
        counts={_text(label): tuple(int(np.count_nonzero(values == label)) for values in agents) for label in labels},
        colours={_text(label): PALETTE[position % len(PALETTE)] for position, label in enumerate(labels)},
        title=title or "",
    )


def _labels(agents: list[np.ndarray]) -> np.ndarray | None:
    """The labels that occur, rising; None where targets are numbers, or too many for bars."""
    present = [values for values in agents if len(values)]
    if not present:
        raise ConfigError("targets hold no records; there is nothing to draw. Give one array per agent.")
    records = np.concatenate(present)
    numeric = records.dtype.kind in "iufb"
    labels = np.unique(records)
    if numeric:
        if not np.isfinite(labels).all():
            raise ConfigError("targets hold values that are not finite; remove those records or fill them in.")
        whole = (labels == np.round(labels.astype(float))).all()
        return labels if whole and len(labels) <= MAX_LABELS else None
    if records.dtype.kind not in "US":
        raise ConfigError(f"targets have type {records.dtype}; they must be numbers or texts.")
    if len(labels) > MAX_LABELS:
        raise ConfigError(f"targets hold {len(labels)} texts; at most {MAX_LABELS} labels can be drawn. Group them.")
    return labels


def _text(label: object) -> str:
    return f"{label:g}" if isinstance(label, np.floating | float) else str(label)
