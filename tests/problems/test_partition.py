"""Partitions and splits lose no record, keep their promises about sizes and labels, and repeat by seed."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sottovoce.errors import ConfigError
from sottovoce.problems import add_feature_noise, label_counts, partition, split

OPTIONS = {
    "iid": {},
    "dirichlet": {"alpha": 0.5},
    "by_label": {"labels_per_agent": 2},
    "by_size": {"growth": "linear"},
}


def numbered(count, labels=3):
    """Records whose only feature is their number, and whose label follows from it."""
    return np.arange(count)[:, None], np.arange(count) % labels


def assert_nothing_lost(features, targets, count, labels=3):
    assert sorted(np.concatenate(features)[:, 0]) == list(range(count))
    assert all(np.array_equal(x[:, 0] % labels, y) for x, y in zip(features, targets, strict=True))


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, 8),
    st.integers(1, 3),
    st.integers(24, 60),
    st.floats(1e-12, 100),
    st.integers(0, 1000),
    st.sampled_from(["iid", "dirichlet", "self_balancing"]),
)
def test_even_and_dirichlet_parts_hold_every_record_once_and_enough_of_them(
    num_agents, smallest, count, alpha, seed, kind
):
    options = {} if kind == "iid" else {"kind": "dirichlet", "alpha": alpha, "self_balancing": kind == "self_balancing"}
    features, targets = partition(
        *numbered(count), num_agents=num_agents, seed=seed, min_partition_size=smallest, **options
    )
    assert len(features) == len(targets) == num_agents
    assert min(map(len, features)) >= smallest
    assert_nothing_lost(features, targets, count)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 12), st.integers(1, 5), st.integers(1, 5), st.integers(60, 90), st.integers(0, 1000))
def test_by_label_gives_every_agent_its_number_of_labels_and_loses_nothing(
    num_agents, num_labels, labels_per_agent, count, seed
):
    assume(labels_per_agent <= num_labels <= num_agents * labels_per_agent)
    features, targets = partition(
        *numbered(count, num_labels),
        num_agents=num_agents,
        kind="by_label",
        labels_per_agent=labels_per_agent,
        seed=seed,
    )
    assert_nothing_lost(features, targets, count, num_labels)
    labels, counts = label_counts(targets)
    assert ((counts > 0).sum(axis=1) == labels_per_agent).all()
    holders = (counts > 0).sum(axis=0)
    assert np.ptp(holders) <= 1
    for c in range(len(labels)):
        assert np.ptp(counts[counts[:, c] > 0, c]) <= 1


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, 6),
    st.integers(1500, 3000),
    st.integers(0, 1000),
    st.sampled_from(["linear", "square", "exponential"]),
)
def test_by_size_gives_the_promised_proportions_to_less_than_one_record(num_agents, count, seed, growth):
    features, targets = partition(*numbered(count), num_agents=num_agents, kind="by_size", growth=growth, seed=seed)
    assert_nothing_lost(features, targets, count)
    rank = np.arange(1, num_agents + 1)
    weights = {"linear": rank, "square": rank**2, "exponential": np.exp(rank)}[growth]
    sizes = np.array([len(x) for x in features])
    assert (np.abs(sizes - count * weights / weights.sum()) < 1).all()
    assert (np.diff(sizes) >= 0).all()


@pytest.mark.parametrize("kind", OPTIONS)
def test_partition_repeats_by_seed_and_changes_with_it(kind):
    first, again, other = (
        partition(*numbered(60), num_agents=4, kind=kind, seed=seed, **OPTIONS[kind])[0] for seed in (1, 1, 2)
    )
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_iid_parts_are_nearly_equal():
    features, _ = partition(*numbered(10), num_agents=3, seed=1)
    assert sorted(map(len, features)) == [3, 3, 4]


def test_small_alpha_makes_agents_differ_more_than_large_alpha():
    def imbalance(alpha):
        _, targets = partition(*numbered(3000), num_agents=5, kind="dirichlet", alpha=alpha, seed=0)
        counts = label_counts(targets)[1]
        return np.abs(counts / counts.sum(axis=1, keepdims=True) - 1 / 3).sum(axis=1).mean()

    assert imbalance(0.1) > 5 * imbalance(100.0)


def test_self_balancing_makes_sizes_more_even():
    def spread(self_balancing):
        sizes = []
        for seed in range(20):
            features, _ = partition(
                *numbered(3000, 10), num_agents=5, kind="dirichlet", alpha=0.1, self_balancing=self_balancing, seed=seed
            )
            sizes.append(np.std([len(x) for x in features]))
        return np.mean(sizes)

    assert spread(True) < 0.8 * spread(False)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"num_agents": 0}, "num_agents = 0; it must be a whole number of at least 1"),
        ({"min_partition_size": 0}, "min_partition_size must be at least 1"),
        ({"num_agents": 4, "min_partition_size": 3}, "need 12 records, but there are 10"),
        ({"kind": "shards"}, "'iid', 'dirichlet', 'by_label' or 'by_size'"),
        ({"kind": "dirichlet"}, "needs a positive, finite alpha; got None"),
        ({"kind": "dirichlet", "alpha": 0.0}, "alpha"),
        ({"alpha": 1.0}, "takes no alpha"),
        ({"kind": "by_size", "growth": "linear", "self_balancing": True}, "takes no self_balancing"),
        ({"kind": "dirichlet", "alpha": 1.0, "growth": "linear"}, "takes no growth.*use kind='by_size'"),
        ({"labels_per_agent": 1}, "takes no labels_per_agent.*use kind='by_label'"),
        ({"kind": "by_label"}, r"between 1 and the 2 label\(s\) there are; got None"),
        ({"kind": "by_label", "labels_per_agent": 3}, "got 3"),
        ({"kind": "by_label", "labels_per_agent": 1, "num_agents": 1}, "at most 1 of the 2 labels"),
        ({"kind": "by_label", "labels_per_agent": 2, "num_agents": 6}, r"Label 0 has 5 record\(s\), but 6 agents"),
        ({"kind": "by_label", "labels_per_agent": 2, "num_agents": 3, "min_partition_size": 3}, "agent 2 2 of 10"),
        ({"kind": "by_size"}, "'linear', 'square' or 'exponential'; got None"),
        ({"kind": "by_size", "growth": "cubic"}, "got 'cubic'"),
        ({"kind": "by_size", "growth": "exponential", "num_agents": 5}, "gives agent 0 0 of 10 records, fewer than"),
        ({"kind": "by_size", "growth": "linear", "min_partition_size": 5}, "gives agent 0 3 of 10 .*size=5"),
        ({"features": np.ones(10)}, r"\[N, d\]"),
        ({"targets": np.ones(9)}, r"\(10,\); got shape \(9,\)"),
        ({"targets": np.arange(10.0), "kind": "dirichlet", "alpha": 1.0}, "splits by label"),
        (
            {"targets": np.arange(10.0), "kind": "by_label", "labels_per_agent": 1},
            "10 targets have 10 different values",
        ),
    ],
)
def test_impossible_partition_is_refused_with_numbers(changed, message):
    arguments = {"features": np.ones((10, 2)), "targets": np.arange(10) % 2, "num_agents": 2} | changed
    features, targets = arguments.pop("features"), arguments.pop("targets")
    with pytest.raises(ConfigError, match=message):
        partition(features, targets, **arguments)


def test_label_counts_by_hand():
    labels, counts = label_counts([[1, -1, 1], [-1], [3, 3]])
    assert labels.tolist() == [-1, 1, 3]
    assert counts.tolist() == [[1, 2, 0], [1, 0, 0], [0, 0, 2]]


def test_feature_noise_has_another_size_at_every_agent_within_the_range():
    parts = [np.zeros((20_000, 2)) for _ in range(6)]
    noisy = add_feature_noise(parts, std=(0.5, 2.0), seed=3)
    stds = np.array([x.std() for x in noisy])  # of 40 000 numbers: known to 0.35 %
    assert (stds > 0.5 * 0.98).all()
    assert (stds < 2.0 * 1.02).all()
    assert len(np.unique(stds.round(2))) == 6
    assert not parts[0].any()
    assert all(
        np.array_equal(a, b) for a, b in zip(noisy, add_feature_noise(parts, std=(0.5, 2.0), seed=3), strict=True)
    )
    assert not np.array_equal(noisy[0], add_feature_noise(parts, std=(0.5, 2.0), seed=4)[0])


def test_feature_noise_of_a_single_size_is_that_size_and_zero_is_nothing():
    parts = [np.ones((20_000, 2)), np.ones((10, 2))]
    assert add_feature_noise(parts, std=(0.7, 0.7), seed=0)[0].std() == pytest.approx(0.7, rel=0.02)
    assert np.array_equal(add_feature_noise(parts, std=(0.0, 0.0), seed=0)[1], parts[1])


@pytest.mark.parametrize("std", [(-0.1, 1.0), (2.0, 1.0), (0.0, np.inf), (np.nan, 1.0)])
def test_meaningless_feature_noise_is_refused(std):
    with pytest.raises(ConfigError, match="std must be a range"):
        add_feature_noise([np.ones((2, 2))], std=std, seed=0)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.floats(0.01, 0.999), st.integers(0, 1000))
def test_split_loses_nothing_and_leaves_every_agent_something(sizes, fraction, seed):
    held = [int(fraction * n) for n in sizes]
    assume(any(held))
    ends = np.cumsum(sizes)
    features = [np.arange(end - n, end)[:, None] for n, end in zip(sizes, ends, strict=True)]
    targets = [x[:, 0] % 3 for x in features]
    train, test = split(features, targets, test_fraction=fraction, seed=seed)
    assert [len(x) for x in train[0]] == [n - h for n, h in zip(sizes, held, strict=True)]
    assert min(len(x) for x in train[0]) >= 1
    assert_nothing_lost([*train[0], test[0]], [*train[1], test[1]], ends[-1])
    assert all(set(x[:, 0]) <= set(whole[:, 0]) for x, whole in zip(train[0], features, strict=True))
    again = split(features, targets, test_fraction=fraction, seed=seed)
    assert np.array_equal(test[0], again.test[0])


def test_split_changes_with_the_seed():
    parts = [np.arange(100)[:, None]], [np.arange(100)]
    first, other = (split(*parts, test_fraction=0.5, seed=seed).test[0] for seed in (0, 1))
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, float("nan")])
def test_split_fraction_must_leave_both_sides_something(fraction):
    with pytest.raises(ConfigError, match=r"number in \(0, 1\)"):
        split([np.ones((4, 1))], [np.ones(4)], test_fraction=fraction, seed=0)


def test_split_that_tests_on_nothing_or_mixes_lists_up_is_refused():
    with pytest.raises(ConfigError, match=r"at most 4 per agent.*no record to test on"):
        split([np.ones((4, 1))], [np.ones(4)], test_fraction=0.2, seed=0)
    with pytest.raises(ConfigError, match=r"\[4\] records per agent, but targets \[3\]"):
        split([np.ones((4, 1))], [np.ones(3)], test_fraction=0.5, seed=0)
