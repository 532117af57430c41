"""Selected entries of a journal block, and their stored values.

A block holds the entries of several topics in a row of txids. Memtables, rebuilds, readers of all versions and the jobs
on Spark choose among them here: by topic, by txid, by time, and without the entries that have no key. The choice comes
in two forms with one meaning, for plain columns (no numpy is loaded for a short tail) and for numpy columns. What an
entry does to a record is ruled by ``sow-journal(5)``, From a store's record to its column.
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
    """The entries to fold: ``after < txid <= until``, not later than ``at`` and not earlier than ``since`` (both
    microseconds) where these are given."""

    after: int
    until: int
    at: int | None = None
    since: int | None = None


def _find_txid_span(block: Block, after: int, until: int | None) -> tuple[int, int]:
    """The places of a block's entries with ``after < txid <= until``: txids are consecutive, so they are a range."""
    count, first = len(block), block.first_txid
    # Both ends are cut to the block: ``after`` and ``until`` may lie far outside of it.
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
    """The places of a block's entries of ``topic`` with ``after < txid <= until`` and a time not above ``at``.

    Times never decrease within a topic, so the entries that ``at`` leaves out are its later ones. What was published
    while the topic had no SOW has no key, and is no record: it is left out unless ``unkeyed``.
    """
    topic_refs = block.topic_refs
    # The block's map names its topics: its columns are not decompressed for this.
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
    """:func:`find_entry_places` as a numpy array of truth values, for the entries of any of ``refs``; None for all
    entries.

    ``since``: only entries of that time or later.
    """
    import numpy as np

    # Every test is made only where the block's header or map leaves it open: most blocks pass them all untested.
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
    # None spares the caller a copy of every column.
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
    """Keys and stored values of the entries of :func:`find_entry_places`, in txid order; a deletion is a tombstone
    value.
    """
    return read_values_at(block, find_entry_places(block, topic, after=after, until=until, at=at, unkeyed=unkeyed))


def read_values_at(block: Block, places: Sequence[int]) -> tuple[list[bytes], list[bytes]]:
    """Keys and stored values of the entries at these ascending ``places`` of a block, as :func:`read_entry_values`."""
    if not places:
        return [], []
    # A block of one topic, whole, is the usual case: its columns are taken as they are.
    entries: EntryBatch = block.decode_columns()
    if len(places) < len(block):
        entries = entries.take(places)
    return split_words(entries.keys), encode_values(entries)


def read_winner_values(block: Block, winners: Any) -> tuple[list[bytes], list[bytes]]:
    """Keys and stored values of the entries of a block whose txids are among ``winners``, an ascending numpy array.

    A deletion is a tombstone. ``winners`` are of one topic or of several: the block's topics are not looked at.
    """
    first, number = block.first_txid, winners.dtype.type
    # Winners ascend and a block's txids are consecutive: two searches find those of this block. The numbers are made of
    # the array's type, or numpy would compare unsigned txids as floating-point numbers.
    low, high = winners.searchsorted(number(first)), winners.searchsorted(number(first + len(block)))
    if low == high:
        return [], []
    entries = block.decode_numpy_columns().take((winners[low:high] - number(first)).astype("i8"))
    return split_words(entries.keys), encode_values(entries)


def encode_values(entries: EntryBatch, txids: Sequence[int] | None = None) -> list[bytes]:
    """The stored values of entries under the txids that they got, else their own; those of deletions are tombstones."""
    if txids is None:
        assert entries.txids is not None
        txids = entries.txids
    keys, checks, operations = split_words(entries.keys), split_words(entries.checks), entries.operations
    times, expirations = entries.list_numbers("times"), entries.list_numbers("expirations")
    deletes = operations == DELETE if isinstance(operations, int) else DELETE in operations
    texts = entries.texts
    if not deletes and all(column is None for column in texts):
        # Most topics have no optional parts: their values are packed by columns.
        return encode_plain_records(keys, checks, txids, times, expirations, entries.payloads)
    if deletes and (isinstance(operations, int) or all(operation == DELETE for operation in operations)):
        # The blocks of a delete of many records hold nothing else.
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
        else encode_record(key, check, txid, time, expiration, 0, payload, *optional)
        for operation, key, check, txid, time, expiration, payload, *optional in rows
    ]


def encode_tombstone(key: bytes, check: bytes, txid: int, time: int) -> bytes:
    """The stored value that says: deleted."""
    # A deletion has a txid and a time like any entry, so that it wins over what came before it and can be dated.
    return encode_record(key, check, txid, time, 0, TOMBSTONE_FLAG, b"")


def encode_tombstones(
    keys: Sequence[bytes], checks: Iterable[bytes], txids: Iterable[int], times: Iterable[int]
) -> list[bytes]:
    """:func:`encode_tombstone` of many deletions, by columns."""
    return encode_plain_records(keys, checks, txids, times, repeat(0), repeat(b"", len(keys)), TOMBSTONE_FLAG)


def collect_texts(records: Sequence[Record]) -> dict[str, Any]:
    """The optional texts of stored records as columns of entries, by name; None where no record has one."""
    columns = {column.name: [getattr(record, column.part) for record in records] for column in TEXT_COLUMNS}
    return {name: column if any(text is not None for text in column) else None for name, column in columns.items()}


def build_deletions(
    topic: TopicRef, keys: Words, checks: Words, at: Micros, logical_topics: Texts = None, client: str | None = None
) -> EntryBatch:
    """The entries that delete records at the instant ``at``; ``client`` is recorded, without a number.

    ``checks`` are the check words of the records, and ``logical_topics`` the logical topics of a Pattern topic's.
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
