"""What the [algorithm] table of an experiment's file may say, by its `kind`, and the algorithm that it names."""

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from sottovoce.algorithms import ALGORITHMS, Algorithm, Gopa
from sottovoce.clipping import Clip
from sottovoce.experiments.config.derived import choice, tables
from sottovoce.experiments.config.privacy import PrivacySection
from sottovoce.experiments.config.values import Count, Fraction, Positive, Section, wrong
from sottovoce.problems import Batch, cyclic_batch
from sottovoce.topologies import Topology
from sottovoce.wording import brief_value


def _partners(given: Any) -> Any:
    if given == "all" or (type(given) is int and given >= 1):
        return given
    raise wrong(f'write a whole number of at least 1, or "all" for every other agent; given {brief_value(given)}')


Partners = Annotated[int | Literal["all"], BeforeValidator(_partners)]


class BatchSection(Section):
    """Records in turns, in the order in which an agent has them: each enters every `gap`-th round."""

    kind: Literal["cyclic"]
    gap: Count


class AlgorithmSection(Section):
    """One algorithm; a kind adds its keys."""

    if TYPE_CHECKING:
        batch_size: int | None  # None: the full gradient
        batch: "BatchSection | None"  # in place of it

    kind: str

    def arguments(self) -> dict[str, Any]:
        """What the keys of this kind say."""
        return {key: getattr(self, key) for key in type(self).model_fields.keys() - {"kind", "batch_size", "batch"}}

    @property
    def turns(self) -> Batch | None:
        """Whose turn it is in every round; None where the file says nothing about it."""
        return None if self.batch is None else cyclic_batch(self.batch.gap)

    def algorithm(self, topology: Topology, privacy: PrivacySection | None) -> Algorithm:
        """The algorithm on this network, with what is said about clipping."""
        return ALGORITHMS[self.kind](**self.arguments())


class GradientAlgorithm(AlgorithmSection):
    """An algorithm whose gradients may be those of a batch."""

    batch_size: Count | None = None
    batch: BatchSection | None = None

    @model_validator(mode="after")
    def _one_batch(self) -> Self:
        if self.batch_size is not None and self.batch is not None:
            raise wrong("batch_size draws records at random and batch takes them in turns; keep one")
        return self


class FedavgAlgorithm(GradientAlgorithm):
    """Local gradient steps, then the average of all agents."""

    kind: Literal["fedavg"]
    step_size: Positive
    local_steps: Count = 1
    server_step_size: Positive = 1.0
    exchange: Literal["model", "gradient"] = "model"
    participation: Annotated[float, Field(gt=0, le=1)] = 1.0  # probability with which an agent takes part in a round
    agents_per_round: Count | None = None  # instead: how many take part, drawn without replacement
    aggregation: Literal["open", "gopa"] = "open"  # "gopa": masked in pairs, so that the relay learns sums alone
    partners: Partners | None = None  # under gopa: others that every agent picks to share masks with
    pairwise_ratio: Positive | None = None  # size of a Gaussian mask in own noise; None: uniform masks
    silence: Fraction | None = None  # probability with which an agent publishes nothing in a round
    minimum_agents: Count | None = None  # that must publish for a round to count

    @model_validator(mode="after")
    def _one_sampling(self) -> Self:
        if self.participation < 1 and self.agents_per_round is not None:
            raise wrong("participation and agents_per_round are two ways to draw the agents of a round; keep one")
        return self

    @model_validator(mode="after")
    def _masks(self) -> Self:
        keys = ("partners", "pairwise_ratio", "silence", "minimum_agents")
        given = [key for key in keys if getattr(self, key) is not None]
        if self.aggregation == "open":
            if given:
                raise wrong(f'{" and ".join(given)} belong to aggregation = "gopa", which is not chosen; add it')
            return self
        if self.partners is None:
            raise wrong(
                'aggregation = "gopa" needs partners, how many others an agent shares masks with; there is no default'
            )
        if self.participation < 1 or self.agents_per_round is not None:
            raise wrong(
                'under aggregation = "gopa" everybody takes part who is not silent; use silence instead of a sample of agents'
            )
        if self.silence is not None and self.minimum_agents is None:
            raise wrong("silence needs minimum_agents: how many agents' noise can be counted on; there is no default")
        return self

    def algorithm(self, topology: Topology, privacy: PrivacySection | None) -> Algorithm:
        """The algorithm, with whole updates clipped where [privacy] says so."""
        clip = None
        if privacy is not None and privacy.clips == "update":
            clip = Clip(privacy.clip, privacy.clip_norm)
        return ALGORITHMS[self.kind](
            step_size=self.step_size,
            local_steps=self.local_steps,
            server_step_size=self.server_step_size,
            exchange=self.exchange,
            participation=self.participation,
            agents_per_round=self.agents_per_round,
            update_clip=clip,
            aggregation=self._aggregation(topology),
        )

    def _aggregation(self, topology: Topology) -> Gopa | None:
        if self.partners is None:
            return None
        return Gopa(
            partners=max(1, topology.num_agents - 1) if self.partners == "all" else self.partners,
            pairwise_ratio=math.inf if self.pairwise_ratio is None else self.pairwise_ratio,
            silence=self.silence or 0.0,
            minimum_agents=self.minimum_agents,
        )


