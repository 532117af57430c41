"""The blocks of a batch of entries that a writer appends as a group, or a part of one (``sow-journal(5)``, "Blocks").

Called by :mod:`sowctl.journal.writer`. These blocks have no offset yet: the header's CRC is computed when
:mod:`sowctl.journal.logend` knows the offset of the block.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.checksum import crc32
from sowctl.errors import LimitError
from sowctl.identity.keyspace import join_words
from sowctl.journal import columns as codec
from sowctl.journal.blockcodec import (
    ABORT_FLAG,
    CODEC_NONE,
    CODEC_ZSTD,
    LAST_BLOCK_FLAG,
    MAX_MAP_BYTES,
    BlockHeader,
    BlockMap,
    MapPublisher,
    MapTopic,
    pack_block_map,
)
from sowctl.journal.entries import FIXED_COLUMNS, TEXT_COLUMNS, WORD_CODE, EntryBatch, spread_numbers
from sowctl.journal.format import NO_PUBLISHER
from sowctl.journal.limits import JOURNAL_LIMITS
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    from concurrent.futures import Executor


class EncodedBlock(Struct, frozen=True):
    """One block without its offset: header (CRC not computed yet), map, body parts."""

    header: BlockHeader
    names: BlockMap
    body: tuple[bytes, bytes, bytes]


class _Draft(DescribedStruct, frozen=True):
    """One packed block that is not compressed yet; ``flags`` are the block's, ``times`` its column of times.

    ``size`` is the uncompressed size of ``payloads`` in bytes if they are compressed, otherwise None.
    """

    names: BlockMap
    packed_map: bytes
    columns: bytes
    payloads: bytes
    codec: int
    flags: int
    first_txid: int
    group_txid: int
    times: array[int]
    size: int | None = None

    def seal(self) -> EncodedBlock:
        """Compress the block."""
        payloads = codec.compress_part(self.codec, self.payloads) if self.size is None else self.payloads
        return _seal_block(self, codec.compress_part(self.codec, self.columns), payloads)


def compress_payloads(payloads: list[bytes]) -> list[bytes]:
    """Return the payloads of a group block by block, compressed with zstd as its blocks store them."""
    return codec.compress_parts([b"".join(payloads[start:stop]) for start, stop in _find_block_bounds(payloads)])


def encode_blocks(
    batch: EntryBatch, codec_id: int, first_txid: int, group_txid: int, last: bool
) -> Iterator[EncodedBlock]:
    """Divide a batch into blocks. ``group_txid`` is ``first_txid`` unless the group was begun earlier; ``last`` ends
    it.

    Raises LimitError ``SOW-JRN-016`` for a payload above 256 MiB; ValueError if the columns are inconsistent.
    """
    for draft in _draft_blocks(batch, codec_id, first_txid, group_txid, last):
        yield draft.seal()


def encode_blocks_in_pool(
    batch: EntryBatch,
    codec_id: int,
    first_txid: int,
    group_txid: int,
    last: bool,
    pool: Executor,
    meanwhile: Callable[[], None],
) -> list[EncodedBlock]:
    """As :func:`encode_blocks`, compressed by ``pool`` while ``meanwhile`` runs here; also keeps the uncompressed batch
    in memory."""
    drafts = list(_draft_blocks(batch, codec_id, first_txid, group_txid, last))
    packed = [draft for draft in drafts if draft.codec == CODEC_ZSTD]
    compressed = pool.submit(
        codec.compress_parts, [part for draft in packed for part in (draft.columns, draft.payloads)]
    )
    # Called between submit and result: zstd releases the GIL, so compression runs in parallel.
    meanwhile()
    parts = iter(compressed.result())
    return [
        _seal_block(draft, next(parts), next(parts))
        if draft.codec == CODEC_ZSTD
        else _seal_block(draft, draft.columns, draft.payloads)
        for draft in drafts
    ]


def _draft_blocks(batch: EntryBatch, codec_id: int, first_txid: int, group_txid: int, last: bool) -> Iterator[_Draft]:
    # Checked once for the whole batch: afterwards all columns can be sliced by the same bounds.
    batch.check_lengths()
    count = len(batch)
    # Only the last block has the LAST flag: a reader counts the group only after it has read that block.
    for number, (start, stop) in enumerate(_find_block_bounds(batch.payloads)):
        # compress_payloads uses the same block bounds, so its parts correspond to these blocks.
        stored = batch.stored[number] if batch.stored is not None and codec_id == CODEC_ZSTD else None
        part = batch.slice(start, stop)
        yield _draft_block(part, codec_id, first_txid + start, group_txid, last and stop == count, stored)


def build_abort_block(group_txid: int, last_txid: int) -> EncodedBlock:
    """Return the marker that aborts a group."""
    # A marker repeats the last txid of the group, so that the next block continues after the used txids.
    header = BlockHeader(
        CODEC_NONE, LAST_BLOCK_FLAG | ABORT_FLAG, 0, group_txid, group_txid, last_txid, group_txid - 1, *(0,) * 12
    )
    return EncodedBlock(header, BlockMap((), ()), (b"", b"", b""))


def _find_block_bounds(payloads: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Yield the bounds of the blocks, within the limits on entries and bytes of a block."""
    max_entries, max_bytes = JOURNAL_LIMITS.max_block_entries, JOURNAL_LIMITS.max_block_bytes
    count = len(payloads)
    start = 0
    while start < count:
        stop = min(start + max_entries, count)
        # Usually 1,024 payloads fit, which one sum shows; otherwise they are counted one by one. The first always fits:
        # a larger payload is a block of its own.
        if sum(map(len, payloads[start:stop])) > max_bytes:
            size = len(payloads[start])
            stop = start + 1
            while stop < count and stop - start < max_entries and (size := size + len(payloads[stop])) <= max_bytes:
                stop += 1
        yield start, stop
        start = stop


