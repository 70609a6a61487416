"""Noise schemes: a law for independent sources and a linear map that spreads them over links and own copies."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from sottovoce.noise.binding import bind, bind_turns, check_owners, cycle_length
from sottovoce.noise.central import central
from sottovoce.noise.designed import designed
from sottovoce.noise.gopa import gopa
from sottovoce.noise.gradient import gradient
from sottovoce.noise.graph_homomorphic import graph_homomorphic
from sottovoce.noise.independent import independent
from sottovoce.noise.laws import Gaussian, L2Laplace, Laplace, Law
from sottovoce.noise.local_graph_homomorphic import local_graph_homomorphic
from sottovoce.noise.noise import (
    GENERATOR,
    RELAY,
    Noise,
    NoiseMap,
    broadcast_map,
    cancels_at_receivers,
    cancels_in_centroid,
    centroid_residual,
    joined_owners,
    known_sources,
    outgoing_weight,
    own_copy_is_the_message,
    received_map,
    same_structure,
    shared_sources,
)
from sottovoce.noise.none import none

LAWS: dict[str, Callable[..., Law]] = {"laplace": Laplace, "gaussian": Gaussian, "l2_laplace": L2Laplace}
SCHEMES: dict[str, Callable[..., Noise]] = {
    "none": none,
    "independent": independent,
    "graph_homomorphic": graph_homomorphic,
    "local_graph_homomorphic": local_graph_homomorphic,
    "gopa": gopa,
    "central": central,
    "gradient": gradient,
}

__all__ = [
    "GENERATOR",
    "LAWS",
    "RELAY",
    "SCHEMES",
    "Gaussian",
    "L2Laplace",
    "Laplace",
    "Law",
    "Noise",
    "NoiseMap",
    "bind",
    "bind_turns",
    "broadcast_map",
    "cancels_at_receivers",
    "cancels_in_centroid",
    "central",
    "centroid_residual",
    "check_owners",
    "cycle_length",
    "design",
    "designed",
    "gopa",
    "gradient",
    "graph_homomorphic",
    "independent",
    "joined_owners",
    "known_sources",
    "local_graph_homomorphic",
    "none",
    "outgoing_weight",
    "own_copy_is_the_message",
    "received_map",
    "same_structure",
    "shared_sources",
]


def __dir__() -> list[str]:
    return [*__all__]


def __getattr__(name: str) -> Any:
    if name == "design":  # it stands on the accountant, and is found where people look for noise
        return import_module("sottovoce.design").design
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
