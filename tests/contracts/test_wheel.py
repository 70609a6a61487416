"""The wheel is complete: in a folder of its own, without the checkout, extras or a network, the first commands work."""

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HIDDEN = ("sklearn", "dp_accounting", "pandas", "polars", "pyarrow")  # of the extras, which this environment has
QUICK = ("experiment.rounds=100", "experiment.repeats=2")
BLOCKED = f"""
import socket, sys
for name in {HIDDEN!r}:
    sys.modules[name] = None
def refuse(*arguments, **options):
    raise OSError("no network here")
socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
"""


def run(*command: object, cwd: Path) -> str:
    surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=surroundings,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel of what git tracks or would, built apart so that nothing is left in the checkout."""
    tree, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("dist")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    for name in filter(None, listed):
        if not (ROOT / name).exists():
            continue
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink():
            (tree / name).symlink_to(os.readlink(ROOT / name))
        else:
            (tree / name).write_bytes((ROOT / name).read_bytes())
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", out, tree, cwd=out)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def bin_folder(wheel, tmp_path_factory) -> Path:
    """An environment with the wheel; other packages are those of this one, extras hidden and the network cut."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    target = ["install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    run(sys.executable, "-m", "pip", "--python", folder / "bin" / "python", *target, wheel, cwd=folder)
    # The wheel's own folder stands first on the path; a module that Python imports at every start hides the extras.
    (site / "others.pth").write_text(f"{Path(pytest.__file__).parents[1]}\nimport blocked\n")
    (site / "blocked.py").write_text(BLOCKED)
    return folder / "bin"


@pytest.mark.slow
def test_wheel_holds_data_with_licences_reproductions_comparisons_and_pages(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    for folder, place in (("docs", "cli/pages"), ("comparisons", "experiments/comparison/comparisons"), ("reproductions", "studies/reproductions")):  # fmt: skip
        kept = [
            path.relative_to(ROOT / folder)
            for path in (ROOT / folder).rglob("*")
            if path.suffix in (".md", ".toml", ".json")
        ]
        assert kept
        assert {f"sottovoce/{place}/{path}" for path in kept} <= set(names)
    for name in ("breast_cancer.npz", "digits.npz", "diabetes.npz", "README.md", "LICENSE-scikit-learn"):
        assert f"sottovoce/problems/loaders/data/{name}" in names
    assert not [name for name in names if name.startswith("tests")]


@pytest.mark.slow
def test_first_commands_work_from_the_wheel_in_an_empty_folder(bin_folder, tmp_path):
    python, sottovoce = bin_folder / "python", bin_folder / "sottovoce"
    where = run(
        python,
        "-c",
        "import sottovoce, importlib.util as u; print(sottovoce.__file__, u.find_spec('jax').origin)",
        cwd=tmp_path,
    )
    assert where.startswith(str(bin_folder.parent))
    installed = sorted(
        path.relative_to(bin_folder.parent) for path in bin_folder.parent.rglob("*") if "__pycache__" not in path.parts
    )

    demo = json.loads(run(sottovoce, "demo", "--json", cwd=tmp_path))
    assert demo
    listed = json.loads(run(sottovoce, "reproduce", "list", "--json", cwd=tmp_path))["reproductions"]
    assert list(listed) == sorted(path.parent.name for path in ROOT.glob("reproductions/*/config.toml"))
    found = json.loads(run(sottovoce, "reproduce", "rizk2023-classification", *QUICK, "--json", cwd=tmp_path))
    assert all((tmp_path / path).is_file() for path in found["reproductions"][0]["figures"])
    assert "# Guarantees" in json.loads(run(sottovoce, "docs", "guarantees", "--json", cwd=tmp_path))["text"]

    assert {path.name for path in tmp_path.iterdir()} == {"runs"}
    assert installed == sorted(
        path.relative_to(bin_folder.parent) for path in bin_folder.parent.rglob("*") if "__pycache__" not in path.parts
    )
