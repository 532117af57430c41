"""Reports of verbs, for people in a line or two, or as one line of JSON (``--summary json``).

Works on the report classes of the engine by the names of their fields, so that no report is declared again here: those
in ``_COUNT_FIELDS`` are counts, ``topics`` the shares of several topics, ``bytes`` is a size, ``seconds`` a duration,
``first_txid`` and ``last_txid`` a range, ``durable`` a promise, ``dry_run`` a warning that nothing was written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from msgspec import Struct

from sowctl.output.display import escape_line
from sowctl.remote.place import RemotePath
from sowctl.values.display import format_bytes, format_count, format_duration, format_rate
from sowctl.values.jsonline import format_json_line
from sowctl.values.times import format_time

MAX_LISTED_COLUMNS = 8
"""Maximum number of columns of one type to name."""
_PUBLISH_FIELDS = ("published", "inserted", "updated", "deleted", "expired")
_COUNT_FIELDS = (
    "published", "inserted", "updated", "unchanged", "missing", "journalled", "duplicates", "rejected", "blank",
    "already_expired", "examined", "matched", "returned", "deleted", "expired",
    "entries", "records", "versions", "changes", "leftovers",
    "restored", "restored_versions", "removed", "lost", "lost_versions",
)  # fmt: skip
_SINGULARS = {
    "duplicates": "duplicate", "entries": "entry", "records": "record", "versions": "version", "changes": "change",
    "leftovers": "leftover", "restored_versions": "restored_version", "lost_versions": "lost_version",
}  # fmt: skip
_SIZE_FIELDS = ("bytes_before", "bytes_after")
"""The size of a file before and after."""
_SUMMED_FIELDS = frozenset((*_COUNT_FIELDS, *_SIZE_FIELDS, "payload_bytes"))
_QUERY_FIELDS = ("examined", "matched", "returned")
"""All three are printed for a query, because zero matches are an answer, too."""
_TIME_FIELDS = ("now", "ahead", "oldest_read", "at")
"""Fields that are times in microseconds, or texts already, and are formatted as ISO-8601; None if absent."""
_KEY_FIELDS = ("sow_key", "first_key", "last_key")
"""Fields that are SOW keys, and are formatted as texts: JSON readers round numbers of 20 digits."""


def as_dict(report: Any) -> dict[str, Any]:
    """A report (a struct) as plain values, tuples as lists, paths as texts; nested structs likewise."""
    if not _is_report(report):
        raise TypeError(f"{type(report).__name__} is no report")
    row = {name: _plain_value(getattr(report, name)) for name in report.__struct_fields__}
    row |= {name: str(row[name]) for name in _KEY_FIELDS if row.get(name) is not None}
    return row | {name: format_time(row[name]) for name in _TIME_FIELDS if isinstance(row.get(name), int)}


def encode_report(report: Any) -> str:
    """One line of JSON, ASCII only."""
    return format_json_line(as_dict(report))


_MAX_INPUTS = 10
"""Maximum number of files whose types a report for people lists; a directory may have thousands."""
_UNSHARED_FIELDS = ("action", "path", "note", "digest", "moved", "applied", "incomplete")
"""Facts of one report, which a total has only if they are equal in all."""


def sum_reports(reports: Sequence[Any]) -> dict[str, Any] | None:
    """Sum the reports of several topics into one that has only their number; None for fewer than two."""
    rows = [as_dict(report) for report in reports]
    if len(rows) < 2:
        return None
    summed = {name: sum(row[name] for row in rows) for name in rows[0] if name in _SUMMED_FIELDS}
    # Facts that differ are dropped: the first one's file is not that of all.
    own = {
        name: None for name in _UNSHARED_FIELDS if name in rows[0] and any(row[name] != rows[0][name] for row in rows)
    }
    return rows[0] | own | {"topic": None, "message_type": None} | summed | {"topics": len(rows)}


def format_reports(reports: Sequence[Any]) -> list[str]:
    """Each of the reports of several topics in words, then their total: ``3 topics: 9 examined, 2 matched, 2 deleted``.

    Topics of one name are distinguished by their types.
    """
    names = Counter(report.topic for report in reports)
    lines = [_format_row(_label_row(as_dict(report), names)) for report in reports]
    row = sum_reports(reports)
    if row is not None:
        number = row.pop("topics")
        lines.append(f"{number} topics: {_format_row(row)}")
    return lines


def format_report(report: Any) -> str:
    """``orders: 812 inserted, 3 rejected; 214.0 MiB in 6.1 s (133 a second); txid 1-815, durable``.

    Shares of several topics have lines of their own.
    """
    return _format_row(as_dict(report))


def _label_row(row: dict[str, Any], names: Counter[str]) -> dict[str, Any]:
    """A row whose topic includes its type if another one has the same name."""
    twice = names[row["topic"]] > 1
    return row | {"topic": f"[{row['message_type']}].[{row['topic']}]"} if twice else row


def _format_row(report: Mapping[str, Any]) -> str:
    row = dict(report)
    shares = row.get("topics") or []
    if len(shares) == 1:
        # One topic is reported like a run of that topic alone; its own counts replace the list.
        row = shares[0] | {name: value for name, value in row.items() if name != "published"}
    topic = f"{escape_line(str(row['topic']))}: " if row.get("topic") else ""
    mode = "dry run, nothing was written: " if row.get("dry_run") else ""
    done = f"{row['action']}: " if row.get("action") else ""
    # Messages equal to their records are written nevertheless, unless they are skipped, and then not published.
    others = sum(report.get(name) or 0 for name in ("inserted", "updated", "deleted", "journalled"))
    rewrites = not report.get("dry_run") and report.get("unchanged", 0) > 0 and report.get("published", 0) > others
    counts = ", ".join(_format_counts(row, rewrites=rewrites)) or ("" if row.get("note") and done else "nothing to do")
    # The store's position is a txid, not a number of applied entries.
    applied = f"applied up to txid {row['applied']}" if row.get("action") and row.get("applied") else ""
    parts = [
        counts,
        applied,
        _format_size_change(row),
        _format_volume(row, report.get("published")),
        _format_position(row),
    ]
    shown = ("note",) if row.get("action") in ("verified", "not verified", "differs") else ("note", "path")
    parts += [escape_line(str(row[name])) for name in shown if row.get(name)]
    if row.get("moved"):
        # Replay names the files that it keeps by their condition.
        what = "damaged" if ".damaged-" in str(row["moved"]) else "former"
        parts.append(f"the {what} file is now {escape_line(str(row['moved']))}")
    lines = [topic + mode + done + "; ".join(part for part in parts if part)]
    if len(shares) > 1:
        names = Counter(share["topic"] for share in shares)
        shares = [_label_row(share, names) for share in shares]
        for share in shares:
            told = ", ".join(_format_counts(share, rewrites=rewrites))
            lines.append(f"  {escape_line(str(share['topic']))}: {told}")
    inputs = [one for one in row.get("inputs") or () if one["columns"]]
    lines += [f"  {_format_input(one)}" for one in inputs[:_MAX_INPUTS]]
    if len(inputs) > _MAX_INPUTS:
        lines.append(f"  and {format_count(len(inputs) - _MAX_INPUTS, 'more file')}")
    return "\n".join(lines)


def _list_names(names: Sequence[str]) -> str:
    rest = len(names) - MAX_LISTED_COLUMNS
    return ", ".join(names[:MAX_LISTED_COLUMNS]) + (f" and {rest} more" if rest > 0 else "")


def _format_input(facts: Mapping[str, Any]) -> str:
    """How a text file was read: the types of its columns."""
    names: dict[str, list[str]] = {}
    for one in facts["columns"]:
        names.setdefault(one["type"], []).append(escape_line(one["name"]))
    texts = names.pop("text", [])
    parts = [f"{_list_names(found)} {kind}" for kind, found in names.items()]
    if texts:
        parts.append(
            ("the other columns text" if parts else "all columns text") if len(texts) > 1 else f"{texts[0]} text"
        )
    what, delimiter = facts["format"], facts["delimiter"]
    if delimiter != ("," if what == "csv" else "\t"):
        what += f" with delimiter {'tab' if delimiter == chr(9) else repr(delimiter)}"
    return f"{escape_line(facts['name'])}: {what}; {'; '.join(parts)}"


def _format_counts(row: Mapping[str, Any], *, rewrites: bool = False) -> list[str]:
    """``rewrites``: messages that changed nothing were written."""
    counted = {name: row[name] for name in _COUNT_FIELDS if type(row.get(name)) is int}
    always: Sequence[str] = (
        _QUERY_FIELDS
        if "returned" in counted
        else ("records",)
        if "payload_bytes" in row
        else ()
        if counted.get("journalled")
        else _PUBLISH_FIELDS
    )
    if "inserted" in counted:
        # Most publishers delete nothing, so zero deletions are not printed.
        always = [name for name in always if name != "deleted"]
    words = {"unchanged": "written unchanged"} if rewrites else {}
    return [
        format_count(
            count,
            words.get(name, _SINGULARS.get(name, name).replace("_", " ")),
            words.get(name, name.replace("_", " ")),
        )
        for name, count in counted.items()
        if count or name in always
    ]


def _format_volume(row: Mapping[str, Any], messages: int | None) -> str:
    count = row.get("bytes") or row.get("payload_bytes")
    seconds = row.get("seconds")
    text = format_bytes(count) if count else ""
    # For so short a time the rate is meaningless.
    if not seconds or seconds < 0.05:
        return text
    rate = f" ({format_rate(messages / seconds)})" if messages else ""
    return f"{text} in {format_duration(seconds)}{rate}".strip()


def _format_size_change(row: Mapping[str, Any]) -> str:
    if row.get("bytes_before") is None:
        return ""
    return f"{format_bytes(row['bytes_before'])} before, {format_bytes(row['bytes_after'])} after"


def _format_position(row: Mapping[str, Any]) -> str:
    first, last = row.get("first_txid"), row.get("last_txid")
    txids = f"txid {last}" if first == last else f"txid {first}-{last}"
    durable = row.get("durable")
    promise = "" if durable is None else "durable" if durable else "not durable"
    return ", ".join(part for part in (txids if last else "", promise if not row.get("dry_run") else "") if part)


def _is_report(value: Any) -> bool:
    return isinstance(value, Struct) and not isinstance(value, RemotePath)


def _plain_value(value: Any) -> Any:
    if _is_report(value):
        return as_dict(value)
    if isinstance(value, Mapping):
        return {str(name): _plain_value(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain_value(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value) if isinstance(value, PurePath | RemotePath) else value
