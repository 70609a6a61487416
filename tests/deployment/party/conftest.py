"""Where the stores of these tests lie: in memory where the system has such a folder, since every commit waits for the disk."""

import tempfile
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")


@pytest.fixture
def folder():
    """An empty folder for one test."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        yield Path(name)
