"""Updates clipped as a whole: what a change of data can do to one, and which questions that answers.

An update of norm at most C takes the place of a gradient step. Whatever an agent's data, loss, batches and number of local steps are,

    agent, replace                 any two updates differ by at most 2C, at any two models
    agent, add-remove              an update appears, or is replaced by nothing: C
    record, replace or add-remove  the rest of the agent's records remain, and its update may turn round: 2C
    person, replace or add-remove  the same, however many of the agent's records are that person's: 2C

So the record and the person gain nothing over their agent here.
"""

import numpy as np

from sottovoce.accounting.question.question import Question
from sottovoce.clipping import Clip
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.noise import Noise
from sottovoce.problems import Adjacency, Unit


def update_sensitivity(clip: Clip, *, unit: Unit, adjacency: Adjacency) -> float:
    """The largest change of an agent's update, in the norm of the clip."""
    return clip.bound if (unit, adjacency) == ("agent", "add-remove") else 2.0 * clip.bound


def check_clipped_update(clip: Clip, noise: Noise, sensitivity: np.ndarray, question: Question) -> None:
    """Refuse a sensitivity that is not the one clipping gives, a law of another norm, and rounds without the record.

    Raises:
        ConfigError: another sensitivity, a promise about losses, or a participation of single records.
        UnsupportedClaim: updates clipped in l2 under a law that needs l1.
    """
    if question.losses is not None:
        raise ConfigError("losses were promised, but clipped updates need no promise and keep none. Leave losses out.")
    needed = update_sensitivity(clip, unit=question.unit, adjacency=question.adjacency)
    if (np.abs(sensitivity - needed) > 1e-12 * needed).any():
        raise ConfigError(
            f"sensitivity = {float(sensitivity.max()):g}, but updates are clipped to {clip.bound:g} as a whole, so that unit='{question.unit}' with "
            f"adjacency='{question.adjacency}' changes one by at most {needed:g}. Give sensitivity={needed:g}."
        )
    if noise.law is not None and (clip.norm, noise.law.norm) == ("l2", "l1"):
        raise UnsupportedClaim(
            "updates are clipped in l2, and the Laplace law needs a bound in l1. Clip in l1, or use the law Gaussian or L2Laplace."
        )
    if question.participation != "every-round":
        raise ConfigError(
            f"participation = {question.participation!r} speaks of single records, and a clipped update is bounded for all of them together. Leave it out."
        )
