"""From the public parts of a run to the numbers of an agreement.

What a function computes is read off, not what it is called: schedules become tables, the bound noise becomes a digest of where every source goes.
What cannot be read off is refused: an optimiser of the agents' own, whose numbers nobody else could check, and the walk of a token.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sottovoce.algorithms import ALGORITHMS
from sottovoce.clipping import Clip
from sottovoce.deployment.terms.agreement import (
    Agreement,
    Continuation,
    Learning,
    LostNeighbour,
    Member,
    Network,
    NoiseTerms,
    Protection,
    RoundLinks,
)
from sottovoce.deployment.terms.agreement_faults import FORMAT
from sottovoce.deployment.terms.canonical_bytes import Plain
from sottovoce.deployment.terms.pair_sources import bind_among_parties
from sottovoce.deployment.terms.public_run import PublicRun
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.linear import exchange_topologies
from sottovoce.noise import Gaussian, L2Laplace, Laplace, Law, Noise
from sottovoce.topologies import ActiveLinks, Dropout, Listed, RandomPair, Topology, Walk

_LAWS: Mapping[type[Law], Literal["gaussian", "laplace", "l2_laplace"]] = {
    Gaussian: "gaussian",
    Laplace: "laplace",
    L2Laplace: "l2_laplace",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What no number of a run says, and the parties declare: names, whom they protect themselves against, and how long they wait.

    Attributes:
        run: its name; never used twice.
        fraction_bits: f, of the lattice 2^-f.
        collude: how many others may put together what they know.
        relay: whether it is trusted.
        releases: who is given which model.
        lost_neighbour: what an agent does when another one is not heard of.
        minimum_agents: with fewer nobody goes on without the lost ones; 0 where nobody does anyway.
        exclude_after: seconds of silence after which somebody counts as lost; 0 where nobody is excluded.
        time_limit: seconds that a party waits for the others.
    """

    run: str
    fraction_bits: int
    collude: int | Literal["all"]
    relay: Literal["untrusted", "trusted"]
    releases: Literal["own", "public"] | tuple[str, ...]
    lost_neighbour: LostNeighbour
    time_limit: int
    minimum_agents: int = 0
    exclude_after: int = 0


def agreement_of(
    run: PublicRun,
    *,
    declared: Declared,
    members: Sequence[Member],
    protection: Protection,
    problem: Mapping[str, Any],
    continues: Continuation | None = None,
) -> Agreement:
    """The agreement on a run.

    Args:
        run: its public parts.
        declared: what the parties declare.
        members: agents first, in the order of their numbers.
        protection: what is protected, and how little it can change.
        problem: what is learnt, and what the columns of the data mean, as plain values.
        continues: the run that this one goes on with without those who were lost.

    Raises:
        ConfigError: numbers that no agreement can have.
        IncompatibleChoice: an algorithm of which not everything can be agreed on, or that no parties can run.
    """
    return Agreement(
        format=FORMAT,
        run=declared.run,
        members=tuple(members),
        rounds=int(run.rounds),
        dimension=run.dimension,
        initial_model=model_digest(run.initial_model),
        fraction_bits=declared.fraction_bits,
        problem=Plain(problem),
        learning=_learning(run),
        noise=_noise(run),
        protection=protection,
        collude=declared.collude,
        relay=declared.relay,
        releases=declared.releases,
        lost_neighbour=declared.lost_neighbour,
        minimum_agents=declared.minimum_agents,
        exclude_after=declared.exclude_after,
        time_limit=declared.time_limit,
        continues=continues,
    )


def model_digest(model: np.ndarray) -> str:
    """SHA-256 of a model [d] as float64, in hexadecimal."""
    return hashlib.sha256(b"sottovoce/model/1\n" + (np.asarray(model, dtype="<f8") + 0.0).tobytes()).hexdigest()


def _learning(run: PublicRun) -> Learning:
    algorithm = run.algorithm
    _refuse(run)
    tables = [tuple(map(float, schedule.table(run.rounds))) for schedule in algorithm.schedules]
    topologies = exchange_topologies(algorithm, run.topology)
    known: dict[int, Network] = {}  # several exchanges may share one topology
    for used in topologies:
        if id(used) not in known:
            known[id(used)] = _network(used)
    return Learning(
        algorithm=algorithm.name,
        parameters=Plain(_parameters(run)),
        tables=tuple(tables),
        fresh=tuple(map(bool, algorithm.noisy_rounds(run.rounds))),
        networks=tuple(known[id(used)] for used in topologies),
    )


