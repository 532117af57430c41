"""The change feed: changes of the entries of a topic to its records (sowctl-spark(7), CHANGES).

A feed has a row for each insert and deletion and two for an update, the record before it and the record after it. What
an entry did stands in the journal: the writer that made it knew whether there was a record, lifetimes included. What
the record was before is the topic's fold up to there: :func:`fold_entries` is that fold, one step for each entry, and
:class:`LastEntries` finds what it has to begin with in a part of the journal, so that parts can be read apart.

Law, tested: applied to an empty state, the feed gives the state that replay makes of the same entries.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from sowctl.engine.fold.blocks import build_entry_mask, read_winner_values
from sowctl.engine.fold.journal_fold import EntrySpan, LastPerKey
from sowctl.journal.format import DELETE, INSERTED_FLAG
from sowctl.store.codec import TOMBSTONE_FLAG

if TYPE_CHECKING:
    from sowctl.journal.block import Block
    from sowctl.journal.reader import Journal
    from sowctl.values.topicref import TopicRef

INSERT, PREIMAGE, POSTIMAGE, DELETION = "insert", "update_preimage", "update_postimage", "delete"
CHANGE_ROW_TYPES = (INSERT, PREIMAGE, POSTIMAGE, DELETION)
"""The types of rows, in the words of Delta's change data feed."""
RecordState = MutableMapping[bytes, bytes]
"""Stored values by key."""


def fold_entries(state: RecordState, keys: Sequence[bytes], values: Sequence[bytes]) -> list[bytes | None]:
    """Fold entries into ``state``, and return the stored value that each of them met; None where there was none.

    ``keys`` and ``values`` are those of :func:`sowctl.engine.fold.blocks.read_entry_values`: a tombstone is a deletion.
    """
    met = []
    for key, value in zip(keys, values, strict=True):
        met.append(state.get(key))
        if value[0] & TOMBSTONE_FLAG:
            state.pop(key, None)
        else:
            state[key] = value
    return met


def build_change_rows(operations: Any, flags: Any) -> tuple[Any, Any]:
    """The rows of some entries: what each is, as a place in :data:`CHANGE_ROW_TYPES`, and the place of its entry.

    Both numpy arrays, in the order of the entries; of an update, the row of the record before it comes first.
    """
    import numpy as np

    updates = (operations != DELETE) & ((flags & INSERTED_FLAG) == 0)
    entries = np.repeat(np.arange(len(operations)), np.where(updates, 2, 1))
    kinds = np.where(operations == DELETE, CHANGE_ROW_TYPES.index(DELETION), CHANGE_ROW_TYPES.index(INSERT))[entries]
    # Of the two rows of an update, the first is the one whose successor has the same entry.
    first = np.zeros(len(entries), bool)
    first[:-1] = entries[:-1] == entries[1:]
    kinds = np.where(
        updates[entries], np.where(first, CHANGE_ROW_TYPES.index(PREIMAGE), CHANGE_ROW_TYPES.index(POSTIMAGE)), kinds
    )
    return kinds, entries


class LastEntries:
    """The last entry of every key up to a txid, brought forward as parts of the journal are planned.

    Memory: 17 bytes for every key. Only columns are read, and no payload.
    """

    def __init__(self, topic: TopicRef) -> None:
        self._topic = topic
        self._last = LastPerKey()
        self.upto = 0
        self._seen = 0

    @property
    def lacks_keys(self) -> bool:
        """Return whether there are entries of the topic, and none of them has a key: then it keeps no records."""
        return self._seen > 0 and not self._last.entries

    def _add_block(self, block: Block, span: EntrySpan) -> None:
        mask = build_entry_mask(block, (self._topic,), after=span.after, until=span.until, unkeyed=True)
        self._seen += len(block) if mask is None else int(mask.sum())
        self._last.add_block(block, self._topic, span)

    def advance_to(self, log: Journal, txid: int) -> None:
        """Take in what stands in the journal up to ``txid``, which is not below :attr:`upto`."""
        if txid <= self.upto:
            return
        span = EntrySpan(self.upto, txid)
        for block in log.iter_blocks(after=self.upto, until=txid, topic=self._topic):
            self._add_block(block, span)
        self.upto = txid

    def find_replaced_txids(self, log: Journal, until: int) -> Any:
        """The txids, ascending, of the entries up to :attr:`upto` that those behind it and up to ``until`` replace or
        delete; then takes these in, too. A numpy array of unsigned 64-bit numbers."""
        import numpy as np

        span = EntrySpan(self.upto, until)
        touched = []
        blocks = list(log.iter_blocks(after=self.upto, until=until, topic=self._topic))
        for block in blocks:
            columns = block.decode_numpy_columns()
            mask = build_entry_mask(block, (self._topic,), after=span.after, until=span.until)
            keys, flags = columns.keys.astype(np.uint64), columns.flags
            if mask is not None:
                keys, flags = keys[mask], flags[mask]
            # What an insert met, if anything, had expired: it is in no row.
            touched.append(keys[(flags & INSERTED_FLAG) == 0])
        keys, txids, publishes = self._last.build_table()
        found = np.zeros(0, np.uint64)
        if touched and len(keys):
            wanted = np.unique(np.concatenate(touched))
            places = np.minimum(keys.searchsorted(wanted), len(keys) - 1)
            # A key whose last entry is a deletion had no record.
            there = (keys[places] == wanted) & publishes[places]
            found = np.sort(txids[places[there]]).astype(np.uint64)
        for block in blocks:
            self._add_block(block, span)
        self.upto = until
        return found


def read_records_at(log: Journal, txids: Any) -> RecordState:
    """The stored values of publishes with these ascending txids, by key: what a part of the journal begins with."""
    state: RecordState = {}
    if not len(txids):
        return state
    for block in _read_blocks_holding(log, txids):
        keys, values = read_winner_values(block, txids)
        state.update(zip(keys, values, strict=True))
    return state


def _read_blocks_holding(log: Journal, txids: Any) -> Iterator[Block]:
    """The blocks that hold any of these txids; of the others no more than the header is read."""
    number, last = txids.dtype.type, int(txids[-1])
    for ref in log.iter_block_refs(after=int(txids[0]) - 1):
        if ref.header.first_txid > last:
            return
        low, high = txids.searchsorted([number(ref.header.first_txid), number(ref.header.last_txid + 1)])
        if low < high:
            yield ref.load()
