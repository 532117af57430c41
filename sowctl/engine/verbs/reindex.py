"""reindex: builds the memo indexes that the configuration names and those that queries built, or removes them.

:func:`reindex_loaded` rebuilds them after a bulk load of any kind, so that the first queries find indexes again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from sowctl.engine.reports import ReindexReport
from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.search.index_lookup import (
    build_indexes,
    list_configured_slots,
    list_existing_columns,
    renew_indexes,
    resolve_column_names,
)
from sowctl.engine.sources.opener import open_present_source
from sowctl.engine.topics.targets import Target
from sowctl.errors import LockedError, SowError, StorageError, UsageError
from sowctl.memo.directory import MemoDirectory

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.current import CurrentSource
    from sowctl.values.fields import Slot


def rebuild_indexes(instance: Instance, targets: Sequence[Target], *, drop: bool = False) -> list[ReindexReport]:
    """Rebuild the indexes of ``targets``; ``drop``: remove them.

    The indexed paths are those of Key, HashIndex and Index in the configuration, and those of existing indexes. Raises
    LockedError ``SOW-ENG-063`` while another process builds indexes, StorageError ``SOW-ENG-064`` if the directory
    cannot be written, and what opening raises.
    """
    return [_rebuild_target(instance, target, drop) for target in targets]


def _rebuild_target(instance: Instance, target: Target, drop: bool) -> ReindexReport:
    with closing(open_present_source(instance, target)) as source:
        report = ReindexReport(source.topic, source.message_type, source.meta.records)
        if source.path is None:
            raise UsageError("SOW-ENG-065", f"topic {source.topic!r} has no store of its own")
        directory = MemoDirectory(source.path, instance.seam)
        if drop:
            report.removed = directory.count_bytes()
            directory.remove()
            return report
        if not instance.find_message_type(source.message_type).filterable:
            return report
        slots = dict.fromkeys(list_configured_slots(target.topic)) | list_existing_columns(instance, directory, source)
        _build_indexes(instance, directory, source, list(slots))
        report.paths = tuple(str(slot.path) for slot in slots)
        report.bytes = directory.count_bytes()
        return report


def _build_indexes(instance: Instance, directory: MemoDirectory, source: CurrentSource, slots: list[Slot]) -> None:
    try:
        with directory.hold_build_lock() as mine:
            if not mine:
                raise LockedError("SOW-ENG-063", "another process is building these indexes", place=str(directory.path))
            directory.clear()
            build_indexes(instance, directory, source, resolve_column_names(instance, source, slots))
    except OSError as problem:
        raise StorageError(
            "SOW-ENG-064",
            f"cannot write the indexes: {problem.strerror}",
            place=str(directory.path),
            hint="check permissions and free space; queries also work without indexes",
        ) from problem


def reindex_loaded(instance: Instance, loaded: Iterable[tuple[str, str, int]]) -> int:
    """Rebuild the indexes of stores most of whose records a load has changed; return the number of these stores.

    ``loaded``: name and message type of topics, and the number of loaded messages or records. To be called after the
    whole load is acknowledged and its stores are closed: by the command line after its report, by the Python API and a
    commit of Spark before they return. For a small load this is only one comparison. Indexes that do not exist are not
    built here. Read and write errors are left to the next query, which reports them or works without indexes.
    """
    done = 0
    for name, message_type, count in loaded:
        if count <= QUERY_LIMITS.index_tolerated_changes:
            continue
        topic = next((one for one in instance.topics if one.ref == (name, message_type)), None)
        if topic is None or topic.file is None:
            continue
        known = MemoDirectory(topic.file, instance.seam).find_keys()
        if known is not None and count >= known[0].head.records // QUERY_LIMITS.index_renewal_load_divisor:
            with (
                suppress(SowError, OSError),
                closing(open_present_source(instance, Target(topic))) as source,
            ):
                done += renew_indexes(instance, source)
    return done
