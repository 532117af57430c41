"""What the browser reads: topics, pages of records, versions of one record, the end of the journal.

Every function opens what it reads and closes it again, so that any thread may call it: snapshots of LMDB belong to the
thread that opened them. ``Stop`` is looked at between two batches; a question that nobody waits for ends early.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from sowctl.described import DescribedStruct
from sowctl.engine.options import QueryOptions
from sowctl.engine.search.lacking import LACKS
from sowctl.engine.topics.targets import resolve
from sowctl.engine.verbs.history import versions
from sowctl.engine.verbs.info import info
from sowctl.engine.verbs.query import query
from sowctl.engine.verbs.upkeep.journal_tail import journal_follow
from sowctl.output.columns import cell_texts, open_columns
from sowctl.output.display import clip, display
from sowctl.output.members import dump
from sowctl.output.options import OutputOptions
from sowctl.output.records import metadata
from sowctl.values.differences import MISSING, path_text, tree_of, view_differences
from sowctl.values.human import format_bytes
from sowctl.values.times import format_time

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.records import RecordBatch
    from sowctl.engine.search.keyhistory import VersionRecord
    from sowctl.engine.topics.targets import Target

PAGE = 100
"""Records of a page."""
COLUMNS = 24
"""Columns of a page, at most."""
CELL = 40
"""Characters of a cell, at most."""
_INDENT = "  "
Stop = Callable[[], bool]
"""Whether nobody waits for the answer any more."""


class Stopped(Exception):
    """The question was given up."""


class TopicRow(Struct, frozen=True):
    """One line of the list of topics; ``target`` names it for the other questions, None where it has no records."""

    target: str | None
    cells: tuple[str, ...]


TOPIC_COLUMNS = ("topic", "type", "kind", "state", "records", "size", "last update")


class BrowsedRecord(Struct, frozen=True):
    """One record: its key as clients see it, its cells, its message as JSON, and its metadata."""

    key: str
    cells: list[str]
    view: bytes
    facts: list[tuple[str, str]]


class PageOfRecords(Struct, frozen=True):
    """A page of records; ``fields`` are the paths of the columns, ``more``: there are further ones.

    ``unknown``: remarks on fields of the filter or the order that no record has.
    """

    headings: list[str]
    fields: list[str]
    records: list[BrowsedRecord]
    more: bool
    unknown: tuple[str, ...] = ()


class PageRequest(Struct, frozen=True):
    """Which records, in which order, and from which one on."""

    target: str
    filter: str = ""
    order: str = ""
    first: int = 0


class VersionShown(Struct, frozen=True):
    """A version of a record: cells, what it was (None: deleted), and how it differs from the one before."""

    cells: tuple[str, ...]
    view: bytes | None
    changes: list[str]


VERSION_COLUMNS = ("from", "operation", "client", "txid", "until")
ENTRY_COLUMNS = ("time", "txid", "topic", "operation", "key", "client", "message")


class InstanceReader(DescribedStruct, frozen=True):
    """The instance that is looked through."""

    instance: Instance

    def topics(self) -> list[TopicRow]:
        """All topics, views, conflated topics and queues."""
        rows = []
        for row in info(self.instance):
            target = None if row.kind == "journal only" else f"[{row.message_type}].[{row.topic}]"
            updated = "" if row.last_update is None else format_time(row.last_update)
            cells = (
                row.topic,
                row.message_type,
                row.kind,
                row.state,
                f"{row.records:,}",
                format_bytes(row.file_bytes),
                updated,
            )
            rows.append(TopicRow(target, tuple(map(display, cells))))
        return rows

    def page(self, wanted: PageRequest, stop: Stop) -> PageOfRecords:
        """A page of records. Raises what a query raises, Stopped."""
        options = QueryOptions(
            filter=wanted.filter.strip() or None,
            order_by=wanted.order.strip() or None,
            # One more than is shown tells that there are further ones.
            top_n=PAGE + 1,
            skip_n=wanted.first,
            # In this process alone: it has threads, and further ones would be forked from it.
            jobs=1,
            counted=False,
            unknown="note" if wanted.filter.strip() or wanted.order.strip() else "ignore",
        )
        batches = []
        noted: list[str] = []

        def note(text: str) -> None:
            # What else there is to remark goes where it goes from all other pages.
            if LACKS in text:
                noted.append(text)
            else:
                self.instance.notify(text)

        instance = replace(self.instance, notify=note)
        with closing(query(instance, self._targets(wanted.target), options)) as result:
            for batch in result:
                if stop():
                    raise Stopped
                batches.append(batch)
        return replace(_page(batches), unknown=tuple(noted))

    def count(self, wanted: PageRequest, stop: Stop, told: Callable[[int], None]) -> int:
        """How many records match; ``told`` so far, after each batch. Raises what a query raises, Stopped."""
        options = QueryOptions(filter=wanted.filter.strip() or None, jobs=1, counted=False)
        total = 0
        with closing(query(self.instance, self._targets(wanted.target), options)) as result:
            if options.filter is None:
                # The store's own counts tell it, mostly without a record being read.
                return result.count()
            for batch in result:
                if stop():
                    raise Stopped
                total += len(batch)
                told(total)
        return total

    def versions(self, target: str, key: str) -> list[VersionShown]:
        """The versions of a record, newest first: of the journal, else what its topic retains.

        Raises what ``history`` raises where neither knows any.
        """
        (found,) = self._targets(target)
        journalled = found.topic is not None and found.topic.journalled
        batch, _ = versions(self.instance, found, [key], journal=journalled)
        shown = []
        before = b"{}"
        for number, record in enumerate(batch.records):
            view = batch.members_view(record.payload)
            shown.append(_version(record, view, before if number else None))
            before = view
        return shown[::-1]

    def entries(self, topics: Sequence[str], count: int, stop: Stop) -> Iterator[list[tuple[str, ...]]]:
        """The last ``count`` entries of the journal and those that come, until it is to stop.

        Raises what following a journal raises, Stopped.
        """

        def waiting() -> None:
            if stop():
                raise Stopped

        with closing(journal_follow(self.instance, topics, count, waiting=waiting)) as batches:  # type: ignore[type-var]
            for batch in batches:
                rows = []
                for record in batch.records:
                    facts = metadata(batch, record)
                    text = batch.view(record.payload).decode("utf-8", "replace") if record.has_data else ""
                    cells = (
                        facts["timestamp"],
                        str(record.txid),
                        facts["topic"],
                        facts.get("operation") or "",
                        facts["sow_key"] or "",
                        facts.get("client") or "",
                        clip(text, 400),
                    )
                    rows.append(tuple(map(display, cells)))
                yield rows
                waiting()

    def _targets(self, target: str) -> list[Target]:
        return resolve(self.instance, target, derived=True, literal=True)


def _page(batches: Sequence[RecordBatch]) -> PageOfRecords:
    columns, _ = open_columns(batches, OutputOptions())
    records: list[BrowsedRecord] = []
    for batch in batches:
        for row, record in zip(columns.rows(batch), batch.records[: PAGE - len(records)], strict=False):
            cells = [clip(display(text or ""), CELL, "…") for text in cell_texts(columns.cells(row)[:COLUMNS])]
            facts = metadata(batch, record)
            shown = [(name, display(str(value))) for name, value in facts.items() if value is not None]
            records.append(BrowsedRecord(str(facts["sow_key"]), cells, batch.members_view(record.payload), shown))
    # Without a record there is nothing that could name columns.
    count = COLUMNS if records else 0
    headings = [display(heading) for heading in columns.headings[:count]]
    return PageOfRecords(headings, list(map(str, columns.columns[:count])), records, sum(map(len, batches)) > PAGE)


def _version(record: VersionRecord, view: bytes, before: bytes | None) -> VersionShown:
    facts = record.extra
    until = facts["until"]
    cells = (
        format_time(record.timestamp),
        str(facts["operation"]),
        str(facts.get("client") or ""),
        str(record.txid),
        "" if until is None else str(until),
    )
    if before is None:
        changes = ["the oldest known version"]
    else:
        changes = [
            change_text(path_text(change.path) or "/", change.before, change.after)
            for change in view_differences(before, view)
        ] or ["the same fields"]
    return VersionShown(tuple(map(display, cells)), None if record.deleted else view, changes)


def change_text(path: str, before: object, after: object) -> str:
    """One field that differs, with the mark of ``sowctl diff``: ``~`` changed, ``+`` added, ``-`` removed."""
    if before is MISSING:
        return display(f"+ {path} {dump(after)}")
    if after is MISSING:
        return display(f"- {path} {dump(before)}")
    return display(f"~ {path} {dump(before)} → {dump(after)}")


def pretty(view: bytes) -> str:
    """A message as JSON over several lines, numbers as they were written; every line is safe to show."""
    lines: list[str] = []
    _pretty(tree_of(view), "", "", "", lines)
    return "\n".join(map(display, lines))


def _pretty(node: object, indent: str, front: str, end: str, lines: list[str]) -> None:
    if isinstance(node, dict) and node:
        _opened([(f"{dump(name)}: ", value) for name, value in node.items()], "{}", indent, front, end, lines)
    # An array of scalars is one line: most are short.
    elif isinstance(node, list) and any(isinstance(item, dict | list) and item for item in node):
        _opened([("", item) for item in node], "[]", indent, front, end, lines)
    else:
        lines.append(f"{indent}{front}{dump(node)}{end}")


def _opened(
    parts: list[tuple[str, object]], brackets: str, indent: str, front: str, end: str, lines: list[str]
) -> None:
    lines.append(f"{indent}{front}{brackets[0]}")
    for at, (name, value) in enumerate(parts, 1):
        _pretty(value, indent + _INDENT, name, "," if at < len(parts) else "", lines)
    lines.append(f"{indent}{brackets[1]}{end}")
