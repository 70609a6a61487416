"""The rounding charge: how much farther apart a deployed agent's messages can be, between two worlds, than those of the exact run.

GIVEN THE SAME WORDS, two worlds differ in agent p's data alone. All that is rounded is whole numbers of 2^-f. Write d(.) for the difference of a quantity
between the worlds, in units; [.] for rounding, after saturating. Rounding both sides moves an entry of a difference by at most 1, float64 by at most
twice its error E, saturating not at all (it is 1-Lipschitz). So every rounding adds a vector r with entries at most 1 + 2 E, unless the numbers before it
have the same bits in both worlds: then the numbers after it do too; or are on the lattice already, as a state that is passed on: then nothing is rounded.
What is received is not rounded (`agent.exchange`), only what is made of it.

    message      m  = [psi(x, g)]                               d(m) = coefficients . (d(x), d(g)) + r
    word         m + Z                                          the same in both worlds, so d(Z) = -d(m), whole numbers
    own copy     c  = m + round(s Z),  Z = word - m             s = 1: c is the word, d(c) = 0.   s = 0: d(c) = d(m).   else d(c) = (1 - s) d(m) + r
    received     y  = sum_l a_l word_l + a_p c, in float64      d(y) = a_p d(c) + twice its error; the words have the same bits
    state        x' = [update(x, y, g)]                         d(x') = coefficients . (d(x), d(y), d(g)) + r

All of this is linear, so that d(m) = (response to gradients, which the accountant bounds) + (response to all r so far). This module runs the second one in
absolute values: it returns, per message, a number b with  ||response to all r|| <= b ||1||,  ||1|| = sqrt(d) in l2 and d in l1, times 2^-f. With
a_t the accountant's bounds at sensitivity Delta and w the price of every message (1 / std^2, 1 / scale),

    Gaussian    mu      <= sqrt(sum w (a + b)^2) <= sqrt(sum w a^2) + sqrt(sum w b^2)                     Minkowski
    Laplace     epsilon <= sum w (a + b);  every round at most (1 + largest b / a) times what it was

that is what the accountant says at the enlarged sensitivity Delta' = Delta (1 + charge). Only d(g) and its bound Delta were used of gradients: at agent level
between any two models; at record level at the same model, for which the points of gradients must have the same bits in both worlds. They do where no
variable differs that a point was computed from, which is checked here, stage by stage, and not taken from the exact run.
"""

import math
from dataclasses import dataclass

import numpy as np

from sottovoce.accounting.proofs.message_differences import Protection
from sottovoce.algorithms import Algorithm
from sottovoce.deployment.privacy.arithmetic import Stage, Traced, TracedRound, traced_round
from sottovoce.deployment.privacy.gradients import gamma
from sottovoce.linear import BoundExchange, Rounds, refill


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Roundings:
    """What roundings alone do to one agent's messages, given the same words.

    Attributes:
        messages: [T, m] bounds b, in units of the lattice and multiples of the vector of ones.
        same_points: every gradient is taken at a point that has the same bits in both worlds.
        same_model: the final model has the same bits in both worlds.
    """

    messages: np.ndarray
    same_points: bool
    same_model: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """Bounds on the entries of what an agent computes with, in units.

    Attributes:
        bound: of states and messages, at which the lattice saturates.
        noise: of one draw.
        word: of a word that is not refused: a message and all noise on a link.
        gradient: of the part of a gradient that data make.
        added: the factor with which the point is added to it.
        noisy_gradients: gradients are rounded, and get noise, before they are used.
    """

    bound: float
    noise: float
    word: float
    gradient: float
    added: float
    noisy_gradients: bool

    def gradient_at(self, point: float) -> float:
        """Of a gradient taken at a point with entries of this size."""
        return self.bound + self.noise if self.noisy_gradients else self.gradient + self.added * point

    def own(self, factor: float) -> float:
        """Of an own copy that carries this multiple of a source."""
        return self.bound + factor * self.noise + 1.0


@dataclass(slots=True)
class _Carried:
    """The blocks of a state: how far apart roundings have driven them, and whether they differ at all."""

    bounds: np.ndarray
    differs: np.ndarray


