"""A Haiku model that eight agents learn together, with noise that protects every record."""

import haiku as hk
import jax
import numpy as np
import optax

import sottovoce as sv


def moons(generator, agents, records):
    """Points on two half circles that no straight line separates, and which half circle each is on."""
    half = generator.integers(0, 2, (agents, records))
    angle = np.pi * (generator.random((agents, records)) + half)
    points = np.stack([np.cos(angle) + half - 0.5, np.sin(angle) + 0.5 * half - 0.25], axis=-1)
    return (points + generator.normal(0, 0.15, points.shape)).astype(np.float32), half.astype(np.int32)


network = hk.without_apply_rng(hk.transform(lambda features: hk.nets.MLP([16, 2], activation=jax.nn.tanh)(features)))


def loss(parameters, batch):
    """The mean cross-entropy of a batch."""
    features, labels = batch
    return optax.softmax_cross_entropy_with_integer_labels(network.apply(parameters, features), labels).mean()


def accuracy(parameters, features, labels):
    """The fraction classified right."""
    return (network.apply(parameters, features).argmax(axis=-1) == labels).mean()


if __name__ == "__main__":
    generator = np.random.default_rng(0)
    features, labels = moons(generator, agents=8, records=250)
    test = tuple(part[0] for part in moons(generator, agents=1, records=1000))

    parameters = network.init(jax.random.key(0), features[0, :1])
    problem = sv.problems.custom_loss(loss, parameters, features, labels, accuracy=accuracy)
    private = problem.with_clipping(1.0, "l2")
    topology, algorithm, observer = (
        sv.topologies.federation(8),
        sv.algorithms.fedavg(step_size=1.0),
        sv.observers.final_model(),
    )
    sensitivity = private.sensitivity(unit="record", adjacency="replace", norm="l2")
    question = sv.Question(rounds=150, sensitivity=sensitivity, unit="record")
    law = sv.noise.Gaussian(std=1.0)  # its size is replaced
    noise = sv.calibrate(
        topology, algorithm, sv.noise.central(law), observer, question=question, epsilon=2.0, delta=1e-5
    )
    proven = sv.account(topology, algorithm, noise, observer, question=question).epsilon(1e-5)

    run = sv.simulate(private, topology, algorithm, noise, rounds=150, test=test, progress=False)
    learned = private.parameters(run.models[0, 0])  # parameters for network.apply again
    print(f"accuracy {run.metrics['accuracy'][0, -1]:.3f}; the model, released, costs one record epsilon {proven:.2f}")
    print(f"accuracy of the parameters that were learned: {accuracy(learned, *test):.3f}")
