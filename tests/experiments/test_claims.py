"""Whatever enters the guarantee of a simulated run is held against the problem that runs; what is not true of it is refused."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sottovoce as sv
from sottovoce.accounting import ConvexSmooth
from sottovoce.errors import ConfigError, IncompatibleChoice, UnsupportedClaim
from sottovoce.experiments.build import build
from sottovoce.experiments.claims import Claims, moves_with_model
from sottovoce.experiments.config.toml_file import parse
from sottovoce.experiments.demo import demo_config
from sottovoce.experiments.privacy import refuse_unkept_promises

GAUSSIAN = sv.noise.Gaussian(std=1.0)
SELF, CLEAR = sv.noise.independent(GAUSSIAN), sv.noise.independent(GAUSSIAN, self_noise=False)
ATC, EAVESDROPPER = sv.algorithms.atc(step_size=0.05), sv.observers.eavesdropper()


def regression(clip=1.0, norm="l2", *, ridge=0.0, agents=4):
    generator = np.random.default_rng(1)
    features, targets = generator.normal(size=(agents, 20, 2)), generator.normal(size=(agents, 20))
    problem = sv.problems.linear_regression(features, targets, ridge=ridge)
    return problem if clip is None else problem.with_clipping(clip, norm)


def compared(problem=None, noise=SELF, algorithm=ATC, topology=None, **changes):
    options = {"rounds": 2, "sensitivity": 2.0, "epsilons": [2.0], "delta": 1e-5, "progress": False} | changes
    return sv.compare(
        regression() if problem is None else problem, topology or sv.topologies.ring(4), {"algorithm": algorithm}, {"scheme": noise},
        EAVESDROPPER if topology is None else sv.observers.server(), **options,
    )  # fmt: skip


def test_a_sensitivity_far_below_the_clip_is_refused():
    with pytest.raises(ConfigError) as refused:
        compared(sensitivity=0.001)
    assert str(refused.value) == (
        "sensitivity = 0.001 (l2) for agent 0, but clipping every record's gradient to 1 (l2) lets unit='agent' with "
        "adjacency='replace' change 2 in a round. Give at least that: problem.sensitivity(unit='agent', adjacency='replace', "
        "norm='l2')."
    )


@settings(max_examples=15, deadline=None)
@example(share=1.0)
@example(share=1.0 - 1e-9)
@given(share=st.floats(0.0, 2.0, exclude_min=True))
def test_a_comparison_accepts_a_sensitivity_exactly_if_it_is_at_least_the_true_one(share):
    if share >= 1:
        assert compared(sensitivity=2.0 * share).rows[0].possible
    elif share <= 1 - 1e-9:  # closer to it, two ways to compute the same bound may differ
        with pytest.raises(ConfigError, match="sensitivity = "):
            compared(sensitivity=2.0 * share)


@given(
    share=st.floats(1e-6, 2.0),
    unit=st.sampled_from(["record", "agent", "person"]),
    adjacency=st.sampled_from(["replace", "add-remove"]),
    clip=st.floats(1e-3, 1e3),
    clip_norm=st.sampled_from(["l1", "l2"]),
    law=st.sampled_from([GAUSSIAN, sv.noise.Laplace(std=1.0), sv.noise.L2Laplace(scale=1.0)]),
    batch_size=st.sampled_from([None, 1, 7]),
)
def test_any_sensitivity_is_accepted_exactly_if_it_is_at_least_the_true_one(
    share, unit, adjacency, clip, clip_norm, law, batch_size
):
    problem, noise = regression(clip, clip_norm).with_persons(3), sv.noise.independent(law)
    claims = Claims(unit=unit, adjacency=adjacency, batch_size=batch_size)
    # By hand: records 2C/n or 2C/B, persons up to three times that, agents 2C or C; sqrt(d) more where gradients are clipped in l2 and the law needs l1.
    true = 2 * clip * (math.sqrt(2) if (clip_norm, law.norm) == ("l2", "l1") else 1.0)
    divisor = batch_size or 20
    true *= {
        "record": 1 / divisor,
        "person": min(3, divisor) / divisor,
        "agent": 0.5 if adjacency == "add-remove" else 1.0,
    }[unit]
    given_to = {"sensitivity": share * true, "norm": law.norm}
    if share >= 1:
        claims.refuse_sensitivity(problem, ATC, noise, **given_to)
    elif share < 1 - 1e-9:
        with pytest.raises(ConfigError, match="Give at least that"):
            claims.refuse_sensitivity(problem, ATC, noise, **given_to)


def test_one_agent_with_too_small_a_sensitivity_is_enough():
    with pytest.raises(ConfigError, match=r"sensitivity = 1.5 \(l2\) for agent 2"):
        compared(sensitivity=[2.0, 2.0, 1.5, 3.0])


def test_unequal_agents_are_checked_one_by_one():
    generator = np.random.default_rng(0)
    sizes = (5, 10, 20, 40)
    problem = sv.problems.linear_regression(
        [generator.normal(size=(n, 2)) for n in sizes], [generator.normal(size=n) for n in sizes]
    ).with_clipping(1.0, "l2")
    true = 2.0 / np.array(sizes)
    assert compared(problem, unit="record", sensitivity=true).rows[0].possible
    with pytest.raises(ConfigError, match="for agent 0"):
        compared(problem, unit="record", sensitivity=float(true.mean()))


def test_without_a_clip_no_sensitivity_is_taken():
    with pytest.raises(ConfigError, match=r"gradients of this problem are not clipped.*with_clipping"):
        compared(regression(clip=None), sensitivity=1e9)


def test_points_in_a_box_have_a_sensitivity_for_records_only():
    points = np.random.default_rng(0).uniform(-1, 1, size=(4, 10, 2))
    problem = sv.problems.mean_estimation(points, radius=1.0)
    assert compared(problem, unit="record", sensitivity=0.2 * math.sqrt(2)).rows[0].possible
    with pytest.raises(ConfigError, match=r"the box \[-1, 1\] that holds every point"):
        compared(problem, unit="record", sensitivity=0.2)
    with pytest.raises(UnsupportedClaim, match="grows with the model"):
        compared(problem, sensitivity=100.0)


@pytest.mark.parametrize(
    ("participation", "changes", "said"),
    [
        ("once", {}, r"promised \(once\), but a simulated run uses every record in every round"),
        (
            "once",
            {"batch_size": 5, "sensitivity": 0.4},
            r"promised \(once\), but a simulated run draws records at random",
        ),
        (sv.accounting.cyclic(1, 1), {}, r"promised \(1 rounds, 1 apart\)"),
        (sv.accounting.poisson(0.5, record_norm=1.0), {}, r"promised \(every round with probability 0.5\)"),
    ],
)
def test_a_participation_that_the_simulator_does_not_keep_is_refused(participation, changes, said):
    with pytest.raises(IncompatibleChoice, match=said):
        compared(unit="record", **{"sensitivity": 0.1} | changes, participation=participation)


def test_with_a_ridge_an_agents_bound_holds_at_the_same_model_only():
    problem = regression(ridge=0.1)
    with pytest.raises(ConfigError, match="ridge of this problem is added after clipping and grows with the model"):
        compared(problem, same_model=False, sensitivity=1e6)
    bare = compared(problem, noise=CLEAR).rows[0]
    assert not bare.possible  # two worlds take gradients at different models, and nothing is promised about the losses
    promised = compared(problem, noise=CLEAR, losses=problem.losses).rows[0]
    again = sv.account(
        sv.topologies.ring(4), ATC, promised.noise, EAVESDROPPER, rounds=2, sensitivity=2.0, same_model=True, losses=problem.losses
    )  # fmt: skip
    assert promised.guarantee.mu == pytest.approx(again.mu, rel=1e-12)


def test_a_ridge_is_seen_in_gradients_that_do_not_name_it():
    @dataclasses.dataclass(frozen=True)
    class Unnamed:
        inner: object

        def __getattr__(self, name):
            return getattr(self.inner, name)

        def describe(self):
            return {key: value for key, value in self.inner.describe().items() if key != "ridge"}

    for norm in ("l1", "l2"):
        assert moves_with_model(Unnamed(regression(ridge=1e-3, norm=norm)))
        assert not moves_with_model(Unnamed(regression(norm=norm)))
    points = np.random.default_rng(0).uniform(-1, 1, size=(4, 10, 2))
    assert not moves_with_model(sv.problems.mean_estimation(points, radius=1.0).with_clipping(0.5, "l2"))


def test_clipped_updates_have_the_sensitivity_of_their_clip_whatever_the_ridge():
    fedavg = sv.algorithms.fedavg(step_size=0.1, local_steps=2, update_clip=sv.clipping.Clip(0.5, "l2"))
    options = {"algorithm": fedavg, "topology": sv.topologies.federation(4)}
    assert compared(regression(clip=None, ridge=0.1), sensitivity=1.0, **options).rows[0].guarantee.epsilon(1e-5) <= 2
    with pytest.raises(ConfigError, match=r"clipping whole updates to 0.5 \(l2\) lets unit='agent'"):
        compared(regression(clip=None, ridge=0.1), sensitivity=0.9, **options)


SMOOTH = float(regression(ridge=0.1).constants.local_smoothness.max())


@pytest.mark.parametrize(
    ("losses", "batch_size", "said"),
    [
        (ConvexSmooth(0.9 * SMOOTH, 0.0), None, "losses promise beta = .* the agents' full losses are up to .*-smooth"),
        (ConvexSmooth(1.1 * SMOOTH, 0.0), 5, "losses promise beta = .* the agents' losses of batches are up to"),
        (ConvexSmooth(100.0, 0.21), None, "losses promise nu = 0.21, but .* 0.2-strongly convex at most"),
    ],
)
def test_a_promise_about_losses_that_the_problem_breaks_is_refused(losses, batch_size, said):
    with pytest.raises(ConfigError, match=said):
        compared(regression(ridge=0.1), losses=losses, batch_size=batch_size)


def test_a_promise_about_losses_that_the_problem_keeps_is_taken():
    problem = regression(ridge=0.1)
    for losses, batch_size in ((problem.losses, 5), (ConvexSmooth(1.0001 * SMOOTH, 0.2), None)):
        assert compared(problem, noise=CLEAR, losses=losses, batch_size=batch_size).rows[0].possible


def test_networks_keep_no_promise_of_convex_losses():
    generator = np.random.default_rng(0)
    problem = sv.problems.classification(
        generator.normal(size=(4, 10, 2)), generator.integers(0, 2, size=(4, 10)), model="linear", seed=0
    ).with_clipping(1.0, "l2")
    with pytest.raises(ConfigError, match="does not hold for classification"):
        compared(problem, losses=ConvexSmooth(1.0), measures="loss")


def test_a_run_from_a_file_refuses_by_the_same_rules():
    file = demo_config().as_dict()
    file["algorithm"]["step_size"] = 0.1
    kept = build(parse({**file, "privacy": {**file["privacy"], "losses": "problem"}}, source="test"))
    refuse_unkept_promises(kept)
    flat = {**file["privacy"], "losses": {"beta": 1e-6, "nu": 0.0}}
    with pytest.raises(ConfigError, match="losses promise beta = 1e-06"):
        refuse_unkept_promises(build(parse({**file, "privacy": flat}, source="test")))
    once = {**file["privacy"], "participation": "once"}
    with pytest.raises(IncompatibleChoice, match=r"promised \(once\)"):
        refuse_unkept_promises(build(parse({**file, "privacy": once}, source="test")))