class InexactAdmmAlgorithm(GradientAlgorithm):
    """One linearised step per agent and round, with dual variables."""

    kind: Literal["inexact_admm"]
    penalty: Positive
    penalty_growth: Annotated[float, Field(ge=1, le=10)] = 1.0  # the penalty is multiplied by this after every round
    linearise_at: Literal["global", "own"] = "global"

    def algorithm(self, topology: Topology, privacy: PrivacySection | None) -> Algorithm:
        """The algorithm, its penalty a number or growing from round to round."""
        penalty, growth = self.penalty, self.penalty_growth
        scheduled = penalty if growth == 1 else lambda round_: penalty * growth ** (round_ - 1)
        return ALGORITHMS[self.kind](penalty=scheduled, linearise_at=self.linearise_at)


class GossipAlgorithm(AlgorithmSection):
    """Averaging of values with the neighbours."""

    batch_size: ClassVar[None] = None  # type: ignore[misc]  # all records make up an agent's value
    batch: ClassVar[None] = None  # type: ignore[misc]

    kind: Literal["gossip"]
    accelerated: bool = False

    def algorithm(self, topology: Topology, privacy: PrivacySection | None) -> Algorithm:
        """The algorithm, accelerated by the spectral gap of this network."""
        return ALGORITHMS[self.kind](acceleration=topology.spectral_gap if self.accelerated else None)


class MuffliatoAlgorithm(GradientAlgorithm):
    """A gradient step and several averaging steps per round."""

    kind: Literal["muffliato"]
    step_size: Positive
    gossip_steps: Count
    accelerated: bool = False

    def algorithm(self, topology: Topology, privacy: PrivacySection | None) -> Algorithm:
        """The algorithm, accelerated by the spectral gap of this network."""
        gap = topology.spectral_gap if self.accelerated else None
        return ALGORITHMS[self.kind](step_size=self.step_size, gossip_steps=self.gossip_steps, acceleration=gap)


NESTED: dict[str, type[Section]] = {"batch": BatchSection}  # tables inside [algorithm]

TABLES = tables(
    ALGORITHMS,
    GradientAlgorithm,
    {
        "fedavg": FedavgAlgorithm,
        "inexact_admm": InexactAdmmAlgorithm,
        "gossip": GossipAlgorithm,
        "muffliato": MuffliatoAlgorithm,
    },
)
if TYPE_CHECKING:
    AlgorithmTable = AlgorithmSection
else:
    AlgorithmTable = Annotated[choice(TABLES), Field(discriminator="kind")]
