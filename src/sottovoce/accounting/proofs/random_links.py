"""Links that come and go at random: a guarantee for every pattern of active links.

Which links are active does not depend on data, so the observer may know it. An agent whose links are all down sends nothing and adds no
noise, so that its differences pile up: with S_t = Delta (step_1 + ... + step_t), its next message differs by up to S_t.

    own copy is the message     differences start again from zero after every message. The worst pattern is silence until
                                the last round: mu <= S_T / scale
    otherwise                   rho <= 1 whatever is active: mu^2 <= sum_t S_t^2 / scale_t^2

(times the number of links with sources of their own, and with sums instead of squares for Laplace laws). Both hold for every
pattern and are far from tight when links rarely fail; a schedule that is known in advance, `topology.with_schedule`, is accounted
exactly. Only steps that do not push two runs apart may be added up like this, so the losses' curvature is not used.
"""

import numpy as np

from sottovoce.accounting.proofs.evidence import Evidence, SentValues, Way
from sottovoce.accounting.proofs.message_differences import Bounds
from sottovoce.accounting.proofs.message_noise import sent_noise
from sottovoce.accounting.proofs.sent_messages import values_of_bounds
from sottovoce.accounting.question.promise import contraction
from sottovoce.algorithms import Algorithm
from sottovoce.errors import UnsupportedClaim
from sottovoce.linear import (
    BoundExchange,
    Step,
    check_linear_part,
    check_steps_from_point,
    diffusion_step,
    exchange_topologies,
    linear_rounds,
)
from sottovoce.noise import Gaussian, Noise, bind, graph_homomorphic, independent
from sottovoce.numbers import within_range
from sottovoce.problems import ConvexSmooth
from sottovoce.topologies import ActiveLinks, Dropout, RandomPair, Topology

# Schemes are known by the code that spreads their noise; a name is a claim.
COVERED = {
    independent(Gaussian(std=1.0)).spread.__code__: "independent",
    independent(Gaussian(std=1.0), per_edge=True).spread.__code__: "independent",
    graph_homomorphic(Gaussian(std=1.0)).spread.__code__: "graph_homomorphic",
}
CHECKED_PAIRS = 64


def random_link_values(evidence: Evidence) -> SentValues:
    """What every agent gives away at most, whatever links are active."""
    asked = evidence.asked
    promised = asked.same_model and asked.promise is not None
    return values_of_bounds(
        random_link_bounds(evidence),
        pure=asked.pure,
        same_model=asked.same_model,
        promised=promised,
        final_model=asked.view.final_model,
    )


def random_link_bounds(evidence: Evidence) -> Bounds:
    """What every agent gives away at most, at sensitivity one; see `message_differences.Bounds`.

    Raises:
        UnsupportedClaim: a scheme or an algorithm for which this is not proved.
    """
    asked, rounds = evidence.asked, evidence.asked.rounds
    algorithm, noise, losses = asked.algorithm, asked.noise, asked.promise if asked.same_model else None
    used = exchange_topologies(algorithm, asked.topology)
    if getattr(noise.spread, "__code__", None) not in COVERED or len(used) != 1:
        raise UnsupportedClaim(
            f"with links drawn at random, guarantees are proved for {' and '.join(sorted(set(COVERED.values())))} noise and one exchange per round; given "
            f"'{noise.name}' and '{algorithm.name}'. Use one of them, or topology.with_schedule([...])."
        )
    sizes = _piled_up(_diffusion_steps(algorithm, rounds, losses), evidence.placed)
    linear = algorithm if algorithm.linear_part is None else algorithm.linear_part
    scale = 0.0 if noise.law is None else noise.law.scale
    scales = scale * noise.factors(rounds) * linear.noisy_rounds(rounds)
    within_range("the scale of the noise", scales)
    price, restarts = _protection(used[0], noise, pure=asked.pure)
    spent = _spent(sizes, scales, pure=asked.pure, restarts=restarts).max(axis=1)
    with np.errstate(invalid="ignore"):
        spent = np.where(spent[:, None] > 0, spent[:, None] * price[None, :], 0.0)
    K = asked.topology.num_agents
    return Bounds(
        spent=spent,
        public_point=np.full(K, False),
        hidden=np.full(K, not restarts),
        clear_round=np.where(np.isinf(spent).any(axis=0), np.argmax(np.isinf(spent), axis=0) + 1, 0),
    )


