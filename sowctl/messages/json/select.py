"""Select lists on JSON by the members' bytes, with the results of :func:`sowctl.messages.json.write.selected`."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from sowctl.messages.base import SelectList
from sowctl.messages.directives import PathDirective, directives
from sowctl.messages.json.exact import is_deep
from sowctl.messages.json.text import quoted
from sowctl.values.rawmembers import RawMembers, raw_items, raw_members

_quoted = lru_cache(1024)(quoted)


class Selection:
    """What a select list leaves of payloads."""

    def __init__(self, select_list: SelectList, max_message: int, max_depth: int) -> None:
        self.of = select_list
        self._root = directives(select_list)
        self._max_message = max_message
        self._max_depth = max_depth

    def __call__(self, payload: bytes) -> bytes | None:
        """What stays; None where only the exact reader can tell."""
        # What msgspec does not look at in values: length, depth and UTF-8. A container takes two bytes.
        size = len(payload)
        if size > self._max_message or (size > 2 * self._max_depth and is_deep(payload, self._max_depth)):
            return None
        try:
            if not payload.isascii():
                payload.decode()
            return _kept_members(_members(payload), self._root, True) or b"{}"
        except (_Doubtful, UnicodeDecodeError):
            return None


class _Doubtful(Exception):
    """Only the exact reader can tell."""


def _members(text: bytes) -> RawMembers:
    found = raw_members(text)
    if found is None:
        raise _Doubtful
    return found


def _kept(raw: msgspec.Raw, directive: PathDirective, include: bool) -> bytes | None:
    value = bytes(raw)
    if value[:1] == b"{" and (members := _members(value)):
        return _kept_members(members, directive, include)
    include = include if directive.include is None else directive.include
    if value[:1] == b"[" and (items := raw_items(value)):
        # The same directives hold for every element, because a path leads through arrays.
        parts = [part for item in items if (part := _kept(item, directive, include)) is not None]
        return b"[" + b",".join(parts) + b"]" if parts else None
    return value if include else None


def _kept_members(members: RawMembers, directive: PathDirective, include: bool) -> bytes | None:
    """What stays of an object, by the rules of :func:`sowctl.messages.json.write.selected`; None for nothing."""
    include = include if directive.include is None else directive.include
    parts: list[bytes | msgspec.Raw] = []
    below = directive.below
    for name, raw in members.items():
        if name in below:
            kept = _kept(raw, below[name], include)
            if kept is not None:
                parts += (_quoted(name), b":", kept, b",")
        elif include:
            parts += (_quoted(name), b":", raw, b",")
    return b"{" + b"".join(parts[:-1]) + b"}" if parts else None
