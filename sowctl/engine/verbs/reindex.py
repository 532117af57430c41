"""reindex: build the memo indexes that the configuration names and those that queries built, or remove them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from sowctl.engine.reports import ReindexReport
from sowctl.engine.search.memos import build_memos, configured, existing, names_of
from sowctl.engine.sources.opening import open_now
from sowctl.errors import LockedError, StorageError, UsageError
from sowctl.memo.directory import MemoDirectory

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.current import CurrentSource
    from sowctl.engine.topics.targets import Target
    from sowctl.values.fields import Slot


def reindex(instance: Instance, targets: Sequence[Target], *, drop: bool = False) -> list[ReindexReport]:
    """Build the indexes of ``targets`` anew; ``drop``: remove them.

    Indexed are the paths of Key, HashIndex and Index in the configuration, and those for which there is an index now.
    Raises LockedError ``SOW-ENG-063`` while another process builds, StorageError ``SOW-ENG-064`` where the directory
    cannot be written, and what opening raises.
    """
    return [_reindex(instance, target, drop) for target in targets]


def _reindex(instance: Instance, target: Target, drop: bool) -> ReindexReport:
    with closing(open_now(instance, target)) as source:
        report = ReindexReport(source.topic, source.message_type, source.meta.records)
        if source.path is None:
            raise UsageError("SOW-ENG-065", f"topic {source.topic!r} has no store of its own to index")
        directory = MemoDirectory(source.path, instance.seam)
        if drop:
            report.removed = directory.size()
            directory.remove()
            return report
        if not instance.type_of(source.message_type).filterable:
            return report
        slots = dict.fromkeys(configured(target.topic)) | existing(instance, directory, source)
        _build(instance, directory, source, list(slots))
        report.paths = tuple(str(slot.path) for slot in slots)
        report.bytes = directory.size()
        return report


def _build(instance: Instance, directory: MemoDirectory, source: CurrentSource, slots: list[Slot]) -> None:
    try:
        with directory.building() as mine:
            if not mine:
                raise LockedError("SOW-ENG-063", "another process is building these indexes", place=str(directory.path))
            directory.clear()
            build_memos(instance, directory, source, names_of(instance, source, slots))
    except OSError as problem:
        raise StorageError(
            "SOW-ENG-064",
            f"the indexes cannot be written: {problem.strerror}",
            place=str(directory.path),
            hint="look at permission and free space there; queries are answered without indexes, too",
        ) from problem
