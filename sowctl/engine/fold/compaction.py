"""Store and overlay merged in key order into a new file, which takes the store's place (``sow-run(5)``, Merging).

What random keys cost in place, a page each, is spread so over all records of the file, one after the other. A new file
has its pages full, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sowctl.engine.fold.apply import Applied
from sowctl.engine.fold.folding import PART, append_sorted
from sowctl.engine.fold.inorder import merged
from sowctl.engine.topics.expiration import unexpired
from sowctl.store.builder import build

if TYPE_CHECKING:
    from sowctl.engine.fold.keyfilter import KeyFilter
    from sowctl.engine.fold.overlay import Overlay
    from sowctl.engine.fold.spill import Pairs
    from sowctl.engine.instance import Instance
    from sowctl.store.env import Store
    from sowctl.store.meta import AppliedBlock
    from sowctl.store.write import WriteTxn


class _Unexpired:
    """Passes on the records that are not over at a clock, and counts the others; ``known`` notes all of their keys."""

    def __init__(self, at: int | None, known: KeyFilter | None) -> None:
        self._at = at
        self._known = known
        self.gone = 0

    def of(self, parts: Iterator[Pairs]) -> Iterator[Pairs]:
        for keys, values in parts:
            if self._known is not None:
                self._known.add(keys)
            if self._at is None:
                yield keys, values
                continue
            places = unexpired(values, self._at)
            self.gone += len(values) - len(places)
            if places:
                yield [keys[place] for place in places], [values[place] for place in places]


def merge(
    instance: Instance,
    store: Store,
    overlay: Overlay,
    *,
    lineage: bytes,
    upto: int,
    block: AppliedBlock | None,
    remove_expired_at: int | None = None,
    known: KeyFilter | None = None,
) -> Applied | None:
    """Put a new file in the place of ``store``: its records with the changes of ``overlay``, which is emptied then.

    As :func:`~sowctl.engine.fold.apply.apply` does in place, and with the same arguments; ``known`` is given the keys
    of the new store. The present one stands where the overlay begins, and holds neither versions nor sequences; None
    where it does not stand there any more. Raises StorageError, LockedError, DamageError; the store is as it was then.
    """
    changes = len(overlay)
    kept = _Unexpired(remove_expired_at, known)
    with store.writer_lock(instance.lock_wait), store.snapshot() as snapshot:
        meta = snapshot.meta
        assert overlay.base <= upto, (overlay.base, upto)
        if meta.applied > overlay.base or (meta.lineage == lineage and meta.applied < overlay.base):
            # A replay has put another store in place since the overlay was made. Nothing is merged, and no position
            # claimed: the journal has all entries, and the next batch begins with what it holds behind that store.
            overlay.clear(upto)
            return None
        assert not (meta.versions or meta.sequences)
        with build(
            store.path,
            meta.definition,
            seam=instance.seam,
            # It is the same store, so it was made when it was made.
            now=meta.created,
            lineage=lineage,
            applied=upto,
            command=instance.holder,
        ) as builder:
            append_sorted(builder, kept.of(merged(snapshot.scan(batch=PART), overlay.in_order(PART))))

            def position(txn: WriteTxn) -> None:
                txn.set_applied(lineage, upto, block)
                txn.raise_last_time(max(meta.last_time, overlay.last_time))
                txn.set_removal_mark(meta.removal_mark)
                if kept.gone and remove_expired_at is not None:
                    # As for a removal in place: past states look at this mark.
                    txn.set_removal_mark(remove_expired_at)

            builder.change(position)
            builder.finish()
            # The old file's last user goes before the new one comes: a store is not open twice in a process.
            snapshot.close()
            builder.put_in_place(lock=store.lock, wait=instance.lock_wait)
    overlay.clear(upto)
    return Applied(changes, kept.gone)
