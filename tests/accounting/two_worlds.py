"""Two worlds as the simulator plays them: what an observer's record of both gives away, beside what the accountant states.

Gradients of the changed agent p are a table of the round and of their number in it, and every agent may react linearly to the model it has:

    g_k(w) = table_k[round, number] + response_k w                the tables of two worlds differ at p, by at most the sensitivity

So a record of all rounds is affine in the unit draws u of the noise, y = c + M u, if the algorithm's functions are affine in the state (in
gradients they need not be). M and c are solved for from many recorded runs, and every further run must agree with them. The draws are made a
second time here, from their addresses (seed, world, repeat, stream, round, exchange, source, coordinate), so that nothing about the size or
the sharing of noise is taken from the accountant or from a noise scheme. Then, with delta the difference of c,

    Gaussian         mu      = sqrt(delta' (M M')^+ delta)              exactly: two Gaussians of the same covariance
    Laplace laws     epsilon = min ||h||_1 over M h = delta             exactly: -log density of y grows along delta by that much

and both are infinite where delta leaves the range of M. Draws that an observer sees (used links, a token's path) are fixed by looking at runs in
which they are the same.
"""

import dataclasses
import math
from typing import NamedTuple

import jax
import numpy as np
from scipy import optimize, special

import sottovoce as sv
from sottovoce.simulation import Settings, precision
from sottovoce.simulation.rounds import random
from sottovoce.simulation.views.plan import plan_view
from sottovoce.simulation.views.program import compile_record, world_seed
from sottovoce.simulation.views.recorder import Recorder, keep_all

SEED = 20
SPARE = 8  # runs beyond those that determine M: they test it
FAR = 1e3  # models with a coordinate beyond it have gradients of their own
START = (1, 0)
now = [
    START
]  # the round and number of the gradient that is being taken; `timed` says so, since gradients are told the model alone


@dataclasses.dataclass(frozen=True)
class Reactions:
    """A problem whose gradients are a table of rounds plus a linear reaction to the model."""

    table: np.ndarray  # [K, T, 2 L, d]: of every number in a round, then the same for models that are far away
    response: np.ndarray  # [K, d, d]

    kind = "reactions"
    clip = box = quadratic = losses = None

    @property
    def num_agents(self):
        return len(self.table)

    @property
    def dimension(self):
        return self.table.shape[-1]

    @property
    def sizes(self):
        return np.ones(self.num_agents, dtype=np.int64)

    @property
    def initial_model(self):
        return np.zeros(self.dimension)

    @property
    def arrays(self):
        return {"table": self.table, "response": self.response}

    def gradient(self, w, data):
        """In the round and under the number that `timed` has noted."""
        (round_, number), numbers = now[-1], self.table.shape[2] // 2
        far = (abs(w) > FAR).any().astype("int32")
        return data["table"][round_ - 1, number + numbers * far] + data["response"] @ w


def timed(algorithm):
    """The same algorithm, whose gradients are told the round and their number."""

    def with_round(function):
        def told(*arguments):
            *values, gradient, round_ = arguments

            def gradient_now(w, step=0):
                now.append((round_, step))
                try:
                    return gradient(w, step)
                finally:
                    now.pop()

            return function(*values, gradient_now, round_)

        return told

    exchanges = tuple(
        exchange._replace(message=with_round(exchange.message), update=with_round(exchange.update))
        for exchange in algorithm.exchanges
    )
    begin = None if algorithm.begin is None else with_round(algorithm.begin)
    return algorithm._replace(exchanges=exchanges, begin=begin)


class Parts(NamedTuple):
    """What is played: everything but data and observers."""

    topology: sv.topologies.Topology
    algorithm: sv.algorithms.Algorithm
    noise: sv.noise.Noise
    rounds: int


class Data(NamedTuple):
    """The gradients of all agents, and how those of agent p differ between the two worlds of every pair."""

    agent: int
    middle: np.ndarray  # [K, T, 2 L, d] gradients without reaction; p's are in the middle between two worlds
    changes: np.ndarray  # [pairs, T, 2 L, d] half the difference of p's gradients
    response: np.ndarray  # [K, d, d]

    def worlds(self):
        """The worlds in pairs: the change added, the change taken away."""
        made = []
        for change in self.changes:
            for sign in (1.0, -1.0):
                table = self.middle.copy()
                table[self.agent] += sign * change
                made.append(Reactions(table, self.response))
        return made


