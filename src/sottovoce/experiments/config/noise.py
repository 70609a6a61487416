"""What the [noise] table of an experiment's file may say, by its `kind`, and the noise that it names."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from sottovoce.accounting import documents
from sottovoce.experiments.config.algorithm import AlgorithmSection
from sottovoce.experiments.config.derived import choice, tables
from sottovoce.experiments.config.values import LARGEST, Delta, NonNegative, Positive, Section, wrong
from sottovoce.noise import LAWS, SCHEMES, Gaussian, Law, Noise, designed, independent

Agent = Annotated[int, Field(ge=0)]
Finite = Annotated[float, Field(ge=-LARGEST, le=LARGEST, allow_inf_nan=False)]


class NoiseSection(Section):
    """One noise scheme; a kind adds its keys."""

    kind: str

    @property
    def is_gaussian(self) -> bool:
        """Whether epsilon needs a delta."""
        return False

    def noise(self) -> Noise:
        """The scheme, of size one where its size is still to be calibrated."""
        return SCHEMES[self.kind]()


class NoNoise(NoiseSection):
    """Messages in clear."""

    kind: Literal["none"]


class LawSection(NoiseSection):
    """The law of one noise source, and its size: `std` or `scale`, whichever that law is given by, or an epsilon to calibrate it for."""

    law: Literal["laplace", "gaussian", "l2_laplace"]
    std: Positive | None = None
    scale: Positive | None = None
    epsilon: Positive | None = None  # of the first observer in [privacy]
    delta: Delta | None = None  # for that epsilon; None: the one of [privacy]

    @property
    def is_gaussian(self) -> bool:
        """Whether this law is."""
        return self.law == "gaussian"

    @property
    def size_key(self) -> Literal["std", "scale"]:
        """The key that holds the size of this law."""
        return "scale" if self.law == "l2_laplace" else "std"

    def noise(self) -> Noise:
        """The scheme with its law."""
        keys = type(self).model_fields.keys() - LawSection.model_fields.keys()
        return SCHEMES[self.kind](self._law(), **{key: getattr(self, key) for key in keys})

    def _law(self) -> Law:
        size: dict[str, Any] = {self.size_key: getattr(self, self.size_key) or 1.0}
        return LAWS[self.law](**size)

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


class PrescribedNoise(NoiseSection):
    """The noise that Showkatbakhsh et al. prescribe for their two-stage method: the document's numbers, not a guarantee of ours."""

    kind: Literal["showkatbakhsh"]
    document_epsilon: Positive
    document_delta: Positive

    @property
    def is_gaussian(self) -> bool:
        """The document has no other noise."""
        return True

    def levels(self, algorithm: AlgorithmSection, *, rounds: int, sensitivity: float) -> Noise:
        """The message of round t + 1 carries the noise of gradient round t; the first one is public, the last ones repeat.

        Args:
            algorithm: the two-stage method, which says how long and with which step.
            rounds: of the run.
            sensitivity: of one record, in l2.
        """
        levels = documents.showkatbakhsh_schedule(
            epsilon=self.document_epsilon, delta=self.document_delta, sensitivity=sensitivity,
            **{key: algorithm.arguments()[key] for key in ("gradient_rounds", "step_size")},
        )  # fmt: skip
        factors = np.zeros(max(rounds, len(levels) + 1))
        factors[1 : len(levels) + 1] = levels
        return independent(Gaussian(std=1.0)).scaled(factors.tolist())


class DesignedNoise(NoiseSection):
    """Gaussian noise whose strengths were computed: the numbers themselves, which stand here in place of the `file` that names them."""

    kind: Literal["designed"]
    std: Positive
    own: list[NonNegative] | None = None  # [K] factor of every agent's own source
    pairs: list[list[Agent]] | None = None  # [m, 2] who share a source
    factors: list[list[Finite]] | None = None  # [m, 2] with which each of the two adds it
    joint: list[list[Finite]] | None = None  # [K, K] of a generator's sources, in place of the others
    factors_by_round: list[NonNegative] | None = None  # by which all of it is multiplied
    memory: list[list[list[Finite]]] | None = None  # as `Noise.memory`

    @property
    def is_gaussian(self) -> bool:
        """There is no other designed noise."""
        return True

    def noise(self) -> Noise:
        """The scheme with these numbers."""
        made = designed(
            Gaussian(std=self.std), own=self.own, pairs=self.pairs or (), factors=self.factors or (), joint=self.joint
        )
        if self.factors_by_round is not None:
            made = made.scaled(self.factors_by_round)
        return made if self.memory is None else made._replace(memory=np.array(self.memory, dtype=float))


TABLES = tables(SCHEMES, LawSection, {"none": NoNoise, "gopa": GopaNoise}) | {
    "showkatbakhsh": PrescribedNoise,
    "designed": DesignedNoise,
}
if TYPE_CHECKING:
    NoiseTable = NoiseSection
else:
    NoiseTable = Annotated[choice(TABLES), Field(discriminator="kind")]
