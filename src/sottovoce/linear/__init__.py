"""From algorithm and noise to linear systems: what simulation, exact theory and accounting share."""

from sottovoce.linear.agents import check_agents
from sottovoce.linear.centroid import Centroid, centroid, exchange_topologies
from sottovoce.linear.form import LinearRound, linear_round, round_coefficients, state_blocks

__all__ = [
    "Centroid",
    "LinearRound",
    "centroid",
    "check_agents",
    "exchange_topologies",
    "linear_round",
    "round_coefficients",
    "state_blocks",
]