class Map(NamedTuple):
    """How everything that can be seen depends on the draws, in runs with the same visible pattern of links."""

    constants: np.ndarray  # [W, rows]
    matrix: np.ndarray  # [rows, columns]
    off: float  # the largest distance of a run from it, relative to the largest number seen


class Stage:
    """A compiled program that records all there is to see of `Parts`, and plays any data of the same shape with it."""

    def __init__(self, parts, data, *, repeats=None, dtype="float64", observer=None):
        self.parts, self.dtype = parts, dtype
        self.played = timed(parts.algorithm)
        K, d = parts.topology.num_agents, data.middle.shape[-1]
        self.dimension = d
        self.view_plan = everything(self) if observer is None else self.seen_by(observer)
        if parts.noise.in_gradients:
            self.columns = [(random.GRADIENTS, step, K) for step in range(parts.algorithm.gradients_per_round)]
        else:
            sources = [channel.map.num_sources for channel in self.view_plan.channels]
            self.columns = [(random.NOISE, exchange, number) for exchange, number in enumerate(sources)]
        unknowns = sum(number for *_, number in self.columns) * parts.rounds * d + 1
        self.repeats = unknowns + SPARE if repeats is None else repeats
        self.program = None

    def seen_by(self, observer):
        return plan_view(self.parts.topology, self.played, self.parts.noise, observer)

    def record(self, data):
        """Play all worlds: what was seen, one array [W, R, T, rows, d] or [W, R, rows, d] after the other, and who was linked."""
        settings = Settings(rounds=self.parts.rounds, repeats=self.repeats, seed=SEED, dtype=self.dtype)
        topology, _, noise, rounds = self.parts
        recorder = Recorder(data.worlds(), topology, self.played, noise, reads_all(topology), settings)
        recorder.view_plan = self.view_plan
        with precision(self.dtype):
            if self.program is None:
                self.program = compile_record(recorder.plan, self.view_plan, keep_all(recorder, rounds))
            _, found = recorder.advance(self.program, np.arange(self.repeats), recorder.start(self.repeats), 0, rounds)
            seen, final = jax.tree.map(np.asarray, found)
        blocks = [*seen.messages, *(part[:, :, :, None] for part in seen.broadcast), *seen.sources, final[:, :, None]]
        used = np.concatenate([part.reshape(*part.shape[:2], -1) for part in seen.active], axis=2)
        return [np.asarray(block, np.float64) for block in blocks], used

    def draws(self, world):
        """[R, columns] the unit draws of one world, by address."""
        rounds, words, blocks = np.arange(1, self.parts.rounds + 1), random.seed_words(world_seed(SEED, world)), []
        for stream, place, number in self.columns:
            keys = threefry((words[0], words[1]), (np.arange(self.repeats), stream))
            keys = threefry(tuple(k[:, None] for k in keys), (rounds, place))  # [R, T]
            at = np.arange(number)[:, None], np.arange(self.dimension)
            keys = tuple(k[:, :, None, None] for k in keys)
            drawn = unit_draw(self.parts.noise.law, keys, at, self.dtype)  # [R, T, S, d]
            blocks.append(drawn.reshape(self.repeats, -1))
        return np.concatenate(blocks, axis=1)

    def maps(self, data):
        """One affine map for every pattern of links that has been seen often enough in all worlds."""
        blocks, used = self.record(data)
        W, R = used.shape[:2]
        flat = np.concatenate([block.reshape(W, R, -1) for block in blocks], axis=2)
        drawn = np.stack([self.draws(world) for world in range(W)])
        patterns, which = np.unique(used.reshape(W * R, -1), axis=0, return_inverse=True)
        which, found = which.reshape(W, R), []
        for pattern in range(len(patterns)):
            chosen = [np.flatnonzero(which[w] == pattern) for w in range(W)]
            if len(chosen[0]) > drawn.shape[2] + 1 and min(map(len, chosen)) > 0:
                found.append(solve(*([array[w, chosen[w]] for w in range(W)] for array in (flat, drawn))))
        return found

    def affine_maps(self, data):
        """The maps that every run obeys.

        A token that stays where it is uses no link, so a pattern may stand for several paths; then it has no one map and is left out.
        """
        found = self.maps(data)
        affine = [one for one in found if one.off < 1e-8]
        assert affine, "what was recorded is not affine in the noise"
        assert len(affine) == len(found) or self.parts.algorithm.walks
        return affine

    def rows(self, observer):
        """[rows] bool: what an observer sees of everything that was recorded."""
        sees, everyone, T, d = self.seen_by(observer), self.view_plan, self.parts.rounds, self.dimension
        marks = []

        def mark(number, chosen, times=T):
            block = np.zeros((times, number, d), dtype=bool)
            block[:, chosen] = True
            marks.append(block.ravel())

        for full, part in zip(everyone.channels, sees.channels, strict=True):
            mark(len(full.read), part.read)
        for _ in range(everyone.layout.broadcast * len(everyone.channels)):
            mark(1, slice(None) if sees.layout.broadcast else [])
        for full, part in zip(everyone.channels, sees.channels, strict=True):
            mark(len(full.known), part.known)
        if self.parts.noise.in_gradients:
            mark(len(self.columns) * len(sees.view.members), np.tile(sees.view.members, len(self.columns)))
        mark(1, slice(None) if sees.layout.final_model else [], times=1)
        return np.concatenate(marks)


