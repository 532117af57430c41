"""Reading for the browser: topics, pages of records, versions of one record, the end of the journal, queues.

Every function opens and closes what it reads, so that any thread may call it: snapshots of LMDB belong to the thread
that opened them. ``Stop`` is checked between batches; a cancelled question ends early.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from sowctl.engine.options import QueryOptions
from sowctl.engine.search.unknown_fields import UNKNOWN_FIELD_WORDS
from sowctl.engine.topics.targets import resolve_targets
from sowctl.engine.verbs.history import read_key_versions
from sowctl.engine.verbs.info import list_topic_info
from sowctl.engine.verbs.query import start_query
from sowctl.engine.verbs.queue import QueueRecord, compute_depth, list_queues, open_queue
from sowctl.engine.verbs.upkeep.journal_tail import follow_journal
from sowctl.errors import SowError
from sowctl.output.columns import format_cell, format_cells, open_columns
from sowctl.output.display import clip_text, escape_line
from sowctl.output.members import dump_json, read_members
from sowctl.output.members import find_value as value_at
from sowctl.output.options import OutputOptions
from sowctl.output.records import build_metadata
from sowctl.structs import DescribedStruct
from sowctl.values.differences import MISSING, compare_views, format_path, parse_view
from sowctl.values.display import format_age, format_ago, format_bytes, format_rate
from sowctl.values.paths import Path, parse_path
from sowctl.values.times import format_expiry, format_time
from sowctl.values.topicref import TopicRef

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.queues.queue import QueueMessage
    from sowctl.engine.records import RecordBatch
    from sowctl.engine.search.keyhistory import VersionRecord
    from sowctl.engine.topics.targets import Target

PAGE_RECORDS = 100
"""Records per page."""
MAX_COLUMNS = 24
"""Maximum number of columns of a page."""
MAX_CELL_CHARACTERS = 40
"""Maximum characters of a cell."""
_INDENT = "  "
_SECOND_CHARACTERS = 19
"""Characters of a time up to the second."""
Stop = Callable[[], bool]
"""Returns True if the question was cancelled."""


class Stopped(Exception):
    """The question was cancelled."""


class TopicRow(Struct, frozen=True):
    """One line of the list of topics; ``target`` names it for the other questions, None if it has no records;
    ``is_queue``: it has queue messages."""

    target: str | None
    cells: tuple[str, ...]
    is_queue: bool = False


TOPIC_COLUMNS = ("topic", "type", "kind", "state", "records", "size", "updated")


class BrowsedRecord(Struct, frozen=True):
    """One record: its key as clients see it, its name for people, its cells, its message as JSON, and its metadata."""

    key: str
    name: str
    cells: list[str]
    view: bytes
    facts: list[tuple[str, str]]


class QueueRow(Struct, frozen=True):
    """One line of the list of queues."""

    name: str
    message_type: str
    cells: tuple[str, ...]


QUEUE_COLUMNS = ("queue", "underlying", "ready", "leased", "delayed", "blocked", "dead", "oldest", "in", "acks")
QUEUE_STATES = ("", "ready", "leased", "delayed", "blocked", "dead")
"""States by which messages of a queue can be selected; first, messages in any state."""
MESSAGE_COLUMNS = ("state", "key", "deliveries", "holder", "published", "reason", "message")


class WaitingMessage(Struct, frozen=True):
    """A message of a queue: its cells, its message as JSON, and its metadata."""

    cells: tuple[str, ...]
    view: bytes
    facts: list[tuple[str, str]]


class QueueMessages(Struct, frozen=True):
    """A queue: the number of messages per state, the shown messages, and whether there are more."""

    counts: str
    messages: list[WaitingMessage]
    more: bool


class PageOfRecords(Struct, frozen=True):
    """A page of records; ``fields`` are the paths of the columns, ``more``: there are more records.

    ``unknown``: notes on fields of the filter or the order that no record has.
    """

    headings: list[str]
    fields: list[str]
    records: list[BrowsedRecord]
    more: bool
    unknown: tuple[str, ...] = ()


class PageRequest(Struct, frozen=True):
    """The records of a page: their filter, their order, and the number of the first one."""

    target: str
    filter: str = ""
    order: str = ""
    first: int = 0


class VersionRow(Struct, frozen=True):
    """A version of a record: cells, its message (None: deleted), and the differences from the previous version."""

    cells: tuple[str, ...]
    view: bytes | None
    changes: list[str]


VERSION_COLUMNS = ("from", "operation", "client", "txid", "until")
ENTRY_COLUMNS = ("time", "txid", "topic", "operation", "key", "client", "message")


class InstanceReader(DescribedStruct, frozen=True):
    """The instance to browse."""

    instance: Instance

    def list_topics(self) -> list[TopicRow]:
        """All topics, views, conflated topics and queues."""
        rows = []
        for row in list_topic_info(self.instance):
            target = None if row.kind == "journal only" else f"[{row.message_type}].[{row.topic}]"
            age = None if row.last_update is None else (self.instance.now - row.last_update) / 1e6
            cells = (
                row.topic,
                row.message_type,
                row.kind,
                row.state,
                f"{row.records:,}",
                format_bytes(row.file_bytes),
                "" if age is None else format_ago(age),
            )
            rows.append(TopicRow(target, tuple(map(escape_line, cells)), row.kind.endswith("Queue")))
        return rows

    def read_page(self, wanted: PageRequest, stop: Stop) -> PageOfRecords:
        """Read a page of records. Raises the errors of a query, and Stopped."""
        options = QueryOptions(
            filter=wanted.filter.strip() or None,
            order_by=wanted.order.strip() or None,
            # One more than is shown, to find out whether there are more.
            top_n=PAGE_RECORDS + 1,
            skip_n=wanted.first,
            # Only in this process: it has threads, so it must not fork further processes.
            jobs=1,
            counted=False,
            unknown="note" if wanted.filter.strip() or wanted.order.strip() else "ignore",
        )
        batches = []
        noted: list[str] = []

        def note(text: str) -> None:
            # All other notes go where those of the other pages go.
            if UNKNOWN_FIELD_WORDS in text:
                noted.append(text)
            else:
                self.instance.notify(text)

        instance = replace(self.instance, notify=note)
        with closing(start_query(instance, self._list_targets(wanted.target), options)) as result:
            for batch in result:
                if stop():
                    raise Stopped
                batches.append(batch)
        return replace(_build_page(batches, self._find_key_fields(wanted.target)), unknown=tuple(noted))

    def count_records(self, wanted: PageRequest, stop: Stop, told: Callable[[int], None]) -> int:
        """Count the matching records; ``told`` receives the count after each batch. Raises the errors of a query,
        Stopped."""
        options = QueryOptions(filter=wanted.filter.strip() or None, jobs=1, counted=False)
        total = 0
        with closing(start_query(self.instance, self._list_targets(wanted.target), options)) as result:
            if options.filter is None:
                # The store's own counts suffice, usually without reading a record.
                return result.count_records()
            for batch in result:
                if stop():
                    raise Stopped
                total += len(batch)
                told(total)
        return total

    def list_versions(self, target: str, key: str) -> list[VersionRow]:
        """The versions of a record, newest first: from the journal, else those that its topic retains.

        Raises the errors of ``history`` if neither has any.
        """
        (found,) = self._list_targets(target)
        journalled = found.topic is not None and found.topic.journalled
        batch, _ = read_key_versions(self.instance, found, [key], journal=journalled)
        shown = []
        before = b"{}"
        for number, record in enumerate(batch.records):
            view = batch.members_view(record.payload)
            shown.append(_build_version(record, view, before if number else None))
            before = view
        return shown[::-1]

    def follow_entries(self, topic_names: Sequence[str], count: int, stop: Stop) -> Iterator[list[tuple[str, ...]]]:
        """The last ``count`` entries of the journal and new ones, until it is stopped.

        Raises the errors of following a journal, and Stopped.
        """

        def waiting() -> None:
            if stop():
                raise Stopped

        keys = KeyNames(self)
        with closing(follow_journal(self.instance, topic_names, count, waiting=waiting)) as batches:  # type: ignore[type-var]
            for batch in batches:
                rows = []
                for record in batch.records:
                    facts = build_metadata(batch, record)
                    text = batch.view(record.payload).decode("utf-8", "replace") if record.has_data else ""
                    view = batch.members_view(record.payload) if record.has_data else b""
                    cells = (
                        facts["timestamp"],
                        str(record.txid),
                        facts["topic"],
                        facts.get("operation") or "",
                        keys.find_name(facts["topic"], batch.message_type, view) or facts["sow_key"] or "",
                        facts.get("client") or "",
                        clip_text(text, 400),
                    )
                    rows.append(tuple(map(escape_line, cells)))
                yield rows
                waiting()

    def list_queues(self) -> list[QueueRow]:
        """All queues. A note is made for those that cannot be read."""
        problems: list[SowError] = []
        rows = []
        for found in list_queues(self.instance, problems):
            depth = found.depth
            rates = (format_rate(rate) if rate else "" for rate in (found.entered_rate, found.acknowledged_rate))
            counts = (depth.ready, depth.leased, depth.delayed, depth.blocked, depth.dead)
            age = "" if found.age_seconds is None else format_age(found.age_seconds)
            cells = (depth.queue, found.underlying, *(f"{count:,}" for count in counts), age, *rates)
            rows.append(QueueRow(depth.queue, depth.message_type, tuple(map(escape_line, cells))))
        for problem in problems:
            self.instance.notify(problem.message)
        return rows

    def read_queue(self, name: str, message_type: str, state: str, count: int, stop: Stop) -> QueueMessages:
        """The first ``count`` messages of a queue in a state, or in any. Raises the errors of ``queue peek``, and
        Stopped."""
        names = KeyNames(self)
        with open_queue(self.instance, name, message_type) as queue:
            depth = compute_depth(queue)
            seen = [one for one in queue.list_messages(None if state else count + 1) if not state or one.state == state]
            view = self.instance.find_message_type(message_type).members_view
            messages = []
            for message in queue.read_messages(seen[:count]):
                if stop():
                    raise Stopped
                messages.append(_build_message(view, message, names))
        states = ", ".join(f"{getattr(depth, one):,} {one}" for one in QUEUE_STATES[1:])
        return QueueMessages(states, messages, len(seen) > count)

    def _find_key_fields(self, target: str) -> Sequence[Path]:
        """The paths of the key fields of a topic; none if its keys are not fields."""
        (found,) = self._list_targets(target)
        if found.topic is None or found.topic.key_mode != "fields":
            return ()
        return tuple(parse_path(str(path)) for path in found.topic.keys)

    def _list_targets(self, target: str) -> list[Target]:
        return resolve_targets(self.instance, target, derived=True, literal=True)


class KeyNames:
    """Names of records of topics: the values of their key fields."""

    def __init__(self, reader: InstanceReader) -> None:
        self._reader = reader
        self._keys: dict[TopicRef, Sequence[Path]] = {}

    def find_name(self, topic: str, message_type: str, view: bytes) -> str | None:
        """The values of a message's key fields; None if its topic has none, or it lacks one."""
        ref = TopicRef(topic, message_type)
        if ref not in self._keys:
            try:
                self._keys[ref] = self._reader._find_key_fields(f"[{message_type}].[{topic}]")
            except SowError:
                # The topic exists only in the journal.
                self._keys[ref] = ()
        return format_key(view, self._keys[ref])


