"""Opening and building the memo indexes of a source, and tracking changes since their build (``sow-memo(5)``).

No result depends on indexes: if they cannot be read or written, queries work without them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from struct import unpack
from typing import TYPE_CHECKING, Any

from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.memo import rownumbers as p
from sowctl.memo.directory import MemoDirectory
from sowctl.memo.index import MemoIndex
from sowctl.store.codec import KEY_SIZE
from sowctl.values.fields import Slot

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.source import StoredSource
    from sowctl.memo.format import MemoFile
    from sowctl.store.codec import Offsets


class OpenIndexes:
    """The indexes of one state of a store, by slot.

    ``changed``: keys whose records may differ now, or are in the memtable.
    """

    def __init__(
        self,
        file: MemoFile,
        keys: memoryview,
        indexes: dict[Slot, MemoIndex],
        changed: set[bytes],
        locations: tuple[memoryview, memoryview, memoryview] | None = None,
    ) -> None:
        self._file = file
        self._locations = locations
        self._keys = keys
        self.indexes = indexes
        self.changed = changed
        self.records = len(keys) // KEY_SIZE

    def read_keys(self, places: p.RowNumbers) -> list[bytes]:
        """Return the keys at ``places``."""
        if len(places) < QUERY_LIMITS.index_batch_min_rows:
            keys = self._keys
            return [bytes(keys[at : at + KEY_SIZE]) for at in [KEY_SIZE * place for place in places]]
        return list(unpack(f"{KEY_SIZE}s" * len(places), p.pack_numbers(self._keys.cast("Q"), places)))

    def read_offsets(self, places: p.RowNumbers) -> Offsets | None:
        """Return the offsets of records in the store's file; None if they are unknown or too few for a batch."""
        if self._locations is None or len(places) < QUERY_LIMITS.index_batch_min_rows:
            return None
        from sowctl.store.codec import Offsets

        starts, sizes, sums = self._locations
        return Offsets(p.take_numbers(starts, places), p.take_numbers(sizes, places), p.pack_numbers(sums, places))

    def iterate_unchanged(self, places: p.RowNumbers, size: int) -> Iterator[tuple[list[bytes], Offsets | None]]:
        """Yield keys and offsets of the unchanged records at ``places``, at most ``size`` at a time."""
        changed = self.changed
        for start in range(0, len(places), size):
            part = places[start : start + size]
            keys = self.read_keys(part)
            if changed and (gone := changed.intersection(keys)):
                # The caller reads changed records from the store. Here they would be duplicate and stale.
                kept = [at for at, key in enumerate(keys) if key not in gone]
                part, keys = p.take_rows(part, kept), [keys[at] for at in kept]
            if keys:
                yield keys, self.read_offsets(part)

    def read_stamps(self) -> list[tuple[int, int]]:
        """Return txid and time of every record. Raises BadMemo."""
        return list(
            zip(
                self._file.read_section(2).cast("Q").tolist(),
                self._file.read_section(3).cast("q").tolist(),
                strict=True,
            )
        )

    def read_stamp_columns(self, numpy: Any) -> tuple[Any, Any]:
        """Return txid and time of every record as two arrays. Raises BadMemo."""
        return numpy.frombuffer(self._file.read_section(2), "<u8"), numpy.frombuffer(self._file.read_section(3), "<i8")

    def find_rank(self, key: bytes) -> int:
        """Return the place of a key, or of the first key after it."""
        keys = self._keys
        return bisect_left(
            range(self.records), key, key=lambda at: bytes(keys[KEY_SIZE * at : KEY_SIZE * at + KEY_SIZE])
        )

    def find_changed_places(self) -> set[int]:
        """Return the places of those changed keys that the indexes contain."""
        ranks = {key: self.find_rank(key) for key in self.changed}
        return {place for key, place in ranks.items() if place < self.records and self.read_keys((place,)) == [key]}


def open_indexes(instance: Instance, source: StoredSource, slots: Sequence[Slot]) -> OpenIndexes | None:
    """Return the indexes of ``slots``, built if they were requested before; None if the query must work without them.

    Slots that cannot be indexed are missing from the result.
    """
    assert source.path is not None
    # Indexes cover only the store. After a bulk load into the journal they would be built but useless.
    if source.memtable is not None and len(source.memtable) > compute_max_changed(source):
        return None
    directory = MemoDirectory(source.path, instance.seam)
    names = resolve_column_names(instance, source, slots)
    return _open_existing(directory, source, names) or _build_missing(instance, directory, source, names)


def list_configured_slots(topic: TopicConfig | None) -> list[Slot]:
    """Return the fields to index by a topic's configuration."""
    if topic is None:
        return []
    paths = [*topic.keys, *(path for index in topic.hash_indexes for path in index), *topic.indexes]
    return list(dict.fromkeys(Slot(path) for path in paths))


