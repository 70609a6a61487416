"""What a run must satisfy before its first round; everything else is refused here, once."""

from typing import Any

import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.linear import exchange_topologies
from sottovoce.noise import Noise, bind, own_copy_is_the_message
from sottovoce.simulation.links import possible_links
from sottovoce.topologies import Topology

DTYPES = ("float32", "float64")


def check_agents(problem: Any, topology: Topology, batch_size: int | None) -> None:
    """Refuse a topology for other agents than the problem's, and a batch that some agent cannot fill."""
    if problem.num_agents != topology.num_agents:
        raise ConfigError(
            f"the problem has data for {problem.num_agents} agents but the topology has {topology.num_agents}. Give both the same."
        )
    if batch_size is not None:
        smallest = int(np.argmin(problem.sizes))
        if not _whole(batch_size) or not 1 <= batch_size <= problem.sizes[smallest]:
            raise ConfigError(
                f"batch_size = {batch_size!r}, but agent {smallest} has {problem.sizes[smallest]} records and a batch holds distinct "
                f"ones. Choose 1 to {problem.sizes[smallest]}, or None for the full gradient."
            )


def check_numbers(
    *, rounds: int, repeats: int, seed: int, dtype: str, chunk: int | None, repeats_together: int | None
) -> None:
    """Refuse counts that are not whole and positive, and seeds and types that do not exist."""
    for name, value in {
        "rounds": rounds,
        "repeats": repeats,
        "chunk": chunk or 1,
        "repeats_together": repeats_together or 1,
    }.items():
        if not _whole(value) or value < 1:
            raise ConfigError(f"{name} = {value!r}; it must be a whole number of at least 1.")
    if not _whole(seed) or not 0 <= seed < 2**64:
        raise ConfigError(f"seed = {seed!r}; it must be a whole number from 0 to 2^64 - 1.")
    if dtype not in DTYPES:
        raise ConfigError(f"dtype = {dtype!r}; choose one of {', '.join(DTYPES)}.")


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def refuse_clear_hand_over(algorithm: Algorithm, noise: Noise, topology: Topology, rounds: int) -> None:
    """Refuse an algorithm that falls silent after noisy rounds unless everyone goes on from what it sent.

    Raises:
        IncompatibleChoice: own copies without the sent noise would carry an unperturbed gradient into the quiet rounds.
    """
    noisy = algorithm.noisy_rounds(rounds)
    if noise.law is None or not noisy.any() or noisy[int(np.argmax(noisy)) :].all():
        return
    for used in exchange_topologies(algorithm, topology):
        if not all(own_copy_is_the_message(bind(noise, links), links) for links in possible_links(used)):
            raise IncompatibleChoice(
                f"'{algorithm.name}' stops adding noise after its gradient rounds, which is safe only if every agent itself continues "
                f"from the perturbed message it sent; under '{noise.name}' own copies differ from the messages, so the rest would be "
                f"sent in clear. Use sv.noise.independent(law, self_noise=True)."
            )
    if (noise.factors(rounds)[noisy] == 0).any():
        first = int(np.flatnonzero(noisy & (noise.factors(rounds) == 0))[0]) + 1
        raise IncompatibleChoice(
            f"the noise schedule is 0 in round {first}, in which '{algorithm.name}' sends a new gradient that would then be in clear. "
            f"Give a positive factor for every round in which it perturbs its messages."
        )