def _build_message(view: Callable[[bytes], bytes], message: QueueMessage, names: KeyNames) -> WaitingMessage:
    record = QueueRecord(message)
    text = view(message.payload)
    facts = {
        "bookmark": message.bookmark, "txid": message.txid, "timestamp": format_time(message.timestamp),
        "expiration": format_expiry(message.expiration), **record.extra,
    }  # fmt: skip
    cells = (
        message.state,
        names.find_name(message.topic, message.message_type, text) or "",
        str(message.deliveries),
        message.holder,
        format_time(message.timestamp)[:_SECOND_CHARACTERS],
        message.reason,
        clip_text(text.decode("utf-8", "replace"), 400),
    )
    shown = [
        (name, escape_line(str(value))) for name, value in facts.items() if value is not None and name != "unkeyed"
    ]
    return WaitingMessage(tuple(map(escape_line, cells)), text, shown)


def format_key(view: bytes, keys: Sequence[Path]) -> str | None:
    """The values of key fields in a message, joined by commas; None if it lacks one, or there are none."""
    fields = read_members(view, lambda payload: payload) if keys and view else {}
    texts = [format_cell(value_at(fields, key)) for key in keys]
    return escape_line(",".join(map(str, texts))) if texts and None not in texts else None


def _build_page(batches: Sequence[RecordBatch], keys: Sequence[Path]) -> PageOfRecords:
    columns, _ = open_columns(batches, OutputOptions())
    records: list[BrowsedRecord] = []
    for batch in batches:
        for row, record in zip(columns.iterate_rows(batch), batch.records[: PAGE_RECORDS - len(records)], strict=False):
            cells = [
                clip_text(escape_line(text or ""), MAX_CELL_CHARACTERS, "…")
                for text in format_cells(columns.read_cells(row)[:MAX_COLUMNS])
            ]
            facts = build_metadata(batch, record)
            shown = [(name, escape_line(str(value))) for name, value in facts.items() if value is not None]
            view, key = batch.members_view(record.payload), str(facts["sow_key"])
            records.append(BrowsedRecord(key, format_key(view, keys) or key, cells, view, shown))
    # Without a record there are no column names.
    count = MAX_COLUMNS if records else 0
    headings = [escape_line(heading) for heading in columns.headings[:count]]
    return PageOfRecords(
        headings, list(map(str, columns.columns[:count])), records, sum(map(len, batches)) > PAGE_RECORDS
    )


