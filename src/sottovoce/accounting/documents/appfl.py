"""APPFL notes: how much noise one message of federated averaging or of inexact ADMM needs, one record changed.

Client p has I_p of the I records of all clients. It sends, with Laplace noise of scale Delta / epsilon,

    Example 1   z = w - (eta / I_p) sum_{i in p} g_i(w)                         one step of federated averaging
    Example 2   z = w + (lambda - (1 / I) sum_{i in p} g_i(z_before)) / rho     one step of inexact ADMM

and the notes put for Delta, the largest change of z,

    Case 1      a record j is removed:   max_j eta || -g_j / I_p + (1/(I_p - 1) - 1/I_p) sum_{i != j} g_i ||_1
    Case 2      a record j is replaced:  2 C eta / I_p                          every g_i clipped to l1 norm C
    Example 2   a record is replaced:    max || g_i - g_i' ||_1 / (rho I)       2 C / (rho I) when clipped

How they stand.

 1. Case 1 is what happens to the data at hand. Noise in proportion to it is not private: neighbouring data give other
    scales, and scales can be told apart. It needs the worst data, for which the notes give no number. In Case 1,
    mean_n - mean_{n-1} = (g_j - mean_{n-1}) / n, so clipped gradients give 2 C eta / I_p, I_p the larger of the two
    numbers of records, attained when the removed gradient is opposite to all others. C eta / I_p would need a divisor
    that does not follow the data.
 2. Case 2 is true and attained, for ONE step on ALL records of the client, at a model that both worlds share.
    After several local steps the worlds are at different models, where the gradients of unchanged records differ too;
    in a batch of B a record weighs 1/B. Both are refused.
 3. Example 2 is true if the client goes on from the z it has sent, noise and all: in its dual variable and as the point
    of its next gradient. If it goes on from its own clean z, lambda is the last gradient and z changes by
    (v_before - v) / (rho I), v a change of the sum of its gradients: twice as much by the record alone, and without any
    such bound once unchanged records answer to the shifted point. It is about replacing: a removed record would change
    I, and with it the messages of all clients.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.accounting.documents.statement import DocumentStatement
from sottovoce.clipping import Norm, vector_norm
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.numbers import checked, chosen, whole

GoesOnFrom = Literal["noised", "clean"]

_NORMS = ("l1", "l2")
_LAWS = {"l1": "Laplace", "l2": "Gaussian or L2Laplace"}


def appfl_removal_as_printed(gradients: ArrayLike, *, step_size: float, norm: Norm) -> DocumentStatement:
    """Example 1, Case 1, as printed: the largest change of one step when one of THESE records is removed.

    States: Laplace noise of this scale, over epsilon, makes the message epsilon-differentially private.
    For whom: whoever reads the message and knows the model before. The unit is one record, removed.
    Upper bound: no. The number is exact for these data and says nothing about others; it is private itself.

    Args:
        gradients: of the client's records at the common model, clipped or not, [I_p, d] with I_p >= 2.
        step_size: eta.
        norm: in which the change is measured; the notes have l1.

    Raises:
        ConfigError: fewer than two records, or something that is no finite number.
    """
    g = _gradients(gradients)
    n = len(g)
    others = g.sum(axis=0) - g  # row j: the sum without record j
    changes = -g / n + (1.0 / (n - 1) - 1.0 / n) * others
    largest = float(vector_norm(changes, _norm(norm)).max())
    return DocumentStatement(
        value=checked("step_size", step_size, "(0, inf)") * largest,
        kind="sensitivity",
        source="APPFL notes, Example 1, Case 1",
        upper_bound=False,
        verdict=(
            f"the largest change, in the {norm} norm, when one of these records is removed; other data change more, and "
            "noise in proportion to it tells the data apart by its scale. Clip, and use 2 C eta / I_p"
        ),
    )


def appfl_removal_sensitivity(
    *,
    clip: float,
    norm: Norm,
    step_size: float,
    num_records: int,
    local_steps: int = 1,
    batch_size: int | None = None,
) -> DocumentStatement:
    """Example 1, Case 1, with the bound that clipping gives it: 2 C eta / I_p, I_p counted before the removal.

    States: one message of federated averaging changes by no more when one record is removed.
    For whom: whoever reads the message and knows the model before, as all messages and models before are given.
    Upper bound: yes, and attained. The notes stop before this bound; half of it is not enough.

    Args:
        clip: C, to which every record's gradient is clipped.
        norm: in which it is clipped, and in which the bound holds.
        step_size: eta.
        num_records: I_p, at least 2, the larger of the two numbers of records.
        local_steps: gradient steps in one message; only 1 is covered.
        batch_size: records in a step; only None, all of them, is covered.

    Raises:
        UnsupportedClaim: several local steps, or a batch.
    """
    _one_full_step("2 C eta / I_p", local_steps, batch_size)
    return DocumentStatement(
        value=_fedavg(clip, step_size, whole("num_records", num_records, least=2)),
        kind="sensitivity",
        source="APPFL notes, Example 1, Case 1 with clipped gradients",
        upper_bound=True,
        verdict=f"one record removed, I_p counted with it; {_one_message(norm)}",
    )


def appfl_replacement_sensitivity(
    *,
    clip: float,
    norm: Norm,
    step_size: float,
    num_records: int,
    local_steps: int = 1,
    batch_size: int | None = None,
) -> DocumentStatement:
    """Example 1, Case 2: 2 C eta / I_p, the largest change of one step when one record is replaced.

    States: one message of federated averaging changes by no more when one record is replaced.
    For whom: whoever reads the message and knows the model before, as all messages and models before are given.
    Upper bound: yes, and attained.

    Args:
        clip: C, to which every record's gradient is clipped.
        norm: in which it is clipped, and in which the bound holds; the notes have l1.
        step_size: eta.
        num_records: I_p.
        local_steps: gradient steps in one message; only 1 is covered.
        batch_size: records in a step; only None, all of them, is covered.

    Raises:
        UnsupportedClaim: several local steps, or a batch.
    """
    _one_full_step("2 C eta / I_p", local_steps, batch_size)
    return DocumentStatement(
        value=_fedavg(clip, step_size, whole("num_records", num_records)),
        kind="sensitivity",
        source="APPFL notes, Example 1, Case 2",
        upper_bound=True,
        verdict=f"one record replaced; {_one_message(norm)}",
    )


def appfl_admm_sensitivity(
    *,
    clip: float,
    norm: Norm,
    penalty: float,
    total_records: int,
    goes_on_from: GoesOnFrom,
    local_steps: int = 1,
    batch_size: int | None = None,
) -> DocumentStatement:
    """Example 2: 2 C / (rho I), the largest change of one step of inexact ADMM when one record is replaced.

    States: one message changes by no more when one record is replaced.
    For whom: whoever reads the message and knows all that was sent before.
    Upper bound: yes, and attained, if the client goes on from its noised z; no if it goes on from its clean z, which is
    what the notes' recursion does by itself. `algorithms.inexact_admm(linearise_at="global")` carries nothing private
    from round to round and is covered.

    Args:
        clip: C, to which every record's gradient is clipped.
        norm: in which it is clipped, and in which the bound holds; the notes have l1.
        penalty: rho of the notes. That of `algorithms.inexact_admm` is K times as large for K agents with equally many
            records.
        total_records: I, of all clients together.
        goes_on_from: "noised" or "clean", the z that enters the client's dual variable and its next gradient.
        local_steps: gradient steps in one message; only 1 is covered.
        batch_size: records in a step; only None, all of them, is covered.

    Raises:
        UnsupportedClaim: several local steps, or a batch.
    """
    _one_full_step("2 C / (rho I)", local_steps, batch_size)
    C, rho = checked("clip", clip, "(0, inf)"), checked("penalty", penalty, "(0, inf)")
    noised = chosen("goes_on_from", goes_on_from, ("noised", "clean")) == "noised"
    reason = (
        "the client goes on from what it sent"
        if noised
        else "the client's clean dual variable is its last gradient, so the record alone changes a message by twice as "
        "much, and the other records' gradients, taken at a shifted point, by more"
    )
    return DocumentStatement(
        value=2.0 * C / (rho * whole("total_records", total_records)),
        kind="sensitivity",
        source="APPFL notes, Example 2",
        upper_bound=noised,
        verdict=f"one record replaced; {_one_message(norm)}; {reason}",
    )


def _fedavg(clip: float, step_size: float, num_records: int) -> float:
    return 2.0 * checked("clip", clip, "(0, inf)") * checked("step_size", step_size, "(0, inf)") / num_records


def _norm(norm: Norm) -> Norm:
    return "l1" if chosen("norm", norm, _NORMS) == "l1" else "l2"


def _one_message(norm: Norm) -> str:
    return f"in one message, given all before, in the {_norm(norm)} norm and so for {_LAWS[norm]} noise"


def _one_full_step(formula: str, local_steps: int, batch_size: int | None) -> None:
    """Refuse to carry a formula for one step on all records over to anything else."""
    steps = whole("local_steps", local_steps)
    batch = None if batch_size is None else whole("batch_size", batch_size)
    if steps == 1 and batch is None:
        return
    records = "all records" if batch is None else f"batches of {batch} records"
    raise UnsupportedClaim(
        f"local_steps = {steps} on {records} was asked about, but {formula} is proved for one step on all records of a "
        "client. Two ways are sound for more: noise in every local step, noise=sv.noise.gradient(law); or clipping the "
        "whole update with the client as the unit, fedavg(..., update_clip=...). One step on a batch of B distinct "
        "records changes by the step size times problem.sensitivity(unit='record', batch_size=B, ...)."
    )


def _gradients(gradients: ArrayLike) -> np.ndarray:
    given = np.asarray(gradients)
    if given.dtype.kind not in "fiu" or given.ndim != 2 or len(given) < 2 or given.shape[1] == 0:
        raise ConfigError(
            f"gradients have shape {given.shape} and type {given.dtype}; they must be real numbers [I_p, d], one row "
            "for each of at least two records."
        )
    if not np.isfinite(given).all():
        raise ConfigError("gradients hold NaN or infinity; give finite numbers.")
    return given.astype(np.float64)
