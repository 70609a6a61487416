"""What the [design] table of an experiment's file may say: which noise `sottovoce design` computes.

targets = { "eavesdropper+final_model" = 1.0, "any_coalition:1" = { epsilon = 8.0 } }      who may learn how much: a mu, or an epsilon
objective = "average"                        or "centroid", or { average = 1.0, centroid = 10.0 }: the error that is made small
when = "steady"                              or "final", or "mean" over all rounds
keys = "edges"                               or "pairs", "joint", "own": who shares randomness with whom
own_floor = 0.0                              smallest variance of the noise that an agent adds alone
cap = 0.5                                    largest standard deviation of the noise on a message
time = "white"                               or "schedule", "own", "network": what changes from round to round
curvature = 0.8                              second derivative of every loss, where the problem has no exact recursion
frontier = [0.0, 1.0, 10.0, 100.0]           weights of the centroid for which the design is repeated, for a figure
graphs = { ring = { kind = "ring", agents = 10 } }      networks on which it is repeated, for a figure

Targets may also stand as a list of tables: [[design.targets]] with observer and mu, or epsilon and delta. A delta that is not given is that of
[privacy].
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, SerializeAsAny, TypeAdapter, ValidationError, model_validator

from sottovoce.experiments.config.privacy import ObserverName, same_view
from sottovoce.experiments.config.topology import TopologySection, TopologyTable
from sottovoce.experiments.config.values import Delta, NonNegative, Positive, Section, ShownLabel, complaint, wrong
from sottovoce.observers import Observer, observer_named
from sottovoce.wording import brief_value

Objective = Literal["average", "centroid"]
_OBSERVER = "observer"


class TargetSection(Section):
    """The most that one observer may learn, by an epsilon."""

    epsilon: Positive
    delta: Delta | None = None  # None: the one of [privacy]


class ObjectiveSection(Section):
    """Weights of the two errors; at least one of them counts."""

    average: NonNegative = 0.0
    centroid: NonNegative = 0.0

    @model_validator(mode="after")
    def _counts(self) -> Self:
        if self.average + self.centroid == 0:
            raise wrong("average and centroid both have weight 0, so no error is made small; give one of them a weight")
        return self


def _told(model: Any, given: Any, *, where: str = "") -> Any:
    """A table inside a table as what it should be; what is wrong in it is told in one sentence."""
    taken: TypeAdapter[Any] = TypeAdapter(model)
    try:
        return taken.validate_python(given, strict=True)
    except ValidationError as error:
        told = "; ".join(complaint(detail) for detail in error.errors(include_url=False))
    raise wrong(f"{where}{told.lstrip(': ')}")


def _targets(given: Any) -> Any:
    """{observer: mu or epsilon}, from either form in which a file may write it."""
    if isinstance(given, list):
        given = _from_list(given)
    if not isinstance(given, dict):
        raise wrong(
            f'write {{ "eavesdropper" = 1.0 }}, observers with the mu that each may reach, or [[design.targets]] with observer and mu; '
            f"given {brief_value(given)}"
        )
    return {observer: _target(observer, value) for observer, value in given.items()}


def _from_list(given: list[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for table in given:
        if not isinstance(table, dict) or _OBSERVER not in table:
            raise wrong(f"every target needs an observer, and a mu or an epsilon; given {brief_value(table)}")
        name = table[_OBSERVER]
        if not isinstance(name, str) or name in found:
            raise wrong(f"observer {brief_value(name)} is named twice or is no text; name each once")
        rest = {key: value for key, value in table.items() if key != _OBSERVER}
        found[name] = rest["mu"] if set(rest) == {"mu"} else rest
    return found


def _target(observer: str, value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"mu"}:
        value = value["mu"]
    if isinstance(value, dict):
        if "mu" in value:
            raise wrong(f"{observer}: mu says all that is needed; remove {', '.join(sorted(set(value) - {'mu'}))}")
        return _told(TargetSection, value, where=f"{observer}: ")
    if isinstance(value, TargetSection):
        return value
    return _told(Positive, float(value) if type(value) is int else value, where=f"{observer}: ")


def _objective(given: Any) -> Any:
    if isinstance(given, dict):
        return _told(ObjectiveSection, given)
    if given in ("average", "centroid") or isinstance(given, ObjectiveSection):
        return given
    raise wrong(
        f'write "average", "centroid" or {{ average = .., centroid = .. }}, their weights; given {brief_value(given)}'
    )


def _graphs(given: Any) -> Any:
    if not isinstance(given, dict):
        raise wrong(
            f'write {{ ring = {{ kind = "ring", agents = 10 }} }}, names and networks; given {brief_value(given)}'
        )
    return {
        label: table if isinstance(table, TopologySection) else _told(TopologyTable, table, where=f"{label}: ")
        for label, table in given.items()
    }


class DesignSection(Section):
    """Which noise is designed: for whom, and what it should disturb least."""

    targets: Annotated[dict[ObserverName, Positive | TargetSection], Field(min_length=1), BeforeValidator(_targets)]
    objective: Annotated[Objective | ObjectiveSection, BeforeValidator(_objective)] = "average"
    when: Literal["steady", "final", "mean"] = "steady"
    keys: Literal["edges", "pairs", "joint", "own"] = "edges"
    own_floor: NonNegative = 0.0
    cap: Positive | None = None
    time: Literal["white", "schedule", "own", "network"] = "white"
    curvature: Positive | None = None
    frontier: Annotated[list[NonNegative], Field(min_length=2)] | None = None
    graphs: (
        Annotated[dict[ShownLabel, SerializeAsAny[TopologySection]], Field(min_length=1), BeforeValidator(_graphs)]
        | None
    ) = None

    @model_validator(mode="after")
    def _keys_fit(self) -> Self:
        if self.frontier is not None and self.time != "white":
            raise wrong(
                f'frontier is drawn for rounds alike, and time is "{self.time}"; remove frontier, or use time = "white"'
            )
        return self

    @model_validator(mode="after")
    def _observers_differ(self) -> Self:
        listed = [observer_named(name) for name in self.targets]
        for position, observer in enumerate(listed):
            if any(same_view(observer, other) for other in listed[:position]):
                raise wrong(f"targets names {observer.name!r} twice; keep one")
        return self

    @property
    def needs_delta(self) -> bool:
        """Whether a target is an epsilon that leaves its delta to [privacy]."""
        return any(isinstance(each, TargetSection) and each.delta is None for each in self.targets.values())

    def asked_for(self, delta: float | None) -> dict[Observer, float | tuple[float, float]]:
        """{observer: mu, or (epsilon, delta)} as `sv.noise.design` takes it.

        Args:
            delta: of [privacy], for targets that have none of their own.
        """
        found: dict[Observer, float | tuple[float, float]] = {}
        for name, target in self.targets.items():
            if isinstance(target, TargetSection):
                own = delta if target.delta is None else target.delta
                assert own is not None  # a file that leaves it out is refused
                found[observer_named(name)] = (target.epsilon, own)
            else:
                found[observer_named(name)] = target
        return found

    @property
    def weights(self) -> Objective | dict[str, float]:
        """The objective as `sv.noise.design` takes it."""
        if isinstance(self.objective, ObjectiveSection):
            return {"average": self.objective.average, "centroid": self.objective.centroid}
        return self.objective
