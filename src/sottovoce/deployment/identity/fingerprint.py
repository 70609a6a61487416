"""Numbers that two people compare by voice.

    fingerprint(what, bytes) = SHA-256("sottovoce/fingerprint/" what 0x00 bytes) modulo 10^40, in eight groups of five digits

Digits are told apart on any telephone and in any language. 40 of them are 132 bits: nobody finds another key with the same number.
"""

import hashlib

_GROUPS, _DIGITS = 8, 5


def fingerprint(what: str, value: bytes) -> str:
    """The number of a value, such as `"key"` or `"roster"`, whose purpose is part of it."""
    digest = hashlib.sha256(b"sottovoce/fingerprint/" + what.encode("ascii") + b"\0" + value).digest()
    digits = f"{int.from_bytes(digest, 'big') % 10 ** (_GROUPS * _DIGITS):0{_GROUPS * _DIGITS}d}"
    return " ".join(digits[first : first + _DIGITS] for first in range(0, len(digits), _DIGITS))