def _refuse(run: PublicRun) -> None:
    """Refuse what parties cannot run, or cannot agree on."""
    algorithm = run.algorithm
    if algorithm.walks or isinstance(run.topology.schedule, Walk):
        raise IncompatibleChoice(
            f"'{algorithm.name}' lets a token walk from agent to agent; its guarantees rest on nobody knowing who holds it, and among real "
            f"parties everybody sees who sends to whom. Use an algorithm in which all agents take part."
        )
    if algorithm.name not in (*ALGORITHMS, "three_matrix"):
        raise IncompatibleChoice(
            f"the algorithm '{algorithm.name}' is not one of the package, so that others cannot know what it does. Use one of "
            f"{', '.join(ALGORITHMS)}."
        )
    if "local_optimizer" in algorithm.parameters:
        raise IncompatibleChoice(
            "agents take their local steps by an optimiser, whose numbers cannot be read off and so cannot be agreed on. Give step_size instead."
        )


def _parameters(run: PublicRun) -> dict[str, Any]:
    """Numbers that stay the same from round to round; where the algorithm says them in words, the numbers behind the words."""
    algorithm = run.algorithm
    found = {name: value for name, value in algorithm.parameters.items() if not callable(value)}
    known: dict[str, Any] = {
        "participation": algorithm.sampling,
        "update_clip": None if algorithm.clipped_update is None else algorithm.clipped_update.clip,
        "aggregation": algorithm.aggregation,
    }
    found |= {name: _numbers(value) for name, value in known.items() if value is not None}
    return {name: _plain(name, value) for name, value in found.items()}


def _numbers(value: Any) -> dict[str, Any]:
    """The fields of a sampling, a clip or an aggregation; an infinite one, which means without limit, becomes None."""
    names = ("bound", "norm") if isinstance(value, Clip) else value._fields
    fields = {name: getattr(value, name) for name in names}
    finite = {name: None if isinstance(each, float) and math.isinf(each) else each for name, each in fields.items()}
    return {"kind": type(value).__name__, **finite}


def _plain(name: str, value: Any) -> Any:
    """A parameter as a plain value; numbers of NumPy as Python's."""
    if isinstance(value, dict):
        return {key: _plain(key, each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(name, each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and not math.isnan(value):
        return None if math.isinf(value) else value  # a box without limits is no box
    raise ConfigError(
        f"the parameter {name} is {value!r}, of which others could not know what it means. Use numbers and words."
    )


def _network(topology: Topology) -> Network:
    schedule: Literal["static", "listed", "dropout", "random_pair"] = "static"
    dropout, rounds = 0.0, [topology]
    match topology.schedule:
        case Listed():
            schedule, rounds = "listed", list(topology.listed())
        case Dropout(probability):
            schedule, dropout = "dropout", float(probability)
        case RandomPair():
            schedule = "random_pair"
    return Network(
        schedule=schedule,
        dropout=dropout,
        relay=topology.relay,
        rounds=(_shares(topology),) if topology.relay else tuple(_round(each) for each in rounds),
        centroid=_floats(topology.perron),
    )


def _shares(topology: Topology) -> RoundLinks:
    return RoundLinks(senders=(), receivers=(), weights=(), own=_floats(topology.self_weights))


def _round(topology: Topology) -> RoundLinks:
    return RoundLinks(
        senders=_wholes(topology.links[:, 0]),
        receivers=_wholes(topology.links[:, 1]),
        weights=_floats(topology.link_weights),
        own=_floats(topology.self_weights),
    )


def _noise(run: PublicRun) -> NoiseTerms:
    noise = run.noise
    maps = [
        digest
        for used in dict.fromkeys(exchange_topologies(run.algorithm, run.topology))
        for digest in _map_digests(noise, used)
    ]
    return NoiseTerms(
        scheme=noise.name,
        parameters=Plain({name: _plain(name, value) for name, value in noise.parameters.items()}),
        law=None if noise.law is None else _LAWS[type(noise.law)],
        scale=0.0 if noise.law is None else float(noise.law.scale),
        factors=_floats(noise.factors(run.rounds)),
        maps=tuple(maps),
    )


def _map_digests(noise: Noise, topology: Topology) -> list[str]:
    """Where sources go in every distinct round; where links are drawn, in the round that uses all of them, or the first pair."""
    if isinstance(topology.schedule, RandomPair):
        return [_map_digest(noise, topology.paired(0))]
    if isinstance(topology.schedule, Listed):
        return [_map_digest(noise, each.active_links()) for each in topology.listed()]
    return [_map_digest(noise, topology.active_links())]


def _map_digest(noise: Noise, links: ActiveLinks) -> str:
    bound = bind_among_parties(noise, links)
    digest = hashlib.sha256(b"sottovoce/noise-map/1\n")
    for name, part in bound._asdict().items():
        array = np.asarray(part)
        kept = array.astype("<i8") if array.dtype.kind in "iu" else array.astype("<f8") + 0.0
        digest.update(f"{name} {kept.dtype.str} {list(kept.shape)}\n".encode())
        digest.update(np.ascontiguousarray(kept).tobytes())
    return digest.hexdigest()


def _floats(array: np.ndarray) -> tuple[float, ...]:
    return tuple(np.asarray(array, dtype=np.float64).tolist())


def _wholes(array: np.ndarray) -> tuple[int, ...]:
    return tuple(np.asarray(array, dtype=np.int64).tolist())
