"""From algorithm and noise to linear systems: what simulation, exact theory and accounting share."""

from sottovoce.linear.agents import check_agents
from sottovoce.linear.centroid import Centroid, centroid, exchange_topologies
from sottovoce.linear.declared import check_declared, check_walk
from sottovoce.linear.form import LinearRound, num_variables, play_round, refill, round_coefficients, state_blocks
from sottovoce.linear.gradients import check_gradients, uses_gradients
from sottovoce.linear.hand_over import check_hand_over
from sottovoce.linear.linearity import (
    LinearRounds,
    check_linear_part,
    check_steps_from_point,
    linear_round,
    linear_rounds,
)
from sottovoce.linear.memory import check_memory, refuse_memory
from sottovoce.linear.network import (
    NetworkRound,
    SeenRows,
    SystemRound,
    distinct_rows,
    network_round,
    noise_rows,
    observed_round,
    seen_rows,
    sources_known,
)
from sottovoce.linear.parts import check_parts
from sottovoce.linear.relay import check_relay
from sottovoce.linear.rounds import BoundExchange, BoundRound, Rounds, Step, bound_rounds, diffusion_step
from sottovoce.linear.shapes import check_shapes
from sottovoce.linear.threads import one_thread
from sottovoce.linear.together import check_together

__all__ = [
    "BoundExchange",
    "BoundRound",
    "Centroid",
    "LinearRound",
    "LinearRounds",
    "NetworkRound",
    "Rounds",
    "Step",
    "SystemRound",
    "bound_rounds",
    "centroid",
    "check_agents",
    "check_declared",
    "check_gradients",
    "check_hand_over",
    "check_linear_part",
    "check_memory",
    "check_parts",
    "check_relay",
    "check_shapes",
    "check_steps_from_point",
    "check_together",
    "check_walk",
    "diffusion_step",
    "exchange_topologies",
    "linear_round",
    "linear_rounds",
    "network_round",
    "noise_rows",
    "num_variables",
    "observed_round",
    "one_thread",
    "play_round",
    "refill",
    "refuse_memory",
    "round_coefficients",
    "state_blocks",
    "uses_gradients",
]


def __dir__() -> list[str]:
    return [*__all__]
