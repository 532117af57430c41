"""Records that differ, for people and programs: lines with marks, JSON, statistics, and envelopes for ``publish``.

For people each line begins with a mark: ``~`` changed, ``+`` added, ``-`` removed; below a changed record stand its
fields. On a terminal marks and values have colours, and lines end at its right edge; elsewhere they are whole.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from sowctl.output.display import clip, display, escaped, width
from sowctl.output.members import dump, is_json_line
from sowctl.output.options import Terminal
from sowctl.output.records import ShownRecord, View
from sowctl.values.differences import MISSING, FieldChange, FieldPath, path_text
from sowctl.values.times import format_end, format_time

_MARKS = {"changed": "~", "added": "+", "removed": "-", "repeated": "=", "known": "*"}
_COLORS = {"~": "33", "+": "32", "-": "31", "=": "2", "*": "2", "head": "1", "dim": "2"}
_BYTES_ALONE = "    the same fields in other bytes"
_MAX_BAR_COLUMNS = 40
"""Characters that the longest bar of a statistic has, at most."""

Fact = tuple[str, object, object]
"""Metadata that differs: its name, and its values before and after."""


class Change(Protocol):
    """One record that differs, as :mod:`sowctl.engine.verbs.looking.diff` has it."""

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
    """A version of a record, as :mod:`sowctl.engine.verbs.history` has it."""

    @property
    def client(self) -> str | None: ...
    @property
    def lossy(self) -> bool: ...


class VersionDifference(Protocol):
    """A version beside its forerunner."""

    @property
    def kind(self) -> str: ...
    @property
    def version(self) -> ShownVersion: ...
    @property
    def fields(self) -> Sequence[FieldChange]: ...


class Counts(Protocol):
    """How many records differ; ``equal`` None where that is not known."""

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
    """Lines for people, as wide as ``terminal``; None: as wide as they are."""

    def __init__(self, terminal: Terminal | None, *, colored: bool) -> None:
        self._columns = terminal.columns if terminal is not None else None
        self._colored = colored

    def head(self, before: str, after: str) -> Iterator[str]:
        """What is compared."""
        yield self._paint_text("head", self._cut_text(f"--- {display(before)}"))
        yield self._paint_text("head", self._cut_text(f"+++ {display(after)}"))

    def title(self, text: str) -> Iterator[str]:
        """What the lines below are about."""
        yield self._paint_text("head", self._cut_text(display(text)))

    def change(self, change: Change, view: View) -> Iterator[str]:
        """One record."""
        mark = _MARKS[change.kind]
        record = change.after if change.after is not None else change.before
        assert record is not None
        if change.kind != "changed":
            text = display(view(record.payload))
            yield self._paint_text(mark, self._cut_text(f"{mark} {display(change.key)}: {text}"))
            return
        yield f"{self._paint_text(mark, mark)} {self._paint_text('head', self._cut_text(display(change.key), 2))}"
        yield from self.fields(change.fields, change.facts)
        if not change.fields and not change.facts:
            yield self._paint_text("dim", _BYTES_ALONE)

    def fields(self, fields: Sequence[FieldChange], facts: Sequence[Fact] = (), indent: str = "    ") -> Iterator[str]:
        """The fields of a changed record, one below the other."""
        for found in fields:
            yield from self._format_field(indent, path_text(found.path), found.before, found.after)
        for name, before, after in facts:
            yield from self._format_field(indent, name, before, after)

    def _format_field(self, indent: str, name: str, before: Any, after: Any) -> Iterator[str]:
        name = display(name)
        if before is MISSING or after is MISSING:
            mark, value = ("+", after) if before is MISSING else ("-", before)
            yield self._paint_text(mark, self._cut_text(f"{indent}{mark} {name}: {_format_value(value)}"))
            return
        old, new = _format_value(before), _format_value(after)
        front = f"{indent}~ {name}: "
        if self._columns is None or width(front) + width(old) + width(new) + 4 <= self._columns:
            yield f"{self._paint_text('~', front)}{self._paint_text('-', old)} -> {self._paint_text('+', new)}"
            return
        # One below the other where a line has no room for both.
        yield self._paint_text("~", self._cut_text(front.rstrip()))
        yield self._paint_text("-", self._cut_text(f"{indent}    - {old}"))
        yield self._paint_text("+", self._cut_text(f"{indent}    + {new}"))

    def version(self, change: VersionDifference, view: View) -> Iterator[str]:
        """A version beside its forerunner: when it was, by whom, and what is different in it."""
        version, mark = change.version, _MARKS[change.kind]
        words = [format_time(version.timestamp), f"txid {version.txid}"]
        words += [f"client {display(version.client)}"] if version.client is not None else []
        told = {"removed": "deleted", "repeated": "repeated", "known": "the first that is known"}.get(change.kind)
        words += [told] if told is not None else []
        words += ["with others before the next one"] if version.lossy else []
        yield f"{self._paint_text(mark, mark)} {self._paint_text('head', self._cut_text('  '.join(words), 2))}"
        if change.kind in ("added", "known"):
            yield self._paint_text(mark, self._cut_text(f"    {display(view(version.payload))}"))
        yield from self.fields(change.fields)
        if change.kind == "changed" and not change.fields:
            yield self._paint_text("dim", _BYTES_ALONE)

    def statistic(self, name: str, counts: Counts, longest: int) -> Iterator[str]:
        """How much of a topic differs, with a bar; then its fields. ``longest`` is the largest number of any topic."""
        total = counts.changed + counts.added + counts.removed
        parts = (("~", counts.changed), ("+", counts.added), ("-", counts.removed))
        room = min(_MAX_BAR_COLUMNS, max(8, (self._columns or 80) - width(name) - 20))
        bar = "".join(
            self._paint_text(mark, mark * _bar_length(number, longest, room)) for mark, number in parts if number
        )
        yield f"{display(name)} | {total:,} {bar}"
        fields = sorted(counts.fields.items(), key=lambda item: (-item[1], path_text(item[0])))
        wide = max((width(path_text(path)) for path, _ in fields), default=0)
        for path, number in fields:
            text = display(path_text(path))
            yield self._cut_text(f"    {text}{' ' * (wide - width(text))} | {number:,}")

    def _cut_text(self, text: str, used: int = 0) -> str:
        return text if self._columns is None else clip(text, self._columns - used)

    def _paint_text(self, kind: str, text: str) -> str:
        return f"\x1b[{_COLORS[kind]}m{text}\x1b[0m" if self._colored and text else text


def words(counts: Counts) -> str:
    """The numbers in words: ``1 changed, 2 added, 0 removed, 7 equal``."""
    text = f"{counts.changed:,} changed, {counts.added:,} added, {counts.removed:,} removed"
    return text if counts.equal is None else f"{text}, {counts.equal:,} equal"


def as_json(topic: str, message_type: str, change: Change, view: View) -> str:
    """One record as a line of JSON, ASCII alone; numbers have the digits that the messages have."""
    record = change.after if change.after is not None else change.before
    assert record is not None
    row = [
        ("topic", dump(topic)),
        ("message_type", dump(message_type)),
        ("change", dump(change.kind)),
        ("key", dump(change.key)),
        ("sow_key", dump(str(record.sow_key) if change.keyed else None)),
    ]
    if change.kind == "changed":
        row.append(("fields", fields_json(change.fields)))
        if change.facts:
            row.append(("metadata", "[" + ",".join(_fact_json(*fact) for fact in change.facts) + "]"))
    else:
        row.append(("data", view(record.payload).decode("utf-8", "replace")))
    return escaped("{" + ",".join(f'"{name}":{value}' for name, value in row) + "}")


def version_json(change: VersionDifference, facts: Mapping[str, Any], view: View) -> str:
    """A version beside its forerunner as a line of JSON: its metadata, what it is, and its fields that differ."""
    row = [(name, dump(value)) for name, value in facts.items()]
    row.append(("change", dump(change.kind)))
    if change.kind == "changed":
        row.append(("fields", fields_json(change.fields)))
    elif change.kind in ("added", "known"):
        row.append(("data", view(change.version.payload).decode("utf-8", "replace")))
    return escaped("{" + ",".join(f"{dump(name)}:{value}" for name, value in row) + "}")


def fields_json(fields: Sequence[FieldChange]) -> str:
    """Fields that differ, as a JSON array; a value that is missing on a side has no member there."""
    return "[" + ",".join(_fact_json(path_text(one.path), one.before, one.after, "path") for one in fields) + "]"


def counts_json(topic: str, message_type: str, before: str, after: str, counts: Counts) -> str:
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
        "fields": {path_text(path): number for path, number in counts.fields.items()},
    }
    return escaped(dump(row))


def envelope(topic: str, message_type: str, change: Change, *, user_keys: bool, lifetimes: bool) -> bytes:
    """What makes the record of the first side into that of the second, for ``publish --framing envelope``.

    A record that is gone is a ``sow_delete`` with the message whose key is meant. ``user_keys``: publishers choose
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
            row["expiration"] = format_end(record.expiration) if record.expiration else 0
        if record.correlation_id is not None:
            row["correlation_id"] = record.correlation_id
    front = escaped(dump(row)[:-1]).encode()
    if is_json_line(record.payload):
        return b'%b,"data":%b}' % (front, record.payload)
    return b'%b,"data_base64":"%b"}' % (front, b64encode(record.payload))


def _fact_json(name: str, before: Any, after: Any, kind: str = "name") -> str:
    sides = "".join(
        f',"{side}":{dump(value)}' for side, value in (("before", before), ("after", after)) if value is not MISSING
    )
    return f'{{"{kind}":{dump(name)}{sides}}}'


def _format_value(value: Any) -> str:
    return display(escaped(dump(value)))


def _bar_length(number: int, longest: int, room: int) -> int:
    """The length of a part of a bar: at least one, so that nothing that is there looks like nothing."""
    return number if longest <= room else max(1, number * room // longest)
