"""A simulation needs JAX, NumPy and SciPy; files, figures, solvers and bars are imported by those who use them."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "accelerator.py"
BLOCKED = """
import sys
for name in ("pydantic", "clarabel", "fcntl", "matplotlib", "rich", "typer", "safetensors", "cryptography", "networkx"):
    sys.modules[name] = None  # whoever imports it fails
"""
RUN = """
import runpy
import numpy as np
benchmark = runpy.run_path(SCRIPT)  # as a module: its measurements need an accelerator
import sottovoce as sv
problem = sv.problems.mean_estimation(np.ones((4, 1, 2)), radius=1.0)
run = sv.simulate(problem, sv.topologies.ring(4), sv.algorithms.atc(step_size=0.1), sv.noise.none(), rounds=3)
steps = benchmark["chunks"](problem, sv.topologies.ring(4), {"": sv.algorithms.atc(step_size=0.1)}, {"": sv.noise.none()}, benchmark["Settings"](rounds=3))
last = list(steps)[-1]
assert run.models.shape == (1, 4, 2) and np.array_equal(last.models["", ""], run.models)
heavy = [name for name in ("sottovoce.experiments", "scipy.stats") if name in sys.modules]
print("imported:", heavy)
"""
BELOW = """
import importlib, pathlib, sys
import sottovoce
ABOVE = ("simulation", "attacks", "experiments", "studies", "reports", "cli")
root = pathlib.Path(sottovoce.__file__).parent
paths = [path.relative_to(root.parent).with_suffix("") for path in sorted(root.rglob("*.py"))]
names = [".".join(path.parts).removesuffix(".__init__") for path in paths if path.parts[1] not in ABOVE]
found = [name for name in names if importlib.import_module(name) is not None and "jax" in sys.modules]
print(len(names), found[:1])
"""


def python(program):
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip()


def test_simulations_run_where_nothing_of_files_figures_and_solvers_is_installed():
    assert "sottovoce.experiments" not in python(BLOCKED + RUN.replace("SCRIPT", repr(str(SCRIPT))))


def test_no_module_below_the_simulation_imports_jax():
    modules, found = python(BELOW).split(" ", 1)
    assert int(modules) > 100
    assert found == "[]"
