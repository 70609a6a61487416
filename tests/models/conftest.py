"""The same small classifier in four libraries, and its data; the libraries are imported when a test runs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

LIBRARIES = ["flax linen", "flax nnx", "equinox", "haiku"]


def _linen():
    import flax.linen as nn

    class Network(nn.Module):
        @nn.compact
        def __call__(self, features):
            return nn.Dense(2)(nn.tanh(nn.Dense(4)(features)))

    network = Network()
    return network.init(jax.random.key(0), jnp.zeros((1, 3))), network.apply


def _nnx():
    from flax import nnx

    class Network(nnx.Module):
        def __init__(self, rngs):
            self.first, self.second = nnx.Linear(3, 4, rngs=rngs), nnx.Linear(4, 2, rngs=rngs)

        def __call__(self, features):
            return self.second(nnx.tanh(self.first(features)))

    graph, state = nnx.split(Network(nnx.Rngs(0)))
    return state, lambda parameters, features: nnx.merge(graph, parameters)(features)


def _equinox():
    import equinox as eqx

    network = eqx.nn.MLP(3, 2, width_size=4, depth=1, activation=jax.nn.tanh, key=jax.random.key(0))
    arrays, rest = eqx.partition(network, eqx.is_inexact_array)
    return arrays, lambda parameters, features: jax.vmap(eqx.combine(parameters, rest))(features)


def _haiku():
    import haiku as hk

    network = hk.without_apply_rng(hk.transform(lambda x: hk.nets.MLP([4, 2], activation=jax.nn.tanh)(x)))
    return network.init(jax.random.key(0), jnp.zeros((1, 3))), network.apply


@pytest.fixture(params=LIBRARIES, scope="module")
def model(request):
    """(parameters, apply(parameters, features) -> logits)."""
    return {"flax linen": _linen, "flax nnx": _nnx, "equinox": _equinox, "haiku": _haiku}[request.param]()


@pytest.fixture(scope="session")
def records():
    """Features [3, 5, 3] and labels [3, 5]."""
    draw = np.random.default_rng(0)
    features = draw.standard_normal((3, 5, 3)).astype(np.float32)
    return features, (features[..., 0] * features[..., 1] > 0).astype(np.int32)
