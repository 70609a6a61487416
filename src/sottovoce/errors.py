"""The errors Sottovoce raises. Each message says what was given, what is needed and what to do."""


class SottovoceError(Exception):
    """Root of every error raised on purpose; `except SottovoceError` catches them all."""


class ConfigError(SottovoceError, ValueError):
    """An input is malformed: a wrong shape, a missing value, an unknown name. It is a `ValueError` too, as Python and scikit-learn expect."""


class IncompatibleChoice(SottovoceError):
    """Each part is valid alone, but the combination would not do what its parts promise."""


class UnsupportedClaim(SottovoceError):
    """A statement was asked for that has not been proved for this case."""


class BudgetExhausted(SottovoceError):
    """The run would spend more privacy than its budget allows."""


class ProtocolError(SottovoceError):
    """A party received something the protocol does not permit."""


class CheatingProven(ProtocolError):
    """A party signed two things where it had agreed to one; whoever finds it stops, and keeps both signatures."""


class Diverged(SottovoceError):
    """Learning left the finite numbers: NaN or overflow, with the round, the agent and the likely cause."""
