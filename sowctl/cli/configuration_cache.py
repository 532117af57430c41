"""State that commands of one process share: open files, and configurations as long as no file of theirs changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from sowctl.engine.instance import Instance
from sowctl.values.times import MICROS_PER_SECOND, system_clock

if TYPE_CHECKING:
    from sowctl.config.model import InstanceConfig

_RECENT_MICROS = MICROS_PER_SECOND // 10
"""Microseconds that are more than clocks of file systems are coarse."""
_FileStamps: TypeAlias = tuple[tuple[str, int, int, int, int] | None, ...]


class SharedInstance(Instance, frozen=True):
    """An instance of one command of several: what it leaves open serves the next one."""

    lasting: ClassVar[bool] = True

    def close(self) -> None:
        """Do nothing: who runs the commands closes what they leave open, behind the last one."""


class ConfigurationCache:
    """Configurations by their paths. A file is the same while device, inode, size and time of change are."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str | None], tuple[_FileStamps, dict[str, str], InstanceConfig]] = {}

    def load(self, path: Path, environment: Mapping[str, str], root: Path | None) -> InstanceConfig:
        """The configuration of a file, read anew where it or a file that it includes has changed.

        Raises ConfigError as :func:`sowctl.config.instance.load_instance`; an error is not kept.
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
        # A file that was written just now may have been written while it was read: such a reading is not kept.
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
