"""No noise: nothing is hidden. It has to be asked for by name."""

from sottovoce.noise.noise import Noise, no_sources


def none() -> Noise:
    """No noise at all: every message is sent in clear."""
    return Noise(name="none", law=None, spread=no_sources)
