"""Every proven value for one observer, agent by agent; `account` states the smallest.

What all agents share (bound rounds, prices, Gram matrices, the absorption programme) is prepared once.
"""

import math
from typing import NamedTuple

import numpy as np

from sottovoce.accounting.gopa.masked_rounds import MaskedTradeoff
from sottovoce.accounting.guarantee import Guarantee, LinearValidity, Validity
from sottovoce.accounting.linear_view.largest_mu import LinearValue, LinearView, linear_view
from sottovoce.accounting.proofs.absorption import contraction_mu
from sottovoce.accounting.proofs.absorption_certificate import Absorption, absorption_of
from sottovoce.accounting.proofs.gradient_noise import gradient_values
from sottovoce.accounting.proofs.premises import premises
from sottovoce.accounting.proofs.random_links import random_link_bounds
from sottovoce.accounting.proofs.reasons import SOURCES, assumptions, unsupported, why_clear, why_finite
from sottovoce.accounting.proofs.relay_averages import broadcast_values, seen_through_relay
from sottovoce.accounting.proofs.secret_agents import sampled_tradeoff
from sottovoce.accounting.proofs.sent_messages import contraction, diffusion_steps, final_models_hold
from sottovoce.accounting.proofs.sent_values import SentValues, sent_values, values_of_bounds
from sottovoce.accounting.proofs.walk_hops import waits_for_the_token, walk_tradeoff, walk_values
from sottovoce.accounting.question.checked import Case
from sottovoce.accounting.question.participation import Poisson, describe_participation, patterns
from sottovoce.accounting.question.sizes import check_sizes
from sottovoce.accounting.tradeoff import (
    GaussianTradeoff,
    PureTradeoff,
    SampledTradeoff,
    SubsampledTradeoff,
    Tradeoff,
)
from sottovoce.accounting.walk import WalkTradeoff
from sottovoce.algorithms import FixedAgents
from sottovoce.errors import UnsupportedClaim
from sottovoce.linear import Rounds, bound_rounds, exchange_topologies
from sottovoce.linear.linearity import check_steps_from_point
from sottovoce.problems import ConvexSmooth
from sottovoce.topologies import Listed, Static

NETWORK_NOISE = ("absorption", "amplified-by-iteration")  # rest on noise of other agents


class Candidate(NamedTuple):
    """A proven value: mu, or epsilon for the Laplace laws."""

    value: float
    validity: Validity
    promised: bool  # rests on the promise about losses
    amplified: SampledTradeoff | WalkTradeoff | MaskedTradeoff | None = (
        None  # by a secret draw of agents, by the noise of other hops, or by masks and the noise of others
    )
    fixed_values: bool = False  # the exact view of values that do not react


