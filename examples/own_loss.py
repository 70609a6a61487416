"""A user's own loss: agents on a ring find a circle through points that they do not show each other."""

import jax.numpy as jnp
import numpy as np

import sottovoce as sv


def circle_loss(parameters, batch):
    """The mean squared distance of points from the circle."""
    (points,) = batch
    distances = jnp.sqrt(((points - parameters["centre"]) ** 2).sum(axis=-1) + 1e-12)
    return ((distances - parameters["radius"]) ** 2).mean()


if __name__ == "__main__":
    generator = np.random.default_rng(0)
    angles = np.sort(generator.uniform(0, 2 * np.pi, size=800)).reshape(8, 100)  # each agent sees an arc only
    points = np.stack([2 + 3 * np.cos(angles), -1 + 3 * np.sin(angles)], axis=-1) + generator.normal(
        0, 0.05, (8, 100, 2)
    )

    problem = sv.problems.custom_loss(circle_loss, {"centre": np.zeros(2), "radius": np.array(1.0)}, points)
    private = problem.with_clipping(1.0, "l2")
    topology, algorithm, rounds = sv.topologies.ring(8), sv.algorithms.atc(step_size=0.3), 200
    sensitivity = private.sensitivity(unit="record", adjacency="replace", norm="l2")
    noise = sv.calibrate(
        topology, algorithm, sv.noise.independent(sv.noise.Gaussian(std=1.0)), sv.observers.eavesdropper(),
        rounds=rounds, sensitivity=sensitivity, epsilon=4.0, delta=1e-5, unit="record",
    )  # fmt: skip
    run = sv.simulate(private, topology, algorithm, noise, rounds=rounds, progress=False)
    found = private.parameters(run.models[0].mean(axis=0))
    print(f"centre {found['centre'][0]:.2f} {found['centre'][1]:.2f}, radius {found['radius']:.2f}; true: 2 -1, 3")
