"""Which proofs of the accountant hold on the lattice: an explicit list. Whatever is not on it is not used, however small its number.

    way               why it holds on whole numbers                                             docs/guarantees.md, "In whole numbers"
    noise in gradients     a gradient is rounded once, before its noise; all later is post-processing of noisy gradients
    links at random        differences that pile up, with the roundings of every round
    averages of a relay    noise of the relay alone: the average is rounded once, before that noise
    sent messages          words are whole numbers plus rounded noise, one source each, or pairs with the total variation of `accounting.gopa.integers`

    proof
    no noise               infinity needs no proof
    sent messages          composes these values, Gaussian
    Laplace rounds         composes them, Laplace: uses the bound of every round alone

Left out, and why: `whole view` (the linear view is a statement about real numbers); `absorption`, `contraction` (rounding is not non-expansive, and computed
gradients of different models are not covered by the float64 term); `secret agents`, `secret records` (traffic shows who took part);
`masked averages` (masks may be given away: sent messages remain); `walk hops` (walks are not deployed). Averages of agents' own noise are left out too:
a sum of rounded Gaussians, taken by somebody who sees no single word.
"""

from sottovoce.accounting.proofs import (
    gradient_noise,
    laplace_rounds,
    no_noise,
    random_links,
    relay_averages,
    sent_messages,
)
from sottovoce.accounting.proofs.evidence import Way
from sottovoce.accounting.proofs.proof import Proof
from sottovoce.noise import Noise

PROOFS: tuple[Proof, ...] = (no_noise.PROOF, laplace_rounds.PROOF, sent_messages.PROOF)


def ways(noise: Noise) -> tuple[Way, ...]:
    """How what agents send may be accounted on the lattice; the first that applies is taken."""
    averages = (relay_averages.WAY,) if noise.needs_relay else ()
    return (gradient_noise.WAY, random_links.WAY, *averages, sent_messages.WAY)