def reads_all(topology):
    """Somebody who reads every message and gets the final model."""
    return (sv.observers.server() if topology.relay else sv.observers.eavesdropper()) + sv.observers.final_model()


def everything(stage):
    """All that can be seen or known: of `reads_all`, with every source of noise and with what a relay sends out."""
    plan, noise = stage.seen_by(reads_all(stage.parts.topology)), stage.parts.noise
    channels = tuple(one._replace(known=np.arange(one.map.num_sources)) for one in plan.channels)
    sources = [one.map.owners for one in channels]
    if noise.in_gradients:
        agents = np.tile(np.arange(stage.parts.topology.num_agents), stage.parts.algorithm.gradients_per_round)
        sources.append(np.stack([agents, np.full_like(agents, -1)], axis=1))
    shown = dataclasses.replace(plan.layout, sources=tuple(sources), broadcast=stage.parts.topology.relay)
    everybody = plan.view._replace(members=np.ones_like(plan.view.members))
    return plan._replace(view=everybody, channels=channels, layout=shown)


def threefry(key, counter):
    """Threefry-2x32 with 20 rounds (Salmon et al. 2011), in NumPy."""
    k0, k1 = (np.asarray(word, np.uint32) for word in key)
    schedule = (k0, k1, k0 ^ k1 ^ np.uint32(0x1BD11BDA))
    with np.errstate(over="ignore"):
        x0 = np.asarray(counter[0], np.uint32) + schedule[0]
        x1 = np.asarray(counter[1], np.uint32) + schedule[1]
        for group in range(5):
            for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
                x0 = x0 + x1
                x1 = ((x1 << np.uint32(turn)) | (x1 >> np.uint32(32 - turn))) ^ x0
            x0 = x0 + schedule[(group + 1) % 3]
            x1 = x1 + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return x0, x1


def unit_draw(law, keys, counter, dtype):
    """Gaussian draws of standard deviation one, Laplace draws of scale one; the spherical law in one dimension only."""
    bits = threefry(keys, counter)
    if isinstance(law, sv.noise.Gaussian):
        return special.ndtri(_uniform(bits, dtype))
    if isinstance(law, sv.noise.Laplace):
        return np.where(bits[0] & 1 == 1, -1.0, 1.0) * np.log(_uniform(bits, dtype))
    assert bits[0].shape[-1] == 1
    lengths = threefry((keys[0], keys[1] ^ np.uint32(0x9E3779B9)), counter)
    return -np.sign(special.ndtri(_uniform(bits, dtype))) * np.log(_uniform(lengths, dtype))


def _uniform(bits, dtype):
    if dtype == "float64":
        return ((bits[0] >> np.uint32(5)) * 67108864.0 + (bits[1] >> np.uint32(6)) + 0.5) * 2.0**-53
    return ((bits[0] >> np.uint32(9)) + 0.5) * 2.0**-23


def solve(seen, drawn):
    """The affine map behind records [W][R, rows] and draws [W][R, columns], from the first world; the others must agree."""
    first = np.concatenate([np.ones((len(drawn[0]), 1)), drawn[0]], axis=1)
    matrix = np.linalg.lstsq(first, seen[0], rcond=1e-12)[0][1:].T
    rests = [y - u @ matrix.T for y, u in zip(seen, drawn, strict=True)]
    constants = np.stack([np.median(rest, axis=0) for rest in rests])
    size = max(np.abs(y).max(initial=0.0) for y in seen) or 1.0
    off = max(np.abs(rest - c).max(initial=0.0) for rest, c in zip(rests, constants, strict=True))
    return Map(constants, matrix, off / size)


