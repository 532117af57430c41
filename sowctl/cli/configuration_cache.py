"""State shared by the commands of one process: open files, and configurations whose files are unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from sowctl.engine.instance import Instance
from sowctl.values.times import MICROS_PER_SECOND, system_clock

if TYPE_CHECKING:
    from sowctl.config.model import InstanceConfig

_RECENT_MICROS = MICROS_PER_SECOND // 10
"""Microseconds; more than the resolution of file system clocks."""
_FileStamps: TypeAlias = tuple[tuple[str, int, int, int, int] | None, ...]


class SharedInstance(Instance, frozen=True):
    """An instance of one of several commands: files that it leaves open are reused by the next one."""

    lasting: ClassVar[bool] = True

    def close(self) -> None:
        """Do nothing: the runner of the commands closes open files after the last one."""


class ConfigurationCache:
    """Configurations by their paths. A file is unchanged if device, inode, size and modification time are."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str | None], tuple[_FileStamps, dict[str, str], InstanceConfig]] = {}

    def load(self, path: Path, environment: Mapping[str, str], root: Path | None) -> InstanceConfig:
        """The configuration of a file, read again if it or an included file has changed.

        Raises ConfigError as :func:`sowctl.config.instance.load_instance`; an error is not cached.
        """
        key = str(Path.cwd() / path), None if root is None else str(Path.cwd() / root)
        known = self._known.get(key)
        if known is not None:
            stamp, variables, config = known
            if variables == environment and stamp == _stamp_files(config):
                return config
        from sowctl.config.instance import load_instance

        begun = system_clock()
        config = load_instance(path, environment=environment, root=root)
        stamp = _stamp_files(config)
        # A file modified just now may have changed while it was read: the result is not cached.
        if all(one is not None and one[4] // 1000 < begun - _RECENT_MICROS for one in stamp):
            self._known[key] = stamp, dict(environment), config
        return config


def _stamp_files(config: InstanceConfig) -> _FileStamps:
    return tuple(_stamp_file(Path(source.file)) for source in config.document.sources)


def _stamp_file(path: Path) -> tuple[str, int, int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return str(path), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
