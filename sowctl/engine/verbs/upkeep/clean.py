"""clean: lists and removes files that killed processes left next to stores and in temporary directories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sowctl.engine.maintenance.storefiles import list_store_files
from sowctl.engine.reports import CleanReport
from sowctl.store.repair.leftovers import list_leftovers, remove_leftovers
from sowctl.work_directories import list_dead_directories, remove_dead_directories

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.topics.targets import Target


def clean_stores(instance: Instance, targets: Sequence[Target], *, dry_run: bool = False) -> Iterator[CleanReport]:
    """Remove the files that killed builders of stores, runs and indexes left; yield one report for each file.

    The store itself need not exist. Raises StorageError.
    """
    for path, _ in list_store_files(targets, missing=True):
        for one in list_leftovers(path) if dry_run else remove_leftovers(path, instance.seam):
            yield CleanReport(str(one.path), one.pid, one.bytes, dry_run)


def clean_work_directories(*, dry_run: bool = False) -> Iterator[CleanReport]:
    """Remove the temporary directories of killed processes of this user; yield one report for each directory."""
    for one in list_dead_directories() if dry_run else remove_dead_directories():
        yield CleanReport(str(one.path), one.pid, one.bytes, dry_run)
