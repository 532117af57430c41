"""The columns of a block: bytes <-> entries (``sow-journal(5)``, "Columns"). Used by group, block and check only."""

from __future__ import annotations

import sys
import threading
from array import array
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from sowctl.identity.keyspace import split_words
from sowctl.journal.blockcodec import (
    CODEC_NONE,
    CODEC_ZSTD,
    MAX_RAW_BYTES,
)
from sowctl.journal.entries import FIXED_COLUMNS, TEXT_COLUMNS, WORD_CODE, EntryBatch, PackedPayloads
from sowctl.journal.format import NO_PUBLISHER

if TYPE_CHECKING:
    import zstandard

    from sowctl.journal.entries import DecodedEntries
    from sowctl.values.topicref import TopicRef

    Ints = memoryview[int]
else:
    Ints = memoryview

_WORD_BYTES = 16
"""Bytes of words per entry, stored before the numbers."""
_NUMBER_COLUMNS = [(column.name, column.code) for column in FIXED_COLUMNS if column.code != WORD_CODE]
_STARTS = accumulate((array(code).itemsize for _, code in _NUMBER_COLUMNS), initial=_WORD_BYTES)
_COLUMN_SPANS = [
    (name, start, start + array(code).itemsize, code)
    for (name, code), start in zip(_NUMBER_COLUMNS, _STARTS, strict=False)
]
"""Of each column of numbers: name, bytes per entry before it and up to its end, type code."""
ENTRY_SIZE = _COLUMN_SPANS[-1][2]
"""Bytes of the fixed columns per entry."""
_IS_LITTLE_ENDIAN = sys.byteorder == "little"
# The sizes of array's type codes depend on the compiler; the file's do not.
assert array("q").itemsize == 8
assert array("I").itemsize == 4
assert array("H").itemsize == 2


def encode_little_endian(values: array[int]) -> bytes:
    """Return the bytes of an array in the byte order of the file."""
    if not _IS_LITTLE_ENDIAN:
        values = values[:]
        values.byteswap()
    return values.tobytes()


def view_numbers(raw: memoryview, code: str) -> Ints:
    """Return ``raw`` as numbers of a type code; copied only on big-endian machines."""
    if _IS_LITTLE_ENDIAN:
        return raw.cast(code)  # type: ignore[call-overload, no-any-return]  # the stub asks for a literal code
    swapped = array(code, raw.tobytes())
    swapped.byteswap()
    return memoryview(swapped)


def pack_text_column(texts: Sequence[bytes | None], size: int) -> bytes:
    """Return a text column that starts after ``size`` bytes of columns."""
    lengths = array("I", [0 if text is None else len(text) for text in texts])
    return b"".join([bytes(-size % 8), encode_little_endian(lengths), *[text for text in texts if text]])


def may_match_entries(
    raw: memoryview, count: int, keys: Sequence[bytes] | AbstractSet[bytes] | None, operations: bytes | None
) -> bool:
    """Return whether columns of ``count`` entries have one of the ``keys`` and one of the ``operations``.

    Keys of a sequence are searched one by one, in 3 us each, those of a set all at once, in 40 to 80 us. None matches
    all entries. Key and operation may belong to different entries. Nothing is decompressed. Raises ValueError for
    columns that are cut short.
    """
    if len(raw) < ENTRY_SIZE * count:
        raise ValueError("the columns are cut short")
    if operations is not None:
        start = (ENTRY_SIZE - 1) * count
        there = raw[start : start + count].tobytes()
        if not any(bytes((one,)) in there for one in operations):
            return False
    if keys is None:
        return True
    part = raw[: 8 * count].tobytes()
    if isinstance(keys, AbstractSet):
        return not keys.isdisjoint(split_words(part))
    for key in keys:
        at = part.find(key)
        # The bytes of a key may also occur across two consecutive keys.
        while at >= 0 and at % 8:
            at = part.find(key, at + 1)
        if at >= 0:
            return True
    return False


def _read_text_column(raw: memoryview, start: int, flags: Ints, bit: int) -> tuple[list[bytes | None], int]:
    """Return the text column at ``start`` and the start of the next one. Raises ValueError."""
    # Text columns begin at a multiple of 8, so that their lengths can be read in place, too.
    start += -start % 8
    begin = start + 4 * len(flags)
    if begin > len(raw):
        raise ValueError("a text column is cut short")
    # Lengths are checked against the available bytes before any text is copied: a forged length must not read another
    # entry's text.
    lengths = view_numbers(raw[start:begin], "I")
    ends = list(accumulate(lengths, initial=begin))
    if ends[-1] > len(raw):
        raise ValueError("a text column is cut short")
    texts: list[bytes | None] = []
    for index, flag in enumerate(flags):
        if flag & bit:
            texts.append(raw[ends[index] : ends[index + 1]].tobytes())
        elif lengths[index]:
            raise ValueError("a text without its flag")
        else:
            texts.append(None)
    return texts, ends[-1]


