"""One party's problem: its own records and nobody else's, and how little one of them can change.

The sensitivity of a party's gradients follows from the clip, the divisor and the number of ITS records. A party computes it itself and holds it
against the agreement's: were the agreed number smaller, its guarantee would be false.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from sottovoce.deployment.privacy import Deployed, deployed_guarantee
from sottovoce.deployment.terms import Agreement, without_masks
from sottovoce.errors import BudgetExhausted, ConfigError
from sottovoce.experiments.build import problem_of
from sottovoce.experiments.config.config import Config
from sottovoce.experiments.config.problem import ClassificationProblem
from sottovoce.experiments.data import AgentData, records_of_agents, records_of_party
from sottovoce.experiments.privacy import sensitivities
from sottovoce.experiments.protection import Privacy
from sottovoce.experiments.whole_numbers import arithmetic_of
from sottovoce.experiments.without_data import PublicParts
from sottovoce.problems import Problem, Sensitivity
from sottovoce.rounding import shown
from sottovoce.wording import brief

_ROUNDING = 1e-12  # relative: two ways to compute the same bound may differ by this


def own_problem(config: Config, data: str | Path | Any | None, *, agent: int | str) -> Problem:
    """The problem of one agent, from its own file.

    Args:
        config: what the file says.
        data: the party's file, or a frame; all its records are learnt from. None: the agent's share of what a simulation deals out.
        agent: which one: its number, or, where the data of a simulation name their owners, its name.

    Raises:
        ConfigError: a file that does not fit what is declared, too few records for a batch, or no such agent.
    """
    if data is None:
        config, held = _share(config, agent)
    else:
        features = None if config.deployment is None else config.deployment.features
        held = records_of_party(config.problem, data, features=features)
    problem = problem_of(config, held, whole=False)
    batch, records = config.algorithm.batch_size, int(problem.sizes[0])
    if batch is not None and batch > records:
        raise ConfigError(
            f"batch_size = {batch}, and {brief(str(agent))} has {records} record(s); a batch holds distinct ones. Agree on a smaller batch."
        )
    return problem


def own_sensitivity(parts: PublicParts, problem: Problem, *, agreement: Agreement, agent: str) -> Sensitivity:
    """The largest change of this party's gradient in one round, or of its clipped update, computed from its own records.

    Args:
        parts: what all parties know.
        problem: the party's own.
        agreement: what the parties agreed on.
        agent: the party's name.

    Raises:
        ConfigError: the agreement counts on more records, or on a smaller change, so that its guarantee would not hold for this party.
    """
    number = agreement.number(agent)
    protection, records = agreement.protection, int(problem.sizes[0])
    norm = protection.norm
    found = sensitivities(replace(parts.experiment, problem=problem), norm=norm)[0]
    if protection.records and records < protection.records[number]:
        raise ConfigError(
            f"the agreement counts on at least {protection.records[number]} records of {brief(agent)}, and its file has {records}: what one record changes "
            f"would be larger than all others were told. Agree on {brief(agent)} = {records} or less in [deployment] records, under another run."
        )
    agreed = protection.sensitivity[number]
    if found > agreed * (1.0 + _ROUNDING):
        raise ConfigError(
            f"the agreement says that {_unit(protection.unit)} of {brief(agent)} changes at most {agreed:g} ({norm}) in a round, and with its {records} record(s) "
            f"it is {float(found):g}: the guarantee would not hold. Make the agreement from the same file, with the numbers of records that parties have."
        )
    if isinstance(found, Sensitivity):
        return found
    return Sensitivity(
        found, unit=protection.unit, adjacency=protection.adjacency, norm=norm, compares="any two models"
    )


def own_guarantee(parts: PublicParts, problem: Problem, *, agreement: Agreement, agent: str) -> Deployed:
    """What a run gives away of this party's data to those whom the agreement declares, computed by the party itself.

    Args:
        parts: what all parties know.
        problem: the party's own.
        agreement: what the parties agreed on.
        agent: the party's name.

    Raises:
        ConfigError: as `own_sensitivity`.
        BudgetExhausted: those who look would learn more than [privacy] budget of the file allows anybody.
        UnsupportedClaim: nothing is proved for it.
    """
    change, privacy = own_sensitivity(parts, problem, agreement=agreement, agent=agent), parts.privacy
    masked = parts.run.algorithm.aggregation is not None
    found = deployed_guarantee(
        without_masks(parts.run),
        agent=agreement.number(agent),
        sensitivity=change,
        arithmetic=arithmetic_of(parts.experiment, problem, 0),
        fraction_bits=agreement.fraction_bits,
        collude="all" if masked else agreement.collude,
        relay_trusted=agreement.relay == "trusted" and not masked,
        released_to=agreement.releases,
        losses=privacy.losses,
        unit=privacy.unit,
        adjacency=privacy.adjacency,
    )
    if masked:  # this is what everybody could read who knows all masks; now what they hide is counted
        from sottovoce.deployment.gopa_parties import masked_guarantee, plan_of

        found = masked_guarantee(plan_of(parts.run, agreement), found)
    _refuse_over_budget(privacy, found)
    return found


def _refuse_over_budget(privacy: Privacy, found: Deployed) -> None:
    delta = 0.0 if privacy.delta is None else privacy.delta
    needed = found.guarantee.epsilon(delta)
    if privacy.budget is not None and needed > privacy.budget.epsilon:
        raise BudgetExhausted(
            f"the run would let {found.guarantee.observer} have epsilon = {shown(needed, 6)} at delta = {delta:g}; [privacy] budget allows "
            f"{privacy.budget.epsilon:g}. Agree on more noise, fewer rounds or a larger budget."
        )


def _unit(unit: str) -> str:
    return {"record": "one record", "person": "one person", "agent": "all data"}[unit]


def _share(config: Config, agent: int | str) -> tuple[Config, AgentData]:
    """What a simulation deals out to one agent; the number of classes is that of all records, where none is declared."""
    data = records_of_agents(config.problem, config.topology.num_agents, config.experiment.seed)
    number = _number(data, agent)
    problem = config.problem
    if isinstance(problem, ClassificationProblem) and not (problem.classes or problem.declared_classes):
        labels = data.records[1] if data.test is None else [*data.records[1], data.test[1]]
        classes = int(max(part.max() for part in labels)) + 1
        config = config.model_copy(update={"problem": problem.model_copy(update={"classes": classes})})
    features, targets = data.records
    persons = None if data.persons is None else [data.persons[number]]
    return config, replace(
        data, records=([features[number]], [targets[number]]), test=None, persons=persons, names=None
    )


def _number(data: AgentData, agent: int | str) -> int:
    agents = len(data.records[0])
    if isinstance(agent, str):
        if data.names is None or agent not in data.names:
            known = "they have none" if data.names is None else ", ".join(map(brief, data.names))
            raise ConfigError(
                f"the data name no agent {brief(agent)!r} ({known}). Give its number, from 0 to {agents - 1}."
            )
        return data.names.index(agent)
    if not 0 <= agent < agents:
        raise ConfigError(f"there is no agent {agent}; agents are 0 to {agents - 1}.")
    return agent
