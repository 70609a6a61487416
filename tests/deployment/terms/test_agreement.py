"""Two parties have the same digest exactly when they hold everything in common."""

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sottovoce as sv
from deployment.terms.agreements import DECLARED, PROBLEM, agreement, members, protection, public_run
from sottovoce.deployment.terms import Agreement, Plain, agreement_of, differences, topology_of
from sottovoce.errors import ConfigError, IncompatibleChoice, ProtocolError

Path = tuple[Any, ...]


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every number and text of an agreement, with the way to it."""
    if is_dataclass(value):
        for each in fields(value):
            yield from leaves(getattr(value, each.name), (*path, each.name))
    elif isinstance(value, dict):
        for key in value:
            yield from leaves(value[key], (*path, key))
    elif isinstance(value, tuple | list):
        for position, inner in enumerate(value):
            yield from leaves(inner, (*path, position))
    else:
        yield path, value


def altered(value: Any) -> Any:
    """Another value of the same kind, as near as can be."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return float(np.nextafter(value, np.inf))
        case None:
            return 7
        case str():
            return value[:-1] + ("a" if value[-1] != "a" else "b")
    raise AssertionError(value)


def with_leaf(value: Any, path: Path, leaf: Any) -> Any:
    if not path:
        return leaf
    first, *rest = path
    if is_dataclass(value):
        return replace(value, **{first: with_leaf(getattr(value, first), tuple(rest), leaf)})  # type: ignore[type-var]
    if isinstance(value, dict):
        return Plain({**value, first: with_leaf(value[first], tuple(rest), leaf)})
    changed = list(value)
    changed[first] = with_leaf(value[first], tuple(rest), leaf)
    return type(value)(changed)


AGREED = agreement()
LEAVES = list(leaves(AGREED))


def test_every_part_of_the_agreement_is_reached_by_these_tests() -> None:
    reached = {path[0] for path, _ in LEAVES}
    assert reached == {each.name for each in fields(Agreement)}
    assert len(LEAVES) > 100


@given(st.sampled_from(LEAVES))
def test_any_single_number_or_word_changes_the_digest(chosen: tuple[Path, Any]) -> None:
    path, value = chosen
    try:
        other = with_leaf(AGREED, path, altered(value))
        digest = other.digest
    except (ConfigError, ProtocolError):
        return  # what cannot be agreed on has no digest
    assert digest != AGREED.digest
    named = differences(AGREED, other)
    assert len(named) == 1
    assert str(path[0]) in named[0]


def test_most_changes_are_agreements_too() -> None:
    usable = 0
    for path, value in LEAVES:
        try:
            usable += with_leaf(AGREED, path, altered(value)).digest != AGREED.digest
        except (ConfigError, ProtocolError):
            continue
    assert usable > len(LEAVES) / 2


def test_the_bytes_say_the_whole_agreement() -> None:
    again = Agreement.parse(AGREED.canonical())
    assert again == AGREED
    assert again.digest == AGREED.digest
    assert differences(again, AGREED) == []


def test_the_same_parts_made_anew_have_the_same_digest() -> None:
    assert agreement().digest == AGREED.digest


def test_the_digest_is_the_same_on_every_machine() -> None:
    """A snapshot: whoever changes it changes the format, and parties of two versions no longer understand each other."""
    assert AGREED.digest.hex() == "81f3e4eab93bee41b22904874012af690d31f90e4f0db335c032046ff764655e"


def test_functions_of_the_round_that_are_called_alike_are_told_apart() -> None:
    def step(t: int) -> float:
        return 1 / t

    first = sv.algorithms.atc(step_size=step)

    def step(t: int) -> float:  # type: ignore[no-redef]
        return 1 / t if t < 5 else 0.19

    second = sv.algorithms.atc(step_size=step)
    assert first.describe() == second.describe()
    one, other = (agreement(public_run(algorithm=each)) for each in (first, second))
    assert one.digest != other.digest
    assert differences(one, other) == ["learning.tables[0][4]: 0.2 in the first, 0.19 in the second"]


def test_noise_that_is_called_alike_is_told_apart_by_where_it_goes() -> None:
    plain = sv.noise.independent(sv.noise.Gaussian(std=0.1))
    silent = sv.noise.independent(sv.noise.Gaussian(std=0.1), self_noise=False)
    disguised = silent._replace(name=plain.name, parameters=plain.parameters)
    found = differences(agreement(public_run(noise=plain)), agreement(public_run(noise=disguised)))
    assert [line.partition(":")[0] for line in found] == ["noise.maps[0]"]


