"""What every table of an experiment's file is made of: its base model, numbers that occur in several tables, and how to complain."""

import difflib
from collections.abc import Iterable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Delta = Annotated[float, Field(gt=0, lt=1)]


def wrong(message: str) -> PydanticCustomError:
    """A complaint that `config` passes on in these words."""
    return PydanticCustomError("does_not_fit", "{message}", {"message": message})


def suggest(given: str, choices: Iterable[str]) -> str:
    """The end of a complaint about an unknown name: the nearest known one, or all of them."""
    choices = list(choices)
    near = difflib.get_close_matches(given, choices, n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(choices)}"


class Section(BaseModel):
    """Values of one TOML table: immutable, of the stated types (no text for numbers), nothing unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
