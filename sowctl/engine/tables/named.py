"""What the name of a table stands for: a target now or at an instant, a topic's history, the journal."""

from __future__ import annotations

from contextlib import ExitStack, closing
from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sowctl.arrow.inference import Inference
from sowctl.config.derived import View
from sowctl.described import DescribedStruct
from sowctl.engine.sources.logical import narrowed
from sowctl.engine.sources.opening import open_source
from sowctl.engine.tables.topic import Told, topic_table
from sowctl.engine.topics.logplaces import read_moment
from sowctl.engine.topics.patterns import has_records
from sowctl.engine.topics.targets import Target, find_topic, resolve
from sowctl.engine.views.moment import ViewInstant, refs_of
from sowctl.engine.views.opening import open_target
from sowctl.errors import MissingError, UsageError
from sowctl.store.codec import payloads

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow

    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.source import Source
    from sowctl.engine.tables.statement import Names

FIRST = 256
"""Records that are looked at for the names of fields."""
HISTORY = "history"
JOURNAL = "journal"
_UNKNOWN = ("SOW-ENG-012", "SOW-ENG-013", "SOW-ENG-015", "SOW-ENG-080")
"""Errors of nothing by a name, or of a file that is no store: DuckDB says more."""


class NamedTable(DescribedStruct, frozen=True):
    """One of ``target`` (as of ``at``, microseconds UTC, None for now) and ``history``; neither for the journal."""

    name: str
    target: Target | None = None
    at: int | None = None
    history: TopicConfig | None = None

    def is_same(self, other: NamedTable) -> bool:
        """Whether two names stand for the same table."""
        return (self.target, self.at, self.history) == (other.target, other.at, other.history)

    def refs(self, instance: Instance) -> list[tuple[str, str]]:
        """Message type and name of the topics whose present state it shows."""
        topic = self.target.topic if self.target is not None and self.at is None else None
        if topic is None:
            return []
        if topic.derived is None:
            return [(topic.message_type, topic.name)] if has_records(instance, topic) else []
        # What is no view reads the log, or a file of its own.
        return refs_of(instance, topic.derived) if isinstance(topic.derived, View) else []

    def read(self, moment: ViewInstant, names: Names, place: Path, told: Told) -> pyarrow.Table:
        """The table as of a moment. Raises what reading topics raises."""
        instance = moment.instance
        if self.target is not None:
            with ExitStack() as held:
                source = self._opened(moment, self.target, held)
                table = topic_table(instance, source, self.name, names, place, told)
                # A filter may have left none of many records, whose columns are known then.
                is_empty = not table.num_rows and next(source.batches(1), None) is None
            topic = self.target.topic
            if topic is None or not is_empty or names.columns == frozenset():
                return table
            from sowctl.engine.tables.emptied import with_known_columns

            return with_known_columns(table, instance, topic, names)
        from sowctl.engine.tables.journal import history_table, journal_table

        if self.history is not None:
            return history_table(instance, self.history, names, place, moment.until)
        return journal_table(instance, names, place, moment.until)

    def _opened(self, moment: ViewInstant, target: Target, held: ExitStack) -> Source:
        topic = target.topic
        if self.at is not None:
            return held.enter_context(closing(open_target(moment.instance, target, self.at)))
        # A topic that nothing was published to is an error as everywhere, and no empty table.
        if topic is None or (topic.derived is None and not has_records(moment.instance, topic)):
            return held.enter_context(closing(open_source(moment.instance, target, None)))
        # The moment's own: views of the same statement read it, too.
        return narrowed(moment.source((topic.message_type, topic.name)), topic)


def fields_of(instance: Instance, name: str) -> list[str]:
    """The fields that the first records of a table have, for words on one that none of them has."""
    table = table_named(instance, name)
    if table is None or table.target is None:
        return []
    look = Inference()
    with closing(open_target(instance, table.target, table.at)) as source:
        kind = instance.type_of(source.message_type)
        for _, values in islice(source.batches(FIRST), 1):
            look.add(map(kind.view, payloads(values)))
    return [field.name for field in look.struct()]


def table_named(instance: Instance, name: str) -> NamedTable | None:
    """What a name stands for; None where it is none of ours: of the statement itself, or of a table made before."""
    try:
        return _named(instance, name)
    except (MissingError, UsageError) as problem:
        if problem.code not in _UNKNOWN:
            raise
    if name.lower() == JOURNAL:
        return NamedTable(name)
    spelled = _spelled(instance, name)
    return None if spelled is None else replace(_named(instance, spelled), name=name)


def _spelled(instance: Instance, name: str) -> str | None:
    """The name as the configuration writes it, where one topic alone differs from it in capitals."""
    base = name.rpartition("@")[0] or name
    entries = instance.config.sow if instance.config is not None else ()
    found = {entry.name for entry in entries if entry.name.lower() == base.lower()} - {base}
    return None if len(found) != 1 else found.pop() + name[len(base) :]


def _named(instance: Instance, name: str) -> NamedTable:
    base, at, when = name.rpartition("@")
    config = instance.config
    # A topic's own name wins, also where there is an @ in it.
    if not at or (config is not None and any(entry.name == name for entry in config.sow)):
        (target,) = resolve(instance, name, literal=True, derived=True)
        return NamedTable(name, target)
    if when.lower() == HISTORY:
        return NamedTable(name, history=find_topic(instance, base))
    (target,) = resolve(instance, base, literal=True, derived=True)
    return NamedTable(name, target, read_moment(when, instance.clock).of(instance))
