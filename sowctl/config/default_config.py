"""Find the configuration if no file is given: by the variable, else the only file with a usual name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from sowctl.errors import ConfigError, UsageError
from sowctl.remote.place import require_local_path

CONFIG_NAMES = ("sowctl.xml", "amps.xml", "config.xml")
CONFIG_VARIABLE = "SOWCTL_CONFIG"


def find_default_config(environment: Mapping[str, str], directory: Path, how: str = "--config") -> Path | None:
    """The file that ``SOWCTL_CONFIG`` names, else the only one in ``directory`` with a usual name; None if none exists.

    ``how`` is the caller's option for naming a file. Raises UsageError ``SOW-CLI-004`` if several have a usual name.
    """
    if named := environment.get(CONFIG_VARIABLE):
        return directory / named
    found = list_config_files(directory)
    # Not the first of them: only the user can choose between two configurations in one directory.
    if len(found) > 1:
        raise UsageError(
            "SOW-CLI-004",
            f"several configurations here: {', '.join(path.name for path in found)}",
            hint=f"select one: {how} {found[0]}",
        )
    return found[0] if found else None


def list_config_files(directory: Path) -> list[Path]:
    """The files in ``directory`` with a usual name of a configuration."""
    return [path for name in CONFIG_NAMES if (path := directory / name).is_file()]


def find_config_file(named: str | os.PathLike[str]) -> Path:
    """The configuration file of this path, or, for an instance's directory, the file in it with a usual name.

    Raises UsageError ``SOW-RMT-001`` for a URL and ``SOW-CLI-004`` if several files have a usual name, and
    ConfigError ``SOW-CLI-005`` if none has.
    """
    path = require_local_path(os.fspath(named))
    if not path.is_dir():
        return path
    found = list_config_files(path)
    if len(found) > 1:
        raise UsageError(
            "SOW-CLI-004",
            f"several configurations here: {', '.join(one.name for one in found)}",
            place=str(path),
            hint=f"name one of the files: {found[0]}",
        )
    if not found:
        raise ConfigError(
            "SOW-CLI-005",
            f"no configuration found: the directory has none of {', '.join(CONFIG_NAMES)}",
            place=str(path),
            hint="name the configuration file; sowctl.create() and 'sowctl config init' make a first one",
        )
    return found[0]
