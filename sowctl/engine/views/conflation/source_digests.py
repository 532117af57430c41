"""Changes of a source without a journal since its last read, detected by digests (``sow-view(5)``).

Called by :mod:`sowctl.engine.views.conflation.conflation_store`. Intermediate changes between two reads are not
detected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from xxhash import xxh3_128_digest

from sowctl.config.model import TopicConfig
from sowctl.engine.views.conflation.state_tables import SEEN_TABLE, ConflationState
from sowctl.engine.views.conflation.timeline import KeyChange
from sowctl.engine.views.instant import find_entry
from sowctl.store.codec import read_stamps
from sowctl.store.limits import STORE_LIMITS

if TYPE_CHECKING:
    from sowctl.config.derived_entries import ConflatedTopic
    from sowctl.engine.views.instant import ViewInstant
    from sowctl.store.read import Reader
    from sowctl.store.write import WriteTxn


class SourceDigests:
    """Digests of the messages of a source without a journal, one per message."""

    def __init__(self, reader: Reader | None) -> None:
        table = None if reader is None else reader.open_table(SEEN_TABLE)
        self._before = {} if table is None else dict(table.walk())
        self._after = dict(self._before)
        self.source = ""

    def find_changes(
        self, moment: ViewInstant, entry: ConflatedTopic, kept: ConflationState | None
    ) -> Iterator[KeyChange]:
        """Yield the changes of the source in time order: a topic's message at its own time, other changes now."""
        source = moment.find_source(entry.source)
        stored = source.stored_source
        keys: set[bytes] | None = None
        if stored is not None and stored.memtable is None:
            self.source = f"{stored.meta.digest:032x}"
            if kept is not None and kept.source:
                keys = stored.snapshot.find_changed_keys(stored.meta.number_state(int(kept.source, 16)))
        found: list[KeyChange] = []
        there: set[bytes] = set()
        if keys is None:
            batches: Iterable[tuple[Any, Any]] = source.read_batches(STORE_LIMITS.read_batch_records)
        else:
            if stored is not None and stored.hides:
                keys |= set(stored.snapshot.iter_expired_keys(moment.now))
            wanted = sorted(keys)
            batches = (
                source.find_records(wanted[at : at + STORE_LIMITS.read_batch_records])
                for at in range(0, len(wanted), STORE_LIMITS.read_batch_records)
            )
        # A message published before the last read but detected only now is dated just after that read. A topic's
        # message has its publish time; the time at which a message entered a derived entry is unknown.
        earliest = 0 if kept is None else kept.clock + 1
        topic = find_entry(moment.instance, entry.source)
        if not isinstance(topic, TopicConfig):
            earliest = moment.now
        for some, values in batches:
            for key, value in zip(some, values, strict=True):
                there.add(key)
                digest = xxh3_128_digest(value)
                if self._after.get(key) != digest:
                    self._after[key] = digest
                    found.append(KeyChange(min(max(read_stamps(value)[1], earliest), moment.now), key, value))
        for key in self._before if keys is None else keys & self._before.keys():
            if key not in there:
                del self._after[key]
                found.append(KeyChange(moment.now, key, None))
        yield from sorted(found, key=lambda change: change.time)

    def write(self, txn: WriteTxn) -> None:
        """Write the changed digests."""
        table = txn.open_table(SEEN_TABLE)
        table.delete(self._before.keys() - self._after.keys())
        changed = ((key, digest) for key, digest in self._after.items() if self._before.get(key) != digest)
        table.put(sorted(changed))
