"""sv.noise.design: the noise that costs least accuracy for what every observer may learn.

    targets      limits on [S^-1]_pp                                            `targets`, by the accountant
    objective    a matrix G, the error is tr(G S)                               `theory.noise_gains`
    proposal     S by the keys that agents have                                 `free`, `pairs`; over rounds `time`, `own_noise`
    statement    the accountant, run on the scheme that came out, after scaling

Solvers only propose: were one wrong, the noise would be dearer than it need be, the gap would show it, and what is stated would still be true.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.accounting import Guarantee, Participation, Question, account, account_each
from sottovoce.algorithms import Algorithm
from sottovoce.design.free import free_covariance
from sottovoce.design.notes import warning
from sottovoce.design.over_rounds import Over, over_rounds
from sottovoce.design.pairs import pair_noise
from sottovoce.design.refusals import refuse_unproven
from sottovoce.design.result import Design, key_plan
from sottovoce.design.targets import Limits, Target, are_all_told_everything, limits_of, read_targets, reader_of
from sottovoce.errors import ConfigError, IncompatibleChoice, UnsupportedClaim
from sottovoce.linear import check_parts
from sottovoce.noise import Gaussian, Noise, designed
from sottovoce.numbers import checked, chosen
from sottovoce.problems import Adjacency, Unit
from sottovoce.theory import Gains, When, noise_gains
from sottovoce.topologies import Topology

Keys = Literal["edges", "pairs", "joint", "own"]
Time = Literal["white", "schedule", "own", "network"]
NOTHING = 1e-8  # of the largest factor: what is smaller changes nothing that is stated
LARGE = 300  # agents from which a free covariance need not be found to ten digits
NEARLY = 1e-12  # by how much more noise is added than the accountant asks for, so that rounding stays on the safe side

NO_BOUND = (
    "No bound is given: some observer reads a part of the messages of a run in which nothing reacts to them, learns less than a reader of all of them, and "
    "the noise was looked for among those that hide as much from that reader."
)


class Request(NamedTuple):
    """What was asked for."""

    topology: Topology
    algorithm: Algorithm
    targets: list[Target]
    question: Question
    objective: Mapping[str, float]
    when: When
    keys: Keys
    time: Time
    own_floor: float
    cap: float | None
    problem: Any
    curvature: float | None
    bands: int | None


class Proposal(NamedTuple):
    """A scheme as a solver proposes it, and what it says about its error."""

    noise: Noise
    covariance: np.ndarray  # [K, K] of a round at factor one
    error: float
    bound: float
    largest_std: float
    notes: tuple[str, ...] = ()


def design(
    topology: Topology,
    algorithm: Algorithm,
    targets: Mapping[Any, Any],
    *,
    rounds: int,
    sensitivity: ArrayLike,
    problem: Any = None,
    curvature: float | None = None,
    unit: Unit = "agent",
    adjacency: Adjacency = "replace",
    participation: Participation = "every-round",
    objective: str | Mapping[str, float] = "average",
    when: When = "steady",
    keys: Keys = "edges",
    own_floor: float = 0.0,
    cap: float | None = None,
    time: Time = "white",
    bands: int | None = None,
    progress: Callable[[float, float], None] | None = None,
) -> Design:
    """The noise that costs least accuracy for what every observer may learn, with a bound on how much less is possible.

    It is best for quadratic losses, whose exact error is computed; what the accountant states about it holds for all losses.

    Args:
        topology: who talks to whom; fixed links.
        algorithm: atc, or cta or consensus where no model is released.
        targets: observer -> mu, or observer -> (epsilon, delta).
        rounds: of the run.
        sensitivity: the largest change of one round's gradient, as in `sv.account`.
        problem: data with a quadratic loss, of which the exact error is computed.
        curvature: in place of a problem: one number for all Hessians, a contraction that stands for them.
        unit: what is protected, as in `sv.account`.
        adjacency: how two worlds differ.
        participation: rounds in which the protected record takes part.
        objective: "average" (mean over agents of the squared error), "centroid", or weights of both.
        when: the error after the last round ("final"), its "mean" over rounds, or its limit ("steady").
        keys: who may share noise: linked agents ("edges"), any two ("pairs"), nobody ("own"), or a trusted generator that tells every agent the
            sum that it adds ("joint").
        own_floor: smallest variance of the noise that every agent draws alone.
        cap: largest std of what is added to a message.
        time: "white": rounds alike; "schedule": sizes by round; "own": every agent's noise remembers its last rounds, for records seen once
            or in turns.
        bands: with time="own", how many rounds belong together; None: as many as the gap allows, up to 24.
        progress: called with error and bound while a solver works.

    Raises:
        ConfigError: malformed input.
        IncompatibleChoice: choices that do not go together, or targets that no such noise meets.
        UnsupportedClaim: nothing is proved for this kind of run.
    """
    request = Request(
        topology, algorithm, read_targets(targets),
        Question(rounds=rounds, sensitivity=sensitivity, unit=unit, adjacency=adjacency, participation=participation),
        _objective(objective), when, keys, time, own_floor, cap, problem, curvature, bands,
    )  # fmt: skip
    _check(request)
    limits = limits_of(topology, algorithm, request.targets, request.question)
    if time == "own":
        proposal, independent, exact = _remembering(request, limits)
    else:
        gains = _gains(request)
        independent = float((np.diag(gains.total) / limits.strictest).sum())
        proposal = (
            _white(request, limits, gains, progress)
            if time == "white"
            else _scheduled(request, limits, gains, progress)
        )
        exact = gains.exact
    return _stated(request, limits, proposal, independent, exact=exact)


def _objective(given: str | Mapping[str, float]) -> Mapping[str, float]:
    if isinstance(given, str):
        return {chosen("objective", given, ("average", "centroid")): 1.0}
    if not isinstance(given, Mapping):
        raise ConfigError(f"objective = {given!r}; it is 'average', 'centroid', or weights of both in a dict.")
    return dict(given)


def _check(request: Request) -> None:
    check_parts(topology=request.topology, algorithm=request.algorithm)
    chosen("keys", request.keys, get_args(Keys)), chosen("time", request.time, get_args(Time))
    chosen("when", request.when, get_args(When)), checked("own_floor", request.own_floor, "[0, inf)")
    if request.cap is not None:
        checked("cap", request.cap, "(0, inf)")
    if (request.problem is None) == (request.curvature is None):
        raise ConfigError(
            "a design needs to know how noise turns into error: give problem= (data with a quadratic loss), or curvature=h where every Hessian "
            "is taken for h times the identity; exactly one of them."
        )
    refuse_unproven(request.topology, request.algorithm, request.question, time=request.time, keys=request.keys)
    if request.time == "schedule" and request.when == "steady":
        raise IncompatibleChoice(
            "time='schedule' gives every round its own size, and a steady state has rounds without end. Ask for when='final' or when='mean'."
        )
    if request.own_floor > 0 and request.time != "white":
        raise IncompatibleChoice(
            f"own_floor bounds own noise that is alike in all rounds, and time={request.time!r} changes it. Use time='white', or leave it out."
        )
    if request.own_floor > 0 and request.keys == "joint":
        raise IncompatibleChoice(
            "under keys='joint' a generator draws all noise and agents draw none of their own, so that own_floor has no meaning. Leave it out."
        )


def _gains(request: Request) -> Gains:
    return noise_gains(
        request.topology, request.algorithm, objective=request.objective, when=request.when, rounds=request.question.rounds,
        problem=request.problem, curvature=request.curvature, each_round=request.time == "schedule",
    )  # fmt: skip


def _white(request: Request, limits: Limits, gains: Gains, progress: Callable[[float, float], None] | None) -> Proposal:
    """The same covariance in every round."""
    return _spatial(request, limits, gains.total, progress)


def _spatial(
    request: Request,
    limits: Limits,
    gains: np.ndarray,
    progress: Callable[[float, float], None] | None,
    *,
    variance_cap: float | None = None,
) -> Proposal:
    """The covariance between agents that costs least, by the keys that they have."""
    cap = variance_cap if variance_cap is not None else None if request.cap is None else request.cap**2
    if request.keys == "joint":
        close = 1e-3 if len(gains) > LARGE else 1e-10
        found = free_covariance(gains, limits.strictest, cap=cap, close=close)
        return _proposal(_sized(joint=np.linalg.cholesky(found.covariance)), gains, found.lower_bound)
    pairs = _pairs(request)
    made = pair_noise(
        gains,
        limits.everybody,
        pairs,
        coalitions=limits.coalitions,
        own_floor=request.own_floor,
        cap=cap,
        progress=progress,
    )
    size = max(made.own.max(), np.abs(made.factors).max(initial=0.0))
    used = (np.abs(made.factors) > NOTHING * size).any(axis=1)
    own = np.maximum(made.own, NOTHING * size) if request.own_floor == 0 else made.own
    return _proposal(_sized(own=own, pairs=made.pairs[used], factors=made.factors[used]), gains, made.lower_bound)


def _sized(**parts: np.ndarray) -> Noise:
    """The scheme with its size in the law and factors of at most one; factors of next to nothing, which no account takes, are none."""
    size = max(float(np.abs(part).max(initial=0.0)) for name, part in parts.items() if name != "pairs")
    kept = {
        name: part if name == "pairs" else np.where(np.abs(part) > 0.5 * NOTHING * size, part / size, 0.0)
        for name, part in parts.items()
    }
    return designed(Gaussian(std=size), **kept)


def _proposal(noise: Noise, gains: np.ndarray, bound: float) -> Proposal:
    covariance = key_plan(noise, np.ones(len(gains))).covariance
    error = float(np.einsum("ij,ij->", gains, covariance))
    return Proposal(noise, covariance, error, bound, float(np.sqrt(np.diag(covariance).max())))


def _pairs(request: Request) -> np.ndarray:
    """[m, 2] agents that may share a stream."""
    K = request.topology.num_agents
    if request.keys == "own":
        return np.zeros((0, 2), dtype=int)
    if request.keys == "pairs":
        return np.stack(np.triu_indices(K, 1), axis=1)
    links = {(int(sender), int(receiver)) for sender, receiver in request.topology.links}
    return np.array(sorted((i, j) for i, j in links if i < j and (j, i) in links), dtype=int).reshape(-1, 2)


def _scheduled(
    request: Request, limits: Limits, gains: Gains, progress: Callable[[float, float], None] | None
) -> Proposal:
    """One covariance between agents and a factor for every round, each in turn the best for the other."""
    assert gains.by_round is not None

    def between(effective: np.ndarray, variance_cap: float | None) -> Over:
        found = _spatial(request, limits, effective, progress, variance_cap=variance_cap)
        return Over(found.covariance, found.noise)

    spread = over_rounds(gains.by_round, limits.strictest, between, cap=request.cap)
    ratio = float(spread.factors.max() / spread.factors.min())
    notes: tuple[str, ...] = ()
    if ratio > 10:
        notes = (
            f"Noise of the largest round is {ratio:.3g} times that of the smallest. Models in between are as noisy, and clipped gradients or losses "
            f"that are not quadratic may feel it: give cap= to bound it.",
        )
    largest = float(np.sqrt(np.diag(spread.over.covariance).max()) * spread.factors.max())
    noise = spread.over.noise.scaled(spread.factors.tolist())
    return Proposal(noise, spread.over.covariance, spread.error, spread.bound, largest, notes)


def _remembering(request: Request, limits: Limits) -> tuple[Proposal, float, bool]:
    """Own noise that remembers its last rounds, for records that are seen once or in turns."""
    from sottovoce.design.remembering import remembering

    made = remembering(
        request.topology, request.algorithm, request.question, limits.strictest, objective=request.objective, when=request.when,
        curvature=request.curvature, bands=request.bands,
    )  # fmt: skip
    largest = float(made.message_std.max())
    if request.cap is not None and largest > request.cap:
        raise IncompatibleChoice(
            f"cap = {request.cap:g}, and noise that remembers has a std of {largest:.4g} in some message. Raise the cap, or use time='white'."
        )
    noise = (
        designed(Gaussian(std=1.0), own=np.sqrt(made.variances))
        .scaled(made.factors.tolist())
        ._replace(memory=made.memory if made.memory.shape[1] else None)
    )
    proposal = Proposal(noise, np.diag(made.variances), made.error, made.lower_bound, largest)
    return proposal, made.independent, False


def _stated(request: Request, limits: Limits, proposal: Proposal, independent: float, *, exact: bool) -> Design:
    """Scale the noise so that the accountant's statements are the targets, and say what it is worth."""
    first = _accounted(request, proposal.noise)
    factor = max(_over(stated, target) for stated, target in zip(first, request.targets, strict=True)) * (1 + NEARLY)
    if request.own_floor > 0:  # less noise would do for the targets, and would break the floor
        factor = max(factor, 1.0)
    noise = proposal.noise.scaled(factor)
    stated = _accounted(request, noise)
    for one, target in zip(stated, request.targets, strict=True):
        if one.mu is None or one.mu > target.mu * (1 + 1e-9):
            raise UnsupportedClaim(
                f"the accountant states mu = {one.mu} for {target.observer}, more than the {target.mu:.6g} asked for, so nothing is returned."
            )
    unit_mu = limits.unit_mu if request.time == "white" else _unit_mu_of(request, noise)
    bounded = are_all_told_everything(request.topology, request.algorithm, request.targets, request.question)
    return Design(
        noise=noise,
        error=proposal.error * factor**2,
        bound=proposal.bound if bounded else 0.0,
        independent=independent,
        guarantees={target.observer.name: one for one, target in zip(stated, request.targets, strict=True)},
        targets={target.observer.name: target.mu for target in request.targets},
        largest_std=proposal.largest_std * factor,
        exact=exact,
        notes=(
            *proposal.notes,
            *(() if bounded else (NO_BOUND,)),
            *_notes(request, independent / (proposal.error * factor**2), exact=exact),
            *warning(key_plan(noise, unit_mu), limits),
        ),
        settings=_settings(request),
        unit_mu=unit_mu,
    )


