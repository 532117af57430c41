"""The columns of a batch of entries as numpy arrays; imports numpy.

An :class:`EntryArrays` is no second batch: it reads the columns of an :class:`~sowctl.journal.entries.EntryBatch` by
:data:`~sowctl.journal.entries.ENTRY_COLUMNS`, those of a decoded block in place.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from msgspec.structs import replace

from sowctl.identity.keyspace import join_words
from sowctl.journal.entries import ENTRY_COLUMNS, WORD_CODE, EntryBatch, PackedPayloads

_CODES = {column.name: column.code for column in ENTRY_COLUMNS}


class EntryArrays:
    """The columns of ``batch`` by their names in the table: arrays of the types in blocks, keys and check words as
    ``>u8``; texts as in the batch.

    Arrays on the memory of a block are read-only. Each array is created on first access: for a thousand entries,
    creating an array costs as much as reading all of them.
    """

    def __init__(self, batch: EntryBatch[Any, Any]) -> None:
        self.batch = batch

    def __len__(self) -> int:
        return len(self.batch)

    def __getattr__(self, name: str) -> Any:
        # Python calls this only for missing attributes. While an instance is being copied it has no batch yet: names
        # that are no columns end here.
        if name not in _CODES:
            raise AttributeError(name)
        column = getattr(self.batch, name)
        if code := _CODES[name]:
            column = self._build_array(column, code)
        setattr(self, name, column)
        return column

    def _build_array(self, column: Any, code: str) -> Any:
        if code == WORD_CODE:
            return np.frombuffer(join_words(column) if isinstance(column, list) else column, dtype=">u8")
        if isinstance(column, int):
            return np.full(len(self.batch), column, dtype=code)
        # Both share the memory of the column; the first is faster, for columns that already have this type.
        if isinstance(column, bytes) or (isinstance(column, memoryview) and column.format == code):
            return np.frombuffer(column, dtype=code)
        return np.asarray(column, dtype=code)

    @cached_property
    def txids(self) -> Any:
        """The txid of every entry, int64."""
        found = self.batch.txids
        return np.arange(found.start, found.stop) if isinstance(found, range) else np.array(found, dtype="i8")

    def take(self, places: Any) -> EntryBatch:
        """Return the entries at these indexes, an array of integers, in this order."""
        found: dict[str, Any] = {}
        chosen = places.tolist()
        for name, code in _CODES.items():
            column = getattr(self.batch, name)
            if code == WORD_CODE:
                found[name] = getattr(self, name)[places].tobytes()
            elif not (column is None or isinstance(column, int) or name == "lengths"):
                found[name] = memoryview(getattr(self, name)[places]) if code else [column[place] for place in chosen]
        payloads = self.batch.payloads
        taken = payloads.take(chosen) if isinstance(payloads, PackedPayloads) else [payloads[at] for at in chosen]
        txids = None if self.batch.txids is None else memoryview(self.txids[places])
        return replace(self.batch, payloads=taken, stored=None, txids=txids, **found)
