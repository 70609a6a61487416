"""What a party's run costs once it goes on without somebody who is lost, and whether that was reserved.

    cost of what was played and what follows  =  rounds begun under the old agreement, at its costs,  then all later rounds at the costs of the new one

The reservation stays what is guaranteed. So before the first message without the lost party, the sum has to fit it: round by round where no round costs more than
before, and else as a whole. More than was reserved is refused, and nothing more is sent (exit code 3).
"""

from dataclasses import dataclass, replace

from sottovoce.deployment.privacy import Cost, Deployed, RoundCosts
from sottovoce.deployment.store import Meter
from sottovoce.deployment.terms import Agreement, successor
from sottovoce.errors import BudgetExhausted, IncompatibleChoice
from sottovoce.experiments.own_records import own_guarantee
from sottovoce.experiments.without_data import PublicParts
from sottovoce.problems import Problem
from sottovoce.rounding import shown
from sottovoce.wording import brief

_ARITHMETIC = 1e-12  # relative: two orders of adding up the same float64 numbers; the account itself has room for 1e-9


def check_can_go_on(agreement: Agreement, deployed: Deployed) -> None:
    """Refuse an agreement that excludes who is lost where the rounds of a run hang together.

    Raises:
        IncompatibleChoice: nothing would be proved about the rounds after an exclusion.
    """
    if agreement.lost_neighbour == "exclude" and deployed.cost.kind != "infinite" and deployed.rounds is None:
        raise IncompatibleChoice(
            'lost_neighbour = "exclude" needs rounds that cost the same whatever came before them: every agent goes on from what it sent (self-noise), or adds its '
            "noise to gradients. Here differences pile up from round to round, and without somebody they would pile up otherwise. Use "
            'sv.noise.independent(law), or lost_neighbour = "wait" or "stop".'
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stage:
    """A run under one agreement, with what it costs from its very beginning.

    Attributes:
        agreement: that holds.
        parts: what all parties know.
        deployed: what the run would give away under it from the beginning; None for who has no records.
        costs: of every round, those before it under earlier agreements; None where there are no records, or nothing is promised.
        reserved: of every round when the run began.
    """

    agreement: Agreement
    parts: PublicParts
    deployed: Deployed | None
    costs: RoundCosts | None
    reserved: RoundCosts | None

    @staticmethod
    def of(agreement: Agreement, parts: PublicParts, deployed: Deployed | None) -> "Stage":
        """The beginning."""
        costs = None if deployed is None else deployed.rounds
        return Stage(agreement=agreement, parts=parts, deployed=deployed, costs=costs, reserved=costs)

    def without(
        self, lost: frozenset[str], *, after: int, committed: int, name: str, problem: Problem | None
    ) -> "Stage":
        """What follows when those who remain go on.

        Args:
            lost: names.
            after: position of the last exchange under this agreement.
            committed: position of the last exchange that this party has committed with the lost ones.
            name: of this party.
            problem: its own; None for a relay.

        Raises:
            BudgetExhausted: it would cost more than was reserved; nothing more is sent.
            ConfigError, IncompatibleChoice: those who remain cannot go on.
        """
        agreement, run = successor(self.agreement, self.parts.run, sorted(lost), after=after)
        parts = replace(self.parts, run=run)
        if problem is None or self.costs is None:
            return replace(self, agreement=agreement, parts=parts)
        deployed = own_guarantee(parts, problem, agreement=agreement, agent=name)
        if deployed.rounds is None:
            raise BudgetExhausted(_refusal(agreement, lost, Cost.infinite(), self._reserved()))
        begun = committed // run.exchanges + 1  # a round counts as a whole from its first exchange on
        costs = self.costs.before(begun).then(deployed.rounds)
        _check_fits(agreement, lost, costs, self._reserved())
        return replace(self, agreement=agreement, parts=parts, deployed=deployed, costs=costs)

    def spent_after(self, position: int) -> Meter:
        """What has been spent after an exchange, at most: a meter."""
        if self.costs is None:
            nothing = Cost.pure(0.0) if self.deployed is None else Cost.infinite()
            return nothing.describe()
        return self.costs.before(position // self.parts.run.exchanges + 1).total().describe()

    def _reserved(self) -> RoundCosts:
        assert self.reserved is not None  # there are costs
        return self.reserved


def _check_fits(agreement: Agreement, lost: frozenset[str], costs: RoundCosts, reserved: RoundCosts) -> None:
    if all(bool((now <= then).all()) for now, then in zip(costs[1:], reserved[1:], strict=True)):
        return
    found, allowed = costs.total(), reserved.total()
    room = 1.0 + _ARITHMETIC
    fits = found.value <= allowed.value * room and found.total_variation <= allowed.total_variation * room
    # Of Laplace noise a smaller value may have been reserved, which follows from every round being as it was.
    if found.kind != "gaussian" or not fits:
        raise BudgetExhausted(_refusal(agreement, lost, found, reserved))


def _refusal(agreement: Agreement, lost: frozenset[str], found: Cost, reserved: RoundCosts) -> str:
    delta = agreement.protection.delta or 0.0
    return (
        f"going on with the run {brief(agreement.run)!r} without {', '.join(sorted(lost))} would cost epsilon = {shown(found.epsilon(delta), 6)} at delta = {delta:g} in all, and "
        f"{shown(reserved.total().epsilon(delta), 6)} was reserved. Nothing more was sent. End the run with `sottovoce ledger erase`, and agree on a new one."
    )
