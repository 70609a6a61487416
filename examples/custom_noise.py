"""A user's own noise scheme: graph-homomorphic noise that takes back only a share of itself."""

import numpy as np

import sottovoce as sv
from sottovoce.noise import Law, Noise, broadcast_map, outgoing_weight


def half_cancelling(law: Law, share: float) -> Noise:
    """Like graph-homomorphic noise, but the own copy takes back only a share of it: 0 is no self-noise, 1 cancels fully."""

    def spread(links):
        return broadcast_map(links, own_factor=-share * outgoing_weight(links) / links.self_weights)

    return Noise(name="half_cancelling", law=law, spread=spread, parameters={"share": share})


if __name__ == "__main__":
    points = np.random.default_rng(0).uniform(-1, 1, size=(10, 5, 2))
    problem = sv.problems.mean_estimation(points, radius=1.0)
    law = sv.noise.Gaussian(std=0.2)
    noises = {share: half_cancelling(law, share) for share in (0.0, 0.5, 1.0)}
    runs = sv.simulate(
        problem, sv.topologies.ring(10), sv.algorithms.atc(step_size=0.1), noises, rounds=200, repeats=100
    )
    for (_, share), run in runs.items():
        print(f"share {share}: msd_centroid {run.metrics['msd_centroid'][:, -1].mean():.6f}")
