"""Differing records, for people and programs: lines with marks, JSON, statistics, and envelopes for ``publish``.

For people each line begins with a mark: ``~`` changed, ``+`` added, ``-`` removed; the fields of a changed record are
below it. On a terminal marks and values have colours, and lines are cut to its width; elsewhere they are complete.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from sowctl.output.display import clip_text, escape_line, escape_surrogates, measure_width
from sowctl.output.members import dump_json, is_json_line
from sowctl.output.options import Terminal
from sowctl.output.records import ShownRecord, View
from sowctl.values.differences import MISSING, FieldChange, FieldPath, format_path
from sowctl.values.times import format_expiry, format_time

_MARKS = {"changed": "~", "added": "+", "removed": "-", "repeated": "=", "known": "*"}
_COLORS = {"~": "33", "+": "32", "-": "31", "=": "2", "*": "2", "head": "1", "dim": "2"}
_BYTES_ONLY_TEXT = "    the same fields in other bytes"
_MAX_BAR_COLUMNS = 40
"""Maximum characters of a bar of a statistic."""

Fact = tuple[str, object, object]
"""Differing metadata: its name, and its values before and after."""


class Change(Protocol):
    """One differing record; implemented by :mod:`sowctl.engine.verbs.inspect.diff`."""

    @property
    def kind(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def before(self) -> ShownRecord | None: ...
    @property
    def after(self) -> ShownRecord | None: ...
    @property
    def keyed(self) -> bool: ...
    @property
    def fields(self) -> Sequence[FieldChange]: ...
    @property
    def facts(self) -> Sequence[Fact]: ...


class ShownVersion(ShownRecord, Protocol):
    """A version of a record; implemented by :mod:`sowctl.engine.verbs.history`."""

    @property
    def client(self) -> str | None: ...
    @property
    def lossy(self) -> bool: ...


class VersionDifference(Protocol):
    """A version compared with the previous one."""

    @property
    def kind(self) -> str: ...
    @property
    def version(self) -> ShownVersion: ...
    @property
    def fields(self) -> Sequence[FieldChange]: ...


class Counts(Protocol):
    """The number of differing records; ``equal`` is None if unknown."""

    @property
    def equal(self) -> int | None: ...
    @property
    def changed(self) -> int: ...
    @property
    def added(self) -> int: ...
    @property
    def removed(self) -> int: ...
    @property
    def fields(self) -> Mapping[FieldPath, int]: ...


class DiffText:
    """Lines for people, cut to the width of ``terminal``; not cut if it is None."""

    def __init__(self, terminal: Terminal | None, *, colored: bool) -> None:
        self._columns = terminal.columns if terminal is not None else None
        self._colored = colored

    def format_heading(self, before: str, after: str) -> Iterator[str]:
        """Yield the lines that name the two compared sides."""
        yield self._paint_text("head", self._cut_text(f"--- {escape_line(before)}"))
        yield self._paint_text("head", self._cut_text(f"+++ {escape_line(after)}"))

    def format_title(self, text: str) -> Iterator[str]:
        """Yield the title of the lines below it."""
        yield self._paint_text("head", self._cut_text(escape_line(text)))

    def format_change(self, change: Change, view: View) -> Iterator[str]:
        """Yield the lines of one record."""
        mark = _MARKS[change.kind]
        record = change.after if change.after is not None else change.before
        assert record is not None
        if change.kind != "changed":
            text = escape_line(view(record.payload))
            yield self._paint_text(mark, self._cut_text(f"{mark} {escape_line(change.key)}: {text}"))
            return
        yield f"{self._paint_text(mark, mark)} {self._paint_text('head', self._cut_text(escape_line(change.key), 2))}"
        yield from self.format_fields(change.fields, change.facts)
        if not change.fields and not change.facts:
            yield self._paint_text("dim", _BYTES_ONLY_TEXT)

    def format_fields(
        self, fields: Sequence[FieldChange], facts: Sequence[Fact] = (), indent: str = "    "
    ) -> Iterator[str]:
        """The fields of a changed record, one per line."""
        for found in fields:
            yield from self._format_field(indent, format_path(found.path), found.before, found.after)
        for name, before, after in facts:
            yield from self._format_field(indent, name, before, after)

    def _format_field(self, indent: str, name: str, before: Any, after: Any) -> Iterator[str]:
        name = escape_line(name)
        if before is MISSING or after is MISSING:
            mark, value = ("+", after) if before is MISSING else ("-", before)
            yield self._paint_text(mark, self._cut_text(f"{indent}{mark} {name}: {_format_value(value)}"))
            return
        old, new = _format_value(before), _format_value(after)
        front = f"{indent}~ {name}: "
        if self._columns is None or measure_width(front) + measure_width(old) + measure_width(new) + 4 <= self._columns:
            yield f"{self._paint_text('~', front)}{self._paint_text('-', old)} -> {self._paint_text('+', new)}"
            return
        # On two lines if they do not fit into one.
        yield self._paint_text("~", self._cut_text(front.rstrip()))
        yield self._paint_text("-", self._cut_text(f"{indent}    - {old}"))
        yield self._paint_text("+", self._cut_text(f"{indent}    + {new}"))

    def format_version(self, change: VersionDifference, view: View) -> Iterator[str]:
        """A version compared with the previous one: its time, its client, and its differences."""
        version, mark = change.version, _MARKS[change.kind]
        words = [format_time(version.timestamp), f"txid {version.txid}"]
        words += [f"client {escape_line(version.client)}"] if version.client is not None else []
        told = {"removed": "deleted", "repeated": "repeated", "known": "the first that is known"}.get(change.kind)
        words += [told] if told is not None else []
        words += ["with others before the next one"] if version.lossy else []
        yield f"{self._paint_text(mark, mark)} {self._paint_text('head', self._cut_text('  '.join(words), 2))}"
        if change.kind in ("added", "known"):
            yield self._paint_text(mark, self._cut_text(f"    {escape_line(view(version.payload))}"))
        yield from self.format_fields(change.fields)
        if change.kind == "changed" and not change.fields:
            yield self._paint_text("dim", _BYTES_ONLY_TEXT)

    def format_statistic(self, name: str, counts: Counts, longest: int) -> Iterator[str]:
        """Yield the number of differences of a topic with a bar, then its fields. ``longest`` is the largest number of
        any topic.
        """
        total = counts.changed + counts.added + counts.removed
        parts = (("~", counts.changed), ("+", counts.added), ("-", counts.removed))
        room = min(_MAX_BAR_COLUMNS, max(8, (self._columns or 80) - measure_width(name) - 20))
        bar = "".join(
            self._paint_text(mark, mark * _bar_length(number, longest, room)) for mark, number in parts if number
        )
        yield f"{escape_line(name)} | {total:,} {bar}"
        fields = sorted(counts.fields.items(), key=lambda item: (-item[1], format_path(item[0])))
        wide = max((measure_width(format_path(path)) for path, _ in fields), default=0)
        for path, number in fields:
            text = escape_line(format_path(path))
            yield self._cut_text(f"    {text}{' ' * (wide - measure_width(text))} | {number:,}")

    def _cut_text(self, text: str, used: int = 0) -> str:
        return text if self._columns is None else clip_text(text, self._columns - used)

    def _paint_text(self, kind: str, text: str) -> str:
        return f"\x1b[{_COLORS[kind]}m{text}\x1b[0m" if self._colored and text else text


def format_counts(counts: Counts) -> str:
    """The numbers in words: ``1 changed, 2 added, 0 removed, 7 equal``."""
    text = f"{counts.changed:,} changed, {counts.added:,} added, {counts.removed:,} removed"
    return text if counts.equal is None else f"{text}, {counts.equal:,} equal"


def encode_change(topic: str, message_type: str, change: Change, view: View) -> str:
    """One record as a line of JSON, ASCII only; numbers have the digits of the messages."""
    record = change.after if change.after is not None else change.before
    assert record is not None
    row = [
        ("topic", dump_json(topic)),
        ("message_type", dump_json(message_type)),
        ("change", dump_json(change.kind)),
        ("key", dump_json(change.key)),
        ("sow_key", dump_json(str(record.sow_key) if change.keyed else None)),
    ]
    if change.kind == "changed":
        row.append(("fields", encode_fields(change.fields)))
        if change.facts:
            row.append(("metadata", "[" + ",".join(_encode_fact(*fact) for fact in change.facts) + "]"))
    else:
        row.append(("data", view(record.payload).decode("utf-8", "replace")))
    return escape_surrogates("{" + ",".join(f'"{name}":{value}' for name, value in row) + "}")


def encode_version(change: VersionDifference, facts: Mapping[str, Any], view: View) -> str:
    """A version compared with the previous one as a line of JSON: its metadata, its kind, and its differing fields."""
    row = [(name, dump_json(value)) for name, value in facts.items()]
    row.append(("change", dump_json(change.kind)))
    if change.kind == "changed":
        row.append(("fields", encode_fields(change.fields)))
    elif change.kind in ("added", "known"):
        row.append(("data", view(change.version.payload).decode("utf-8", "replace")))
    return escape_surrogates("{" + ",".join(f"{dump_json(name)}:{value}" for name, value in row) + "}")


def encode_fields(fields: Sequence[FieldChange]) -> str:
    """Differing fields as a JSON array; a value that is missing on a side has no member there."""
    return "[" + ",".join(_encode_fact(format_path(one.path), one.before, one.after, "path") for one in fields) + "]"


def encode_counts(topic: str, message_type: str, before: str, after: str, counts: Counts) -> str:
    """The numbers of one topic as a line of JSON."""
    row: dict[str, Any] = {
        "topic": topic,
        "message_type": message_type,
        "before": before,
        "after": after,
        "changed": counts.changed,
        "added": counts.added,
        "removed": counts.removed,
        "equal": counts.equal,
        "fields": {format_path(path): number for path, number in counts.fields.items()},
    }
    return escape_surrogates(dump_json(row))


def encode_envelope(topic: str, message_type: str, change: Change, *, user_keys: bool, lifetimes: bool) -> bytes:
    """Encode the message that turns the first side's record into the second's, for ``publish --framing envelope``.

    A removed record is a ``sow_delete`` with the message of its key. ``user_keys``: publishers choose keys, so each
    envelope includes its own; ``lifetimes``: the topic sets expirations, so records without one say so explicitly.
    keys, so each envelope names its own; ``lifetimes``: the topic gives records one, so those without say so.
    """
    record = change.after if change.after is not None else change.before
    assert record is not None
    extra = record.extra or {}
    row: dict[str, Any] = {"topic": extra.get("topic") or topic, "message_type": message_type}
    if user_keys:
        row["sow_key"] = extra.get("user_key") or change.key
    if change.after is None:
        row["command"] = "sow_delete"
    else:
        if record.expiration or lifetimes:
            row["expiration"] = format_expiry(record.expiration) if record.expiration else 0
        if record.correlation_id is not None:
            row["correlation_id"] = record.correlation_id
    front = escape_surrogates(dump_json(row)[:-1]).encode()
    if is_json_line(record.payload):
        return b'%b,"data":%b}' % (front, record.payload)
    return b'%b,"data_base64":"%b"}' % (front, b64encode(record.payload))


def _encode_fact(name: str, before: Any, after: Any, kind: str = "name") -> str:
    sides = "".join(
        f',"{side}":{dump_json(value)}'
        for side, value in (("before", before), ("after", after))
        if value is not MISSING
    )
    return f'{{"{kind}":{dump_json(name)}{sides}}}'


def _format_value(value: Any) -> str:
    return escape_line(escape_surrogates(dump_json(value)))


def _bar_length(number: int, longest: int, room: int) -> int:
    """The length of a part of a bar: at least one, so that any number above 0 is visible."""
    return number if longest <= room else max(1, number * room // longest)
