"""Entries of the journal as a table: of all topics with messages as text, or of one topic with fields as columns.

The latter is the topic's history: every entry that published or deleted one of its records. Entries after the end of
the journal at the time of the read are not included. Columns other than the message are those of the data source
``sow-journal``; only the columns that a statement names are built.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sowctl.arrow.column_passes import MessageBlock, write_columns
from sowctl.arrow.entries import build_entry_column, join_blocks
from sowctl.engine.topics.positions import open_log
from sowctl.errors import ConfigError
from sowctl.journal.format import PUBLISH
from sowctl.messages.base import find_columns_view, is_own_view

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow

    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.tables.statement import StatementNames
    from sowctl.journal.arrays import EntryArrays
    from sowctl.journal.block import Block
    from sowctl.messages.base import MessageType
    from sowctl.values.topicref import TopicRef

ENTRY_COLUMNS = (
    *("_txid", "_timestamp", "_operation", "_topic", "_message_type", "_logical_topic", "_sow_key", "_user_key"),
    *("_expiration", "_client", "_sequence", "_correlation_id", "_bookmark"),
)
"""Columns of every entry, without its message."""
MESSAGE_COLUMN = "payload"
"""The column of the message, as JSON."""
MIN_BATCH_ENTRIES = 4096
"""Minimum number of entries per batch: the cost of an array does not depend on its length."""


def read_journal_table(instance: Instance, names: StatementNames, place: Path, until: int | None) -> pyarrow.Table:
    """Return all entries, up to a txid if given; the last block of a moment ends with its last txid."""
    import pyarrow as pa
    from pyarrow import ipc

    wanted = [name for name in (*ENTRY_COLUMNS, MESSAGE_COLUMN) if names.columns is None or name in names.columns] or [
        "_txid"
    ]
    path = place / f"{len(list(place.iterdir()))}.arrow"
    writer: Any = None
    with path.open("wb") as out:
        for entries in _batches(instance, until):
            columns = [
                _messages(instance, entries)
                if name == MESSAGE_COLUMN
                else build_entry_column(name, entries, instance.publisher_id)
                for name in wanted
            ]
            batch = pa.RecordBatch.from_arrays(columns, wanted)
            writer = writer or ipc.new_file(out, batch.schema)
            writer.write_batch(batch)
        if writer is None:
            return pa.table({name: pa.array([], pa.string()) for name in wanted})
        writer.close()
    return ipc.open_file(pa.memory_map(str(path))).read_all()


def read_history_table(
    instance: Instance, topic: TopicConfig, names: StatementNames, place: Path, until: int | None
) -> pyarrow.Table:
    """Return the entries of one topic with the fields of their messages, up to a txid if given."""
    import pyarrow as pa
    from pyarrow import ipc

    from sowctl.arrow.files import ArrowFile

    facts = tuple(name for name in ENTRY_COLUMNS if names.columns is None or name in names.columns) or ("_txid",)
    wanted = None if names.columns is None else names.columns - set(facts)
    kind = instance.find_message_type(topic.message_type)
    ref = topic.ref

    def blocks() -> Iterator[MessageBlock]:
        for entries in _batches(instance, until):
            topic_refs, places = entries.batch.topic_refs, entries.topic_indexes
            if ref not in topic_refs:
                continue
            chosen = (places == topic_refs.index(ref)).nonzero()[0]
            rows = _rows(entries, facts, instance.publisher_id, chosen.tolist())
            operations, messages = entries.operations, list(entries.batch.payloads)
            # A deletion has no message, and so no fields.
            views = [_view(messages[at], kind) if operations[at] == PUBLISH else b"{}" for at in chosen.tolist()]
            if topic.logical_name is not None:
                kept = [at for at, row in enumerate(rows) if row.get("_logical_topic") == topic.logical_name]
                rows, views = [rows[at] for at in kept], [views[at] for at in kept]
            if views:
                yield MessageBlock(views, rows, kind.repeatable)

    path = place / f"{len(list(place.iterdir()))}.arrow"
    with path.open("wb") as out:
        write_columns(blocks, ArrowFile, out, names=wanted, facts=facts)
    table = ipc.open_file(pa.memory_map(str(path))).read_all()
    # Without entries there are no columns, which DuckDB does not support.
    return table if table.num_columns else pa.table({name: pa.array([], pa.string()) for name in facts})


def iterate_messages(instance: Instance, ref: TopicRef) -> Iterator[list[bytes]]:
    """Yield the messages of a topic as JSON objects, in batches."""
    kind = instance.find_message_type(ref.message_type)
    for entries in _batches(instance, None):
        topic_refs, places = entries.batch.topic_refs, entries.topic_indexes
        if ref not in topic_refs:
            continue
        operations, messages = entries.operations, list(entries.batch.payloads)
        chosen = (places == topic_refs.index(ref)).nonzero()[0].tolist()
        yield [_view(messages[at], kind) for at in chosen if operations[at] == PUBLISH]


def _rows(entries: EntryArrays, facts: Sequence[str], owner: int, chosen: list[int]) -> list[dict[str, Any]]:
    import pyarrow as pa

    columns = []
    # The logical topic selects entries, even if it is not a requested column.
    for name in dict.fromkeys((*facts, "_logical_topic")):
        column = build_entry_column(name, entries, owner).take(pa.array(chosen, pa.int64()))
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        values = column.to_pylist()
        columns.append((name, [None if one is None else int(one) for one in values] if name == "_sow_key" else values))
    return [
        {name: values[at] for name, values in columns if name in facts or values[at] is not None}
        for at in range(len(chosen))
    ]


def _batches(instance: Instance, until: int | None) -> Iterator[EntryArrays]:
    """Yield the entries up to a txid, several blocks at a time."""
    if instance.log is None:
        raise ConfigError("SOW-ENG-020", "this configuration has no TransactionLog")
    held: list[Block] = []
    count = 0
    with open_log(instance, whole=True) as log:
        for block in log.iter_blocks(until=until):
            held.append(block)
            count += len(block)
            if count >= MIN_BATCH_ENTRIES:
                yield join_blocks(held)
                held, count = [], 0
    if held:
        yield join_blocks(held)


def _view(message: bytes, kind: MessageType) -> bytes:
    return message if is_own_view(kind) else find_columns_view(kind)(message)


def _text(message: bytes, kind: MessageType) -> bytes:
    return message if is_own_view(kind) else kind.view(message)


def _messages(instance: Instance, entries: EntryArrays) -> pyarrow.Array:
    """Return the messages as JSON; NULL for entries without one."""
    import pyarrow as pa

    topic_refs, places = entries.batch.topic_refs, entries.topic_indexes
    kinds = []
    for _, name in topic_refs:
        try:
            kinds.append(instance.find_message_type(name))
        except ConfigError:
            # A journal outlives its configuration: messages of a removed type are shown as bytes.
            kinds.append(instance.find_message_type("binary"))
    found = [
        _text(message, kinds[place]).decode("utf-8", "replace") if operation == PUBLISH else None
        for message, place, operation in zip(
            entries.batch.payloads, places.tolist(), entries.operations.tolist(), strict=True
        )
    ]
    return pa.array(found, pa.string())
