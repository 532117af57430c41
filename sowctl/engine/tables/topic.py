"""The records of a target as a table: fields of messages as columns, and metadata columns if they are named.

Types are those of :mod:`sowctl.arrow.inference`, with one difference: a number with a fraction is a double as in
filters, even if that does not keep its last digits, so that indexes and records give the same values. Records are
decoded into a temporary Arrow file, which DuckDB then reads from its pages.

If the types of the columns are known (:mod:`sowctl.engine.tables.types`), records that do not satisfy the statement's
WHERE are not decoded: keys or indexes find the others, or a scan evaluates the filter before decoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from sowctl.arrow import arrays, metadata
from sowctl.arrow.column_passes import MessageBlock, write_columns
from sowctl.arrow.jsoncolumns import Misfit
from sowctl.engine.extensions.functions import load_functions
from sowctl.engine.records import StoredRecord
from sowctl.engine.reports import QueryStatistics
from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.search.matcher import Matcher, build_environment
from sowctl.engine.search.scan import filter_runs, open_access
from sowctl.engine.tables.index_columns import read_indexed_table
from sowctl.engine.tables.types import (
    FieldTypes,
    are_read_alike,
    can_keep_types,
    find_known_types,
    keep_types,
)
from sowctl.engine.tables.where import build_filter
from sowctl.errors import SowError
from sowctl.messages.base import find_columns_view, find_exact_view, is_own_view
from sowctl.store.codec import extract_payloads
from sowctl.store.limits import STORE_LIMITS
from sowctl.values.scalars import MAX_EXACT_INTEGER

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow

    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.source import MatchedPairs, Source
    from sowctl.engine.tables.statement import StatementNames
    from sowctl.messages.base import MessageType


class TableRead(Struct, frozen=True):
    """Report of how a table was read: ``way`` in words, the ``filter`` for records, the number of ``decoded``
    records."""

    name: str
    way: str
    filter: str | None
    decoded: int


ReportRead = Callable[[TableRead], None]


def read_topic_table(
    instance: Instance, source: Source, name: str, names: StatementNames, place: Path, told: ReportRead
) -> pyarrow.Table:
    """Return the named columns of the records of a state that may satisfy the statement's WHERE.

    ``name`` is that of the table; ``place`` is a directory for a temporary file; ``told`` is called with the way it was
    read.
    """
    facts = [one for one in metadata.DEFAULT_COLUMNS if one in names.metadata]
    wanted = None if names.columns is None else names.columns - set(facts)
    if wanted is not None and not wanted and set(facts) <= {"_topic"}:
        told(TableRead(name, "counted", None, 0))
        return _build_counted(source)
    types = find_known_types(instance, source, wanted)
    chosen = None if types is None else _FilteredRead.from_statement(instance, source, types, name, names)
    found = None
    if chosen is not None and chosen.way is not None:
        found = chosen.read_table(facts, place, told)
    if found is None and types is not None and types.exact and wanted is not None:
        found = read_indexed_table(instance, source, types, facts)
        if found is not None:
            told(TableRead(name, "columns of indexes", None, 0))
    if found is None and chosen is not None and chosen.way is None:
        found = chosen.read_table(facts, place, told)
    return found if found is not None else _read(instance, source, name, wanted, facts, place, told)


class _FilteredRead:
    """The records of a source that match a filter, with columns of previously known types."""

    def __init__(self, instance: Instance, source: Source, name: str, types: FieldTypes, text: str) -> None:
        kind = instance.find_message_type(source.message_type)
        seen = source.definition.key_mode == "fields"
        environment = build_environment(instance)
        self._matcher = Matcher(text, kind, source.topic, environment, seen=seen, functions=load_functions(instance))
        self._source = source
        self._name = name
        self._types = types
        self._text = text
        self._kind = kind
        stored = source.stored_source
        # Keys or indexes that find the matching records; without them all are read, and only matching ones decoded.
        self.way = None if stored is None else open_access(instance, stored, self._matcher)

    @classmethod
    def from_statement(
        cls, instance: Instance, source: Source, types: FieldTypes, name: str, names: StatementNames
    ) -> _FilteredRead | None:
        """Return the filtered read, None if the statement needs all records."""
        occurrences = names.occurrences.get(name.lower())
        kind = instance.find_message_type(source.message_type)
        if not occurrences or None in occurrences or not kind.filterable:
            return None
        binary = find_exact_view(kind) is not None
        text = build_filter(occurrences, types.fields, names.aliases, binary=binary)
        return None if text is None else cls(instance, source, name, types, text)

    def read_table(self, facts: Sequence[str], place: Path, told: ReportRead) -> pyarrow.Table | None:
        """Return the table, None if a record does not have the expected types: then all have to be read."""
        import pyarrow as pa
        from pyarrow import ipc

        from sowctl.arrow.files import ArrowFile
        from sowctl.arrow.struct_decoder import StructDecoder

        fields = list(self._types.fields)
        own = {field.name for field in fields}
        extra = [name for name in facts if name not in own]
        schema = pa.schema([*fields, *(pa.field(name, metadata.find_column_type(name)) for name in extra)])
        # If a statement names some members, the others have no columns.
        decoder = StructDecoder(self._types.fields, strict=True, partial=self._types.names is not None, exact=True)
        counts = QueryStatistics(self._source.topic, self._source.message_type)
        path = _new_file(place)
        with path.open("wb") as out:
            writer = ArrowFile(out, schema)
            try:
                for keys, values in self._find_records(counts):
                    views = _views(self._kind, extract_payloads(values))
                    columns = decoder.decode_views(
                        decoder.fit_lists(views) if self._kind.repeatable else views
                    ).flatten()
                    rows = [_facts(self._source, *pair, facts) for pair in zip(keys, values, strict=True)]
                    columns += metadata.build_columns(extra, rows)
                    writer.write(pa.RecordBatch.from_arrays(columns, schema=schema))
            except (Misfit, SowError):
                # Reading all records gives a row of NULLs for a message that a filter cannot parse.
                return None
            writer.close()
        table = ipc.open_file(pa.memory_map(str(path))).read_all()
        told(TableRead(self._name, "filter before decoding", self._text, counts.matched))
        for number, field in enumerate(fields):
            if _has_fraction(field.type) and field.name not in self._types.large:
                table = table.set_column(number, field.name, table.column(number).cast(pa.float64()))
        return table

    def _find_records(self, counts: QueryStatistics) -> Iterator[MatchedPairs]:
        if self.way is not None:
            for keys, values in self.way.read_matching(QUERY_LIMITS.decode_batch_records):
                counts.matched += len(keys)
                yield keys, values
            return
        stored = self._source.stored_source
        assert stored is not None
        marks = self._matcher.build_marks(stored.meta.records)
        yield from filter_runs(stored.read_runs(QUERY_LIMITS.read_batch_records, marks=marks), self._matcher, counts)


def _build_counted(source: Source) -> pyarrow.Table:
    """Return a table with as many rows as there are records."""
    import pyarrow as pa

    stored = source.stored_source
    count = (
        stored.count_visible()
        if stored is not None
        else sum(len(keys) for keys, _ in source.read_batches(STORE_LIMITS.read_batch_records))
    )
    return pa.table({"_topic": arrays.build_constant(source.topic, count)})


def _read(
    instance: Instance,
    source: Source,
    name: str,
    wanted: frozenset[str] | None,
    facts: Sequence[str],
    place: Path,
    told: ReportRead,
) -> pyarrow.Table:
    """Read the columns of all records, and cache their types for the next statement."""
    import pyarrow as pa
    from pyarrow import ipc

    from sowctl.arrow.files import ArrowFile

    kind = instance.find_message_type(source.message_type)

    def blocks() -> Iterator[MessageBlock]:
        for keys, values in source.read_batches(STORE_LIMITS.read_batch_records):
            rows = [_facts(source, *pair, facts) for pair in zip(keys, values, strict=True)] if facts else None
            views = _views(kind, extract_payloads(values))
            alike[0] = alike[0] and are_read_alike(views)
            yield MessageBlock(views, rows, kind.repeatable)

    # Records are compared only for a store whose types can be cached.
    alike = [can_keep_types(source)]
    path = _new_file(place)
    with path.open("wb") as out:
        written = write_columns(blocks, ArrowFile, out, names=wanted, facts=tuple(facts))
    told(TableRead(name, "all records decoded", None, written.rows))
    table = ipc.open_file(pa.memory_map(str(path))).read_all()
    if not table.num_columns:
        return pa.table({"_topic": arrays.build_constant(source.topic, written.rows)})
    fields = [field for field in table.schema if field.name not in facts or field.name in written.hidden]
    table = _with_doubles(table)
    if fields and alike[0]:
        large = frozenset(field.name for field in table.schema if _has_fraction(field.type))
        marks = large, wanted, written.single, frozenset(_blank(table, fields))
        keep_types(instance, source, FieldTypes(pa.struct(fields), *marks))
    return table


def _blank(table: pyarrow.Table, fields: Sequence[pyarrow.Field]) -> Iterator[str]:
    """Yield the names of columns with an empty text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for field in fields:
        if pa.types.is_string(field.type) and pc.any(pc.equal(table.column(field.name), "")).as_py():
            yield field.name


