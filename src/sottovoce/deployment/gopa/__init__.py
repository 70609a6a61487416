"""GOPA: the sum of private vectors, masked in pairs, with own noise, over a board that everybody reads.

    from sottovoce.deployment.gopa import Board, Party, Terms, Transcript, total

Every role follows one set of rules (`transcript`); `board`, `party` and `server` say whom each role trusts and what it
can do when it cheats. Everything is an integer modulo 2^64, so masks cancel exactly. `run` plays a round in one
process, `fast` in arrays; `guarantee` says what finished rounds have revealed.

Processes that talk, and survive crashes, are in `deployment.gopa_parties`. Not part of it yet: proofs against false
vectors or repairs, and a second mask per party against a board that swallows publications.

Sabater, Bellet, Ramon 2022 (the protocol); Bonawitz et al. 2017 (masks from key agreement).
"""

from sottovoce.deployment.gopa.board import Board, Entry, beacon_message
from sottovoce.deployment.gopa.fast import Block, FastRound, Sources, play_blocks, play_round, simulated_sources
from sottovoce.deployment.gopa.graph import k_out_edges
from sottovoce.deployment.gopa.messages import Kind, Message, open_message, seal
from sottovoce.deployment.gopa.party import Party
from sottovoce.deployment.gopa.privacy import final_graph, guarantee
from sottovoce.deployment.gopa.run import Rehearsal, rehearse
from sottovoce.deployment.gopa.server import Total, missing_repairs, total, total_with_residual
from sottovoce.deployment.gopa.terms import Terms
from sottovoce.deployment.gopa.transcript import Phase, Transcript
from sottovoce.deployment.integers import FixedPoint, GaussianMasks, Masks, RoundedGaussian, UniformMasks, ring, signed

__all__ = [
    "Block",
    "Board",
    "Entry",
    "FastRound",
    "FixedPoint",
    "GaussianMasks",
    "Kind",
    "Masks",
    "Message",
    "Party",
    "Phase",
    "Rehearsal",
    "RoundedGaussian",
    "Sources",
    "Terms",
    "Total",
    "Transcript",
    "UniformMasks",
    "beacon_message",
    "final_graph",
    "guarantee",
    "k_out_edges",
    "missing_repairs",
    "open_message",
    "play_blocks",
    "play_round",
    "rehearse",
    "seal",
    "simulated_sources",
    "total",
    "total_with_residual",
]


def __dir__() -> list[str]:
    return [*__all__]
