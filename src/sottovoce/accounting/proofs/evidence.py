"""What all proofs about one question share: the bound rounds, what every agent sends, and the linear view.

Each part is computed when a proof first asks for it, once for all agents.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from sottovoce.accounting.guarantee import LinearValidity
from sottovoce.accounting.linear_view.largest_mu import LinearView, linear_view
from sottovoce.accounting.linear_view.value import LinearValue
from sottovoce.accounting.question.asked import Asked
from sottovoce.accounting.question.participation import Poisson, patterns
from sottovoce.errors import UnsupportedClaim
from sottovoce.linear import Rounds, Step, bound_rounds, check_steps_from_point, diffusion_step, exchange_topologies
from sottovoce.numbers import within_range
from sottovoce.topologies import Listed, Static

Prepared = TypeVar("Prepared")

ALIKE = 1e-9  # relative difference of rounds that count as equal: what rounding does to the same price
# With which a link or own copy carries a source: beyond these factors covariances lose their digits.
SMALLEST_FACTOR, LARGEST_FACTOR = 1e-9, 1e9


class SentValues(NamedTuple):
    """What every agent [K] gives away through its messages, at sensitivity one: mu, or epsilon for the Laplace laws."""

    values: np.ndarray  # the smaller valid one; inf: in clear
    plain: np.ndarray  # without any promise
    supported: np.ndarray  # bool: some value is proven
    promised: np.ndarray  # bool: `values` rests on the promise
    exact: np.ndarray  # bool: attained by an attack
    is_linear_view: np.ndarray  # bool: `plain` is also the linear view
    public_point: np.ndarray  # bool: every gradient is taken at a point that the messages determine
    goes_on_from_message: np.ndarray  # bool: every agent goes on from what it sent, in every round
    hidden: np.ndarray  # bool: own noise that no message shows was given away
    clear_round: np.ndarray  # int: the first round (from 1) in which something is in clear; 0: never
    spent: np.ndarray | None  # [T, K] of `values` after every round, as mu^2 or epsilon; None where not known
    # [T, K] what every round alone adds to `spent`, for a unit that takes part in all; None where not known.
    each: np.ndarray | None
    # [T, K] the most that every round alone adds to `values`, promise included; None where not known.
    most: np.ndarray | None
    parts: np.ndarray  # int: how many sources share what a message costs, each paying as much; 0: not known
    one_source_each: bool  # one source per agent and round, as sent
    pairs: bool  # some sources reach the messages of several agents: they share them, or a generator draws them

    def attained(self, agent: int) -> bool:
        """Whether an attack is known that succeeds as well as the value says."""
        return bool(self.exact[agent] and self.supported[agent])

    def equal_rounds(self, agent: int) -> tuple[float, int] | None:
        """(mu of one round, number of rounds that show something) where all such rounds are alike."""
        if self.each is None:
            return None
        shown = self.each[self.each[:, agent] > 0, agent]
        if not len(shown) or shown.max() > shown.min() * (1 + ALIKE):
            return None
        return float(np.sqrt(shown.max())), len(shown)


class Way(NamedTuple):
    """One way to account for what agents send: where it applies, the values it gives, and whether they are those of a relay's averages."""

    where: frozenset[str]
    values: Callable[["Evidence"], SentValues | None]
    averages: bool = False


