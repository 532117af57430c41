"""Selected entries of a journal block, and their stored values.

A block has entries of several topics with consecutive txids. Memtables, rebuilds, readers of all versions and Spark
jobs select entries here: by topic, by txid, by time, and without entries that have no key. The selection exists in two
equivalent forms, for plain columns (a short tail needs no numpy) and for numpy columns. The effect of an entry on a
record is specified in ``sow-journal(5)``, From a store's record to its column.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from sowctl.identity.keyspace import Words, split_words
from sowctl.journal.entries import TEXT_COLUMNS, EntryBatch, Texts
from sowctl.journal.format import DELETE, NO_PUBLISHER, UNKEYED_FLAG
from sowctl.store.codec import KEY_SIZE, TOMBSTONE_FLAG, encode_plain_records, encode_record

if TYPE_CHECKING:
    from sowctl.journal.block import Block
    from sowctl.store.codec import Record
    from sowctl.values.times import Micros
    from sowctl.values.topicref import TopicRef


class EntrySpan(Struct, frozen=True):
    """The entries to fold: ``after < txid <= until``, and, if given, not later than ``at`` and not earlier than
    ``since`` (both microseconds)."""

    after: int
    until: int
    at: int | None = None
    since: int | None = None


def _find_txid_span(block: Block, after: int, until: int | None) -> tuple[int, int]:
    """Return the range of a block's entries with ``after < txid <= until``: txids are consecutive."""
    count, first = len(block), block.first_txid
    # Both ends are limited to the block: ``after`` and ``until`` may be far outside it.
    start = min(max(0, after + 1 - first), count)
    stop = count if until is None else min(max(0, until + 1 - first), count)
    return start, max(start, stop)


def find_entry_places(
    block: Block,
    topic: TopicRef,
    *,
    after: int = 0,
    until: int | None = None,
    at: int | None = None,
    unkeyed: bool = False,
) -> Sequence[int]:
    """Return the indexes of a block's entries of ``topic`` with ``after < txid <= until`` and a time not above ``at``.

    Times never decrease within a topic, so ``at`` excludes its later entries. Messages published while the topic had no
    SOW have no key and are no records: they are excluded unless ``unkeyed``.
    """
    topic_refs = block.topic_refs
    # The block's map names its topics: the columns need not be decompressed for this.
    if topic not in topic_refs:
        return ()
    columns = block.decode_columns()
    places: Sequence[int] = range(*_find_txid_span(block, after, until))
    if len(topic_refs) > 1:
        index, column = topic_refs.index(topic), columns.topic_indexes
        places = [place for place in places if column[place] == index]
    if at is not None and block.header.latest > at:
        places = [place for place in places if columns.times[place] <= at]
    if unkeyed:
        # A topic without a SOW may have a queue of its name: acknowledgements are no messages.
        operations = bytes(columns.operations)
        if max(operations, default=0) > DELETE:
            places = [place for place in places if operations[place] <= DELETE]
    # Flags have few different values: the set is tested instead of every entry.
    elif any(flag & UNKEYED_FLAG for flag in set(columns.flags)):
        places = [place for place in places if not columns.flags[place] & UNKEYED_FLAG]
    return places


def build_entry_mask(
    block: Block,
    refs: Collection[TopicRef],
    *,
    after: int = 0,
    until: int | None = None,
    since: int | None = None,
    at: int | None = None,
    unkeyed: bool = False,
) -> Any:
    """Return the selection of :func:`find_entry_places` as a boolean numpy array, for the entries of any of ``refs``;
    None for all entries.

    ``since``: only entries of that time or later.
    """
    import numpy as np

    # A test is needed only if the block's header or map does not decide it: most blocks need none.
    columns = block.decode_numpy_columns()
    tests = []
    start, stop = _find_txid_span(block, after, until)
    if (start, stop) != (0, len(block)):
        within = np.zeros(len(block), dtype=bool)
        within[start:stop] = True
        tests.append(within)
    wanted = [index for index, topic in enumerate(block.topic_refs) if topic in refs]
    if len(wanted) < len(block.topic_refs):
        tests.append(columns.topic_indexes == wanted[0] if len(wanted) == 1 else np.isin(columns.topic_indexes, wanted))
    if since is not None and block.header.earliest < since:
        tests.append(columns.times >= since)
    if at is not None and block.header.latest > at:
        tests.append(columns.times <= at)
    if not unkeyed:
        keyed = (columns.flags & UNKEYED_FLAG) == 0
        if not keyed.all():
            tests.append(keyed)
    # None saves the caller a copy of every column.
    return np.logical_and.reduce(tests) if tests else None


def read_entry_values(
    block: Block,
    topic: TopicRef,
    *,
    after: int = 0,
    until: int | None = None,
    at: int | None = None,
    unkeyed: bool = False,
) -> tuple[list[bytes], list[bytes]]:
    """Return keys and stored values of the entries of :func:`find_entry_places`, in txid order; a deletion is a
    tombstone value."""
    return read_values_at(block, find_entry_places(block, topic, after=after, until=until, at=at, unkeyed=unkeyed))


