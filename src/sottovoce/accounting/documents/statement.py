"""What a document states: its number, where it is printed, and whether it holds.

A `DocumentStatement` is not a guarantee. It carries somebody else's number and our reading of it; nothing else in the
library accepts one in place of a guarantee.
"""

from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "epsilon", "sensitivity", "probability", "mutual-information", "error-bound", "budget", "share", "variance"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentStatement:
    """One number that a document states; `print` shows it as a sentence.

    Attributes:
        value: the number.
        kind: what the number is.
        source: the document and the equation.
        upper_bound: True if the value is proved to be on the safe side of what the source claims, for the case asked
            about.
        verdict: for whom the statement is made, and why it holds or does not.
    """

    value: float
    kind: Kind
    source: str
    upper_bound: bool
    verdict: str

    def __str__(self) -> str:
        holds = "which holds" if self.upper_bound else "which does not hold as claimed"
        return f"{self.source} states {self.kind} = {self.value:.6g}, {holds}: {self.verdict}."
