"""All records of a state as lines of text, page by page, without an object for each record (``sow-memo(5)``, "Kind 5").

LMDB keeps the nodes of a page close together, from the end of the page on, with eight bytes before each key and
perhaps one of alignment. So a page is copied whole, and what stands between a value and the next key is overwritten
twice: first by what restarts the checksum there (:mod:`sowctl.store.integrity`), so that one checksum over many pages
proves every value under its key; then, with checksums, keys and headers, by a line break and spaces, which leaves the
payloads, a line each. Pages with nodes of another kind, and pages with a value that is not sound, are read by LMDB
instead. Loads numpy.

Called by :meth:`sowctl.store.read.Reader.scan_lines`. 1,000,000 records of 260 bytes take 0.35 s of CPU so; by LMDB's
cursor, with payloads and stamps taken out of the values and joined, 0.56 s.
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
"""Bytes between two payloads, one less than where the alignment takes one."""
_LINE_BREAK_WORD = np.array(b"\n".ljust(_PAYLOAD_GAP_BYTES), f"V{_PAYLOAD_GAP_BYTES}")


def _restart_word(size: int) -> int:
    """The last eight of ``size`` bytes behind a sound value that restart the checksum; those before are zero."""
    begun = bytes(size - CRC_SIZE)
    behind = begun + (crc32(begun, CRC_RESIDUE) ^ CRC_RESTART_MASK).to_bytes(CRC_SIZE, "little")
    return int.from_bytes(behind[-_ALIGNMENT_BYTES:], "little")


_RESTART, _RESTART_ALIGNED = _restart_word(NODE_LAYOUT.size), _restart_word(NODE_LAYOUT.size + 1)


class LinePayloads(Sequence[bytes]):
    """Payloads in a text, which are cut out when they are asked for."""

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
    """Sound records without optional parts, in the order of their keys, whose payloads are lines of ``text``.

    Each stands behind some spaces, on the line that ``places`` says; it may hold a line break itself. ``keys`` stand
    end to end; ``txids`` are of 64 bits without sign, ``times`` with one.
    """

    keys: bytes
    messages: LinePayloads
    txids: Array
    times: Array
    text: bytes
    places: Array


class LinePages:
    """The leaf pages of a state. Made by :func:`open_line_pages`."""

    def __init__(self, file: DataFile, state: Any, pages: Array) -> None:
        self._data = file.map_file()
        self._state, self._pages = state, pages
        self._together = max(STORE_LIMITS.page_batch_bytes // state.page_size, 1)

    def iter_parts(self) -> Iterator[tuple[bytes, PageLines | None]]:
        """Records in parts, in the order of keys: their keys, end to end, and their lines where the pages show them.

        Keys ascend. Raises StaleTree where pages cannot be read; nothing is known of what follows.
        """
        last = -1
        for start in range(0, len(self._pages), self._together):
            leaves = read_page_entries(self._data, self._state, self._pages[start : start + self._together])
            keys = np.frombuffer(leaves.keys, ">u8")
            if not len(keys):
                continue
            # A page out of its place breaks the order of keys.
            if int(keys[0]) <= last or (keys[1:] <= keys[:-1]).any():
                raise StaleTree("keys do not ascend")
            last = int(keys[-1])
            yield leaves.keys, read_lines(self._data, self._state.page_size, leaves)


def open_line_pages(file: DataFile | None, txnid: int) -> LinePages | None:
    """The pages of the records of a transaction's state; None where the file does not show them."""
    try:
        return None if file is None else LinePages(file, *find_leaf_pages(file.map_file(), txnid, RECORDS_DATABASE))
    except (StaleTree, OSError, ValueError):
        return None


