"""compact: stores without free pages, put in place under readers and writers; each record is verified on the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sowctl.engine.maintenance.compaction import compact_store
from sowctl.engine.maintenance.storefiles import list_store_files
from sowctl.engine.reports import CompactReport
from sowctl.errors import SowError

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.topics.targets import Target


def compact_stores(
    instance: Instance,
    targets: Sequence[Target],
    *,
    min_free: float = 0.0,
    always: bool = False,
    dry_run: bool = False,
) -> Iterator[CompactReport]:
    """Compact the stores of ``targets``, one after the other; those that have none are passed over.

    ``min_free``: only stores of whose pages at least this share is free; ``always``: also where a copy is no smaller,
    which is left otherwise. Raises DamageError where a part of a store is
    not sound, StorageError, LockedError, when the other stores are done: that store is as it was then. Of
    several such errors the first is raised, and ``instance.notify`` is told of the others.
    """
    failed: SowError | None = None
    for path, _ in list_store_files(targets):
        try:
            yield compact_store(instance, path, min_free=min_free, always=always, dry_run=dry_run)
        except SowError as error:
            if failed is not None:
                instance.notify(f"[{error.code}] {path}: {error.message}")
            failed = failed or error
    if failed is not None:
        raise failed
