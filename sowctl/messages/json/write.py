"""Rewrite JSON payloads: select lists, delta merge, constructed fields, new messages (``sowctl-messages(7)``, json).

Only the objects on the path to a change are rebuilt; every other value keeps its bytes. Of duplicate members in such an
object, only the one that counts is kept. NULL in a delta is ``null``, an empty string, array or object, and an object
of only NULLs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from sowctl.messages.base import Members, SelectList
from sowctl.messages.directives import PathDirective, build_directives
from sowctl.messages.json.exact_reader import SpannedValue
from sowctl.messages.json.text import format_json, format_json_column, format_member_start, quote_string
from sowctl.values.fields import FieldWrite, SlotValue

Node: TypeAlias = "SpannedValue | bytes | dict[str, Node]"
"""A value as in the payload, as new text, or an object that is being rewritten."""


def select_fields(payload: bytes, root: SpannedValue, select_list: SelectList) -> bytes:
    """``payload``, read as ``root``, reduced by a select list; ``payload`` itself if nothing can be dropped.

    The most specific directive that covers a field decides; of equal ones the first; a field that none covers is kept.
    Of duplicate members only the first can be kept, since only the first has a meaning. An object or array that becomes
    empty is dropped as well, except the outermost object. A payload whose root is no object has no fields and is kept
    completely (``sowctl-expressions(7)``, SELECT LIST).
    """
    # A list of only includes excludes nothing.
    if not isinstance(root.value, dict) or all(include for include, _ in select_list):
        return payload
    return (root.value and _select_node(payload, root, build_directives(select_list), True)) or b"{}"


def merge_delta(base: bytes, old: SpannedValue, delta: bytes, new: SpannedValue, *, set_nulls: bool) -> bytes:
    """``base``, read as ``old``, with the fields of ``delta``, read as ``new``; ``base`` itself if none counts."""
    # Only objects are merged; anything else replaces, unless it is a NULL that does not count.
    if not isinstance(old.value, dict) or not isinstance(new.value, dict):
        return base if _is_null(new) and not set_nulls else delta
    # A copy: the values below stay spans of the payload, so all unwritten values keep their bytes, numbers included.
    tree: dict[str, Node] = dict(old.value)
    return _node_text(tree, base) if _overlay_members(tree, delta, new.value, set_nulls) else base


def assign_fields(payload: bytes, root: SpannedValue, writes: Sequence[FieldWrite]) -> bytes:
    """``payload``, read as ``root``, with fields written and removed. A root that is no object is replaced by one."""
    if not writes:
        return payload
    tree: dict[str, Node] = dict(root.value) if isinstance(root.value, dict) else {}
    # In order: a later field may be written below or above an earlier one.
    for write in writes:
        if write.remove:
            _remove_member(tree, write.destination.names)
        else:
            _put_text(tree, write.destination.names, format_json(write.value))
    return _node_text(tree, payload)


def rebuild_payload(payload: bytes, node: SpannedValue) -> bytes:
    """``payload``, read as ``node``, with only the members that count and without white space between its parts."""
    if isinstance(node.value, dict):
        members = [quote_string(name) + b":" + rebuild_payload(payload, child) for name, child in node.value.items()]
        return b"{" + b",".join(members) + b"}"
    if isinstance(node.value, list):
        return b"[" + b",".join([rebuild_payload(payload, child) for child in node.value]) + b"]"
    return payload[node.start : node.end]


def build_object(fields: Members) -> bytes:
    """An object of these fields."""
    if all(len(names) == 1 for names, _ in fields):
        # Messages of groups are usually flat, and built by the million.
        texts = {names[0]: format_json(value) for names, value in fields}
        return b"{" + b",".join([format_member_start(name) + text for name, text in texts.items()]) + b"}"
    tree: dict[str, Node] = {}
    for names, value in fields:
        _put_text(tree, names, format_json(value))
    return _node_text(tree, b"")


def build_objects(destinations: Sequence[tuple[str, ...]], rows: Sequence[Sequence[SlotValue]]) -> list[bytes]:
    """An object for each of ``rows``, whose values are the fields at ``destinations``."""
    names = [names[0] for names in destinations]
    if not names or len(set(names)) < len(names) or any(len(names) > 1 for names in destinations):
        return [build_object(list(zip(destinations, row, strict=True))) for row in rows]
    # Messages of groups are usually flat, and built by the million: formatted field by field, and then joined.
    texts = map(format_json_column, zip(*rows, strict=True))
    template = b",".join([format_member_start(name).replace(b"%", b"%%") + b"%b" for name in names])
    return list(map((b"{" + template + b"}").__mod__, zip(*texts, strict=True)))


def _select_node(payload: bytes, node: SpannedValue, directive: PathDirective | None, include: bool) -> bytes | None:
    """Select from one value; None if nothing remains. Without a directive at or below it a value is kept or dropped
    completely.
    """
    # No directive applies to anything below, so the decision made above holds for all of it, and the bytes are kept
    # together.
    if directive is None:
        return payload[node.start : node.end] if include else None
    include = include if directive.include is None else directive.include
    # One call per level, not one for each kind of container and its comprehension: the deepest message has 256 levels.
    if isinstance(node.value, dict) and node.value:
        members = []
        for name, child in node.value.items():
            kept = _select_node(payload, child, directive.below.get(name), include)
            if kept is not None:
                # The value's bytes are copied from the payload; only the bytes around them are rebuilt.
                members.append(quote_string(name) + b":" + kept)
        return b"{" + b",".join(members) + b"}" if members else None
    if isinstance(node.value, list) and node.value:
        elements = []
        for child in node.value:
            # The same directives hold for every element, because paths lead through arrays.
            kept = _select_node(payload, child, directive, include)
            if kept is not None:
                elements.append(kept)
        return b"[" + b",".join(elements) + b"]" if elements else None
    return payload[node.start : node.end] if include else None


def _is_null(node: SpannedValue) -> bool:
    # A number or Boolean equals none of these: 0 and false are values, and a delta may set them.
    return node.value is None or node.value in ("", [], {})


def _overlay_members(tree: dict[str, Node], delta: bytes, members: dict[str, SpannedValue], set_nulls: bool) -> bool:
    """Write members into an object; return whether one counted."""
    changed = False
    for name, node in members.items():
        # An empty object contains no members to merge. It replaces a scalar only if NULLs are set, like any other
        # NULL.
        if isinstance(node.value, dict) and (node.value or _is_object(tree.get(name))):
            below = _open_object(tree.get(name))
            if _overlay_members(below, delta, node.value, set_nulls):
                tree[name] = below
                changed = True
        elif set_nulls or not _is_null(node):
            tree[name] = delta[node.start : node.end]
            changed = True
    return changed


def _is_object(node: Node | None) -> bool:
    return isinstance(node, dict) or (isinstance(node, SpannedValue) and isinstance(node.value, dict))


def _open_object(node: Node | None) -> dict[str, Node]:
    """The members of an object; empty for any other value."""
    if isinstance(node, dict):
        return node
    return dict(node.value) if isinstance(node, SpannedValue) and isinstance(node.value, dict) else {}


def _put_text(tree: dict[str, Node], names: Sequence[str], text: bytes) -> None:
    for name in names[:-1]:
        below = _open_object(tree.get(name))
        tree[name] = below
        tree = below
    tree[names[-1]] = text


def _remove_member(tree: dict[str, Node], names: Sequence[str]) -> None:
    for name in names[:-1]:
        # A scalar has no members, so there is nothing to remove.
        if not _is_object(tree.get(name)):
            return
        # An object is opened once and replaces its span, so that its members can be changed one by one.
        below = _open_object(tree[name])
        tree[name] = below
        tree = below
    tree.pop(names[-1], None)


def _node_text(node: Node, payload: bytes) -> bytes:
    if isinstance(node, bytes):
        return node
    if isinstance(node, SpannedValue):
        return payload[node.start : node.end]
    return (
        b"{"
        + b",".join([quote_string(name) + b":" + _node_text(child, payload) for name, child in node.items()])
        + b"}"
    )
