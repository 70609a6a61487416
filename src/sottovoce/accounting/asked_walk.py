"""A walk as the accountant reads it off the functions that run: for accounts of all pairs, and of one given path."""

from typing import Literal, NamedTuple

import numpy as np

from sottovoce.accounting.proofs.walk_hops import contributions_of, hop_prices, hop_steps
from sottovoce.accounting.question.asked import ask
from sottovoce.accounting.question.promise import contraction
from sottovoce.accounting.question.question import Question
from sottovoce.algorithms import Algorithm
from sottovoce.errors import UnsupportedClaim
from sottovoce.linear import check_walk
from sottovoce.noise import Gaussian, Noise
from sottovoce.observers import Observer
from sottovoce.problems import ConvexSmooth
from sottovoce.reprs import short_repr
from sottovoce.topologies import Topology


class AskedWalk(NamedTuple):
    """What every hop does, and what is promised."""

    topology: Topology
    steps: np.ndarray  # [T] of every hop
    stds: np.ndarray  # [T] of the noise in every hop, where `noise_in` says
    prices: np.ndarray  # [T] mu of one contribution of sensitivity one, seen at once
    noise_in: Literal["gradients", "messages"]
    contributions: int  # of one agent, at most
    sensitivity: np.ndarray  # [K]
    losses: ConvexSmooth  # the promise

    def __repr__(self) -> str:
        return short_repr(self)


def asked_walk(
    topology: Topology, algorithm: Algorithm, noise: Noise, observer: Observer, *, question: Question
) -> AskedWalk:
    """The walk of a question, once everything is known that an account of agents who wait for the token rests on.

    Raises:
        UnsupportedClaim: no promise about the losses, steps beyond it, another law than the Gaussian, or a holder who does more than a gradient step.
    """
    asked = ask(topology, algorithm, noise, observer, question)
    T, law = asked.rounds, asked.noise.law
    if asked.losses is None:
        raise UnsupportedClaim(
            "pairs of a walk were asked for without a promise about the losses; noise of later hops hides what an agent added only where steps "
            'keep two tokens together, as with convex, smooth losses. Promise them in [privacy], losses = "problem" or { beta = .., nu = .. }, or use '
            "`sottovoce account`, which then counts every contribution as seen at once."
        )
    if not isinstance(law, Gaussian):
        raise UnsupportedClaim(
            "pairs of a walk were asked for without Gaussian noise; it is what hides a contribution over several hops. Use sv.noise.Gaussian."
        )
    check_walk(asked.algorithm, T)
    steps = hop_steps(asked.algorithm, T)
    for step in np.unique(steps):
        contraction(float(step), asked.losses)  # refuses steps that are too long
    return AskedWalk(
        topology=asked.topology,
        steps=steps,
        stds=law.std * asked.noise.factors(T) * asked.algorithm.noisy_rounds(T),
        prices=hop_prices(asked.algorithm, asked.noise, T),
        noise_in="gradients" if asked.noise.in_gradients else "messages",
        contributions=contributions_of(asked.algorithm, T),
        sensitivity=asked.sensitivity,
        losses=asked.losses,
    )
