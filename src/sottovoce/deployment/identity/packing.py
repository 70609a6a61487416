"""Short headers as bytes: MessagePack, read with limits, and only in the form in which it is written here.

framed = letter | version | length of the header, 2 bytes | header | body
"""

from typing import Any

from sottovoce.deployment.identity.refusals import Malformed
from sottovoce.errors import ConfigError

try:
    import msgpack
except ImportError as error:
    raise ConfigError(
        f"Runs among parties need msgpack, which cannot be imported ({error}). Install it: pip install 'sottovoce[deploy]'."
    ) from error

VERSION = 2  # 2: statements go along with messages
_BEFORE = 4  # bytes before the header
_LONGEST = 4096  # bytes of a header
_LIMITS = {"max_str_len": 256, "max_bin_len": 64, "max_array_len": 16, "max_map_len": 16, "max_ext_len": 0}


def framed(letter: bytes, header: list[Any]) -> bytes:
    """A header as it stands before its body.

    Raises:
        ValueError: it is too long to be read again.
    """
    packed: bytes = msgpack.packb(header, use_bin_type=True)
    if len(packed) > _LONGEST:
        raise ValueError(f"a header of {len(packed)} bytes; at most {_LONGEST} are read")
    return letter + bytes([VERSION]) + len(packed).to_bytes(2, "big") + packed


def unframed(letter: bytes, blob: bytes) -> tuple[list[Any], int]:
    """The header, and where the body begins.

    Raises:
        Malformed: the bytes are not what `framed` writes.
    """
    if len(blob) < _BEFORE or blob[:1] != letter:
        raise Malformed(f"{len(blob)} bytes that are no message of this kind; it is ignored.")
    if blob[1] != VERSION:
        raise Malformed(
            f"A message has version {blob[1]}; this Sottovoce reads {VERSION}. Use the same release at all parties."
        )
    end = _BEFORE + int.from_bytes(blob[2:_BEFORE], "big")
    packed = blob[_BEFORE:end]
    if end > len(blob) or len(packed) > _LONGEST:
        raise Malformed("A message ends within its header, or has one that is too long; it is ignored.")
    try:
        header = msgpack.unpackb(packed, raw=False, strict_map_key=True, **_LIMITS)
        canonical = isinstance(header, list) and msgpack.packb(header, use_bin_type=True) == packed
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        raise Malformed("The header of a message cannot be read; it is ignored.") from error
    if not canonical:
        raise Malformed("The header of a message is not written as this release writes it; it is ignored.")
    return header, end
