"""The privacy of an experiment: its guarantees, the noise that meets a target, and its budget.

    guarantees(experiment)            one Guarantee per observer, by sv.account
    calibrated(experiment, ...)       its noise, rescaled to meet an epsilon for one observer
    within_budget(experiment)         the experiment, shortened or refused if it would exceed its budget
    spending(experiment)              epsilon after every round, for the observer whom the budget watches

The budget fails closed: all of this happens before the first round. After t rounds an observer has seen less than after t' >= t rounds and
the release that ends them, so every proven epsilon of a longer run is one of the shorter run too; `spending` uses this where it knows
epsilon for some t' only.
"""

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sottovoce.accounting import Guarantee, Question, Tradeoff, account, account_each, calibrate, sent_by_round
from sottovoce.algorithms import Algorithm
from sottovoce.clipping import Norm
from sottovoce.errors import BudgetExhausted, ConfigError, IncompatibleChoice, UnsupportedClaim
from sottovoce.experiments.claims import Claims
from sottovoce.experiments.config.privacy import same_view
from sottovoce.experiments.experiment import Experiment
from sottovoce.experiments.guarantee_words import ASSUMED
from sottovoce.experiments.protection import Budget, Privacy
from sottovoce.experiments.releases import epsilon_of_repeats, largest, release_note
from sottovoce.noise import L2Laplace, Law, Noise
from sottovoce.observers import Observer
from sottovoce.rounding import shown, upwards
from sottovoce.topologies import Topology

LINEAR_VIEW = (
    "* The linear view is exact for gradients that do not react to what agents hear; it is no guarantee when gradients depend on models "
    "the observer does not see. mu and epsilon are."
)
LARGE_DELTA = (
    "delta is not below 1 / records: a method that gives away one record whole, drawn at random, would meet such a promise too. Choose a smaller "
    "one, such as 1e-5."
)
UNRELEASED = (
    "These observers do not get the final model, so it must not be released to them. List final_model among the observers to account for "
    "its release."
)
_MOST_EVALUATED = 250  # rounds whose epsilon is computed, of a run whose rounds all differ
_SLACK = 1e-6  # a solver may be off by this relative error, so calibrated noise is larger by it
_DIGITS = 7  # a calibrated size has no more, so that it can be copied without loss


def sensitivities(experiment: Experiment, *, norm: Norm | None = None) -> list[float]:
    """[K] the largest change of each agent's gradient in one round, or of its clipped update; `norm` defaults to that of the noise's law."""
    law = experiment.noise.law
    used: Norm = norm if norm is not None else "l2" if law is None else law.norm
    return _claims(experiment).enforced(experiment.problem, experiment.algorithm, experiment.noise, norm=used)


def parts_of(experiment: Experiment) -> tuple[Topology, Algorithm, Noise]:
    """What is accounted for."""
    return experiment.topology, experiment.algorithm, experiment.noise


def question(experiment: Experiment, *, rounds: int | None = None) -> Question:
    """What is asked of the accountant about an experiment, or about its first rounds.

    Raises:
        ConfigError: nothing is said about privacy.
    """
    asked_for = experiment.rounds if rounds is None else rounds
    return _claims(experiment).question(rounds=asked_for, sensitivity=sensitivities(experiment))


def guarantees(experiment: Experiment) -> list[Guarantee]:
    """What is proven for every observer of the experiment: for each, about the agent it learns most of.

    Raises:
        ConfigError: the experiment names no observers.
        UnsupportedClaim: nothing is proved for one of them; it is named.
    """
    return [guarantee(experiment, observer) for observer in _observers(experiment)]


def guarantee(experiment: Experiment, observer: Observer, *, rounds: int | None = None) -> Guarantee:
    """What is proven for one observer; `rounds` defaults to those of the experiment."""
    with _answering(observer):
        found = account(*parts_of(experiment), observer, question=question(experiment, rounds=rounds))
    return _with_premises(found, experiment)


