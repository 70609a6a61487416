"""What the [privacy] table of an experiment's file may say, and the names of observers in it.

unit = "record"                                       what is protected; or "agent", or "person": all records of one, at most [problem] records_per_person
clip = 1.0                                            bound on what is clipped, in clip_norm
clip_norm = "l2"
clips = "records"                                     every record's gradient; "gradient": an agent's whole gradient; "update": what it adds in a round
adjacency = "replace"                                 or "add-remove": how two data sets differ
delta = 1e-5                                          needed for Gaussian noise
observers = ["eavesdropper", "curious_agent:3"]       who looks; "a+b" is the two together, "colluding_server:0.5" the relay and half the agents
losses = "problem"                                    or { beta = 0.3, nu = 0.01 }: a promise about all local losses
participation = "every-round"                         or "once", or { times = 3, gap = 10 }
budget = { epsilon = 8.0, observer = "eavesdropper", until_spent = false }
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from sottovoce.errors import ConfigError
from sottovoce.experiments.config.values import Count, Delta, NonNegative, Positive, Section, wrong
from sottovoce.observers import Observer, final_model, observer_named
from sottovoce.wording import brief_value


def asked(listed: Sequence[Observer]) -> list[Observer]:
    """The observers to answer for: those listed and, if somebody gets the final model, every reader of messages together with it.

    Whoever reads messages can also get hold of a model that is released.
    """
    released = any(observer.final_model for observer in listed)
    found: list[Observer] = []
    for observer in listed:
        found.append(observer)
        if released and not observer.final_model:
            together = observer + final_model()
            if not any(same_view(together, other) for other in listed):
                found.append(together)
    return found


def same_view(first: Observer, second: Observer) -> bool:
    """Whether two observers see and know the same, whatever they are called."""
    return replace(first, name="") == replace(second, name="")


def _checked_name(text: str) -> str:
    try:
        observer_named(text)
    except ConfigError as error:
        raise wrong(str(error).rstrip(".")) from error
    return text


ObserverName = Annotated[str, AfterValidator(_checked_name)]


class PromiseSection(Section):
    """The promise that every local loss, full or batch, is convex, beta-smooth and nu-strongly convex."""

    beta: Positive
    nu: NonNegative = 0.0

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.nu > self.beta:
            raise wrong(f"no loss is {self.nu:g}-strongly convex and only {self.beta:g}-smooth; needed is nu <= beta")
        return self


class CyclicSection(Section):
    """A record that enters `times` rounds, `gap` rounds apart."""

    times: Count
    gap: Count


class BudgetSection(Section):
    """The most that one observer may learn. A run that would exceed it does not start, or ends in time."""

    epsilon: Positive
    observer: ObserverName
    until_spent: bool = False  # run as many rounds as fit instead of refusing


def _losses(given: Any) -> Any:
    if isinstance(given, dict):
        return PromiseSection.model_validate(given)
    if given == "problem" or isinstance(given, PromiseSection):
        return given
    raise wrong(
        f'write "problem" for what the problem itself can promise, or {{ beta = .., nu = .. }}; given {brief_value(given)}'
    )


def _participation(given: Any) -> Any:
    if isinstance(given, dict):
        return CyclicSection.model_validate(given)
    if given in ("every-round", "once") or isinstance(given, CyclicSection):
        return given
    raise wrong(f'write "every-round", "once" or {{ times = .., gap = .. }}; given {brief_value(given)}')


_EVERY_ROUND = {  # why a unit of several records takes part in every round
    "agent": "whose data enter every round",
    "person": "whose records may enter different rounds",
}


class PrivacySection(Section):
    """What is protected and the clipping that bounds what it can change; who looks, and how much they may learn."""

    unit: Literal["record", "agent", "person"]
    clip: Positive
    clip_norm: Literal["l1", "l2"]
    clips: Literal["records", "gradient", "update"] = "records"
    adjacency: Literal["replace", "add-remove"] = "replace"
    delta: Delta | None = None
    observers: list[ObserverName] | None = Field(default=None, min_length=1)
    losses: Annotated[Literal["problem"] | PromiseSection | None, BeforeValidator(_losses)] = None
    participation: Annotated[Literal["every-round", "once"] | CyclicSection, BeforeValidator(_participation)] = (
        "every-round"
    )
    budget: BudgetSection | None = None

    @model_validator(mode="after")
    def _keys_fit(self) -> Self:
        if self.unit != "record" and self.participation != "every-round":
            raise wrong(
                f'participation speaks of single records, and unit is "{self.unit}", {_EVERY_ROUND[self.unit]}; remove participation'
            )
        listed = [observer_named(name) for name in self.observers or ()]
        for position, observer in enumerate(listed):
            if any(same_view(observer, other) for other in listed[:position]):
                raise wrong(f"observers names {observer.name!r} twice; keep one")
        if self.budget is not None:
            watched = observer_named(self.budget.observer)
            if not any(same_view(watched, other) for other in asked(listed)):
                raise wrong(
                    f"budget watches {self.budget.observer!r}, which observers does not list; list it there too"
                )
        return self


NESTED: dict[str, type[Section]] = {  # tables inside [privacy]
    "losses": PromiseSection,
    "participation": CyclicSection,
    "budget": BudgetSection,
}
