"""A hash table from SOW keys to row numbers, asked and filled by whole columns.

A dictionary takes four or five places of memory that lie anywhere for each key, one after the other; here those of a
whole column are fetched together. In batches of 4,800, the look-ups and changes of 1,000,000 keys of which 500,000
differ took 1.4 to 1.6 s with a dictionary and take 0.22 to 0.28, the sorting of each batch included. Made for
:mod:`sowctl.engine.fold.entry_columns`; loads numpy.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

MIN_TABLE_BITS = 14
SLOTS_PER_KEY = 3
"""At least so many slots for each key: a key that is there is found in the first or second slot."""
EMPTY_ROW = -1


class KeyTable:
    """Row numbers by key. Columns of keys are arrays of uint64 in which no key comes twice, rows are arrays of intp."""

    def __init__(self, bits: int = MIN_TABLE_BITS) -> None:
        self._count = 0
        # A factor that no publisher knows spreads the keys. Without it, keys could be made on purpose to lie in one row
        # of slots, whose search takes as many steps as there are keys.
        self._factor = np.uint64(int.from_bytes(os.urandom(8), "little") | 1)
        self._allocate_slots(bits)

    def __len__(self) -> int:
        return self._count

    def _allocate_slots(self, bits: int) -> None:
        self._shift, self._mask = np.uint64(64 - bits), (1 << bits) - 1
        self._keys = np.zeros(1 << bits, dtype=np.uint64)
        self._rows = np.full(1 << bits, EMPTY_ROW, dtype=np.int32)

    def find_rows(self, keys: Any) -> Any:
        """The row of each key, :data:`EMPTY_ROW` for none."""
        if not self._count:
            return np.full(len(keys), EMPTY_ROW, dtype=np.intp)
        return self._rows[self._find_slots(keys)].astype(np.intp)

    def set_rows(self, keys: Any, rows: Any) -> None:
        """Set the rows of keys, whether they are there or not."""
        if (self._count + len(keys)) * SLOTS_PER_KEY > len(self._rows):
            self._grow_table(self._count + len(keys))
        slots = self._find_slots(keys)
        self._count += int(np.count_nonzero(self._rows[slots] == EMPTY_ROW))
        while True:
            self._keys[slots], self._rows[slots] = keys, rows
            # Two new keys may have found the same empty slot: the later one has it, and the other goes on behind it.
            lost = (self._rows[slots] != rows).nonzero()[0]
            if not len(lost):
                return
            keys, rows = keys[lost], rows[lost]
            slots = self._find_slots(keys)

    def list_rows(self) -> tuple[Any, Any]:
        """All keys, in no order, and their rows."""
        taken = (self._rows != EMPTY_ROW).nonzero()[0]
        return self._keys[taken], self._rows[taken].astype(np.intp)

    def _find_slots(self, keys: Any) -> Any:
        """The slot that each key is in, or the empty one where it belongs."""
        # The product keeps its low 64 bits, of which the highest choose the slot.
        slots = (keys * self._factor >> self._shift).astype(np.intp)
        open_ = ((self._rows[slots] != EMPTY_ROW) & (self._keys[slots] != keys)).nonzero()[0]
        while len(open_):
            # Another key is there: it lies in one of the next slots, before the first empty one. No key is ever
            # removed, so none of them has become empty since.
            at = (slots[open_] + 1) & self._mask
            slots[open_] = at
            open_ = open_[(self._rows[at] != EMPTY_ROW) & (self._keys[at] != keys[open_])]
        return slots

    def _grow_table(self, count: int) -> None:
        keys, rows = self.list_rows()
        self._allocate_slots(max(MIN_TABLE_BITS, (count * 2 * SLOTS_PER_KEY - 1).bit_length() - 1))
        self._count = 0
        if len(keys):
            self.set_rows(keys, rows)