def read_lines(data: mmap.mmap, page_size: int, leaves: Leaves) -> PageLines | None:
    """The records of some pages, one at least, in the order of keys, as lines; None where one is not as it should be.

    Of a page of which only some records are asked for, these are shown if they lie one behind the other.
    """
    sizes = leaves.sizes
    if int(sizes.min()) < VALUE_OVERHEAD_BYTES:
        return None
    pages = leaves.starts // page_size
    # Of each page what lies from its first node to the end of its last value: one part of the text.
    firsts = np.flatnonzero(np.append(True, pages[1:] != pages[:-1]))
    low = np.minimum.reduceat(leaves.starts, firsts) - _BEFORE_BYTES
    high = np.maximum.reduceat(leaves.starts + sizes, firsts)
    # A value on pages of its own makes a part that is larger than a page.
    if int((high - low).max()) > page_size:
        return None
    with memoryview(data) as view:
        text = bytearray().join([view[start:stop] for start, stop in zip(low.tolist(), high.tolist(), strict=True)])
    lengths = high - low
    # By how much the bytes of a page lie elsewhere in the text than in the file.
    moved = np.cumsum(lengths) - lengths - low
    starts = leaves.starts + np.repeat(moved, np.diff(np.append(firsts, len(pages))))
    # A page has its nodes in the order in which they were added. From here on ``stood`` and ``size`` are in the order
    # of keys, ``starts`` and ``sizes`` in that of places.
    order = np.argsort(starts, kind="stable")
    stood, size = starts, sizes
    starts, sizes = starts[order], sizes[order]
    stops = starts + sizes
    between = starts[1:] - stops[:-1]
    aligned = between == _BEFORE_BYTES + 1
    # Nothing but nodes, one behind the other: so what is overwritten below belongs to none of the values.
    if (
        int(starts[0]) != _BEFORE_BYTES
        or int(stops[-1]) != len(text)
        or not (aligned | (between == _BEFORE_BYTES)).all()
    ):
        return None
    # One number of eight bytes, and one of four, for every place of the text, on the same memory.
    words = np.ndarray((len(text) - _ALIGNMENT_BYTES + 1,), "<u8", text, 0, (1,))
    heads = np.ndarray((len(text) - 3,), "<u4", text, 0, (1,))
    # Flags or optional parts: then the payload does not stand right behind the header.
    if heads[starts].any():
        return None
    if not _are_values_sound(text, words, starts, aligned):
        return None
    # These are copies: headers are overwritten next.
    txids, times = words[stood + TXID_AT], words[stood + TIME_AT].view("<i8")
    begins, ends = starts + HEADER_SIZE, stops - CRC_SIZE
    _blank_gaps(text, words, begins, ends)
    # Up to the line break that stands in the place of the last checksum's first byte.
    lines = bytes(memoryview(text)[: int(ends[-1]) + 1])
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    messages = LinePayloads(lines, stood + HEADER_SIZE, stood + size - CRC_SIZE)
    return PageLines(leaves.keys, messages, txids, times, lines, places)


def _are_values_sound(text: bytearray, words: Array, starts: Array, aligned: Array) -> bool:
    """Return whether every value is sound under its key; what stands before a key is overwritten."""
    # These eight bytes are the head of a node, and its key follows; a byte of alignment before them becomes zero.
    words[starts[1:] - _BEFORE_BYTES] = np.where(aligned, np.uint64(_RESTART_ALIGNED), np.uint64(_RESTART))
    np.frombuffer(text, np.uint8)[starts[1:][aligned] - _BEFORE_BYTES - 1] = 0
    # The checksum begins with the first key. It is restarted behind every value, so it ends as that of a sound one if
    # and only if all are sound, for the reason that :func:`sowctl.store.integrity.build_sound_run` gives.
    return crc32(memoryview(text)[NODE_LAYOUT.size :]) == CRC_RESIDUE


def _blank_gaps(text: bytearray, words: Array, begins: Array, ends: Array) -> None:
    """Overwrite what stands between payloads by a line break and spaces."""
    text[: int(begins[0])] = b" " * int(begins[0])
    text[int(ends[-1])] = ord("\n")
    np.ndarray((len(text) - _PAYLOAD_GAP_BYTES + 1,), _LINE_BREAK_WORD.dtype, text, 0, (1,))[ends[:-1]] = (
        _LINE_BREAK_WORD
    )
    # The last ones again from the other end, for what the alignment takes.
    words[begins[1:] - _ALIGNMENT_BYTES] = _SPACE


__all__ = ["LinePages", "LinePayloads", "PageLines", "open_line_pages", "read_lines"]
