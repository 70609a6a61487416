"""What a simulation may not be used for, said wherever its guarantees are printed.

A simulated run has a guarantee that its noise would give if nobody could draw it again. But it is a function of a seed that stands in the run's
own folder, and every repeat is one more run on the same data. So its models are for measuring, never for release; and epsilon is stated for one
run and, beside it, for all repeats together.
"""

import math
from collections.abc import Sequence

from sottovoce.accounting import FixedSizeTradeoff, Guarantee, SubsampledTradeoff, repeated
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.rounding import shown

# Sampled losses are composed on a grid. Beyond this sum of epsilons it takes gigabytes, for a number that says that nothing is hidden.
LARGEST_SAMPLED = 500.0
NOT_COMPUTED = "not computed"


def epsilon_of_repeats(found: Guarantee, *, repeats: int, delta: float) -> float | None:
    """Epsilon of all repeats together; None where no rule is proved, or where it would take too long."""
    sampled = isinstance(found.tradeoff, SubsampledTradeoff | FixedSizeTradeoff)
    try:
        if sampled and repeats > 1 and repeats * found.epsilon(delta) > LARGEST_SAMPLED:
            return None
        return repeated(found.tradeoff, repeats).epsilon(delta)
    except (ConfigError, UnsupportedClaim):  # the accountant's grid or rounding does not reach so many rounds
        return None


def release_note(*, seed: int, repeats: int, together: Sequence[float | None]) -> str:
    """One sentence under a table of guarantees; `together`: epsilon of all repeats for each observer."""
    head = f"Simulated: anyone can draw this noise again from seed {seed}, so the models must not be released."
    if repeats == 1:
        return f"{head} The one repeat would be one release."
    known = [value for value in together if value is not None]
    worst = "epsilon of all together is not computed"
    if len(known) == len(together):
        worst = f"all together have epsilon up to {largest(max(known))}"
    return f"{head} The {repeats} repeats would be {repeats} releases about the same data; {worst}."


def largest(value: float | None) -> str:
    """An epsilon in words, rounded up."""
    return NOT_COMPUTED if value is None else "inf" if math.isinf(value) else shown(value, 4)
