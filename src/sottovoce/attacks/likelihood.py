"""The likelihood ratio of a linear view: the best test of one agent's gradients under Gaussian noise.

Everything an observer reads, per coordinate of the model, is y = Phi g + Psi z (accounting/linear_view/choice.py). Let agent p's gradients change by
Delta c_t e, e a unit vector, and nothing else. By Neyman and Pearson no test beats a threshold on the matched filter

    score = sum_t <W_t, y_t> - <V_t, known_t>,     W = Delta (Psi Psi')^+ Phi_p c,

whose mean differs by mu^2 = Delta^2 c'Qc between the two worlds and whose variance is mu^2 in both: the Q of the accountant. Sources that the
observer knows reach messages of their own and of later rounds; V takes out what they contributed. Several directions at once, c [T, r] with
orthonormal e_1..e_r, add up: rows of norm at most 1 are gradient changes within the sensitivity.

W is found without forming Psi, in `passage`. Where a shift leaves the range of the noise, a combination of what was read carries the change in
clear. The filter is then that combination, scaled so that the score moves by exactly Delta, without any noise; its mu is infinite.

The gradients of other agents only move the score by what `centre` computes: exact for gradients that do not react to what agents hear.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.accounting.linear_view.largest_mu import gram_view
from sottovoce.algorithms import Algorithm
from sottovoce.attacks.passage import Passage
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.linear import (
    Rounds,
    bound_rounds,
    check_together,
    exchange_topologies,
    network_round,
    one_thread,
    state_blocks,
)
from sottovoce.noise import Gaussian, Noise
from sottovoce.numbers import checked, whole
from sottovoce.observers import Observer, View, view
from sottovoce.topologies import Topology

if TYPE_CHECKING:
    from sottovoce.simulation.views import Statistic

Array = Any  # NumPy or JAX
SWEEPS = 2000  # of the search for the worst changes; it stops when a sweep gains nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedFilter:
    """Weights of the score on all that is read and known; T rounds, r directions.

    Attributes:
        observer: its name.
        agent: whose gradients are tested.
        mu: distance of the two worlds' scores in standard deviations; infinite where something is in clear.
        clear_round: the round (from 1) in which the change is read without noise; 0: never.
        direction: [T, r] how the gradients change, in units of the sensitivity.
        messages: per exchange [T, E_o, r], rows as in a recorded view: the links that are read, or a federation's uplinks.
        broadcast: per exchange [T, r]; () where no relay is heard.
        final_model: [r]; zero where it is not given.
        sources: per exchange [T, S_o, r], on the known sources as they were used; noise in gradients comes last, as one more entry.
        gradients: [T, K, r] what the score holds of each agent's gradient.
        start: [r] what it holds of the common first model.
    """

    observer: str
    agent: int
    mu: float
    clear_round: int
    direction: np.ndarray
    messages: tuple[np.ndarray, ...]
    broadcast: tuple[np.ndarray, ...]
    final_model: np.ndarray
    sources: tuple[np.ndarray, ...]
    gradients: np.ndarray
    start: np.ndarray

    def centre(self, gradients: ArrayLike, start: ArrayLike, axes: ArrayLike) -> float:
        """The mean of the score when agents' gradients are these [T, K, d], from this first model [d], for these axes [r, d]."""
        e = np.asarray(axes, dtype=float)
        moved = np.einsum("tkr,tkd,rd->", self.gradients, np.asarray(gradients, dtype=float), e)
        return float(moved + self.start @ (e @ np.asarray(start, dtype=float)))

    def score(
        self,
        axes: ArrayLike,
        *,
        messages: tuple[Array, ...],
        sources: tuple[Array, ...],
        broadcast: tuple[Array, ...] = (),
        final_model: Array | None = None,
    ) -> Array:
        """The score of recorded runs.

        Args:
            axes: [r, d] orthonormal, the directions e.
            messages: per exchange [..., T, E_o, d].
            sources: per exchange [..., T, S_o, d], what the observer knows.
            broadcast: per exchange [..., T, d].
            final_model: [..., d], for an observer who is given it.
        """
        e = _checked_axes(axes, self.direction.shape[1])
        self._check_recorded(messages, sources, broadcast, final_model)
        total = sum(np.einsum("...ted,ter,rd->...", y, W, e) for y, W in zip(messages, self.messages, strict=True))
        total = total + sum(
            np.einsum("...td,tr,rd->...", y, W, e) for y, W in zip(broadcast, self.broadcast, strict=True)
        )
        total = total - sum(
            np.einsum("...tsd,tsr,rd->...", z, V, e) for z, V in zip(sources, self.sources, strict=True)
        )
        return total if final_model is None else total + np.asarray(final_model) @ (self.final_model @ e)

    def _check_recorded(
        self, messages: tuple[Array, ...], sources: tuple[Array, ...], broadcast: tuple[Array, ...], final_model: Array | None
    ) -> None:  # fmt: skip
        """Refuse a view with other rows than the filter's: a score without them would be another test."""
        for name, given, own in (("messages", messages, self.messages), ("sources", sources, self.sources)):
            if [part.shape[-3:-1] for part in given] != [part.shape[:2] for part in own]:
                raise ConfigError(
                    f"{name} have shapes {[part.shape for part in given]}; this filter needs {[(..., *part.shape[:2], 'd') for part in own]}. "
                    f"Record the view of '{self.observer}' over all its rounds."
                )
        if len(broadcast) != len(self.broadcast) or (final_model is None and self.final_model.any()):
            raise ConfigError(
                f"the view of '{self.observer}' has {len(self.broadcast)} broadcast(s) per round"
                f"{' and the final model' if self.final_model.any() else ''}; not all were given. Give broadcast= and final_model=."
            )


