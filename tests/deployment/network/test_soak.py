"""A short soak by the code of the long one (`make soak`): eight parties, a hundred rounds, eight faults."""

import pytest

from deployment.network.soak import claims, faults, soak


# Seeds whose first eight faults are of all kinds.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("transport", "seed", "kinds"),
    [("grpc", 5, {"kill", "partition", "cut"}), ("nats", 31, {"kill", "partition", "cut", "relay"})],
    ids=["grpc", "nats"],
)
def test_a_hundred_rounds_with_eight_faults(transport, seed, kinds, folder):
    lines: list[str] = []
    found = soak(folder, rounds=100, at_least=8, seed=seed, transport=transport, show=lines.append)
    assert [claim for claim, holds in claims(found).items() if not holds] == [], "\n".join(lines)
    assert {fault["kind"] for fault in found["faults"]} == kinds
    assert max(map(len, lines)) <= 80


def test_a_seed_gives_the_same_faults_and_none_comes_too_late():
    names = [f"party-{k}" for k in range(8)]

    def drawn(seed: int):
        return [fault for fault, _ in zip(faults(names, 2000, 100, seed), range(120), strict=False)]

    assert drawn(1) == drawn(1) != drawn(2)
    assert max(fault.after for fault in drawn(1)) <= 20
    assert {name for fault in drawn(1) if fault.kind == "kill" for name in fault.parties} == set(names)


def test_a_claim_that_does_not_hold_is_said():
    fault = {"kind": "kill", "recovery_s": 0.5}
    good = {
        "rounds": 2000,
        "asked": 1,
        "faults": [fault],
        "same_models": True,
        "exact_ledgers": True,
        "growth": {f"party-{k}": [(900, 0.01)] for k in range(8)},
    }
    assert all(claims(good).values())
    for worse in (
        {"asked": 2},
        {"same_models": False},
        {"exact_ledgers": False},
        {"faults": [{**fault, "recovery_s": 3.0}]},
        {"growth": {**good["growth"], "party-3": [(900, 0.06)]}},
        {"growth": {**good["growth"], "party-3": []}},
    ):
        assert list(claims({**good, **worse}).values()).count(False) == 1
