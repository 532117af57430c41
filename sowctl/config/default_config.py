"""Find the configuration where none is named: by the variable, else the one file with a usual name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sowctl.errors import UsageError

CONFIG_NAMES = ("sowctl.xml", "amps.xml", "config.xml")
CONFIG_VARIABLE = "SOWCTL_CONFIG"


def find_default_config(environment: Mapping[str, str], directory: Path, how: str = "--config") -> Path | None:
    """The file that ``SOWCTL_CONFIG`` names, else the only one in ``directory`` with a usual name; None without any.

    ``how`` is how the asker lets one be named. Raises UsageError ``SOW-CLI-004`` where several have one.
    """
    if named := environment.get(CONFIG_VARIABLE):
        return directory / named
    found = [name for name in CONFIG_NAMES if (directory / name).is_file()]
    # Not the first of them: two configurations side by side are a question that only the user can answer.
    if len(found) > 1:
        raise UsageError(
            "SOW-CLI-004",
            f"several configurations here: {', '.join(found)}",
            hint=f"select one: {how} {directory / found[0]}",
        )
    return directory / found[0] if found else None
