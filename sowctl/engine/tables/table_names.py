"""Names of tables and what they stand for: a target now or at an instant, a topic's history, the journal."""

from __future__ import annotations

from contextlib import ExitStack, closing
from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sowctl.arrow.inference import Inference
from sowctl.config.derived_entries import View
from sowctl.engine.sources.logical_topics import narrow_source
from sowctl.engine.sources.opener import open_source
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
"""Records that are looked at for the names of fields."""
HISTORY_SUFFIX = "history"
JOURNAL_TABLE = "journal"
_UNKNOWN_CODES = ("SOW-ENG-012", "SOW-ENG-013", "SOW-ENG-015", "SOW-ENG-080")
"""Errors of nothing by a name, or of a file that is no store: DuckDB says more."""


class NamedTable(DescribedStruct, frozen=True):
    """One of ``target`` (as of ``at``, microseconds UTC, None for now) and ``history``; neither for the journal."""

    name: str
    target: Target | None = None
    at: int | None = None
    history: TopicConfig | None = None

    def is_same(self, other: NamedTable) -> bool:
        """Return whether two names stand for the same table."""
        return (self.target, self.at, self.history) == (other.target, other.at, other.history)

    def list_refs(self, instance: Instance) -> list[TopicRef]:
        """The topics whose present state it shows."""
        topic = self.target.topic if self.target is not None and self.at is None else None
        if topic is None:
            return []
        if topic.derived is None:
            return [topic.ref] if has_records(instance, topic) else []
        # What is no view reads the log, or a file of its own.
        return list_topic_refs(instance, topic.derived) if isinstance(topic.derived, View) else []

    def read(self, moment: ViewInstant, names: StatementNames, place: Path, told: ReportRead) -> pyarrow.Table:
        """The table as of a moment. Raises what reading topics raises."""
        instance = moment.instance
        if self.target is not None:
            with ExitStack() as held:
                source = self._open_source(moment, self.target, held)
                table = read_topic_table(instance, source, self.name, names, place, told)
                # A filter may have left none of many records, whose columns are known then.
                is_empty = not table.num_rows and next(source.read_batches(1), None) is None
            topic = self.target.topic
            if topic is None or not is_empty or names.columns == frozenset():
                return table
            from sowctl.engine.tables.empty_tables import add_known_columns

            return add_known_columns(table, instance, topic, names)
        from sowctl.engine.tables.journal import read_history_table, read_journal_table

        if self.history is not None:
            return read_history_table(instance, self.history, names, place, moment.until)
        return read_journal_table(instance, names, place, moment.until)

    def _open_source(self, moment: ViewInstant, target: Target, held: ExitStack) -> Source:
        topic = target.topic
        if self.at is not None:
            return held.enter_context(closing(open_target(moment.instance, target, self.at)))
        # A topic that nothing was published to is an error as everywhere, and no empty table.
        if topic is None or (topic.derived is None and not has_records(moment.instance, topic)):
            return held.enter_context(closing(open_source(moment.instance, target, None)))
        # The moment's own: views of the same statement read it, too.
        return narrow_source(moment.find_source(topic.ref), topic)


def list_fields(instance: Instance, name: str) -> list[str]:
    """The fields that the first records of a table have, for words on one that none of them has."""
    table = find_table(instance, name)
    if table is None or table.target is None:
        return []
    look = Inference()
    with closing(open_target(instance, table.target, table.at)) as source:
        kind = instance.find_message_type(source.message_type)
        for _, values in islice(source.read_batches(SAMPLE_RECORDS), 1):
            look.add(map(kind.view, extract_payloads(values)))
    return [field.name for field in look.build_struct()]


def find_table(instance: Instance, name: str) -> NamedTable | None:
    """Find the table of a name; None where it is none of ours: of the statement itself, or made before."""
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
    """The name as the configuration writes it, where one topic alone differs from it in capitals."""
    base = name.rpartition("@")[0] or name
    entries = instance.config.sow if instance.config is not None else ()
    found = {entry.name for entry in entries if entry.name.lower() == base.lower()} - {base}
    return None if len(found) != 1 else found.pop() + name[len(base) :]


def _resolve_table(instance: Instance, name: str) -> NamedTable:
    base, at, when = name.rpartition("@")
    config = instance.config
    # A topic's own name wins, also where there is an @ in it.
    if not at or (config is not None and any(entry.name == name for entry in config.sow)):
        (target,) = resolve_targets(instance, name, literal=True, derived=True)
        return NamedTable(name, target)
    if when.lower() == HISTORY_SUFFIX:
        return NamedTable(name, history=find_topic(instance, base))
    (target,) = resolve_targets(instance, base, literal=True, derived=True)
    return NamedTable(name, target, parse_moment(when, instance.clock).resolve_time(instance))
