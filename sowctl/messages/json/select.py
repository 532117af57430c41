"""Select lists on JSON by the members' bytes, with the results of :func:`sowctl.messages.json.write.select_fields`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from sowctl.messages.base import SelectList
from sowctl.messages.directives import PathDirective, build_directives
from sowctl.messages.json.text import quote_string
from sowctl.values.depth import is_deep
from sowctl.values.rawmembers import (
    RawColumns,
    RawMembers,
    open_long_object,
    read_raw_columns,
    read_raw_items,
    read_raw_members,
)

_quoted_name = lru_cache(1024)(quote_string)


class Selection:
    """Apply a select list to payloads."""

    def __init__(self, select_list: SelectList, max_message: int, max_depth: int) -> None:
        self.of = select_list
        self._root = build_directives(select_list)
        self._max_message = max_message
        self._max_depth = max_depth

    def __call__(self, payload: bytes) -> bytes | None:
        """Return the remaining message; None if it requires the exact reader."""
        # msgspec does not check length, depth and UTF-8 in values. A container needs two bytes.
        size = len(payload)
        if size > self._max_message or (size > 2 * self._max_depth and is_deep(payload, self._max_depth)):
            return None
        try:
            if (parts := open_long_object(payload)) is not None:
                # The remaining members of each part in one piece: a long object may keep most of its members.
                kept = [some[1:-1] for part in parts if (some := _select_members(part, self._root, True)) is not None]
                return b"{%b}" % b",".join(kept)
            if not payload.isascii():
                payload.decode()
            return _select_members(_decode_members(payload), self._root, True) or b"{}"
        except (_NeedsExactReader, UnicodeDecodeError):
            return None

    def select_all(self, payloads: Sequence[bytes]) -> list[bytes] | None:
        """Return what remains of each payload; None if they must be processed one by one."""
        longest = max(map(len, payloads), default=0)
        # The rules of one payload, for all at once. Those that may be too deep are not processed together.
        if longest > min(self._max_message, 2 * self._max_depth):
            return None
        columns = read_raw_columns(payloads)
        if columns is None:
            return None
        try:
            b"\n".join(payloads).decode()
            kept = _select_columns(columns, self._root, True)
        except (_NeedsExactReader, UnicodeDecodeError):
            return None
        return None if kept is None else kept or [b"{}"] * len(payloads)


class _NeedsExactReader(Exception):
    """The payload requires the exact reader."""


def _decode_members(text: bytes) -> RawMembers:
    found = read_raw_members(text)
    if found is None:
        raise _NeedsExactReader
    return found


def _select_value(raw: msgspec.Raw, directive: PathDirective, include: bool) -> bytes | None:
    value = bytes(raw)
    if value[:1] == b"{" and (members := _decode_members(value)):
        return _select_members(members, directive, include)
    include = include if directive.include is None else directive.include
    if value[:1] == b"[" and (items := read_raw_items(value)):
        # The same directives hold for every element, because paths lead through arrays.
        parts = [part for item in items if (part := _select_value(item, directive, include)) is not None]
        return b"[" + b",".join(parts) + b"]" if parts else None
    return value if include else None


def _select_columns(columns: RawColumns, directive: PathDirective, include: bool) -> list[bytes] | None:
    """Select from objects with the same members in the same order, by the rules of single objects; return nothing if no
    member remains.

    None if the results do not all have the same members.
    """
    include = include if directive.include is None else directive.include
    front, parts = b"", list[Sequence[bytes | msgspec.Raw]]()
    for name, column in columns.items():
        kept: Sequence[bytes | msgspec.Raw] | None = column if include else ()
        if name in directive.below:
            kept = _select_values(column, directive.below[name], include)
            if kept is None:
                return None
        if kept:
            front += b",%b:%%b" % _quoted_name(name).replace(b"%", b"%%")
            parts.append(kept)
    if not parts:
        return []
    return list(map((b"{" + front[1:] + b"}").__mod__, zip(*parts, strict=True)))


def _select_values(
    column: Sequence[msgspec.Raw], directive: PathDirective, include: bool
) -> Sequence[bytes | msgspec.Raw] | None:
    """Select from the values of one member, by the rules of single values; None if only some of them keep it."""
    if {value[:1] for value in map(bytes, column)}.isdisjoint((b"{", b"[")):
        # Directives for paths below do not apply to scalars.
        return column if (include if directive.include is None else directive.include) else ()
    inner = read_raw_columns(column)
    if inner is not None:
        return _select_columns(inner, directive, include)
    each = [_select_value(value, directive, include) for value in column]
    found = [value for value in each if value is not None]
    return found if not found or len(found) == len(each) else None


def _select_members(members: RawMembers, directive: PathDirective, include: bool) -> bytes | None:
    """Select the members of an object, by the rules of the exact writer; None if nothing remains."""
    include = include if directive.include is None else directive.include
    parts: list[bytes | msgspec.Raw] = []
    below = directive.below
    for name, raw in members.items():
        if name in below:
            kept = _select_value(raw, below[name], include)
            if kept is not None:
                parts += (_quoted_name(name), b":", kept, b",")
        elif include:
            parts += (_quoted_name(name), b":", raw, b",")
    return b"{" + b"".join(parts[:-1]) + b"}" if parts else None
