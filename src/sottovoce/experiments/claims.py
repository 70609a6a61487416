"""What a simulated run may claim: everything that enters its guarantee is held against the problem that runs.

    sensitivity     at least what the protected unit can change in a gradient, or in an update, as it is clipped in this run
    participation   every record in every round, or in turns where the run takes them so: the simulator keeps no other promise
    losses          a promise that the problem's own losses keep, where it knows them
    same model      a ridge is added after clipping and moves with the model, so that 2C bounds an agent's change at the same model only

`sottovoce run`, `sv.compare` and `sottovoce compare` refuse what fails here; `account` and `calibrate`, which simulate nothing, answer for data
that keep what was promised.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.accounting import Guarantee, Participation, Question, describe_participation, update_sensitivity
from sottovoce.algorithms import Algorithm
from sottovoce.clipping import Clip, Norm
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.noise import Noise
from sottovoce.numbers import per_agent
from sottovoce.problems import (
    Adjacency,
    Batch,
    ConvexSmooth,
    Cyclic,
    Sensitivity,
    Unit,
    gradient_clip_of,
    required_persons,
)

_ROUNDING = 1e-12  # relative: two ways to compute the same bound may differ by this


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What is said about a run's data, beside its sensitivity; the fields are those of `account`."""

    unit: Unit
    adjacency: Adjacency
    participation: Participation = "every-round"
    losses: ConvexSmooth | None = None
    same_model: bool | None = None
    batch_size: int | None = None
    batch: Batch | None = None

    def question(self, *, rounds: int, sensitivity: ArrayLike) -> Question:
        """What is asked of the accountant; the one place where these claims become a question."""
        return Question(
            rounds=rounds,
            sensitivity=sensitivity,
            unit=self.unit,
            adjacency=self.adjacency,
            participation=self._participation(rounds),
            losses=self.losses,
            same_model=self.same_model,
        )

    def _participation(self, rounds: int) -> Participation:
        """In which rounds the unit takes part: what the batches of the run say, where they say it."""
        if self.batch is not None and self.unit == "record":
            return self.batch.participation(rounds)
        return self.participation

    def enforced(self, problem: Any, algorithm: Algorithm, noise: Noise, *, norm: Norm) -> list[float]:
        """[K] the largest change of each agent's gradient in one round, or of its clipped update, that clipping allows.

        Args:
            problem: whose gradients are clipped.
            algorithm: whose updates may be clipped instead.
            noise: that hides the change.
            norm: in which the change is measured.

        Raises:
            ConfigError: nothing is clipped.
            UnsupportedClaim: nothing is known of the change of this unit.
        """
        update = clipped_update(algorithm, noise)
        if update is not None:
            return [self._of_update(problem, update)] * problem.num_agents
        try:
            return [
                problem.sensitivity(
                    unit=self.unit,
                    adjacency=self.adjacency,
                    norm=norm,
                    batch_size=self.batch_size,
                    agent=agent,
                    batch=self.batch,
                )
                for agent in range(problem.num_agents)
            ]
        except ConfigError as error:
            if any(bound is not None for bound in (problem.clip, problem.box, gradient_clip_of(problem))):
                raise
            raise ConfigError(
                "the gradients of this problem are not clipped, so that no sensitivity is true for a run of it. Use "
                "problem.with_clipping(clip, norm), and its sensitivity."
            ) from error

    def _of_update(self, problem: Any, clip: Clip) -> float:
        """What the clip of whole updates allows; for a person, of whom something must be known all the same: that it is at one agent."""
        value = update_sensitivity(clip, unit=self.unit, adjacency=self.adjacency)
        if self.unit != "person":
            return value
        persons = required_persons(problem.persons)
        return Sensitivity(
            value, unit="person", adjacency=self.adjacency, norm=clip.norm, compares="any two models", persons=persons
        )

    def kept(self, problem: Any, algorithm: Algorithm, noise: Noise) -> "Claims":
        """These claims as a run of the problem keeps them: where 2C holds at the same model only, they say so.

        Raises:
            IncompatibleChoice: a participation that the simulator does not keep.
            ConfigError: a promise about losses that the problem's do not keep, or a bound between any two models that a ridge breaks.
        """
        self._refuse_participation()
        update = clipped_update(algorithm, noise)
        if self.losses is not None and update is None:
            _refuse_losses(problem, self.losses, self.batch_size, self.batch)
        if self.unit != "agent" or update is not None or not moves_with_model(problem):
            return self
        if self.same_model is False:
            raise ConfigError(
                "unit='agent' with same_model=False says that any two gradients of an agent differ by at most the sensitivity, but "
                "the ridge of this problem is added after clipping and grows with the model. Leave same_model out, and promise "
                "losses=problem.losses where gradients are taken at different models; or use ridge=0."
            )
        return replace(self, same_model=True)

    def refuse_sensitivity(
        self, problem: Any, algorithm: Algorithm, noise: Noise, *, sensitivity: ArrayLike, norm: Norm
    ) -> None:
        """Refuse a sensitivity below what clipping allows; a larger one is true as well.

        Args:
            problem: whose gradients are clipped.
            algorithm: whose updates may be clipped instead.
            noise: that hides the change.
            sensitivity: one for all agents or one each.
            norm: in which it is measured.

        Raises:
            ConfigError: it is too small for some agent, or nothing is clipped.
        """
        enforced = np.array(self.enforced(problem, algorithm, noise, norm=norm))
        given = per_agent("sensitivity", sensitivity, problem.num_agents)
        below = given < enforced * (1.0 - _ROUNDING)
        if not below.any():
            return
        agent = int(np.argmax(enforced - given))
        batch = "" if self.batch_size is None else f", batch_size={self.batch_size}"
        batch = batch if self.batch is None else f", batch=sv.problems.cyclic_batch({self.batch.gap})"
        raise ConfigError(
            f"sensitivity = {given[agent]:g} ({norm}) for agent {agent}, but {clipping(problem, algorithm, noise)} lets "
            f"unit='{self.unit}' with adjacency='{self.adjacency}' change {enforced[agent]:.10g} in a round. Give at least that: "
            f"problem.sensitivity(unit='{self.unit}', adjacency='{self.adjacency}', norm='{norm}'{batch})."
        )

    def after_draws(self, found: Guarantee) -> Guarantee:
        """The guarantee of a run in which batches are drawn: the observer is given the draws, so nothing is exact any more."""
        exact = found.validity == "exact" and self.batch_size is not None
        return replace(found, validity="sent-messages") if exact else found

    def _refuse_participation(self) -> None:
        if self.participation == "every-round" or (
            self.batch is not None
            and isinstance(self.participation, Cyclic)
            and self.participation.gap == self.batch.gap
        ):
            return
        uses = (
            "uses every record in every round" if self.batch_size is None else "draws records at random in every round"
        )
        uses = uses if self.batch is None else f"takes every record in every {self.batch.gap}-th round"
        raise IncompatibleChoice(
            f"participation was promised ({describe_participation(self.participation)}), but a simulated run {uses}, so its guarantees "
            f"would be false. Remove participation to run; `sottovoce account` and `sottovoce calibrate` answer for data that keep the "
            f"promise."
        )


