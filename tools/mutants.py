"""A sampled mutation run over accounting/: which small changes of the code does no test notice?

    python tools/mutants.py                     all files of tools/mutants.toml
    python tools/mutants.py gaussian.py ...     some of them
    python tools/mutants.py --again             the survivors of the last run, with the tests as they are now

Cosmic Ray (https://cosmic-ray.readthedocs.io) finds and applies the mutants; here they are sampled, with a fixed seed, because all of them would
take days, and each is shown to the tests of its own file only. Every mutant is applied to a copy of the tree and tested in a fork of this process,
which has imported everything but the package: imports would be half of the time. Results are added to mutants.json, so that an interrupted run
continues. Survivors are for people: an equivalent mutant, or a missing test.
"""

import argparse
import ast
import difflib
import json
import os
import random
import signal
import sys
import tempfile
import time
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from cosmic_ray.commands.init import _all_work_items
from cosmic_ray.mutating import use_mutation
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_item import MutationSpec
from planted_faults import ROOT, check_copy, copied_tree, environment

RESULTS = ROOT / "mutants.json"
FOLDER = Path("src/sottovoce/accounting")
BROKEN = 99  # exit code of a child in which pytest itself failed
IMPORTED = (
    "numpy",
    "scipy.stats",
    "scipy.optimize",
    "scipy.sparse.linalg",
    "networkx",
    "clarabel",
    "mpmath",
)


def unseen_positions(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """The places of signatures, annotations, docstrings and raised errors, where a mutant changes no number."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):  # from `def` up to the body
            found.append(((node.lineno, node.col_offset), (node.body[0].lineno, node.body[0].col_offset)))
        annotation = getattr(node, "annotation", None)
        if annotation is not None:
            found.append(
                ((annotation.lineno, annotation.col_offset), (annotation.end_lineno, annotation.end_col_offset))
            )
        if isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            found.append(((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)))
    return found


def sampled(name: str, settings: dict) -> list[MutationSpec]:
    """The mutants of one file that are tried; the same ones whichever files are asked for."""
    path = FOLDER / name
    source = path.read_text()
    hidden = unseen_positions(source)
    allowed = {f"core/{operator}" for operator in settings["operators"]}
    every = [item.mutations[0] for item in _all_work_items([path], {})]
    open_ = [
        one
        for one in every
        if one.operator_name in allowed and not any(start <= tuple(one.start_pos) < end for start, end in hidden)
    ]
    count = min(len(open_), max(1, round(settings["per_hundred_lines"] * source.count("\n") / 100)))
    return random.Random(f"{settings['seed']} {name}").sample(open_, count)


def key_of(name: str, one: MutationSpec) -> str:
    """What identifies a mutant as long as its file does not change."""
    return f"{name}:{one.start_pos[0]}:{one.start_pos[1]} {one.operator_name.removeprefix('core/')} {one.occurrence}"


def tried(name: str, one: MutationSpec, settings: dict) -> dict[str, str]:
    """Whether some test of its file fails on a mutant, and what the mutant is."""
    operator = get_operator(one.operator_name)(**one.operator_args)
    with use_mutation(one.module_path, operator, one.occurrence) as (before, after):
        outcome = tests_pass([f"tests/accounting/{test}" for test in settings["tests"][name]], settings["timeout"])
    change = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    lines = [line for line in change if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    return {"outcome": "survived" if outcome else "killed", "change": "\n".join(lines)}


def tests_pass(tests: list[str], timeout: float) -> bool:
    """Whether these tests pass, in a child of this process; False for those that take too long."""
    child = os.fork()
    if child == 0:
        found = BROKEN
        try:  # nothing of the parent's, least of all its copy, may be cleared away here
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1), os.dup2(nowhere, 2)
            found = int(
                pytest.main(
                    ["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow and not exhaustive and not models", *tests]
                )
            )
        finally:
            os._exit(found)
    ends = time.monotonic() + timeout
    while time.monotonic() < ends:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            if code == BROKEN:
                sys.exit(f"pytest did not run on {tests}: no verdict on any mutant.")
            return code == 0
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def main() -> int:
    """Try the mutants and print the survivors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", help="files of accounting/, as in tools/mutants.toml")
    parser.add_argument("--again", action="store_true", help="try the survivors of the last run again")
    parser.add_argument("--count", action="store_true", help="only say how many mutants there are")
    chosen = parser.parse_args()
    settings = tomllib.loads((ROOT / "tools" / "mutants.toml").read_text())
    results: dict[str, dict[str, str]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        copy = copied_tree(Path(folder))
        os.chdir(copy)
        os.environ.update(environment(copy))
        check_copy(copy)
        sys.path.insert(0, str(copy / "src"))
        sys.dont_write_bytecode = True
        for module in IMPORTED:
            import_module(module)
        mutants = [(name, one) for name in chosen.files or settings["tests"] for one in sampled(name, settings)]
        if chosen.count:
            print(f"{len(mutants)} mutants")
            return 0
        # In random order, so that a run that is cut short is a sample of all files too.
        random.Random(settings["seed"]).shuffle(mutants)
        for name, one in mutants:
            key = key_of(name, one)
            before = results.get(key, {}).get("outcome")
            if before is not None and not (chosen.again and before == "survived"):
                continue
            results[key] = tried(name, one, settings)
            RESULTS.write_text(json.dumps(results, indent=1))
            print(f"{results[key]['outcome']:12}{key}", flush=True)
    outcomes = [one["outcome"] for one in results.values()]
    for key, one in results.items():
        if one["outcome"] == "survived":
            print(f"\n{key}\n{one['change']}")
    print(f"\n{len(outcomes)} mutants, {outcomes.count('survived')} survived")
    return 0


if __name__ == "__main__":
    sys.exit(main())
