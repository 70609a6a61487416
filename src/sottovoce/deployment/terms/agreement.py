"""The agreement: everything that the parties of a run must hold in common, as numbers, and the digest that stands for it.

    digest = SHA-256("sottovoce/agreement/1" | canonical bytes)

What an algorithm or a noise scheme is called is no identity: two functions of the round look alike in words, and a seed gives another graph with
another version of a library. So the agreement holds what follows from them: the links and weights of every distinct round, the centroid, the table
of every number that changes from round to round, the law and its size, what may change in a gradient at most. No data are in it, and no secret.

The agreement also says whom the parties protect themselves against: how many others may put together what they know, whether the relay is trusted,
and who is given which model. What is not said is taken at its worst.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from sottovoce.deployment.terms.agreement_faults import faults
from sottovoce.deployment.terms.canonical_bytes import Plain, from_bytes, to_bytes
from sottovoce.errors import ConfigError, ProtocolError
from sottovoce.reprs import short_repr
from sottovoce.wording import brief

_LABEL = b"sottovoce/agreement/1\n"

Role = Literal["agent", "relay", "board", "beacon"]
LostNeighbour = Literal["wait", "stop", "exclude"]
Schedule = Literal["static", "listed", "dropout", "random_pair"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """Somebody who takes part.

    Attributes:
        name: by which others know it.
        role: what it does; agents alone hold data.
        key: its identity key, in hexadecimal.
    """

    name: str
    role: Role
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundLinks:
    """The links of one round, in the order of their ids: [E] each.

    Attributes:
        senders: numbers of agents.
        receivers: numbers of agents.
        weights: what the receiver gives the sender; 0 where a link is not active in this round.
        own: [K] what each agent gives its own copy.
    """

    senders: tuple[int, ...]
    receivers: tuple[int, ...]
    weights: tuple[float, ...]
    own: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Who talks to whom in one exchange of every round.

    Attributes:
        schedule: how rounds differ.
        dropout: the probability with which a pair is absent from a round; 0 where none is.
        relay: whether everything passes through a relay; then no links are listed, and `own` is the share of each agent in what it sends out.
        rounds: the distinct rounds, used in turn; under drop-outs the round in which nothing is dropped, for random pairs the expectation.
        centroid: [K] the weights of the centroid.
    """

    schedule: Schedule
    dropout: float
    relay: bool
    rounds: tuple[RoundLinks, ...]
    centroid: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """What one agent does.

    Attributes:
        algorithm: its name.
        parameters: its numbers that are the same in all rounds.
        tables: the values of every number that changes from round to round, [rounds] each.
        fresh: [rounds] whether a round's messages carry anything new, and so noise.
        networks: of each exchange of a round.
    """

    algorithm: str
    parameters: Plain
    tables: tuple[tuple[float, ...], ...]
    fresh: tuple[bool, ...]
    networks: tuple[Network, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseTerms:
    """How messages are perturbed.

    Attributes:
        scheme: its name.
        parameters: its numbers.
        law: of one source; None: there are none.
        scale: of that law: the standard deviation of a Gaussian, b of a Laplace law; 0 where there is none.
        factors: [rounds] by which the law is multiplied.
        maps: SHA-256 of where the sources go, for every distinct round of every exchange, in hexadecimal.
    """

    scheme: str
    parameters: Plain
    law: Literal["gaussian", "laplace", "l2_laplace"] | None
    scale: float
    factors: tuple[float, ...]
    maps: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """Every local loss is convex, beta-smooth and nu-strongly convex."""

    beta: float
    nu: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """What is protected, and how little it can change.

    Attributes:
        unit: what is protected.
        adjacency: how two data sets differ.
        delta: at which epsilon is stated; None: 0, which the Laplace law allows.
        clip: the bound on what is clipped.
        clip_norm: in which it is measured.
        clips: what is clipped.
        batch_size: records of one gradient; None: all.
        records_per_person: the most records of one person; None where the unit is another.
        losses: a promise about all local losses; None: none.
        records: [K] the number of records that every agent has at least; empty where numbers of records do not enter.
        sensitivity: [K] the largest change of every agent's gradient in one round, or of its clipped update.
        norm: in which sensitivities are measured, that of the law.
        same_model: whether a sensitivity compares gradients at the same model only.
    """

    unit: Literal["record", "agent", "person"]
    adjacency: Literal["replace", "add-remove"]
    delta: float | None
    clip: float
    clip_norm: Literal["l1", "l2"]
    clips: Literal["records", "gradient", "update"]
    batch_size: int | None
    records_per_person: int | None
    losses: Promise | None
    records: tuple[int, ...]
    sensitivity: tuple[float, ...]
    norm: Literal["l1", "l2"]
    same_model: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """Which run this one goes on with, without those who were lost.

    Attributes:
        previous: digest of the agreement before, in hexadecimal.
        after: position of the last exchange under it; this agreement begins with the next one.
        excluded: who was lost, by name, in order.
        began_with: how many agents the run had when it began.
    """

    previous: str
    after: int
    excluded: tuple[str, ...]
    began_with: int


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """What the parties of a run agree on.

    Attributes:
        format: of the agreement.
        run: its name; never used twice.
        members: agents first, in the order of their numbers; then relay, board and beacon, where there are such.
        rounds: how many.
        dimension: d, parameters of a model.
        initial_model: SHA-256 of the model in which all start, in hexadecimal.
        fraction_bits: f: everything that is sent is a whole number of units of 2^-f.
        problem: what is learnt, and what the columns of the data mean.
        learning: what an agent does.
        noise: how messages are perturbed.
        protection: what is protected, and how little it can change.
        collude: how many others may put together what they know.
        relay: whether the relay is trusted to read messages, and to add noise of its own.
        releases: who is given which model: each agent its own, these members all of them, or everybody.
        lost_neighbour: what an agent does when another one is not heard of: wait for it, stop for good, or go on without it.
        minimum_agents: with fewer agents nobody goes on without the lost ones; 0 where nobody does anyway.
        exclude_after: seconds of silence after which somebody counts as lost; 0 where nobody is excluded.
        time_limit: seconds that a party waits for the others before it stops.
        continues: the run that this one goes on with; None at the beginning.
    """

    format: int
    run: str
    members: tuple[Member, ...]
    rounds: int
    dimension: int
    initial_model: str
    fraction_bits: int
    problem: Plain
    learning: Learning
    noise: NoiseTerms
    protection: Protection
    collude: int | Literal["all"]
    relay: Literal["untrusted", "trusted"]
    releases: Literal["own", "public"] | tuple[str, ...]
    lost_neighbour: LostNeighbour
    time_limit: int
    minimum_agents: int = 0
    exclude_after: int = 0
    continues: Continuation | None = None

    def __repr__(self) -> str:
        return short_repr(self)

    def __post_init__(self) -> None:
        """Collect everything that is wrong and report it at once."""
        if found := list(faults(self)):
            raise ConfigError(f"The agreement cannot be used: {'; '.join(found[:20])}.")

    @property
    def began_with(self) -> int:
        """How many agents the run had when it began, before anybody was lost."""
        return len(self.agents) if self.continues is None else self.continues.began_with

    @property
    def agents(self) -> tuple[str, ...]:
        """The names of the agents, in the order of their numbers."""
        return tuple(member.name for member in self.members if member.role == "agent")

    def number(self, name: str) -> int:
        """The number of an agent.

        Raises:
            ConfigError: nobody of this name is an agent.
        """
        if name not in self.agents:
            raise ConfigError(
                f"{brief(name)!r} is no agent of the run {brief(self.run)!r}; its agents are {', '.join(map(brief, self.agents))}."
            )
        return self.agents.index(name)

    def canonical(self) -> bytes:
        """The one way to write this agreement."""
        return to_bytes(self)

    @cached_property
    def digest(self) -> bytes:
        """32 bytes that stand for everything in it."""
        return hashlib.sha256(_LABEL + self.canonical()).digest()

    @classmethod
    def parse(cls, given: bytes) -> "Agreement":
        """The agreement that these bytes say.

        Raises:
            ProtocolError: they are not the canonical bytes of an agreement of this format.
        """
        try:
            return from_bytes(cls, given)
        except ConfigError as error:
            raise ProtocolError(str(error)) from error