def _new_file(place: Path) -> Path:
    """Return an unused path in a directory of temporary files."""
    return place / f"{len(list(place.iterdir()))}.arrow"


def _views(kind: MessageType, messages: Sequence[bytes]) -> Sequence[bytes]:
    return messages if is_own_view(kind) else list(map(find_columns_view(kind), messages))


def _facts(source: Source, key: bytes, value: bytes, names: Iterable[str]) -> dict[str, Any]:
    record = StoredRecord(key, value)
    given = {"_topic": source.topic, "_message_type": source.message_type}
    return {name: given[name] if name in given else getattr(record, name[1:]) for name in names}


def _has_fraction(kind: pyarrow.DataType) -> bool:
    """Return whether numbers of a type are decimals with a fraction."""
    import pyarrow.types as t

    return bool(t.is_decimal(kind)) and kind.scale > 0


def _with_doubles(table: pyarrow.Table) -> pyarrow.Table:
    """Convert decimals with a fraction to doubles, unless one of them is so large that its integer part may change."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, field in enumerate(table.schema):
        if _has_fraction(field.type) and not field.name.startswith("_sow_key"):
            column = table.column(place).cast(pa.float64())
            if len(column.drop_null()) and pc.max(pc.abs(column)).as_py() <= MAX_EXACT_INTEGER:
                table = table.set_column(place, field.name, column)
    return table
