"""What a round that was played reveals about an honest party, and several rounds together.

A coalition holds the board's log and all that its members know: their own secrets and every mask they share. Count as
known to it, besides, every mask shared with a party that fell silent, whether revealed by repairs or not. What is left
to hide behind is the FINAL HONEST GRAPH: parties that published and are not in the coalition, and the pairs among them.
On the part of the graph that party u is in,

    uniform masks     only the sum over the c parties of the part is seen:    mu_u^2 = D^2 / (c s^2)
    Gaussian masks    x + eta + K Delta is seen:                              mu_u^2 = D^2 [(s^2 I + r^2 L)^-1]_uu

with D = 2 (2^f C), own noise of std s and masks of std r, all in units. That is for real numbers; whole ones and
imperfect draws cost a total variation that is charged to delta (`accounting.gopa.integers`, `accounting.charged`).
Rounds with fresh keys: mu^2 and total variation add up, also when inputs depend on earlier rounds. A party that did not
publish in a round has revealed nothing in it. Rounds that got stuck after publication count like the others: what was
published stays published.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sottovoce.accounting import Guarantee
from sottovoce.accounting.gopa import HonestGraph, from_pairs, party_mu
from sottovoce.accounting.gopa.imperfect_noise import ChargedTradeoff, Way
from sottovoce.accounting.gopa.integers import IntegerNoise, integer_ways
from sottovoce.accounting.guarantee import TOGETHER
from sottovoce.deployment.gopa.refusals import OutOfPhase
from sottovoce.deployment.gopa.server import missing_repairs
from sottovoce.deployment.gopa.terms import Terms
from sottovoce.deployment.gopa.transcript import Phase, Transcript
from sottovoce.deployment.integers import GaussianMasks
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.numbers import whole

_SHOWN = 8  # members of a coalition that are named one by one

ASSUMPTIONS = (
    "the coalition is the one named and the same in all rounds",
    "all other parties follow the protocol, with fresh keys and fresh noise in every round",
    "drop lists are final: the board showed everybody one log and withheld no publication of a party it called dropped",
    "who fell silent did not depend on what others had published",
    "how many rounds there are, and their terms, were fixed beforehand and did not depend on earlier results",
    "key agreement and stream cipher are as good as random for the coalition",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Revealed:
    """What one round reveals of its honest parties."""

    ways: dict[int, tuple[Way, Way]]  # by party; those that published
    smallest_part: int


def guarantee(
    rounds: Transcript | Sequence[Transcript], *, coalition: Collection[int], party: int | None = None
) -> Guarantee:
    """What a coalition has learnt about an honest party's vector, once it may be replaced by any other.

    Args:
        rounds: the transcript of a round, or those of all rounds with these parties, stuck and
            open ones included: what was published counts.
        coalition: numbers of the parties that share what they know with the server, the board and each other; may be
            empty. An honest but curious party belongs to the coalition when others ask what it learns.
        party: whose guarantee; None for one that holds for every honest party.

    Raises:
        ConfigError: no round, one round twice, different rosters, members that are not in the roster, or a party that
            is in the coalition or has published nothing.
        OutOfPhase: publication has not begun, so that there is nothing to account for.
        UnsupportedClaim: no honest party has published.
    """
    transcripts = (rounds,) if isinstance(rounds, Transcript) else tuple(rounds)
    _check_rounds(transcripts)
    members = _members(coalition, len(transcripts[0].terms.roster))
    _check_party(party, members, transcripts)
    revealed = [_revealed(transcript, members, party) for transcript in transcripts]
    composed = _of_all_rounds(revealed)
    agent = max(sorted(composed), key=lambda number: composed[number][0].mu) if party is None else party
    taking_part = sum(agent in one.ways for one in revealed)
    return Guarantee(
        observer=_observer(members),
        agent=agent,
        unit="agent",
        adjacency="replace",
        rounds=len(transcripts),
        participation="every-round" if taking_part == len(revealed) else f"{taking_part} of {len(revealed)} rounds",
        tradeoff=ChargedTradeoff(_largest(composed.values())),
        meaning=TOGETHER,
        validity="sent-messages",
        reason=_reason(transcripts, [one.smallest_part for one in revealed if one.ways]),
        source="modules sottovoce.deployment.gopa.privacy and sottovoce.accounting.gopa.integers",
        assumptions=ASSUMPTIONS,
    )


def final_graph(transcript: Transcript, coalition: Collection[int]) -> tuple[list[int], HonestGraph]:
    """The parties that published and are not in the coalition, in increasing order, and the pairs among them."""
    honest = sorted(transcript.survivors - frozenset(coalition))
    place = {number: index for index, number in enumerate(honest)}
    pairs = [
        (index, place[other])
        for number, index in place.items()
        for other in transcript.neighbours[number]
        if other in place and number < other
    ]
    return honest, from_pairs(len(honest), np.asarray(pairs, dtype=np.int64).reshape(-1, 2))


def _revealed(transcript: Transcript, members: frozenset[int], party: int | None) -> _Revealed:
    if not transcript.survivors - members:
        return _Revealed(ways={}, smallest_part=0)
    honest, graph = final_graph(transcript, members)
    wanted = honest if party is None else [number for number in honest if number == party]
    if not wanted:
        return _Revealed(ways={}, smallest_part=0)
    terms = transcript.terms
    sensitivity = 2.0 * math.ldexp(terms.encoding.clip, terms.encoding.fraction_bits)
    mus = party_mu(
        graph,
        independent_std=terms.own_noise.std,
        pairwise_std=_mask_std(terms),
        sensitivity=sensitivity,
        parties=None if party is None else [honest.index(party)],
    )
    noises = [_noise(terms, graph, inside) for inside in graph.parts]
    errors = [_sampler_error(terms, noise) for noise in noises]
    ways, sizes = {}, []
    for index in range(len(honest)) if party is None else [honest.index(party)]:
        part = int(graph.component[index])
        sizes.append(noises[part].honest_parties)
        ways[honest[index]] = integer_ways(
            noises[part], mu=float(mus[index]), sensitivity=sensitivity, sampler_error=errors[part]
        )
    return _Revealed(ways=ways, smallest_part=min(sizes))


def _noise(terms: Terms, graph: HonestGraph, inside: np.ndarray) -> IntegerNoise:
    degrees = np.diff(graph.adjacency.indptr)[inside]
    return IntegerNoise(
        own_std=terms.own_noise.std,
        honest_parties=len(inside),
        dimension=terms.dimension,
        mask_std=_mask_std(terms),
        pairs=int(degrees.sum()) // 2,
        largest_degree=int(degrees.max()),
    )


def _mask_std(terms: Terms) -> float:
    return terms.masks.law.std if isinstance(terms.masks, GaussianMasks) else math.inf


def _sampler_error(terms: Terms, noise: IntegerNoise) -> float:
    """Total variation of all draws that hide one part: own noise, and masks where they are drawn from a law."""
    per_entry = noise.honest_parties * terms.own_noise.total_variation
    if isinstance(terms.masks, GaussianMasks):
        per_entry += noise.pairs * terms.masks.law.total_variation
    return min(1.0, per_entry * terms.dimension)


def _composed(rounds: Iterable[tuple[Way, Way]]) -> tuple[Way, Way]:
    listed = list(rounds)
    first, second = (
        Way(
            math.hypot(*(one[proof].mu for one in listed)),
            min(1.0, math.fsum(one[proof].total_variation for one in listed)),
        )
        for proof in range(2)
    )
    return first, second


def _of_all_rounds(revealed: Sequence[_Revealed]) -> dict[int, tuple[Way, Way]]:
    """What all rounds together reveal of every honest party that published in one of them."""
    honest = {number for one in revealed for number in one.ways}
    if not honest:
        raise UnsupportedClaim(
            "every party that published is in the coalition; a guarantee is about an honest one. Name a smaller coalition."
        )
    return {number: _composed(one.ways[number] for one in revealed if number in one.ways) for number in honest}


def _largest(every: Collection[tuple[Way, Way]]) -> tuple[Way, ...]:
    """What holds for all parties, which may differ in which number is largest: the largest of each."""
    return tuple(
        Way(max(one[proof].mu for one in every), max(one[proof].total_variation for one in every)) for proof in range(2)
    )


def _observer(members: frozenset[int]) -> str:
    if not members:
        return "the server and the board"
    shown = ", ".join(map(str, sorted(members))) if len(members) <= _SHOWN else f"of a coalition of {len(members)}"
    return f"the server, the board and parties {shown}"


def _reason(transcripts: Sequence[Transcript], sizes: Sequence[int]) -> str:
    stuck = [transcript for transcript in transcripts if missing_repairs(transcript)]
    text = (
        f"Masks and own noise of at least {min(sizes)} honest parties that published and that pairs connect hide the "
        f"vector in every round; masks shared with the coalition or with silent parties are not counted."
    )
    still_open = [transcript for transcript in transcripts if transcript.phase is Phase.PUBLICATION]
    if still_open:
        numbers = ", ".join(str(transcript.terms.round_number) for transcript in still_open)
        text += f" Round {numbers} is still open: it counts with what has been published so far."
    if stuck:
        numbers = ", ".join(str(transcript.terms.round_number) for transcript in stuck)
        text += f" Round {numbers} has no sum, because repairs are missing; this holds for it now and if they come."
    return text


def _check_rounds(transcripts: Sequence[Transcript]) -> None:
    if not transcripts:
        raise ConfigError("no round was given; a guarantee is about at least one. Give the transcript of a round.")
    for transcript in transcripts:
        if transcript.phase < Phase.PUBLICATION:
            raise OutOfPhase(
                f"Round {transcript.terms.round_number} is in {transcript.phase.name}; nothing has been published in it, "
                f"so it gives nothing away. Leave it out until PUBLICATION."
            )
    if len({transcript.terms.roster for transcript in transcripts}) > 1:
        raise ConfigError(
            "the rounds have different rosters, so that one number means different parties. Account them apart."
        )
    if len({(transcript.terms.run, transcript.terms.round_number) for transcript in transcripts}) < len(transcripts):
        raise ConfigError("one round was given twice. Give the transcript of every round once.")


def _members(coalition: Collection[int], size: int) -> frozenset[int]:
    members = frozenset(whole("coalition member", member, least=0) for member in coalition)
    strangers = sorted(member for member in members if member >= size)
    if strangers:
        raise ConfigError(
            f"the coalition names {strangers}; the roster has the parties 0 to {size - 1}. Name members of the roster."
        )
    return members


def _check_party(party: int | None, members: frozenset[int], transcripts: Sequence[Transcript]) -> None:
    if party is None:
        return
    whole("party", party, least=0)
    if party in members:
        raise ConfigError(f"party {party} is in the coalition, which knows its vector. Ask about an honest party.")
    if not any(party in transcript.survivors for transcript in transcripts):
        raise ConfigError(
            f"party {party} published in none of these rounds; they reveal nothing of its vector. Ask about another."
        )
