"""The absorption certificate of a run: from rounds and observer to the quadratic programme of `absorption`.

It covers rounds of diffusion type, with noise that is fresh in every round, of two kinds: links that carry one source of their sender, unchanged and shared
with nobody; and agents that add one and the same sum of sources to all their messages, whoever shares these (`noise_vectors`). For anything
else there is no certificate (None), and the account of sent messages stands.
"""

from typing import NamedTuple

import numpy as np

from sottovoce.accounting.proofs.absorption import (
    Certificate,
    Consensus,
    Diffusion,
    RoundLinks,
    Terminal,
    absorption_certificate,
    programme_size,
)
from sottovoce.accounting.proofs.evidence import Evidence
from sottovoce.accounting.proofs.message_differences import final_models_hold
from sottovoce.accounting.proofs.noise_vectors import noise_vector
from sottovoce.accounting.proofs.proof import Proof, Statement
from sottovoce.accounting.question.promise import contraction
from sottovoce.accounting.tradeoff import GaussianTradeoff
from sottovoce.linear import BoundRound, Rounds, Step
from sottovoce.noise import known_sources, received_map, shared_sources
from sottovoce.observers import View
from sottovoce.problems import ConvexSmooth

LARGEST = 300_000  # agents x rounds up to which the programme is solved
MOST_PATTERNS = 16
MOST_WORK = 1.2e9  # squares of the numbers of variables, added up: the solver takes about a minute
SHARED_WORK = 4  # times as long, at most about, where shifts of agents have a price together
LARGEST_SHARED = 20_000_000  # entries of these prices in all rounds that differ
COUNTED_ON = " That noise is correlated between agents, so this counts on the others adding theirs as agreed."


class Absorption(NamedTuple):
    """Everything of the programme that does not depend on the protected agent."""

    links: list[RoundLinks]
    std: np.ndarray  # [T]
    sizes: np.ndarray  # [T, A] step sizes where the unit takes part; entered with the message of that round
    steps: Diffusion | Consensus
    terminal: Terminal | None

    @property
    def shared(self) -> bool:
        """Whether the shifts of several agents have a price together."""
        return any(links.precision is not None for links in self.links)

    def certificate(self, agent: int, sensitivity: float) -> Certificate:
        """The certificate of one agent, for its worst participation."""
        found = [
            absorption_certificate(
                self.links, std=self.std, injection=injection, steps=self.steps, terminal=self.terminal
            )
            for injection in self._injections(agent, sensitivity)
        ]
        return max(found, key=lambda certificate: certificate.mu)

    def size(self, agent: int) -> int:
        """Variables of the programme of one agent, for one participation."""
        injection = self._injections(agent, 1.0)[0]
        return programme_size(self.links, std=self.std, injection=injection, steps=self.steps, terminal=self.terminal)

    def _injections(self, agent: int, sensitivity: float) -> list[np.ndarray]:
        made = []
        for sizes in self.sizes.T:
            made.append(np.zeros((len(self.std), len(self.links[0].self_weights))))
            made[-1][:, agent] = sizes * sensitivity
        return made


def states(evidence: Evidence, agent: int) -> Statement | None:
    """The certificate of one agent; None where there is no programme, or nothing to absorb."""
    asked, sent = evidence.asked, evidence.sent
    if sent.supported[agent] and sent.values[agent] == 0:
        return None
    programme = evidence.prepared("absorption", lambda: absorption_of(evidence))
    if programme is None or not _short_enough(evidence, programme, agent):
        return None
    mu = programme.certificate(agent, float(asked.sensitivity[agent])).mu
    return Statement(
        tradeoff=GaussianTradeoff(mu),
        value=mu,
        validity="absorption",
        reason=f"On its way to the observer ({asked.observer}) a change in agent {agent}'s data is absorbed by noise that the observer "
        f"({asked.observer}) does not know.{COUNTED_ON if programme.shared else ''}",
        section="Absorption",
        promised=True,
        others=True,
    )


