"""One agent's account on the lattice: what the accountant proves, what roundings and float64 add, and how far the samplers are off.

    Delta'  =  (Delta + float64 term) (1 + charge)

`charge` is the roundings' share, from `charge` where messages are accounted one by one, and otherwise by counting:

    noise in gradients     one rounding of a gradient                                     ||1|| 2^-f / Delta
    links at random        2 a round (message, state), 3 where own copies carry fractions of noise; differences pile up with both, so that the largest
                           c ||1|| 2^-f / (step Delta) of a round holds for all sums of them
    averages of a relay    the message, which counts q_p, and the average itself            (q_p + 1) ||1|| 2^-f / (q_p c Delta)
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sottovoce.accounting import Guarantee, Question
from sottovoce.accounting.account import stated_by
from sottovoce.accounting.proofs.evidence import Evidence
from sottovoce.accounting.proofs.message_differences import Protection, final_models_hold, protection
from sottovoce.accounting.question.asked import ask
from sottovoce.algorithms import Algorithm
from sottovoce.deployment.integers import Lattice
from sottovoce.deployment.privacy import draws
from sottovoce.deployment.privacy.charge import Entries, Roundings, ones, roundings, traced
from sottovoce.deployment.privacy.gradients import GradientArithmetic, float_term, gamma
from sottovoce.deployment.privacy.proofs import PROOFS, ways
from sottovoce.deployment.terms import PublicRun
from sottovoce.errors import UnsupportedClaim
from sottovoce.linear import diffusion_step, linear_rounds, one_thread
from sottovoce.observers import Observer
from sottovoce.problems import Sensitivity


@dataclass(frozen=True, kw_only=True, eq=False)
class Accounted:
    """One agent of a run, seen by one observer, on one lattice.

    Attributes:
        run: what was agreed on.
        lattice: on which parties compute.
        observer: who looks.
        agent: whose data.
        sensitivity: of exact gradients, or of clipped updates.
        arithmetic: what one gradient sums up.
    """

    run: PublicRun
    lattice: Lattice
    observer: Observer
    agent: int
    sensitivity: Sensitivity
    arithmetic: GradientArithmetic

    @cached_property
    def evidence(self) -> Evidence:
        """What the accountant knows, by the ways that hold on the lattice."""
        run, given = self.run, self.sensitivity
        question = Question(
            rounds=run.rounds, sensitivity=given, unit=given.unit, adjacency=given.adjacency, agent=self.agent
        )
        asked = ask(run.topology, run.algorithm, run.noise, self.observer, question)
        return Evidence(asked, np.array([self.agent]), ways(run.noise))

    @one_thread
    def stated(self) -> Guarantee:
        """What the allowed proofs state of the exact run."""
        return stated_by(PROOFS, self.evidence, self.agent)

    @cached_property
    def computed(self) -> float:
        """The sensitivity of computed gradients: the float64 term added."""
        largest = self._largest_point * self.lattice.unit if self.arithmetic.added > 0 else 0.0
        term = float_term(self.sensitivity, self.arithmetic, dimension=self.run.dimension, bound=largest)
        return float(self.sensitivity) + term

    @property
    def _largest_point(self) -> float:
        """A bound on the entries of all points at which gradients are taken, in units; rounds with the same schedules are alike."""
        # Under noise in gradients every single gradient counts, also those of local steps that are clipped as a whole afterwards.
        played = self.run.algorithm if self.run.noise.in_gradients else self.played
        tables = [schedule.table(self.run.rounds) for schedule in played.schedules]
        first = np.unique(np.stack(tables), axis=1, return_index=True)[1] if tables else np.zeros(1, dtype=int)
        return max(traced(played, int(t) + 1, self.entries).point_size for t in first)

    @cached_property
    def charge(self) -> float:
        """The roundings' share: the sensitivity is to be multiplied by one more than this; infinite where roundings show something in clear."""
        kinds = self.evidence.kinds
        if "noise in gradients" in kinds:
            return self._one / self.computed
        if "random links" in kinds:
            return self._at_random
        if self.evidence.through_relay:
            return self._of_averages
        return self._of_messages

    @property
    def _one(self) -> float:
        """||1|| 2^-f, in the norm of the law."""
        law = self.run.noise.law
        assert law is not None  # infinite without
        return ones(law.norm, self.run.dimension) * self.lattice.unit

    @cached_property
    def entries(self) -> Entries:
        """How large the entries of states, words and gradients are at most, in units."""
        given, n, bound = float(self.sensitivity), self.arithmetic.terms, float(self.lattice.bound)
        largest = given if self.sensitivity.unit == "agent" else given * n
        noise, several = draws.largest(self.run, self.lattice, self.agent)
        return Entries(
            bound=bound,
            noise=noise,
            word=bound + several * noise,
            gradient=largest / self.lattice.unit,
            added=self.arithmetic.added,
            noisy_gradients=self.run.noise.in_gradients,
        )

    @cached_property
    def played(self) -> Algorithm:
        """The algorithm whose functions are followed: an update that is clipped as a whole stands for a gradient."""
        clipped = self.run.algorithm.clipped_update
        return self.run.algorithm if clipped is None else clipped.one_step

    @cached_property
    def protection(self) -> Protection:
        """The noise of every exchange, as the accountant counts it."""
        evidence = self.evidence
        assert evidence.rounds is not None  # links at random are charged otherwise
        asked = evidence.asked
        return protection(evidence.rounds, asked.view.members, pure=asked.pure, final_model=self._final_word)

    @cached_property
    def _final_word(self) -> bool:
        rounds = self.evidence.rounds
        return (
            self.evidence.asked.view.final_model and rounds is not None and final_models_hold(rounds) == "combination"
        )

    @cached_property
    def roundings(self) -> Roundings:
        """What roundings alone do to the agent's messages.

        Raises:
            UnsupportedClaim: points of gradients, or a released model, that roundings make differ.
        """
        rounds = self.evidence.rounds
        assert rounds is not None
        found = roundings(
            rounds,
            self.played,
            self.protection,
            self.agent,
            entries=self.entries,
            final_word=self._final_word,
        )
        if self.evidence.asked.same_model and not found.same_points:
            raise UnsupportedClaim(
                "the sensitivity compares gradients at the same model, and on the lattice the two worlds may take them at different ones. Use ATC or CTA with self-noise, "
                "or bound the difference of any two gradients."
            )
        if self.evidence.asked.view.final_model and not found.same_model:
            raise UnsupportedClaim(
                "the model that is released follows from no messages: on the lattice it differs between two worlds."
            )
        return found

    @cached_property
    def rounding_costs(self) -> np.ndarray:
        """[T] what roundings alone give away in every round, as mu^2 or epsilon."""
        price, pure = self.protection.price[:, :, self.agent], self.evidence.asked.pure
        sizes = self.roundings.messages * self._one
        with np.errstate(invalid="ignore"):
            costs = np.where(sizes > 0, price * (sizes if pure else sizes**2), 0.0)
        return np.asarray(costs.sum(axis=1))

    def charged_after(self, plain: np.ndarray) -> np.ndarray:
        """[T] what roundings add, at most, to the values of an exact run [T] after every round."""
        if self.evidence.random_links or self.evidence.through_relay or self.run.noise.in_gradients:
            return plain * self.charge
        total = np.cumsum(self.rounding_costs)
        return np.asarray(total if self.evidence.asked.pure else np.sqrt(total))

    @property
    def _of_messages(self) -> float:
        sent, p, costs = self.evidence.sent, self.agent, self.rounding_costs
        if not costs.any():
            return 0.0
        if not self.evidence.asked.pure:
            value = float(sent.values[p]) * self.computed
            return float(np.sqrt(costs.sum())) / value if value > 0 else math.inf
        if sent.most is None:
            total = float(sent.values[p]) * self.computed
            return float(costs.sum()) / total if total > 0 else math.inf
        each = sent.most[:, p] * self.computed
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.where(costs > 0, costs / each, 0.0).max())

    @cached_property
    def fraction(self) -> float:
        """The largest multiple of a source that an own copy carries and that is not one of a word, over what links may be up; 0: there is none."""
        return draws.largest_fraction(self.run, self.agent)

    @property
    def _at_random(self) -> float:
        """Roundings beside the gradient step of every round; a round without a step has nothing to be charged to."""
        algorithm = self.evidence.asked.algorithm  # with all local steps of a round as one
        forms = linear_rounds(algorithm if algorithm.linear_part is None else algorithm.linear_part, self.run.rounds)
        largest = 0.0
        for t in (int(np.argmax(forms.which == index)) for index in range(len(forms.forms))):
            step = diffusion_step(forms.forms[forms.which[t]])
            if step is None or step.size == 0.0:
                return math.inf
            one = traced(self.played, t + 1, self.entries)
            values = [*one.messages[0].values, *one.updates[0].values]
            if 0 in one.updates[0].values[0].sources:
                return math.inf  # the state goes on from itself, and not from what was received alone
            combined = 2.0 * gamma(self.run.num_agents + 8) * (self.entries.word + self.entries.own(self.fraction))
            fractions = (1.0 + 2.0 * gamma(4) * self.fraction * self.entries.noise) if self.fraction > 0 else 0.0
            count = sum(1.0 + 2.0 * value.error for value in values) + combined + fractions
            largest = max(largest, count / step.size)
        return largest * self._one / self.computed

    @property
    def _of_averages(self) -> float:
        """The average of a relay that adds the noise: p's message in it, and its own rounding."""
        asked, rounds = self.evidence.asked, self.evidence.rounds
        assert rounds is not None
        weight = 1.0 if asked.sampling is None else float(asked.sampling.weight(self.run.num_agents))
        # A sample adds what is known of everybody, and of those who are heard what is new, several times.
        combined = 1.0 + 2.0 * gamma(3 * self.run.num_agents + 8) * self.entries.word * (1.0 + 2.0 * weight)
        largest = 0.0
        for index, bound in enumerate(rounds.distinct):
            t = int(np.argmax(rounds.which == index))
            one = traced(self.played, t + 1, self.entries)
            gradient = one.blocks + 1
            if one.begin is not None or any(gradient in value.sources for value in one.updates[0].values):
                return math.inf  # states would hold gradients that no average shows
            if gradient not in one.messages[0].values[0].sources:
                continue
            share = float(bound.exchanges[0].links.self_weights[self.agent]) * weight
            factor = abs(float(bound.form.messages[0, -1]))
            if factor == 0.0:
                return math.inf
            count = share * (1.0 + 2.0 * one.messages[0].values[0].error) + combined
            largest = max(largest, count / (share * factor))
        return largest * self._one / self.computed