def _diffusion_steps(algorithm: Algorithm, rounds: int, losses: ConvexSmooth | None) -> list[Step]:
    """The steps of all rounds, which do not push two runs apart.

    Raises:
        UnsupportedClaim: rounds of another kind, or steps that are too long for the promise.
    """
    linear = algorithm if algorithm.linear_part is None else algorithm.linear_part
    forms = linear_rounds(linear, rounds)
    if algorithm.linear_part is not None:
        check_linear_part(algorithm, linear, rounds)
        if losses is not None:
            check_steps_from_point(algorithm, linear, rounds)
    kinds = [diffusion_step(form) for form in forms.forms]
    made = []
    for step in (kinds[index] for index in forms.which):
        if step is None or (step.kind == "consensus" and losses is not None):
            raise UnsupportedClaim(
                f"with links drawn at random, guarantees are proved for diffusion, and for consensus at unit='agent'; given "
                f"'{algorithm.name}'. Use sv.algorithms.atc, or topology.with_schedule([...])."
            )
        contraction(step.size, losses)
        made.append(step)
    within_range("a step", [step.size for step in made])
    return made


def _piled_up(steps: list[Step], patterns: np.ndarray) -> np.ndarray:
    """[T, A] S_t, how far the agent's unsent differences have grown when message t leaves."""
    sizes = np.zeros((len(steps), len(patterns)))
    for t, step in enumerate(steps):
        enters = t if step.kind == "atc" else t + 1
        if enters < len(steps):
            sizes[enters] += step.size * patterns[:, t]
    return np.cumsum(sizes, axis=0)


def _spent(grown: np.ndarray, scales: np.ndarray, *, pure: bool, restarts: bool) -> np.ndarray:
    """[T, A] from the piled-up differences S_t [T, A]."""
    power = 1 if pure else 2
    if restarts:  # the differences sent by round t sum up to S_t, so their squares to at most S_t^2
        scales = np.minimum.accumulate(np.where((grown > 0).any(axis=1), scales, np.inf))
    with np.errstate(divide="ignore", invalid="ignore"):
        price = np.where(grown > 0, (grown / scales[:, None]) ** power, 0.0)
    return price if restarts else np.cumsum(price, axis=0)


def _protection(topology: Topology, noise: Noise, *, pure: bool) -> tuple[np.ndarray, bool]:
    """[K] the largest price of an agent's message, and whether every sender goes on from what it sent; read off bound maps.

    Raises:
        UnsupportedClaim: on some pattern the own copy would enlarge differences.
    """
    K = topology.num_agents
    price, restarts, nobody = np.zeros(K), True, np.zeros(K, dtype=bool)
    for links in _patterns_of_links(topology):
        found = sent_noise(BoundExchange(links, bind(noise, links)), nobody, pure=pure)
        sends = np.bincount(links.senders[links.weights > 0], minlength=K) > 0
        feedback = links.self_weights * (1.0 - found.own)
        if (np.abs(feedback) > 1.0 + 1e-12).any():
            raise UnsupportedClaim(
                f"with these links '{noise.name}' noise makes own copies drift faster than the models, for which nothing is proved. "
                f"Use sv.noise.independent(law)."
            )
        restarts = restarts and bool((feedback[sends] == 0).all())
        price = np.maximum(price, found.price)
    return price, restarts


def _patterns_of_links(topology: Topology) -> list[ActiveLinks]:
    """All links, single pairs and some random patterns: the schemes covered do nothing else on any other pattern."""
    generator, pairs = np.random.default_rng(0), min(topology.num_pairs, CHECKED_PAIRS)
    if isinstance(topology.schedule, RandomPair):
        return [topology.paired(pair) for pair in range(pairs)]
    assert isinstance(topology.schedule, Dropout)
    single = [np.arange(topology.num_pairs) == pair for pair in range(pairs)]
    mixed = [generator.random(topology.num_pairs) < 0.5 for _ in range(8)]
    return [topology.active_links(), *(topology.dropped(kept) for kept in (*single, *mixed))]


WAY = Way(where=frozenset({"random links"}), values=random_link_values)
