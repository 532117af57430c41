"""The memo indexes of a source: opened, built where they are missing, and what has changed since (``sow-memo(5)``).

No answer depends on them. What cannot be read, or written, is done without.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from struct import unpack
from typing import TYPE_CHECKING, Any

from sowctl.engine.search import figures
from sowctl.memo import rownumbers as p
from sowctl.memo.column import MemoColumn
from sowctl.memo.directory import MemoDirectory
from sowctl.store.codec import KEY_SIZE
from sowctl.values.fields import Slot

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.source import StoredSource
    from sowctl.memo.format import MemoFile
    from sowctl.store.codec import Offsets


class Memos:
    """Columns of one state of a store. ``changed``: keys whose records may differ now, or are in the overlay."""

    def __init__(
        self,
        file: MemoFile,
        keys: memoryview,
        columns: dict[Slot, MemoColumn],
        changed: set[bytes],
        spots: tuple[memoryview, memoryview, memoryview] | None = None,
    ) -> None:
        self._file = file
        self._spots = spots
        self._keys = keys
        self.columns = columns
        self.changed = changed
        self.records = len(keys) // KEY_SIZE

    def keys(self, places: p.Places) -> list[bytes]:
        """The keys at some places."""
        if len(places) < figures.SEVERAL:
            keys = self._keys
            return [bytes(keys[at : at + KEY_SIZE]) for at in [KEY_SIZE * place for place in places]]
        return list(unpack(f"{KEY_SIZE}s" * len(places), p.packed(self._keys.cast("Q"), places)))

    def spots(self, places: p.Places) -> Offsets | None:
        """Where the records at some places lie in the store's file; None where that is not known, or they are few."""
        if self._spots is None or len(places) < figures.SEVERAL:
            return None
        from sowctl.store.codec import Offsets

        starts, sizes, sums = self._spots
        return Offsets(p.picked(starts, places), p.picked(sizes, places), p.packed(sums, places))

    def located(self, places: p.Places, size: int) -> Iterator[tuple[list[bytes], Offsets | None]]:
        """Keys and spots of those of ``places`` that did not change, at most ``size`` at a time."""
        changed = self.changed
        for start in range(0, len(places), size):
            part = places[start : start + size]
            keys = self.keys(part)
            if changed and (gone := changed.intersection(keys)):
                # Changed records come from the store, by the caller: here they would be there twice, and out of date.
                kept = [at for at, key in enumerate(keys) if key not in gone]
                part, keys = p.chosen(part, kept), [keys[at] for at in kept]
            if keys:
                yield keys, self.spots(part)

    def stamps(self) -> list[tuple[int, int]]:
        """Txid and time of every record. Raises BadMemo."""
        return list(
            zip(self._file.section(2).cast("Q").tolist(), self._file.section(3).cast("q").tolist(), strict=True)
        )

    def stamp_columns(self, numpy: Any) -> tuple[Any, Any]:
        """Txid and time of every record as two arrays. Raises BadMemo."""
        return numpy.frombuffer(self._file.section(2), "<u8"), numpy.frombuffer(self._file.section(3), "<i8")

    def rank(self, key: bytes) -> int:
        """The place of a key, or of the first one after it."""
        keys = self._keys
        return bisect_left(
            range(self.records), key, key=lambda at: bytes(keys[KEY_SIZE * at : KEY_SIZE * at + KEY_SIZE])
        )

    def changed_places(self) -> set[int]:
        """The places of those changed keys that there were."""
        ranks = {key: self.rank(key) for key in self.changed}
        return {place for key, place in ranks.items() if place < self.records and self.keys((place,)) == [key]}


def open_memos(instance: Instance, source: StoredSource, slots: Sequence[Slot]) -> Memos | None:
    """The columns of ``slots``, built if they were asked for before; None: do without.

    A slot that cannot be indexed has no column.
    """
    assert source.path is not None
    # Indexes are of the store alone: behind a bulk load they would be built, and be of no use.
    if source.overlay is not None and len(source.overlay) > most_changed(source):
        return None
    directory = MemoDirectory(source.path, instance.seam)
    names = names_of(instance, source, slots)
    return _opened(directory, source, names) or _built(instance, directory, source, names)


def configured(topic: TopicConfig | None) -> list[Slot]:
    """The fields that a topic's configuration wants indexed."""
    if topic is None:
        return []
    paths = [*topic.keys, *(path for index in topic.hash_indexes for path in index), *topic.indexes]
    return list(dict.fromkeys(Slot(path) for path in paths))


