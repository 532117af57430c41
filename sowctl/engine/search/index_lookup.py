"""The memo indexes of a source: opened, built where they are missing, and what has changed since (``sow-memo(5)``).

No answer depends on them. What cannot be read, or written, is done without.
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
        """The keys at some places."""
        if len(places) < QUERY_LIMITS.index_batch_min_rows:
            keys = self._keys
            return [bytes(keys[at : at + KEY_SIZE]) for at in [KEY_SIZE * place for place in places]]
        return list(unpack(f"{KEY_SIZE}s" * len(places), p.pack_numbers(self._keys.cast("Q"), places)))

    def read_offsets(self, places: p.RowNumbers) -> Offsets | None:
        """Return the offsets of records in the store's file; None where they are unknown, or few."""
        if self._locations is None or len(places) < QUERY_LIMITS.index_batch_min_rows:
            return None
        from sowctl.store.codec import Offsets

        starts, sizes, sums = self._locations
        return Offsets(p.take_numbers(starts, places), p.take_numbers(sizes, places), p.pack_numbers(sums, places))

    def iterate_unchanged(self, places: p.RowNumbers, size: int) -> Iterator[tuple[list[bytes], Offsets | None]]:
        """Yield keys and locations of the ``places`` that did not change, at most ``size`` at a time."""
        changed = self.changed
        for start in range(0, len(places), size):
            part = places[start : start + size]
            keys = self.read_keys(part)
            if changed and (gone := changed.intersection(keys)):
                # Changed records come from the store, by the caller: here they would be there twice, and out of date.
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
        """The place of a key, or of the first one after it."""
        keys = self._keys
        return bisect_left(
            range(self.records), key, key=lambda at: bytes(keys[KEY_SIZE * at : KEY_SIZE * at + KEY_SIZE])
        )

    def find_changed_places(self) -> set[int]:
        """The places of those changed keys that there were."""
        ranks = {key: self.find_rank(key) for key in self.changed}
        return {place for key, place in ranks.items() if place < self.records and self.read_keys((place,)) == [key]}


def open_indexes(instance: Instance, source: StoredSource, slots: Sequence[Slot]) -> OpenIndexes | None:
    """The indexes of ``slots``, built if they were asked for before; None: do without.

    A slot that cannot be indexed has none.
    """
    assert source.path is not None
    # Indexes are of the store alone: behind a bulk load they would be built, and be of no use.
    if source.memtable is not None and len(source.memtable) > compute_max_changed(source):
        return None
    directory = MemoDirectory(source.path, instance.seam)
    names = resolve_column_names(instance, source, slots)
    return _open_existing(directory, source, names) or _build_missing(instance, directory, source, names)


def list_configured_slots(topic: TopicConfig | None) -> list[Slot]:
    """The fields that a topic's configuration wants indexed."""
    if topic is None:
        return []
    paths = [*topic.keys, *(path for index in topic.hash_indexes for path in index), *topic.indexes]
    return list(dict.fromkeys(Slot(path) for path in paths))


