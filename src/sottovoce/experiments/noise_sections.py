"""What the [noise] table of an experiment's file may say, by its `kind`."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from sottovoce.experiments.values import Positive, Section, wrong


class NoNoise(Section):
    """Messages in clear."""

    kind: Literal["none"]


class LawSection(Section):
    """The law of one noise source; `std` or `scale`, whichever that law is given by."""

    law: Literal["laplace", "gaussian", "l2_laplace"]
    std: Positive | None = None
    scale: Positive | None = None

    @model_validator(mode="after")
    def _law_has_its_number(self) -> Self:
        needed, other = ("scale", "std") if self.law == "l2_laplace" else ("std", "scale")
        if getattr(self, other) is not None:
            raise wrong(f'{other} does not apply to law = "{self.law}"; give {needed} instead')
        if getattr(self, needed) is None:
            raise wrong(f'law = "{self.law}" needs {needed}, the size of the noise; there is no default')
        return self


class IndependentNoise(LawSection):
    """Each sender's own noise, which does not cancel."""

    kind: Literal["independent"]
    per_edge: bool = False
    self_noise: bool = True


class CancellingNoise(LawSection):
    """Noise that cancels in the centroid, or at each receiver."""

    kind: Literal["graph_homomorphic", "local_graph_homomorphic"]


class GopaNoise(LawSection):
    """Noise shared by linked pairs with opposite signs, and each agent's own."""

    kind: Literal["gopa"]
    pairwise_std: Positive  # of a pair's source; `std` is that of an agent's own


class PrescribedNoise(Section):
    """The noise that Showkatbakhsh et al. prescribe for their two-stage method: the document's numbers, not a guarantee of ours."""

    kind: Literal["showkatbakhsh"]
    document_epsilon: Positive
    document_delta: Positive


Noise = Annotated[
    NoNoise | IndependentNoise | CancellingNoise | GopaNoise | PrescribedNoise, Field(discriminator="kind")
]
