"""Mutated data files: tables of cells (CSV, LIBSVM) and NumPy archives."""

import io
import os
import zipfile
from random import Random
from typing import Any

import numpy as np

from fuzz.bases import csv_rows, libsvm_rows, npz_arrays, npz_bytes
from fuzz.mutate import mutated_text

UNPICKLED = "unpickled"  # the folder that a loaded pickle would make

_CELLS = (
    "", " ", "nan", "NaN", "inf", "-inf", "1e308", "-1e308", "1e400", "1e39", "1e-320", "-0", "0", "1", "-1", "2", "7.5", "1_000", "0x10",
    "1,5", "٣", "é", "abc", '"', '""', "'1'", " 1", "1 ", "+1", "1e", "None", "TRUE", "=1+1", "[bold]", "\x1b[31m", "1:2", "#", "x" * 500,
    "9" * 400, "1" + "0" * 5000,
)  # fmt: skip
_ENTRIES = (
    "0:1", "-1:1", "1:1", "2:1", "99999999:1", "999999999999999999:1", "9" * 40 + ":1", "3:", ":3", "3", "a:1", "1:a", "1.5:1", "٣:1", "4:nan",
    "4:inf", "4:1e308", "4:1e400", "5:1e200", "qid:1", "1:2:3", "#", "+4:1", "4:1_0",
)  # fmt: skip
_NAMES = ("", "first", "label", " ", "é", "[bold]", "a\tb", "1", "x" * 1000, "label ", '"q"', "\x1b[0m")


