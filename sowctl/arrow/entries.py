"""Blocks of a journal as one batch of entries, and its columns for tables and data frames.

Blocks are small, and the cost of an array is nearly independent of its size: readers of journals join blocks before
they build columns of them. sow-journal(5), "Columns".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sowctl.arrow import arrays
from sowctl.identity.bookmarks import build_bookmark
from sowctl.identity.hashes import hash_client_name
from sowctl.journal.arrays import EntryArrays
from sowctl.journal.entries import TEXT_COLUMNS, PackedPayloads, concatenate_batches
from sowctl.journal.format import NO_PUBLISHER, OPERATIONS, PUBLISH, UNKEYED_FLAG

if TYPE_CHECKING:
    import pyarrow

    from sowctl.arrow.arrays import Numbers
    from sowctl.journal.block import Block


def join_blocks(blocks: Sequence[Block]) -> EntryArrays:
    """The entries of some blocks, at least one, by columns."""
    return EntryArrays(concatenate_batches([block.decode_columns() for block in blocks]))


def read_payload_parts(entries: EntryArrays) -> list[memoryview]:
    """The messages of the blocks of ``entries``, contiguous."""
    payloads = entries.batch.payloads
    assert isinstance(payloads, PackedPayloads)
    return payloads.read_parts()


_TEXT_COLUMNS = {f"_{column.part}": column.name for column in TEXT_COLUMNS}


def build_entry_column(name: str, entries: EntryArrays, owner: int) -> pyarrow.Array:
    """Return a column that the data source ``sow-journal`` has in addition to the message.

    ``owner``, the hash of the instance's name, is used in the bookmarks of entries without a client.
    """
    import pyarrow as pa

    if name == "_sow_key":
        return arrays.build_nullable_decimals(entries.keys, (entries.flags & UNKEYED_FLAG) == 0)
    if name == "_txid":
        return arrays.build_longs(entries.txids)
    if name == "_timestamp":
        return arrays.build_timestamps(entries.times)
    if name == "_expiration":
        return arrays.build_expirations(entries.expirations)
    if name in ("_topic", "_message_type"):
        texts = [topic[name == "_message_type"] for topic in entries.batch.topic_refs]
        return arrays.take_texts(texts, entries.topic_indexes)
    if name == "_operation":
        return _operation_array(entries.operations)
    if name == "_client":
        clients = [client for _, client in entries.batch.publishers]
        if not clients:
            return pa.nulls(len(entries), pa.string())
        return arrays.take_texts(clients, entries.publisher_indexes, NO_PUBLISHER)
    if name == "_bookmark":
        return pa.array(_bookmark_array(entries, owner), pa.string())
    if name == "_sequence":
        return arrays.build_nullable_longs(entries.sequences, entries.sequences != 0)
    return arrays.build_texts(getattr(entries, _TEXT_COLUMNS[name]), len(entries))


def _bookmark_array(entries: EntryArrays, owner: int) -> list[str]:
    # Entries without a client's sequence number have a bookmark of their instance (behaviour 11.54).
    ids = {place: hash_client_name(client) for place, (_, client) in enumerate(entries.batch.publishers)}
    rows = zip(entries.publisher_indexes.tolist(), entries.sequences.tolist(), entries.txids.tolist(), strict=True)
    return [str(build_bookmark(ids.get(place), sequence, txid, owner)) for place, sequence, txid in rows]


def _operation_array(codes: Numbers) -> pyarrow.Array:
    if (codes == PUBLISH).all():
        return arrays.build_constant("publish", len(codes))
    # Codes count from 1 without a gap, in the order of the table.
    return arrays.take_texts(list(OPERATIONS.values()), codes.astype("i4") - 1)
