"""sv.Question: what is asked of a guarantee, as one value that is checked once and passed on whole.

It says how long a run is, what is protected, how much one unit can change, and what is promised about the losses. Who looks, and at which network,
algorithm and noise, is not part of it, so that one question can be asked of several; nor are epsilon and delta, which are read off the answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.accounting.question.participation import Participation, Poisson, check_fits
from sottovoce.errors import ConfigError
from sottovoce.numbers import chosen, positive_numbers, whole
from sottovoce.problems import Adjacency, ConvexSmooth, Persons, Sensitivity, Unit
from sottovoce.reprs import short_repr
from sottovoce.resources import refuse_too_many_rounds


class Unsaid(str):
    """A default that the caller did not write; equal to the same word when written."""

    __slots__ = ()


UNIT = cast("Unit", Unsaid("agent"))
ADJACENCY = cast("Adjacency", Unsaid("replace"))
PARTICIPATION = cast("Participation", Unsaid("every-round"))


_EVERY_ROUND = {  # why a unit of several records takes part in every round
    "agent": "an agent's data enter every round",
    "person": "the records of one person may enter different rounds, and several of them one batch, so that neither rounds without that "
    "person nor the secret draw of one record limits what it shows",
}


class MissingNumber(ConfigError, TypeError):
    """A question without the number of rounds, or without a sensitivity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a guarantee is asked for.

    Attributes:
        rounds: exchanges. The gradient of the last round counts only where it is sent or released.
        sensitivity: the largest change of one round's gradient when the protected unit changes, in the norm of the noise's law (l1 for
            Laplace, l2 otherwise). unit="agent": between any two gradients of the agent, unless `same_model` says otherwise.
            unit="record" or "person": at the same model. One number, or one per agent. A plain number is the caller's claim; what
            `problem.sensitivity` returns says itself what it is true for.
        unit: what is protected: the agent's whole data, all records of one person, or one record. All records of a person are at one agent.
        adjacency: how two worlds differ; it must be the one the sensitivity was computed for.
        participation: rounds in which the protected record takes part.
        losses: a promise about all local losses, or None.
        agent: whose data; None is the worst agent outside the observer.
        same_model: whether the sensitivity compares gradients at the same model only; None: for a record and a person yes; for an agent, as a
            `Sensitivity` says of itself, and yes under losses with nu > 0, whose gradients move apart with the models.

    Raises:
        ConfigError: numbers or words that say nothing, or that contradict each other.
    """

    rounds: int
    sensitivity: ArrayLike
    unit: Unit = "agent"
    adjacency: Adjacency = "replace"
    participation: Participation = "every-round"
    losses: ConvexSmooth | None = None
    agent: int | None = None
    same_model: bool | None = None

    def __repr__(self) -> str:
        return short_repr(self)

    def __post_init__(self) -> None:
        whole("rounds", self.rounds)
        refuse_too_many_rounds(self.rounds)
        chosen("unit", self.unit, get_args(Unit))
        chosen("adjacency", self.adjacency, get_args(Adjacency))
        object.__setattr__(self, "sensitivity", _plain(self.sensitivity))
        _check_losses(self)
        _check_same_model(self)
        _check_participation(self)
        for one in self._marked:
            _check_marks(one, self)
        _refuse_two_kinds_of_persons(self._marked)

    @property
    def computed(self) -> bool:
        """Whether a problem computed the sensitivity from its clipping; else it is the caller's claim."""
        given = self.sensitivity
        return isinstance(given, Sensitivity) or (isinstance(given, tuple) and len(self._marked) == len(given))

    @property
    def compares_same_model(self) -> bool:
        """Whether the sensitivity compares gradients at the same model only.

        A record's and a person's do. An agent's does where the losses are promised to be strongly convex, since such gradients move apart with the models.
        """
        if self.same_model is not None:
            return bool(self.same_model)
        marked = any(one.compares == "same model" for one in self._marked)
        return self.unit != "agent" or marked or (self.losses is not None and self.losses.nu > 0)

    @property
    def persons(self) -> Persons | None:
        """What is known of persons, where a problem computed the sensitivity of every agent; checked is what was checked for all."""
        known = [one.persons for one in self._marked if one.persons is not None]
        if not known or not self.computed:
            return None
        return Persons(known[0].records, all(each.checked for each in known))

    @property
    def norms(self) -> set[str]:
        """The norms in which a problem computed the sensitivity."""
        return {one.norm for one in self._marked}

    @property
    def _marked(self) -> list[Sensitivity]:
        parts = self.sensitivity if isinstance(self.sensitivity, tuple) else (self.sensitivity,)
        return [one for one in parts if isinstance(one, Sensitivity)]


