"""The paths of an instance's files within a tree, and an instance whose files are in another tree.

Within a tree, a file below the root directory of the configuration's paths keeps its path relative to the root; any
other file has its absolute path below ``outside``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sowctl.config.model import TopicConfig

if TYPE_CHECKING:
    from sowctl.config.model import InstanceConfig
    from sowctl.engine.instance import Instance

OUTSIDE_DIRECTORY = "outside"


def compute_tree_path(path: Path, root: Path) -> Path:
    """Return the path within a tree of a file of the instance whose paths are relative to ``root``."""
    whole = path.absolute()
    base = root.absolute()
    # Compared as written and with links resolved: the root may be named through a link.
    for one, other in ((whole, base), (whole.parent.resolve() / whole.name, base.resolve())):
        if one.is_relative_to(other) and ".." not in one.relative_to(other).parts:
            return one.relative_to(other)
    return Path(OUTSIDE_DIRECTORY, *whole.parent.resolve().parts[1:], whole.name)


def move_instance(instance: Instance, tree: Path, now: int) -> Instance:
    """Return the same instance with its files below ``tree``, its clock fixed at ``now``, and without notifications."""
    assert instance.config is not None
    config = relocate_config(instance.config, lambda path: tree / compute_tree_path(path, instance.config.root))  # type: ignore[union-attr]
    return replace(instance, config=replace(config, root=tree), clock=lambda: now, notify=_ignore_remark, noted=set())


def _ignore_remark(_: str) -> None:
    return


def relocate_config(config: InstanceConfig, place: Callable[[Path], Path]) -> InstanceConfig:
    """Return a configuration whose stores and journals are at the paths that ``place`` returns."""
    log = config.transaction_log
    if log is not None:
        # Files at a URL stay there: a backup has only the files of this machine.
        archive = log.moved_archive
        log = replace(
            log,
            directory=place(log.directory),
            archive_directory=None if archive is None else place(archive),
        )
    entries = tuple(
        replace(entry, file=place(entry.file)) if isinstance(entry, TopicConfig) and entry.file is not None else entry
        for entry in config.sow
    )
    return replace(config, sow=entries, transaction_log=log)
