"""Facts about an instance as rows for the output of ``info`` and ``journal``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from sowctl.output.options import TableFit
from sowctl.output.reports import as_dict
from sowctl.values.display import format_age, format_ago, format_bytes, format_count
from sowctl.values.times import build_fixed_clock, format_time, parse_time

INFO_FIT = TableFit(spare=("txid", "free", "type", "kind", "size", "updated"), state="state", figures=("size", "free"))
"""Columns of the brief row of a topic that a narrow terminal may drop."""
FILES_FIT = TableFit(spare=("number", "created"), paths=("path",), figures=("size", "txids"))
"""Columns of a journal file for people that a narrow terminal may drop."""

BACKUPS_FIT = TableFit(spare=("kind", "txids", "records", "verified", "at"), figures=("size", "txids"))
"""Columns of a backup for people that a narrow terminal may drop."""

if TYPE_CHECKING:
    from sowctl.engine.maintenance.journal_search.entries import JournalEntries
    from sowctl.engine.reports import TopicInfo
    from sowctl.engine.verbs.upkeep.backup import BackupRow
    from sowctl.journal.block import FileInfo


def build_topic_row(topic: TopicInfo, *, brief: bool) -> dict[str, Any]:
    """All facts of a topic; ``brief``: the columns that fit a line, for people."""
    updated = format_time(topic.last_update) if topic.last_update is not None else None
    if not brief:
        return as_dict(topic) | {"last_update": updated}
    state = topic.state
    if topic.leased:
        state += f", {topic.leased:,} leased"
    if topic.age_seconds is not None:
        state += f", oldest {format_age(topic.age_seconds)}"
    if topic.retained_pages:
        state += f", process {topic.reader_pid} keeps {format_count(topic.retained_pages, 'page')}"
    return {
        "topic": topic.topic,
        "type": topic.message_type,
        "kind": topic.kind,
        "state": state,
        "records": topic.records,
        "size": format_bytes(topic.file_bytes),
        "free": f"{topic.free_pages / topic.pages:.0%}" if topic.pages else None,
        "txid": topic.applied,
        "lag": topic.lag,
        "last update": updated,
    }


def build_person_rows(infos: Sequence[TopicInfo], now: int) -> list[dict[str, Any]]:
    """The brief rows for a terminal: the last update as an age at ``now``, a lag only if a topic has one."""
    rows = [build_topic_row(topic, brief=True) for topic in infos]
    for row, topic in zip(rows, infos, strict=True):
        del row["last update"]
        row["updated"] = format_ago((now - topic.last_update) / 1e6) if topic.last_update else None
        row["lag"] = row["lag"] or None
    return rows


def build_file_row(file: FileInfo) -> dict[str, Any]:
    """One journal file; ``last_txid`` is null if it has no entry yet, or its end is unreadable."""
    return as_dict(file) | {"path": str(file.path), "created": format_time(file.created)}


def build_person_file_row(file: FileInfo) -> dict[str, Any]:
    """One journal file for a terminal: its path, relative to the working directory if below it, its txids as a
    range."""
    return {
        "path": shorten_path(str(file.path)),
        "number": file.number,
        "size": format_bytes(file.size),
        "txids": f"{file.first_txid}-{file.last_txid or ''}",
        "created": format_time(file.created),
    }


def build_person_backup_row(backup: BackupRow, now: int) -> dict[str, Any]:
    """One backup for a terminal: its instant, its txids as a range, and the time since it was last verified."""
    row = as_dict(backup)
    verified = row["verified"] and format_ago((now - parse_time(row["verified"], build_fixed_clock(now))) / 1e6)
    return {
        "name": row["name"],
        "kind": row["kind"],
        "at": row["at"],
        "txids": None if row["last_txid"] is None else f"{row['first_txid']}-{row['last_txid']}",
        "records": row["records"],
        "size": None if row["bytes"] is None else format_bytes(row["bytes"]),
        "verified": verified,
        "problem": row["problem"],
    }


def shorten_path(path: str) -> str:
    """``path`` relative to the working directory if it is below that, else unchanged."""
    try:
        here = f"{Path.cwd()}/"
    except OSError:
        # The working directory was removed.
        return path
    return path[len(here) :] if path.startswith(here) else path


def skip_entries(batches: Iterable[JournalEntries], *, skip: int) -> Iterator[JournalEntries]:
    """All entries but the first ``skip``."""
    for batch in batches:
        taken = min(skip, len(batch.records))
        skip -= taken
        if taken < len(batch.records):
            yield replace(batch, records=batch.records[taken:]) if taken else batch
