"""Crash suites work in memory where there is room: what they test is order and contents, not the disk's speed."""

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
    """Whichever way a test ends, the processes that it forked end with it."""
    yield
    Child.end_all()


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory in memory, for temporary files too."""
    with tempfile.TemporaryDirectory(dir=SHARED, prefix="sowctl-test-") as name:
        place = Path(name) / "temporary"
        place.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(place))
        yield Path(name)