def read_values_at(block: Block, places: Sequence[int]) -> tuple[list[bytes], list[bytes]]:
    """Return keys and stored values of the entries at these ascending indexes of a block, as
    :func:`read_entry_values`."""
    if not places:
        return [], []
    # The usual case is a whole block of one topic: its columns are used directly.
    entries: EntryBatch = block.decode_columns()
    if len(places) < len(block):
        entries = entries.take(places)
    return split_words(entries.keys), encode_values(entries)


def read_winner_values(block: Block, winners: Any) -> tuple[list[bytes], list[bytes]]:
    """Return keys and stored values of the entries of a block whose txids are in ``winners``, an ascending numpy array.

    A deletion is a tombstone. ``winners`` may belong to one or more topics: the block's topics are ignored.
    """
    first, number = block.first_txid, winners.dtype.type
    # Winners ascend and a block's txids are consecutive: two searches find those of this block. The numbers have the
    # array's type, because numpy would compare unsigned txids as floating-point numbers.
    low, high = winners.searchsorted(number(first)), winners.searchsorted(number(first + len(block)))
    if low == high:
        return [], []
    entries = block.decode_numpy_columns().take((winners[low:high] - number(first)).astype("i8"))
    return split_words(entries.keys), encode_values(entries)


def encode_values(entries: EntryBatch, txids: Sequence[int] | None = None) -> list[bytes]:
    """Return the stored values of entries with the assigned ``txids``, or their own; deletions become tombstones."""
    if txids is None:
        assert entries.txids is not None
        txids = entries.txids
    keys, checks, operations = split_words(entries.keys), split_words(entries.checks), entries.operations
    times, expirations = entries.list_numbers("times"), entries.list_numbers("expirations")
    deletes = operations == DELETE if isinstance(operations, int) else DELETE in operations
    texts = entries.texts
    if not deletes and all(column is None for column in texts):
        # Most topics have no optional parts: their values are encoded by columns.
        return encode_plain_records(keys, checks, txids, times, expirations, entries.payloads)
    if deletes and (isinstance(operations, int) or all(operation == DELETE for operation in operations)):
        # The blocks of a delete of many records have only deletions.
        return encode_tombstones(keys, checks, txids, times)
    nothing: Sequence[None] = (None,) * len(keys)
    rows = zip(
        entries.list_numbers("operations"),
        keys,
        checks,
        txids,
        times,
        expirations,
        entries.payloads,
        *(nothing if column is None else column for column in texts),
        strict=True,
    )
    return [
        encode_tombstone(key, check, txid, time)
        if operation == DELETE
        else encode_record(key, check, txid, time, expiration, 0, payload, optional)
        for operation, key, check, txid, time, expiration, payload, *optional in rows
    ]


def encode_tombstone(key: bytes, check: bytes, txid: int, time: int) -> bytes:
    """Return the stored value of a deletion."""
    # A deletion has a txid and a time like any entry, so that it replaces earlier entries and has a date.
    return encode_record(key, check, txid, time, 0, TOMBSTONE_FLAG, b"")


def encode_tombstones(
    keys: Sequence[bytes], checks: Iterable[bytes], txids: Iterable[int], times: Iterable[int]
) -> list[bytes]:
    """Return :func:`encode_tombstone` of many deletions, by columns."""
    return encode_plain_records(keys, checks, txids, times, repeat(0), repeat(b"", len(keys)), TOMBSTONE_FLAG)


def collect_texts(records: Sequence[Record]) -> dict[str, Any]:
    """Return the optional texts of stored records as columns of entries, by name; None if no record has one."""
    columns = {column.name: [getattr(record, column.part) for record in records] for column in TEXT_COLUMNS}
    return {name: column if any(text is not None for text in column) else None for name, column in columns.items()}


def build_deletions(
    topic: TopicRef, keys: Words, checks: Words, at: Micros, logical_topics: Texts = None, client: str | None = None
) -> EntryBatch:
    """Return the entries that delete records at the instant ``at``; ``client`` is recorded without a sequence number.

    ``checks`` are the check words of the records, and ``logical_topics`` the logical topics of records of a Pattern
    topic.
    """
    from sowctl.identity.hashes import hash_client_name

    count = len(keys) if isinstance(keys, list) else len(keys) // KEY_SIZE
    return EntryBatch(
        topic_refs=[topic],
        payloads=[b""] * count,
        keys=keys,
        checks=checks,
        times=at,
        operations=DELETE,
        publishers=[] if client is None else [(hash_client_name(client), client)],
        publisher_indexes=NO_PUBLISHER if client is None else 0,
        logical_topics=logical_topics,
    )
