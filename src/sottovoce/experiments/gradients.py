"""How long gradients are, to choose a clip by: norms along a run in clear, without noise and without clipping.

The clip acts on the gradient of every record, ridge left out, so these are the norms that are measured; beside them those of the agents'
averages over their records, with the ridge where whole gradients are clipped. All of them depend on the data: a clip chosen by private data costs privacy that no guarantee here covers.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from sottovoce.clipping import Norm, vector_norm
from sottovoce.experiments.build import build
from sottovoce.experiments.config.config import Config
from sottovoce.experiments.config.noise import NoNoise
from sottovoce.experiments.config.problem import MeanProblem
from sottovoce.experiments.experiment import Experiment
from sottovoce.problems import Problem
from sottovoce.simulation import chunks

PERCENTILES = (10, 50, 90, 99, 100)
BINS = 12
Whose = Literal["record", "agent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NormDistribution:
    """Norms of gradients after one round, in one norm."""

    round: int  # 0: at the start
    whose: Whose
    norm: Norm
    count: int
    percentiles: dict[str, float]  # "50" is the median, "100" the largest
    histogram: tuple[int, ...]  # of equally wide bins from 0 to the largest
    above_clip: float | None  # share of the gradients that the clip shortens; None where it does not act

    def describe(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "round": self.round,
            "whose": self.whose,
            "norm": self.norm,
            "count": self.count,
            "percentiles": self.percentiles,
            "histogram": list(self.histogram),
            "above_clip": self.above_clip,
        }


def gradient_norms(config: Config) -> list[NormDistribution]:
    """Norms of all gradients at the start, after about a tenth and half of the rounds, and at the end of a run in clear.

    Raises:
        Diverged: without clipping, learning leaves the finite numbers.
    """
    clear = config.model_copy(update={"noise": NoNoise(kind="none"), "privacy": None})
    experiment = build(clear)
    unridged = experiment.problem
    if not isinstance(clear.problem, MeanProblem):
        unridged = build(clear.model_copy(update={"problem": clear.problem.model_copy(update={"ridge": 0.0})})).problem
    found = []
    for last_round, models in _snapshots(experiment):
        gradients = _record_gradients(unridged, models)
        averages = np.stack([each.mean(axis=0) for each in gradients])
        if _clip_of(config, "gradient") is not None:  # the ridge is inside such a clip
            averages = _whole_gradients(experiment.problem, models)
        for norm in ("l2", "l1"):
            records = vector_norm(np.concatenate(gradients), norm)
            found.append(_distribution(records, last_round, "record", norm, _clip_of(config, "records", norm)))
            agents = vector_norm(averages, norm)
            found.append(_distribution(agents, last_round, "agent", norm, _clip_of(config, "gradient", norm)))
    return found


def _clip_of(config: Config, clips: str, norm: Norm | None = None) -> float | None:
    """The bound on what the file clips, where it clips that, and in that norm."""
    privacy = config.privacy
    if privacy is None or privacy.clips != clips or norm not in (None, privacy.clip_norm):
        return None
    return privacy.clip


def _whole_gradients(problem: Problem, models: np.ndarray) -> np.ndarray:
    """[K, d] every agent's gradient at its model, ridge and all."""
    rows = [{name: array[k] for name, array in problem.arrays.items()} for k in range(problem.num_agents)]
    return np.stack([np.asarray(problem.gradient(w.astype(float), row)) for w, row in zip(models, rows, strict=True)])


def _snapshots(experiment: Experiment) -> Iterator[tuple[int, np.ndarray]]:
    """(round, models [K, d]) of one repeat; all agents start from the problem's first model."""
    problem, rounds = experiment.problem, experiment.rounds
    yield 0, np.tile(problem.initial_model, (problem.num_agents, 1))
    wanted = [rounds / 10, rounds / 2, rounds]
    for chunk in chunks(
        problem,
        experiment.topology,
        {"clear": experiment.algorithm},
        {"clear": experiment.noise},
        replace(experiment.settings, repeats=1, chunk=max(1, rounds // 10)),
    ):
        if chunk.round >= wanted[0]:
            wanted = [place for place in wanted if place > chunk.round]
            yield chunk.round, chunk.models["clear", "clear"][0]


def _record_gradients(problem: Problem, models: np.ndarray) -> list[np.ndarray]:
    """[n_k, d] for each agent: the gradient of every record at its agent's model."""
    indices = jnp.arange(int(problem.sizes.max()))

    def of_agent(given: tuple[Any, Any]) -> Any:
        model, data = given
        return jax.vmap(lambda i: problem.batch_gradient(model, problem.records(data, i[None])))(indices)

    arrays = {name: jnp.asarray(array, dtype=jnp.float32) for name, array in problem.arrays.items()}
    found = np.asarray(jax.lax.map(of_agent, (jnp.asarray(models, dtype=jnp.float32), arrays)), dtype=float)
    return [found[agent, :size] for agent, size in enumerate(problem.sizes)]


def _distribution(norms: np.ndarray, last_round: int, whose: Whose, norm: Norm, clip: float | None) -> NormDistribution:
    largest = float(norms.max())
    counts, _ = np.histogram(norms, bins=BINS, range=(0.0, largest or 1.0))
    return NormDistribution(
        round=last_round,
        whose=whose,
        norm=norm,
        count=len(norms),
        percentiles={str(share): float(np.percentile(norms, share)) for share in PERCENTILES},
        histogram=tuple(int(count) for count in counts),
        above_clip=None if clip is None else float((norms > clip).mean()),
    )