@dataclass(frozen=True)
class Evidence:
    """What is known of a run before anything is proved about one agent.

    Attributes:
        asked: the question.
        agents: the agents it is about.
        ways: to account for what agents send; the first that applies is taken.
    """

    asked: Asked
    agents: np.ndarray
    ways: tuple[Way, ...]
    _prepared: dict[str, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    def prepared(self, name: str, make: Callable[[], Prepared]) -> Prepared:
        """What a proof computes once for all agents, under its name."""
        if name not in self._prepared:
            self._prepared[name] = make()
        made: Prepared = self._prepared[name]
        return made

    def leave_out(self, why: str) -> None:
        """Note what could have been proved but was not tried, once."""
        self._prepared.setdefault("left out", {})[why.partition(":")[0]] = why

    @property
    def left_out(self) -> list[str]:
        """What was not tried, and why."""
        return list(self._prepared.get("left out", {}).values())

    @cached_property
    def placed(self) -> np.ndarray:
        """[A, T] bool: every placement of the protected unit over the rounds."""
        return patterns(self.asked.participation, self.asked.rounds)

    @cached_property
    def kinds(self) -> frozenset[str]:
        """What kind of run and observer this is, in words that proofs name."""
        asked = self.asked
        held = {
            "no noise": asked.noise.law is None,
            "noise": asked.noise.law is not None,
            "memory": asked.noise.memory is not None,
            "fresh noise": asked.noise.memory is None,
            "walk": asked.algorithm.walks,
            "relay": asked.topology.relay,
            "masks": asked.masked,
            "noise in gradients": asked.noise.in_gradients,
            "noise in messages": not asked.noise.in_gradients,
            "random links": self.random_links,
            "bound rounds": self.rounds is not None,
            "Gaussian": not asked.pure,
            "pure": asked.pure,
            "coins for records": isinstance(asked.participation, Poisson),
            "secret agents": asked.amplifies,
            "every agent, unmasked": asked.sampling is None and not asked.masked,
            "promise": asked.losses is not None,
            "tight rounds": asked.tight,
            "some messages unread": not asked.view.every_message,
            "final model alone": asked.view.final_model and not asked.observer.sees_messages,
        }
        return frozenset(name for name, holds in held.items() if holds)

    @cached_property
    def all_kinds(self) -> frozenset[str]:
        """The same, with what is known once messages are accounted."""
        if "no noise" in self.kinds or bool((self.sent.exact & self.sent.supported)[self.agents].all()):
            return self.kinds
        return self.kinds | {"more than messages may be known"}

    @cached_property
    def fixed_links(self) -> bool:
        """Whether the links of every round are known in advance."""
        used = exchange_topologies(self.asked.algorithm, self.asked.topology)
        return all(isinstance(one.schedule, Static | Listed) for one in used)

    @property
    def random_links(self) -> bool:
        """Whether the account has to hold for every pattern of links."""
        return not self.fixed_links and not self.asked.algorithm.walks and not self.asked.noise.in_gradients

    @cached_property
    def rounds(self) -> Rounds | None:
        """The rounds, bound to their links and noise; None where links are random, on walks, and where noise in gradients has no linear view."""
        asked, algorithm = self.asked, self.asked.algorithm
        if algorithm.walks or not self.fixed_links:
            return None
        if asked.noise.in_gradients:
            several = algorithm.local_steps, algorithm.clipped_update, asked.sampling, algorithm.linear_part
            if asked.pure or any(one is not None for one in several):
                return None
            return bound_rounds(asked.topology, algorithm, asked.noise, asked.rounds)
        rounds = bound_rounds(asked.topology, algorithm, asked.noise, asked.rounds)
        _check_sizes(rounds)
        if algorithm.linear_part is not None and asked.losses is not None:
            check_steps_from_point(algorithm, algorithm.linear_part, asked.rounds)
        if asked.sampling is not None and any(bound.form.state[:, -1].any() for bound in rounds.distinct):
            raise UnsupportedClaim(
                f"'{algorithm.name}' keeps something of its gradients between rounds, and {asked.sampling}: what the relay takes of an agent "
                f"that is not drawn would show it without noise. Let all agents take part, or keep nothing but what is received."
            )
        return rounds

    @cached_property
    def generated(self) -> bool:
        """Whether a generator draws noise, of which agents know the sums that they add."""
        if self.rounds is None:
            return False
        return any(exchange.noise.of_generator.any() for one in self.rounds.distinct for exchange in one.exchanges)

    @cached_property
    def steps(self) -> list[Step] | None:
        """The kind and size of every round's step; None if some round is not of diffusion type."""
        return None if self.rounds is None else diffusion_steps(self.rounds)

    @cached_property
    def same_rounds(self) -> bool:
        """Whether all rounds are alike, noise included."""
        rounds = self.rounds
        return rounds is not None and len(rounds.distinct) == 1 and len(np.unique(rounds.scales)) == 1

    @cached_property
    def sent(self) -> SentValues:
        """What every agent gives away through its messages, by the first way that applies."""
        return self._sent[0]

    @cached_property
    def through_relay(self) -> bool:
        """Whether that is accounted by what a relay sends out."""
        return self._sent[1].averages

    @cached_property
    def _sent(self) -> tuple[SentValues, Way]:
        for way in self.ways:
            if way.where <= self.kinds:
                values = way.values(self)
                if values is not None:
                    return self._as_given_draws(values), way
        raise AssertionError("the last way applies to all messages")

    def _as_given_draws(self, values: SentValues) -> SentValues:
        """Nothing is exact where the observer is given the draw of agents, since others' noise is not always there."""
        if self.asked.noise.in_gradients or "every agent, unmasked" in self.kinds:
            return values
        nobody = np.zeros(len(values.values), dtype=bool)
        return values._replace(exact=nobody, is_linear_view=nobody, one_source_each=False)

    @cached_property
    def linear(self) -> LinearView | None:
        """The linear view of these agents; None where it does not exist, is that of the messages, or would take too long."""
        asked, rounds = self.asked, self.rounds
        if rounds is None or asked.pure or rounds.projected:
            return None
        if not asked.noise.in_gradients and "every agent, unmasked" not in self.kinds:
            return None
        if self.sent.is_linear_view[self.agents].all():
            return None
        return linear_view(rounds, asked.view, self.agents, self.placed)

    def first_bounds(self) -> np.ndarray:
        """[P] an upper end of every agent's value that is known before any proof; infinite where guarantees have another order."""
        if self.kinds & {"no noise", "coins for records", "secret agents", "walk"}:
            return np.full(len(self.agents), np.inf)
        p = self.agents
        if self.asked.pure and not self._one_covers_all():
            return np.full(len(p), np.inf)
        return np.where(self.sent.supported[p], self.sent.values[p] * self.asked.sensitivity[p], np.inf)

    def first_asked(self, bounds: np.ndarray) -> np.ndarray:
        """[P] positions of the agents in the order in which they are computed: the largest bounds first.

        Of equal bounds those are first of whose messages the observer reads some, since theirs is reached without a programme. Of Laplace
        rounds the one that covers all must be first, which is the first of the largest (`_one_covers_all`).
        """
        if self.asked.pure:
            return np.argsort(-bounds, kind="stable")
        return np.lexsort((~self._read[self.agents], -bounds))

    @property
    def _read(self) -> np.ndarray:
        """[K] bool: agents of whose messages the observer reads some."""
        read = np.zeros(len(self.asked.sensitivity), dtype=bool)
        used = exchange_topologies(self.asked.algorithm, self.asked.topology)
        for topology, seen in zip(used, self.asked.view.links, strict=True):
            read[topology.links[seen, 0]] = True
        return read

    def _one_covers_all(self) -> bool:
        """Whether the agent that gives away most in all gives away most in every round too, so that no other one can be worse at any delta."""
        values = self.sent.values[self.agents] * self.asked.sensitivity[self.agents]
        if self.sent.most is None or not self.sent.supported[self.agents].all():
            return False
        most, parts = self.sent.most[:, self.agents] * self.asked.sensitivity[self.agents], self.sent.parts[self.agents]
        worst = int(np.argmax(values))
        return bool((most <= most[:, [worst]]).all() and (parts == parts[worst]).all())

    def linear_value(self, agent: int) -> LinearValue | None:
        """The linear view of one agent."""
        if self.rounds is None or self.asked.pure or self.rounds.projected:
            return None
        size = float(self.asked.sensitivity[agent])
        if self.sent.is_linear_view[agent]:
            value, clear = float(self.sent.plain[agent] * size), int(self.sent.clear_round[agent])
            return LinearValue(value, 0.0, clear, True, bool(self.sent.public_point[agent]), agent)
        return None if self.linear is None else self.linear.value(self._position(agent), size)

    def worst_linear(self) -> LinearValue | None:
        """The largest linear view over the agents."""
        if self.asked.growth_is_promised:
            return None
        sizes = self.asked.sensitivity[self.agents]
        upper = self.sent.plain[self.agents] * sizes
        if self.linear is not None:
            upper = np.where(self.sent.is_linear_view[self.agents], upper, self.linear.cheap_upper(sizes))
        worst: LinearValue | None = None
        for position in np.argsort(-upper, kind="stable"):
            if worst is not None and upper[position] <= worst.mu:
                break
            found = self.linear_value(int(self.agents[position]))
            if found is None:
                return None
            if worst is None or found.mu > worst.mu:
                worst = found
        return worst

    def linear_validity(self, linear: LinearValue) -> LinearValidity:
        """Whether the linear view is a guarantee too."""
        fixed = self.rounds is not None and self.rounds.values_are_fixed
        if fixed or (self.through_relay and self.sent.is_linear_view[linear.agent]) or self._follows(linear):
            return "adaptive"
        return "exogenous-gradients"

    def _follows(self, linear: LinearValue) -> bool:
        """Whether what was read fixes the points of all gradients.

        Known states say so of the points of gradients in between only if no noise is hidden inside a round; public states say so of
        these points only where gradients are taken at the state, as in ATC.
        """
        if self.steps is None and (not self.asked.view.every_message or self.sent.hidden.any()):
            return False
        at_state = self.steps is not None and all(step.kind in ("atc", "average") for step in self.steps)
        public = linear.public and (at_state or bool(self.sent.public_point.all()))
        return linear.adaptive and (not self.asked.same_model or public)

    def _position(self, agent: int) -> int:
        return int(np.flatnonzero(self.agents == agent)[0])


def diffusion_steps(rounds: Rounds) -> list[Step] | None:
    """The kind and size of every round's step; None if some round is not of diffusion type."""
    kinds = [diffusion_step(bound.form) for bound in rounds.distinct]
    steps = [kinds[index] for index in rounds.which]
    return None if any(step is None for step in steps) else [step for step in steps if step is not None]


def values_at_public_points(
    spent: np.ndarray,
    *,
    pure: bool,
    each: np.ndarray | None = None,
    exact: bool = False,
    linear_view: bool = False,
    parts: int = 1,
) -> SentValues:
    """The account of gradients that are all taken at points the observer may know: no promise is needed, for a record either.

    Args:
        spent: [T, K] after every round, as mu^2 or epsilon, at sensitivity one.
        pure: it is in epsilon.
        each: [T, K] what every round alone adds, for a unit that takes part in all; None where not known.
        exact: attained by an attack.
        linear_view: it is also the linear view.
        parts: how many sources share what one round adds, each paying as much.
    """
    values = spent[-1] if pure else np.sqrt(spent[-1])
    everyone, nobody, clear = np.ones(len(values), dtype=bool), np.zeros(len(values), dtype=bool), np.isinf(spent)
    return SentValues(
        values=values, plain=values, supported=everyone, promised=nobody, exact=everyone & exact, is_linear_view=everyone & linear_view,
        public_point=everyone, goes_on_from_message=nobody, hidden=nobody, spent=spent, each=each, most=each, parts=np.full(len(values), parts),
        one_source_each=False, pairs=False, clear_round=np.where(clear.any(axis=0), np.argmax(clear, axis=0) + 1, 0),
    )  # fmt: skip


def _check_sizes(rounds: Rounds) -> None:
    """Refuse steps, noise and factors of noise whose squares overflow or vanish."""
    for bound in rounds.distinct:
        within_range("a step", np.concatenate([bound.form.messages[:, -1], bound.form.state[:, -1]]))
        for exchange in bound.exchanges:
            for factors in (exchange.noise.link_value, exchange.noise.self_value):
                within_range("a factor of the noise", factors, SMALLEST_FACTOR, LARGEST_FACTOR)
    within_range("the scale of the noise", rounds.scales)
