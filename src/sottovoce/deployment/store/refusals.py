"""What a store refuses, one class per reason; nothing is half done when one of them is raised."""

from sottovoce.errors import ProtocolError, SottovoceError


class StoreError(SottovoceError):
    """The file of a data set cannot be used as it is: missing, damaged, readable by others, full, or of a newer version."""


class AnotherWriter(StoreError):
    """Another process writes to this store, or has written to it since it was opened."""


class RestoredBackup(StoreError, ProtocolError):
    """A store knows less than it once did: it was put back from a copy, and going on could send two versions of one exchange."""
