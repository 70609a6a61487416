"""Looks for secrets in what people and programs see: raw, in hex, in base64 however it is aligned, and numbers as they are printed."""

import base64
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np

LEAST = 12  # characters: shorter ones would be found by chance


def forms_of_bytes(secret: bytes) -> set[bytes]:
    """How some bytes may be written; of base64 what does not depend on the bytes beside them."""
    found = {secret, secret.hex().encode(), secret.hex().upper().encode()}
    for coded in (base64.b64encode, base64.urlsafe_b64encode):
        for shift in range(3):
            whole = coded(bytes(shift) + secret)
            first = 0 if shift == 0 else 4
            found.add(whole[first : len(whole) - 4])
    found.add(json.dumps(secret.decode("latin-1"))[1:-1].encode())
    return {form for form in found if len(form) >= LEAST}


def forms_of_numbers(array: np.ndarray) -> set[bytes]:
    """How an array may be written: all of it as bytes, and single numbers that have enough digits."""
    found = forms_of_bytes(np.ascontiguousarray(array).tobytes()) if array.size > 1 else set()
    for number in np.asarray(array).ravel().tolist():
        found.add(repr(number).lstrip("-").encode())
    return {form for form in found if len(form) >= LEAST}


def forms_of_keys(folder: Path) -> set[bytes]:
    """What the key files of a folder hold: the identity's secret and the TLS key, whole and line by line."""
    found = set()
    for path in folder.glob("*.key.json"):
        kept = json.loads(path.read_text())
        found |= forms_of_bytes(bytes.fromhex(kept["identity_secret"]))
        for line in kept["tls_secret"].splitlines():
            if not line.startswith("-----"):
                found |= {line.encode(), *forms_of_bytes(base64.b64decode(line + "=" * (-len(line) % 4)))}
    return found


def spilled(forms: Iterable[bytes], seen: bytes) -> list[bytes]:
    """Those that can be read."""
    return [form for form in forms if form in seen]


def everything_in(folder: Path, names: Iterable[str]) -> bytes:
    """The content of all files of these names, wherever they lie below a folder."""
    wanted = set(names)
    return b"\n".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.name in wanted)
