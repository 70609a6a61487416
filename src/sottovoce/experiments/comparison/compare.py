"""sv.compare: noise schemes at equal privacy. Equal variance is not equal privacy; here the observer and epsilon are equal.

For every observer, algorithm and scheme the accountant is asked once. What it states is inversely proportional to the scale of the
noise (mu of Gaussian noise, epsilon of the Laplace laws), so the scale that meets (epsilon, delta) follows without a search,

    Gaussian   scale <- scale mu / mu(epsilon, delta)
    Laplace    scale <- scale epsilon_0 / log((e^epsilon + delta) / (1 - delta))

and only Poisson sampling needs one (`calibrate`). All calibrated noises of an algorithm are then simulated as one program with the same
random numbers, next to the run without noise. Where no scale is enough, the row says why.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.accounting import (
    ADJACENCY,
    PARTICIPATION,
    UNIT,
    Guarantee,
    Participation,
    Question,
    account,
    noise_factor,
)
from sottovoce.algorithms import Algorithm
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.experiments.claims import Claims
from sottovoce.experiments.comparison.notes import MEASURED, notes, rows_note
from sottovoce.experiments.comparison.questions import by_norm, questions_of
from sottovoce.experiments.comparison.result import Comparison, Measured, Row
from sottovoce.experiments.releases import epsilon_of_repeats
from sottovoce.linear import check_parts
from sottovoce.noise import Noise, none
from sottovoce.numbers import checked, whole
from sottovoce.observers import Observer
from sottovoce.problems import Adjacency, ConvexSmooth, Unit
from sottovoce.simulation import Run, choose_metrics, simulate
from sottovoce.theory import expected_msd
from sottovoce.topologies import Topology

TEST_ERROR = "test_error"
_CLAIMED = ("unit", "adjacency", "participation", "losses", "same_model")
_CLEAR = ("noise-free", None)  # the key of the run without noise


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Common:
    """What is the same for every scheme."""

    problem: Any
    topology: Topology
    rounds: int
    sensitivity: Mapping[str, ArrayLike]  # norm -> bound
    delta: float
    claims: Claims
    repeats: int
    seed: int
    dtype: str
    measures: tuple[str, ...]
    tail: int
    test: tuple[Any, Any] | None
    progress: bool


def compare(
    problem: Any,
    topology: Topology,
    algorithms: Mapping[str, Algorithm],
    noises: Mapping[str, Noise],
    observers: Observer | Sequence[Observer],
    *,
    rounds: int | None = None,
    sensitivity: ArrayLike | Mapping[str, ArrayLike] | None = None,
    epsilons: Sequence[float],
    delta: float,
    unit: Unit = UNIT,
    adjacency: Adjacency = ADJACENCY,
    participation: Participation = PARTICIPATION,
    losses: ConvexSmooth | None = None,
    same_model: bool | None = None,
    repeats: int = 1,
    seed: int = 0,
    batch_size: int | None = None,
    dtype: str = "float64",
    measures: str | Sequence[str] = ("msd_centroid", "msd_average"),
    tail: int | None = None,
    test: tuple[Any, Any] | None = None,
    progress: bool = True,
    question: Question | Mapping[str, Question] | None = None,
) -> Comparison:
    """Give every scheme the noise that it needs for the same epsilon, then measure what that costs.

    A row of the result is one scheme, calibrated for one observer at one epsilon; where no amount of noise is enough, it says why.

    Args:
        problem: data split over agents, and a loss; clipped, so that it has a sensitivity.
        topology: who talks to whom.
        algorithms: label -> algorithm.
        noises: label -> scheme; the scale of its law is replaced.
        observers: for each of them the schemes are calibrated anew.
        rounds: exchanges.
        sensitivity: as in `account`, at least `problem.sensitivity(...)`. Schemes whose laws need different norms need
            {"l1": .., "l2": ..}.
        epsilons: targets, each of them for all schemes.
        delta: of every epsilon; 0 leaves the Laplace laws only.
        unit: what is protected, as in `account`.
        adjacency: how two worlds differ, as in `account`.
        participation: "every-round": what is simulated uses its records in every round, and no other promise would be kept.
        losses: a promise about all local losses, as in `account`; one that the problem's losses break is refused.
        same_model: where the sensitivity holds, as in `account`; None: with a ridge, at the same model only.
        repeats: independent repetitions. One alone has no standard error and names no winner.
        seed: of all random numbers; the same seed gives the same comparison.
        batch_size: distinct records per agent and round; None for the full gradient.
        dtype: "float32" or "float64".
        measures: metrics of a run in which small is good, or "test_error" (one minus the accuracy).
        tail: average them over this many last rounds; None takes the last round alone.
        test: (features, labels) for the accuracy.
        progress: show bars on the terminal's error stream.
        question: in place of rounds, sensitivity, unit, adjacency, participation, losses and same_model: one for all algorithms, or label ->
            question with the same number of rounds in each.

    Raises:
        ConfigError: malformed input, or a claim that is not true of this problem: no clipping, a sensitivity below what it allows,
            losses that are less smooth or less convex than promised.
        IncompatibleChoice: an algorithm cannot run with a scheme, an observer is not on this topology, or a participation is promised.
    """
    watching = (observers,) if isinstance(observers, Observer) else tuple(observers)
    measured_by = (measures,) if isinstance(measures, str) else tuple(measures)
    _require_dicts(algorithms=algorithms, noises=noises)
    _require_some(
        algorithms=algorithms,
        noises=noises,
        observers=[observer.name for observer in watching],
        epsilons=list(epsilons),
        measures=measured_by,
    )
    check_parts(problem=problem, topology=topology, algorithm=algorithms, noise=noises)
    questions = questions_of(question, algorithms, {
        "rounds": rounds, "sensitivity": sensitivity, "unit": unit, "adjacency": adjacency, "participation": participation,
        "losses": losses, "same_model": same_model,
    })  # fmt: skip
    commons = {
        label: _Common(
            problem=problem, topology=topology, rounds=one["rounds"], sensitivity=by_norm(one["sensitivity"], noises), delta=delta,
            claims=Claims(**{name: one[name] for name in _CLAIMED}, batch_size=batch_size),
            repeats=repeats, seed=seed, dtype=dtype, measures=measured_by, tail=1 if tail is None else tail, test=test, progress=progress,
        )
        for label, one in questions.items()
    }  # fmt: skip
    common = next(iter(commons.values()))
    targets = _targets(common, epsilons)
    for label, algorithm in algorithms.items():
        _refuse_false_claims(commons[label], algorithm, noises)
    rows, references = _rows(commons, algorithms, noises, watching, targets)
    order = {observer.name: place for place, observer in enumerate(watching)}
    return Comparison(
        rows=tuple(sorted(rows, key=lambda row: order[str(row.observer)])),
        references=tuple(references), epsilons=targets, delta=delta, measures=common.measures, tail=common.tail,
        notes=(*_notes(commons, algorithms, noises), MEASURED, rows_note(rows, seed=seed, repeats=repeats)),
        description=_description(commons, algorithms, noises, watching),
    )  # fmt: skip


def _rows(
    commons: Mapping[str, _Common],
    algorithms: Mapping[str, Algorithm],
    noises: Mapping[str, Noise],
    observers: Sequence[Observer],
    epsilons: Sequence[float],
) -> tuple[list[Row], list[Row]]:
    """Every scheme calibrated and measured, algorithm by algorithm; and every algorithm without noise."""
    rows: list[Row] = []
    references: list[Row] = []
    for label, algorithm in algorithms.items():
        calibrated = [
            row
            for observer in observers
            for scheme, noise in noises.items()
            for row in _calibrated(commons[label], label, algorithm, observer, scheme, noise, epsilons)
        ]
        measured = _measure(commons[label], algorithm, calibrated)
        rows += [_completed(commons[label], row, measured) for row in calibrated]
        references.append(_reference(label, measured))
    return rows, references


def _notes(
    commons: Mapping[str, _Common], algorithms: Mapping[str, Algorithm], noises: Mapping[str, Noise]
) -> list[str]:
    """What is said of all algorithms, each note once."""
    made: dict[str, None] = {}
    groups: dict[int, list[str]] = {}
    for label, common in commons.items():
        same = next((key for key, names in groups.items() if _same_question(commons[names[0]], common)), len(groups))
        groups.setdefault(same, []).append(label)
    for names in groups.values():
        one, theirs = commons[names[0]], {label: algorithms[label] for label in names}
        said = notes(one.problem, theirs, noises, one.sensitivity, one.claims, rounds=one.rounds, delta=one.delta)
        made.update(dict.fromkeys(said))
    return list(made)


def _same_question(one: _Common, other: _Common) -> bool:
    return one.claims == other.claims and _bounds(one) == _bounds(other)


def _bounds(common: _Common) -> dict[str, Any]:
    return {norm: np.asarray(bound).tolist() for norm, bound in common.sensitivity.items()}


def _require_dicts(**given: Any) -> None:
    for name, values in given.items():
        if not isinstance(values, Mapping):
            raise ConfigError(f"{name} = {values!r}; give a dict, label -> value.")


def _require_some(**given: Sequence[Any] | Mapping[str, Any]) -> None:
    """Refuse what is empty or named twice."""
    for name, values in given.items():
        if not values:
            raise ConfigError(f"{name} is empty; give at least one to compare.")
        if len(set(values)) < len(values):
            raise ConfigError(f"{name} = {list(values)} names something twice; keep it once.")


def _targets(common: _Common, epsilons: Sequence[float]) -> tuple[float, ...]:
    """Refuse numbers without a meaning; the epsilons, rising."""
    targets = sorted(checked("epsilon", epsilon, "(0, inf)") for epsilon in epsilons)
    checked("delta", common.delta, "[0, 1)")
    rounds = whole("rounds", common.rounds)
    if whole("tail", common.tail) > rounds:
        raise ConfigError(f"tail = {common.tail}; there are only {rounds} rounds to average over.")
    if wrong := [name for name in common.measures if name.startswith("accuracy")]:
        raise ConfigError(f"measures: {wrong[0]!r} is best when large. Use {TEST_ERROR!r}, one minus the accuracy.")
    if "models" in common.measures:
        raise ConfigError("measures: 'models' is no measure to compare by. Record them with sv.simulate.")
    choose_metrics(_metrics(common), common.problem)  # refuses one that the problem does not have
    return tuple(targets)


def _refuse_false_claims(common: _Common, algorithm: Algorithm, noises: Mapping[str, Noise]) -> None:
    """Refuse whatever would enter a guarantee and is not true of the runs, before anything is computed."""
    for noise in noises.values():
        kept = common.claims.kept(common.problem, algorithm, noise)
        if noise.law is not None:
            norm = noise.law.norm
            kept.refuse_sensitivity(common.problem, algorithm, noise, sensitivity=common.sensitivity[norm], norm=norm)


def _calibrated(
    common: _Common,
    label: str,
    algorithm: Algorithm,
    observer: Observer,
    scheme: str,
    noise: Noise,
    epsilons: Sequence[float],
) -> list[Row]:
    """One row per epsilon, from one account, before anything is measured."""
    rows = []
    found: Guarantee | None = None
    refusal = ""
    try:
        found = _account(common, algorithm, noise, observer)
        refusal = found.reason if found.validity == "infinite" else ""
    except UnsupportedClaim as error:
        refusal = str(error)
    for epsilon in epsilons:
        reached, guarantee, reason = None, None, refusal
        if found is not None and not refusal:
            try:
                factor = noise_factor(found, epsilon=epsilon, delta=common.delta)
                reached, guarantee = noise.scaled(factor), found.scaled(factor)
                reason = guarantee.reason
            except UnsupportedClaim as error:
                reason = str(error)
        law = None if reached is None else reached.law
        rows.append(Row(
            observer=observer.name, algorithm=label, scheme=scheme, epsilon=epsilon, noise=reached, guarantee=guarantee, reason=reason,
            std=None if law is None else math.sqrt(law.variance(common.problem.dimension)), epsilon_of_repeats=None, measured={},
        ))  # fmt: skip
    return rows


def _account(common: _Common, algorithm: Algorithm, noise: Noise, observer: Observer) -> Guarantee:
    # Without noise every bound gives infinity, so any of them will do.
    norm = next(iter(common.sensitivity)) if noise.law is None else noise.law.norm
    claims = common.claims.kept(common.problem, algorithm, noise)
    asked = claims.question(rounds=common.rounds, sensitivity=common.sensitivity[norm])
    found = account(common.topology, algorithm, noise, observer, question=asked)
    return claims.after_draws(found)


def _key(scheme: str, noise: Noise) -> tuple[str, Any]:
    """Equal for equal calibrated noises of a scheme, so that observers with the same needs share a run."""
    return scheme, noise.law


def _measure(common: _Common, algorithm: Algorithm, rows: Sequence[Row]) -> dict[tuple[str, Any], dict[str, Measured]]:
    """Simulate every distinct calibrated noise of an algorithm, and the run without noise, as one program."""
    noises = {_CLEAR: none()} | {_key(row.scheme, row.noise): row.noise for row in rows if row.noise is not None}
    runs = simulate(
        common.problem, common.topology, algorithm, noises, rounds=common.rounds, repeats=common.repeats, seed=common.seed,
        batch_size=common.claims.batch_size, dtype=common.dtype, record=_metrics(common), test=common.test, progress=common.progress,
    )  # fmt: skip
    return {key: _measured(common, run, _theory(common, algorithm, noises[key])) for (_, key), run in runs.items()}


def _metrics(common: _Common) -> list[str]:
    """The metrics behind the measures."""
    return list(dict.fromkeys("accuracy" if name == TEST_ERROR else name for name in common.measures))


def _measured(common: _Common, run: Run, exact: Mapping[str, np.ndarray]) -> dict[str, Measured]:
    found = {}
    for name in common.measures:
        values = 1.0 - run.metrics["accuracy"] if name == TEST_ERROR else run.metrics[name]
        theory = float(exact[name][-common.tail :].mean()) if name in exact else None
        per_repeat = values[:, -common.tail :].astype(np.float64).mean(axis=1)
        found[name] = Measured(per_repeat=per_repeat, theory=theory)
    return found


def _theory(common: _Common, algorithm: Algorithm, noise: Noise) -> Mapping[str, np.ndarray]:
    """Exact expectations where there are any: quadratic losses without clipping, linear algorithms, links that are not random."""
    if not {"msd_centroid", "msd_average"} & set(common.measures):
        return {}
    try:
        return expected_msd(
            common.problem,
            common.topology,
            algorithm,
            noise,
            rounds=common.rounds,
            batch_size=common.claims.batch_size,
        )
    except UnsupportedClaim:
        return {}


def _completed(common: _Common, row: Row, measured: Mapping[tuple[str, Any], dict[str, Measured]]) -> Row:
    """A row with what was measured, and what all its repeats would give away; unchanged where there is no guarantee."""
    if row.noise is None or row.guarantee is None:
        return row
    together = epsilon_of_repeats(row.guarantee, repeats=common.repeats, delta=common.delta)
    return replace(row, epsilon_of_repeats=together, measured=measured[_key(row.scheme, row.noise)])


def _reference(label: str, measured: Mapping[tuple[str, Any], dict[str, Measured]]) -> Row:
    return Row(
        observer=None, algorithm=label, scheme=_CLEAR[0], epsilon=math.inf, noise=none(), std=None, guarantee=None,
        epsilon_of_repeats=None, reason="no noise is added", measured=measured[_CLEAR],
    )  # fmt: skip


def _description(
    commons: Mapping[str, _Common],
    algorithms: Mapping[str, Algorithm],
    noises: Mapping[str, Noise],
    observers: Sequence[Observer],
) -> dict[str, Any]:
    common = next(iter(commons.values()))
    alike = all(_same_question(common, other) for other in commons.values())
    each = {
        label: {"sensitivity": _bounds(one), "unit": one.claims.unit, "adjacency": one.claims.adjacency}
        for label, one in commons.items()
    }
    return {
        "problem": common.problem.describe(),
        "topology": common.topology.describe(),
        "algorithms": {label: algorithm.describe() for label, algorithm in algorithms.items()},
        "schemes": {label: _scheme(noise) for label, noise in noises.items()},
        "observers": [observer.name for observer in observers],
        **(next(iter(each.values())) if alike else {"questions": each}),
        "rounds": common.rounds,
        "repeats": common.repeats,
        "seed": common.seed,
        "batch_size": common.claims.batch_size,
        "dtype": common.dtype,
    }


def _scheme(noise: Noise) -> dict[str, Any]:
    """A scheme without the scale that calibration replaces."""
    return {key: value for key, value in noise.describe().items() if key != "scale"}