def compute_max_changed(source: StoredSource) -> int:
    """Return the maximum number of changed records with which indexes are still used."""
    return max(source.meta.records // QUERY_LIMITS.index_max_changed_divisor, QUERY_LIMITS.index_tolerated_changes)


def resolve_column_names(instance: Instance, source: StoredSource, slots: Iterable[Slot]) -> dict[Slot, str]:
    """Return the column names of ``slots``."""
    prefix = format_reading_prefix(instance, source)
    return {slot: _format_column_name(slot, prefix) for slot in slots}


def list_existing_columns(instance: Instance, directory: MemoDirectory, source: StoredSource) -> dict[Slot, str]:
    """Return the fields that have columns, of any state, and the names of the columns."""
    prefix = format_reading_prefix(instance, source)
    found = {name: _parse_column_name(name, prefix) for name in directory.list_columns()}
    return {slot: name for name, slot in found.items() if slot is not None}


def format_reading_prefix(instance: Instance, source: StoredSource) -> str:
    """Return the definition of the message type as text: field values depend on it and on the record."""
    # Part of a column's name, so that after a change of the definition old columns are not found.
    definition = instance.config.types.get(source.message_type) if instance.config is not None else None
    # Columns built before untyped numbers were distinguished lack this mark.
    mark = "" if instance.find_message_type(source.message_type).typed else " untyped"
    return f"{source.message_type} {definition!r}{mark}"


def _format_column_name(slot: Slot, prefix: str) -> str:
    wanted = "".join(mark for mark, asked in ((" text", slot.text), (" listed", slot.listed)) if asked)
    return f"{prefix}\n{slot.path}\n{wanted}"


def _parse_column_name(name: str, prefix: str) -> Slot | None:
    """Return the slot of a column, None if it was built with another definition of the message type."""
    from sowctl.values.paths import parse_path

    reading, _, rest = name.partition("\n")
    path, _, wanted = rest.rpartition("\n")
    return Slot(parse_path(path), " text" in wanted, " listed" in wanted) if reading == prefix else None


def _open_existing(directory: MemoDirectory, source: StoredSource, names: dict[Slot, str]) -> OpenIndexes | None:
    known = directory.find_keys()
    if known is None:
        return None
    file, keys = known
    # The indexes name the state that they were built from. The store lists the keys of its last transactions; records
    # changed since that state are read from the store. If the list does not reach back that far, indexes are unusable.
    changed = source.snapshot.find_changed_keys(file.head.state)
    if changed is None:
        return None
    if source.memtable is not None:
        # Journal entries not yet applied to the store are newer than any index.
        changed = changed.union(*source.memtable.iterate_parts(QUERY_LIMITS.index_build_batch_records))
    # Rebuilding is faster than reading more changed records one by one.
    if len(changed) > compute_max_changed(source):
        return None
    indexes = {}
    for slot, name in names.items():
        found = directory.find_column(name, file.head.state)
        # All indexes or none: the indexes of a query must be of the same state.
        if found is None:
            return None
        if found[0] is not None:
            indexes[slot] = found[0]
    return OpenIndexes(file, keys, indexes, changed, directory.find_locations(file.head.state))


def _build_missing(
    instance: Instance, directory: MemoDirectory, source: StoredSource, names: dict[Slot, str]
) -> OpenIndexes | None:
    # Building takes as long as several scans. A field queried for the first time is answered by a scan; a field queried
    # again is likely to be queried more often. Fields that the configuration names need no earlier query.
    missing = [name for slot, name in names.items() if slot not in list_configured_slots(source.config)]
    missing = [name for name in missing if directory.find_column(name, source.meta.state_number) is None]
    if QUERY_LIMITS.index_min_requests > 1 and not directory.note_request(missing):
        return None
    try:
        with directory.hold_build_lock() as mine:
            # If another process is building (not ``mine``), do not wait: use the existing indexes or none.
            if mine:
                build_indexes(instance, directory, source, names)
    except OSError:
        return None
    return _open_existing(directory, source, names)


def renew_indexes(instance: Instance, source: StoredSource) -> bool:
    """Rebuild the existing indexes if they are outdated. Return whether they were rebuilt. Raises OSError."""
    assert source.path is not None
    if source.memtable is not None and len(source.memtable) > compute_max_changed(source):
        return False
    directory = MemoDirectory(source.path, instance.seam)
    names = list_existing_columns(instance, directory, source)
    if not names or _open_existing(directory, source, names) is not None:
        return False
    with directory.hold_build_lock() as mine:
        if mine:
            build_indexes(instance, directory, source, names)
        return mine


def build_indexes(instance: Instance, directory: MemoDirectory, source: StoredSource, names: dict[Slot, str]) -> None:
    """Build the columns ``names``, and rebuild existing columns of other states. Raises OSError.

    Unreadable records make their columns unusable; queries of these fields read the records instead.
    """
    from sowctl.engine.search.index_values import IndexFieldReader, read_index_values
    from sowctl.memo.builder import build_key_parts, build_location_parts

    state = source.meta.state_number
    known = directory.find_keys()
    fresh = known is None or known[0].head.state != state
    # Row numbers belong to a state: a new list of keys requires rebuilding every existing column.
    wanted = list_existing_columns(instance, directory, source) | names if fresh else names
    slots = [slot for slot, name in wanted.items() if directory.find_column(name, state) is None]
    fields = IndexFieldReader(instance.find_message_type(source.message_type), slots, [wanted[slot] for slot in slots])
    # Only the store, without the memtable but with expired records: columns belong to this state. One pass fills all
    # missing columns.
    found = read_index_values(source.snapshot, fields, instance.build_watch("records to index"))
    if fresh:
        # Offsets before keys, keys before columns: each file names its state. A concurrent reader finds a missing file
        # or one of another state, and works without indexes.
        directory.write_locations(None if found.locations is None else build_location_parts(found.locations, state))
        directory.write_keys(build_key_parts(found.keys, found.txids, found.times, state))
    # Progress is per column, because sorting takes longer than reading if values are many.
    for done, (slot, builder) in enumerate(zip(slots, found.builders, strict=True)):
        instance.watch("indexes to build", done, len(slots))
        directory.write_column(wanted[slot], builder.build_parts(state))
    instance.watch("indexes to build", len(slots), len(slots))
