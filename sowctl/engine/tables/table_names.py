"""Table names and their meaning: a target now or at an instant, a topic's history, the journal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sowctl.arrow import metadata
from sowctl.arrow.inference import Inference
from sowctl.config.derived_entries import ConflatedTopic, View
from sowctl.engine.sources.logical_topics import narrow_source
from sowctl.engine.tables.topic import ReportRead, read_topic_table
from sowctl.engine.topics.log_places import parse_moment
from sowctl.engine.topics.patterns import has_records
from sowctl.engine.topics.targets import Target, find_topic, resolve_targets
from sowctl.engine.views.instant import ViewInstant, list_topic_refs
from sowctl.engine.views.openers import open_target
from sowctl.errors import MissingError, UsageError
from sowctl.store.codec import extract_payloads
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow

    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.source import Source
    from sowctl.engine.tables.statement import StatementNames
    from sowctl.values.topicref import TopicRef

SAMPLE_RECORDS = 256
"""Number of records read to find the names of fields."""
HISTORY_SUFFIX = "history"
JOURNAL_TABLE = "journal"
_UNKNOWN_CODES = ("SOW-ENG-012", "SOW-ENG-013", "SOW-ENG-015", "SOW-ENG-080")
"""Errors for an unknown name, or a file that is not a store: DuckDB reports these better."""
MAX_MESSAGES = 10_000
"""Maximum number of messages of the journal read for their fields, the first ones."""


class NamedTable(DescribedStruct, frozen=True):
    """Either ``target`` (as of ``at``, microseconds UTC, None for now) or ``history``; neither for the journal."""

    name: str
    target: Target | None = None
    at: int | None = None
    history: TopicConfig | None = None

    def is_same(self, other: NamedTable) -> bool:
        """Return whether two names refer to the same table."""
        return (self.target, self.at, self.history) == (other.target, other.at, other.history)

    def list_refs(self, instance: Instance) -> list[TopicRef]:
        """Return the topics whose current state it shows."""
        topic = self.target.topic if self.target is not None and self.at is None else None
        if topic is None:
            return []
        if topic.derived is None:
            return [topic.ref] if has_records(instance, topic) else []
        # A derived topic that is not a view reads the log, or its own file.
        return list_topic_refs(instance, topic.derived) if isinstance(topic.derived, View) else []

    def read(self, moment: ViewInstant, names: StatementNames, place: Path, told: ReportRead) -> pyarrow.Table:
        """Read the table as of a moment. Raises what reading topics raises."""
        instance = moment.instance
        if self.target is not None:
            with ExitStack() as held:
                source = self._open_source(moment, self.target, held)
                table = read_topic_table(instance, source, self.name, names, place, told)
                # If a filter has dropped all of many records, the columns are known.
                is_empty = not table.num_rows and next(source.read_batches(1), None) is None
            topic = self.target.topic
            if topic is None or not is_empty or names.columns == frozenset():
                return table
            return add_known_columns(table, instance, topic, names)
        from sowctl.engine.tables.journal import read_history_table, read_journal_table

        if self.history is not None:
            return read_history_table(instance, self.history, names, place, moment.until)
        return read_journal_table(instance, names, place, moment.until)

    def _open_source(self, moment: ViewInstant, target: Target, held: ExitStack) -> Source:
        topic = target.topic
        if self.at is not None:
            return held.enter_context(closing(open_target(moment.instance, target, self.at)))
        if topic is None or (topic.derived is None and not has_records(moment.instance, topic)):
            return held.enter_context(closing(open_target(moment.instance, target, None)))
        # The moment's own source, which views of the same statement read, too.
        return narrow_source(moment.find_source(topic.ref), topic)


def list_fields(instance: Instance, name: str) -> list[str]:
    """Return the fields of the first records of a table, for a hint about an unknown field."""
    table = find_table(instance, name)
    if table is None or table.target is None:
        return []
    look = Inference()
    with closing(open_target(instance, table.target, table.at)) as source:
        kind = instance.find_message_type(source.message_type)
        for _, values in islice(source.read_batches(SAMPLE_RECORDS), 1):
            look.add(map(kind.members_view, extract_payloads(values)))
    return [field.name for field in look.build_struct()]


def find_table(instance: Instance, name: str) -> NamedTable | None:
    """Return the table of a name; None if it is defined in the statement itself, or by an earlier one."""
    try:
        return _resolve_table(instance, name)
    except (MissingError, UsageError) as problem:
        if problem.code not in _UNKNOWN_CODES:
            raise
    if name.lower() == JOURNAL_TABLE:
        return NamedTable(name)
    spelled = _find_spelling(instance, name)
    return None if spelled is None else replace(_resolve_table(instance, spelled), name=name)


def _find_spelling(instance: Instance, name: str) -> str | None:
    """Return the name as the configuration writes it, if exactly one topic differs from it only in case."""
    base = name.rpartition("@")[0] or name
    entries = instance.config.sow if instance.config is not None else ()
    found = {entry.name for entry in entries if entry.name.lower() == base.lower()} - {base}
    return None if len(found) != 1 else found.pop() + name[len(base) :]


def _resolve_table(instance: Instance, name: str) -> NamedTable:
    base, at, when = name.rpartition("@")
    config = instance.config
    # A topic's own name takes precedence, even with an @ in it.
    if not at or (config is not None and any(entry.name == name for entry in config.sow)):
        (target,) = resolve_targets(instance, name, literal=True, derived=True)
        return NamedTable(name, target)
    if when.lower() == HISTORY_SUFFIX:
        return NamedTable(name, history=find_topic(instance, base))
    (target,) = resolve_targets(instance, base, literal=True, derived=True)
    return NamedTable(name, target, parse_moment(when, instance.clock).resolve_time(instance))


def add_known_columns(
    table: pyarrow.Table, instance: Instance, topic: TopicConfig, names: StatementNames
) -> pyarrow.Table:
    """Return a table of a topic without rows, with the columns of its former records that the statement names.

    A statement that works with records should also work without. The columns of a topic are those of its messages in
    the journal, and its key fields; the columns of a view are those of its projection.
    """
    import pyarrow as pa

    wanted = names.columns
    for name in metadata.DEFAULT_COLUMNS:
        if name in names.metadata and name not in table.column_names:
            kind = metadata.find_column_type(name)
            table = table.append_column(pa.field(name, kind), pa.nulls(0, kind))
    # The journal is read only if the statement needs columns from it.
    for field in () if wanted == names.metadata else _fields(instance, topic):
        is_wanted = wanted is None or field.name.lower() in wanted
        if is_wanted and field.name not in table.column_names:
            table = table.append_column(field, pa.nulls(0, field.type))
    # If no column was known, the topic's name was used as the only one.
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
    # Without messages the types of keys are unknown; NULL matches every type.
    known = {field.name for field in seen}
    yield from (
        pa.field(name, pa.null()) for name in dict.fromkeys(key.names[0] for key in topic.keys) if name not in known
    )


def _read_journal_fields(instance: Instance, ref: TopicRef) -> list[pyarrow.Field]:
    """Return the fields of a topic's messages in the journal."""
    from sowctl.engine.tables.journal import iterate_messages

    if instance.log is None:
        return []
    look = Inference(exact=True, repeatable=instance.find_message_type(ref.message_type).repeatable)
    count = 0
    # If nothing was journalled yet, there are no files.
    with suppress(MissingError):
        for views in iterate_messages(instance, ref):
            look.add(views)
            count += len(views)
            if count >= MAX_MESSAGES:
                break
    return list(look.build_struct())
