"""Plant known faults, one at a time, and require that the test named for each of them fails.

    python tools/planted_faults.py              all faults of tools/faults.toml
    python tools/planted_faults.py NAME ...     some of them
    python tools/planted_faults.py --write      only write the table in CONTRIBUTING.md again

A fault replaces a short piece of text that stands exactly once in its file. It is planted in a copy of the tree. The named test must pass
without it and fail with it, by a failed test and not by an error on the way to it.
"""

import argparse
import compileall
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path("src/sottovoce")
BEGINS, ENDS = "<!-- planted faults: written by tools/planted_faults.py --write -->", "<!-- end of planted faults -->"
TIMEOUT = 600  # seconds for one test
LEFT_OUT = (".git", ".venv", ".hypothesis", "*_cache", "runs", "__pycache__")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A mistake that somebody could make.

    Attributes:
        name: one word for it.
        what: the mistake, in words.
        file: where, below src/sottovoce.
        find: what stands there now, exactly once.
        replace: what stands there with the fault.
        test: the test that fails then, `file::function` or `file::class::function` below tests.
    """

    name: str
    what: str
    file: str
    find: str
    replace: str
    test: str


def read_faults() -> list[Fault]:
    """The faults of tools/faults.toml."""
    return [Fault(**one) for one in tomllib.loads((ROOT / "tools" / "faults.toml").read_text())["fault"]]


def mistakes_in(faults: list[Fault]) -> list[str]:
    """What is wrong with the list itself: text that is not there exactly once, tests that do not exist, repeated names."""
    found = []
    for fault in faults:
        source = ROOT / PACKAGE / fault.file
        count = source.read_text().count(fault.find) if source.exists() else 0
        if count != 1:
            found.append(
                f"{fault.name}: what it replaces stands {count} times in {fault.file}; it must stand there once"
            )
        if fault.find == fault.replace:
            found.append(f"{fault.name}: it changes nothing")
        file, *_, function = fault.test.split("::")
        test = ROOT / "tests" / file
        if not test.exists() or not re.search(rf"^ *def {re.escape(function)}\(", test.read_text(), re.MULTILINE):
            found.append(f"{fault.name}: there is no test {fault.test}")
    names = [fault.name for fault in faults]
    found += [f"{name}: two faults have this name" for name in sorted({n for n in names if names.count(n) > 1})]
    return found


def table(faults: list[Fault]) -> str:
    """The faults and their tests as a table."""
    lines = ["| in | fault | caught by |", "|---|---|---|"]
    for fault in sorted(faults, key=lambda fault: fault.file):
        file, *_, function = fault.test.split("::")
        lines.append(f"| `{fault.file}` | {fault.what} | [`{function}`](tests/{file}) |")
    return "\n".join(lines)


def with_table(text: str, faults: list[Fault]) -> str:
    """The text of CONTRIBUTING.md with this table between its marks."""
    before, _, rest = text.partition(BEGINS)
    _, _, after = rest.partition(ENDS)
    return f"{before}{BEGINS}\n{table(faults)}\n{ENDS}{after}"


def copied_tree(folder: Path) -> Path:
    """A compiled copy of the tree. Files that change later have another date and are compiled again, in memory only."""
    copy = folder / "tree"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
    compileall.compile_dir(copy / "src", quiet=2)
    return copy


def environment(copy: Path) -> dict[str, str]:
    """Variables under which Python imports the copy and leaves no bytecode of a faulty file behind."""
    return {
        **os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
    }  # fmt: skip


def run_tests(copy: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    """Run these tests of the copy, up to the first failure."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=line"]
    return subprocess.run(
        [*command, *(f"tests/{test}" for test in tests)],
        cwd=copy, env=environment(copy), capture_output=True, text=True, timeout=TIMEOUT * len(tests), check=False,
    )  # fmt: skip


def check_copy(copy: Path) -> None:
    """Make sure that the tests see the copy, not an installed package."""
    found = subprocess.run(
        [sys.executable, "-c", "import sottovoce; print(sottovoce.__file__)"],
        cwd=copy, env=environment(copy), capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    if not Path(found).resolve().is_relative_to(copy.resolve()):
        sys.exit(f"tests would import {found}, not the copy at {copy}: no fault would be seen.")


def verdict(copy: Path, fault: Fault) -> str:
    """What the fault's test says with the fault: "caught", or why not."""
    path = copy / PACKAGE / fault.file
    original, stat = path.read_text(), path.stat()
    path.write_text(original.replace(fault.find, fault.replace))
    try:
        done = run_tests(copy, fault.test)
    except subprocess.TimeoutExpired:
        return f"NO ANSWER within {TIMEOUT} s"
    finally:
        path.write_text(original)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    if done.returncode == 1 and " failed" in done.stdout:
        return "caught"
    return "SURVIVED" if done.returncode == 0 else f"BROKEN (pytest exits {done.returncode})"


def main() -> int:
    """Plant the faults; 0 if every one was caught."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="faults to plant; all of them if none is named")
    parser.add_argument("--write", action="store_true", help="write the table in CONTRIBUTING.md and stop")
    chosen = parser.parse_args()
    faults = read_faults()
    unknown = set(chosen.names) - {fault.name for fault in faults}
    wrong = mistakes_in(faults) + [f"{name}: no such fault" for name in sorted(unknown)]
    if wrong:
        sys.exit("\n".join(wrong))
    if chosen.write:
        page = ROOT / "CONTRIBUTING.md"
        page.write_text(with_table(page.read_text(), faults))
        return 0
    planted = [fault for fault in faults if not chosen.names or fault.name in chosen.names]
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = copied_tree(Path(folder))
        check_copy(copy)
        clean = run_tests(copy, *sorted({fault.test for fault in planted}))
        if clean.returncode != 0:
            sys.exit(f"without any fault the named tests do not pass:\n{clean.stdout[-3000:]}")
        for fault in planted:
            started = time.monotonic()
            found = verdict(copy, fault)
            missed += found != "caught"
            print(f"{found:10}{time.monotonic() - started:6.1f} s  {fault.name:28}{fault.test}", flush=True)
    print(f"{len(planted)} faults planted, {len(planted) - missed} caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
