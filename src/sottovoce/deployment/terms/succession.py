"""The agreement under which those who remain go on without those who were lost.

    a lost agent's weight      goes back to the receiver's own copy: a_kk <- a_kk + sum over lost l of a_lk; of a relay's shares, to all in proportion
    exchanges                  keep their positions: the agreement begins with the one after the cut, and tables of steps and noise go on
    everything else            stays: unit, clip, law and size of the noise, tables, resolution

Who vanishes, and when, may depend on what was sent. That costs nothing where every agent goes on from what it sent: then its next message is a
function of what everybody has said, of one gradient and of fresh noise, whatever weights were used to combine and whoever was left out (docs/guarantees.md,
"Lost neighbours"). So exclusion is for schemes of that kind alone. Noise that cancels, in the centroid or between two agents, is refused: a
neighbour of the lost agent has sent noise whose counterpart never comes. Masks that cancel at a receiver are refused for the same reason. Noise of a relay is
refused too: what agents have sent it is averaged without the lost, in which each of them counts for more than was reserved, and no agent can hold that back.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sottovoce.deployment.terms.agreement import Agreement, Continuation, Network, RoundLinks
from sottovoce.deployment.terms.pair_sources import bind_among_parties
from sottovoce.deployment.terms.public_run import PublicRun
from sottovoce.deployment.terms.rebuilding import topology_of
from sottovoce.deployment.terms.resolving import Declared, agreement_of
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.linear import exchange_topologies
from sottovoce.noise import shared_sources
from sottovoce.topologies import Listed, Static, Topology

_INSTEAD = 'Use lost_neighbour = "wait" or "stop", or noise that every agent adds for itself and keeps in its own copy: sv.noise.independent(law).'


def check_exclusion(run: PublicRun) -> None:
    """Refuse a run from which nobody may be excluded.

    Raises:
        IncompatibleChoice: with the reason.
    """
    algorithm, noise = run.algorithm, run.noise
    used = exchange_topologies(algorithm, run.topology)
    if algorithm.aggregation is not None:
        raise IncompatibleChoice(
            'sums with masks repair silent agents themselves, and nobody is excluded from them. Use lost_neighbour = "wait".'
        )
    if algorithm.sampling is not None or any(not isinstance(one.schedule, Static | Listed) for one in used):
        raise IncompatibleChoice(
            "links or agents are drawn by a public coin that counts all agents, and those who remain would draw others in the middle of a round. Use fixed or listed "
            'links and let all agents take part, or lost_neighbour = "wait" or "stop".'
        )
    if any(exchange.weights is not None for exchange in algorithm.exchanges):
        raise IncompatibleChoice(
            f'\'{algorithm.name}\' brings weights of its own, in which nobody\'s weight can be given back. Use lost_neighbour = "wait" or "stop".'
        )
    if noise.needs_relay:
        raise IncompatibleChoice(
            f"the relay adds the noise of '{noise.name}' to an average in which everybody who is left counts for more than was reserved, and what it has read it may average without the lost before anybody can object. "
            f"{_INSTEAD}"
        )
    if noise.promises or _shared(run):
        raise IncompatibleChoice(
            f"the noise of '{noise.name}' cancels between messages, and what a lost agent's neighbours have sent would never be cancelled. {_INSTEAD}"
        )


def _shared(run: PublicRun) -> bool:
    rounds = run.topology.listed() if isinstance(run.topology.schedule, Listed) else (run.topology,)
    return any(bool(shared_sources(bind_among_parties(run.noise, one.active_links()).owners).any()) for one in rounds)


def successor(
    agreement: Agreement, run: PublicRun, excluded: Sequence[str], *, after: int
) -> tuple[Agreement, PublicRun]:
    """The agreement without those who were lost, and the public parts of the run that goes on.

    Args:
        agreement: which holds until then.
        run: its public parts.
        excluded: names of agents.
        after: position of the last exchange under it.

    Raises:
        ConfigError: too few would be left, somebody who is no agent, or nobody who could reach the others.
        IncompatibleChoice: as `check_exclusion`, or a noise scheme or a list of rounds that fails without them.
    """
    check_exclusion(run)
    lost = tuple(sorted(set(excluded)))
    if not lost or set(lost) - set(agreement.agents):
        raise ConfigError(
            f"{', '.join(lost) or 'nobody'} cannot be excluded; agents are {', '.join(agreement.agents)}."
        )
    left = len(agreement.agents) - len(lost)
    if left < agreement.minimum_agents:
        raise ConfigError(
            f"without {', '.join(lost)} {left} agents are left, and the agreement needs {agreement.minimum_agents} of the {agreement.began_with} "
            f"with which the run began, so that two parts of a divided network cannot exclude each other. Wait for them, or agree on a new run."
        )
    gone = frozenset(agreement.number(name) for name in lost)
    going_on = replace(run, topology=_without(agreement.learning.networks[0], gone))
    names = [member for member in agreement.members if member.name not in lost]
    continues = Continuation(
        previous=agreement.digest.hex(), after=after, excluded=lost, began_with=agreement.began_with
    )
    made = agreement_of(
        going_on,
        declared=_declared(agreement, lost, left),
        members=names,
        protection=replace(
            agreement.protection,
            records=_kept(agreement.protection.records, gone),
            sensitivity=_kept(agreement.protection.sensitivity, gone),
        ),
        problem=agreement.problem,
        continues=continues,
    )
    return made, going_on


def _declared(agreement: Agreement, lost: tuple[str, ...], left: int) -> Declared:
    collude, releases = agreement.collude, agreement.releases
    if isinstance(releases, tuple):
        releases = tuple(name for name in releases if name not in lost) or "own"
    return Declared(
        run=agreement.run,
        fraction_bits=agreement.fraction_bits,
        collude=collude if collude == "all" else max(1, min(collude, left - 1)),
        relay=agreement.relay,
        releases=releases,
        lost_neighbour=agreement.lost_neighbour,
        minimum_agents=agreement.minimum_agents,
        exclude_after=agreement.exclude_after,
        time_limit=agreement.time_limit,
    )


def _kept(values: tuple, gone: frozenset[int]) -> tuple:  # type: ignore[type-arg]
    return tuple(value for number, value in enumerate(values) if number not in gone)


def _without(network: Network, gone: frozenset[int]) -> Topology:
    """The network of those who remain.

    Raises:
        ConfigError: they cannot all reach each other.
        IncompatibleChoice: rounds of a list whose centroid would move.
    """
    rounds = tuple(_shares(links, gone) if network.relay else _links(links, gone) for links in network.rounds)
    return topology_of(replace(network, rounds=rounds, centroid=()))


def _shares(links: RoundLinks, gone: frozenset[int]) -> RoundLinks:
    kept = np.array(_kept(links.own, gone))
    return replace(links, own=tuple((kept / kept.sum()).tolist()))


def _links(links: RoundLinks, gone: frozenset[int]) -> RoundLinks:
    own = list(links.own)
    numbers = {old: new for new, old in enumerate(k for k in range(len(own)) if k not in gone)}
    kept = []
    for sender, receiver, weight in zip(links.senders, links.receivers, links.weights, strict=True):
        if sender in gone:
            own[receiver] += weight
        elif receiver not in gone:
            kept.append((numbers[sender], numbers[receiver], weight))
    senders, receivers, weights = zip(*kept, strict=True) if kept else ((), (), ())
    return RoundLinks(senders=senders, receivers=receivers, weights=weights, own=_kept(tuple(own), gone))
