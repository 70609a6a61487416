"""What decides privacy and has no default: `fit` refuses what is missing, all of it in one message."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args

from sottovoce.clipping import Clip
from sottovoce.errors import ConfigError
from sottovoce.numbers import checked, chosen, is_whole, whole
from sottovoce.observers import Observer, observer_named
from sottovoce.problems import Adjacency, Unit
from sottovoce.wording import brief_value

MEANING = {
    "epsilon": "how much the observer may learn",
    "delta": "the probability with which it may learn more, above 0 and far below one over the number of records",
    "clip": "the largest norm of one record's gradient",
    "bounds": "the public range of every column, from knowledge of the field and never from the data",
    "observer": 'who looks: "eavesdropper", "server", "final_model", "curious_agent:3"',
    "unit": 'what is protected: "record", "person" or "agent"',
    "adjacency": 'how two worlds differ: "replace" or "add-remove"',
    "rounds": "how often the agents exchange what they learned",
}


class Demands(NamedTuple):
    """What was asked of a fit, checked."""

    epsilon: float
    delta: float
    clip: float
    observers: tuple[Observer, ...]  # the noise is calibrated for the first
    unit: Unit
    adjacency: Adjacency
    rounds: int
    seed: int


def demands_of(parameters: Mapping[str, Any], name: str) -> Demands:
    """The parameters of an estimator that decide privacy, checked.

    Args:
        parameters: as `get_params` gives them.
        name: of the estimator, for messages.

    Raises:
        ConfigError: some are missing, which are all named, or say nothing.
    """
    missing = [key for key in MEANING if parameters[key] is None]
    if missing:
        listed = "; ".join(f"{key} ({MEANING[key]})" for key in missing)
        raise ConfigError(
            f"{name} was not given {', '.join(missing)}. What decides privacy has no default: {listed}. Give all of them to {name}(...)."
        )
    _check_persons(parameters)
    return Demands(
        epsilon=checked("epsilon", parameters["epsilon"], "(0, inf)"),
        delta=checked("delta", parameters["delta"], "(0, 1)"),
        clip=Clip(parameters["clip"], "l2").bound,
        observers=_observers(parameters["observer"]),
        unit=chosen("unit", parameters["unit"], get_args(Unit)),  # type: ignore[arg-type]
        adjacency=chosen("adjacency", parameters["adjacency"], ("replace", "add-remove")),  # type: ignore[arg-type]
        rounds=whole("rounds", parameters["rounds"]),
        seed=_seed(parameters["random_state"], name),
    )


def _check_persons(parameters: Mapping[str, Any]) -> None:
    """Refuse a unit that is not what is said of persons."""
    needed = ("person", "records_per_person")
    missing = [key for key in needed if parameters[key] is None]
    if parameters["unit"] == "person" and missing:
        raise ConfigError(
            f"unit = 'person' needs {' and '.join(missing)}: the column that says about whom a record is, and the most records that one "
            f"person has."
        )
    if parameters["unit"] == "record" and len(missing) < len(needed):
        raise ConfigError(
            "unit = 'record' protects one row, not one person, and person or records_per_person says that persons may have several. Use "
            "unit='person', or leave them out and drop the column."
        )


def _observers(given: Any) -> tuple[Observer, ...]:
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, Sequence) or not texts or not all(isinstance(text, str) for text in texts):
        raise ConfigError(
            f'observer = {brief_value(given)}; give a text such as "eavesdropper", or a list of them: the noise is calibrated for the first.'
        )
    return tuple(observer_named(text) for text in texts)


def _seed(given: Any, name: str) -> int:
    if given is None:
        raise ConfigError(
            f"random_state = None would mean secret randomness, for a model that may be released; such training does not exist yet. "
            f"Give {name} a whole number, such as random_state=0: then the fit is a simulation, whose model must not be released."
        )
    if not is_whole(given, 0, 2**32 - 1):
        raise ConfigError(f"random_state = {brief_value(given)}; it must be a whole number from 0 to 2^32 - 1.")
    return int(given)
