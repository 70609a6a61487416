"""Several local gradient steps in one message, accounted as one step.

The agent walks w_0 = w, w_{i+1} = w_i - h g(w_i) for i < L and sends something linear in w and G(w) = g(w_0) + ... + g(w_{L-1}); nobody else
sees the points in between. So a round is one step along G, and G / S changes no more than one gradient does:

    between any two models   ||G - G'|| <= L Delta, since each of the L gradients changes by at most Delta                       S = L
    at the same model        under the promise of convex, smooth losses and h <= 2 / beta, steps are c-Lipschitz, so the differences of the
                             points obey e_{i+1} <= c e_i + h Delta from e_0 = 0, and h ||G - G'|| = e_L     S = 1 + c + ... + c^(L-1)

The round's map w -> w - h G(w) is c^L-Lipschitz. All that proofs use of a promise is how far one step can push two models apart, so the
promise is restated for the step of length h S along G / S:  nu' = (1 - c^L) / (h S),  beta' = 1 / (h S), whose step is c^L-Lipschitz. G is NOT the
gradient of such a loss: only w - eta G(w) with eta <= h, which is a mixture of w and of w - h G(w), is as Lipschitz as the restated promise says.
So that is what a round must be, ATC or CTA with a step of at most h; consensus, whose combination and step act on different points, is refused.
With steps that change from round to round, the least nu' and the least beta' hold in all of them.

Without a promise, gradients at points that drift apart within the round are gradients at different models, for which the sensitivity of a
record says nothing: that is refused.
"""

from typing import Any, NamedTuple

import numpy as np

from sottovoce.accounting.question.promise import contraction
from sottovoce.algorithms import Algorithm, Exchange, LocalSteps, step_at
from sottovoce.errors import UnsupportedClaim
from sottovoce.linear import diffusion_step, linear_rounds
from sottovoce.problems import ConvexSmooth
from sottovoce.schedules import Schedule


class OneStep(NamedTuple):
    """The same rounds with one step each, whose gradient changes no more than one gradient of the original."""

    algorithm: Algorithm
    losses: ConvexSmooth | None  # the promise, restated for that step
    growth: float  # S, the largest over the rounds
    tight: bool  # some losses within the promise reach S


def one_step(local: LocalSteps, rounds: int, *, losses: ConvexSmooth | None, same_model: bool) -> OneStep:
    """Account for several local steps as one.

    Args:
        local: the steps.
        rounds: T.
        losses: the promise as far as it may be used, or None; needed for a sensitivity at the same model.
        same_model: the sensitivity compares gradients at the same model only.

    Raises:
        UnsupportedClaim: steps that are negative, or too long for the promise.
    """
    assert losses is not None or not same_model  # the caller refuses
    if losses is not None:
        _refuse_other_steps(local, rounds)
    steps = np.array([float(step_at(local.step_size, t)) for t in range(1, rounds + 1)])
    if not (np.isfinite(steps) & (steps >= 0)).all():
        first = int(np.argmin(np.isfinite(steps) & (steps >= 0)))
        raise UnsupportedClaim(
            f"step_size is {steps[first]:g} in round {first + 1}; steps must be finite and not negative."
        )
    factors = np.array([contraction(float(h), losses) for h in steps])
    growth = np.full(rounds, float(local.times))
    if same_model:
        growth = (factors[:, None] ** np.arange(local.times)).sum(axis=1)
    # A quadratic loss of curvature nu attains c = 1 - step nu, and with it S; for c = step beta - 1 we know of none.
    attained = losses is not None and bool(np.all(steps * (losses.nu + losses.beta) <= 2.0))
    return OneStep(
        algorithm=_multiplied(local.one_step, growth),
        losses=None if losses is None else _restated(losses, steps * growth, factors**local.times),
        growth=float(growth.max()),
        tight=attained or not same_model,
    )


def _refuse_other_steps(local: LocalSteps, rounds: int) -> None:
    """Refuse a promise for rounds in which it says nothing: others than ATC and CTA, or that go further than the local steps did."""
    forms = linear_rounds(local.one_step, rounds)
    kinds = [diffusion_step(form) for form in forms.forms]
    for t in range(rounds):
        step, h = kinds[forms.which[t]], float(step_at(local.step_size, t + 1))
        # Rounds that are not of diffusion type are accounted without the promise.
        if step is not None and (step.kind == "consensus" or step.size > h * (1 + 1e-12)):
            raise UnsupportedClaim(
                f"the promise about losses says how far {local.times} local steps of {h:g} push two models apart, and nothing about round {t + 1}, "
                f"in which '{local.one_step.name}' moves by {step.size:g} times their gradients ({step.kind}). Use ATC or fedavg with steps as "
                f"long as the local ones, or leave losses out."
            )


def _restated(losses: ConvexSmooth, lengths: np.ndarray, factors: np.ndarray) -> ConvexSmooth:
    """A promise under which a step of these lengths is as Lipschitz as these factors, or less."""
    moves = lengths > 0
    if not moves.any():
        return losses
    nu = float(np.min((1.0 - factors[moves]) / lengths[moves]))
    return ConvexSmooth(beta=float(1.0 / lengths.max()), nu=nu)


def _multiplied(algorithm: Algorithm, growth: np.ndarray) -> Algorithm:
    """The algorithm with its gradient multiplied by the round's factor."""

    def scaled(function: Any) -> Any:
        def with_factor(*given: Any) -> Any:
            *values, gradient, round_ = given
            return function(*values, lambda w, step=0: factor(round_) * gradient(w, step), round_)

        return with_factor

    factor = Schedule(lambda t: growth[t - 1])
    exchanges = tuple(Exchange(scaled(e.message), scaled(e.update), e.weights) for e in algorithm.exchanges)
    begin = None if algorithm.begin is None else scaled(algorithm.begin)
    return algorithm._replace(exchanges=exchanges, begin=begin, schedules=(*algorithm.schedules, factor))


def why_refused(times: int, *, promised: bool) -> str:
    """What to do when the sensitivity says nothing about several local steps."""
    promise = (
        "The promise given does not help, because it is about the l2 norm: use the law Gaussian or L2Laplace. Otherwise "
        if promised
        else "Promise losses=sv.accounting.ConvexSmooth(beta) if every local loss is convex and beta-smooth. Without a promise "
    )
    return (
        f"a message holds {times} local gradient steps, at points that drift apart between the two worlds, and the sensitivity given "
        f"compares gradients at the same model only. {promise}two ways are sound: noise in every local step, "
        f"sv.noise.gradient(law), whose {times} gradients of a round are composed exactly; or clipping of the whole update, "
        f"fedavg(..., update_clip=sv.clipping.Clip(C, 'l2')), with the agent as the protected unit."
    )
