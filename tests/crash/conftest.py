"""Crash suites work in memory if there is space: they test order and contents, not the speed of the disk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import Child

SHARED = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@pytest.fixture(autouse=True)
def no_child_outlives() -> Iterator[None]:
    """However a test ends, the processes that it forked end with it."""
    yield
    Child.end_all()


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory in memory, also used for temporary files."""
    with tempfile.TemporaryDirectory(dir=SHARED, prefix="sowctl-test-") as name:
        place = Path(name) / "temporary"
        place.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(place))
        yield Path(name)
