"""What the numbers of a run depend on: Python, the packages that compute, the generator behind its seed, and the source itself."""

import functools
import hashlib
import platform
from importlib.metadata import version
from pathlib import Path

from sottovoce.simulation import GENERATOR


def versions() -> dict[str, str]:
    """What the numbers of a run depend on; the source too, since an edited copy keeps its version number."""
    packages = {name: version(name) for name in ("sottovoce", "numpy", "scipy", "jax", "jaxlib")}
    return {"python": platform.python_version(), **packages, "generator": GENERATOR, "source": _source_digest()}


@functools.cache  # a run names the code that was loaded, whatever happens to the files later
def _source_digest() -> str:
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
