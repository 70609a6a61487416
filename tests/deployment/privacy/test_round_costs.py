"""What every round costs by itself: together as much as the run, and none where rounds hang together."""

import numpy as np
import pytest

import sottovoce as sv
from deployment.privacy.test_guarantee import ATC, GAUSSIAN, problem, stated  # noqa: F401
from sottovoce.deployment.privacy import Cost

LAPLACE = sv.noise.Laplace(std=1.0)
CTA, CONSENSUS = sv.algorithms.cta(step_size=0.1), sv.algorithms.consensus(step_size=0.1)
FALLING = sv.algorithms.atc(step_size=lambda t: 0.1 / t)
FEDERATION = {"topology": sv.topologies.federation(5), "algorithm": sv.algorithms.fedavg(step_size=0.1)}

ALONE = {
    "atc": {},
    "atc, falling step": {"algorithm": FALLING},
    "cta": {"algorithm": CTA},
    "consensus": {"algorithm": CONSENSUS},
    "one record": {"unit": "record"},
    "noise in gradients": {"noise": sv.noise.gradient(GAUSSIAN)},
    "Laplace": {"noise": sv.noise.independent(LAPLACE)},
    "federation": FEDERATION,
    "central": FEDERATION | {"noise": sv.noise.central(GAUSSIAN), "relay_trusted": True},
    "released": {"released_to": "public"},
}


def asked(problem, given, **more):  # noqa: F811
    given = dict(given) | more
    return stated(problem, given.pop("algorithm", ATC), given.pop("noise", None), **given)


@pytest.mark.parametrize("name", ALONE)
def test_rounds_together_cost_what_the_run_costs(problem, name) -> None:  # noqa: F811
    found = asked(problem, ALONE[name]) if name != "Laplace" else _laplace(problem)
    assert found.rounds is not None
    total = found.rounds.total()
    assert total.kind == found.cost.kind
    assert total.value == pytest.approx(found.cost.value, rel=1e-8)
    assert total.total_variation == pytest.approx(found.cost.total_variation, rel=1e-9)


def _laplace(problem):  # noqa: F811
    from sottovoce.deployment.privacy import guarantee_of_party
    from sottovoce.deployment.terms import PublicRun

    run = PublicRun(
        topology=sv.topologies.ring(5),
        algorithm=ATC,
        noise=sv.noise.independent(LAPLACE),
        rounds=10,
        batch_size=None,
        initial_model=np.zeros(3),
    )
    clipped = problem.with_clipping(1.0, "l1")
    return guarantee_of_party(
        run,
        clipped,
        agent=0,
        fraction_bits=24,
        collude="all",
        relay_trusted=False,
        released_to="own",
        losses=None,
        unit="agent",
        adjacency="replace",
    )


@pytest.mark.parametrize(
    "given",
    [
        {"noise": sv.noise.graph_homomorphic(GAUSSIAN)},
        {"noise": sv.noise.independent(GAUSSIAN, self_noise=False)},
        {"noise": sv.noise.gopa(GAUSSIAN, pairwise_std=2.0)},
        {"topology": sv.topologies.ring(5).with_dropout(0.1)},
        FEDERATION | {"algorithm": sv.algorithms.inexact_admm(penalty=1.0)},
    ],
    ids=["graph-homomorphic", "no self-noise", "pairs", "drop-outs", "admm"],
)
def test_rounds_that_hang_together_have_no_costs_of_their_own(problem, given) -> None:  # noqa: F811
    assert asked(problem, given).rounds is None


def test_rounds_of_two_networks_add_up_and_a_smaller_relay_costs_more(problem) -> None:  # noqa: F811
    five = asked(problem, ALONE["central"])
    four = asked(problem, ALONE["central"], topology=sv.topologies.federation(4))
    joined = five.rounds.before(4).then(four.rounds).total()
    assert five.cost.value < joined.value < four.cost.value
    by_hand = np.sqrt(five.rounds.gradients[:4].sum() + four.rounds.gradients[4:].sum())
    assert joined.value == pytest.approx(by_hand, rel=1e-8)
    ring, smaller = asked(problem, {}), asked(problem, {}, topology=sv.topologies.ring(4))
    assert ring.rounds.before(4).then(smaller.rounds).total().value == pytest.approx(ring.cost.value, rel=1e-8)


def test_rounds_are_charged_where_their_message_leaves(problem) -> None:  # noqa: F811
    """CTA sends a gradient one round later: its first message is free, and every later one costs the same."""
    costs = asked(problem, ALONE["cta"]).rounds.gradients
    assert costs[0] == 0
    assert np.ptp(costs[1:]) == 0
    assert costs[1] > 0
    falling = asked(problem, ALONE["atc, falling step"]).rounds.gradients
    np.testing.assert_allclose(falling / falling[0], 1.0 / np.arange(1, 11) ** 2, rtol=1e-12)


def test_nothing_is_finite_about_an_infinite_round() -> None:
    from sottovoce.deployment.privacy.round_costs import RoundCosts

    zeros = np.zeros(2)
    assert RoundCosts(False, np.array([1.0, np.inf]), zeros, zeros).total() == Cost.infinite()
