"""A proof as a value: where it applies, and what it states about one agent."""

from collections.abc import Callable
from typing import NamedTuple

from sottovoce.accounting.guarantee import Validity
from sottovoce.accounting.proofs.evidence import Evidence
from sottovoce.accounting.tradeoff import Tradeoff

PAGE = "docs/guarantees.md"


class Statement(NamedTuple):
    """What a proof states about one agent.

    Attributes:
        tradeoff: the (epsilon, delta) pairs that hold.
        value: what proofs about one agent are compared by: mu, or epsilon for the Laplace laws.
        validity: why it holds, in a word.
        reason: why it holds, in a sentence.
        section: of docs/guarantees.md, where the proof is.
        promised: it rests on the promise about losses.
        others: it rests on other agents following the protocol.
        premises: what else it rests on.
        meaning: what the word of validity means here, where its usual sentence does not say it.
        details: numbers worth showing beside epsilon.
    """

    tradeoff: Tradeoff
    value: float
    validity: Validity
    reason: str
    section: str
    promised: bool = False
    others: bool = False
    premises: tuple[str, ...] = ()
    meaning: str | None = None
    details: tuple[tuple[str, float], ...] = ()


class Proof(NamedTuple):
    """One way to prove a guarantee.

    Attributes:
        name: of the proof.
        where: the kinds of run and observer it is for, all of them (`Evidence.kinds`).
        states: what it states about an agent; None: nothing.
        alone: what it states is all that may be stated.
    """

    name: str
    where: frozenset[str]
    states: Callable[[Evidence, int], Statement | None]
    alone: bool = False
