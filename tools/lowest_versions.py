"""Tries the lowest versions that pyproject.toml allows, in an environment of their own.

    python tools/lowest_versions.py                     the tests below
    python tools/lowest_versions.py tests/accounting    others

uv resolves every package that pyproject.toml names, extras of users included, to the lowest version that can be installed beside the others; what
these need in turn is as new as it may be. Warnings of old packages are no concern of ours, so they are ignored. Needs a registry; nothing of the
checkout's own environment is touched. A bound that fails here is raised, with the test that showed it.
"""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = ("accounting", "deploy", "parquet", "sklearn")
TEST_PACKAGES = ("pytest", "hypothesis", "jsonschema", "mpmath", "pandas", "polars", "prv-accountant")
# At least one file that uses each package in earnest. Left out are two that speak of the newest versions: test_loaders.py of the bits of scikit-learn's diabetes,
# and test_subsampled.py, which shows on which side today's Fourier transforms err.
TESTS = (
    "tests/accounting/test_absorption.py",
    "tests/accounting/test_guarantee.py",
    "tests/accounting/test_repeats.py",
    "tests/cli/test_commands.py",
    "tests/clipping",
    "tests/deployment/gopa/test_keys.py",
    "tests/deployment/identity",
    "tests/deployment/transports/test_contract.py",
    "tests/deployment/transports/test_direct.py",
    "tests/deployment/transports/test_relayed.py",
    "tests/problems/columns",
    "tests/reports/test_save.py",
    "tests/simulation/test_rounds.py",
    "tests/topologies",
)


def main() -> int:
    """Install, run the tests named on the command line (or TESTS), and return what pytest returns."""
    with tempfile.TemporaryDirectory() as folder:
        python = _environment(Path(folder))
        command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore"]
        chosen = sys.argv[1:] or TESTS
        finished = subprocess.run(
            [*command, "-m", "not slow and not exhaustive", *chosen], cwd=ROOT, env=_environ(), check=False
        )
    return finished.returncode


def _environment(folder: Path) -> str:
    """A new environment with the lowest versions and what the tests need; returns its Python."""
    venv.create(folder, with_pip=True)
    python, uv = str(folder / "bin" / "python"), str(folder / "bin" / "uv")
    install = [uv, "pip", "install", "--quiet", "--python", python]
    _run(python, "-m", "pip", "install", "--quiet", "uv")
    extras = [word for extra in EXTRAS for word in ("--extra", extra)]
    _run(*install, "--resolution", "lowest-direct", *extras, "--requirements", str(ROOT / "pyproject.toml"))
    lowest = folder / "lowest.txt"
    lowest.write_text(_run(uv, "pip", "freeze", "--quiet", "--python", python), encoding="utf-8")
    print(lowest.read_text(encoding="utf-8"), flush=True)
    _run(*install, *TEST_PACKAGES, "--constraints", str(lowest))
    _run(*install, "--no-deps", "--editable", str(ROOT))
    return python


def _run(*command: str) -> str:
    return subprocess.run(command, env=_environ(), check=True, stdout=subprocess.PIPE, text=True).stdout


def _environ() -> dict[str, str]:
    """The surroundings of the commands, without a path that would bring another copy of the package or of anything else."""
    server = ROOT / ".venv" / "nats" / "usr" / "sbin" / "nats-server"  # brought by `make nats`
    brought = {"SOTTOVOCE_NATS_SERVER": str(server)} if server.exists() else {}
    return brought | {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


if __name__ == "__main__":
    sys.exit(main())
