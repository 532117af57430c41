"""Compaction of stores: each is replaced by a compact copy while others read and write it.

Called by the verb ``compact_file``, and by scheduled maintenance. :mod:`sowctl.store.repair.compaction` makes the copy.
Specified in ``sow-store(5)``, "Compacting".
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from sowctl.engine.reports import CompactReport
from sowctl.errors import DamageError, SowError
from sowctl.memo.directory import MemoDirectory
from sowctl.store.env import Store
from sowctl.store.integrity import DIGEST_MODULUS
from sowctl.store.lmdberrors import translate_errors
from sowctl.store.repair.compaction import compact_file, measure_copy
from sowctl.store.repair.leftovers import list_leftovers, remove_leftovers
from sowctl.store.repair.space import measure_space
from sowctl.work_directories import create_work_directory

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance

SPARE_PAGES = 16
"""Maximum number of free pages that the transactions of a copy leave: 7 were counted in copies of 188 KiB, 12 in one of
47 MiB."""
NO_SMALLER_REASON = "a copy would not be smaller"
REPAIR_HINT = "sowctl store check shows the damage, sowctl store repair saves the other records"


def compact_store(
    instance: Instance, path: Path, *, min_free: float = 0.0, always: bool = False, dry_run: bool = False
) -> CompactReport:
    """Compact the store at ``path`` if at least the share ``min_free`` of its pages is free, and a copy is smaller.

    ``always``: even if the copy is not smaller; its records are then stored in key order, in the current format.

    Raises DamageError if a part of the store is damaged, StorageError, LockedError; then the store is unchanged.
    """
    started = monotonic()
    with Store.open(path, write=False, seam=instance.seam, lock_wait=instance.lock_wait) as store:
        meta = store.read_meta()
        report = CompactReport(meta.definition.topic, meta.definition.message_type, "compacted", path=str(path))
        report.records, report.versions = meta.records, meta.versions
        report.bytes_before = report.bytes_after = store.read_file_size()
        # None if writers change the store too fast to measure it: then it is copied, which is always correct.
        space = measure_space(store, instance.seam)
        free = 0.0 if space is None else space.free_pages / space.pages
        report.free_before = round(free, 4)
        if space is not None and free < min_free:
            report.action, report.note = "left", f"{free:.0%} of its pages are free, less than {min_free:.0%}"
            return report
        if dry_run:
            report.dry_run = True
            report.leftovers = len(list_leftovers(path))
            # A copy fills half-full pages, so this is its maximum size.
            most = None if space is None else space.used_bytes + SPARE_PAGES * space.page_size
            if most is None or most >= report.bytes_before:
                # Only a copy shows how full the pages are; a run decides by its size, so a dry run does, too.
                most = _measure_copy(store, instance)
            report.bytes_after = min(report.bytes_before, most)
            if most >= report.bytes_before and not always:
                report.action, report.note = "left", NO_SMALLER_REASON
            return report
        # Removed first, so that the copy can use their space.
        report.leftovers = len(remove_leftovers(path, instance.seam))
        try:
            done = compact_file(
                store,
                seam=instance.seam,
                wait=instance.lock_wait,
                command=instance.holder,
                always=always,
                on_read=instance.build_watch("records"),
            )
        except DamageError as error:
            error.hint = REPAIR_HINT
            raise
    report.records, report.versions, report.changes = done.records, done.versions, done.changes
    report.bytes_before, report.bytes_after = done.before, done.after
    report.digest = f"{done.digest % DIGEST_MODULUS:032x}"
    if done.in_place:
        remove_offset_list(instance, path)
    else:
        report.action, report.note = "left", NO_SMALLER_REASON
    report.seconds = monotonic() - started
    return report


def _measure_copy(store: Store, instance: Instance) -> int:
    """Return the size of a temporary copy in bytes. Raises as a copy in place."""
    with (
        translate_errors(Path(tempfile.gettempdir()), "make a copy"),
        create_work_directory() as place,
    ):
        try:
            return measure_copy(store, place / store.files.path.name, seam=instance.seam, command=instance.holder)
        except DamageError as error:
            error.hint = REPAIR_HINT
            raise


def remove_offset_list(instance: Instance, path: Path) -> None:
    """Remove the index of record offsets: it is stale, and a query would check each offset before it looks up the
    key."""
    try:
        MemoDirectory(path, instance.seam).write_locations(None)
    except (OSError, SowError):
        return  # a stale index only makes queries slower


__all__ = ["REPAIR_HINT", "compact_store", "remove_offset_list"]
