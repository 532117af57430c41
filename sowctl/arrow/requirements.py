"""The packages of the optional parts that exchange uses, asked for in one place."""

from __future__ import annotations

from importlib.util import find_spec

from sowctl.extras import build_missing_package_error

PACKAGE_EXTRAS = {"pyarrow": "arrow", "duckdb": "sql"}
"""The extra that installs each package."""


def require_packages(what: str, *packages: str) -> None:
    """Raise MissingPackageError ``SOW-EXC-001`` where one of ``packages`` is not installed that ``what`` needs."""
    for package in packages:
        if find_spec(package) is None:
            extra = PACKAGE_EXTRAS[package]
            words = f"{what} requires the package {package}, which is not installed"
            raise build_missing_package_error("SOW-EXC-001", words, extra)