def unpack_columns(
    raw: memoryview,
    txids: range,
    block_flags: int,
    payload_bytes: int,
    topic_refs: list[TopicRef],
    publishers: list[tuple[int, str]],
    read_payloads: Callable[[], memoryview],
) -> DecodedEntries:
    """Decode the columns of the entries with these txids from decompressed bytes.

    ``payload_bytes`` is the total size of the payloads that ``read_payloads`` returns; ``topic_refs`` and
    ``publishers`` are those of the map. Raises ValueError if indexes or lengths do not match them.
    """
    count, topic_count, publisher_count = len(txids), len(topic_refs), len(publishers)
    # All indexes for later code are checked once here against the lists of the block: afterwards topics, publishers and
    # lengths are in range.
    if len(raw) < ENTRY_SIZE * count:
        raise ValueError("the columns are cut short")
    # Views of one piece of memory: on a little-endian machine no column is copied.
    parts = {name: view_numbers(raw[start * count : end * count], code) for name, start, end, code in _COLUMN_SPANS}
    lengths = parts.pop("lengths")
    if sum(lengths) != payload_bytes:
        raise ValueError("the payload lengths do not add up")
    # Most blocks have one topic and no publisher: then all indexes have the same bytes and are compared as bytes.
    indexes = parts["topic_indexes"]
    if (topic_count != 1 or indexes.cast("B") != bytes(2 * count)) and max(indexes) >= topic_count:
        raise ValueError("a topic that the block does not list")
    # As a set: a block has few publishers and up to 1,024 entries.
    if (publisher_count or parts["publisher_indexes"].cast("B") != b"\xff" * (2 * count)) and any(
        NO_PUBLISHER > index >= publisher_count for index in set(parts["publisher_indexes"])
    ):
        raise ValueError("a publisher that the block does not list")
    found: dict[str, Any] = {**parts}
    end = ENTRY_SIZE * count
    for column in TEXT_COLUMNS:
        found[column.name] = None
        if block_flags & column.block_flag:
            found[column.name], end = _read_text_column(raw, end, parts["flags"], column.flag)
    # Extra bytes after the columns show a forged or damaged size.
    if end != len(raw):
        raise ValueError("bytes after the columns")
    # Keys and check words stay bytes: they are only compared and looked up.
    keys, checks = raw[: 8 * count], raw[8 * count : 16 * count]
    payloads = PackedPayloads(lengths, (read_payloads,))
    return EntryBatch(topic_refs, payloads, keys, checks, publishers=publishers, txids=txids, **found)


class _Zstd(threading.local):
    """A compressor and a decompressor reused for all blocks: creating one costs more than a small block.

    One per thread: the library releases the interpreter's lock, and its objects are not thread-safe.
    """

    compressor: zstandard.ZstdCompressor | None = None
    decompressor: zstandard.ZstdDecompressor | None = None


_zstd = _Zstd()


def compress_part(codec: int, raw: bytes) -> bytes:
    """Return ``raw`` as a block stores it."""
    return raw if codec == CODEC_NONE else _get_compressor().compress(raw)


def compress_parts(parts: Sequence[bytes]) -> list[bytes]:
    """Compress each of ``parts`` with zstd, to the same bytes as :func:`compress_part`, in one call that does not block
    other threads."""
    stored = _get_compressor().multi_compress_to_buffer([*parts])
    return [stored[place].tobytes() for place in range(len(stored))]


def _get_compressor() -> zstandard.ZstdCompressor:
    if _zstd.compressor is None:
        import zstandard

        # Frames must state their content size: decompress_part checks it before allocating.
        _zstd.compressor = zstandard.ZstdCompressor(level=1)
    return _zstd.compressor


def decompress_part(codec: int, stored: memoryview, raw_size: int) -> memoryview:
    """Return the ``raw_size`` decompressed bytes of ``stored``. Raises ValueError if their number differs.

    The size in the frame is checked first, because the library allocates this size.
    """
    if codec == CODEC_NONE:
        if len(stored) != raw_size:
            raise ValueError("sizes differ")
        return stored
    # The size in the header limits the allocation; a frame may claim any size.
    if codec != CODEC_ZSTD or raw_size > MAX_RAW_BYTES:
        raise ValueError("unknown codec or too large")
    import zstandard

    if _zstd.decompressor is None:
        _zstd.decompressor = zstandard.ZstdDecompressor()
    try:
        # Checked before the allocation: a few bytes of zstd may claim to decompress to gigabytes.
        if zstandard.frame_content_size(stored) != raw_size:
            raise ValueError("the compressed part states another size")
        raw = _zstd.decompressor.decompress(stored, max_output_size=raw_size, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
    if len(raw) != raw_size:
        raise ValueError("the compressed part has another size")
    return memoryview(raw)
