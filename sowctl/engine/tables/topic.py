"""The records of a target as a table: fields of messages as columns, and metadata where these are named.

Types are those of :mod:`sowctl.arrow.inference`, with one difference: a number with a fraction is a double as in
filters, also where that does not keep its last digits, so that an index and the records say the same. What is read of
records is decoded into a temporary file of Arrow's, which DuckDB then reads from its pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Any

from sowctl.arrow import arrays, metadata
from sowctl.arrow.passes import Block, write_columns
from sowctl.arrow.widening import Fields
from sowctl.engine.records import StoredRecord
from sowctl.engine.tables.indexed import indexed_table
from sowctl.engine.views.opening import open_target
from sowctl.store.codec import payloads

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow

    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.source import Source
    from sowctl.engine.tables.statement import Names
    from sowctl.engine.topics.targets import Target

BATCH = 1000
SAMPLE = 2000
"""Records that say which of the names of a statement are fields, and of which types; indexes are asked for these."""
_EXACT = 1 << 53


def topic_table(instance: Instance, target: Target, at: int | None, names: Names, place: Path) -> pyarrow.Table:
    """The columns that are named of all records of a state; ``place`` is a directory for a temporary file."""
    with closing(open_target(instance, target, at)) as source:
        facts = [name for name in metadata.USUAL if names.columns is not None and name in names.columns]
        wanted = None if names.columns is None else names.columns - set(facts)
        if wanted is not None and not wanted and set(facts) <= {"_topic"}:
            return _counted(source)
        found = None
        if wanted is not None:
            found = _from_indexes(instance, source, wanted, names.aliases, facts)
        return found if found is not None else _read(instance, source, wanted, facts, place)


def _counted(source: Source) -> pyarrow.Table:
    """As many rows as there are records."""
    import pyarrow as pa

    stored = source.stored
    count = stored.visible_records() if stored is not None else sum(len(keys) for keys, _ in source.batches(BATCH))
    return pa.table({"_topic": arrays.constant(source.topic, count)})


def _from_indexes(
    instance: Instance, source: Source, wanted: frozenset[str], aliases: frozenset[str], facts: Sequence[str]
) -> pyarrow.Table | None:
    kind = instance.type_of(source.message_type)
    sample = Fields(wanted)
    for _, values in islice(source.batches(BATCH), SAMPLE // BATCH):
        sample.look(list(map(kind.view, payloads(values))))
    fields = list(sample.struct)
    # A name that no record of the sample has may be a field of others: only reading all of them tells.
    if wanted - {field.name.lower() for field in fields} - aliases:
        return None
    return indexed_table(instance, source, fields, facts)


def _read(
    instance: Instance, source: Source, wanted: frozenset[str] | None, facts: Sequence[str], place: Path
) -> pyarrow.Table:
    import pyarrow as pa
    from pyarrow import ipc

    from sowctl.arrow.files import ArrowFile

    kind = instance.type_of(source.message_type)

    def blocks() -> Iterator[Block]:
        for keys, values in source.batches(BATCH):
            messages = payloads(values)
            rows = [_facts(source, *pair, facts) for pair in zip(keys, values, strict=True)] if facts else None
            yield Block(messages if kind.json_text else list(map(kind.view, messages)), rows)

    path = place / f"{len(list(place.iterdir()))}.arrow"
    with path.open("wb") as out:
        written = write_columns(blocks, ArrowFile, out, names=wanted, facts=tuple(facts))
    table = ipc.open_file(pa.memory_map(str(path))).read_all()
    if not table.num_columns:
        return pa.table({"_topic": arrays.constant(source.topic, written.rows)})
    return _with_doubles(table)


def _facts(source: Source, key: bytes, value: bytes, names: Sequence[str]) -> dict[str, Any]:
    record = StoredRecord(key, value)
    row: dict[str, Any] = {"_topic": source.topic, "_message_type": source.message_type}
    for name in names:
        if name not in row:
            row[name] = getattr(record, name[1:])
    return row


def _with_doubles(table: pyarrow.Table) -> pyarrow.Table:
    """Decimals with a fraction as doubles, unless one of them is so large that whole numbers may be others."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type) and field.type.scale > 0 and not field.name.startswith("_sow_key"):
            column = table.column(place).cast(pa.float64())
            if len(column.drop_null()) and pc.max(pc.abs(column)).as_py() <= _EXACT:
                table = table.set_column(place, field.name, column)
    return table