@pytest.mark.parametrize(
    "changed",
    [
        {"topology": sv.topologies.ring(4).with_dropout(0.1)},
        {"topology": sv.topologies.ring(4).with_dropout(0.1000001)},
        {"topology": sv.topologies.ring(4).with_random_pair()},
        {"topology": sv.topologies.path(4)},
        {"topology": sv.topologies.ring(4).with_schedule([sv.topologies.path(4), sv.topologies.complete(4)])},
        {"topology": sv.topologies.ring(4).with_schedule([sv.topologies.complete(4), sv.topologies.path(4)])},
        {"algorithm": sv.algorithms.cta(step_size=lambda t: 1 / t)},
        {"algorithm": sv.algorithms.atc(step_size=0.1)},
        {"algorithm": sv.algorithms.muffliato(step_size=0.1, gossip_steps=2)},
        {"algorithm": sv.algorithms.muffliato(step_size=0.1, gossip_steps=3)},
        {"algorithm": sv.algorithms.dgd(step_size=0.1, gradient_rounds=3)},
        {"noise": sv.noise.independent(sv.noise.Laplace(std=0.1))},
        {"noise": sv.noise.independent(sv.noise.Gaussian(std=0.1)).scaled([1, 1, 1, 1, 0.999])},
        {"noise": sv.noise.none()},
        {"initial_model": np.array([0.0, 0.0, 1e-300])},
        {"rounds": 6},
    ],
)
def test_every_part_of_a_run_is_in_its_agreement(changed: dict[str, Any]) -> None:
    other = agreement(public_run(**changed))
    assert other.digest != AGREED.digest
    assert differences(AGREED, other)
    assert Agreement.parse(other.canonical()) == other


def test_the_clips_and_samples_of_an_average_are_in_it_with_all_their_digits() -> None:
    def masked(rate: float, bound: float) -> Agreement:
        algorithm = sv.algorithms.fedavg(
            step_size=0.1, participation=rate, update_clip=sv.clipping.Clip(bound, "l2"), local_steps=2
        )
        return agreement(public_run(topology=sv.topologies.federation(4), algorithm=algorithm))

    base = masked(0.5, 1.0)
    assert masked(0.5, 1.0).digest == base.digest
    assert differences(base, masked(0.5000000001, 1.0)) == [
        "learning.parameters.participation.rate: 0.5 in the first, 0.5000000001 in the second"
    ]
    assert differences(base, masked(0.5, 1.0000000001)) == [
        "learning.parameters.update_clip.bound: 1.0 in the first, 1.0000000001 in the second"
    ]


def test_the_graph_of_masked_pairs_is_not_agreed_on() -> None:
    algorithm = sv.algorithms.fedavg(step_size=0.1, aggregation=sv.algorithms.Gopa(partners=2))
    made = agreement(public_run(topology=sv.topologies.federation(4), algorithm=algorithm))
    assert made.learning.parameters["aggregation"] == {
        "kind": "Gopa", "partners": 2, "pairwise_ratio": None, "silence": 0.0, "minimum_agents": None,
    }  # fmt: skip
    assert made.learning.networks[0].rounds[0].senders == ()
    assert Agreement.parse(made.canonical()) == made


def test_a_federation_lists_shares_and_no_links() -> None:
    topology = sv.topologies.federation(3, "records", records=[1, 2, 1])
    network = agreement(public_run(topology=topology)).learning.networks[0]
    assert (network.relay, network.rounds[0].senders, network.rounds[0].own) == (True, (), (0.25, 0.5, 0.25))


def test_the_weights_of_every_distinct_round_can_be_rebuilt() -> None:
    rounds = [sv.topologies.path(4), sv.topologies.complete(4)]
    topology = sv.topologies.ring(4).with_schedule(rounds)
    network = agreement(public_run(topology=topology)).learning.networks[0]
    for links, wanted in zip(network.rounds, rounds, strict=True):
        matrix = np.diag(links.own)
        matrix[list(links.senders), list(links.receivers)] = links.weights
        np.testing.assert_array_equal(matrix, wanted.matrix)
    np.testing.assert_array_equal(network.centroid, topology.perron)


@pytest.mark.parametrize(
    "topology",
    [
        sv.topologies.erdos_renyi(9, 0.5, seed=1),
        sv.topologies.star(5, weights="uniform"),
        sv.topologies.ring(5, weights="laplacian").with_dropout(0.3),
        sv.topologies.geometric(8, 0.9, seed=2).with_random_pair(),
        sv.topologies.ring(4).with_schedule([sv.topologies.path(4), sv.topologies.complete(4), np.eye(4)]),
        sv.topologies.federation(3, "records", records=[1, 2, 4]),
        sv.topologies.from_matrix([[0.5, 0.0, 0.3], [0.5, 0.4, 0.0], [0.0, 0.6, 0.7]]),
    ],
)
def test_a_network_is_rebuilt_digit_by_digit(topology: sv.topologies.Topology) -> None:
    made = agreement(public_run(topology=topology))
    rebuilt = topology_of(made.learning.networks[0])
    np.testing.assert_array_equal(rebuilt.matrix, topology.matrix)
    np.testing.assert_array_equal(rebuilt.links, topology.links)
    assert agreement(public_run(topology=rebuilt)).digest == made.digest


