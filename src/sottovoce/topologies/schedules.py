"""Schedules: which links are active in which round. A closed choice of five.

    Static       every round uses A
    Listed       round t (counted from 1) uses A_((t - 1) mod n) of a given list A_0 ... A_(n-1)
    Dropout      every undirected pair is absent from a round with probability p, independently
    RandomPair   one pair of linked agents, uniform over the pairs, averages; all others keep their models
    Walk         one agent holds a token and hands it to a neighbour (or keeps it), drawn by the weights; all others keep their models

A schedule only says what happens; `Topology` makes them (`with_dropout`, `with_random_pair`, `with_walk`, `with_schedule`)
and refuses the ones that would move the centroid.
"""

from typing import Any, NamedTuple

from scipy import sparse

from sottovoce.reprs import short_repr


class Static(NamedTuple):
    """The same weights in every round."""


class Listed(NamedTuple):
    """Given weights, used in turn and then again from the first."""

    matrices: tuple[sparse.csc_array, ...]  # n of [K, K]

    def __repr__(self) -> str:
        return short_repr(self)


class Dropout(NamedTuple):
    """Every undirected pair is absent from a round with this probability, independently of all else."""

    probability: float


class RandomPair(NamedTuple):
    """One uniformly chosen pair of linked agents averages per round, with weight 1/2 each."""


class Walk(NamedTuple):
    """One link per round: a token walks from a uniformly chosen agent, from l to k with probability a_lk."""


Schedule = Static | Listed | Dropout | RandomPair | Walk


def describe_schedule(schedule: Schedule) -> dict[str, Any]:
    """The schedule as plain values that JSON can hold."""
    match schedule:
        case Static():
            return {"kind": "static"}
        case Listed(matrices):
            return {"kind": "listed", "length": len(matrices)}
        case Dropout(probability):
            return {"kind": "dropout", "probability": probability}
        case RandomPair():
            return {"kind": "random_pair"}
        case Walk():
            return {"kind": "walk"}
