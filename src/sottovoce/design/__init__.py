"""Design of noise: the strengths that cost least accuracy for what every observer may learn.

design        the call, `sv.noise.design`                             targets     what every observer may learn, as limits on a covariance
free          the best covariance at all                              pairs       the best from keys that pairs share
over_rounds   sizes by round                                          remembering own noise that remembers its last rounds
result        what comes out, written and read back                   key_plan    who shares which stream with whom
refusals      what nothing is proved about
"""

from sottovoce.design.design import design
from sottovoce.design.free import free_covariance
from sottovoce.design.key_plan import KeyPlan
from sottovoce.design.result import Design, load_design, noise_from
from sottovoce.design.targets import Limits, limits_of, read_targets

__all__ = ["Design", "KeyPlan", "design", "load_design", "noise_from"]


def __dir__() -> list[str]:
    return [*__all__]
