"""Messages of one size at fixed times, so that a relay learns neither when a party sends nor how much.

Every `seconds` one message of `size` bytes goes to every other member of the roster, whether there is something to send or not: a part of a blob, or a
dummy. Both are sealed by the cover that all messages over a relay have (`cover`), so that the relay cannot tell one from the other. Messages are
acknowledged as they arrive and not after the commit, since the time of that would tell.

Still seen: who is connected and since when, who is in the roster, and when a run begins and ends.
"""

import math
from typing import NamedTuple

from sottovoce.errors import ConfigError

LEAST_SIZE, LEAST_SECONDS, MOST_SECONDS = 256, 0.005, 3600.0


class Shape(NamedTuple):
    """What every message looks like, the same for all members of a run."""

    size: int  # bytes
    seconds: float  # between two messages to the same member

    def check(self, max_payload: int) -> None:
        """Refuse what cannot be kept up.

        Raises:
            ConfigError: with the numbers that can.
        """
        if not LEAST_SIZE <= self.size <= max_payload:
            raise ConfigError(
                f"Messages of {self.size} bytes cannot be sent; this relay carries from {LEAST_SIZE} to {max_payload}. Choose a size in between."
            )
        if not (math.isfinite(self.seconds) and LEAST_SECONDS <= self.seconds <= MOST_SECONDS):
            raise ConfigError(
                f"One message every {self.seconds} seconds cannot be sent; from {LEAST_SECONDS} to {MOST_SECONDS:g} seconds can. Choose a time in between."
            )


def read_shape(text: str) -> Shape:
    """A shape from `BYTES/SECONDS`, such as 90000/0.1.

    Raises:
        ConfigError: it has another form.
    """
    size, slash, seconds = text.partition("/")
    try:
        if not slash:
            raise ValueError
        return Shape(int(size), float(seconds))
    except ValueError as error:
        raise ConfigError(
            f"{text!r} is no shape of messages: it needs BYTES/SECONDS, such as 90000/0.1 for a message of 90000 bytes ten times a second."
        ) from error
