"""Split one data set over agents.

    iid:        a random permutation, cut into K nearly equal parts
    dirichlet:  for every label c, proportions p_c ~ Dirichlet(alpha, ..., alpha) over the agents
    by_label:   agent k holds `labels_per_agent` labels; the records of a label are dealt evenly to those who hold it
    by_size:    a random permutation, cut in proportion to k + 1, (k + 1)^2 or e^k for k = 0..K-1

Every record goes to exactly one agent. Arguments are named as in flwr-datasets, whose `partition_by` is always the
target here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError
from sottovoce.numbers import is_number, is_whole, whole

Records = NDArray[Any]
Parts = list[NDArray[np.intp]]  # of each agent: the indices of its records
Kind = Literal["iid", "dirichlet", "by_label", "by_size"]
Growth = Literal["linear", "square", "exponential"]

_OWN_ARGUMENTS = {
    "alpha": "dirichlet",
    "self_balancing": "dirichlet",
    "labels_per_agent": "by_label",
    "growth": "by_size",
}
_NOISE_STREAM = 0xF0_15E  # keeps feature noise apart from whatever else is drawn from the same seed


def partition(
    features: Any,
    targets: Any,
    *,
    num_agents: int,
    kind: Kind = "iid",
    alpha: float | None = None,
    self_balancing: bool = False,
    labels_per_agent: int | None = None,
    growth: Growth | None = None,
    min_partition_size: int = 1,
    seed: int = 0,
) -> tuple[list[Records], list[Records]]:
    """Split records over agents.

    Args:
        features: [N, d].
        targets: [N]; labels when kind is "dirichlet" or "by_label".
        num_agents: K.
        kind: "iid", "dirichlet", "by_label" or "by_size".
        alpha: "dirichlet" only: concentration; a small one makes the agents differ.
        self_balancing: "dirichlet" only: an agent that has more than N / K records gets none of the labels that follow.
        labels_per_agent: "by_label" only: how many different labels each agent holds.
        growth: "by_size" only: "linear", "square" or "exponential".
        min_partition_size: every agent gets at least this many records. Where a Dirichlet draw gives fewer, the largest
            agents give some of theirs (flwr-datasets draws again instead); other kinds refuse.
        seed: of NumPy's generator.

    Returns:
        (K arrays of features, K arrays of targets).

    Raises:
        ConfigError: shapes that disagree, a request the records cannot meet, an unknown kind, a missing argument or one
            of another kind.
    """
    rows, values = np.asarray(features), np.asarray(targets)
    _check(rows, values, num_agents=num_agents, min_partition_size=min_partition_size)
    if kind not in get_args(Kind):
        raise ConfigError(f"Unknown kind {kind!r} of partition; needed is {_one_of(Kind)}.")
    balancing = self_balancing or None
    _check_arguments(kind, alpha=alpha, self_balancing=balancing, labels_per_agent=labels_per_agent, growth=growth)
    generator = np.random.default_rng(seed)
    match kind:
        case "iid":
            parts: Parts = list(np.array_split(generator.permutation(len(rows)), num_agents))
        case "dirichlet":
            drawn = _dirichlet_parts(values, num_agents, alpha, self_balancing, generator)
            parts = [generator.permutation(part) for part in _repaired(drawn, min_partition_size)]
        case "by_label":
            parts = _label_parts(values, num_agents, labels_per_agent, generator)
        case _:  # by size, the last of the kinds
            cuts = np.cumsum(_growing_sizes(len(rows), num_agents, growth))[:-1]
            parts = np.split(generator.permutation(len(rows)), cuts)
    _check_smallest(parts, kind=kind, min_partition_size=min_partition_size)
    return [rows[part] for part in parts], [values[part] for part in parts]


def _check_arguments(kind: Kind, **given: object) -> None:
    """Refuse arguments of another kind of partition."""
    for name, value in given.items():
        if value is not None and kind != _OWN_ARGUMENTS[name]:
            raise ConfigError(
                f"kind={kind!r} takes no {name}; got {name}={value!r}. Omit it or use kind={_OWN_ARGUMENTS[name]!r}."
            )


def add_feature_noise(
    features_list: Sequence[Any], *, std: tuple[float, float], seed: int
) -> list[NDArray[np.float64]]:
    """Add Gaussian noise to the features, of another standard deviation at every agent: it makes their data differ.

    This models worse or better sensors; it protects nobody (Rizk et al. 2023, experiment B, make data non-iid by
    agent-dependent Gaussian noise, without its variances).

    Args:
        features_list: K arrays [n_k, d].
        std: the range (low, high) from which each agent's standard deviation is drawn uniformly.
        seed: of NumPy's generator.

    Returns:
        K arrays [n_k, d].

    Raises:
        ConfigError: a range that is not 0 <= low <= high.
    """
    low, high = std
    if not (0.0 <= low <= high < math.inf):
        raise ConfigError(f"std must be a range (low, high) with 0 <= low <= high; got {std!r}.")
    generator = np.random.default_rng([seed, _NOISE_STREAM])
    scales = generator.uniform(low, high, size=len(features_list))
    parts = [np.asarray(part, dtype=np.float64) for part in features_list]
    return [part + scale * generator.standard_normal(part.shape) for part, scale in zip(parts, scales, strict=True)]


def label_counts(targets_list: Sequence[Any]) -> tuple[Records, NDArray[np.int64]]:
    """Count every label at every agent, e.g. to plot how unlike the agents are.

    Args:
        targets_list: K arrays [n_k].

    Returns:
        (the L different labels, sorted; counts [K, L]).
    """
    parts = [np.asarray(part) for part in targets_list]
    labels = np.unique(np.concatenate(parts))
    counts = [np.bincount(np.searchsorted(labels, part), minlength=len(labels)) for part in parts]
    return labels, np.array(counts, dtype=np.int64)


def _dirichlet_parts(
    labels: Records, num_agents: int, alpha: float | None, self_balancing: bool, generator: np.random.Generator
) -> Parts:
    if not is_number(alpha, "(0, inf)"):
        raise ConfigError(
            f"kind='dirichlet' needs a positive, finite alpha; got {alpha!r}. 0.1 is very uneven, 100 is nearly iid."
        )
    chosen: list[Parts] = [[] for _ in range(num_agents)]
    sizes = np.zeros(num_agents)
    for label in _classes(labels, kind="dirichlet"):
        members = generator.permutation(np.flatnonzero(labels == label))
        proportions = generator.dirichlet(np.full(num_agents, alpha))
        if self_balancing:
            proportions = _for_those_below_average(proportions, sizes, len(labels) / num_agents)
        cuts = np.round(np.cumsum(proportions)[:-1] * len(members)).astype(int)
        for agent, piece in enumerate(np.split(members, cuts)):
            chosen[agent].append(piece)
            sizes[agent] += len(piece)
    return [np.concatenate(pieces) for pieces in chosen]


def _for_those_below_average(
    proportions: NDArray[np.float64], sizes: NDArray[np.float64], average: float
) -> NDArray[np.float64]:
    """Give nothing to agents above the average; the others share it, evenly if the draw left them all nothing."""
    open_to_more = sizes <= average
    kept = np.where(open_to_more, proportions, 0.0)
    if kept.sum() <= 0.0:
        kept = open_to_more.astype(np.float64)
    shares: NDArray[np.float64] = kept / kept.sum()
    return shares


def _repaired(parts: Parts, min_partition_size: int) -> Parts:
    """Move single records from the largest agent to the smallest until everyone has enough, without randomness."""
    repaired = [list(part) for part in parts]
    while len(smallest := min(repaired, key=len)) < min_partition_size:
        smallest.append(max(repaired, key=len).pop())
    return [np.array(part, dtype=np.intp) for part in repaired]


def _label_parts(
    labels: Records, num_agents: int, labels_per_agent: int | None, generator: np.random.Generator
) -> Parts:
    classes = _classes(labels, kind="by_label")
    if labels_per_agent is None or not 1 <= labels_per_agent <= len(classes):
        raise ConfigError(
            f"kind='by_label' needs labels_per_agent between 1 and the {len(classes)} label(s) there are; got "
            f"{labels_per_agent!r}."
        )
    if num_agents * labels_per_agent < len(classes):
        raise ConfigError(
            f"{num_agents} agents with {labels_per_agent} label(s) each hold at most {num_agents * labels_per_agent} of "
            f"the {len(classes)} labels, and the other records would be lost. Use more agents or more labels_per_agent."
        )
    holders = _holders(len(classes), num_agents, labels_per_agent, generator)
    chosen: list[Parts] = [[] for _ in range(num_agents)]
    for label, agents in zip(classes, holders, strict=True):
        members = generator.permutation(np.flatnonzero(labels == label))
        if len(members) < len(agents):
            raise ConfigError(
                f"Label {label:g} has {len(members)} record(s), but {len(agents)} agents are to hold it. Use fewer agents "
                "or fewer labels_per_agent."
            )
        for agent, piece in zip(agents, np.array_split(members, len(agents)), strict=True):
            chosen[agent].append(piece)
    return [generator.permutation(np.concatenate(pieces)) for pieces in chosen]


def _holders(
    num_classes: int, num_agents: int, labels_per_agent: int, generator: np.random.Generator
) -> list[list[int]]:
    """Which agents hold each label: every agent takes those held by fewest so far, ties at random.

    So no label is forgotten, and none is spread much more than another.
    """
    holders: list[list[int]] = [[] for _ in range(num_classes)]
    for agent in range(num_agents):
        held_by = np.array([len(agents) for agents in holders])
        for index in np.lexsort((generator.random(num_classes), held_by))[:labels_per_agent]:
            holders[index].append(agent)
    return holders


def _growing_sizes(num_records: int, num_agents: int, growth: Growth | None) -> NDArray[np.int64]:
    """Return whole sizes that sum to N, each less than 1 from its exact share."""
    rank = np.arange(1.0, num_agents + 1.0)
    match growth:
        case "linear":
            weights = rank
        case "square":
            weights = rank**2
        case "exponential":
            weights = np.exp(rank - num_agents)
        case _:
            raise ConfigError(f"kind='by_size' needs growth, one of {_one_of(Growth)}; got {growth!r}.")
    shares = num_records * weights / weights.sum()
    sizes: NDArray[np.int64] = np.floor(shares).astype(np.int64)
    left_over = num_records - int(sizes.sum())
    sizes[np.argsort(sizes - shares, kind="stable")[:left_over]] += 1
    return sizes


def _classes(labels: Records, *, kind: str) -> Records:
    classes = np.unique(labels)
    if len(classes) > max(2, len(labels) // 2):
        raise ConfigError(
            f"kind={kind!r} splits by label, but {len(labels)} targets have {len(classes)} different values. Use "
            "kind='iid' or 'by_size' for regression."
        )
    return classes


def _check_smallest(parts: Parts, *, kind: str, min_partition_size: int) -> None:
    sizes = [len(part) for part in parts]
    if min(sizes) < min_partition_size:
        raise ConfigError(
            f"kind={kind!r} gives agent {sizes.index(min(sizes))} {min(sizes)} of {sum(sizes)} records, fewer than "
            f"min_partition_size={min_partition_size}. Use fewer agents, more records, or another partition."
        )


def _one_of(choices: Any) -> str:
    *names, last = map(repr, get_args(choices))
    return f"{', '.join(names)} or {last}"


def _check(rows: Records, values: Records, *, num_agents: int, min_partition_size: int) -> None:
    if rows.ndim != 2:
        raise ConfigError(f"features must be a matrix [N, d]; got shape {rows.shape}.")
    if values.shape != (len(rows),):
        raise ConfigError(
            f"targets must be a vector with one entry per row of features, shape ({len(rows)},); got shape "
            f"{values.shape}."
        )
    whole("num_agents", num_agents)
    if not is_whole(min_partition_size, 1):
        raise ConfigError(
            "min_partition_size must be at least 1, since an agent without records has no gradient; got "
            f"{min_partition_size!r}."
        )
    if num_agents * min_partition_size > len(rows):
        raise ConfigError(
            f"{num_agents} agents with at least {min_partition_size} record(s) each need "
            f"{num_agents * min_partition_size} records, but there are {len(rows)}. Use fewer agents or a smaller "
            "min_partition_size."
        )
