"""What takes long to load is loaded by those who use it: neither the package nor the command's help needs it."""

import subprocess
import sys

HEAVY = ("clarabel", "jax", "matplotlib", "pydantic", "scipy.stats")
PROGRAM = f"""
import sys
def loaded():
    return [name for name in {HEAVY!r} if name in sys.modules]
import sottovoce
print("package", loaded())
from sottovoce.cli import app
try:
    app(["--help"])
except SystemExit as leaving:
    print("help", leaving.code, loaded())
import pydantic
print("noticed", loaded())
"""


def test_neither_the_package_nor_help_loads_what_is_heavy():
    finished = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert finished.returncode == 0, finished.stderr
    lines = finished.stdout.splitlines()
    assert "package []" in lines
    assert "help 0 []" in lines
    assert any("reproduce" in line for line in lines)
    assert "noticed ['pydantic']" in lines