def compute_max_changed(source: StoredSource) -> int:
    """The most records that may have changed since indexes were built for these to be of use."""
    return max(source.meta.records // QUERY_LIMITS.index_max_changed_divisor, QUERY_LIMITS.index_tolerated_changes)


def resolve_column_names(instance: Instance, source: StoredSource, slots: Iterable[Slot]) -> dict[Slot, str]:
    """The names of the columns of some fields."""
    prefix = format_reading_prefix(instance, source)
    return {slot: _format_column_name(slot, prefix) for slot in slots}


def list_existing_columns(instance: Instance, directory: MemoDirectory, source: StoredSource) -> dict[Slot, str]:
    """The fields for which there are columns, of whatever state, and their names."""
    prefix = format_reading_prefix(instance, source)
    found = {name: _parse_column_name(name, prefix) for name in directory.list_columns()}
    return {slot: name for name, slot in found.items() if slot is not None}


def format_reading_prefix(instance: Instance, source: StoredSource) -> str:
    """Return a text of what values depend on besides the record: the definition of the message type."""
    # In a column's name, so that a changed definition finds no column instead of values that were read otherwise.
    definition = instance.config.types.get(source.message_type) if instance.config is not None else None
    # Columns from before numbers without a kind were told from numbers do not have this mark.
    mark = "" if instance.find_message_type(source.message_type).typed else " untyped"
    return f"{source.message_type} {definition!r}{mark}"


def _format_column_name(slot: Slot, prefix: str) -> str:
    wanted = "".join(mark for mark, asked in ((" text", slot.text), (" listed", slot.listed)) if asked)
    return f"{prefix}\n{slot.path}\n{wanted}"


def _parse_column_name(name: str, prefix: str) -> Slot | None:
    """The slot of a column, if it was read as values are read now."""
    from sowctl.values.paths import parse_path

    reading, _, rest = name.partition("\n")
    path, _, wanted = rest.rpartition("\n")
    return Slot(parse_path(path), " text" in wanted, " listed" in wanted) if reading == prefix else None


def _open_existing(directory: MemoDirectory, source: StoredSource, names: dict[Slot, str]) -> OpenIndexes | None:
    known = directory.find_keys()
    if known is None:
        return None
    file, keys = known
    # The indexes name the state that they were built from. The store notes the keys of its last transactions:
    # those since that state are read as records, and where the note does not reach back, indexes are of no use.
    changed = source.snapshot.find_changed_keys(file.head.state)
    if changed is None:
        return None
    if source.memtable is not None:
        # What the journal holds behind the store is newer than any index.
        changed = changed.union(*source.memtable.iterate_parts(QUERY_LIMITS.index_build_batch_records))
    # So many records would be read one by one that building anew is faster.
    if len(changed) > compute_max_changed(source):
        return None
    indexes = {}
    for slot, name in names.items():
        found = directory.find_column(name, file.head.state)
        # All indexes or none: those of one query must be of one state.
        if found is None:
            return None
        if found[0] is not None:
            indexes[slot] = found[0]
    return OpenIndexes(file, keys, indexes, changed, directory.find_locations(file.head.state))


def _build_missing(
    instance: Instance, directory: MemoDirectory, source: StoredSource, names: dict[Slot, str]
) -> OpenIndexes | None:
    # Building takes as long as several scans. A question that is put once is answered by one scan; who asks for a field
    # again will go on asking. What the configuration names is asked for by it.
    missing = [name for slot, name in names.items() if slot not in list_configured_slots(source.config)]
    missing = [name for name in missing if directory.find_column(name, source.meta.state_number) is None]
    if QUERY_LIMITS.index_min_requests > 1 and not directory.note_request(missing):
        return None
    try:
        with directory.hold_build_lock() as mine:
            # Not ``mine`` where another process builds at this moment: this one does not wait, and reads what is
            # there or goes without.
            if mine:
                build_indexes(instance, directory, source, names)
    except OSError:
        return None
    return _open_existing(directory, source, names)


def renew_indexes(instance: Instance, source: StoredSource) -> bool:
    """Build the indexes that there are anew where they are of no use any more; whether any was. Raises OSError."""
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
    """Build the columns ``names``, and with them all that there are for another state. Raises OSError.

    Records that cannot be read leave their columns unfit; a query of such a field reads the records instead.
    """
    from sowctl.engine.search.index_values import IndexFieldReader, read_index_values
    from sowctl.memo.builder import build_key_parts, build_location_parts

    state = source.meta.state_number
    known = directory.find_keys()
    fresh = known is None or known[0].head.state != state
    # Row numbers belong to a state: with a new list of keys, every column that is to be kept is built again.
    wanted = list_existing_columns(instance, directory, source) | names if fresh else names
    slots = [slot for slot, name in wanted.items() if directory.find_column(name, state) is None]
    fields = IndexFieldReader(instance.find_message_type(source.message_type), slots, [wanted[slot] for slot in slots])
    # The store alone, without the memtable and with what has expired: the columns are of this state. One reading fills
    # all columns that are missing.
    found = read_index_values(source.snapshot, fields, instance.build_watch("records to index"))
    if fresh:
        # Offsets before keys, keys before columns: each file names its state, so a reader that comes in
        # between finds none, or one of another state, and does without.
        directory.write_locations(None if found.locations is None else build_location_parts(found.locations, state))
        directory.write_keys(build_key_parts(found.keys, found.txids, found.times, state))
    # Sorting takes longer than reading where values are many.
    for done, (slot, builder) in enumerate(zip(slots, found.builders, strict=True)):
        instance.watch("indexes to build", done, len(slots))
        directory.write_column(wanted[slot], builder.build_parts(state))
    instance.watch("indexes to build", len(slots), len(slots))
