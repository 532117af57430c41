"""Declared fields, and further fields of messages: the DDL of both (sowctl-spark(7), MESSAGES, mergeSchema).

Declared fields stay as written, including order and comments; undeclared fields that were seen in messages are
appended, inside declared structs, too. Names that differ only in case are rejected if one of them was seen in messages:
Spark treats both as one name. Called by the data sources and by the jobs that write columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sowctl.arrow.inference import Inference, Shape, format_ddl
from sowctl.errors import UsageError

_NAME_PATTERN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\s`:,<>()']+))\s*:?\s*")
_NESTED_PATTERN = re.compile(r"(struct|array)\s*<", re.IGNORECASE)
_OPENING_BRACKETS, _CLOSING_BRACKETS, _QUOTES = "<(", ">)", "'\"`"


def merge_ddl(declared: str, seen: dict[str, Shape]) -> str:
    """The DDL of the ``declared`` fields, followed by the ``seen`` ones that are not among them.

    Raises UsageError ``SOW-SPK-136`` for a text that is no list of fields, and as :func:`build_distinct_ddl`.
    """
    body = declared.strip()
    whole = _NESTED_PATTERN.match(body)
    if whole is not None and whole[1].lower() == "struct" and body.endswith(">"):
        body = body[whole.end() : -1]
    return ", ".join(_parse_fields(body, seen, ""))


def build_distinct_ddl(seen: Inference) -> str:
    """The DDL of all fields that were seen.

    Raises UsageError ``SOW-SPK-164`` if two names in one place differ only in case: a query for one of them would be
    ambiguous, and a file with both could not be written.
    """
    _require_distinct(seen.build_members(), "")
    return seen.build_ddl()


def _require_distinct(shape: Shape, place: str) -> None:
    if isinstance(shape, list):
        _require_distinct(shape[0], place)
    elif isinstance(shape, dict):
        known = dict[str, str]()
        for name, inner in shape.items():
            _note_name(known, name, place)
            _require_distinct(inner, f"{place}/{name}")


def _note_name(known: dict[str, str], name: str, place: str) -> None:
    """Add a name to the ``known`` ones, by lower case."""
    other = known.setdefault(name.lower(), name)
    if other != name:
        raise UsageError(
            "SOW-SPK-164",
            f"two field names differ only in case: {place}/{other} and {place}/{name}",
            hint="Spark ignores case: declare the required fields with payloadSchema or --fields",
        )


def _parse_fields(body: str, seen: dict[str, Shape], place: str) -> Iterator[str]:
    known, declared = dict[str, str](), set[str]()
    for text in _split_fields(body):
        found = _NAME_PATTERN.match(text)
        kind = text[found.end() :].strip() if found is not None else ""
        if found is None or not kind:
            raise _fields_error(text)
        name = found[1].replace("``", "`") if found[1] is not None else found[2]
        # Two declared names that differ only in case are left to Spark, which may be case-sensitive.
        known.setdefault(name.lower(), name)
        declared.add(name)
        inner = f"{place}/{name}"
        yield f"{_quote_name(name)}: {_merge_types(kind, seen[name], inner)}" if name in seen else text.strip()
    for name, shape in seen.items():
        if name not in declared:
            _note_name(known, name, place)
            _require_distinct(shape, f"{place}/{name}")
            yield f"{_quote_name(name)}: {format_ddl(shape)}"


def _merge_types(kind: str, shape: Shape, place: str) -> str:
    """Merge the fields seen in its place into a declared type; only structs, and arrays of them, are changed."""
    found = _NESTED_PATTERN.match(kind)
    if found is None:
        return kind
    end = _find_bracket_end(kind, found.end())
    inner, rest = kind[found.end() : end], kind[end:]
    if found[1].lower() == "struct" and isinstance(shape, dict):
        return f"STRUCT<{', '.join(_parse_fields(inner, shape, place))}{rest}"
    if found[1].lower() == "array" and isinstance(shape, list | dict):
        # If a field is an array because it is repeated, a single object is its only item.
        item = shape[0] if isinstance(shape, list) else shape
        return f"ARRAY<{_merge_types(inner.strip(), item, place)}{rest}"
    return kind


def _split_fields(body: str) -> Iterator[str]:
    """Split at commas outside of brackets and quotation marks."""
    depth, start, quote = 0, 0, ""
    for at, sign in enumerate(body):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in _QUOTES:
            quote = sign
        elif sign in _OPENING_BRACKETS or sign in _CLOSING_BRACKETS:
            depth += 1 if sign in _OPENING_BRACKETS else -1
        elif sign == "," and not depth:
            yield body[start:at]
            start = at + 1
    if depth or quote:
        raise _fields_error(body)
    if body[start:].strip() or start:
        yield body[start:]


def _find_bracket_end(kind: str, start: int) -> int:
    """Return the position of the bracket that closes the one opened before ``start``."""
    depth, quote = 1, ""
    for at in range(start, len(kind)):
        sign = kind[at]
        if quote:
            quote = "" if sign == quote else quote
        elif sign in _QUOTES:
            quote = sign
        elif sign in _OPENING_BRACKETS or sign in _CLOSING_BRACKETS:
            depth += 1 if sign in _OPENING_BRACKETS else -1
            if not depth:
                return at
    raise _fields_error(kind)


def _quote_name(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _fields_error(text: str) -> UsageError:
    return UsageError(
        "SOW-SPK-136",
        f"payloadSchema is not a list of fields at {text.strip()[:60]!r}",
        hint="write names and types, for example 'id BIGINT, trader STRUCT<id: BIGINT>'",
    )