def statistic(matched: MatchedFilter, axes: ArrayLike) -> "Statistic":
    """The score as something to compute along a recorded run, for `sottovoce.simulation.views.measure`."""
    import jax.numpy as jnp

    from sottovoce.simulation.views import Statistic

    e = _checked_axes(axes, matched.direction.shape[1])

    def on(weights: np.ndarray, values: Array, round_: Array) -> Array:
        full = jnp.asarray(weights @ e, values.dtype)[round_ - 1]  # [rows, d]
        return (full * values).sum()

    def update(total: Array, seen: Any, round_: Array) -> Array:
        pairs = [
            *zip(matched.messages, seen.messages, strict=True),
            *zip(matched.broadcast, seen.broadcast, strict=True),
        ]
        for weights, values in pairs:
            total = total + on(weights, values, round_)
        for weights, values in zip(matched.sources, seen.sources, strict=True):
            total = total - on(weights, values, round_)
        return total

    def finish(total: Array, final_model: Array) -> Array:
        return total + (jnp.asarray(matched.final_model @ e, final_model.dtype) * final_model).sum()

    return Statistic(init=lambda: jnp.zeros(()), update=update, finish=finish)


@one_thread
def matched_filter(
    topology: Topology,
    algorithm: Algorithm,
    noise: Noise,
    observer: Observer,
    *,
    rounds: int,
    sensitivity: float,
    agent: int,
    direction: ArrayLike | None = None,
) -> MatchedFilter:
    """The weights of the best test of one agent's gradients.

    Args:
        topology: who talks to whom; the links of every round must be fixed.
        algorithm: what an agent does in a round; it must be linear.
        noise: Gaussian, or none.
        observer: who looks.
        rounds: T.
        sensitivity: Delta, the size of a change of the gradient.
        agent: whose gradients change, outside the observer.
        direction: [T] or [T, r], rows of norm at most 1: how they change. None: the worst that is found, with which mu is the accountant's
            `linear_mu`.

    Raises:
        IncompatibleChoice: a law for which this is not the likelihood ratio.
        ConfigError: malformed input, or a view too large to compute.
    """
    bound, seen = _question(topology, algorithm, noise, observer, rounds=rounds, sensitivity=sensitivity, agent=agent)
    changes = None if direction is None else _checked_direction(direction, rounds)
    networks = [network_round(one) for one in bound.distinct]
    passage = Passage.of(bound, networks, seen, agent)
    if changes is None:
        changes = _worst(bound, seen, passage, agent)
    found = passage.forwards(changes)
    weights = passage.backwards(found)
    total = (
        1.0 if found.clear_round else float(sensitivity)
    )  # a combination without noise is scaled by what it reads, whatever the sensitivity
    start = np.array([float(np.sum(part)) for part in state_blocks(algorithm.init(np.ones(1)))])
    gathered = passage.gather([total * W for W in weights], start)
    mu = math.inf if found.clear_round else float(sensitivity) * math.sqrt(found.squared)
    return MatchedFilter(
        observer=observer.name, agent=int(agent), mu=mu, clear_round=found.clear_round, direction=changes, **gathered._asdict()
    )  # fmt: skip


