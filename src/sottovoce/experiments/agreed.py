"""From a file and a roster to the agreement of a run: all numbers resolved, nobody's data read.

sensitivity of agent k     by the same functions as a simulation, from the clip, the batch or the agreed number of records
noise                      as the file gives it; by an epsilon, calibrated from these sensitivities
fraction bits              as the file gives them; else chosen from the size of the noise
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from sottovoce.deployment.terms import (
    Agreement,
    Declared,
    Member,
    Promise,
    Protection,
    agreement_of,
    differences,
    without_masks,
)
from sottovoce.errors import ConfigError
from sottovoce.experiments.config.config import Config
from sottovoce.experiments.config.deployment import DeploymentSection
from sottovoce.experiments.config.privacy import PrivacySection
from sottovoce.experiments.privacy import sensitivities
from sottovoce.experiments.whole_numbers import chosen_fraction_bits
from sottovoce.experiments.without_data import PublicParts, public_parts, watchers
from sottovoce.problems import Sensitivity
from sottovoce.wording import brief

_ORDER = ("agent", "relay", "board", "beacon")


class Listed(Protocol):
    """What is needed of an entry of a roster."""

    @property
    def name(self) -> str:
        """By which others know a member."""

    @property
    def role(self) -> str:
        """What it does."""

    @property
    def identity_key(self) -> bytes:
        """The key that it signs with."""


def agreement(config: Config, roster: Iterable[Listed], *, agreed: Agreement | None = None) -> Agreement:
    """The agreement on the run of a file among the members of a roster.

    Args:
        config: what the file says; it has a table [deployment].
        roster: the members. Agents are numbered in the order of their names.
        agreed: the agreement that another party made, to be held against this file and roster; a network that was drawn from a seed is taken from it.

    Raises:
        ConfigError: something is missing, or cannot be known without data; or another party's agreement is not on this file and roster.
        IncompatibleChoice: something that no parties can run.
    """
    members = members_of(roster)
    names = tuple(member.name for member in members if member.role == "agent")
    made = agreement_on(config, public_parts(config, names=names, agreed=agreed), members)
    if agreed is not None and (found := differences(made, agreed, most=5)):
        raise ConfigError(
            f"another party's agreement is not the one on this file and roster (first: here, second: there): {'; '.join(found)}. Compare both files."
        )
    return made


def agreement_on(config: Config, parts: PublicParts, members: Sequence[Member]) -> Agreement:
    """As `agreement`, with the public parts at hand.

    Args:
        config: what the file says.
        parts: made of it for these members.
        members: agents first, in the order of their numbers.
    """
    section = _section(config)
    declared = Declared(
        run=section.run,
        fraction_bits=_fraction_bits(section, parts),
        collude=section.collude,
        relay=section.relay,
        releases=section.releases,  # type: ignore[arg-type]
        lost_neighbour=section.lost_neighbour,
        minimum_agents=section.minimum_agents or 0,
        exclude_after=section.silence,
        time_limit=section.time_limit,
    )
    return agreement_of(
        parts.run,
        declared=declared,
        members=members,
        protection=_protection(config, parts),
        problem=_problem(config, parts),
    )


def agents_of(roster: Iterable[Listed]) -> tuple[str, ...]:
    """The names of the agents of a roster, in the order of their numbers."""
    return tuple(member.name for member in members_of(roster) if member.role == "agent")


def members_of(roster: Iterable[Listed]) -> tuple[Member, ...]:
    """The members of a roster, agents first, by their names.

    Raises:
        ConfigError: a role that there is not.
    """
    entries = list(roster)
    for each in entries:
        if each.role not in _ORDER:
            raise ConfigError(
                f"the roster gives {brief(each.name)!r} the role {brief(each.role)!r}; known: {', '.join(_ORDER)}."
            )
    ordered = sorted(entries, key=lambda each: (_ORDER.index(each.role), each.name))
    return tuple(Member(name=each.name, role=each.role, key=each.identity_key.hex()) for each in ordered)  # type: ignore[arg-type]


def _section(config: Config) -> DeploymentSection:
    if config.deployment is None:
        raise ConfigError(
            "[deployment]: this section is missing. Parties agree on the name of the run and on who takes part: add run and roster (docs/deployment.md)."
        )
    return config.deployment


def _fraction_bits(section: DeploymentSection, parts: PublicParts) -> int:
    if section.fraction_bits is not None:
        return section.fraction_bits
    # Masks are whole numbers of any unit: the resolution is that of the own noise under them.
    alone = replace(parts.experiment, algorithm=without_masks(parts.run).algorithm)
    return chosen_fraction_bits(alone, watchers(section))


def _protection(config: Config, parts: PublicParts) -> Protection:
    section, privacy = config.privacy, parts.privacy
    assert isinstance(section, PrivacySection)  # `public_parts` refuses a file without it
    law = parts.run.noise.law
    norm = "l2" if law is None else law.norm
    found = sensitivities(parts.experiment, norm=norm)
    persons = config.problem.records_per_person if section.unit == "person" else None
    return Protection(
        unit=section.unit,
        adjacency=section.adjacency,
        delta=privacy.delta,
        clip=section.clip,
        clip_norm=section.clip_norm,
        clips=section.clips,
        batch_size=parts.run.batch_size,
        records_per_person=persons,
        losses=None
        if privacy.losses is None
        else Promise(beta=float(privacy.losses.beta), nu=float(privacy.losses.nu)),
        records=parts.records,
        sensitivity=tuple(map(float, found)),
        norm=norm,
        same_model=any(isinstance(each, Sensitivity) and each.compares == "same model" for each in found),
    )


def _problem(config: Config, parts: PublicParts) -> dict[str, Any]:
    """What is learnt and what columns mean, as plain values; nothing that a party's records say."""
    described = parts.problem.describe()
    kept = {
        name: value for name, value in described.items() if name not in ("num_agents", "sizes", "clip", "dimension")
    }
    columns = (
        None
        if parts.schema is None
        else {name: value for name, value in parts.schema.as_dict().items() if name != "owner"}
    )
    preparation = None if parts.preparation is None else parts.preparation.as_dict()
    return {
        **kept,
        "columns": columns,
        "preparation": preparation,
        "intercept": config.problem.intercept,
        "unit_norm": config.problem.unit_norm,
    }