class _Trap:
    """Leaves a folder behind if anybody loads it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (UNPICKLED,)


def csv_bytes(random: Random) -> bytes:
    """A CSV file with one thing wrong, or unusual."""
    rows = csv_rows()
    row, column = random.randrange(1, len(rows)), random.randrange(len(rows[0]))
    match random.randrange(12):
        case 0 | 1 | 2 | 3:
            rows[row][column] = random.choice(_CELLS)
        case 4:
            for each in rows[1:]:
                each[column] = random.choice((*_CELLS[:14], each[column])) if random.random() < 0.5 else rows[1][column]
        case 5:
            rows[0][column] = random.choice(_NAMES)
        case 6:
            random.choice(
                (rows[row].pop, lambda: rows[row].append("1"), rows[row].clear, lambda: rows.insert(row, [""]))
            )()
        case 7:
            kept = random.choice((0, 1, 2, 3, 4, 5))
            rows = rows[:kept]
        case 8:
            rows = [each[: random.choice((0, 1, 2))] if random.random() < 0.1 else each[:2] for each in rows]
        case 9:
            scale = random.choice(("e308", "e300", "e160", "e39", "e-320"))
            rows = [rows[0], *([cell + scale for cell in each[:-1]] + each[-1:] for each in rows[1:])]
        case _:
            return mutated_text(random, "".join(",".join(each) + "\n" for each in rows))
    return "".join(",".join(each) + random.choice(("\n", "\n", "\r\n")) for each in rows).encode()


def libsvm_bytes(random: Random) -> bytes:
    """A LIBSVM file with one thing wrong, or unusual."""
    rows = libsvm_rows()
    row = random.randrange(len(rows))
    match random.randrange(8):
        case 0 | 1:
            rows[row].append(random.choice(_ENTRIES))
        case 2:
            rows[row].insert(random.randrange(len(rows[row]) + 1), random.choice(_ENTRIES))
        case 3:
            random.shuffle(rows[row])
        case 4:
            rows[row][0] = random.choice(_CELLS)
        case 5:
            rows = [[each[0]] if random.random() < 0.9 else each for each in rows][: random.choice((0, 1, 3, 30))]
        case 6:
            scale = random.choice(("e308", "e300", "e160", "e39", "e-320"))
            rows = [[each[0], *(entry + scale for entry in each[1:])] for each in rows]
        case _:
            return mutated_text(random, "".join(" ".join(each) + "\n" for each in rows))
    return "".join(" ".join(each) + "\n" for each in rows).encode()


def _arrays(random: Random, name: str) -> Any:
    """One array instead of the sound one."""
    sound = npz_arrays()[name]
    types = ("f2", "f4", ">f8", "i1", "u8", "?", "c16", "U5", "S5", "M8[s]", "m8[s]", "V8")
    return random.choice(
        (
            lambda: sound[: random.choice((0, 1, 2, 5))],
            lambda: sound.reshape(-1),
            lambda: sound[..., None],
            lambda: np.asarray(sound[0]),
            lambda: np.zeros(random.choice(((0,), (0, 3), (3, 0), ())), dtype=sound.dtype),
            lambda: (
                np.frombuffer(sound.astype("f8").tobytes(), "u1").view(random.choice(types))
                if name == "features"
                else sound
            ),
            lambda: sound.astype(random.choice(types[:9])),
            lambda: np.array([(1.0, 2)] * len(sound), dtype=[("a", "f8"), ("b", "i4")]),
            lambda: sound * random.choice((1e308, 1e300, 1e160, 1e39, 1e-320, -1.0)),
            lambda: np.where(
                np.arange(sound.size).reshape(sound.shape) == 4, random.choice((np.nan, np.inf, -np.inf, 1e308)), sound
            ),
            lambda: sound + random.choice((0.5, 1e15, -5, 1000, 2**53)),
        )
    )()


def npz_file(random: Random) -> bytes:
    """A NumPy archive with one thing wrong, or unusual."""
    arrays: dict[str, Any] = npz_arrays()
    name = random.choice(("features", "targets"))
    match random.randrange(9):
        case 0 | 1 | 2:
            with np.errstate(all="ignore"):
                arrays[name] = _arrays(random, name)
        case 3:
            arrays[random.choice(("X", "x", "labels", "y", "[bold]", "é", "", "features.npy", "a/b"))] = arrays.pop(
                name
            )
        case 4:
            random.choice(
                (
                    lambda: arrays.pop(name),
                    lambda: arrays.update(X=arrays["features"], y=arrays["targets"]),
                    arrays.clear,
                )
            )()
        case 5:
            arrays[name] = np.array([_Trap()] * len(arrays[name]), dtype=object)
            return npz_bytes(arrays, pickled=True)
        case 6:
            return _bytes_of(random, npz_bytes(arrays))
        case 7:
            return _foreign(random, arrays, name)
        case _:
            return mutated_text(random, "a,b\n1,2\n")
    return npz_bytes(arrays)


def _bytes_of(random: Random, whole: bytes) -> bytes:
    """Cut or damaged somewhere."""
    place = random.randrange(len(whole))
    if random.random() < 0.4:
        return whole[:place]
    return whole[:place] + random.randbytes(random.choice((1, 4, 40))) + whole[place + random.choice((0, 1, 4)) :]


def _foreign(random: Random, arrays: dict[str, Any], name: str) -> bytes:
    """A single array, a pickle, or a zip file whose member is no array or claims to be a large one."""
    stream = io.BytesIO()
    if random.random() < 0.2:
        np.save(stream, arrays[name])
        return stream.getvalue()
    if random.random() < 0.3:
        np.save(stream, np.array([_Trap()], dtype=object), allow_pickle=True)
        return stream.getvalue()
    shape = random.choice(
        ("(1000000000000, 3)", "(36, 99999999999)", "(-1, 3)", "(36, 3, 'a')", "(36,", "()", "(" * 300, "36")
    )
    kind = random.choice(("'<f8'", "'|O'", "'<f16'", "'<U9'", "'bad'", "[('a', '<f8')]"))
    header = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    member = (
        b"\x93NUMPY"
        + random.choice((b"\x01\x00", b"\x01\x00", b"\x09\x00"))
        + len(header).to_bytes(2, "little")
        + header
        + b"\0" * 64
    )
    with zipfile.ZipFile(stream, "w", random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for each in arrays:
            archive.writestr(f"{each}.npy", member if each == name or random.random() < 0.3 else random.randbytes(20))
    return stream.getvalue()
