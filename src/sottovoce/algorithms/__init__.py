"""Algorithms: what one agent does in a round, as pure functions."""

from collections.abc import Callable

from sottovoce.algorithms.algorithm import Algorithm, Exchange
from sottovoce.algorithms.atc import atc
from sottovoce.algorithms.consensus import consensus
from sottovoce.algorithms.cta import cta
from sottovoce.algorithms.dgd import dgd
from sottovoce.algorithms.three_matrix import three_matrix

ALGORITHMS: dict[str, Callable[..., Algorithm]] = {"consensus": consensus, "cta": cta, "atc": atc, "dgd": dgd}

__all__ = ["ALGORITHMS", "Algorithm", "Exchange", "atc", "consensus", "cta", "dgd", "three_matrix"]
