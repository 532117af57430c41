"""What the machine is and what runs on it besides: printed with every result."""

from __future__ import annotations

import importlib
import os
import platform
import sqlite3
from pathlib import Path

from sowctl.version import VERSION


def facts(directory: Path) -> str:
    """A few lines about processor, memory, system, file system of ``directory``, versions and load."""
    cpu = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "?"
    )
    memory = next((int(line.split()[1]) >> 20 for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    versions = [f"sowctl {VERSION}", f"Python {platform.python_version()}", f"SQLite {sqlite3.sqlite_version}"]
    for name in ("duckdb", "lmdb", "msgspec", "numpy"):
        try:
            versions.append(f"{name} {importlib.import_module(name).__version__}")
        except ImportError:
            versions.append(f"{name} absent")
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    system = f"{platform.system()} {platform.release()}, {_file_system(directory)}"
    return (
        f"{cpu}, {os.cpu_count()} cores, {memory} GiB, {system}"
        f"\n{', '.join(versions)}\nload averages at the start: {load} (a quiet machine has about 0)"
    )


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def _file_system(directory: Path) -> str:
    place, kind = "", "?"
    for line in _lines("/proc/mounts"):
        _, mount, name, *_ = line.split()
        if str(directory.resolve()).startswith(mount) and len(mount) >= len(place):
            place, kind = mount, name
    return kind
