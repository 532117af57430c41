"""Checks for the optional packages that exchange uses."""

from __future__ import annotations

from importlib.util import find_spec

from sowctl.errors import MissingPackageError
from sowctl.extras import build_missing_package_error, format_package_hint

PACKAGE_EXTRAS = {"pyarrow": "arrow", "duckdb": "sql"}
"""The extra that installs each package; a package of no extra is installed by its own name."""


def require_packages(what: str, *packages: str) -> None:
    """Raise MissingPackageError ``SOW-EXC-001`` if one of the ``packages`` that ``what`` requires is not installed."""
    for package in packages:
        if find_spec(package) is None:
            words = f"{what} requires the package {package}, which is not installed"
            if package not in PACKAGE_EXTRAS:
                raise MissingPackageError("SOW-EXC-001", words, hint=format_package_hint(package))
            raise build_missing_package_error("SOW-EXC-001", words, PACKAGE_EXTRAS[package])