def told_apart(found, rows, law):
    """The largest mu (Gaussian) or pure epsilon (Laplace laws) of any pair of worlds, for who sees these rows."""
    differences = found.constants[0::2, rows] - found.constants[1::2, rows]  # [pairs, rows]
    size = np.abs(differences).max(initial=0.0)
    matrix = found.matrix[rows]
    if size <= 1e-11 * max(np.abs(found.matrix).max(initial=0.0), np.abs(found.constants).max(initial=0.0)):
        return 0.0
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    # What cancels in the noise leaves rounding of the numbers that were recorded.
    kept = values > 1e-10 * max(values.max(initial=0.0), size)
    left, values, right = left[:, kept], values[kept], right[kept]
    inside = differences @ left
    if np.abs(differences - inside @ left.T).max() > 1e-8 * size:
        return math.inf
    if isinstance(law, sv.noise.Gaussian):
        return float(np.linalg.norm(inside / values, axis=1).max())
    return max(_shortest(right, one) for one in inside / values)


def _shortest(rows, target):
    """min ||h||_1 over rows h = target, for orthonormal rows."""
    size = np.abs(target).max()
    if len(rows) == rows.shape[1] or size == 0:
        return float(np.abs(rows.T @ target).sum())
    answer = optimize.linprog(
        np.ones(2 * rows.shape[1]), A_eq=np.concatenate([rows, -rows], axis=1), b_eq=target / size, method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )  # fmt: skip
    assert answer.status == 0, answer.message
    return float(answer.fun * size)


class Verdict(NamedTuple):
    """What was stated and what was attained."""

    stated: float
    attained: float
    validity: str

    @property
    def holds(self):
        """Whether no more was attained than stated, up to rounding."""
        return self.attained <= self.stated * (1 + 1e-6)


def stated(parts, agent, observer, **question):
    """The guarantee of one agent; None where the accountant refuses."""
    topology, algorithm, noise, rounds = parts
    try:
        return sv.account(topology, algorithm, noise, observer, rounds=rounds, agent=agent, **question)
    except (sv.UnsupportedClaim, sv.IncompatibleChoice):
        return None


def judge(stage, data, asked, accounted=None):
    """Hold what was recorded against what is stated, for every (observer, question) asked.

    Args:
        stage: what is played.
        data: the worlds.
        asked: pairs of an observer and the rest of the question, a dict.
        accounted: other parts, for which the guarantee is asked instead; None: those that are played.

    Returns:
        A verdict for every question; None where the accountant refuses, or states no mu and no pure epsilon.
    """
    parts = stage.parts if accounted is None else accounted
    guarantees = [stated(parts, data.agent, observer, **question) for observer, question in asked]
    if all(one is None or one.mu is None for one in guarantees):
        return [None] * len(asked)
    found = stage.affine_maps(data)
    verdicts = []
    for (observer, _), guarantee in zip(asked, guarantees, strict=True):
        if guarantee is None or guarantee.mu is None:
            verdicts.append(None)
            continue
        value = guarantee.mu if guarantee.pure_epsilon is None else guarantee.pure_epsilon
        rows, law = stage.rows(observer), stage.parts.noise.law
        attained = max(told_apart(one, rows, law) for one in found)
        verdicts.append(Verdict(value, attained, guarantee.validity))
    return verdicts


def all_signs(rounds, axis, *, size, far=1.0, numbers=1):
    """[pairs, T, 2 L, d] half of every change of this size along an axis [d], round by round up to the common sign.

    Gradients at models far away change `far` times as much.
    """
    signs = np.array([[1.0 if (code >> t) & 1 else -1.0 for t in range(rounds)] for code in range(2 ** (rounds - 1))])
    return half_changes(signs, axis, size=size, far=far, numbers=numbers)


def half_changes(signs, axis, *, size, far=1.0, numbers=1):
    """[pairs, T, 2 L, d] from signs [pairs, T]."""
    places = np.repeat([1.0, far], numbers)
    return 0.5 * size * signs[:, :, None, None] * places[:, None] * np.asarray(axis)
