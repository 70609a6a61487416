"""What every table of an experiment's file is made of: its base model, numbers that occur in several tables, and how to complain."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import ErrorDetails, PydanticCustomError

from sottovoce.wording import brief, brief_value

# Products, quotients and squares of numbers within these stay within floating point. Beyond them nothing has a meaning: with noise of
# 1e300 a sum of squares is infinite, and so would be every number that is computed from it.
SMALLEST, LARGEST = 1e-30, 1e30

Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Positive = Annotated[
    float, Field(gt=0, le=LARGEST, allow_inf_nan=False), AfterValidator(lambda value: _not_tiny(value))
]
NonNegative = Annotated[float, Field(ge=0, le=LARGEST, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Delta = Annotated[float, Field(gt=0, lt=1)]


def _not_tiny(value: float) -> float:
    if value < SMALLEST:
        raise wrong(f"input should be at least {SMALLEST:g}; given {value:g}")
    return value


def wrong(message: str) -> PydanticCustomError:
    """A complaint that `config` passes on in these words."""
    return PydanticCustomError("does_not_fit", "{message}", {"message": message})


def complaint(detail: ErrorDetails) -> str:
    """What pydantic says about one value, in one sentence without its full stop: where it is, what is wrong, what was given."""
    place = ".".join(brief(str(step)) for step in detail["loc"] if step != "[key]")
    message = brief(detail["msg"].removeprefix("Value error, "), 400)
    match detail["type"]:
        case "missing":
            return f"{place}: this key is missing"
        case "does_not_fit":  # says itself what was given
            return f"{place}: {message}"
        case _:
            return f"{place}: {message[0].lower()}{message[1:]}; given {brief_value(detail['input'])}"


def checked_label(text: str) -> str:
    """The name of a line or a panel, as tables and figures can show it."""
    if not text or len(text) > 100 or not text.isprintable() or "$" in text:
        raise wrong(
            f"{brief(text)!r} cannot stand in a table and a figure; write 1 to 100 printable characters, and no $, which figures take for "
            f"mathematics"
        )
    return text


ShownLabel = Annotated[str, AfterValidator(checked_label)]


class Section(BaseModel):
    """Values of one TOML table: immutable, of the stated types (no text for numbers), nothing unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
