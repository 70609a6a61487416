"""One question to the accountant, checked, and how it is reduced to one gradient step per message."""

from typing import Literal, NamedTuple

import numpy as np

from sottovoce.accounting.question.local_steps import one_step, why_refused
from sottovoce.accounting.question.participation import Participation, Poisson
from sottovoce.algorithms import AgentSampling, Algorithm, Gopa
from sottovoce.clipping import Clip
from sottovoce.errors import UnsupportedClaim
from sottovoce.linear import check_declared
from sottovoce.noise import Gaussian, Noise
from sottovoce.observers import Observer, View
from sottovoce.problems import ConvexSmooth
from sottovoce.topologies import Topology

Unit = Literal["agent", "record"]
Adjacency = Literal["replace", "add-remove"]


class Local(NamedTuple):
    """What is left to say of several local steps once they are accounted as one."""

    times: int
    growth: float  # the change of their gradients together, in changes of one
    losses: ConvexSmooth | None  # the promise as it was given
    tight: bool  # some losses within the promise reach that growth


class Case(NamedTuple):
    """One question to the accountant, checked."""

    topology: Topology
    algorithm: Algorithm
    noise: Noise
    observer: Observer
    view: View
    rounds: int
    sensitivity: np.ndarray  # [K]
    unit: Unit
    adjacency: Adjacency
    participation: Participation
    losses: ConvexSmooth | None
    same_model: bool  # the sensitivity compares gradients at the same model only
    sampling: AgentSampling | None = None  # which agents take part in a round; None: all
    local: Local | None = None  # set by `with_one_step`
    clip: Clip | None = None  # of whole updates; set by `with_one_step`
    aggregation: Gopa | None = None  # masks that hide messages from the relay; None: it reads them
    computed: bool = False  # a problem computed the sensitivity from its clipping; else it is the caller's claim

    def with_one_step(self) -> "Case":
        """The same question about one gradient step per message; `local_steps` and `clipped_updates` say why."""
        if self.noise.in_gradients or self.algorithm.walks:  # each gradient counts for itself; a hop is read as it is
            return self
        check_declared(self.algorithm, self.rounds)
        if self.algorithm.clipped_update is not None:
            one, clip = self.algorithm.clipped_update
            return self._replace(algorithm=one, losses=None, same_model=False, clip=clip)
        local = self.algorithm.local_steps
        if local is None:
            return self
        if isinstance(self.participation, Poisson):
            raise UnsupportedClaim(
                f"Poisson sampling is accounted for one gradient step in a message; given {local.times}. Use local_steps=1, or another "
                f"participation."
            )
        same = self.same_model and self.noise.law is not None  # without noise nothing is promised
        if same and self.promise is None:
            raise UnsupportedClaim(why_refused(local.times, promised=self.losses is not None))
        found = one_step(local, self.rounds, losses=self.promise, same_model=same)
        said = Local(local.times, found.growth, self.losses, found.tight)
        return self._replace(algorithm=found.algorithm, losses=found.losses, local=said)

    @property
    def amplifies(self) -> bool:
        """Whether the draw of agents hides who took part: a relay's noise on clipped updates, seen by who reads no single message."""
        hidden = self.noise.needs_relay and not self.view.every_message and isinstance(self.noise.law, Gaussian)
        return self.sampling is not None and self.clip is not None and hidden

    @property
    def masked(self) -> bool:
        """Whether the observer reads messages with pairwise masks."""
        return self.aggregation is not None and self.view.every_message

    @property
    def growth_is_promised(self) -> bool:
        """Whether what several local steps change together rests on the promise, and is no value of the linear view."""
        return self.local is not None and self.same_model

    @property
    def tight(self) -> bool:
        """Whether the sensitivity is reached by a whole round."""
        return self.local is None or self.local.tight

    @property
    def pure(self) -> bool:
        """Whether the law gives pure epsilon."""
        return self.noise.law is not None and not isinstance(self.noise.law, Gaussian)

    @property
    def promise(self) -> ConvexSmooth | None:
        """The promise as far as it may be used: that steps do not push models apart is a fact of the l2 norm."""
        return None if self.noise.law is not None and self.noise.law.norm == "l1" else self.losses