def worst_changes(gram: np.ndarray, columns: int) -> np.ndarray:
    """Unit vectors v_1..v_T [T, columns] with large sum_st Q_st <v_s, v_t>, by setting one after the other to its best.

    With about sqrt(2 T) columns the maximum over vectors of any dimension is found, up to the stopping rule; with one, signs that no
    single flip improves.
    """
    Q, T = np.asarray(gram, dtype=float), len(gram)
    equal = np.zeros((T, columns))
    equal[:, 0] = 1.0
    if Q.min(initial=0.0) >= -1e-12 * np.abs(Q).max(initial=0.0):
        return equal
    starts = [equal, np.random.default_rng(0).standard_normal((T, columns))]
    found = [_ascend(Q, v / np.linalg.norm(v, axis=1, keepdims=True)) for v in starts]
    return max(found, key=lambda v: float(np.sum(v * (Q @ v))))


def _ascend(Q: np.ndarray, v: np.ndarray) -> np.ndarray:
    v, before = v.copy(), -math.inf
    for _ in range(SWEEPS):
        for t in range(len(Q)):
            pull = Q[t] @ v - Q[t, t] * v[t]
            size = np.linalg.norm(pull)
            if size > 0:
                v[t] = pull / size
        value = float(np.sum(v * (Q @ v)))
        if value <= before * (1 + 1e-12):
            break
        before = value
    return v


def _worst(bound: Rounds, seen: View, passage: Passage, agent: int) -> np.ndarray:
    """The changes with the largest mu; where something is in clear, a change of which the most is."""
    T = len(bound)
    found = gram_view(bound, seen, np.array([agent]), np.ones((1, T), dtype=bool))
    if found is None:
        raise ConfigError(
            f"the view of {T} rounds is too large for its worst direction to be found. Give a direction [T], such as np.ones(T), or fewer "
            f"rounds."
        )
    if not found.gram.clear_round[0]:
        return worst_changes(found.gram.values[0], math.ceil(math.sqrt(2 * T)) + 1)
    together = np.ones((T, 1))
    if passage.forwards(together).clear_round:
        return together
    return np.eye(T)[:, [passage.forwards(np.eye(T)).column]]


def _question(
    topology: Topology, algorithm: Algorithm, noise: Noise, observer: Observer, *, rounds: int, sensitivity: float, agent: int
) -> tuple[Rounds, View]:  # fmt: skip
    """Check what was asked; everything else is refused where it is bound."""
    if noise.law is not None and not isinstance(noise.law, Gaussian):
        raise IncompatibleChoice(
            f"the matched filter is the likelihood ratio under Gaussian noise; '{noise.name}' has the law {type(noise.law).__name__}. Use "
            f"sv.noise.Gaussian, or sottovoce.attacks.transcript for an observer of every message."
        )
    checked("sensitivity", sensitivity, "(0, inf)")
    if algorithm.local_steps is not None or algorithm.clipped_update is not None or algorithm.sampling is not None:
        raise IncompatibleChoice(
            f"'{algorithm.name}' has several local steps, clips whole updates or draws agents, and its rounds are not linear in one gradient. "
            f"Use one local step of all agents."
        )
    check_together(topology, algorithm, noise, rounds=rounds, remembers=True)
    bound = bound_rounds(topology, algorithm, noise, rounds)
    if bound.projected:
        raise IncompatibleChoice(
            f"'{algorithm.name}' projects models, which is not linear. Leave the box out to attack the linear run."
        )
    seen = view(observer, *exchange_topologies(algorithm, topology))
    K = topology.num_agents
    if whole("agent", agent, least=0) >= K or seen.members[agent]:
        raise ConfigError(
            f"agent = {agent!r}; it must be one of 0 to {K - 1} and outside the observer ({observer}), which knows its own data."
        )
    return bound, seen


def _checked_direction(direction: ArrayLike, rounds: int) -> np.ndarray:
    given = np.asarray(direction, dtype=float)
    changes = given[:, None] if given.ndim == 1 else given
    fits = changes.ndim == 2 and len(changes) == rounds and changes.shape[1] > 0 and np.isfinite(changes).all()
    if not fits or (np.linalg.norm(changes, axis=1) > 1 + 1e-9).any() or not changes.any():
        raise ConfigError(
            f"direction has shape {given.shape}; it needs one finite row of norm at most 1 for each of the {rounds} rounds, not all zero. "
            f"Try np.ones({rounds})."
        )
    return changes


def _checked_axes(axes: ArrayLike, columns: int) -> np.ndarray:
    e = np.atleast_2d(np.asarray(axes, dtype=float))
    if e.ndim != 2 or len(e) != columns or not np.allclose(e @ e.T, np.eye(columns), rtol=0.0, atol=1e-9):
        raise ConfigError(
            f"axes have shape {e.shape}; the {columns} directions of this filter need as many orthonormal vectors [{columns}, d]. A filter for "
            f"one direction (direction=np.ones(T)) works in every dimension."
        )
    return e
