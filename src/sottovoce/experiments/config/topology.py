"""What the [topology] table of an experiment's file may say, by its `kind`, and the network that it names."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from sottovoce.errors import ConfigError
from sottovoce.experiments.config.values import Count, Fraction, Positive, Section, Seed, wrong
from sottovoce.topologies import TOPOLOGIES, Topology


class TopologySection(Section):
    """What every topology may have on top: links that fail, one random pair of neighbours awake per round, or a walking token."""

    parameters: ClassVar[dict[str, str]] = {"agents": "n"}  # keys of a file whose parameter has another name

    kind: str
    dropout: Fraction | None = None
    random_pair: bool = False
    walk: bool = False

    @model_validator(mode="after")
    def _one_schedule(self) -> Self:
        if len(self.schedules()) > 1:
            raise wrong(f"{' and '.join(self.schedules())} are two schedules of active links; keep one")
        return self

    def schedules(self) -> list[str]:
        """The keys that make links come and go."""
        given = {"dropout": self.dropout is not None, "random_pair": self.random_pair, "walk": self.walk}
        return [name for name, on in given.items() if on]

    @property
    def num_agents(self) -> int | None:
        """How many agents there are; None where the data shall say so."""
        agents: int | None = getattr(self, "agents", None)
        return agents

    def topology(self, *, seed: int | None = None, sizes: Sequence[int] = ()) -> Topology:
        """The network.

        Args:
            seed: of a random graph that names none itself.
            sizes: records of every agent, for weights that go by them, and for the number of agents where the table gives none.

        Raises:
            ConfigError: nothing says how many agents there are.
        """
        made = TOPOLOGIES[self.kind](**self._arguments(seed, sizes))
        if self.dropout is not None:
            return made.with_dropout(self.dropout)
        if self.walk:
            return made.with_walk()
        return made.with_random_pair() if self.random_pair else made

    def _arguments(self, seed: int | None, sizes: Sequence[int]) -> dict[str, Any]:
        keys = type(self).model_fields.keys() - TopologySection.model_fields.keys()
        values = {key: getattr(self, key) for key in keys}
        if self.num_agents is None:
            if not sizes:
                raise ConfigError(
                    "[topology] agents: this key is missing; without data that name their owners it is needed."
                )
            values["agents"] = len(sizes)
        return {self.parameters.get(key, key): value for key, value in values.items()}


class PeerTopology(TopologySection):
    """A topology without a relay, where agents weigh what their neighbours send."""

    weights: Literal["metropolis", "laplacian", "uniform"] = "metropolis"


class FixedTopology(PeerTopology):
    """A graph known from the number of agents."""

    kind: Literal["ring", "path", "complete", "star"]
    agents: Count | None = None  # None: as many as the data name owners


class GridTopology(PeerTopology):
    """A rectangle of agents."""

    kind: Literal["grid"]
    rows: Count
    columns: Count

    @property
    def num_agents(self) -> int:
        """Rows times columns."""
        return self.rows * self.columns


class HypercubeTopology(PeerTopology):
    """The corners of a cube: 2^dimension agents."""

    kind: Literal["hypercube"]
    dimension: Annotated[int, Field(ge=1, le=20)]

    @property
    def num_agents(self) -> int:
        """The corners."""
        return int(2**self.dimension)


class RandomTopology(PeerTopology):
    """A graph drawn at random."""

    agents: Count | None = None  # None: as many as the data name owners
    seed: Seed | None = None  # None: the experiment's seed

    def _arguments(self, seed: int | None, sizes: Sequence[int]) -> dict[str, Any]:
        return {**super()._arguments(seed, sizes), "seed": seed if self.seed is None else self.seed}


class ErdosRenyiTopology(RandomTopology):
    """Each pair is linked with the same probability."""

    parameters: ClassVar[dict[str, str]] = {"agents": "n", "probability": "p"}

    kind: Literal["erdos_renyi"]
    probability: Annotated[float, Field(gt=0, le=1)]


class GeometricTopology(RandomTopology):
    """Random places in the unit square, linked when near."""

    kind: Literal["geometric"]
    radius: Positive


class KOutTopology(RandomTopology):
    """Each agent chooses k partners."""

    kind: Literal["k_out"]
    k: Count


class FederationTopology(TopologySection):
    """All agents around a relay without data."""

    kind: Literal["federation"]
    agents: Count | None = None  # None: as many as the data name owners
    weights: Literal["uniform", "records"] = "uniform"

    def _arguments(self, seed: int | None, sizes: Sequence[int]) -> dict[str, Any]:
        records = list(sizes) if self.weights == "records" else None
        return {**super()._arguments(seed, sizes), "records": records}


TopologyTable = Annotated[
    FixedTopology
    | GridTopology
    | HypercubeTopology
    | ErdosRenyiTopology
    | GeometricTopology
    | KOutTopology
    | FederationTopology,
    Field(discriminator="kind"),
]
