"""Files that can be removed or compacted to free disk space, safest first, with the command for each.

Nothing is changed, and whatever cannot be read is skipped: the disk may be full. Called by ``doctor`` and by ``explain
disk-full``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.engine.maintenance.retention.journals import list_journal_files
from sowctl.engine.maintenance.retention.prune import KeepRule, prune_files
from sowctl.engine.topics.positions import open_log
from sowctl.errors import SowError
from sowctl.memo.directory import MemoDirectory
from sowctl.store.opening.access import DAMAGED_SUFFIX, REPLACED_SUFFIX
from sowctl.store.repair.leftovers import list_leftovers
from sowctl.store.repair.space import measure_space_at
from sowctl.values.display import format_count
from sowctl.work_directories import list_dead_directories

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance

_KEPT_SUFFIXES = (DAMAGED_SUFFIX, REPLACED_SUFFIX)
MIN_COMPACTED_BYTES = 1 << 20
"""Free bytes of a store below which compacting it is not suggested."""


class ReclaimableSpace(Struct, frozen=True):
    """A use of ``bytes`` of disk space; ``command`` frees them, or some of them if ``estimated``."""

    what: str
    bytes: int
    command: str
    estimated: bool = False


def list_reclaimable(instance: Instance) -> Iterator[ReclaimableSpace]:
    """Yield reclaimable space in the order to try: unneeded files, derived files, then old journal files."""
    steps: tuple[Callable[[Instance], Iterator[ReclaimableSpace]], ...] = (
        _find_leftovers,
        _find_kept_copies,
        _find_free_pages,
        _find_indexes,
        _find_journal_files,
        _find_active_file,
    )
    for step in steps:
        # A file that cannot be read, or a lock that cannot be acquired, hides only its own step.
        with suppress(SowError, OSError):
            yield from step(instance)


def _list_stores(instance: Instance) -> list[tuple[str, Path]]:
    return [(topic.name, topic.file) for topic in instance.topics if topic.file is not None and topic.file.exists()]


def _find_leftovers(instance: Instance) -> Iterator[ReclaimableSpace]:
    for name, path in _list_stores(instance):
        if found := list_leftovers(path):
            words = f"{format_count(len(found), 'file')} of killed processes beside {name}"
            yield ReclaimableSpace(words, sum(one.bytes for one in found), f"sowctl store clean {name}")
    if left := list_dead_directories():
        count = format_count(len(left), "temporary directory", "temporary directories")
        words = f"{count} of killed processes in {left[0].path.parent}"
        yield ReclaimableSpace(words, sum(one.bytes for one in left), "sowctl store clean")


def _find_kept_copies(instance: Instance) -> Iterator[ReclaimableSpace]:
    """Yield previous files that a repair or a restore has kept."""
    paths = [path.parent.glob(f"{path.name}{end}*") for _, path in _list_stores(instance) for end in _KEPT_SUFFIXES]
    if instance.log is not None and instance.config is not None:
        paths += [instance.log.directory.glob(f"{instance.config.name}.*.journal.{end}-*") for end in ("torn", "cut")]
    for path in sorted(set(chain.from_iterable(paths))):
        if path.is_file():
            yield ReclaimableSpace(f"{path.name}, put aside by a repair", path.stat().st_size, f"rm {path}")


def _find_free_pages(instance: Instance) -> Iterator[ReclaimableSpace]:
    for name, path in _list_stores(instance):
        space = measure_space_at(path, instance.seam)
        free = 0 if space is None or not space.pages else space.file_bytes * space.free_pages // space.pages
        if free >= MIN_COMPACTED_BYTES:
            yield ReclaimableSpace(f"free pages of the store of {name}", free, f"sowctl store compact {name}", True)


def _find_indexes(instance: Instance) -> Iterator[ReclaimableSpace]:
    for name, path in _list_stores(instance):
        size = MemoDirectory(path).count_bytes()
        if size:
            words = f"memo indexes of {name}, which queries make again"
            yield ReclaimableSpace(words, size, f"sowctl store reindex {name} --drop")


def _find_journal_files(instance: Instance) -> Iterator[ReclaimableSpace]:
    if instance.log is None:
        return
    finished = [file for file in list_journal_files(instance) if file.is_finished]
    plain = [file for file in finished if not file.is_compressed]
    if plain:
        words = f"{format_count(len(plain), 'finished journal file')}, not compressed"
        yield ReclaimableSpace(words, sum(file.size for file in plain), "sowctl journal compress", True)
    archive = instance.log.moved_archive
    here = [file for file in finished if archive is not None and file.path.parent != archive]
    if here:
        words = f"{format_count(len(here), 'finished journal file')} outside of the archive {archive}"
        yield ReclaimableSpace(words, sum(file.size for file in here), "sowctl journal archive")
    if not finished:
        return
    # A rule that keeps nothing: the files that remain are those that a holder needs.
    plan = prune_files(instance, KeepRule(keep_size=0), dry_run=True)
    if plan.removed:
        words = f"{format_count(plan.removed, 'journal file')} that nothing needs; past states are lost"
        yield ReclaimableSpace(words, plan.bytes, f"sowctl journal prune --before {plan.first_txid} --yes")


def _find_active_file(instance: Instance) -> Iterator[ReclaimableSpace]:
    if instance.log is None:
        return
    active = list_journal_files(instance)[-1]
    with open_log(instance) as log:
        if log.read_last_txid() < active.first_txid:
            return
    words = "the active journal file; finished, it can be compressed, archived or pruned"
    yield ReclaimableSpace(words, active.size, "sowctl journal rotate", True)
