"""repair: damaged stores made sound, with a list of what they lacked and what of it came back from the journal."""

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
    """Repair the stores of ``targets``, one after the other; those that have none are passed over.

    Of each the report, and item by item what it lacked. Raises as :meth:`StoreRepair.run` does.
    """
    for path, topic in list_store_files(targets):
        one = StoreRepair(instance, path, topic)
        one.run(earlier=earlier, dry_run=dry_run)
        yield one
