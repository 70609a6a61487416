"""Parties against the simulation that was fed the same integers: how far their models are apart, and how far they may be."""

from dataclasses import dataclass

import numpy as np

from sottovoce.deployment.agent import RehearsedCoin, Wiring, deviation_bound
from sottovoce.deployment.integers import Lattice
from sottovoce.deployment.store import Store
from sottovoce.deployment.terms import without_masks
from sottovoce.errors import UnsupportedClaim
from sottovoce.experiments.build import build
from sottovoce.experiments.rehearsing.parties import Rehearsal
from sottovoce.experiments.rehearsing.process import DRAWS
from sottovoce.experiments.rehearsing.saved_draws import SavedDraws
from sottovoce.problems import Problem
from sottovoce.simulation import simulate


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the models of a rehearsal compare.

    Attributes:
        units: the largest difference of an entry of any party's model from the simulation's, in units of the lattice.
        bound: no entry may be further apart, in units; None where nothing is derived for the algorithm or the loss.
        factor: the bound per round; None as above.
    """

    units: float
    bound: float | None
    factor: float | None

    @property
    def within(self) -> bool:
        """Whether parties did what the simulation says; where nothing is derived, nothing is refuted."""
        return self.bound is None or self.units <= self.bound


def outcome_of(rehearsal: Rehearsal) -> Outcome:
    """Simulate the same run on the same integers, and compare.

    Raises:
        StoreError: a party has no model.
    """
    run, f = without_masks(rehearsal.parts.run), rehearsal.agreement.fraction_bits
    problem = build(rehearsal.config).problem
    reference = simulate(
        problem, run.topology, run.algorithm, run.noise, rounds=run.rounds, seed=rehearsal.config.experiment.seed,
        batch_size=run.batch_size, dtype="float64", draws="sources", fraction_bits=f, progress=False,
    )  # fmt: skip
    models = np.stack([_model(rehearsal, name) for name in rehearsal.agreement.agents])
    units = float(np.abs(models - np.asarray(reference.models)[0]).max() * 2.0**f)
    bound = _bound(rehearsal, problem)
    return Outcome(units=units, bound=bound, factor=None if bound is None else bound / run.rounds)


def _model(rehearsal: Rehearsal, name: str) -> np.ndarray:
    with Store.open(rehearsal.store(name), writer=False) as store:
        model = store.model(rehearsal.agreement.digest)
    assert model is not None  # its process said that it was done
    return model


def _bound(rehearsal: Rehearsal, problem: Problem) -> float | None:
    run, privacy = without_masks(rehearsal.parts.run), rehearsal.config.privacy
    if privacy is None or privacy.clips != "records":
        return None  # what is clipped as a whole is no gradient of a smooth loss
    coin = RehearsedCoin(run, SavedDraws(rehearsal.folder / DRAWS, run))
    wiring = Wiring(
        run, Lattice(rehearsal.agreement.fraction_bits), coin, relay_trusted=rehearsal.agreement.relay == "trusted"
    )
    try:
        smooth, convex = _curvature(problem, run.batch_size)
        return deviation_bound(wiring, smoothness=smooth, strong_convexity=convex, rehearsed=True).units
    except UnsupportedClaim:
        return None


def _curvature(problem: Problem, batch_size: int | None) -> tuple[float, float]:
    """(largest, smallest) eigenvalue that the Hessian of any agent's loss, or of any batch of it, can have under the problem's clipping.

    Records that are clipped take their curvature with them: what is left from below is what the losses promise, not the eigenvalues of the data.

    Raises:
        UnsupportedClaim: the clipped gradients are those of no convex and smooth loss.
    """
    if problem.losses is None:
        raise UnsupportedClaim(
            f"gradients of '{problem.kind}', clipped as they are, belong to no convex and smooth loss. Measure the difference."
        )
    smooth = problem.losses.beta if batch_size is not None else float(problem.constants.local_smoothness.max())
    return smooth, problem.losses.nu
