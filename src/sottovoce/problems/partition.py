"""Split one data set over agents.

    iid:        a random permutation, cut into K nearly equal parts
    dirichlet:  for every label c, proportions p_c ~ Dirichlet(alpha, ..., alpha) over the agents

A small alpha makes the agents differ. Every record goes to exactly one agent.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError

Records = NDArray[Any]


def partition(
    features: Any,
    targets: Any,
    *,
    num_agents: int,
    kind: Literal["iid", "dirichlet"] = "iid",
    alpha: float | None = None,
    seed: int = 0,
    min_size: int = 1,
) -> tuple[list[Records], list[Records]]:
    """Split records over agents.

    Args:
        features: [N, d].
        targets: [N]; labels when kind is "dirichlet".
        num_agents: K.
        kind: "iid" or "dirichlet".
        alpha: concentration of the Dirichlet law, needed by "dirichlet" and by nothing else.
        seed: of NumPy's generator.
        min_size: every agent gets at least this many records; where the draw gives fewer, the largest agents give some
            of theirs.

    Returns:
        (K arrays of features, K arrays of targets).

    Raises:
        ConfigError: shapes that disagree, too few records, an unknown kind, or a missing or superfluous alpha.
    """
    rows, values = np.asarray(features), np.asarray(targets)
    _check(rows, values, num_agents=num_agents, min_size=min_size)
    generator = np.random.default_rng(seed)
    if kind == "iid":
        if alpha is not None:
            raise ConfigError(f"kind='iid' takes no alpha; got alpha={alpha!r}. Omit it or use kind='dirichlet'.")
        parts = np.array_split(generator.permutation(len(rows)), num_agents)
    elif kind == "dirichlet":
        parts = _repaired(_dirichlet_parts(values, num_agents, alpha, generator), min_size)
        parts = [generator.permutation(part) for part in parts]
    else:
        raise ConfigError(f"Unknown kind {kind!r} of partition; needed is 'iid' or 'dirichlet'.")
    return [rows[part] for part in parts], [values[part] for part in parts]


def _dirichlet_parts(
    labels: Records, num_agents: int, alpha: float | None, generator: np.random.Generator
) -> list[NDArray[np.intp]]:
    if alpha is None or not (math.isfinite(alpha) and alpha > 0.0):
        raise ConfigError(
            f"kind='dirichlet' needs a positive, finite alpha; got {alpha!r}. 0.1 is very uneven, 100 is nearly iid."
        )
    classes = np.unique(labels)
    if len(classes) > max(2, len(labels) // 2):
        raise ConfigError(
            f"kind='dirichlet' splits by label, but {len(labels)} targets have {len(classes)} different values. Use "
            "kind='iid' for regression."
        )
    chosen: list[list[NDArray[np.intp]]] = [[] for _ in range(num_agents)]
    for label in classes:
        members = generator.permutation(np.flatnonzero(labels == label))
        proportions = generator.dirichlet(np.full(num_agents, alpha))
        cuts = np.round(np.cumsum(proportions)[:-1] * len(members)).astype(int)
        for agent, piece in enumerate(np.split(members, cuts)):
            chosen[agent].append(piece)
    return [np.concatenate(pieces) for pieces in chosen]


def _repaired(parts: list[NDArray[np.intp]], min_size: int) -> list[NDArray[np.intp]]:
    """Move single records from the largest agent to the smallest until everyone has enough, without randomness."""
    repaired = [list(part) for part in parts]
    while len(smallest := min(repaired, key=len)) < min_size:
        smallest.append(max(repaired, key=len).pop())
    return [np.array(part, dtype=np.intp) for part in repaired]


def _check(rows: Records, values: Records, *, num_agents: int, min_size: int) -> None:
    if rows.ndim != 2:
        raise ConfigError(f"features must be a matrix [N, d]; got shape {rows.shape}.")
    if values.shape != (len(rows),):
        raise ConfigError(
            f"targets must be a vector with one entry per row of features, shape ({len(rows)},); got shape "
            f"{values.shape}."
        )
    if num_agents < 1:
        raise ConfigError(f"num_agents must be at least 1; got {num_agents!r}.")
    if min_size < 1:
        raise ConfigError(
            f"min_size must be at least 1, since an agent without records has no gradient; got {min_size!r}."
        )
    if num_agents * min_size > len(rows):
        raise ConfigError(
            f"{num_agents} agents with at least {min_size} record(s) each need {num_agents * min_size} records, but "
            f"there are {len(rows)}. "
            f"Use fewer agents or a smaller min_size."
        )
