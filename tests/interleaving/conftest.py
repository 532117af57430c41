"""The stages on which all orders are tried: in memory, and created once for all tests of a file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.interleaving.trial import Stages

SHARED = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@pytest.fixture(scope="module")
def stages() -> Iterator[Stages]:
    with tempfile.TemporaryDirectory(dir=SHARED, prefix="sowctl-test-") as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", name)
        yield Stages(Path(name) / "stages")
