"""The instance created by ``sowctl demo``, for tests of commands on it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOW = "2026-01-05T11:40:00Z"
"""A time at which the demo's records exist."""


def make_demo(parent: Path) -> Path:
    """Create a new demo in ``parent`` and return its directory; it has a file of one message, ``fills.ndjson``, too."""
    place = parent / "demo"
    command = [sys.executable, "-m", "sowctl", "demo", str(place)]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT, timeout=120)
    (place / "fills.ndjson").write_text('{"orderId":10001,"status":"filled"}\n')
    return place