class Prepared(NamedTuple):
    """What all agents share."""

    case: Case
    agents: np.ndarray
    rounds: Rounds | None  # None: the links are random
    sent: SentValues
    linear: LinearView | None
    absorption: Absorption | None
    through_relay: bool = False  # accounted by what a relay sends out

    @staticmethod
    def of(case: Case, agents: np.ndarray) -> "Prepared":
        """Compute everything that needs no maximisation."""
        case = case.with_one_step()
        placed = patterns(case.participation, case.rounds)
        if case.algorithm.walks:
            K = len(case.sensitivity)
            sent = walk_values(case.algorithm, case.noise, rounds=case.rounds, num_agents=K, pure=case.pure)
            return Prepared(case, agents, None, sent, None, None)
        if case.noise.in_gradients:
            sent = gradient_values(case.algorithm, case.noise, placed, num_agents=len(case.sensitivity), pure=case.pure)
            return Prepared(case, agents, None, sent, None, None).with_linear_view(placed)
        topologies = exchange_topologies(case.algorithm, case.topology)
        if not all(isinstance(used.schedule, Static | Listed) for used in topologies):
            return Prepared(case, agents, None, _random(case, placed), None, None)
        rounds = bound_rounds(case.topology, case.algorithm, case.noise, case.rounds)
        check_sizes(rounds)
        if case.algorithm.linear_part is not None and case.losses is not None:
            check_steps_from_point(case.algorithm, case.algorithm.linear_part, case.rounds)
        if case.sampling is not None and any(bound.form.state[:, -1].any() for bound in rounds.distinct):
            raise UnsupportedClaim(
                f"'{case.algorithm.name}' keeps something of its gradients between rounds, and {case.sampling}: what the relay takes of an agent "
                f"that is not drawn would show it without noise. Let all agents take part, or keep nothing but what is received."
            )
        averages = _averages(case, rounds, placed)
        sent = averages or sent_values(
            rounds, case.view, placed, agents, pure=case.pure, promise=case.promise, same_model=case.same_model
        )
        # The observer is given the draw, and others' noise is not always there.
        if case.sampling is not None or case.masked:
            nobody = np.zeros(len(case.sensitivity), dtype=bool)
            sent = sent._replace(exact=nobody, is_linear_view=nobody, one_source_each=False)
            return Prepared(case, agents, rounds, sent, None, None, averages is not None)
        linear = None
        if not case.pure and not rounds.projected and not sent.is_linear_view[agents].all():
            linear = linear_view(rounds, case.view, agents, placed)
        absorption = None
        if case.losses is not None and not case.pure and case.noise.law is not None and not case.view.every_message:
            # The earliest placement is the worst where every round is the same and only messages are read.
            same = len(rounds.distinct) == 1 and len(np.unique(rounds.scales)) == 1 and not case.view.final_model
            absorption = absorption_of(rounds, case.view, placed[:1] if same else placed, case.losses)
        return Prepared(case, agents, rounds, sent, linear, absorption, averages is not None)

    def with_linear_view(self, placed: np.ndarray) -> "Prepared":
        """With the linear view of noise in gradients, where it exists: one gradient in a round, fixed links, a Gaussian law."""
        case, algorithm = self.case, self.case.algorithm
        several = algorithm.local_steps is not None or algorithm.clipped_update is not None or case.sampling is not None
        topologies = exchange_topologies(algorithm, case.topology)
        fixed = all(isinstance(used.schedule, Static | Listed) for used in topologies)
        if case.pure or several or not fixed or algorithm.linear_part is not None:
            return self
        rounds = bound_rounds(case.topology, algorithm, case.noise, case.rounds)
        return self._replace(rounds=rounds, linear=linear_view(rounds, case.view, self.agents, placed))

    def first_bounds(self) -> np.ndarray:
        """[P] an upper end of every agent's value that is known before maximising."""
        p = self.agents
        if isinstance(self.case.participation, Poisson) or self.case.amplifies or self.case.algorithm.walks:
            return np.full(len(p), np.inf)  # the order of amplified guarantees is not that of what is sent
        return np.where(self.sent.supported[p], self.sent.values[p] * self.case.sensitivity[p], np.inf)

    def linear_value(self, position: int) -> LinearValue | None:
        """The linear view of one agent."""
        p = int(self.agents[position])
        if self.rounds is None or self.case.pure or self.rounds.projected:
            return None
        if self.sent.is_linear_view[p]:
            value, clear = float(self.sent.plain[p] * self.case.sensitivity[p]), int(self.sent.clear_round[p])
            return LinearValue(value, 0.0, clear, True, bool(self.sent.public_point[p]), p)
        return None if self.linear is None else self.linear.value(position, float(self.case.sensitivity[p]))

    def worst_linear(self) -> LinearValue | None:
        """The largest linear view over the agents."""
        if self.case.growth_is_promised:
            return None
        upper = self.sent.plain[self.agents] * self.case.sensitivity[self.agents]
        if self.linear is not None:
            other = self.linear.cheap_upper(self.case.sensitivity[self.agents])
            upper = np.where(self.sent.is_linear_view[self.agents], upper, other)
        worst: LinearValue | None = None
        for position in np.argsort(-upper, kind="stable"):
            if worst is not None and upper[position] <= worst.mu:
                break
            found = self.linear_value(int(position))
            if found is None:
                return None
            if worst is None or found.mu > worst.mu:
                worst = found
        return worst

    def linear_validity(self, linear: LinearValue) -> LinearValidity:
        """Whether the linear view is a guarantee too."""
        if self.rounds is not None and self.rounds.values_are_fixed:
            return "adaptive"
        if self.through_relay and self.sent.is_linear_view[linear.agent]:
            return "adaptive"
        # Known states say so of the points of gradients in between only if no noise is hidden inside a round; public states say so
        # of these points only where gradients are taken at the state, as in ATC.
        steps = None if self.rounds is None else diffusion_steps(self.rounds)
        nothing_inside = steps is not None or (self.case.view.every_message and not self.sent.hidden.any())
        at_state = steps is not None and all(step.kind in ("atc", "average") for step in steps)
        public = linear.public and (at_state or bool(self.sent.public_point.all()))
        holds = linear.adaptive and nothing_inside and (not self.case.same_model or public)
        return "adaptive" if holds else "exogenous-gradients"

    def candidates(self, position: int) -> list[Candidate]:
        """All proven values of one agent."""
        case, p = self.case, int(self.agents[position])
        size, found = float(case.sensitivity[p]), []
        if case.noise.law is None:
            return [Candidate(math.inf, "infinite", False)]
        if case.algorithm.walks or case.masked:
            return [self._on_a_walk(p) if case.algorithm.walks else self._masked(p)]
        if isinstance(case.participation, Poisson):  # amplified message by message
            value = float(self.sent.plain[p]) * size
            return [Candidate(value, "sent-messages", False)] if self.sent.public_point[p] else []
        if case.amplifies and math.isfinite(self.sent.values[p]):
            amplified = self._amplified(p)
            if amplified is not None:
                return [Candidate(float(self.sent.values[p]) * size, "sent-messages", False, amplified)]
        if self.sent.supported[p]:
            validity: Validity = "exact" if self.sent.exact[p] and case.tight else "sent-messages"
            promised = bool(self.sent.promised[p]) or case.growth_is_promised
            found.append(Candidate(float(self.sent.values[p]) * size, validity, promised))
        fixed = self.rounds is not None and self.rounds.values_are_fixed
        if (fixed or case.view.broadcast or case.view.every_message) and self.linear is not None and case.tight:
            linear = self.linear_value(position)
            if linear is not None and self.linear_validity(linear) == "adaptive":
                found.append(Candidate(linear.mu, "exact", case.growth_is_promised, fixed_values=fixed))
        best = min((candidate.value for candidate in found), default=math.inf)
        if self.absorption is not None and best > 0:
            mu = self.absorption.certificate(p, size).mu
            found.append(Candidate(mu if mu < best * (1 - 1e-9) else math.inf, "absorption", True))
        forgetting = self._forgetting(p)
        return found if forgetting is None else [*found, forgetting]

    def _forgetting(self, p: int) -> Candidate | None:
        """The final model alone: contracting steps with noise everywhere (docs/guarantees.md, final model)."""
        case, rounds = self.case, self.rounds
        only_final = case.view.final_model and not case.observer.sees_messages
        if not only_final or rounds is None or case.pure or case.losses is None or case.noise.law is None:
            return None
        steps = diffusion_steps(rounds)
        same = len(rounds.distinct) == 1 and len(np.unique(rounds.scales)) == 1
        used = exchange_topologies(case.algorithm, case.topology)[0]
        if steps is None or steps[0].kind != "atc" or not same or not used.is_doubly_stochastic:
            return None
        if not self.sent.one_source_each or not self.sent.goes_on_from_message.all():
            return None
        step, factor = steps[0].size, contraction(steps[0].size, case.losses)
        value = contraction_mu(
            step_size=step, sensitivity=float(case.sensitivity[p]), std=float(rounds.scales[0]), contraction=factor, rounds=len(rounds)
        )  # fmt: skip
        return Candidate(value, "amplified-by-iteration", True)

    def guarantee(self, position: int, *, with_linear: bool = True) -> Guarantee:
        """The smallest candidate of one agent, stated in full."""
        case, p = self.case, int(self.agents[position])
        found = self.candidates(position)
        if not found:
            raise UnsupportedClaim(
                unsupported(
                    case.unit,
                    case.noise,
                    case.algorithm.name,
                    promised=case.losses is not None,
                    random_links=self._random_links,
                )
            )
        least = min(candidate.value for candidate in found)
        # Of equal values the exact one is stated, whatever the last digits say.
        best = min(found, key=lambda c: (c.value > least * (1 + 1e-9), c.validity != "exact", c.value))
        tradeoff = self._tradeoff(best, p)
        linear = self.linear_value(position) if with_linear or math.isinf(best.value) else None
        validity: Validity = "infinite" if math.isinf(best.value) else best.validity
        shown = None if case.growth_is_promised else linear
        reason = (
            why_clear(
                case.noise, case.view, agent=p, clear_round=(linear.clear_round if linear else 0) or int(self.sent.clear_round[p]),
                final_models="combination" if self.rounds is None else final_models_hold(self.rounds),
                linear_clear=linear is not None and linear.clear_round > 0,
            )
            if validity == "infinite"
            else why_finite(
                validity, agent=p, observer=f"the observer ({case.observer})", averages=self.through_relay, gradients=case.noise.in_gradients,
                fixed_values=best.fixed_values, walk=case.algorithm.walks, masks=case.masked,
            )
        )  # fmt: skip
        return Guarantee(
            observer=case.observer.name,
            agent=p,
            unit=case.unit,
            adjacency=case.adjacency,
            rounds=case.rounds,
            participation=describe_participation(case.participation) if case.sampling is None else str(case.sampling),
            tradeoff=tradeoff,
            validity=validity,
            reason=reason,
            source=self._proved_in(best, validity),
            assumptions=() if validity == "infinite" else assumptions(
                case.noise, case.unit, sensitivity=float(case.sensitivity[p]), losses=self._promise() if best.promised else None,
                random_links=self._random_links, participation=case.participation, follow=self._others_follow(best), pairs=self.sent.pairs,
                same_model=case.same_model, clip=case.clip, computed=case.computed,
            ) + premises(case, amplified=best.amplified is not None),
            linear_mu=None if shown is None else shown.mu,
            linear_validity=None if shown is None else self.linear_validity(shown),
            linear_gap=None if shown is None else shown.gap,
            linear_agent=None if shown is None else shown.agent,
        )  # fmt: skip

    @property
    def _random_links(self) -> bool:
        """Whether the account had to hold for every pattern of links."""
        return self.rounds is None and not self.case.algorithm.walks and not self.case.noise.in_gradients

    def _others_follow(self, best: Candidate) -> bool:
        """Whether it rests on the noise of other agents."""
        averages = (self.case.view.broadcast or self.through_relay) and not self.case.noise.needs_relay
        return best.validity in NETWORK_NOISE or best.fixed_values or averages

    def _proved_in(self, best: Candidate, validity: Validity) -> str:
        if validity == "exact" and best.fixed_values:
            return SOURCES["fixed-values"]
        if validity != "infinite" and self.case.masked:
            return SOURCES["masks"]
        return SOURCES["walk" if validity != "infinite" and self.case.algorithm.walks else validity]

    def _promise(self) -> ConvexSmooth | None:
        """The promise in the user's words."""
        return self.case.losses if self.case.local is None else self.case.local.losses

    def _masked(self, p: int) -> Candidate:
        """What the relay's coalition learns of an agent whose messages would be `local`-GDP without masks."""
        case, n = self.case, len(self.case.sensitivity)
        assert case.aggregation is not None
        local = float(self.sent.values[p] * case.sensitivity[p])
        found = MaskedTradeoff(
            local=local,
            num_agents=n,
            partners=case.aggregation.partners,
            corrupted=case.observer.corrupted(n),
            published=case.aggregation.least_published(n),
            ratio=case.aggregation.pairwise_ratio,
            rounds=case.rounds,
        )
        promised = bool(self.sent.promised[p]) or case.growth_is_promised
        return Candidate(local, "sent-messages", promised, found)

    def _on_a_walk(self, p: int) -> Candidate:
        """All contributions in clear sight or, for members who wait for the token, hidden by the noise of other hops too."""
        case, size = self.case, float(self.case.sensitivity[p])
        local = float(self.sent.values[p]) * size
        waits = waits_for_the_token(case.view, taps=bool(case.observer.links))
        if case.pure or case.losses is None or not waits or math.isinf(local):
            return Candidate(local, "sent-messages", False)
        found = walk_tradeoff(
            case.topology, case.algorithm, case.noise, case.view, agent=p, sensitivity=size, rounds=case.rounds, losses=case.losses
        )  # fmt: skip
        return Candidate(local, "amplified-by-iteration", True, found)

    def _amplified(self, p: int) -> SampledTradeoff | None:
        """The averages of a secret sample of agents, of whom nobody adds more than C; None where rounds differ."""
        case, rounds = self.case, self.rounds
        assert rounds is not None
        assert case.clip is not None
        assert case.sampling is not None
        if len(rounds.distinct) > 1 or len(np.unique(rounds.scales)) > 1:
            return None
        weights = rounds.distinct[0].exchanges[0].links.self_weights
        # Of a fixed number of agents, another one stands where p is not drawn, and may weigh more than p.
        weight = float(weights.max() if isinstance(case.sampling, FixedAgents) else weights[p])
        return sampled_tradeoff(
            case.sampling,
            largest=weight * case.sampling.weight(len(weights)) * case.clip.bound,
            scale=float(rounds.scales[0]),
            rounds=len(rounds),
            adjacency=case.adjacency if case.unit == "agent" else "replace",
            num_agents=len(weights),
            members=int(case.view.members.sum()),
        )

    def _tradeoff(self, best: Candidate, p: int) -> Tradeoff:
        case = self.case
        if best.amplified is not None:
            return best.amplified
        if not isinstance(case.participation, Poisson) or math.isinf(best.value):
            return PureTradeoff(best.value) if case.pure else GaussianTradeoff(best.value)
        per_round = self.sent.equal_rounds(p)
        if per_round is None:
            raise UnsupportedClaim(
                "Poisson sampling amplifies privacy only where every gradient is taken at a point that the messages determine, with the "
                "same step and noise in every round. Use ATC or CTA with sv.noise.independent(law, self_noise=True), or another participation."
            )
        mu_one, visible = per_round
        if case.noise.in_gradients:  # every gradient of a round draws its own records
            times = case.algorithm.gradients_per_round
            mu_one, visible = mu_one / math.sqrt(times), visible * times
        record = float(case.sensitivity[p])  # norm of one record's part
        if case.adjacency == "replace":
            assert case.participation.record_norm is not None  # checked with the question
            record = case.participation.record_norm
        return SubsampledTradeoff(
            noise_multiplier=1.0 / (mu_one * record),
            sampling_rate=case.participation.rate,
            rounds=visible,
            adjacency=case.adjacency,
        )


def _averages(case: Case, rounds: Rounds, placed: np.ndarray) -> SentValues | None:
    """The account of what a relay sends out, where the observer sees nothing else."""
    if case.noise.law is None or not seen_through_relay(rounds, case.view, relay=case.topology.relay):
        return None
    if case.sampling is None:
        return broadcast_values(rounds, case.view, placed, pure=case.pure)
    if not case.noise.needs_relay:  # who does not take part adds no noise
        return None
    weight = case.sampling.weight(len(case.sensitivity))
    return broadcast_values(rounds, case.view, placed, pure=case.pure, weight=weight)


def _random(case: Case, placed: np.ndarray) -> SentValues:
    """Links drawn at random: bounds for every pattern of links."""
    losses = case.promise if case.same_model else None
    bounds = random_link_bounds(
        case.topology, case.algorithm, case.noise, rounds=case.rounds, patterns=placed, pure=case.pure,
        losses=losses,
    )  # fmt: skip
    return values_of_bounds(
        bounds,
        pure=case.pure,
        same_model=case.same_model,
        promised=losses is not None,
        final_model=case.view.final_model,
    )
