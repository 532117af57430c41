"""compact: replaces stores by copies without free pages while they are in use; each record is verified during the
copy."""

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
    """Compact the stores of ``targets``, one after the other; targets without a store are skipped.

    ``min_free``: only stores with at least this share of free pages; ``always``: even if a copy is not smaller, which
    is skipped otherwise. Raises DamageError if a part of a store is damaged, StorageError, LockedError, after all other
    stores: the store with the error is unchanged. Of several such errors the first is raised, and ``instance.notify``
    reports the others.
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