def _build_version(record: VersionRecord, view: bytes, before: bytes | None) -> VersionRow:
    facts = record.extra
    until = facts["until"]
    cells = (
        format_time(record.timestamp)[:_SECOND_CHARACTERS],
        str(facts["operation"]),
        str(facts.get("client") or ""),
        str(record.txid),
        "" if until is None else str(until)[:_SECOND_CHARACTERS],
    )
    if before is None:
        changes = ["the oldest known version"]
    else:
        changes = [
            format_change(format_path(change.path) or "/", change.before, change.after)
            for change in compare_views(before, view)
        ] or ["the same fields"]
    return VersionRow(tuple(map(escape_line, cells)), None if record.deleted else view, changes)


def format_change(path: str, before: object, after: object) -> str:
    """One field that differs, with the mark of ``sowctl diff``: ``~`` changed, ``+`` added, ``-`` removed."""
    if before is MISSING:
        return escape_line(f"+ {path} {dump_json(after)}")
    if after is MISSING:
        return escape_line(f"- {path} {dump_json(before)}")
    return escape_line(f"~ {path} {dump_json(before)} → {dump_json(after)}")


def format_message(view: bytes) -> str:
    """A message as JSON over several lines, with the digits of its numbers; every line is escaped."""
    lines: list[str] = []
    _format_node(parse_view(view), "", "", "", lines)
    return "\n".join(map(escape_line, lines))


def _format_node(node: object, indent: str, front: str, end: str, lines: list[str]) -> None:
    if isinstance(node, dict) and node:
        _format_brackets(
            [(f"{dump_json(name)}: ", value) for name, value in node.items()], "{}", indent, front, end, lines
        )
    # An array of scalars is one line: most are short.
    elif isinstance(node, list) and any(isinstance(item, dict | list) and item for item in node):
        _format_brackets([("", item) for item in node], "[]", indent, front, end, lines)
    else:
        lines.append(f"{indent}{front}{dump_json(node)}{end}")


def _format_brackets(
    parts: list[tuple[str, object]], brackets: str, indent: str, front: str, end: str, lines: list[str]
) -> None:
    lines.append(f"{indent}{front}{brackets[0]}")
    for at, (name, value) in enumerate(parts, 1):
        _format_node(value, indent + _INDENT, name, "," if at < len(parts) else "", lines)
    lines.append(f"{indent}{brackets[1]}{end}")