def _short_enough(evidence: Evidence, programme: Absorption, agent: int) -> bool:
    """Whether the programmes of all agents that may be asked for can be solved within the limit; what is left out is said."""
    size, asked = programme.size(agent), evidence.asked
    work = float(size) ** 2 * programme.sizes.shape[1] * (SHARED_WORK if programme.shared else 1)
    # Who reads messages has a worst agent among their senders, for whom there is nothing to solve; a final model is equally far from all.
    agents = 1 if asked.observer.sees_messages else len(evidence.agents)
    done = evidence.prepared("absorption work", lambda: [0.0])
    if max(done[0] + work, agents * work) <= MOST_WORK:
        done[0] += work
        return True
    what = "a programme" if agents == 1 else f"{agents} programmes"
    evidence.leave_out(
        f"Whether other agents' noise absorbs more was not computed: {what} of {size:,} variables would take longer than a minute. Name one "
        f"agent (agent=...), or ask for fewer rounds."
    )
    return False


def absorption_of(evidence: Evidence) -> Absorption | None:
    """Prepare the programme; None where it does not apply or would be too large."""
    rounds, view, steps, losses = evidence.rounds, evidence.asked.view, evidence.steps, evidence.asked.losses
    # The earliest placement is the worst where every round is the same and only messages are read.
    first = evidence.same_rounds and not view.final_model
    patterns = evidence.placed[:1] if first else evidence.placed
    assert rounds is not None
    assert losses is not None
    if steps is None or view.broadcast or not _fits(rounds, view, len(patterns)):
        return None
    local, distinct = _local_steps(steps, losses), _all_links(evidence, rounds)
    if local is None or distinct is None:
        return None
    by_round = [distinct[index] for index in rounds.which]
    return Absorption(
        links=by_round,
        std=rounds.scales,
        sizes=_entering(steps, patterns),
        steps=local,
        terminal=_terminal(rounds, by_round[-1]) if view.final_model else None,
    )


def _fits(rounds: Rounds, view: View, patterns: int) -> bool:
    """Whether rounds of this kind have a programme, and one that can be solved."""
    if len(view.members) * len(rounds) > LARGEST or patterns > MOST_PATTERNS or len(rounds.distinct[0].exchanges) != 1:
        return False
    return not view.final_model or final_models_hold(rounds) == "combination"


def _entering(steps: list[Step], patterns: np.ndarray) -> np.ndarray:
    """[T, A] the size of the step whose gradient enters with the message of a round, where the unit takes part in it."""
    sizes = np.zeros((len(steps), len(patterns)))
    for t, (kind, size) in enumerate(steps):
        enters = t if kind == "atc" else t + 1
        if kind != "average" and enters < len(steps):
            sizes[enters] += size * patterns[:, t]
    return sizes


def _local_steps(steps: list[Step], losses: ConvexSmooth) -> Diffusion | Consensus | None:
    kinds = {step.kind for step in steps} - {"average"}
    if kinds <= {"atc", "cta"}:
        factors = np.ones(len(steps) - 1)
        for t, (kind, size) in enumerate(steps):
            between = t - 1 if kind == "atc" else t
            if kind != "average" and 0 <= between < len(factors):
                factors[between] *= contraction(size, losses)
        return Diffusion(factors)
    if kinds == {"consensus"}:
        for step in steps:
            contraction(step.size, losses)  # refuses steps that are too long
        return Consensus(np.array([step.size for step in steps[:-1]]), losses.nu, losses.beta)
    return None


def _all_links(evidence: Evidence, rounds: Rounds) -> list[RoundLinks] | None:
    """The links of all rounds that differ: with sources as they are; else one source per agent, and the price of shifting all of them together."""
    view, made = evidence.asked.view, []
    entries = len(view.members) ** 2 * len(rounds.distinct)
    for bound in rounds.distinct:
        found = _single_sources(bound, view)
        if found is None and entries > LARGEST_SHARED:
            evidence.leave_out(
                f"Whether other agents' noise absorbs more was not computed: it is shared, and its prices would have {entries:,} entries. Ask for "
                f"fewer rounds, or for fewer that differ."
            )
            return None
        found = _shared_sources(bound, view) if found is None else found
        if found is None:
            return None
        made.append(found)
    return made