def clipped_update(algorithm: Algorithm, noise: Noise) -> Clip | None:
    """The clip of whole updates, where messages carry them; None where gradients are what is bounded."""
    return None if algorithm.clipped_update is None or noise.in_gradients else algorithm.clipped_update.clip


def clipping(problem: Any, algorithm: Algorithm, noise: Noise) -> str:
    """What bounds a change in this run, in words."""
    update = clipped_update(algorithm, noise)
    if update is not None:
        return f"clipping whole updates to {update.bound:g} ({update.norm})"
    whole = gradient_clip_of(problem)
    if whole is not None:
        return f"clipping every agent's whole gradient to {whole.bound:g} ({whole.norm})"
    if problem.clip is None:
        return f"the box [-{problem.box:g}, {problem.box:g}] that holds every point's coordinates"
    return f"clipping every record's gradient to {problem.clip.bound:g} ({problem.clip.norm})"


def moves_with_model(problem: Any) -> bool:
    """Whether something that grows with the model, such as a ridge, is added to clipped gradients.

    A problem that does not describe its ridge is asked for a gradient far away, which its clip alone would keep short.
    """
    described, whole = problem.describe(), gradient_clip_of(problem)
    if whole is None and "ridge" in described:  # a ridge inside the clip of a whole gradient is kept short with it
        return bool(described["ridge"] > 0)
    clip = problem.clip if whole is None else whole
    if clip is None:
        return True
    bound, order = clip.bound, 1 if clip.norm == "l1" else 2
    data = {name: array[0] for name, array in problem.arrays.items()}
    for size in (1e2, 1e6):
        far = np.asarray(problem.gradient(np.full(problem.dimension, size * bound), data), dtype=float)
        if np.isfinite(far).all() and np.linalg.norm(far, order) > bound * (1.0 + 1e-6):
            return True
    return False


def _refuse_losses(problem: Any, losses: ConvexSmooth, batch_size: int | None, batch: Batch | None = None) -> None:
    """Refuse a promise that the losses of the problem do not keep; where it knows nothing of them, the promise is the user's own."""
    if problem.kind == "classification":
        raise ConfigError(
            "losses were promised, but a promise of convex, smooth losses does not hold for classification: networks are not convex. "
            "Leave losses out."
        )
    if gradient_clip_of(problem) is not None:
        raise ConfigError(
            "losses were promised, but whole gradients are clipped, and a clipped whole gradient belongs to no convex loss. Leave losses out."
        )
    known = problem.losses
    if known is None:
        return
    if batch is not None:
        known = batch.losses(known, problem.sizes)
    whole = batch_size is None and batch is None
    beta = float(problem.constants.local_smoothness.max()) if whole else known.beta
    which = "full losses" if whole else "losses of batches"
    if losses.beta < beta * (1.0 - _ROUNDING):
        raise ConfigError(
            f"losses promise beta = {losses.beta:g}, but the agents' {which} are up to {beta:.10g}-smooth. Promise at least that; "
            f"{'problem.losses holds for every batch' if batch is None else 'batch.losses(problem.losses, problem.sizes) has it'}."
        )
    if losses.nu > known.nu * (1.0 + _ROUNDING):
        raise ConfigError(
            f"losses promise nu = {losses.nu:g}, but the agents' losses, as they are clipped, are {known.nu:.10g}-strongly convex at most. "
            f"Promise no more than that; {'problem.losses' if batch is None else 'batch.losses(problem.losses, problem.sizes)'} has it."
        )