def _build_topic_map(batch: EntryBatch, times: array[int], first_txid: int) -> tuple[list[MapTopic], array[int]]:
    """Return the map's topics and the topic column of one block; only topics that occur are listed."""
    count = len(times)
    if isinstance(batch.topic_indexes, int):
        used = {batch.topic_indexes: count - 1}
        column = array("H", (0,)) * count
    else:
        column = spread_numbers(batch.topic_indexes, "H", count)
        # The last index of each topic: a later one replaces an earlier one in the dictionary.
        used = {index: place for place, index in enumerate(column)}
        order = {index: rank for rank, index in enumerate(sorted(used))}
        # Renumbered only if the batch's list has topics that this block lacks: a block lists only the topics that occur
        # in it.
        if len(order) != max(order) + 1:
            column = array("H", [order[index] for index in column])
    rows = [MapTopic(batch.topic_refs[index], first_txid + used[index], times[used[index]]) for index in sorted(used)]
    return rows, column


def _build_publisher_map(batch: EntryBatch, sequences: array[int]) -> tuple[list[MapPublisher], array[int]]:
    """Return the map's publishers and the publisher column of one block."""
    count = len(sequences)
    if isinstance(batch.publisher_indexes, int):
        if batch.publisher_indexes == NO_PUBLISHER:
            return [], array("H", (NO_PUBLISHER,)) * count
        publisher = batch.publishers[batch.publisher_indexes]
        return [MapPublisher(*publisher, max(sequences))], array("H", (0,)) * count
    column = spread_numbers(batch.publisher_indexes, "H", count)
    highest: dict[int, int] = {}
    for index, sequence in zip(column, sequences, strict=True):
        # The highest number, not the last one: a publisher may send an older message again.
        if sequence >= highest.get(index, 0):
            highest[index] = sequence
    highest.pop(NO_PUBLISHER, None)
    order = {index: rank for rank, index in enumerate(sorted(highest))}
    if order and len(order) != max(order) + 1:
        # Entries without a publisher keep their own number, which is in no list.
        order[NO_PUBLISHER] = NO_PUBLISHER
        column = array("H", [order[index] for index in column])
    return [MapPublisher(*batch.publishers[index], highest[index]) for index in sorted(highest)], column


