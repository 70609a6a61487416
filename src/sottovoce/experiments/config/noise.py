"""What the [noise] table of an experiment's file may say, by its `kind`."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from sottovoce.experiments.config.values import Delta, Positive, Section, wrong


class NoNoise(Section):
    """Messages in clear."""

    kind: Literal["none"]


class LawSection(Section):
    """The law of one noise source, and its size: `std` or `scale`, whichever that law is given by, or an epsilon to calibrate it for."""

    law: Literal["laplace", "gaussian", "l2_laplace"]
    std: Positive | None = None
    scale: Positive | None = None
    epsilon: Positive | None = None  # of the first observer in [privacy]
    delta: Delta | None = None  # for that epsilon; None: the one of [privacy]

    @property
    def size_key(self) -> Literal["std", "scale"]:
        """The key that holds the size of this law."""
        return "scale" if self.law == "l2_laplace" else "std"

    @model_validator(mode="after")
    def _law_has_its_number(self) -> Self:
        needed = self.size_key
        other = "std" if needed == "scale" else "scale"
        if getattr(self, other) is not None:
            raise wrong(f'{other} does not apply to law = "{self.law}"; give {needed} instead')
        size = getattr(self, needed)
        if size is None and self.epsilon is None:
            raise wrong(
                f'law = "{self.law}" needs {needed}, the size of the noise, or epsilon, to calibrate it for; there is no default'
            )
        if size is not None and self.epsilon is not None:
            raise wrong(f"{needed} and epsilon both say how much noise there is; keep one of them")
        if self.delta is not None and self.epsilon is None:
            raise wrong(
                "delta belongs to epsilon, which is not given here; to print guarantees, set delta in [privacy]"
            )
        return self


class IndependentNoise(LawSection):
    """Each sender's own noise, which does not cancel."""

    kind: Literal["independent"]
    per_edge: bool = False
    self_noise: bool = True


class CancellingNoise(LawSection):
    """Noise that cancels in the centroid, or at each receiver."""

    kind: Literal["graph_homomorphic", "local_graph_homomorphic"]


class PlainNoise(LawSection):
    """What a trusted relay adds to the average, or agents to every gradient they take."""

    kind: Literal["central", "gradient"]


class GopaNoise(LawSection):
    """Noise shared by linked pairs with opposite signs, and each agent's own."""

    kind: Literal["gopa"]
    pairwise_std: Positive  # of a pair's source; `std` is that of an agent's own

    @model_validator(mode="after")
    def _two_sizes(self) -> Self:
        if self.epsilon is not None:
            raise wrong(
                "epsilon cannot set the two sizes of gopa; give std and pairwise_std. `sottovoce calibrate` finds both, in this proportion"
            )
        return self


class PrescribedNoise(Section):
    """The noise that Showkatbakhsh et al. prescribe for their two-stage method: the document's numbers, not a guarantee of ours."""

    kind: Literal["showkatbakhsh"]
    document_epsilon: Positive
    document_delta: Positive


Noise = Annotated[
    NoNoise | IndependentNoise | CancellingNoise | PlainNoise | GopaNoise | PrescribedNoise, Field(discriminator="kind")
]
