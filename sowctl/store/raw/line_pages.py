"""All records of a state as lines of text, page by page, without an object per record (``sow-memo(5)``, "Kind 5").

LMDB keeps the nodes of a page contiguous up to the end of the page, with eight bytes before each key and possibly one
of alignment. So a page is copied whole, and the bytes between a value and the next key are overwritten twice: first by
bytes that restart the checksum there (:mod:`sowctl.store.integrity`), so that one checksum over many pages proves every
value under its key; then, together with checksums, keys and headers, by a line break and spaces, which leaves the
payloads, one per line. Pages with nodes of another kind, and pages with an invalid value, are read through LMDB
instead. Imports numpy.

Called by :meth:`sowctl.store.read.Reader.scan_lines`. 1,000,000 records of 260 bytes take 0.35 s of CPU this way;
through LMDB's cursor, with payloads and stamps extracted from the values and joined, 0.56 s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from sowctl.checksum import crc32
from sowctl.store.codec import CRC_RESIDUE, CRC_SIZE, HEADER_SIZE, KEY_SIZE, TIME_AT, TXID_AT, VALUE_OVERHEAD_BYTES
from sowctl.store.integrity import CRC_RESTART_MASK
from sowctl.store.limits import STORE_LIMITS
from sowctl.store.lmdbfile.layout import NODE_LAYOUT
from sowctl.store.lmdbfile.locate import Array, Leaves, StaleTree, find_leaf_pages, read_page_entries
from sowctl.store.opening.environment import RECORDS_DATABASE

if TYPE_CHECKING:
    import mmap

    from sowctl.store.raw.offset_read import DataFile

_BEFORE_BYTES = NODE_LAYOUT.size + KEY_SIZE
"""Bytes of a node before its value."""
_ALIGNMENT_BYTES = 8
_SPACE = int.from_bytes(b" " * _ALIGNMENT_BYTES, "little")
_PAYLOAD_GAP_BYTES = CRC_SIZE + _BEFORE_BYTES + HEADER_SIZE
"""Bytes between two payloads without an alignment byte."""
_LINE_BREAK_WORD = np.array(b"\n".ljust(_PAYLOAD_GAP_BYTES), f"V{_PAYLOAD_GAP_BYTES}")


def _restart_word(size: int) -> int:
    """Return the last eight of ``size`` bytes after a valid value that restart the checksum; those before are zero."""
    begun = bytes(size - CRC_SIZE)
    behind = begun + (crc32(begun, CRC_RESIDUE) ^ CRC_RESTART_MASK).to_bytes(CRC_SIZE, "little")
    return int.from_bytes(behind[-_ALIGNMENT_BYTES:], "little")


_RESTART, _RESTART_ALIGNED = _restart_word(NODE_LAYOUT.size), _restart_word(NODE_LAYOUT.size + 1)


class LinePayloads(Sequence[bytes]):
    """Payloads in a text, copied on demand."""

    __slots__ = ("_starts", "_stops", "_text")

    def __init__(self, text: bytes, starts: Array, stops: Array) -> None:
        self._text, self._starts, self._stops = text, starts, stops

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> LinePayloads: ...
    def __getitem__(self, place: int | slice) -> bytes | LinePayloads:
        if isinstance(place, slice):
            return LinePayloads(self._text, self._starts[place], self._stops[place])
        return self._text[self._starts[place] : self._stops[place]]


class PageLines(NamedTuple):
    """Valid records without optional parts, in key order, whose payloads are lines of ``text``.

    Each payload follows some spaces, on the line given in ``places``; it may contain line breaks itself. ``keys`` are
    end to end; ``txids`` are unsigned 64-bit numbers, ``times`` signed ones.
    """

    keys: bytes
    messages: LinePayloads
    txids: Array
    times: Array
    text: bytes
    places: Array


class LinePages:
    """The leaf pages of a state. Created by :func:`open_line_pages`."""

    def __init__(self, file: DataFile, state: Any, pages: Array) -> None:
        self._data = file.map_file()
        self._state, self._pages = state, pages
        self._together = max(STORE_LIMITS.page_batch_bytes // state.page_size, 1)

    def iter_parts(self) -> Iterator[tuple[bytes, PageLines | None]]:
        """Yield records in parts, in key order: their keys, end to end, and their lines if the pages can be read
        directly.

        Keys ascend. Raises StaleTree if pages cannot be read; later parts are unknown then.
        """
        last = -1
        for start in range(0, len(self._pages), self._together):
            leaves = read_page_entries(self._data, self._state, self._pages[start : start + self._together])
            keys = np.frombuffer(leaves.keys, ">u8")
            if not len(keys):
                continue
            # A page in a wrong position breaks the order of keys.
            if int(keys[0]) <= last or (keys[1:] <= keys[:-1]).any():
                raise StaleTree("keys do not ascend")
            last = int(keys[-1])
            yield leaves.keys, read_lines(self._data, self._state.page_size, leaves)


def open_line_pages(file: DataFile | None, txnid: int) -> LinePages | None:
    """Return the pages of the records in a transaction's state; None if the file does not show them."""
    try:
        return None if file is None else LinePages(file, *find_leaf_pages(file.map_file(), txnid, RECORDS_DATABASE))
    except (StaleTree, OSError, ValueError):
        return None