def most_changed(source: StoredSource) -> int:
    """The most records that may have changed since indexes were built for these to be of use."""
    return max(source.meta.records // figures.CHANGED_SHARE, figures.CHANGED)


def names_of(instance: Instance, source: StoredSource, slots: Iterable[Slot]) -> dict[Slot, str]:
    """The names of the columns of some fields."""
    prefix = reading_of(instance, source)
    return {slot: _name(slot, prefix) for slot in slots}


def existing(instance: Instance, directory: MemoDirectory, source: StoredSource) -> dict[Slot, str]:
    """The fields for which there are columns, of whatever state, and their names."""
    prefix = reading_of(instance, source)
    found = {name: _slot(name, prefix) for name in directory.names()}
    return {slot: name for name, slot in found.items() if slot is not None}


def reading_of(instance: Instance, source: StoredSource) -> str:
    """What a value depends on besides the record: how the configuration defines the message type."""
    # In a column's name, so that a changed definition finds no column instead of values that were read otherwise.
    definition = instance.config.types.get(source.message_type) if instance.config is not None else None
    # Columns from before numbers without a kind were told from numbers do not have this mark.
    mark = "" if instance.type_of(source.message_type).typed else " untyped"
    return f"{source.message_type} {definition!r}{mark}"


def _name(slot: Slot, prefix: str) -> str:
    wanted = "".join(mark for mark, asked in ((" text", slot.text), (" listed", slot.listed)) if asked)
    return f"{prefix}\n{slot.path}\n{wanted}"


def _slot(name: str, prefix: str) -> Slot | None:
    """The slot of a column, if it was read as values are read now."""
    from sowctl.values.paths import parse_path

    reading, _, rest = name.partition("\n")
    path, _, wanted = rest.rpartition("\n")
    return Slot(parse_path(path), " text" in wanted, " listed" in wanted) if reading == prefix else None


def _opened(directory: MemoDirectory, source: StoredSource, names: dict[Slot, str]) -> Memos | None:
    known = directory.keys()
    if known is None:
        return None
    file, keys = known
    # The digest names the state that the indexes were built from. The store notes the keys of its last transactions:
    # those since that state are read as records, and where the note does not reach back, indexes are of no use.
    changed = source.snapshot.changed_since(file.head.digest)
    if changed is None:
        return None
    if source.overlay is not None:
        # What the journal holds behind the store is newer than any index.
        changed = changed.union(*source.overlay.parts(figures.BUILT))
    # So many records would be read one by one that building anew is faster.
    if len(changed) > most_changed(source):
        return None
    columns = {}
    for slot, name in names.items():
        found = directory.column(name, file.head.digest)
        # All columns or none: those of one query must be of one state.
        if found is None:
            return None
        if found[0] is not None:
            columns[slot] = found[0]
    return Memos(file, keys, columns, changed, directory.spots(file.head.digest))


def _built(instance: Instance, directory: MemoDirectory, source: StoredSource, names: dict[Slot, str]) -> Memos | None:
    # Building takes as long as several scans. A question that is put once is answered by one scan; who asks for a field
    # again will go on asking. What the configuration names is asked for by it.
    missing = [name for slot, name in names.items() if slot not in configured(source.config)]
    missing = [name for name in missing if directory.column(name, source.meta.digest) is None]
    if figures.ASKED > 1 and not directory.asked_again(missing):
        return None
    try:
        with directory.building() as mine:
            # Not ``mine`` where another process builds at this moment: this one does not wait, and reads what is
            # there or goes without.
            if mine:
                build_memos(instance, directory, source, names)
    except (OSError, ImportError):
        return None
    return _opened(directory, source, names)


def renew(instance: Instance, source: StoredSource) -> bool:
    """Build the indexes that there are anew where they are of no use any more; whether any was. Raises OSError,
    ImportError.
    """
    assert source.path is not None
    if source.overlay is not None and len(source.overlay) > most_changed(source):
        return False
    directory = MemoDirectory(source.path, instance.seam)
    names = existing(instance, directory, source)
    if not names or _opened(directory, source, names) is not None:
        return False
    with directory.building() as mine:
        if mine:
            build_memos(instance, directory, source, names)
        return mine


def build_memos(instance: Instance, directory: MemoDirectory, source: StoredSource, names: dict[Slot, str]) -> None:
    """Build the columns ``names``, and with them all that there are for another state. Raises OSError, ImportError.

    Records that cannot be read leave their columns unfit; a query of such a field reads the records instead.
    """
    from sowctl.engine.search.gather import GatheredFields, gathered
    from sowctl.memo.build import key_parts, spot_parts

    digest = source.meta.digest
    known = directory.keys()
    fresh = known is None or known[0].head.digest != digest
    # Row numbers belong to a state: with a new list of keys, every column that is to be kept is built again.
    wanted = existing(instance, directory, source) | names if fresh else names
    slots = [slot for slot, name in wanted.items() if directory.column(name, digest) is None]
    fields = GatheredFields(instance.type_of(source.message_type), slots, [wanted[slot] for slot in slots])
    # The store alone, without the overlay and with what has expired: the columns are of the state that the digest
    # names. One reading fills all columns that are missing.
    found = gathered(source.snapshot, fields, instance.watching("records to index"))
    if fresh:
        # Offsets before keys, keys before columns: each file names the state by its digest, so a reader that comes in
        # between finds none, or one of another state, and does without.
        directory.put_spots(None if found.spots is None else spot_parts(found.spots, digest))
        directory.put_keys(key_parts(found.keys, found.txids, found.times, digest))
    # Sorting takes longer than reading where values are many.
    for done, (slot, column) in enumerate(zip(slots, found.columns, strict=True)):
        instance.watch("indexes to build", done, len(slots))
        directory.put_column(wanted[slot], column.parts(digest))
    instance.watch("indexes to build", len(slots), len(slots))