def _shared_sources(bound: BoundRound, view: View) -> RoundLinks | None:
    """What an agent adds to its messages as one source, whoever shares it; None where agents add different noise to their messages."""
    links, _ = bound.exchanges[0]
    found = noise_vector(bound.exchanges[0], view.members)
    if found is None:
        return None
    active, agents = np.flatnonzero(links.weights > 0), np.arange(len(links.perron))
    senders = links.senders[active]
    read = np.zeros(len(agents), dtype=bool)
    read[senders[view.links[0][active] & ~view.members[senders]]] = True
    return RoundLinks(
        senders=senders,
        receivers=links.receivers[active],
        weights=links.weights[active],
        link_source=senders,
        self_weights=links.self_weights,
        own_source=agents,
        own_factor=found.own,
        owners=agents,
        read=read,
        known=~found.movable,
        precision=found.precision,
    )


def _single_sources(bound: BoundRound, view: View) -> RoundLinks | None:
    """The sources as they are; None unless every link carries one of its sender, unchanged, and nobody shares it."""
    links, noise = bound.exchanges[0]
    K, S = len(links.perron), noise.num_sources
    active = np.flatnonzero(links.weights > 0)
    position = np.full(len(links.senders), -1)
    position[active] = np.arange(len(active))
    used = (position[noise.link_index] >= 0) & (noise.link_value != 0)
    place, source = position[noise.link_index[used]], noise.link_source[used]
    one_each = np.array_equal(np.sort(place), np.arange(len(active)))
    if (
        not one_each
        or not np.all(noise.link_value[used] == 1.0)
        or shared_sources(noise.owners).any()
        or (noise.owners[:, 0] < 0).any()
        or (noise.owners[source, 0] != links.senders[active[place]]).any()
    ):
        return None
    link_source = np.zeros(len(active), dtype=int)
    link_source[place] = source
    kept = noise.self_value != 0
    agents, own_value = noise.self_index[kept], noise.self_value[kept]
    own_source, own_factor = np.full(K, -1), np.zeros(K)
    theirs = noise.owners[noise.self_source[kept], 0] == agents
    if len(np.unique(agents)) != len(agents) or (own_value > 1.0).any() or not theirs.all():
        return None
    own_source[agents], own_factor[agents] = noise.self_source[kept], own_value
    known = known_sources(noise.owners, view.members)
    read = np.zeros(S, dtype=bool)
    read[link_source[view.links[0][active] & ~view.members[links.senders[active]]]] = True
    return RoundLinks(
        senders=links.senders[active],
        receivers=links.receivers[active],
        weights=links.weights[active],
        link_source=link_source,
        self_weights=links.self_weights,
        own_source=own_source,
        own_factor=own_factor,
        owners=noise.owners[:, 0],
        read=read,
        known=known,
    )


def _terminal(rounds: Rounds, last: RoundLinks) -> Terminal:
    """The centroid after the last combination, as weights of its messages and of the sources in the last round's links."""
    links, noise = rounds.at(len(rounds) - 1).exchanges[0]
    q = rounds.centroid.weights
    kept, sent = links.self_weights * q, np.bincount(links.senders, links.weights * q[links.receivers], len(q))
    messages = kept + sent
    if last.precision is not None:  # every message carries its sender's source; own copies carry it, or nothing
        return Terminal(messages, sent + last.own_factor * kept)
    return Terminal(messages, np.asarray(received_map(noise, links).T @ q))


PROOF = Proof(
    "absorption",
    where=frozenset(
        {
            "fresh noise",
            "promise",
            "Gaussian",
            "bound rounds",
            "noise in messages",
            "every agent, unmasked",
            "some messages unread",
        }
    ),
    states=states,
)