def guarantees_of_agents(experiment: Experiment) -> list[Guarantee]:
    """What is proven for every observer about every agent outside it: observer by observer, agents in order."""
    found: list[Guarantee] = []
    for observer in _observers(experiment):
        with _answering(observer):
            found += account_each(*parts_of(experiment), observer, question=question(experiment))
    return [_with_premises(each, experiment) for each in found]


def calibrated(experiment: Experiment, observer: Observer, *, epsilon: float, delta: float) -> Noise:
    """The experiment's noise, rescaled so that this observer has at most `epsilon` at `delta`, and hardly less.

    The size of the law is rounded up to seven digits.

    Args:
        experiment: with noise of any size.
        observer: for whom.
        epsilon: that it may reach.
        delta: at which.

    Raises:
        UnsupportedClaim: no size gives this observer a finite epsilon.
    """
    law = experiment.noise.law
    if law is None:
        raise IncompatibleChoice(
            "no noise is chosen, so there is nothing to calibrate. Choose a noise kind with a law."
        )
    with _answering(observer):
        found = calibrate(*parts_of(experiment), observer, epsilon=epsilon, delta=delta, question=question(experiment))
    assert found.law is not None  # rescaling keeps the law
    wanted = upwards(size(found.law) * (1 + _SLACK), _DIGITS)
    return experiment.noise.scaled(wanted / size(law))


def size(law: Law) -> float:
    """The number by which a file gives the size of this law: `scale` for the l2-Laplace law, else `std`."""
    return law.scale if isinstance(law, L2Laplace) else law.std


def stated_delta(experiment: Experiment) -> float:
    """The delta for which epsilon is stated: the one given, else 0."""
    delta = _privacy(experiment).delta
    return 0.0 if delta is None else delta


def statement(experiment: Experiment, found: Sequence[Guarantee]) -> dict[str, Any]:
    """Guarantees as plain values for JSON: with the delta they are stated for, the budget, and what a reader must know."""
    delta, privacy = stated_delta(experiment), _privacy(experiment)
    finite = any(each.validity != "infinite" for each in found)
    said = {
        LARGE_DELTA: delta * float(sum(experiment.problem.sizes)) >= 1,
        LINEAR_VIEW: any(each.linear_validity == "exogenous-gradients" for each in found),
        UNRELEASED: not any(observer.final_model for observer in privacy.observers),
        **dict.fromkeys(protection_notes(experiment), finite),
    }
    stated: dict[str, Any] = {
        "delta": delta,
        "guarantees": [each.describe([delta]) for each in found],
        "notes": [note for note, holds in said.items() if holds],
    }
    if experiment.agents is not None:
        stated["agents"] = list(experiment.agents)
    if privacy.budget is not None:
        stated["budget"], note = _spent(privacy.budget, found, experiment)
        stated["notes"].append(note)
    return stated


def protection_notes(experiment: Experiment) -> list[str]:
    """What is protected and what is assumed besides the account, for whoever reads an epsilon of the experiment."""
    privacy, persons, notes = _privacy(experiment), experiment.problem.persons, []
    if privacy.unit == "person" and persons is not None:
        public = "; how many each has, and at which agent, is public" if privacy.adjacency == "replace" else ""
        notes.append(
            f"All records of one person are protected together: at most {persons.records}, all at one agent{public}."
        )
    if privacy.premises:
        notes.append(f"{ASSUMED}{'; '.join(privacy.premises)}.")
    return notes


def _spent(budget: Budget, found: Sequence[Guarantee], experiment: Experiment) -> tuple[dict[str, Any], str]:
    """What the budget's observer needs in the worst case, as plain values and in a sentence."""
    delta = stated_delta(experiment)
    watched = next(each.name for each in _privacy(experiment).observers if same_view(each, budget.observer))
    worst = max((each for each in found if each.observer == watched), key=lambda each: each.epsilon(delta))
    needed = worst.epsilon(delta)
    together = epsilon_of_repeats(worst, repeats=experiment.repeats, delta=delta)
    described = {
        **budget.describe(),
        "needed": _finite(needed),
        "repeats": experiment.repeats,
        "needed_by_repeats": _finite(together),
    }
    return described, _budget_note(budget, needed, together, experiment)


