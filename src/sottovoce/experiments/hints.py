"""Whether learning had ended when the rounds did, what clipping did, and what to try: for whoever has the data.

What is said follows from exact statistics of the records. A try that follows such a hint is one more run on the same records.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from sottovoce.clipping import Clip, vector_norm
from sottovoce.experiments.experiment import Experiment
from sottovoce.experiments.scores import Measure, unclipped
from sottovoce.problems import ClippedGradients
from sottovoce.simulation import Run

TENTHS = 10
STILL_FALLING = (
    0.02  # share of its whole fall by which the loss may fall between the last two tenths of a run that has converged
)
RISEN = 0.1  # share of its whole fall by which the loss may end above its lowest tenth
OFTEN, SELDOM = 0.5, 0.01  # shares of shortened gradients that are worth a word
MOST_GRADIENTS = 1000
ONE_MORE = "Each try on these records is one more release: its epsilon comes on top of those before."


def hints(experiment: Experiment, run: Run, measure: Measure, scores: Mapping[str, float | None]) -> list[str]:
    """What to know about a run, and what to try.

    Args:
        experiment: what was run.
        run: what it gave.
        measure: how models are scored.
        scores: of the common models, and of the average agent alone, by the names of `worth`.
    """
    known = [] if measure.held_out or measure.name == "distance" else [
        f"No records were kept for testing, so the {measure.name} is that on the training records, which flatters every model."
    ]  # fmt: skip
    tries = [*_against_nothing(measure, scores), *_convergence(experiment, run), *_clipping(experiment, run)]
    return [*known, *tries, *([ONE_MORE] if tries else [])]


def _against_nothing(measure: Measure, scores: Mapping[str, float | None]) -> list[str]:
    """Whether the run learnt anything, and whether noise is the reason why not."""
    reached, base, clear = scores["together"], scores.get("without learning"), scores.get("in clear")
    if reached is None or base is None:
        return []
    sign = 1.0 if measure.name == "accuracy" else -1.0
    alone = scores.get("alone")
    if sign * reached > sign * base:
        if alone is None or clear is None or sign * reached > sign * alone or sign * clear <= sign * alone:
            return []
        return [
            "With this noise, learning together is no better than each agent alone; without noise it would be. Try a larger epsilon, fewer "
            "rounds, or more agents."
        ]
    said = "The common model is no better than an answer without learning."
    if clear is not None and sign * clear > sign * base:
        return [f"{said} Without noise it is: try a larger epsilon, fewer rounds, or more records at each agent."]
    return [f"{said} Nor is it without noise: try more rounds, another step size, or other features."]


def _convergence(experiment: Experiment, run: Run) -> list[str]:
    """Whether the loss still fell at the end, or had fallen further before."""
    losses = run.metrics.get("loss")
    steps = "step_size" in experiment.algorithm.parameters  # averages without steps have no loss to bring down
    if losses is None or losses.shape[1] < 2 * TENTHS or not steps:
        return []
    curve = losses.mean(axis=0, dtype=np.float64)
    parts = np.array_split(curve, TENTHS)
    tenths = np.array([part.mean() for part in parts])
    fall = curve[0] - tenths.min()
    if fall <= 0:
        return [f"The loss never fell below that of the first round. Try a smaller step: {_step(experiment, 0.5)}."]
    chance = 3.0 * np.sqrt(sum(part.var() / len(part) for part in parts[-2:]))  # what noise moves two means apart
    late = tenths[-2] - tenths[-1]
    if late > max(STILL_FALLING * fall, chance):
        price = "" if experiment.noise.law is None else "; at the same epsilon more rounds need more noise"
        return [
            f"Not converged: the loss still fell in the last tenth of the rounds, by {100 * late / fall:.0f} % of its whole fall. Try "
            f"experiment.rounds={2 * run.rounds} or {_step(experiment, 2.0)}{price}."
        ]
    if tenths[-1] - tenths.min() > max(RISEN * fall, chance):
        return [
            f"The loss ended above its lowest value: noise piles up faster than steps take it away. Try fewer rounds, or "
            f"{_step(experiment, 0.5)}."
        ]
    return []


def _step(experiment: Experiment, factor: float) -> str:
    size = experiment.algorithm.parameters.get("step_size")
    return f"algorithm.step_size={factor * size:g}" if isinstance(size, float | int) else "another step size"


def _clipping(experiment: Experiment, run: Run) -> list[str]:
    """How many gradients the clip shortens where the run ended."""
    clip, whose = clip_of(experiment.problem)
    share = shortened(experiment.problem, run)
    if clip is None or share is None or SELDOM < share < OFTEN:
        return []
    active = f"At the end the clip shortens the gradients of {100 * share:.0f} % of the {whose}"
    if share >= OFTEN:
        return [
            f"{active}, so that they pull less than they would. Try privacy.clip={2 * clip.bound:g}; at the same epsilon noise doubles with it."
        ]
    return [f"{active}. Try privacy.clip={clip.bound / 2:g}: at the same epsilon the noise is half as large."]


def clip_of(problem: Any) -> tuple[Clip | None, str]:
    """The bound on gradients, and whose they are: those of single records, or whole ones of agents."""
    return (problem.gradient_clip, "agents") if isinstance(problem, ClippedGradients) else (problem.clip, "records")


def shortened(problem: Any, run: Run) -> float | None:
    """The share of gradients that the clip shortens at the common model; None where neither records nor whole gradients are clipped.

    Among many records, some of every agent are looked at.
    """
    clip, whose = clip_of(problem)
    if clip is None or run.common is None:
        return None
    bare, model = unclipped(problem), run.common[0].astype(np.float64)
    if whose == "records" and "ridge" in {field.name for field in fields(bare)}:
        bare = replace(
            bare, ridge=0.0
        )  # added after single records are clipped, but inside the clip of a whole gradient
    each, found = max(1, MOST_GRADIENTS // problem.num_agents), []
    for agent, size in enumerate(problem.sizes[:MOST_GRADIENTS]):
        data = {name: array[agent] for name, array in bare.arrays.items()}
        if whose == "agents":
            found.append(bare.gradient(model, data))
            continue
        for index in np.unique(np.linspace(0, size - 1, min(int(size), each)).astype(int)):
            found.append(bare.batch_gradient(model, bare.records(data, np.array([index]))))
    return float((vector_norm(np.asarray(found), clip.norm) > clip.bound).mean())
