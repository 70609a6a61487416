"""The pictures of a designed noise, with captions that say for whom it is, and how far the numbers hold."""

from pathlib import Path

import numpy as np

from sottovoce.experiments import DesignedFile
from sottovoce.reports.files import save
from sottovoce.reports.networks import paint_network
from sottovoce.reports.painting import paint
from sottovoce.reports.pictures import words
from sottovoce.reports.pictures.design_pictures import (
    FrontierPoint,
    design_network_picture,
    error_picture,
    frontier_picture,
    gains_picture,
)
from sottovoce.reports.pictures.network_picture import MAX_AGENTS

SOURCE = "Source: sottovoce, docs/noise-design.md."
_ERRORS = {"average": "an agent's mean-square error", "centroid": "the common model's mean-square error"}
_WHEN = {"steady": "in the long run", "final": "after the last round", "mean": "on average over the rounds"}
_DRAWN = 0.02  # of the largest covariance: pairs that share less under a joint generator are not drawn


def design_figures(found: DesignedFile, folder: str | Path) -> list[Path]:
    """Gains by network, error against mu, the network with what is shared, and both errors where the file asks for them. The files written.

    Args:
        found: what `sottovoce design` found.
        folder: of the files.
    """
    paths = [*_gains(found, folder), *_errors(found, folder)]
    if found.experiment.topology.num_agents <= MAX_AGENTS:
        paths += _network(found, folder)
    return [*paths, *_frontier(found, folder)]


def _gains(found: DesignedFile, folder: str | Path) -> list[Path]:
    picture = gains_picture(found.gains, title="How much less noise than with independent noise")
    return save(paint(picture), folder, "gains", caption=f"All schemes keep the same targets. {_caption(found)}")


def _errors(found: DesignedFile, folder: str | Path) -> list[Path]:
    observer, mu = next(iter(found.design.targets.items()))
    others = " The other targets change in proportion." if len(found.design.targets) > 1 else ""
    picture = error_picture(
        {row.scheme: row.error for row in found.rows}, mu, measure=f"noise part of {_measure(found)}",
        observer=words.observer(observer), title="What the same privacy costs",
    )  # fmt: skip
    text = f"No noise that keeps the targets is below the central bound, that of a trusted curator included.{others} {_caption(found)}"
    return save(paint(picture), folder, "error", caption=text)


def _network(found: DesignedFile, folder: str | Path) -> list[Path]:
    plan, topology = found.design.keys(), found.experiment.topology
    covariance = plan.covariance
    alone = plan.own**2 if plan.joint is None else np.zeros(len(covariance))
    pairs, told = plan.pairs, "Lines: pairs that share a key."
    if plan.joint is not None:
        low, high = np.triu_indices(len(covariance), 1)
        strong = np.abs(covariance[low, high]) > _DRAWN * np.abs(covariance[low, high]).max(initial=0.0)
        pairs = np.stack([low[strong], high[strong]], axis=1)
        told = "Lines: pairs whose noise, told them by the generator, goes together; the weakest are left out."
    picture = design_network_picture(
        topology, pairs, covariance[pairs[:, 0], pairs[:, 1]], alone / np.diag(covariance), title="Who shares noise with whom"
    )  # fmt: skip
    text = f"{told} The wider, the more is shared. Grey: links without. {_caption(found)}"
    return save(paint_network(picture), folder, "network", caption=text)


def _frontier(found: DesignedFile, folder: str | Path) -> list[Path]:
    if not found.frontier:
        return []
    picture = frontier_picture(
        [FrontierPoint(average, centroid, f"{weight:g}") for weight, average, centroid in found.frontier],
        {name: FrontierPoint(*both) for name, both in found.others.items()},
        title="An agent's model against the common one",
    )
    text = f"Numbers beside points: weight of the common model, an agent's having weight 1. {_caption(found)}"
    return save(paint(picture), folder, "frontier", caption=text)


def _measure(found: DesignedFile) -> str:
    weights = found.section.weights
    if isinstance(weights, str):
        return _ERRORS[weights]
    return f"{weights['average']:g} x {_ERRORS['average']} + {weights['centroid']:g} x {_ERRORS['centroid']}"


def _caption(found: DesignedFile) -> str:
    """What was computed, for whom, and how far it holds."""
    run = found.experiment
    targets = "; ".join(f"{words.observer(name)}: mu = {mu:.4g}" for name, mu in found.design.targets.items())
    exact = (
        "exact for these quadratic losses" if found.design.exact else "for one contraction that stands for the losses"
    )
    return (
        f"{words.sentence(_measure(found))} {_WHEN[found.section.when]}, {exact}: {run.topology.name.replace('_', ' ')} network of "
        f"{run.topology.num_agents:,} agents, {run.rounds:,} rounds, keys: {found.section.keys}. Targets: {targets}. {SOURCE}"
    )
