"""The question that a comparison asks of each algorithm."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from sottovoce.accounting import Question, the_question
from sottovoce.algorithms import Algorithm
from sottovoce.errors import ConfigError
from sottovoce.noise import Noise


def questions_of(
    question: Question | Mapping[str, Question] | None, algorithms: Mapping[str, Algorithm], given: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Label -> the parts of its question, from one question, one for each algorithm, or keywords.

    Args:
        question: one for all, or label -> question.
        algorithms: label -> algorithm.
        given: the keywords by name, None or an unsaid default where they were left out.

    Raises:
        ConfigError: questions beside keywords, for other algorithms, of different lengths, or about one agent.
    """
    if question is None:
        if given["rounds"] is None or given["sensitivity"] is None:
            the_question(None, given)  # says what is missing
        said = {name: str(value) if isinstance(value, str) else value for name, value in given.items()}
        return {label: said for label in algorithms}
    asked = question if isinstance(question, Mapping) else {label: question for label in algorithms}
    _check(asked, algorithms, given)
    return {label: {name: getattr(asked[label], name) for name in given} for label in algorithms}


def _check(asked: Mapping[str, Question], algorithms: Mapping[str, Algorithm], given: Mapping[str, Any]) -> None:
    if set(asked) != set(algorithms):
        raise ConfigError(
            f"question is given for {sorted(asked)}, and the algorithms are {sorted(algorithms)}. Give one for each."
        )
    for label, one in asked.items():
        the_question(one, given)  # refuses what is no question, and keywords beside it
        if one.agent is not None:
            raise ConfigError(
                f"question of {label!r}: agent = {one.agent}, but schemes are calibrated for the worst agent. Leave agent out."
            )
    if len({one.rounds for one in asked.values()}) > 1:
        each = ", ".join(f"{one.rounds} rounds ({label})" for label, one in asked.items())
        raise ConfigError(f"questions of {each}; algorithms are compared after the same number. Give all the same.")


def by_norm(sensitivity: ArrayLike | Mapping[str, ArrayLike], noises: Mapping[str, Noise]) -> Mapping[str, ArrayLike]:
    """The sensitivity in every norm that a scheme needs."""
    needed = {noise.law.norm: label for label, noise in noises.items() if noise.law is not None}
    if isinstance(sensitivity, Mapping):
        if missing := [norm for norm in needed if norm not in sensitivity]:
            raise ConfigError(
                f"scheme {needed[missing[0]]!r} needs a sensitivity in {missing[0]}; given are {', '.join(sensitivity)}."
            )
        return dict(sensitivity)
    if len(needed) > 1:
        raise ConfigError(
            f"one sensitivity was given, but {needed['l1']!r} needs it in l1 and {needed['l2']!r} in l2. Give "
            f'sensitivity={{"l1": .., "l2": ..}}; problem.sensitivity(norm=..) computes both.'
        )
    return dict.fromkeys(needed or {"l2": ""}, sensitivity)
