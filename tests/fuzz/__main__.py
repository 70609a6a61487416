"""Play many cases and say which answers are wrong: `python -m fuzz [--seed S] [--cases N] [--case NUMBER]`.

The same seed gives the same cases. A case that fails is printed with its number; `--seed S --case NUMBER` plays it again, and `--keep FOLDER`
leaves its files there to look at.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from fuzz import cases
from fuzz.judge import Answer, Case, complaints, play


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--case", type=int, help="play this one alone")
    parser.add_argument("--family", choices=cases.FAMILIES, help="play cases of one family alone")
    parser.add_argument("--keep", type=Path, help="folder for the files of the cases")
    options = parser.parse_args()
    numbers = range(options.first, options.first + options.cases) if options.case is None else [options.case]
    folder = options.keep or Path(tempfile.mkdtemp(prefix="sottovoce-fuzz-"))
    folder.mkdir(parents=True, exist_ok=True)
    failed, codes, slowest, started = [], Counter[str](), (0.0, -1), time.perf_counter()
    for number in numbers:
        chosen = cases.case(options.seed, number, options.family)
        answer = play(chosen, folder / str(number))
        wrong = complaints(chosen, answer)
        codes[f"{chosen.family}: {answer.code}"] += 1
        slowest = max(slowest, (answer.seconds, number))
        if wrong:
            failed.append(number)
        if wrong or options.case is not None:
            print(described(options.seed, number, chosen, answer, wrong), flush=True)
        if options.keep is None:
            shutil.rmtree(folder / str(number))
    print("; ".join(f"{name} ({count})" for name, count in sorted(codes.items())))
    print(
        f"{len(numbers)} cases, {len(failed)} failed, {time.perf_counter() - started:.0f} s; the slowest, {slowest[1]}, took {slowest[0]:.1f} s. "
        f"Failed: {', '.join(map(str, failed)) or 'none'}"
    )
    sys.exit(1 if failed else 0)


def described(seed: int, number: int, chosen: Case, answer: Answer, wrong: list[str]) -> str:
    """A case and what is wrong with its answer, with how to play it again."""
    said = answer.stderr.strip() if len(answer.stderr) < 1500 else answer.stderr[:1500] + " ..."
    lines = [
        f"--seed {seed} --case {number} ({chosen.family}): sottovoce {' '.join(ascii(word)[:200] for word in chosen.arguments)}"
    ]
    lines += [f"  WRONG: {each}" for each in wrong] + [
        f"  left with {answer.code} after {answer.seconds:.1f} s: {said}"
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    os.environ.setdefault("SOTTOVOCE_CACHE", str(Path(tempfile.gettempdir()) / "sottovoce-test-cache"))
    main()
