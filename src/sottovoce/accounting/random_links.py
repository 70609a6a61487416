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

from sottovoce.accounting.sent_messages import Bounds, contraction
from sottovoce.algorithms import Algorithm
from sottovoce.errors import UnsupportedClaim
from sottovoce.linear import diffusion_step, exchange_topologies, linear_round
from sottovoce.noise import Noise
from sottovoce.problems import ConvexSmooth
from sottovoce.topologies import Topology

COVERED = ("independent", "graph_homomorphic")


def random_link_bounds(
    topology: Topology,
    algorithm: Algorithm,
    noise: Noise,
    *,
    rounds: int,
    patterns: np.ndarray,
    pure: bool,
    losses: ConvexSmooth | None,
) -> Bounds:
    """What every agent gives away at most, at sensitivity one; see `sent_messages.Bounds`.

    Raises:
        UnsupportedClaim: a scheme or an algorithm for which this is not proved.
    """
    exchanges = exchange_topologies(algorithm, topology)
    if noise.name not in COVERED or len(exchanges) != 1:
        raise UnsupportedClaim(
            f"with links drawn at random, guarantees are proved for {' and '.join(COVERED)} noise and one exchange per round; given "
            f"'{noise.name}' and '{algorithm.name}'. Use one of them, or topology.with_schedule([...])."
        )
    linear = algorithm if algorithm.linear_part is None else algorithm.linear_part
    steps = [diffusion_step(linear_round(linear, t)) for t in range(1, rounds + 1)]
    sizes, scales = np.zeros((rounds, len(patterns))), np.zeros(rounds)
    factors = noise.factors(rounds) * linear.noisy_rounds(rounds)
    for t, step in enumerate(steps):
        if step is None or (step.kind == "consensus" and losses is not None):
            raise UnsupportedClaim(
                f"with links drawn at random, guarantees are proved for diffusion, and for consensus at unit='agent'; given "
                f"'{algorithm.name}'. Use sv.algorithms.atc, or topology.with_schedule([...])."
            )
        contraction(step.size, losses)
        enters = t if step.kind == "atc" else t + 1
        if enters < rounds:
            sizes[enters] += step.size * patterns[:, t]
        scales[t] = 0.0 if noise.law is None else noise.law.scale * factors[t]
    spent = _spent(np.cumsum(sizes, axis=0), scales, pure=pure, restarts=_own_copy_is_message(noise)).max(axis=1)
    first = int(np.argmax(np.isinf(spent))) + 1 if np.isinf(spent).any() else 0
    K = topology.num_agents
    return Bounds(
        spent=spent[:, None] * _copies(exchanges[0], noise)[None, :],
        public_point=np.full(K, False),
        hidden=np.full(K, noise.name == "independent" and bool(noise.parameters["per_edge"])),
        clear_round=np.full(K, first),
    )


def _spent(grown: np.ndarray, scales: np.ndarray, *, pure: bool, restarts: bool) -> np.ndarray:
    """[T, A] from the piled-up differences S_t [T, A]."""
    power = 1 if pure else 2
    if restarts:  # the differences sent by round t sum up to S_t, so their squares to at most S_t^2
        scales = np.minimum.accumulate(np.where((grown > 0).any(axis=1), scales, np.inf))
    with np.errstate(divide="ignore", invalid="ignore"):
        price = np.where(grown > 0, (grown / scales[:, None]) ** power, 0.0)
    return price if restarts else np.cumsum(price, axis=0)


def _own_copy_is_message(noise: Noise) -> bool:
    return noise.name == "independent" and noise.parameters["self_noise"] and not noise.parameters["per_edge"]


def _copies(topology: Topology, noise: Noise) -> np.ndarray:
    """[K] independent sources on an agent's links."""
    per_edge = noise.name == "independent" and noise.parameters["per_edge"]
    out_links = np.bincount(topology.links[:, 0], minlength=topology.num_agents)
    return np.where(per_edge, np.maximum(out_links, 1), 1).astype(float)
