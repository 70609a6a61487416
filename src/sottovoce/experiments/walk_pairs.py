"""Pairs of agents between whom a token walks: what each learns about each other, who sees the token only when it holds it.

    AllWays        on average over the ways of the token, drawn afresh whatever the data (`accounting.walk.pairwise_epsilon`)
    PublishedPath  on the one path that a seed draws, where the seed is published or the path is known beforehand (`accounting.walk.path_mu`)

Both are guarantees under the promise of convex, smooth losses and steps of at most 2 / beta. Steps and noise are those of the functions that run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from sottovoce.accounting import AskedWalk, asked_walk
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.experiments.experiment import Experiment
from sottovoce.experiments.pairs import Measure
from sottovoce.experiments.privacy import parts_of, question
from sottovoce.numbers import is_whole, whole
from sottovoce.observers import curious_agent
from sottovoce.resources import refuse_too_large
from sottovoce.rounding import shown
from sottovoce.topologies import walk_paths

if TYPE_CHECKING:
    from sottovoce.accounting.walk import Resolution

Progress = Callable[[int, int], None]

HOLDER = "one agent, who sees the token only when it holds it, and may know its way"
MOST_TOKENS = 10_000
_LAST_SEED = 2**64 - 1
_HOP_BYTES = 100.0  # memory per hop: step, noise, price, who holds the token, and what they are computed from
_PASSAGE_BYTES = 48.0  # memory per hop and agent, in each process: the laws of the ways to one observer


class PairLosses(NamedTuple):
    """A number for every pair."""

    values: np.ndarray  # [K, K] row u: whose data, column v: who looks
    measure: Measure  # what the numbers are; epsilon is that at the delta asked for


class Walk(NamedTuple):
    """A walk as the accountant reads it off an experiment, and for which delta."""

    read: AskedWalk
    delta: float

    @property
    def details(self) -> str:
        """What the numbers rest on, in words."""
        read = self.read
        seen = float(read.prices.max() * read.sensitivity.max())
        return (
            f"An agent adds at most {read.contributions} gradients; one of them, seen at once, costs mu = {shown(seen, 3)}. Losses are promised to be convex "
            f"and {read.losses.beta:g}-smooth: steps may be up to {2.0 / read.losses.beta:g}, and are up to {read.steps.max():g}."
        )


class Ways(Protocol):
    """Over which ways of the token pairs are accounted."""

    @property
    def method(self) -> str:
        """What is computed, in words."""
        ...

    @property
    def premise(self) -> str:
        """What is assumed about the way of the token."""
        ...

    def losses(self, walk: Walk, progress: Progress | None) -> PairLosses:
        """The number of every pair."""
        ...

    def describe(self) -> dict[str, Any]:
        """What was chosen, as plain values for JSON."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AllWays:
    """The average over all ways.

    Attributes:
        tokens: that walk at the same time, independently, each as the file says.
        resolution: "fast" for a first picture; "fine" and "finest" give smaller numbers and take longer.
        workers: processes; with more than one a script needs the guard of `__main__`.
    """

    tokens: int = 1
    resolution: "Resolution" = "fast"
    workers: int = 1

    def __post_init__(self) -> None:
        _check_tokens(self.tokens)
        whole("workers", self.workers)

    @property
    def method(self) -> str:
        """What is computed, in words."""
        return f"average over all ways of {_tokens(self.tokens)}"

    @property
    def premise(self) -> str:
        """What is assumed about the way of the token."""
        return (
            "The numbers hold over ways that begin at any agent alike and whose hops are drawn afresh by the weights, whatever the data; agents may "
            "learn the way. Where it is known beforehand, as from a published seed, ask with --published-seed."
        )

    def losses(self, walk: Walk, progress: Progress | None) -> PairLosses:
        """Epsilon of every pair.

        Raises:
            UnsupportedClaim: steps or noise that change from hop to hop.
        """
        from sottovoce.accounting.walk import blocks_epsilon, pairwise_epsilon

        read, delta = walk
        std, K = 1.0 / _one_price(read), read.topology.num_agents
        rounds, contributions = len(read.steps), read.contributions
        if not read.topology.is_uniform:
            refuse_too_large(
                f"the ways of a token over {rounds:,} hops and {K:,} agents", _PASSAGE_BYTES * rounds * K * min(self.workers, K),
                "Lower rounds, agents or workers.",
            )  # fmt: skip
            return PairLosses(
                pairwise_epsilon(
                    read.topology, rounds=rounds, contributions=contributions, std=std, sensitivity=read.sensitivity, delta=delta,
                    tokens=self.tokens, resolution=self.resolution, workers=self.workers, progress=progress,
                ),
                "epsilon",
            )  # fmt: skip
        # From everybody to everybody with the same probability: all pairs with the same sensitivity are alike.
        found = {
            size: blocks_epsilon(
                read.topology, agent=0, observers=[1], rounds=rounds, contributions=contributions, std=std, sensitivity=float(size),
                delta=delta, tokens=self.tokens, resolution=self.resolution,
            )
            for size in set(read.sensitivity.tolist())
        }  # fmt: skip
        values = np.repeat([[found[size]] for size in read.sensitivity.tolist()], K, axis=1)
        np.fill_diagonal(values, np.nan)
        return PairLosses(values, "epsilon")

    def describe(self) -> dict[str, Any]:
        """What was chosen, as plain values for JSON."""
        return {"tokens": self.tokens, "resolution": self.resolution, "published_seed": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedPath:
    """The path that a seed draws, the first of a run with that seed; with several tokens, the first paths.

    Attributes:
        seed: of the run.
        tokens: that walk at the same time.
    """

    seed: int
    tokens: int = 1

    def __post_init__(self) -> None:
        if not is_whole(self.seed, 0, _LAST_SEED):
            raise ConfigError(
                f"published seed = {self.seed!r}; it must be a whole number from 0 to 2^64 - 1. Give the seed that draws the path."
            )
        _check_tokens(self.tokens)

    @property
    def method(self) -> str:
        """What is computed, in words."""
        return f"path{'' if self.tokens == 1 else 's'} of {_tokens(self.tokens)} drawn from seed {self.seed}"

    @property
    def premise(self) -> str:
        """What is assumed about the way of the token."""
        return (
            "The numbers hold for this path, which everybody may know beforehand, and for no other; they do not for a seed that was chosen by a look "
            "at the data."
        )

    def losses(self, walk: Walk, progress: Progress | None) -> PairLosses:
        """Mu of every pair: that of several paths is the root of the sum of squares."""
        from sottovoce.accounting.walk import path_mu

        read = walk.read
        refuse_too_large(
            f"{self.tokens:,} paths of {len(read.steps):,} hops",
            _HOP_BYTES * self.tokens * len(read.steps),
            "Lower tokens or rounds.",
        )
        squares = np.zeros((read.topology.num_agents,) * 2)
        paths = walk_paths(read.topology, len(read.steps), seed=self.seed, repeats=self.tokens)
        for done, path in enumerate(paths, start=1):
            found = path_mu(
                path, num_agents=read.topology.num_agents, std=read.stds, sensitivity=1.0, contributions=read.contributions,
                step_size=read.steps, noise_in=read.noise_in,
            )  # fmt: skip
            squares += found**2
            if progress is not None:
                progress(done, len(paths))
        return PairLosses(np.sqrt(squares) * read.sensitivity[:, None], "mu")

    def describe(self) -> dict[str, Any]:
        """What was chosen, as plain values for JSON."""
        return {"tokens": self.tokens, "resolution": None, "published_seed": self.seed}


def walk_of(experiment: Experiment, delta: float) -> Walk:
    """The walk of an experiment with Gaussian noise, once everything is known that its pairs rest on.

    Args:
        experiment: whose algorithm walks.
        delta: for which epsilon is asked.

    Raises:
        UnsupportedClaim: no promise about the losses, steps beyond it, or a holder who does more than a gradient step.
    """
    refuse_too_large(f"a walk of {experiment.rounds:,} hops", _HOP_BYTES * experiment.rounds, "Lower rounds.")
    return Walk(asked_walk(*parts_of(experiment), curious_agent(0), question=question(experiment)), delta)


def _one_price(walk: AskedWalk) -> float:
    """The mu of one contribution of sensitivity one, the same in every hop.

    Raises:
        UnsupportedClaim: steps or noise that change.
    """
    price = float(walk.prices[0])
    changing = [name for name, each in (("steps", walk.steps), ("noise", walk.prices)) if (each != each[0]).any()]
    if changing or not 0.0 < price < np.inf:
        given = (
            f"{' and '.join(changing)} that change from hop to hop"
            if changing
            else "hops without a step or without noise"
        )
        raise UnsupportedClaim(
            f"pairs of a walk were asked for {given}; the average over all ways is computed for the same step and noise in every hop. Use a constant "
            f"step_size and noise without a schedule, --published-seed for one path, or `sottovoce account` for one observer."
        )
    return price


def _check_tokens(count: int) -> None:
    if not is_whole(count, 1, MOST_TOKENS):
        raise ConfigError(
            f"tokens = {count!r}; it must be a whole number from 1 to {MOST_TOKENS:,}. Give how many walk at the same time."
        )


def _tokens(count: int) -> str:
    return "the token" if count == 1 else f"{count} tokens"
