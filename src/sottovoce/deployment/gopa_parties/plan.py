"""What is fixed before a run of FedAvg with GOPA begins, and what follows from it for each round.

    value of agent k in round t     x_k = message - known, in whole units: what k adds to the model that all hold
    after the round                 w <- round(update(w, known + sum / number of those in it))

`known` is what everybody takes of an agent that is not heard (`silent` of the algorithm: w, or 0 for gradients); it lies on the lattice, so that x_k
differs between two worlds exactly as the message does. The message is made by the very functions that peers and a relay's agents call (`agent.prepare`),
of the same run without masks.

The agreement's time limit L is divided into eighths, each span measured by whom it binds, since something that it wrote or read itself (`deadlines`):

    L/8    the board ends registration after the opening, and waits for READY after the draw
    L/2    the board gives a round up in which nobody is active yet, after the opening
    3L/8   an agent publishes at the latest, after its own READY; its two clocks may differ by L/8 until then
    5L/8   who has not published may be called dropped, after it was read who is active;    L   the board gives the round up, after the same

The two spans that privacy rests on are in the terms of the round, and the terms in every key.

How many neighbours a party must keep follows from the agreement too. Every agent picks k partners, fewer than the smallest number of agents that is
enough for a sum, so that a round can be drawn among as few; it keeps as many as can be left when all but that number fall silent.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sottovoce.deployment.agent import Wiring
from sottovoce.deployment.gopa import FixedPoint, GaussianMasks, Masks, RoundedGaussian, Terms, UniformMasks
from sottovoce.deployment.integers import Lattice
from sottovoce.deployment.terms import Agreement, PublicCoin, PublicRun, without_masks
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.linear import check_together

SHORTEST = 8  # seconds of a time limit: its eighths have to leave room for messages
_ROOM_BITS = 51  # a value without a clip of its own is held within 2^51 units, so that sums of thousands of parties fit
_ROUND = b"sottovoce/gopa-parties/1/round\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """How long the parts of a round may take, in milliseconds.

    Attributes:
        register: from the opening to the end of registration.
        ready: from the draw until it is fixed who is active.
        publish: from an agent's READY to its publication, at most.
        drops: from the list of active agents until one may be called dropped, at least.
        end: from that list until the round is given up.
    """

    register: int
    ready: int
    publish: int
    drops: int
    end: int

    @property
    def begin(self) -> int:
        """From the opening until a round is given up in which nobody is active."""
        return self.register + self.publish

    @property
    def apart(self) -> int:
        """How far the clocks of an agent may differ between READY and publication: half of what lies between the two deadlines."""
        return (self.drops - self.publish) // 2


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """Everything that all roles of a run know.

    Attributes:
        run: its public parts, with aggregation.
        lattice: on which parties compute.
        digest: of the agreement.
        agents: identity keys, in the order of their numbers.
        board: its identity key.
        beacon: its identity key.
        collude: how many others may put together what they know.
        time_limit: seconds of a round.
    """

    run: PublicRun
    lattice: Lattice
    digest: bytes
    agents: tuple[bytes, ...]
    board: bytes
    beacon: bytes
    collude: int | str
    time_limit: int

    def __repr__(self) -> str:
        return f"<Plan of {self.run.rounds} rounds among {len(self.agents)} agents>"

    def __post_init__(self) -> None:
        """Refuse what cannot be carried out."""
        run, gopa = self.run, self.run.algorithm.aggregation
        if gopa is None:
            raise IncompatibleChoice("the run has no aggregation by GOPA, and needs no board. Let its parties talk.")
        check_together(run.topology, run.algorithm, run.noise, rounds=run.rounds)
        if run.noise.law is None or not (self.scales > 0).all():
            raise IncompatibleChoice(
                "under aggregation by GOPA every published sum needs noise of the agents' own in every round. Use "
                "sv.noise.independent(sv.noise.Gaussian(std=...))."
            )
        if self.time_limit < SHORTEST:
            raise ConfigError(
                f"time_limit = {self.time_limit} s; a round of GOPA divides it into eighths, in which messages have to arrive. Agree on at least "
                f"{SHORTEST} s."
            )
        if len(self.agents) != run.num_agents:
            raise ConfigError(f"{len(self.agents)} agents are members, and the run has {run.num_agents}.")
        self.terms(_Probe)  # whatever the rules of a round refuse is refused now, before anything is reserved

    @cached_property
    def unmasked(self) -> PublicRun:
        """The same run, whose agents send in the open."""
        return without_masks(self.run)

    @cached_property
    def wiring(self) -> Wiring:
        """What agents do in that run."""
        return Wiring(self.unmasked, self.lattice, PublicCoin(self.digest))

    @cached_property
    def scales(self) -> np.ndarray:
        """[rounds] the standard deviation of own noise, in units."""
        run = self.run
        return np.asarray(
            run.noise.std / self.lattice.unit * run.noise.factors(run.rounds) * run.algorithm.noisy_rounds(run.rounds)
        )

    @property
    def least(self) -> int:
        """How many agents a sum that counts is made of, at least."""
        gopa = self.run.algorithm.aggregation
        assert gopa is not None  # checked when the plan was made
        return max(2, gopa.least_published(len(self.agents)))

    @property
    def picks(self) -> int:
        """How many others an agent picks to share masks with, of those who have registered."""
        gopa = self.run.algorithm.aggregation
        assert gopa is not None  # checked when the plan was made
        return min(gopa.partners, self.least - 1)

    @property
    def least_neighbours(self) -> int:
        """How many neighbours a party keeps in every sum that counts, at least."""
        return max(1, self.picks - (len(self.agents) - self.least))

    @property
    def times(self) -> Times:
        """How long the parts of a round may take."""
        eighth = 1000 * self.time_limit // 8
        return Times(register=eighth, ready=eighth, publish=3 * eighth, drops=5 * eighth, end=8 * eighth)

    @cached_property
    def encoding(self) -> FixedPoint:
        """How large a value may be: what its clip and one rounding allow, or as much as sums have room for."""
        bits, clipped = self.lattice.fraction_bits, self.run.algorithm.clipped_update
        if clipped is None:
            return FixedPoint(clip=math.ldexp(1.0, _ROOM_BITS - bits), fraction_bits=bits)
        rounding = math.ldexp(0.5 * math.sqrt(self.run.dimension) + 1.0, -bits)
        return FixedPoint(clip=float(clipped.clip.bound) + rounding, fraction_bits=bits)

    @property
    def largest_entry(self) -> int:
        """Entries of a value are held within so many units: a vector of such entries is well inside the widest ball of an encoding."""
        return math.isqrt((1 << 2 * (_ROOM_BITS - 1)) // self.run.dimension)

    def terms(self, opening: "Opened") -> Terms:
        """The terms of the round that an opening opens; they stand for everything that was said before."""
        gopa, times = self.run.algorithm.aggregation, self.times
        assert gopa is not None  # checked when the plan was made
        scale = float(self.scales[opening.round_ - 1])
        return Terms(
            run=hashlib.sha256(_ROUND + self.digest + opening.raw).digest()[:16],
            round_number=opening.round_,
            roster=self.agents,
            board=self.board,
            beacon=self.beacon,
            dimension=self.run.dimension,
            encoding=self.encoding,
            own_noise=RoundedGaussian(std=scale),
            masks=_masks(gopa.pairwise_ratio, scale),
            out_degree=self.picks,
            minimum_parties=self.least,
            minimum_neighbours=self.least_neighbours,
            publish_until=times.publish,
            drops_from=times.drops,
        )


class Opened:
    """What the terms of a round need of its opening."""

    def __init__(self, raw: bytes, round_: int, time: int) -> None:
        self.raw, self.round_, self.time = raw, round_, time


_Probe = Opened(b"", 1, 0)


def plan_of(run: PublicRun, agreement: Agreement) -> Plan:
    """The plan of a run that parties have agreed on.

    Raises:
        ConfigError: members are missing, or numbers do not fit.
        IncompatibleChoice: the run has no aggregation, or no noise of the agents' own.
    """
    keys = {role: _keys(agreement, role) for role in ("agent", "board", "beacon")}
    if len(keys["board"]) != 1 or len(keys["beacon"]) != 1:
        raise ConfigError(
            f"aggregation by GOPA needs one board and one beacon beside the agents; the agreement lists {len(keys['board'])} and {len(keys['beacon'])}."
        )
    return Plan(
        run=run,
        lattice=Lattice(agreement.fraction_bits),
        digest=agreement.digest,
        agents=keys["agent"],
        board=keys["board"][0],
        beacon=keys["beacon"][0],
        collude=agreement.collude,
        time_limit=agreement.time_limit,
    )


def _keys(agreement: Agreement, role: str) -> tuple[bytes, ...]:
    return tuple(bytes.fromhex(member.key) for member in agreement.members if member.role == role)


def _masks(ratio: float, scale: float) -> Masks:
    return UniformMasks() if math.isinf(ratio) else GaussianMasks(law=RoundedGaussian(std=ratio * scale))


def names_by_role(agreement: Agreement) -> dict[str, Sequence[str]]:
    """The names of members, by role."""
    roles = dict.fromkeys(member.role for member in agreement.members)
    return {role: tuple(member.name for member in agreement.members if member.role == role) for role in roles}