def simulated_statement(experiment: Experiment, found: Sequence[Guarantee]) -> dict[str, Any]:
    """The statement of a run that is simulated: epsilon of all its repeats beside that of one, and that no model may be released.

    An epsilon of repeats is null where it is infinite, and where it is not computed though that of one run is finite.
    """
    stated, delta = statement(experiment, found), stated_delta(experiment)
    together = [epsilon_of_repeats(each, repeats=experiment.repeats, delta=delta) for each in found]
    for row, value in zip(stated["guarantees"], together, strict=True):
        row["epsilon_of_repeats"] = {f"{delta:g}": _finite(value)}
    stated["repeats"] = experiment.repeats
    stated["notes"].append(release_note(seed=experiment.seed, repeats=experiment.repeats, together=together))
    return stated


def _budget_note(budget: Budget, needed: float, together: float | None, experiment: Experiment) -> str:
    verdict = "which fits"
    if needed > budget.epsilon:
        verdict = "so a run would be cut short" if budget.until_spent else "so a run would be refused"
    note = (
        f"The budget allows {budget.observer} epsilon = {budget.epsilon:g}; {experiment.rounds} rounds need "
        f"{shown(needed, 4)}, {verdict}."
    )
    if experiment.repeats == 1:
        return note
    return f"{note} That is one run; all {experiment.repeats} repeats together: {largest(together)}."


def refuse_unkept_promises(experiment: Experiment) -> None:
    """Refuse to simulate what is accounted under promises that the simulated run does not keep.

    Raises:
        IncompatibleChoice: a participation in chosen rounds only.
        ConfigError: a promise about losses that those of the problem break.
    """
    if experiment.privacy is not None and experiment.privacy.observers:
        _claims(experiment).kept(experiment.problem, experiment.algorithm, experiment.noise)


def within_budget(experiment: Experiment) -> Experiment:
    """The experiment as far as its budget allows: unchanged without a budget, or if the whole run fits.

    Raises:
        BudgetExhausted: the run would exceed the budget and may not be shortened, or not a single round fits.
    """
    budget = None if experiment.privacy is None else experiment.privacy.budget
    if budget is None:
        return experiment
    whole, delta = guarantee(experiment, budget.observer), stated_delta(experiment)
    needed = whole.epsilon(delta)
    if needed <= budget.epsilon:
        return experiment
    fitting = _fitting_rounds(experiment, budget)
    if budget.until_spent and fitting:
        return replace(experiment, rounds=fitting)
    if whole.validity == "infinite":
        advice = "No noise or budget changes that; use a scheme with a guarantee for this observer, or do not release the model."
    elif not fitting:
        advice = "Use more noise or a larger budget."
    else:
        advice = (
            f"Use more noise, a larger budget, {fitting} rounds of the same noise, or until_spent = true to stop there."
        )
    why = f" {whole.reason}" if whole.validity == "infinite" else ""
    raise BudgetExhausted(
        f"{experiment.rounds} rounds would let {budget.observer} have epsilon = {shown(needed, 6)} at delta = {delta:g}; the budget is "
        f"{budget.epsilon:g}.{why} {fitting} of the {experiment.rounds} rounds fit. {advice}"
    )


