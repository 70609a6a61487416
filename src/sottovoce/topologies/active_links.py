"""The weights of one round, by link: what noise is bound to and what the simulator multiplies with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sottovoce.reprs import short_repr


class ActiveLinks(NamedTuple):
    """The weights of one round. Every link is listed, active or not, so that link ids hold over rounds."""

    senders: NDArray[np.int64]  # [E]
    receivers: NDArray[np.int64]  # [E]
    weights: NDArray[np.float64]  # [E], 0 where the link is inactive
    self_weights: NDArray[np.float64]  # [K]
    perron: NDArray[np.float64]  # [K], weights of the centroid

    def __repr__(self) -> str:
        return short_repr(self)
