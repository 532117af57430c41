"""Fixtures of the configuration tests: a small instance around a snippet, and the location of shared test data."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file below the temporary directory and return its path."""

    def write_file(text: str | bytes, name: str = "config.xml") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write_file


@pytest.fixture
def instance(write: Write) -> Write:
    """Write a configuration: the content of ``sow``, ``log`` and ``top`` inside a named instance."""

    def write_instance(sow: str = "", *, log: str = "", top: str = "") -> Path:
        parts = ["<AMPSConfig>\n<Name>test</Name>\n", top]
        if sow:
            parts.append(f"<SOW>\n{sow}\n</SOW>\n")
        if log:
            parts.append(
                f"<TransactionLog>\n<JournalDirectory>./journals</JournalDirectory>\n{log}\n</TransactionLog>\n"
            )
        return write("".join([*parts, "</AMPSConfig>\n"]))

    return write_instance


@pytest.fixture(scope="session")
def shared() -> Path:
    """The directory of shared conformance data, which is not part of a checkout."""
    root = Path(os.environ.get("SOWCTL_SHARED") or Path(__file__).parents[3] / "shared")
    if not (root / "conformance").is_dir():
        pytest.skip(f"no shared conformance data at {root} (set SOWCTL_SHARED)")
    return root
