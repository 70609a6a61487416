"""How many bits the numbers of a compiled program have."""

from typing import Any

import jax


def precision(dtype: str) -> Any:
    """Let JAX use 64-bit numbers inside the block when the run asks for them."""
    return jax.enable_x64(dtype == "float64")