def test_what_cannot_be_agreed_on_is_refused() -> None:
    with pytest.raises(IncompatibleChoice, match="token"):
        agreement(
            public_run(
                topology=sv.topologies.complete(4).with_walk(), algorithm=sv.algorithms.random_walk(step_size=0.1)
            )
        )
    own = sv.algorithms.atc(step_size=0.1)._replace(name="mine")
    with pytest.raises(IncompatibleChoice, match="'mine' is not one of the package"):
        agreement(public_run(algorithm=own))
    strange = sv.algorithms.atc(step_size=0.1)
    with pytest.raises(ConfigError, match="others could not know"):
        agreement(public_run(algorithm=strange._replace(parameters={"step_size": object()})))
    with pytest.raises(ConfigError, match="others could not know"):
        agreement(public_run(noise=sv.noise.none()._replace(parameters={"ratio": float("nan")})))


def test_everything_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        agreement_of(
            public_run(),
            declared=replace(DECLARED, run=" spring", fraction_bits=60, collude=4, releases=("nobody",)),
            members=members(3, "relay"),
            protection=replace(protection(4), delta=1.0),
            problem=PROBLEM,
        )
    for wrong in (
        "no name",
        "fraction_bits is 60",
        "collude is 4",
        "no member",
        "3 are needed",
        "nobody is needed",
        "delta is 1",
    ):
        assert wrong in str(caught.value)


def test_an_agent_is_found_by_its_name() -> None:
    assert AGREED.number("agent-2") == 2
    with pytest.raises(ConfigError, match="no agent of the run 'spring'; its agents are agent-0, agent-1"):
        AGREED.number("agent-9")


def changed_text(old: str, new: str) -> bytes:
    text = AGREED.canonical().decode()
    assert text.count(old) >= 1, old
    return text.replace(old, new, 1).encode()


@pytest.mark.parametrize(
    ("given_bytes", "said"),
    [
        (b"", "cannot be read"),
        (b"[]", "a table is needed"),
        (b"{}", "missing"),
        (b'{"a":' * 100_000, "cannot be read"),
        (AGREED.canonical() + b" ", "byte for byte"),
        (changed_text('"collude":"all"', '"collude": "all"'), "byte for byte"),
        (changed_text('"collude":"all",', ""), "collude is missing"),
        (changed_text('"collude":"all"', '"collude":"all","collude":"all"'), "twice"),
        (changed_text('"collude":"all"', '"colude":1,"collude":"all"'), "colude is unknown"),
        (changed_text('"collude":"all"', '"collude":true'), "is needed"),
        (changed_text('"collude":"all"', '"collude":1.0'), "hexadecimal"),
        (changed_text('"collude":"all"', '"collude":NaN'), "hexadecimal"),
        (changed_text('"collude":"all"', '"collude":' + "9" * 5000), "cannot be read"),
        (changed_text('"collude":"all"', '"collude":99999999999999999999'), "is needed"),
        (changed_text('"rounds":5', '"rounds":"5"'), "a whole number"),
        (changed_text('"format":2', '"format":3'), "format is 3"),
        (changed_text('"0x1.3333333333333p-2"', '"0x1.33333333333330p-2"'), "byte for byte"),
        (changed_text('"0x1.3333333333333p-2"', '"nan"'), "finite"),
        (changed_text('"0x1.3333333333333p-2"', '"0x1p+5000"'), "cannot be read"),
        (changed_text('"relay":"untrusted"', '"relay":"trusty"'), '"untrusted" or "trusted"'),
        ("é".encode(), "cannot be read"),
        (b" " * 64_000_001, "at most"),
    ],
)
def test_other_bytes_are_refused(given_bytes: bytes, said: str) -> None:
    with pytest.raises(ProtocolError, match=said):
        Agreement.parse(given_bytes)


@settings(max_examples=30)
@given(st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
))  # fmt: skip
def test_values_of_any_shape_come_back(value: Any) -> None:
    made = replace(AGREED, problem=Plain({"of any shape": value}))
    again = Agreement.parse(made.canonical())
    assert json.dumps(again.problem, sort_keys=True) == json.dumps(_without_negative_zero(made.problem), sort_keys=True)


def _without_negative_zero(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_negative_zero(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_negative_zero(each) for each in value]
    return value + 0.0 if type(value) is float else value