def read_lines(data: mmap.mmap, page_size: int, leaves: Leaves) -> PageLines | None:
    """Return the records of some pages, at least one, in key order, as lines; None if one is not as expected.

    If only some records of a page are requested, they must be contiguous.
    """
    sizes = leaves.sizes
    if int(sizes.min()) < VALUE_OVERHEAD_BYTES:
        return None
    pages = leaves.starts // page_size
    # For each page, the bytes from its first node to the end of its last value: one part of the text.
    firsts = np.flatnonzero(np.append(True, pages[1:] != pages[:-1]))
    low = np.minimum.reduceat(leaves.starts, firsts) - _BEFORE_BYTES
    high = np.maximum.reduceat(leaves.starts + sizes, firsts)
    # A value in overflow pages makes a part that is larger than a page.
    if int((high - low).max()) > page_size:
        return None
    with memoryview(data) as view:
        text = bytearray().join([view[start:stop] for start, stop in zip(low.tolist(), high.tolist(), strict=True)])
    lengths = high - low
    # The difference between offsets in the text and in the file, for each page.
    moved = np.cumsum(lengths) - lengths - low
    starts = leaves.starts + np.repeat(moved, np.diff(np.append(firsts, len(pages))))
    # A page has its nodes in the order in which they were added. From here on ``stood`` and ``size`` are in key order,
    # ``starts`` and ``sizes`` in the order of offsets.
    order = np.argsort(starts, kind="stable")
    stood, size = starts, sizes
    starts, sizes = starts[order], sizes[order]
    stops = starts + sizes
    between = starts[1:] - stops[:-1]
    aligned = between == _BEFORE_BYTES + 1
    # Only contiguous nodes: so the bytes overwritten below belong to no value.
    if (
        int(starts[0]) != _BEFORE_BYTES
        or int(stops[-1]) != len(text)
        or not (aligned | (between == _BEFORE_BYTES)).all()
    ):
        return None
    # Numbers of eight and of four bytes at every offset of the text, on the same memory.
    words = np.ndarray((len(text) - _ALIGNMENT_BYTES + 1,), "<u8", text, 0, (1,))
    heads = np.ndarray((len(text) - 3,), "<u4", text, 0, (1,))
    # With flags or optional parts the payload does not follow the header directly.
    if heads[starts].any():
        return None
    if not _are_values_sound(text, words, starts, aligned):
        return None
    # These are copies: headers are overwritten next.
    txids, times = words[stood + TXID_AT], words[stood + TIME_AT].view("<i8")
    begins, ends = starts + HEADER_SIZE, stops - CRC_SIZE
    _blank_gaps(text, words, begins, ends)
    # Up to the line break that replaces the first byte of the last checksum.
    lines = bytes(memoryview(text)[: int(ends[-1]) + 1])
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    messages = LinePayloads(lines, stood + HEADER_SIZE, stood + size - CRC_SIZE)
    return PageLines(leaves.keys, messages, txids, times, lines, places)


def _are_values_sound(text: bytearray, words: Array, starts: Array, aligned: Array) -> bool:
    """Return whether every value is valid under its key; overwrites the bytes before each key."""
    # These eight bytes are the header of a node, followed by its key; an alignment byte before them becomes zero.
    words[starts[1:] - _BEFORE_BYTES] = np.where(aligned, np.uint64(_RESTART_ALIGNED), np.uint64(_RESTART))
    np.frombuffer(text, np.uint8)[starts[1:][aligned] - _BEFORE_BYTES - 1] = 0
    # The checksum begins with the first key. It is restarted after every value, so it ends as that of a valid value if
    # and only if all are valid, for the reason given in :func:`sowctl.store.integrity.build_sound_run`.
    return crc32(memoryview(text)[NODE_LAYOUT.size :]) == CRC_RESIDUE


def _blank_gaps(text: bytearray, words: Array, begins: Array, ends: Array) -> None:
    """Overwrite the bytes between payloads by a line break and spaces."""
    text[: int(begins[0])] = b" " * int(begins[0])
    text[int(ends[-1])] = ord("\n")
    np.ndarray((len(text) - _PAYLOAD_GAP_BYTES + 1,), _LINE_BREAK_WORD.dtype, text, 0, (1,))[ends[:-1]] = (
        _LINE_BREAK_WORD
    )
    # The last bytes again from the other end, because of the alignment byte.
    words[begins[1:] - _ALIGNMENT_BYTES] = _SPACE


__all__ = ["LinePages", "LinePayloads", "PageLines", "open_line_pages", "read_lines"]
