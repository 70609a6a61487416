"""What a fit may say about privacy, and what its model may be used for: the values in `guarantees_`."""

import math
from dataclasses import dataclass

from sottovoce.accounting import Guarantee
from sottovoce.problems import Adjacency, Unit
from sottovoce.rounding import shown

INVENTED = "the {agents} agents are invented: records were dealt out to them at random"
CHOSEN_BY_SCORES = (
    "choosing among fits by scores on private records, as GridSearchCV does: a model chosen so has no guarantee"
)
LEARNT_BEFORE = (
    "whatever was learnt from the records before this fit, as a StandardScaler or an imputer in a pipeline does"
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FitGuarantee:
    """What is proven of a fit for one observer, and why its model must not be released.

    Attributes:
        epsilon: proven for this observer at `delta`.
        delta: the one that was asked for.
        observer: who looks.
        unit: what is protected, "record", "person" or "agent".
        adjacency: how two worlds differ.
        fits: how many fits on the same records are counted; more than one after a search.
        guarantees: what the accountant states of each fit.
        assumptions: what it rests on.
        notes: what it does not cover.
        releasable: whether the model may be released.
        reason: why not.
    """

    epsilon: float
    delta: float
    observer: str
    unit: Unit
    adjacency: Adjacency
    fits: int
    guarantees: tuple[Guarantee, ...]
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]
    releasable: bool
    reason: str

    @property
    def statement(self) -> str:
        """All of it in words."""
        what = {"record": "one record", "person": "all records of one person", "agent": "all data of one agent"}[
            self.unit
        ]
        change = "replaced" if self.adjacency == "replace" else "added or removed"
        if math.isinf(self.epsilon):
            reasons = " ".join(dict.fromkeys(one.reason for one in self.guarantees if one.validity == "infinite"))
            return f"No guarantee for {self.observer}: epsilon is infinite. {reasons}"
        fits = "this fit" if self.fits == 1 else f"all {self.fits} fits on these records together"
        head = f"epsilon = {shown(self.epsilon, 6)} at delta = {self.delta:g} for {self.observer}, of {fits}; protected: {what} ({change})."
        use = "The model may be released." if self.releasable else f"The model must not be released: {self.reason}."
        return f"{head} {use} It assumes: {'; '.join(self.assumptions)}. Not covered: {'; '.join(self.notes)}."

    def __repr__(self) -> str:
        fits = "1 fit" if self.fits == 1 else f"{self.fits} fits"
        return (
            f"FitGuarantee(epsilon={shown(self.epsilon, 6)}, delta={self.delta:g}, observer={self.observer!r}, unit={self.unit!r}, "
            f"adjacency={self.adjacency!r}, of {fits}, releasable={self.releasable})"
        )

    def __str__(self) -> str:
        return self.statement


def stated(found: Guarantee, *, delta: float, seed: int, premises: tuple[str, ...], sees_model: bool) -> FitGuarantee:
    """The guarantee of one simulated fit.

    Args:
        found: what the accountant states.
        delta: at which epsilon is stated.
        seed: from which the fit was simulated.
        premises: what it rests on beyond the account.
        sees_model: whether the observer is given the fitted model.
    """
    notes: tuple[str, ...] = (
        CHOSEN_BY_SCORES,
        LEARNT_BEFORE,
        "scores on private records, which are exact statistics of them",
        "any further fit on these records, which is one more release",
    )
    if not sees_model:
        notes = (
            f"giving the fitted model to {found.observer}; ask for observer='...+final_model' to count that",
            *notes,
        )
    return FitGuarantee(
        epsilon=found.epsilon(delta),
        delta=delta,
        observer=found.observer,
        unit=found.unit,
        adjacency=found.adjacency,
        fits=1,
        guarantees=(found,),
        assumptions=(*found.assumptions, *premises),
        notes=notes,
        releasable=False,
        reason=f"it was simulated, and anyone can draw its noise again from random_state = {seed}",
    )