def spending(experiment: Experiment) -> np.ndarray:
    """[rounds] a proven epsilon of the budget's observer after every round, never decreasing; the last is that of the run.

    A model that the observer is given is released after the last round, so it counts there.

    Raises:
        ConfigError: the experiment has no budget.
    """
    budget = _privacy(experiment).budget
    if budget is None:
        raise ConfigError("the experiment has no budget, so nothing is spent from one. Give [privacy] budget.")
    total, delta = guarantee(experiment, budget.observer), stated_delta(experiment)
    epsilon, sent = total.epsilon(delta), _sent(experiment, budget.observer, delta)
    spent = np.minimum(epsilon, sent)
    if sent[-1] > epsilon * (1 + _SLACK):
        # Less is proven for the whole run than for all that was sent, so shorter runs must be asked about too.
        for rounds in _grid(experiment.rounds):
            then = guarantee(experiment, budget.observer, rounds=rounds).epsilon(delta)
            spent[:rounds] = np.minimum(spent[:rounds], then)
    return np.asarray(spent)


def _grid(rounds: int) -> list[int]:
    """Rounds before the last at which to account, fewer for long runs, which are dear to account for."""
    points = max(4, min(40, 1000 // rounds))
    return sorted({int(np.ceil(rounds * j / points)) for j in range(1, points)} - {rounds})


def _sent(experiment: Experiment, observer: Observer, delta: float) -> np.ndarray:
    """[rounds] epsilon of everything that any agent outside the observer has sent up to and with each round."""
    found = sent_by_round(*parts_of(experiment), observer, question=question(experiment))
    if found is None:
        return np.full(experiment.rounds, np.inf)
    # Never decreasing: where many rounds differ, the value of a later one bounds those before it.
    every = -(-len(set(found)) // _MOST_EVALUATED)
    spent, distinct = np.empty(len(found)), dict[Tradeoff, float]()
    for last in range(len(found) - 1, -1, -every):
        if found[last] not in distinct:
            distinct[found[last]] = found[last].epsilon(delta)
        spent[max(0, last - every + 1) : last + 1] = distinct[found[last]]
    return spent


def _fitting_rounds(experiment: Experiment, budget: Budget) -> int:
    """How many rounds fit, by bisection; the epsilon of that many has been computed and is within the budget."""
    delta, fits, exceeds = stated_delta(experiment), 0, experiment.rounds
    while exceeds - fits > 1:
        middle = (fits + exceeds) // 2
        if guarantee(experiment, budget.observer, rounds=middle).epsilon(delta) <= budget.epsilon:
            fits = middle
        else:
            exceeds = middle
    return fits


def _privacy(experiment: Experiment) -> Privacy:
    if experiment.privacy is None:
        raise ConfigError(
            "nothing is said about privacy, so nothing can be accounted. Add a section [privacy] with unit, clip, clip_norm and observers."
        )
    return experiment.privacy


def _claims(experiment: Experiment) -> Claims:
    privacy = _privacy(experiment)
    return Claims(
        unit=privacy.unit, adjacency=privacy.adjacency, participation=privacy.participation, losses=privacy.losses,
        same_model=privacy.same_model, batch_size=experiment.batch_size, batch=experiment.batch,
    )  # fmt: skip


def _observers(experiment: Experiment) -> tuple[Observer, ...]:
    observers = _privacy(experiment).observers
    if not observers:
        raise ConfigError(
            'no observer is named, so there is nobody to account for. Add observers to [privacy], for example ["eavesdropper"].'
        )
    return observers


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else value


def _with_premises(found: Guarantee, experiment: Experiment) -> Guarantee:
    """Add what the experiment assumes; with batches the observer is given the draws, so that nothing is exact any more."""
    if found.validity == "infinite":
        return found
    drawn = _claims(experiment).after_draws(found)
    return replace(drawn, assumptions=(*drawn.assumptions, *_privacy(experiment).premises))


@contextlib.contextmanager
def _answering(observer: Observer) -> Iterator[None]:
    """Say for whom nothing is proved, and how a file makes the promise that would help."""
    try:
        yield
    except UnsupportedClaim as error:
        promise = (
            ' In a file: [privacy] losses = "problem", or { beta = .., nu = .. }.'
            if "ConvexSmooth(" in str(error)
            else ""
        )
        raise UnsupportedClaim(f"{observer}: {error}{promise}") from error
