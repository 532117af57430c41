"""Columns of a table without records: a statement that works on other days is to work on this one.

The columns of a topic are those of the messages that the journal still has of it, and its key fields; the columns of a
view are those of its projection.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from sowctl.arrow import metadata
from sowctl.arrow.inference import Inference
from sowctl.config.derived_entries import ConflatedTopic, View
from sowctl.errors import MissingError

if TYPE_CHECKING:
    import pyarrow

    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.tables.statement import StatementNames
    from sowctl.values.topicref import TopicRef

MAX_MESSAGES = 10_000
"""Messages of the journal that are looked at for their fields, the first ones."""


def add_known_columns(
    table: pyarrow.Table, instance: Instance, topic: TopicConfig, names: StatementNames
) -> pyarrow.Table:
    """A table of a topic without rows, with the columns that its records had, as far as the statement names them."""
    import pyarrow as pa

    wanted = names.columns
    for name in metadata.DEFAULT_COLUMNS:
        if name in names.metadata and name not in table.column_names:
            kind = metadata.find_column_type(name)
            table = table.append_column(pa.field(name, kind), pa.nulls(0, kind))
    # The journal is not read for what needs none of it.
    for field in () if wanted == names.metadata else _fields(instance, topic):
        is_wanted = wanted is None or field.name.lower() in wanted
        if is_wanted and field.name not in table.column_names:
            table = table.append_column(field, pa.nulls(0, field.type))
    # Where nothing was known, the topic's name stood for all columns.
    if "_topic" in table.column_names and "_topic" not in names.metadata and table.num_columns > 1:
        table = table.drop_columns(["_topic"])
    return table


def _fields(instance: Instance, topic: TopicConfig) -> Iterator[pyarrow.Field]:
    import pyarrow as pa

    entry = topic.derived
    if isinstance(entry, View):
        from sowctl.engine.views.definition import Program, build_query

        destinations = Program(instance, build_query(instance, entry)).projection.destinations
        yield from (pa.field(name, pa.null()) for name in dict.fromkeys(path[0] for path in destinations))
        return
    seen = _read_journal_fields(instance, entry.source if isinstance(entry, ConflatedTopic) else topic.ref)
    yield from seen
    # Values of keys are known to nobody without messages; NULL is of every type.
    known = {field.name for field in seen}
    yield from (
        pa.field(name, pa.null()) for name in dict.fromkeys(key.names[0] for key in topic.keys) if name not in known
    )


def _read_journal_fields(instance: Instance, ref: TopicRef) -> list[pyarrow.Field]:
    """The fields of the messages that the journal has of a topic."""
    from sowctl.engine.tables.journal import iterate_messages

    if instance.log is None:
        return []
    look = Inference(exact=True)
    count = 0
    # Where nothing was journalled yet there are no files.
    with suppress(MissingError):
        for views in iterate_messages(instance, ref):
            look.add(views)
            count += len(views)
            if count >= MAX_MESSAGES:
                break
    return list(look.build_struct())
