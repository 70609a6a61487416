"""An honest agent that passes on more than the linear view allows: why that view of a part of the network is no guarantee.

Three agents in a cycle 0 -> 1 -> 2 -> 0, adapt-then-combine with step 1, independent noise on messages and none in own copies. Agent 0 sends
m = theta + noise, theta = 0 or 1 its secret. Agent 1 gives it the small weight a, so that its combination a m + (1 - a) moves by only a; but
agent 1's loss |w - kink| has its kink in the middle, kink = 1 - a/2, and its next step goes down on one side and up on the other:

    forwarded = a m + (1 - a) - sign(a m + (1 - a) - kink) + noise        that is, by 1 more or less according to whether m > 1/2.

Agent 2, who hears agent 1 alone, compares what it was sent in the second round with the kink. Were agent 1's gradient fixed, its view would have
mu = a / hypot(a std, std), the `linear_mu` of the account; the comparison errs as often as a test of m itself, of which mu is 1 / std. The
account's `mu` counts every message that agent 0 sends and holds.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import integrate
from scipy.special import ndtr

from sottovoce.algorithms import Algorithm, atc
from sottovoce.noise import Gaussian, Noise, independent
from sottovoce.numbers import checked
from sottovoce.observers import Observer, curious_agent
from sottovoce.problems import CustomLoss, custom_loss
from sottovoce.topologies import Topology, from_matrix

Array = Any
KEPT = 0.5  # what agents 0 and 2 give their own model


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NonlinearRelay:
    """The parts of the run, as simulation and accountant take them; make it with `nonlinear_relay`.

    Attributes:
        topology: the cycle.
        algorithm: adapt, then combine, with step 1.
        noise: independent, without self-noise.
        observer: agent 2.
        worlds: the problem with theta = 0 and with theta = 1.
        rounds: 2.
        agent: 0, whose secret it is.
        sensitivity: 1, the change of agent 0's gradient.
        weight: a.
        std: of the noise.
        kink: 1 - a/2.
    """

    topology: Topology
    algorithm: Algorithm
    noise: Noise
    observer: Observer
    worlds: tuple[CustomLoss, CustomLoss]
    rounds: int
    agent: int
    sensitivity: float
    weight: float
    std: float
    kink: float

    def score(self, messages: Array) -> Array:
        """How much the messages that agent 2 read, [..., 2, 1, 1], speak for theta = 1: how far the second is below the kink."""
        return self.kink - messages[..., 1, 0, 0]

    def error_rates(self) -> tuple[float, float]:
        """P(score > 0) when theta = 0, and P(score < 0) when theta = 1, by quadrature over agent 0's noise."""
        false_alarm, hit = (self._below_kink(theta) for theta in (0.0, 1.0))
        return false_alarm, 1.0 - hit

    def delta(self, epsilon: float) -> float:
        """P(score > 0 | theta = 1) - exp(epsilon) P(score > 0 | theta = 0): no (epsilon, delta) guarantee has a smaller delta."""
        false_alarm, miss = self.error_rates()
        return max(0.0, 1.0 - miss - math.exp(epsilon) * false_alarm)

    def _below_kink(self, theta: float) -> float:
        """P(forwarded < kink): m above 1/2 sends agent 1 down by one, m below sends it up."""
        a, std = self.weight, self.std

        def density(u: float, step: float) -> float:
            mean = a * (theta + std * u) + (1.0 - a) + step
            return float(ndtr((self.kink - mean) / std)) * math.exp(-u * u / 2) / math.sqrt(2 * math.pi)

        at = (0.5 - theta) / std  # the noise with which m is exactly 1/2
        low, high = min(-12.0, at - 12.0), max(12.0, at + 12.0)
        up = integrate.quad(density, low, at, args=(1.0,), epsabs=1e-12, limit=200)[0]
        down = integrate.quad(density, at, high, args=(-1.0,), epsabs=1e-12, limit=200)[0]
        return float(up + down)


def nonlinear_relay(*, weight: float, std: float) -> NonlinearRelay:
    """The run in which agent 1 gives agent 0 this weight.

    Args:
        weight: a, above 0 and below 1; the smaller, the less the linear view sees.
        std: standard deviation of the Gaussian noise on every message.
    """
    weight = checked("weight", weight, "(0, 1)")
    cycle = np.array([[KEPT, weight, 0.0], [0.0, 1.0 - weight, 1.0 - KEPT], [1.0 - KEPT, 0.0, KEPT]])
    kink = 1.0 - weight / 2.0
    return NonlinearRelay(
        topology=from_matrix(cycle), algorithm=atc(step_size=1.0), noise=independent(Gaussian(std=std), self_noise=False),
        observer=curious_agent(2), worlds=(_world(0.0, kink), _world(1.0, kink)), rounds=2, agent=0, sensitivity=1.0, weight=weight,
        std=float(std), kink=kink,
    )  # fmt: skip


def _slopes_and_kinks(parameters: Array, batch: tuple[Array, ...]) -> Array:
    """The mean over records (slope, height, kink) of slope w + height |w - kink|."""
    record = batch[0]
    xp = record.__array_namespace__()
    w = parameters[0]
    return (record[:, 0] * w + record[:, 1] * xp.abs(w - record[:, 2])).mean()


def _world(theta: float, kink: float) -> CustomLoss:
    """One record per agent; all models start at 0, so that agent 0 first sends theta and agent 1 first sends 1."""
    records = np.array([[[-theta, 0.0, 0.0]], [[0.0, 1.0, kink]], [[0.0, 0.0, 0.0]]])
    return custom_loss(_slopes_and_kinks, np.zeros(1), records)
