"""Noise that parties can draw: every source belongs to one of them, to two who have a key in common, or to the relay."""

import numpy as np

from sottovoce.errors import IncompatibleChoice
from sottovoce.noise import Noise, NoiseMap, bind
from sottovoce.topologies import ActiveLinks


def bind_among_parties(noise: Noise, links: ActiveLinks) -> NoiseMap:
    """Bind a scheme to links, as `sv.noise.bind` does, and refuse sources that no party and no two parties can draw.

    Args:
        noise: the scheme.
        links: of one exchange.

    Returns:
        The map, with owners [S, 2].

    Raises:
        IncompatibleChoice: sources of three agents or more, or of a generator; noise whose rounds are unlike.
    """
    refuse_unlike_rounds(noise)
    bound = bind(noise, links)
    if bound.of_generator.any():
        raise IncompatibleChoice(
            f"the noise of '{noise.name}' is drawn by a generator that tells every agent its own sum, and parties have none: whoever drew it for them "
            f"would know all of it. Use noise that agents draw themselves or in pairs, such as sv.noise.gopa, or bring a generator of your own and "
            f"simulate with it."
        )
    several = np.flatnonzero((bound.owners[:, 2:] >= 0).any(axis=1))
    if several.size:
        owners = bound.owners[several[0]]
        raise IncompatibleChoice(
            f"source {several[0]} of '{noise.name}' belongs to the agents {owners[owners >= 0].tolist()}, and the keys of parties are keys of two. Use "
            f"sources of one agent or of two, such as those of sv.noise.gopa."
        )
    return bound._replace(owners=bound.owners[:, :2])


def refuse_unlike_rounds(noise: Noise) -> None:
    """Refuse noise that hangs on the round: parties have one map for all rounds, and noise of its own in each.

    Raises:
        IncompatibleChoice: noise of earlier rounds that enters again, or maps that change from round to round.
    """
    if noise.memory is not None:
        raise IncompatibleChoice(
            f"'{noise.name}' adds noise of earlier rounds again. A party that goes on after a crash draws anew what it had not sent, and fractions of "
            f'earlier whole numbers are none: among parties every round has noise of its own. Use time = "white" or "schedule".'
        )
    if noise.turns:
        raise IncompatibleChoice(
            f"'{noise.name}' spreads its noise otherwise from round to round, and parties agree on one map for all rounds. Use a scheme with one map; its "
            f"size may change with the round (`scaled`)."
        )
