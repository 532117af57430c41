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

from sowctl.identity.keyspace import read_words
from sowctl.journal.format import DELETE, HAS_LOGICAL_TOPIC, NO_PUBLISHER, UNKEYED_FLAG
from sowctl.store.codec import (
    KEY_CHECK_SLICE,
    KEY_SIZE,
    TOMBSTONE_FLAG,
    encode_plain_records,
    encode_record,
    read_logical_topic,
)

if TYPE_CHECKING:
    from sowctl.journal.block import Block
    from sowctl.journal.group import Group
    from sowctl.values.topicref import TopicRef

TextColumn = Sequence[bytes | None] | None
"""One optional text per entry; None where no entry has one."""


class Deletions(Struct, frozen=True):
    """Records to delete: keys and check words, 8 bytes each, back to back; the logical topics of a Pattern topic's."""

    keys: bytes
    checks: bytes
    logical_topics: list[bytes | None] | None = None

    def __len__(self) -> int:
        return len(self.keys) // KEY_SIZE

    def split_keys(self) -> tuple[list[bytes], list[bytes]]:
        """Keys and check words, one by one."""
        places = range(0, len(self.keys), KEY_SIZE)
        return [self.keys[at : at + KEY_SIZE] for at in places], [self.checks[at : at + KEY_SIZE] for at in places]


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
    columns, first = block.decode_columns(), block.first_txid
    # Copied once for the block: slices of bytes are cheaper than slices of a view.
    raw_keys, raw_checks, payloads = bytes(columns.keys), bytes(columns.checks), block.list_payloads()
    operations = bytes(columns.operations)
    keys = [raw_keys[8 * place : 8 * place + 8] for place in places]
    texts = columns.user_keys, columns.correlation_ids, columns.logical_topics
    return keys, encode_values(
        keys,
        [raw_checks[8 * place : 8 * place + 8] for place in places],
        [first + place for place in places],
        [columns.times[place] for place in places],
        [columns.expirations[place] for place in places],
        [operations[place] == DELETE for place in places] if DELETE in operations else None,
        # A block of one topic, whole, is the usual case: its columns are taken as they are.
        payloads if len(places) == len(payloads) else [payloads[place] for place in places],
        *(None if text is None else [text[place] for place in places] for text in texts),
    )


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
    columns = block.decode_numpy_columns()
    places = (winners[low:high] - number(first)).astype("i8")
    chosen = places.tolist()
    keys = read_words(columns.keys[places])
    # Payloads lie one behind the other, so the sums of their lengths are where they end.
    ends = columns.lengths.cumsum(dtype="i8")
    starts = (ends - columns.lengths)[places].tolist()
    raw = bytes(block.decompress_payloads())
    gone = columns.operations[places] == DELETE
    texts = columns.user_keys, columns.correlation_ids, columns.logical_topics
    return keys, encode_values(
        keys,
        read_words(columns.checks[places]),
        winners[low:high].tolist(),
        columns.times[places].tolist(),
        columns.expirations[places].tolist(),
        gone.tolist() if gone.any() else None,
        [raw[start:end] for start, end in zip(starts, ends[places].tolist(), strict=True)],
        *(None if text is None else [text[place] for place in chosen] for text in texts),
    )


def encode_values(
    keys: Sequence[bytes],
    checks: Sequence[bytes],
    txids: Sequence[int],
    times: Sequence[int],
    expirations: Sequence[int],
    gone: Sequence[bool] | None,
    payloads: Sequence[bytes],
    user_keys: TextColumn = None,
    correlation_ids: TextColumn = None,
    logical_topics: TextColumn = None,
) -> list[bytes]:
    """Return the stored values of entries, from columns of plain values; where ``gone`` says so, the tombstone of a
    deletion."""
    if gone is None and user_keys is None and correlation_ids is None and logical_topics is None:
        # Most topics have no optional parts: their values are packed by columns.
        return encode_plain_records(keys, checks, txids, times, expirations, payloads)
    if gone is not None and all(gone):
        # The blocks of a delete of many records hold nothing else.
        return encode_tombstones(keys, checks, txids, times)
    nothing: Sequence[None] = (None,) * len(keys)
    rows = zip(
        (False,) * len(keys) if gone is None else gone,
        keys,
        checks,
        txids,
        times,
        expirations,
        payloads,
        nothing if user_keys is None else user_keys,
        nothing if correlation_ids is None else correlation_ids,
        nothing if logical_topics is None else logical_topics,
        strict=True,
    )
    return [
        encode_tombstone(key, check, txid, time)
        if deleted
        else encode_record(key, check, txid, time, expiration, 0, payload, *texts)
        for deleted, key, check, txid, time, expiration, payload, *texts in rows
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


def build_deletions(keys: Sequence[bytes], values: Sequence[bytes], *, logical: bool) -> Deletions:
    """Return the deletions of stored records; ``logical``: each deletion has the logical topic of its record."""
    checks = b"".join([value[KEY_CHECK_SLICE] for value in values])
    return Deletions(b"".join(keys), checks, [read_logical_topic(value) for value in values] if logical else None)


def build_deletion_group(topic: TopicRef, gone: Deletions, at: int, client: str | None = None) -> Group:
    """The journal's group that deletes records at the instant ``at``; ``client`` is recorded, without a number."""
    from sowctl.identity.hashes import hash_client_name
    from sowctl.journal.group import Group

    count = len(gone)
    return Group(
        topic_refs=[topic],
        publishers=[] if client is None else [(hash_client_name(client), client)],
        operations=bytes((DELETE,)) * count,
        topic=0,
        keys=gone.keys,
        checks=gone.checks,
        times=at,
        expirations=0,
        publisher=NO_PUBLISHER if client is None else 0,
        sequences=None,
        flags=HAS_LOGICAL_TOPIC if gone.logical_topics is not None else 0,
        payloads=[b""] * count,
        logical_topics=gone.logical_topics,
    )
