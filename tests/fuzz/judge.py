"""Plays a case and says what is wrong with how the command answered.

A command may leave with 0 (done), 1 (a verdict), 2 (bad input) or 3 (a budget). An error is one short paragraph on stderr. Nobody sees a
traceback or a warning of some library. Where nothing was done, nothing has changed on the disk.
"""

import contextlib
import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from typer.testing import CliRunner

from fuzz.data_mutations import UNPICKLED
from sottovoce.cli import app

SECONDS = 30  # no case may take longer, on a machine that has nothing else to do
LONGEST = 3000  # characters of an error; a paragraph, whatever was given
MEMORY = 16 * 2**30  # bytes that a process of its own may reserve, so that one that asks for too much fails alone
LIMITED = f"import resource as r; r.setrlimit(r.RLIMIT_AS, ({MEMORY}, r.getrlimit(r.RLIMIT_AS)[1]))"
COMMAND = [sys.executable, "-c", f"{LIMITED}; from sottovoce.cli import main; main()"]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A command line and the files it finds."""

    family: str
    arguments: tuple[str, ...]
    files: dict[str, bytes] = field(default_factory=dict)
    specials: dict[str, str] = field(default_factory=dict)  # path -> what is there instead of a file
    separate: bool = False  # in a process of its own


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came of a case."""

    code: int | None
    stdout: str
    stderr: str
    seconds: float
    failure: str = ""  # a traceback, or that there was no answer
    warned: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()  # paths that were made, changed or removed
    unfinished: tuple[str, ...] = ()  # temporary files, and runs that did not finish


def allowed_seconds() -> int:
    """The limit, longer in proportion where more processes want to run than there are cores for."""
    return math.ceil(SECONDS * max(1.0, os.getloadavg()[0] / len(os.sched_getaffinity(0))))


class NoAnswer(BaseException):
    """The time is over; no `except Exception` of the command may catch it."""


def play(case: Case, folder: Path) -> Answer:
    """Run the command in a new folder that holds the case's files."""
    folder = folder / "two" / "below"  # so that what "../.." names is still in the given folder
    folder.mkdir(parents=True)
    with contextlib.chdir(folder), contextlib.ExitStack() as opened:
        for name, content in case.files.items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_bytes(content)
        for name, kind in case.specials.items():
            _make_special(Path(name), kind, opened)
        before = _snapshot(Path())
        answer = _in_a_process(case) if case.separate else _here(case)
        after = _snapshot(Path())
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    unfinished = [name for name in changed if name.endswith(".part") or _running(folder / name)]
    return Answer(**{**vars(answer), "changed": tuple(changed), "unfinished": tuple(unfinished)})


def complaints(case: Case, answer: Answer) -> list[str]:
    """What is wrong with an answer; empty if nothing is."""
    found = [answer.failure] if answer.failure else []
    if not answer.failure and answer.code not in (0, 1, 2, 3):
        found.append(f"left with {answer.code}")
    if "Traceback" in answer.stderr + answer.stdout:
        found.append("a traceback is printed")
    if answer.warned:
        found.append(f"warnings: {'; '.join(answer.warned)}")
    if answer.seconds > allowed_seconds():
        found.append(f"took {answer.seconds:.0f} s")
    if any(Path(name).name == UNPICKLED for name in answer.changed):
        found.append("a pickle was loaded")
    if answer.failure:
        return found + ([f"left behind: {', '.join(answer.changed)}"] if answer.changed else [])
    return found + (_wrong_result(case, answer) if answer.code in (0, 1) else _wrong_error(case, answer))


def _wrong_result(case: Case, answer: Answer) -> list[str]:
    found = [f"unfinished: {', '.join(answer.unfinished)}"] if answer.unfinished else []
    asks_for_words = {"-h", "--help", "--version"} & set(case.arguments)
    return found + (_wrong_json(answer.stdout) if "--json" in case.arguments and not asks_for_words else [])


def _wrong_error(case: Case, answer: Answer) -> list[str]:
    error = answer.stderr.strip("\n")
    found = [f"left behind: {', '.join(answer.changed)}"] if answer.changed else []
    if not error and case.arguments and not answer.stdout:
        found.append("no word about what is wrong")
    if re.search(r"\n\s*\n", error):
        found.append("the error is not one paragraph")
    if len(error) > LONGEST:
        found.append(f"the error has {len(error)} characters")
    if strange := sorted({character for character in error if not character.isprintable() and character != "\n"}):
        found.append(f"the error holds {', '.join(map(ascii, strange))}")
    return found


def _wrong_json(text: str) -> list[str]:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no JSON")

    try:
        json.loads(text, parse_constant=refuse)
    except ValueError as error:
        return [f"--json printed something else: {error}"]
    return []


def _here(case: Case) -> Answer:
    started, failure = time.perf_counter(), ""
    with warnings.catch_warnings(record=True) as caught, _alarm():
        warnings.simplefilter("always")
        try:
            result = CliRunner().invoke(app, list(case.arguments))
        except NoAnswer:
            return Answer(code=None, stdout="", stderr="", seconds=time.perf_counter() - started, failure="no answer")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        failure = "".join(traceback.format_exception(result.exception)[-3:])
    return Answer(
        code=result.exit_code, stdout=result.stdout, stderr=result.stderr, seconds=time.perf_counter() - started, failure=failure,
        warned=tuple(f"{each.category.__name__} in {Path(each.filename).name}: {str(each.message)[:100]}" for each in caught),
    )  # fmt: skip


def _in_a_process(case: Case) -> Answer:
    started = time.perf_counter()
    try:
        result = subprocess.run(
            [*COMMAND, *case.arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=allowed_seconds(), text=True, errors="replace"
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Answer(code=None, stdout="", stderr="", seconds=time.perf_counter() - started, failure="no answer")
    warned = tuple(line for line in result.stderr.splitlines() if re.search(r"\.py:\d+: \w*Warning", line))
    return Answer(
        code=result.returncode,
        stdout=result.stdout,
        stderr=result.stderr,
        seconds=time.perf_counter() - started,
        warned=warned,
    )


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise NoAnswer

    previous = signal.signal(signal.SIGALRM, ring)
    signal.alarm(allowed_seconds())
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def _make_special(path: Path, kind: str, opened: contextlib.ExitStack) -> None:
    path.unlink(missing_ok=True)
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "socket":
            opened.enter_context(contextlib.closing(socket.socket(socket.AF_UNIX))).bind(str(path))
        case "unreadable":
            path.write_bytes(b"")
            path.chmod(0)
        case "loop":
            path.symlink_to(path.name)
        case "device":
            path.symlink_to("/dev/zero")


def _snapshot(folder: Path) -> dict[str, bytes | str]:
    """Every path below a folder, with what a file holds."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        plain = path.is_file() and not path.is_symlink() and os.access(path, os.R_OK)
        found[str(path)] = path.read_bytes() if plain else "no plain file"
    return found


def _running(path: Path) -> bool:
    return path.name == "run.json" and b'"status": "finished"' not in path.read_bytes()
