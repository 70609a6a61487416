"""A search over parameters that costs only its fits: every candidate learns from the private records and is scored on public ones.

All fits see the same records, so what they give away composes: Gaussian guarantees add up in mu^2 (Dong, Roth & Su 2022), each fit with noise of
its own. Scores on public records are free, so the chosen model has the guarantee of all fits together, not that of its own fit.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import ParameterGrid

from sottovoce.accounting import gaussian
from sottovoce.errors import ConfigError
from sottovoce.rounding import shown
from sottovoce.sklearn.decentralized import Decentralized
from sottovoce.sklearn.demands import demands_of
from sottovoce.sklearn.owners import owned_records
from sottovoce.sklearn.statement import CHOSEN_BY_SCORES, INVENTED, FitGuarantee

# What all fits must have in common for one statement about all of them to exist.
COMMON = ("delta", "observer", "unit", "adjacency", "owner", "agents", "person", "records_per_person", "random_state")


class Tried(NamedTuple):
    """One candidate."""

    parameters: dict[str, Any]
    score: float  # on the public records
    epsilon: float  # of this fit alone, for the first observer


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Search:
    """What a search found.

    Attributes:
        best_estimator: the fit with the highest score; its `guarantees_` are those of all fits together.
        best_parameters: of that candidate.
        tried: every candidate, in the order of the grid.
        guarantees: of all fits together, for each observer.
    """

    best_estimator: Any
    best_parameters: dict[str, Any]
    tried: tuple[Tried, ...]
    guarantees: list[FitGuarantee]

    @property
    def epsilon(self) -> float:
        """Of all fits together, for the first observer."""
        return self.guarantees[0].epsilon

    def __repr__(self) -> str:
        return f"Search({len(self.tried)} fits, epsilon={shown(self.epsilon, 6)} of all together, best_parameters={self.best_parameters!r})"

    def __str__(self) -> str:
        best = max(one.score for one in self.tried)
        return f"{len(self.tried)} fits, best score {best:.4g} on public records with {self.best_parameters}. {self.guarantees[0]}"


def search(
    estimator: Any,
    grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]],
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    public: tuple[Any, Any],
    scoring: Any = None,
) -> Search:
    """Fit every candidate on the private records, and choose by the score on public ones.

    Args:
        estimator: one of this package, with everything set that decides privacy.
        grid: parameter -> values to try, as in scikit-learn's `ParameterGrid`.
        X: the private records.
        y: their targets.
        groups: the owner of every private record, where `owner` names no column.
        public: (X, y) of records that hide nothing: what the scores say about them is covered by no guarantee.
        scoring: as in scikit-learn; None is the estimator's own `score`.

    Raises:
        ConfigError: another estimator, an empty grid, or a grid over what all fits must have in common.
    """
    candidates = _candidates(estimator, grid)
    scorer = check_scoring(estimator, scoring=scoring)
    fits = _fits(estimator, candidates, X, y, groups)
    scores = [float(scorer(fit, *public)) for fit in fits]
    best = int(np.argmax(scores))
    dealt = () if estimator.agents is None else (INVENTED.format(agents=estimator.agents),)
    together = [_composed(found, dealt) for found in zip(*(fit.guarantees_ for fit in fits), strict=True)]
    tried = tuple(
        Tried(candidate, score, fit.guarantees_[0].epsilon)
        for candidate, score, fit in zip(candidates, scores, fits, strict=True)
    )
    fits[best].guarantees_ = together
    return Search(best_estimator=fits[best], best_parameters=candidates[best], tried=tried, guarantees=together)


def _candidates(estimator: Any, grid: Any) -> list[dict[str, Any]]:
    """What is tried; refuses what one guarantee could not be stated for."""
    if not isinstance(estimator, Decentralized):
        raise ConfigError(
            f"search takes an estimator of sottovoce.sklearn, not a {type(estimator).__name__}: other steps might learn from the private "
            f"records at no stated price. Prepare X first, by rules that look at no record."
        )
    candidates: list[dict[str, Any]] = list(ParameterGrid(grid))
    varied = sorted({name for one in candidates for name in one if name in COMMON})
    if varied or not any(candidates):
        what = f"the grid varies {', '.join(varied)}" if varied else "the grid is empty"
        raise ConfigError(
            f"{what}; all fits need the same {', '.join(COMMON)}, so that one guarantee can be stated for all. Vary others, such as clip."
        )
    return candidates


def _fits(estimator: Decentralized, candidates: list[dict[str, Any]], X: Any, y: Any, groups: Any) -> list[Any]:
    """One fit for each candidate: the same owners, and noise of its own."""
    given, name = estimator.get_params(deep=False), type(estimator).__name__
    seed, *_ = [demands_of({**given, **one}, name).seed for one in candidates]  # all are checked before the first fit
    common: dict[str, Any] = {}
    if estimator.agents is not None:
        # Dealt out once: an agent must be the same in all fits for its data to be one unit.
        dealt = owned_records(None, groups, estimator.agents, count=len(y), seed=seed)
        groups = np.empty(len(y), dtype=np.int64)
        for agent, rows in enumerate(dealt.rows):
            groups[rows] = agent
        common["agents"] = None
    # The same seed would draw the same noise in every fit, and two fits would show its shape.
    seeds = np.random.SeedSequence(seed).generate_state(len(candidates), dtype=np.uint32)
    made = [
        clone(estimator).set_params(**candidate, **common, random_state=int(own))
        for candidate, own in zip(candidates, seeds, strict=True)
    ]
    return [one.fit(X, y, groups=groups) for one in made]


def _composed(found: tuple[FitGuarantee, ...], premises: tuple[str, ...] = ()) -> FitGuarantee:
    """What all fits together give away to one observer; `premises` are those of the search itself."""
    first, parts = found[0], tuple(part for one in found for part in one.guarantees)
    notes = tuple(note for note in first.notes if note != CHOSEN_BY_SCORES)
    epsilon, delta = _together(found)
    return replace(
        first,
        epsilon=epsilon,
        delta=delta,
        fits=len(found),
        guarantees=parts,
        assumptions=(*dict.fromkeys(said for one in found for said in one.assumptions), *premises),
        notes=("what the scores say about the records that were declared public", *notes),
        reason="all fits were simulated, and anyone can draw their noise again from random_state",
    )


def _together(found: tuple[FitGuarantee, ...]) -> tuple[float, float]:
    """(epsilon, delta) of all fits: squares of mu add up; where a guarantee has no mu, epsilons and deltas do."""
    sizes = [part.mu for one in found for part in one.guarantees]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return sum(one.epsilon for one in found), sum(one.delta for one in found)
    return gaussian.epsilon(math.hypot(*known), found[0].delta), found[0].delta