def the_question(question: Question | None, given: Mapping[str, Any]) -> Question:
    """The question of a call: the one given, or the one its keywords spell out.

    Args:
        question: as given; None where keywords were.
        given: the keywords by name, None or an unsaid default where they were left out.

    Raises:
        ConfigError: both, neither, or a question that cannot be asked.
    """
    if question is None:
        return _spelled_out(given)
    if not isinstance(question, Question):
        raise ConfigError(f"question = {question!r}; give sv.Question(rounds=..., sensitivity=...).")
    both = [name for name, value in given.items() if value is not None and not isinstance(value, Unsaid)]
    if both:
        raise ConfigError(
            f"question= was given together with {', '.join(f'{name}=' for name in both)}. Ask with one or with the other: "
            f"dataclasses.replace(question, {both[0]}=...) changes one part of a question."
        )
    return question


def _spelled_out(given: Mapping[str, Any]) -> Question:
    missing = [name for name in ("rounds", "sensitivity") if given[name] is None]
    if missing:
        raise MissingNumber(
            f"{' and '.join(missing)} not given. Say {' and '.join(f'{name}=...' for name in missing)}, or ask with "
            f"question=sv.Question(rounds=..., sensitivity=...)."
        )
    said: dict[str, Any] = {name: str(one) if isinstance(one, Unsaid) else one for name, one in given.items()}
    return Question(**said)


def _plain(sensitivity: ArrayLike) -> Any:
    """One positive number, or a tuple of them, so that questions can be compared and kept."""
    positive_numbers("sensitivity", sensitivity, why="Clip the gradients to have one.")
    if isinstance(sensitivity, list | tuple):
        return tuple(sensitivity)
    if isinstance(sensitivity, int | float):
        return sensitivity
    given = np.asarray(sensitivity)
    return tuple(given.tolist()) if given.ndim else float(given)


def _check_losses(question: Question) -> None:
    losses = question.losses
    if losses is not None and not isinstance(losses, ConvexSmooth):
        raise ConfigError(f"losses = {losses!r}; promise sv.accounting.ConvexSmooth(beta, nu), or None.")


def _check_same_model(question: Question) -> None:
    same, losses = question.same_model, question.losses
    if same is None:
        return
    if not isinstance(same, bool | np.bool_):
        raise ConfigError(f"same_model = {same!r}; it must be True, False or None.")
    if question.unit != "agent" and not same:
        raise ConfigError(
            f"unit='{question.unit}' with same_model=False: a {question.unit}'s sensitivity is known at the same model only. Leave same_model out."
        )
    if not same and losses is not None and losses.nu > 0:
        raise ConfigError(
            f"same_model=False says that any two gradients differ by at most the sensitivity, and losses with nu = {losses.nu:g} say that they "
            f"move apart with the models, without end. Both cannot be true. Leave same_model out: the sensitivity is then read as that at "
            f"the same model; or promise nu = 0."
        )


def _check_participation(question: Question) -> None:
    participation = question.participation
    check_fits(participation, question.rounds)
    if question.unit != "record" and participation != "every-round":
        raise ConfigError(
            f"participation = {participation!r} speaks of single records; {_EVERY_ROUND[question.unit]}. Leave it out, or use unit='record'."
        )
    if isinstance(participation, Poisson) and question.adjacency == "replace":
        least = float(np.max(np.asarray(question.sensitivity, dtype=float))) / 2.0
        if participation.record_norm is None or participation.record_norm < least * (1 - 1e-9):
            raise ConfigError(
                f"Poisson sampling with adjacency='replace' needs the largest norm of ONE record's part, at least half the sensitivity "
                f"({least:g}); given record_norm = {participation.record_norm}. Use sv.accounting.poisson(rate, record_norm=C / B)."
            )


def _refuse_two_kinds_of_persons(given: list[Sensitivity]) -> None:
    """Refuse sensitivities of persons with different numbers of records: what is stated of one would be read of the other."""
    found = sorted({one.persons.records for one in given if one.persons is not None})
    if len(found) > 1:
        raise ConfigError(
            f"sensitivities of persons with at most {' and '.join(map(str, found))} records were given together. Compute all of them with the "
            f"largest number: problem.with_persons(records_per_person={found[-1]}, ...)."
        )


def _check_marks(one: Sensitivity, question: Question) -> None:
    """Refuse a sensitivity that a problem computed for another question."""
    if one.whole_gradient and question.losses is not None:
        raise ConfigError(
            f"losses were promised, but the sensitivity {float(one):g} rests on clipping whole gradients, and a clipped whole gradient belongs to no "
            f"convex loss. Leave losses out, or clip every record's gradient: problem.with_clipping(clip, norm)."
        )
    for name, given, own in (
        ("unit", question.unit, one.unit),
        ("adjacency", question.adjacency, one.adjacency),
    ):
        if given != own:
            raise ConfigError(
                f"{name} = {given!r}, but the sensitivity {float(one):g} was computed for {name} = {own!r}. Ask the problem for the other, "
                f"problem.sensitivity({name}={given!r}, ...), or account for {name}={own!r}."
            )
    if one.compares == "same model" and question.same_model is not None and not question.same_model:
        raise ConfigError(
            f"same_model=False, but the sensitivity {float(one):g} compares gradients at the same model only (a record, a person, or a ridge added after "
            f"clipping, whose gradients move apart with the models). Leave same_model out."
        )
