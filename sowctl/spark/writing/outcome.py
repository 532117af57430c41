"""Outcome of a write besides its records: the rows that were refused, and the counts of each kind.

Spark has no place for either, so they go to files of the driver's, which options name (sowctl-spark(7), Writing).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from sowctl.engine.writing.rejects import format_reject_line
from sowctl.errors import MissingError

if TYPE_CHECKING:
    from sowctl.engine.bulk.staging import StagedAttempt
    from sowctl.engine.reports import CommitReport, Rejected

COUNT_FIELDS = (
    "messages",
    "published",
    "inserted",
    "updated",
    "unchanged",
    "deleted",
    "missing",
    "duplicates",
    "rejected",
)


def format_partition(number: int) -> str:
    """Return the name that errors give to the partition that a row came in."""
    return f"partition {number}"


def require_directory(path: Path | None, option: str) -> None:
    """Raise MissingError ``SOW-ENG-013`` where the file could not be written: asked before rows are."""
    if path is not None and not path.parent.is_dir():
        raise MissingError("SOW-ENG-013", f"option {option}: the directory does not exist", place=str(path.parent))


def append_refused(path: Path, directory: Path, staged: Sequence[StagedAttempt], late: Iterable[Rejected]) -> None:
    """Append the refused rows to a file, one a line: those of the winning attempts, then those of the commit."""
    names = [one.rejects for one in sorted(staged, key=lambda one: one.first) if one.rejects is not None]
    with path.open("ab") as file:
        for name in names:
            for line in (directory / name).read_bytes().splitlines():
                file.write(_format_row_line(line))
        file.write(b"".join(_format_row_line(format_reject_line(one)) for one in late))


def append_counts(path: Path, report: CommitReport, client: str | None, sequence: int | None) -> None:
    """Append one line of JSON: the topic, the counts and the txids of one write or one batch of a stream."""
    row: dict[str, Any] = {"topic": report.topic}
    if client is not None and sequence is not None:
        row |= {"client": client, "sequence": sequence}
    found = asdict(report)
    row |= {name: found[name] for name in (*COUNT_FIELDS, "first_txid", "last_txid")}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def warn_missing(report: CommitReport) -> None:
    """Log a warning where a write deletes, and there is no record under any of its keys.

    That is no error: a batch may come again, or delete what has expired. But keys that were read from another topic
    look like this, too, and then every deletion is lost.
    """
    if report.missing and not report.deleted:
        logging.getLogger("sowctl").warning(
            "topic %s has no record for any of the %d deletes of a write; the _sow_key of another "
            "topic is valid only with the same KeyDomain (sowctl-spark(7), STREAMING)",
            report.topic,
            report.missing,
        )


def _format_row_line(line: bytes) -> bytes:
    """A line of a rejects file with the partition and the row, from 1, where files have line and byte."""
    found = json.loads(line)
    place = {"partition": int(found.pop("source").split()[-1]), "row": found.pop("byte") + 1}
    found.pop("line")
    return json.dumps(place | found).encode() + b"\n"
