"""Audits of an experiment: an attack on what every observer sees, beside what is promised for it.

The promise is that of `sottovoce.experiments.privacy`: its sensitivities, unit, adjacency and promises. The worlds are canaries: one agent's
gradients differ by exactly the sensitivity, in every round. The records of the experiment are not used, since a guarantee holds for all records.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

from sottovoce.attacks.audit import Audit, audit, audit_seconds, check_audit_size
from sottovoce.errors import ConfigError
from sottovoce.experiments.experiment import Experiment, refuse_turns
from sottovoce.experiments.privacy import parts_of, question, stated_delta
from sottovoce.linear import exchange_topologies
from sottovoce.observers import Observer, view
from sottovoce.resources import LONG, in_time

MEANING = (
    "An audit plays one attack. What it shows is a lower bound, with the confidence stated: above the guarantee it "
    "proves the guarantee false; below it, it proves nothing, since a better attack may exist. Guarantees rest on "
    "proofs, not on audits."
)
AttackName = Literal["best", "likelihood", "transcript", "fitted"]


def audit_observer(
    experiment: Experiment,
    observer: Observer,
    *,
    pairs: int,
    confidence: float,
    attack: AttackName = "best",
    agent: int | None = None,
) -> Audit:
    """Attack what one observer sees of the experiment.

    Args:
        experiment: with a section on privacy.
        observer: who looks.
        pairs: runs of each of the two worlds.
        confidence: with which a failed audit proves the guarantee false.
        attack: "best" or one by name.
        agent: whose data; None is the one of whom the observer learns most.

    Raises:
        ConfigError: nothing is said about privacy, or the observer does not fit.
        UnsupportedClaim: nothing is proved for this observer, or a run cannot keep to what was promised.
    """
    refuse_turns(experiment.batch, "an audit by canaries, each with one record,")
    return audit(
        *parts_of(experiment),
        observer,
        delta=stated_delta(experiment),
        confidence=confidence,
        pairs=pairs,
        seed=experiment.seed,
        attack=attack,
        question=replace(question(experiment), agent=agent),
    )


def audits(
    experiment: Experiment,
    observers: Sequence[Observer] = (),
    *,
    pairs: int,
    confidence: float,
    attack: AttackName = "best",
    agent: int | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> list[Audit]:
    """Attack what every observer sees.

    Args:
        experiment: with a section on privacy.
        observers: who looks; empty: those of the experiment.
        pairs: runs of each of the two worlds.
        confidence: of all verdicts together.
        attack: "best" or one by name.
        agent: whose data; None is the one of whom an observer learns most.
        progress: told who is played next.

    Raises:
        ConfigError: no observer is named here or in the experiment, or one that this network does not have.
    """
    listed = tuple(observers) or (() if experiment.privacy is None else experiment.privacy.observers)
    if not listed:
        raise ConfigError(
            'no observer is named, so there is nobody to play. Add observers to [privacy], for example ["eavesdropper"], or name one.'
        )
    check_audit_size(experiment.topology, experiment.algorithm, rounds=experiment.rounds, pairs=pairs)
    for observer in listed:  # all are checked before the first is played
        view(observer, *exchange_topologies(experiment.algorithm, experiment.topology))
    # Each of several audits may err, so each gets its part of the error that all may make together.
    each_confidence = 1.0 - (1.0 - confidence) / len(listed)
    found = []
    for position, observer in enumerate(listed):
        seconds = audit_seconds(experiment.topology, experiment.algorithm, rounds=experiment.rounds, pairs=pairs)
        long = f", {in_time(seconds)}" if seconds >= LONG else ""
        progress(f"{observer}, {position + 1} of {len(listed)}: {pairs:,} runs of each of two worlds{long}")
        found.append(
            audit_observer(experiment, observer, pairs=pairs, confidence=each_confidence, attack=attack, agent=agent)
        )
    return found


def describe_audits(found: Sequence[Audit]) -> dict[str, Any]:
    """Plain values for JSON: every audit, and whether all guarantees stand."""
    return {
        "passed": all(each.passed for each in found),
        "audits": [{"observer": each.guarantee.observer, **each.describe()} for each in found],
        "meaning": MEANING,
    }
