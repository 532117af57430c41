"""Find the reason to reject a document type declaration: external, exploding, or merely unsupported.

Nothing is opened or expanded here; the declared entities are only counted. Called by :mod:`sowctl.config.parse`.
Ruled by ``sow-config(5)``, entities.
"""

from __future__ import annotations

import re

from msgspec import Struct

MAX_EXPANSION_BYTES = 5 << 20
_MAX_NESTING = 64
_MAX_ENTITIES = 1_000
_MAX_SUBSET_CHARACTERS = 1 << 20
_ENTITY_PATTERN = re.compile(r"<!ENTITY\s+(%\s+)?([^\s\"'>]+)\s+(?:(SYSTEM|PUBLIC)\b|\"([^\"]*)\"|'([^']*)')")
_HEAD_PATTERN = re.compile(r"<!DOCTYPE\s+[^\s\[>]+\s*(SYSTEM|PUBLIC)?[^\[>]*")
_REFERENCE_PATTERN = re.compile(r"&([^\s;&#<>]+);")
_IDENTIFIER_PATTERN = re.compile(r"\s*(?:\"[^\"]*\"|'[^']*')(?:\s*(\"[^\"]*\"|'[^']*'))?")
DOCTYPE_HINT = (
    "document types and entities are not supported; to split a configuration into several "
    "files, replace the entity reference with <Include>part.xml</Include>"
)


class DoctypeRefusal(Struct, frozen=True):
    """A rule, the offset it points to, and the message."""

    rule: str
    offset: int
    message: str


def judge_doctype(text: str, start: int) -> DoctypeRefusal:
    """Judge the declaration at ``start``: X002 external, X003 exploding, X004 any other."""
    head = _HEAD_PATTERN.match(text, start)
    if head is not None and head[1]:
        system = _system_id(text, head.end(1))
        return DoctypeRefusal("X002", start, f"external DTD is not allowed ({system})")
    entities: dict[str, tuple[str, int]] = {}
    end = start
    # Limits the search, whatever the length of the subset.
    for match in _ENTITY_PATTERN.finditer(text, start, start + _MAX_SUBSET_CHARACTERS):
        end = match.end()
        if match[3]:
            return DoctypeRefusal(
                "X002", match.start(), f"external entity is not allowed ({_system_id(text, match.end(3))})"
            )
        # In XML the first of several declarations of a name counts.
        entities.setdefault(match[2], (match[4] or match[5] or "", match.start()))
        if len(entities) > _MAX_ENTITIES:
            return DoctypeRefusal("X003", match.start(), f"more than {_MAX_ENTITIES} entities are declared")
    return _judge_expansion(text, start, end, entities)


def _system_id(text: str, position: int) -> str:
    match = _IDENTIFIER_PATTERN.match(text, position)
    if match is None:
        return "no system identifier"
    return (match[1] or match[0]).strip()[1:81].rstrip("\"'")


def _judge_expansion(text: str, start: int, end: int, entities: dict[str, tuple[str, int]]) -> DoctypeRefusal:
    sizes: dict[str, int] = {}

    def size(name: str, depth: int) -> int:
        if name not in entities:
            return 0
        # An entity nested this deep may contain itself, so it counts as larger than the limit.
        if depth > _MAX_NESTING:
            return MAX_EXPANSION_BYTES + 1
        if name not in sizes:
            value = entities[name][0]
            inner = sum(size(reference, depth + 1) for reference in _REFERENCE_PATTERN.findall(value))
            # Cached and capped: each entity is computed once, however often it is used, and numbers stay small.
            sizes[name] = min(len(value) + inner, MAX_EXPANSION_BYTES + 1)
        return sizes[name]

    # Later entities usually contain earlier ones: from the end, the search finds the outermost exploding entity.
    for name in reversed(entities):
        if size(name, 1) > MAX_EXPANSION_BYTES:
            message = f"entity expansion exceeds {MAX_EXPANSION_BYTES} bytes (entity '{name}')"
            return DoctypeRefusal("X003", entities[name][1], message)
    total = 0
    for match in _REFERENCE_PATTERN.finditer(text, end):
        total += size(match[1], 1)
        if total > MAX_EXPANSION_BYTES:
            return DoctypeRefusal("X003", match.start(), f"entity expansion exceeds {MAX_EXPANSION_BYTES} bytes")
    if entities:
        name = next(iter(entities))
        return DoctypeRefusal("X004", entities[name][1], f"internal entity '{name}' used")
    return DoctypeRefusal("X004", start, "a document type declaration is not allowed")
