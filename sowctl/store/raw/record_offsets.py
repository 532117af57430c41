"""All records of a state by their offsets in the file, without LMDB (``sow-memo(5)``, "Kind 5"). Imports numpy.

The records are verified like those of a scan: keys ascend and match the store's count, and every value has the right
checksum under its key. Called by :meth:`sowctl.store.read.Reader.read_record_offsets`; LMDB is not used afterwards, so
a fork may continue reading while the first process holds the state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from struct import unpack
from typing import TYPE_CHECKING, Any

import numpy as np

from sowctl.store.codec import KEY_SIZE, TIME_AT, TXID_AT, VALUE_OVERHEAD_BYTES, Offsets
from sowctl.store.limits import STORE_LIMITS
from sowctl.store.lmdbfile.locate import Leaves, StaleTree, find_leaf_pages, read_page_entries
from sowctl.store.opening.environment import RECORDS_DATABASE
from sowctl.store.raw import line_pages
from sowctl.store.raw.offset_read import read_values_at

if TYPE_CHECKING:
    from sowctl.store.raw.line_pages import PageLines
    from sowctl.store.raw.offset_read import DataFile


class RecordOffsets:
    """The records of a state, by row number in key order. Created by :func:`read_record_offsets`."""

    def __init__(self, file: DataFile, leaves: Leaves, page_size: int) -> None:
        self.keys = leaves.keys
        self._file = file
        self._leaves, self._page_size = leaves, page_size
        self._sums = leaves.sums
        self._offsets = Offsets(leaves.starts, leaves.sizes, leaves.sums.tobytes())

    def __len__(self) -> int:
        return len(self._sums)

    def build_value_offsets(self) -> tuple[Any, Any, Any]:
        """Return first byte, size and last four bytes of each value, as
        :func:`sowctl.store.lmdbfile.locate.locate_values` does.
        """
        return self._offsets.starts.astype(np.uint64), self._offsets.sizes.astype(np.uint32), self._sums

    def read_stamps(self) -> tuple[Any, Any]:
        """Return txid and time of every record; valid for records whose values were read."""
        data = self._file.map_file()
        # A stride of one byte: the number at index i begins at byte i.
        numbers = np.ndarray((len(data) - KEY_SIZE + 1,), "<u8", data, 0, (1,))
        starts = self._offsets.starts
        return numbers[starts + TXID_AT], numbers[starts + TIME_AT].view("<i8")

    def read_values(self, start: int, stop: int) -> Sequence[bytes] | None:
        """Return the values of some records; None if one is missing or invalid."""
        part = self.keys[KEY_SIZE * start : KEY_SIZE * stop]
        keys = unpack(f"{KEY_SIZE}s" * (stop - start), part)
        try:
            values, wrong = read_values_at(self._file, keys, self._offsets.select_range(start, stop))
        except (OSError, OverflowError, ValueError):
            return None
        return None if wrong else values

    def iter_lines(self, start: int, stop: int) -> Iterator[tuple[int, int, PageLines | None]]:
        """Yield records in parts of some pages: first and last number, and the lines if the pages can be read
        directly."""
        pages = self._leaves.starts[start:stop] // self._page_size
        # Starts of pages; a value in overflow pages also begins one.
        begun = np.flatnonzero(np.append(True, pages[1:] != pages[:-1])) + start
        bounds = (
            [*begun[:: max(STORE_LIMITS.page_batch_bytes // self._page_size, 1)].tolist(), stop] if len(pages) else []
        )
        for low, high in pairwise(bounds):
            part = slice(low, high)
            keys = self.keys[KEY_SIZE * low : KEY_SIZE * high]
            some = Leaves(keys, *(column[part] for column in self._leaves[1:]))
            yield low, high, line_pages.read_lines(self._file.map_file(), self._page_size, some)


def read_record_offsets(file: DataFile | None, txnid: int, count: int) -> RecordOffsets | None:
    """Return the ``count`` records of a transaction's state; None if the file does not show exactly these."""
    try:
        if file is None:
            return None
        meta, pages = find_leaf_pages(file.map_file(), txnid, RECORDS_DATABASE)
        leaves = read_page_entries(file.map_file(), meta, pages)
    except (StaleTree, OSError, ValueError):
        return None
    if len(leaves.sums) != count:
        return None
    keys = np.frombuffer(leaves.keys, ">u8")
    # Sizes are checked before stamps are read; a page in a wrong position breaks the order of keys.
    if (keys[1:] <= keys[:-1]).any() or int(leaves.sizes.min(initial=VALUE_OVERHEAD_BYTES)) < VALUE_OVERHEAD_BYTES:
        return None
    return RecordOffsets(file, leaves, meta.page_size)


__all__ = ["RecordOffsets", "read_record_offsets"]
