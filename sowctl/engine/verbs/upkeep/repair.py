"""repair: repairs damaged stores, and reports the lost records and those restored from the journal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sowctl.engine.maintenance.store_repair import StoreRepair
from sowctl.engine.maintenance.storefiles import list_store_files

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.topics.targets import Target


def repair_stores(
    instance: Instance, targets: Sequence[Target], *, earlier: bool = False, dry_run: bool = False
) -> Iterator[StoreRepair]:
    """Repair the stores of ``targets``, one after the other; targets without a store are skipped.

    Yields each repair, with its report and the affected items. Raises as :meth:`StoreRepair.run`.
    """
    for path, topic in list_store_files(targets):
        one = StoreRepair(instance, path, topic)
        one.run(earlier=earlier, dry_run=dry_run)
        yield one
