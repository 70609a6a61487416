"""One party of a run that a file describes: what it is asked to agree to, what that costs it, and how it then takes part.

    joining = prepare_joining(config, roster, "hospital-3", "my.csv")      reads the file, once; nothing is sent, nothing is reserved
    joining.agreement.digest                                               what people compare before they accept
    take_part(joining, place, data="my.csv")                               reserves, and runs until it is done
    write_own_model(joining, served.model, folder)

A party computes sensitivity and guarantee itself, from its own records; the agreement's numbers only have to agree with them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.deployment.agent import Randomness, Wiring, own_of
from sottovoce.deployment.identity import Roster
from sottovoce.deployment.integers import Lattice, SecretRandomness
from sottovoce.deployment.ledger import Ledger
from sottovoce.deployment.party import AgentWork, Course, GoesOn, Place, Progress, RelayWork, Served, Work, run_party
from sottovoce.deployment.privacy import Cost, Deployed
from sottovoce.deployment.store import Meter, Reservation, RunRecord
from sottovoce.deployment.terms import Agreement, Coin, PublicCoin, check_exclusion
from sottovoce.errors import BudgetExhausted, ConfigError, IncompatibleChoice, ProtocolError
from sottovoce.experiments.agreed import agents_of, agreement_on, members_of
from sottovoce.experiments.config.config import Config
from sottovoce.experiments.guarantee_words import in_words
from sottovoce.experiments.lost_parties import Stage, check_can_go_on
from sottovoce.experiments.model_file import KINDS, write_model
from sottovoce.experiments.own_records import own_guarantee, own_problem
from sottovoce.experiments.privacy import statement
from sottovoce.experiments.without_data import PublicParts, public_parts
from sottovoce.problems import Problem
from sottovoce.reprs import short_repr
from sottovoce.rounding import shown
from sottovoce.simulation import model_of
from sottovoce.wording import brief

if TYPE_CHECKING:
    from sottovoce.deployment.gopa_parties import Records
    from sottovoce.deployment.identity import Session

_ACCOUNTED = 1e-6  # relative: another version of SciPy may compute the same account with other last digits
RandomnessOf = Callable[["Session | None"], Randomness]
FOR_ITSELF = "made among parties for one of them: the agreement gives it to nobody else, and the guarantee does not count whoever gets it; not for release"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Joining:
    """A party that is ready to join a run.

    Attributes:
        config: what the file says.
        name: of the party.
        agreement: what it would accept.
        parts: what all parties know.
        problem: its own; None for a relay, a board or a beacon, which have no records.
        deployed: what the run gives away of its records; None for those.
    """

    config: Config
    name: str
    agreement: Agreement
    parts: PublicParts
    problem: Problem | None
    deployed: Deployed | None

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def role(self) -> str:
        """What it does: "agent", "relay", "board" or "beacon"."""
        return next(member.role for member in self.agreement.members if member.name == self.name)

    @property
    def has_records(self) -> bool:
        """Whether it learns from data of its own."""
        return self.problem is not None

    @property
    def names(self) -> tuple[str, ...]:
        """Agents in the order of their numbers, then the relay where there is one."""
        return tuple(member.name for member in self.agreement.members if member.role in ("agent", "relay"))

    @property
    def releasable(self) -> bool:
        """Whether its model may be given to others: the guarantee is finite and counts them.

        Who gets one party's model has seen more than the average that a guarantee for a smaller coalition speaks of, unless all models are the same.
        """
        if self.deployed is None or self.agreement.releases == "own" or self.deployed.cost.kind == "infinite":
            return False
        return self.agreement.collude == "all" or self.parts.run.topology.relay


def prepare_joining(config: Config, roster: Roster, name: str, data: Path | None, *, shares: bool = False) -> Joining:
    """Work out what a party would agree to, and what it would cost.

    Args:
        config: what the file says; it has a table [deployment].
        roster: who takes part.
        name: of the party.
        data: its file; None for whoever has no records.
        shares: in a rehearsal, take the party's share of what a simulation deals out in place of a file.

    Raises:
        ConfigError: the file leaves something open, or the party's records do not fit what was agreed on.
        IncompatibleChoice: parties cannot run it.
        UnsupportedClaim: nothing is proved for it.
    """
    members = members_of(roster)
    parts = public_parts(config, names=agents_of(roster))
    agreed = agreement_on(config, parts, members)
    if agreed.lost_neighbour == "exclude":
        check_exclusion(parts.run)
    role = next((member.role for member in members if member.name == name), None)
    if role is None:
        raise ConfigError(
            f"{brief(name)!r} is nobody of the roster; it lists {', '.join(brief(each.name) for each in members)}. Give one of them after --as."
        )
    if role != "agent":
        _refuse_data(name, role, data)
        return Joining(config=config, name=name, agreement=agreed, parts=parts, problem=None, deployed=None)
    if data is None and not shares:
        raise ConfigError(f"{brief(name)} is an agent and learns from its own records. Give its file: --data my.csv")
    problem = own_problem(config, data, agent=agreed.number(name) if data is None else name)
    deployed = own_guarantee(parts, problem, agreement=agreed, agent=name)
    check_can_go_on(agreed, deployed)
    return Joining(config=config, name=name, agreement=agreed, parts=parts, problem=problem, deployed=deployed)


def check_line(joining: Joining, *, relayed: bool) -> None:
    """Refuse masks that are counted on where whoever carries the messages could help the board.

    A board that keeps a publication back, together with a relay that keeps it from the neighbours, could have the masks revealed that hide it.

    Raises:
        IncompatibleChoice: with what to do.
    """
    masked = joining.parts.run.algorithm.aggregation is not None
    if relayed and masked and joining.agreement.collude != "all":
        raise IncompatibleChoice(
            f"under GOPA with collude = {joining.agreement.collude} masks are counted on, and over a relay they hide nothing from a board that conspires with it. Nothing was sent. Agree "
            f'on collude = "all", or let the parties talk directly, without --relay.'
        )


def run_cost(joining: Joining, ledger: Ledger) -> Cost:
    """What the ledger would keep of a run: of Laplace noise the pure epsilon, or a pair with a share of delta where that adds less."""
    if joining.deployed is None:
        return Cost.pure(0.0)
    cost = joining.deployed.cost
    if cost.kind != "pure":
        return cost
    return min(cost, joining.deployed.cost_at(ledger.next_share()), key=ledger.with_run)


def take_part(
    joining: Joining,
    place: Place,
    *,
    data: Path | None,
    randomness: RandomnessOf | None = None,
    coin: Coin | None = None,
    progress: Callable[[Progress], None] = lambda progress: None,
    moment: Callable[[str], None] = lambda name: None,
) -> Served:
    """Take part until the run is done, or others were not heard of for too long; given again, go on.

    Args:
        joining: what this party has accepted.
        place: who and where it is.
        data: its file, named where it has to be put back; the ledger keeps a digest of the records that were read from it, and it is not read again.
        randomness: in rehearsals and tests, where random numbers come from; None: the operating system.
        coin: in rehearsals, the public coin of a simulation; None: that of the agreement.
        progress: told from time to time.
        moment: for tests that end the process somewhere.

    Raises:
        BudgetExhausted: the ledger does not allow the run, or less was reserved when it began than it costs by this version; nothing was sent.
        ConfigError: the run began with another file of records.
        ProtocolError, StoreError: as `run_party`.
    """
    check_line(joining, relayed=place.relayed)
    agreed, ledger = joining.agreement, Ledger(place.store)
    records = _digest_of(joining.problem, ledger)
    _refuse_other_records(ledger, agreed, records, data)
    _refuse_larger_cost(ledger, joining)

    def reserve() -> Reservation:
        observer = "nobody's records" if joining.deployed is None else joining.deployed.guarantee.observer
        return ledger.reserve(
            agreed.run,
            agreed.digest,
            run_cost(joining, ledger),
            unit=agreed.protection.unit,
            adjacency=agreed.protection.adjacency,
            observer=observer,
            data=records,
        )

    if joining.parts.run.algorithm.aggregation is not None:
        from sottovoce.deployment.gopa_parties import run_gopa  # its sums load what other parties do not need

        return run_gopa(
            agreed,
            joining.parts.run,
            place,
            _records(joining, randomness),
            reserve=reserve,
            spent=lambda rounds: _spent(joining, rounds).describe(),
            progress=progress,
            moment=moment,
        )
    return run_party(
        agreed,
        place,
        lambda session: _work(joining, session, randomness, coin),
        reserve=reserve,
        spent=_meter(joining),
        goes_on=_goes_on(joining, randomness, coin) if agreed.lost_neighbour == "exclude" else None,
        progress=progress,
        moment=moment,
    )


def _goes_on(joining: Joining, randomness: RandomnessOf | None, coin: Coin | None) -> GoesOn:
    """How this party goes on without those who are lost: what follows, if it costs no more than was reserved."""
    stages = {joining.agreement.digest: Stage.of(joining.agreement, joining.parts, joining.deployed)}

    def goes_on(now: Course, lost: frozenset[str], after: int, committed: int) -> Course:
        stage = stages[now.agreement.digest].without(
            lost, after=after, committed=committed, name=joining.name, problem=joining.problem
        )
        stages[stage.agreement.digest] = stage
        following = replace(joining, agreement=stage.agreement, parts=stage.parts, deployed=stage.deployed)
        return Course(stage.agreement, lambda session: _work(following, session, randomness, coin), stage.spent_after)

    return goes_on


def _digest_of(problem: Problem | None, ledger: Ledger) -> str:
    """The digest of the records that this party learns from; empty where it has none.

    Of what was read, not of the file: one that is exchanged between two readings would give a run the digest of records that it never saw.
    """
    if problem is None:
        return ""
    own = own_of(problem)
    parts = [np.ascontiguousarray(part) for part in problem.records(own.data, np.arange(own.records))]
    return ledger.keyed_digest(
        chunk for part in parts for chunk in (f"{part.dtype} {part.shape} ".encode(), part.tobytes())
    )


def _refuse_other_records(ledger: Ledger, agreed: Agreement, records: str, data: Path | None) -> None:
    """Refuse to go on with other records than a run began with: what was reserved is what THEY can cost, and fewer of them would cost more."""
    begun = _running(ledger, agreed)
    if begun is None:
        return
    reserved = ledger.standing()[begun.entry]
    if reserved.data != records:
        raise ConfigError(
            f"the run {brief(agreed.run)!r} began with another file than {brief(str(data or 'its share'), 200)} is now, and its cost was reserved for the records of that one. "
            f"Nothing was sent. Put that file back, or end the run with `sottovoce ledger erase` and agree on a new one."
        )


def _running(ledger: Ledger, agreed: Agreement) -> RunRecord | None:
    """The run of an agreement as it stands, perhaps under one that follows; None where it is not under way."""
    first = ledger.store.run(agreed.digest)
    if first is None:
        return None
    return next((run for run in ledger.store.runs() if run.entry == first.entry and run.status == "running"), None)


def _refuse_larger_cost(ledger: Ledger, joining: Joining) -> None:
    """Refuse to go on with a run of which this program proves less than what was reserved for it, as after an upgrade that mends an account."""
    begun, delta = _running(ledger, joining.agreement), ledger.created.delta
    if begun is None or joining.deployed is None:
        return
    reserved = ledger.standing()[begun.entry].cost
    composed = reserved.kind == "epsilon-delta"
    found = joining.deployed.cost_at(reserved.at_delta) if composed else joining.deployed.cost
    if found.epsilon(delta) > reserved.epsilon(delta) * (1.0 + _ACCOUNTED):
        raise BudgetExhausted(
            f"epsilon = {shown(reserved.epsilon(delta), 6)} was reserved for the run {brief(joining.agreement.run)!r} when it began, and this version of Sottovoce "
            f"finds that it costs {shown(found.epsilon(delta), 6)} at delta = {delta:g}. Nothing was sent. End the run with `sottovoce ledger erase`, and agree on a "
            f"new one."
        )


def write_own_model(joining: Joining, parameters: np.ndarray, folder: Path) -> bool:
    """Write model.json and model.safetensors of a party, and say whether they may be released.

    Raises:
        ConfigError: models of this kind of problem have no file.
    """
    experiment, deployed = joining.parts.experiment, joining.deployed
    if deployed is None or experiment.problem.kind not in KINDS:
        raise ConfigError(f"a model of {experiment.problem.kind!r} cannot be written to a file.")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_model(
        folder,
        model_of(experiment.describe(), parameters),
        guarantee=[*in_words(statement(experiment, [deployed.guarantee]))],
        configuration=joining.config.as_dict(),
        version=version("sottovoce"),
        releasable=joining.releasable,
        why=None if joining.releasable else FOR_ITSELF,
    )
    return joining.releasable


def _work(joining: Joining, session: "Session", randomness: RandomnessOf | None, coin: Coin | None) -> Work:
    agreed, run, names = joining.agreement, joining.parts.run, joining.names
    drawn: Randomness
    if randomness is None:
        drawn = SecretRandomness(
            run.noise.law, run.dimension, lambda other: session.pair_key(names[other]), run=agreed.digest
        )
    else:
        drawn = randomness(session)
    public = PublicCoin(agreed.digest) if coin is None else coin
    wiring = Wiring(run, Lattice(agreed.fraction_bits), public, relay_trusted=agreed.relay == "trusted")
    if joining.problem is None:
        return RelayWork(wiring, names, drawn)
    return AgentWork(wiring, names, agreed.number(joining.name), own_of(joining.problem), drawn)


def _records(joining: Joining, randomness: RandomnessOf | None) -> "Records | None":
    """What an agent of a run with GOPA has beside its key; None for board and beacon."""
    from sottovoce.deployment.gopa_parties import Records

    if joining.problem is None:
        return None
    run, drawn = joining.parts.run, None if randomness is None else randomness(None)
    own = own_of(joining.problem)
    return Records(own, drawn or SecretRandomness(run.noise.law, run.dimension, _no_pair, run=joining.agreement.digest))


def _no_pair(other: int) -> bytes:
    raise ProtocolError(f"noise shared with agent {other} was asked for; under GOPA pairs share masks alone.")


def _spent(joining: Joining, rounds: int) -> Cost:
    if joining.deployed is None or rounds == 0:
        return Cost.pure(0.0)
    return joining.deployed.by_position[min(rounds, joining.agreement.rounds) - 1]


def _meter(joining: Joining) -> Callable[[int], Meter]:
    if joining.deployed is None:
        nothing = Cost.pure(0.0).describe()
        return lambda position: nothing
    costs = joining.deployed.by_position
    return lambda position: costs[position].describe()


def _refuse_data(name: str, role: str, data: Path | None) -> None:
    if data is not None:
        raise ConfigError(f"{brief(name)} is the {role}, which has no records. Leave --data out.")
