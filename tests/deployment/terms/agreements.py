"""Agreements to test with."""

from dataclasses import replace
from typing import Any

import numpy as np

import sottovoce as sv
from sottovoce.deployment.terms import Agreement, Declared, Member, Promise, Protection, PublicRun, agreement_of

DECLARED = Declared(
    run="spring", fraction_bits=24, collude="all", relay="untrusted", releases=("agent-0",), lost_neighbour="wait", minimum_agents=0,
    exclude_after=0, time_limit=60,
)  # fmt: skip
PROBLEM = {
    "kind": "logistic_regression",
    "ridge": 0.1,
    "columns": {"bounds": {"age": [0.0, 120.0]}, "labels": ["no", "yes"]},
}


def public_run(**changes: Any) -> PublicRun:
    """A small run on a ring, with a step that falls from round to round."""
    run = PublicRun(
        topology=sv.topologies.ring(4),
        algorithm=sv.algorithms.atc(step_size=lambda t: 1 / t),
        noise=sv.noise.independent(sv.noise.Gaussian(std=0.1)),
        rounds=5,
        batch_size=None,
        initial_model=np.zeros(3),
    )
    return replace(run, **changes)


def members(count: int, *others: str) -> list[Member]:
    """Agents, and whoever else takes part."""
    named = [(f"agent-{k}", "agent") for k in range(count)] + [(role, role) for role in others]
    return [Member(name=name, role=role, key=f"{k:064x}") for k, (name, role) in enumerate(named)]  # type: ignore[arg-type]


def protection(agents: int) -> Protection:
    """Records are protected."""
    return Protection(
        unit="record",
        adjacency="replace",
        delta=1e-5,
        clip=1.0,
        clip_norm="l2",
        clips="records",
        batch_size=None,
        records_per_person=None,
        losses=Promise(beta=0.3, nu=0.1),
        records=(10,) * agents,
        sensitivity=(0.2,) * agents,
        norm="l2",
        same_model=True,
    )


def agreement(run: PublicRun | None = None, **changes: Any) -> Agreement:
    """The agreement on a run."""
    run = public_run() if run is None else run
    others = () if not run.topology.relay else ("relay",) if run.algorithm.aggregation is None else ("board", "beacon")
    return agreement_of(
        run,
        declared=replace(DECLARED, **changes),
        members=members(run.num_agents, *others),
        protection=protection(run.num_agents),
        problem=PROBLEM,
    )