def pack_columns(batch: EntryBatch, numbers: dict[str, array[int]] | None = None) -> tuple[bytes, int]:
    """Return the columns of a block end to end, and the block flags of its text columns.

    ``numbers`` are columns that replace those of the batch: its flags lack those of texts.
    """
    count, numbers = len(batch), numbers or {}
    # A block without any such text has no column for it, even if another block of the group does.
    texts = [
        (column, some)
        for column, some in zip(TEXT_COLUMNS, batch.texts, strict=True)
        if some is not None and any(text is not None for text in some)
    ]
    if texts:
        numbers["flags"] = flags = array("H", spread_numbers(batch.flags, "H", count))
        for column, some in texts:
            for place, text in enumerate(some):
                if text is not None:
                    flags[place] |= column.flag
    parts = []
    for fixed in FIXED_COLUMNS:
        name = fixed.name
        if fixed.code == WORD_CODE:
            parts.append(join_words(getattr(batch, name)))
        else:
            own = numbers[name] if name in numbers else spread_numbers(getattr(batch, name), fixed.code, count)
            parts.append(codec.encode_little_endian(own))
    size, block_flags = codec.ENTRY_SIZE * count, 0
    for column, some in texts:
        block_flags |= column.block_flag
        parts.append(codec.pack_text_column(some, size))
        size += len(parts[-1])
    return b"".join(parts), block_flags


def _draft_block(
    batch: EntryBatch, codec_id: int, first_txid: int, group_txid: int, last: bool, stored: bytes | None
) -> _Draft:
    """Pack the entries of a batch as one block."""
    count, payloads = len(batch), batch.payloads
    times = spread_numbers(batch.times, "q", count)
    sequences = spread_numbers(batch.sequences, "Q", count)
    topic_rows, topic_indexes = _build_topic_map(batch, times, first_txid)
    publishers, publisher_indexes = _build_publisher_map(batch, sequences)
    try:
        lengths = array("I", list(map(len, payloads)))
    except OverflowError:
        raise _too_large() from None
    columns, flags = pack_columns(
        batch,
        {
            "times": times,
            "sequences": sequences,
            "lengths": lengths,
            "topic_indexes": topic_indexes,
            "publisher_indexes": publisher_indexes,
        },
    )
    names = BlockMap(tuple(topic_rows), tuple(publishers))
    packed_map, size = pack_block_map(names), sum(lengths)
    # A reader rejects larger blocks, so none is written.
    if max(len(columns), size) > JOURNAL_LIMITS.max_raw_bytes or len(packed_map) > MAX_MAP_BYTES:
        raise _too_large()
    flags |= LAST_BLOCK_FLAG if last else 0
    # The codec is stated per block, so that a single small message costs no import of zstandard.
    if len(columns) + size < JOURNAL_LIMITS.min_compressed_bytes:
        codec_id, stored = CODEC_NONE, None
    if stored is not None:
        return _Draft(names, packed_map, columns, stored, codec_id, flags, first_txid, group_txid, times, size)
    return _Draft(names, packed_map, columns, b"".join(payloads), codec_id, flags, first_txid, group_txid, times)


def _seal_block(draft: _Draft, stored_columns: bytes, stored_payloads: bytes) -> EncodedBlock:
    """Return the block of a draft from its compressed parts."""
    times, packed_map = draft.times, draft.packed_map
    header = BlockHeader(
        codec=draft.codec,
        flags=draft.flags,
        count=len(times),
        group=draft.group_txid,
        first_txid=draft.first_txid,
        last_txid=draft.first_txid + len(times) - 1,
        # Set with the CRC when the block gets its offset: only then is it known what has been synced.
        synced_txid=0,
        earliest=min(times),
        latest=max(times),
        map_size=len(packed_map),
        columns_stored=len(stored_columns),
        columns_raw=len(draft.columns),
        payloads_stored=len(stored_payloads),
        payloads_raw=len(draft.payloads) if draft.size is None else draft.size,
        map_crc=crc32(packed_map),
        columns_crc=crc32(stored_columns),
        payloads_crc=crc32(stored_payloads),
        chain=0,
        crc=0,
    )
    return EncodedBlock(header, draft.names, (packed_map, stored_columns, stored_payloads))


def _too_large() -> LimitError:
    return LimitError(
        "SOW-JRN-016",
        f"the message is too large for the journal: the maximum block size is {JOURNAL_LIMITS.max_raw_bytes >> 20} MiB",
        hint="split the message, or store it elsewhere and publish a reference",
    )
