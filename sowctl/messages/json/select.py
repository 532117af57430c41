"""Select lists on JSON payloads (``sowctl-expressions(7)``, SELECT LIST): what stays keeps its bytes and its order.

The most specific directive that covers a field decides; of equal ones the first; a field that none covers stays. Of
duplicate members only the first can stay, since only the first has a meaning. An object or array that the selection
empties goes as well; the outermost object never goes. A payload whose root is no object has no fields and stays whole.
"""

from __future__ import annotations

from sowctl.messages.base import SelectList
from sowctl.messages.directives import PathDirective, directives
from sowctl.messages.json.exact import Spanned
from sowctl.messages.json.text import quoted


def select(payload: bytes, root: Spanned, select_list: SelectList) -> bytes:
    """Apply ``select_list`` to ``payload``, read as ``root``; returns ``payload`` itself where nothing can go."""
    # A list that only includes leaves nothing out.
    if not isinstance(root.value, dict) or all(include for include, _ in select_list):
        return payload
    return _object(payload, root, directives(select_list), True) or b"{}"


def _kept(payload: bytes, node: Spanned, directive: PathDirective | None, include: bool) -> bytes | None:
    """What stays of one value, or None. Without a directive at or below it a value stays or goes whole."""
    # No directive speaks of anything below, so the decision made above holds for all of it, and the bytes stay
    # together.
    if directive is None:
        return payload[node.start : node.end] if include else None
    if isinstance(node.value, dict) and node.value:
        return _object(payload, node, directive, include)
    if isinstance(node.value, list) and node.value:
        return _array(payload, node, directive, include)
    include = include if directive.include is None else directive.include
    return payload[node.start : node.end] if include else None


def _object(payload: bytes, node: Spanned, directive: PathDirective, include: bool) -> bytes | None:
    include = include if directive.include is None else directive.include
    members: dict[str, Spanned] = node.value  # type: ignore[assignment]  # of spans, as the caller saw
    parts = []
    for name, child in members.items():
        kept = _kept(payload, child, directive.below.get(name), include)
        if kept is not None:
            # The value's bytes are copied from the payload; only what is around them is written anew.
            parts.append(quoted(name) + b":" + kept)
    return b"{" + b",".join(parts) + b"}" if parts else None


def _array(payload: bytes, node: Spanned, directive: PathDirective, include: bool) -> bytes | None:
    # The same directives hold for every element, because a path leads through arrays.
    elements: list[Spanned] = node.value  # type: ignore[assignment]  # of spans, as the caller saw
    kept = [part for part in (_kept(payload, element, directive, include) for element in elements) if part is not None]
    return b"[" + b",".join(kept) + b"]" if kept else None