def roundings(
    rounds: Rounds,
    algorithm: Algorithm,
    protection: Protection,
    agent: int,
    *,
    entries: Entries,
    final_word: bool = False,
) -> Roundings:
    """Run the response to roundings forward.

    Args:
        rounds: of the run, bound to links and noise.
        algorithm: whose functions run, with one gradient in the place of an update that is clipped as a whole.
        protection: the noise of every exchange; `feedback` is a_p (1 - s).
        agent: p.
        entries: how large they are at most.
        final_word: the own copy of the last exchange is given away, as part of a final model that is paid for.

    Raises:
        UnsupportedClaim: functions whose rounding is not understood.
    """
    T, m, _ = protection.price.shape
    first = [int(np.argmax(rounds.which == index)) for index in range(len(rounds.distinct))]
    played = [traced(algorithm, t + 1, entries) for t in first]
    blocks = played[0].blocks
    carried = _Carried(np.zeros(blocks), np.zeros(blocks, dtype=bool))
    found, same_points = np.zeros((T, m)), True
    for t in range(T):
        one = played[int(rounds.which[t])]
        if one.begin is not None:
            same_points &= not _point_differs(one.begin, carried, received=False)
            carried = _rounded(one.begin, carried, 0.0, received_differs=False)
        for j in range(m):
            same_points &= not _point_differs(one.messages[j], carried, received=False)
            (sent,) = one.messages[j].values
            found[t, j] = _one(sent, carried, 0.0, received_differs=False)
            differs = _differs(sent, carried, received=False)
            exchange = rounds.at(t).exchanges[j]
            feedback = 0.0 if final_word and (t, j) == (T - 1, m - 1) else float(protection.feedback[t, j, agent])
            received = _received(exchange, agent, feedback, float(found[t, j]), entries) if differs else 0.0
            same_points &= not _point_differs(one.updates[j], carried, received=received > 0)
            carried = _rounded(one.updates[j], carried, received, received_differs=received > 0)
    model = _model_sources(algorithm, blocks)
    return Roundings(messages=found, same_points=same_points, same_model=not carried.differs[model].any())


def traced(algorithm: Algorithm, round_: int, entries: Entries) -> TracedRound:
    """One round of an agent on entries of these sizes."""
    return traced_round(
        algorithm, round_, bound=entries.bound, received=max(entries.word, entries.bound), gradient=entries.gradient_at
    )


def _received(exchange: BoundExchange, agent: int, feedback: float, sent: float, lattice: Entries) -> float:
    """The bound of what an agent receives when its message differs: its own copy, and the error of the combination."""
    links, noise = exchange.links, exchange.noise
    own_weight = float(links.self_weights[agent])
    if feedback == 0.0:  # the own copy is the word that was sent, or has no weight
        return 0.0
    # Of an own copy that carries a fraction of noise, every source in it is rounded by itself.
    carried = np.abs(np.asarray(noise.self_value)[noise.self_index == agent])
    fractions = 0 if feedback == own_weight else int(np.count_nonzero(carried))
    rounded_noise = 1.0 + 2.0 * gamma(4) * float(carried.max(initial=0.0)) * lattice.noise
    into = (links.receivers == agent) & (links.weights > 0)
    weights = float(links.weights[into].sum())
    size = weights * lattice.word + own_weight * (lattice.bound + float(carried.sum()) * lattice.noise + fractions)
    error = gamma(int(into.sum()) + 8) * size
    return abs(feedback) * sent + own_weight * fractions * rounded_noise + 2.0 * error


def _one(value: Traced, carried: _Carried, received: float, *, received_differs: bool) -> float:
    """How far apart roundings drive one rounded value; 0 where it has the same bits in both worlds."""
    if not _differs(value, carried, received=received_differs):
        return 0.0
    sizes = np.abs(value.coefficients)
    b = len(carried.bounds)
    rounding = 0.0 if value.on_lattice else 1.0 + 2.0 * value.error
    return float(sizes[:b] @ carried.bounds) + float(sizes[b]) * received + rounding


def _rounded(stage: Stage, carried: _Carried, received: float, *, received_differs: bool) -> _Carried:
    given = {"received_differs": received_differs}
    return _Carried(
        np.array([_one(value, carried, received, **given) for value in stage.values]),
        np.array([_differs(value, carried, received=received_differs) for value in stage.values]),
    )


def _differs(value: Traced, carried: _Carried, *, received: bool) -> bool:
    """Whether a value was computed from anything that can differ; gradients can."""
    b = len(carried.differs)
    return any(source == b + 1 or (received if source == b else carried.differs[source]) for source in value.sources)


def _point_differs(stage: Stage, carried: _Carried, *, received: bool) -> bool:
    b = len(carried.differs)
    return any(source == b + 1 or (received if source == b else carried.differs[source]) for source in stage.point)


def _model_sources(algorithm: Algorithm, blocks: int) -> list[int]:
    """The blocks that a model is computed from."""
    template = algorithm.init(np.zeros(1))
    units = [Traced(np.eye(blocks)[block], frozenset({block}), 1.0) for block in range(blocks)]
    model = algorithm.model(refill(template, units))
    return sorted(model.sources) if isinstance(model, Traced) else list(range(blocks))


def ones(norm: str, dimension: int) -> float:
    """||1||: the norm of a vector of ones."""
    return math.sqrt(dimension) if norm == "l2" else float(dimension)