def _unit_mu_of(request: Request, noise: Noise) -> np.ndarray:
    """[K] the same where rounds differ: what the accountant states about this noise, in units of 1 / sqrt([S^-1]_pp)."""
    each = reader_of(request.targets)
    stated = account_each(request.topology, request.algorithm, noise, each, question=request.question)
    precision = np.diag(np.linalg.inv(key_plan(noise, np.ones(len(stated))).covariance))
    return np.asarray(np.array([one.mu for one in stated], dtype=float) / np.sqrt(precision))


def _accounted(request: Request, noise: Noise) -> list[Guarantee]:
    observers = [target.observer for target in request.targets]
    return account(request.topology, request.algorithm, noise, observers, question=request.question)


def _over(stated: Guarantee, target: Target) -> float:
    if stated.mu is None or not math.isfinite(stated.mu):
        raise IncompatibleChoice(
            f"no noise of this kind keeps the target of {target.observer}: {stated.reason} Raise own_floor, use other keys, or leave this target out."
        )
    return stated.mu / target.mu


def _notes(request: Request, gain: float, *, exact: bool) -> tuple[str, ...]:
    """What to know beside the numbers."""
    notes = []
    if request.keys in ("edges", "pairs") and gain < 1.0005:
        notes.append("No shared noise helps against these observers: the design is own noise alone.")
    elif request.keys in ("edges", "pairs"):
        notes.append(
            "Shared noise protects only while the others follow the protocol, and nobody outside the targets colludes."
        )
    if request.keys == "joint":
        notes.append(
            "A generator that you provide draws the noise and is trusted: it must tell every agent its own part alone, and forget it."
        )
    what = (
        "The error is exact for these quadratic losses"
        if exact
        else "The error is that of one contraction that stands for the losses"
    )
    notes.append(f"{what}; for other losses the noise may not be the best, and the guarantees hold all the same.")
    return tuple(notes)


def _settings(request: Request) -> dict[str, Any]:
    question = request.question
    return {
        "topology": request.topology.name,
        "agents": request.topology.num_agents,
        "algorithm": request.algorithm.name,
        "rounds": question.rounds,
        "unit": question.unit,
        "objective": dict(request.objective),
        "when": request.when,
        "keys": request.keys,
        "time": request.time,
        "own_floor": request.own_floor,
        "cap": request.cap,
    }
