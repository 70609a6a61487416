"""The server: reads the public log and turns it into the sum. It has no secret and no say.

    sum_{u published} hat_u - sum_{v} r_v  =  sum_{u published} (x_u + eta_u)   modulo 2^64

A server that lies about the result is found out by anybody who reads the log. A server that colludes with the board and
with parties learns what those parties know: their own vectors and masks. What neither it nor this protocol can see is
whether a party told the truth: a false vector, missing own noise or a false repair can change the sum by any amount,
but not the privacy of parties that follow the protocol. Proofs against this are not part of the package.
"""

from dataclasses import dataclass

import numpy as np

from sottovoce.deployment.gopa.refusals import OutOfPhase, Unrepaired
from sottovoce.deployment.gopa.transcript import Phase, Transcript
from sottovoce.deployment.integers import GaussianMasks, signed
from sottovoce.errors import UnsupportedClaim
from sottovoce.reprs import short_repr


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """The outcome of a round.

    Attributes:
        units: the sum in units, [d] int64.
        mean: the average over the parties in the sum, [d] float64.
        parties: who is in the sum.
        noise_variance: variance of every entry of `mean` that comes from own noise, if all parties added theirs: that
            of s Z and 1/12 for its rounding, right to a part in 10^6 for s >= 1 unit.
        residual_variance: the same for masks that were not repaired; 0 in a repaired sum.
    """

    units: np.ndarray
    mean: np.ndarray
    parties: frozenset[int]
    noise_variance: float
    residual_variance: float

    def __repr__(self) -> str:
        return short_repr(self)


def total(transcript: Transcript) -> Total:
    """The sum of a round that is complete.

    Raises:
        Unrepaired: parties fell silent and their masks are still in the sum.
        OutOfPhase: the round has not come that far.
    """
    missing = missing_repairs(transcript)
    if transcript.phase in (Phase.COSIGNING, Phase.REPAIR):
        raise Unrepaired(
            f"Parties {sorted(transcript.dropped)} fell silent; of their masks, those shared with "
            f"{sorted(missing)} are still in the sum. "
            f"Collect the missing signatures and repairs, or ask for `total_with_residual`."
        )
    if transcript.phase is not Phase.COMPLETE:
        raise OutOfPhase(f"The round is in {transcript.phase.name}; its sum exists once it is COMPLETE.")
    return _total(transcript, 0.0)


def total_with_residual(transcript: Transcript) -> Total:
    """The sum in spite of missing repairs, with the variance that they leave in it.

    A drop list must have been posted. Each pair of a dropped party and one that has not repaired leaves the variance of
    one mask.

    Raises:
        UnsupportedClaim: the masks are uniform, so that the sum says nothing.
        OutOfPhase: the dropped parties are not known yet.
    """
    if transcript.phase < Phase.COSIGNING:
        raise OutOfPhase(f"The round is in {transcript.phase.name}; close the publication first.")
    pairs = sum(len(transcript.neighbours[party] & transcript.dropped) for party in missing_repairs(transcript))
    masks = transcript.terms.masks
    if pairs and not isinstance(masks, GaussianMasks):
        raise UnsupportedClaim(
            f"{pairs} uniform masks are still in the sum, which is then uniform itself. Collect the repairs, "
            "or use GaussianMasks in the next round."
        )
    return _total(transcript, pairs * (masks.law.std**2 + 1 / 12) if isinstance(masks, GaussianMasks) else 0.0)


def missing_repairs(transcript: Transcript) -> frozenset[int]:
    """Parties in the sum that share masks with dropped ones and have not revealed them."""
    return transcript.repairers - transcript.repairs.keys()


def _total(transcript: Transcript, residual: float) -> Total:
    terms, count = transcript.terms, len(transcript.publications)
    words = np.zeros(terms.dimension, dtype=np.uint64)
    for published in transcript.publications.values():
        words += published
    for repair in transcript.repairs.values():
        words -= repair
    unit = 2.0 ** (-2 * terms.encoding.fraction_bits)
    return Total(
        units=signed(words),
        mean=terms.encoding.decode(words) / count,
        parties=transcript.survivors,
        noise_variance=(terms.own_noise.std**2 + 1 / 12) * unit / count,
        residual_variance=residual * unit / count**2,
    )
