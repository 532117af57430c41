"""An independent implementation of the JSON rules, based on the standard library's parser, for differential tests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from sowctl.values.fields import Number, Slot, SlotValue, ValueList
from sowctl.values.paths import Path

DEPTH = 256


class Text(str):
    """A number's text."""


class Members(dict[str, Any]):
    """An object; of equal names the first is kept."""


def _first(pairs: list[tuple[str, Any]]) -> Members:
    members = Members()
    for name, value in reversed(pairs):
        members[_clean(name)] = value
    # Two names may become equal only by cleaning; iterating backwards keeps the first of those, too.
    return members


def _clean(text: str) -> str:
    return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)


def _refuse(word: str) -> Any:
    raise ValueError(word)


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return 0


def _brackets(text: str) -> int:
    """Nesting of ``text``, from its characters: members replaced by a duplicate count as well."""
    deepest = depth = 0
    quoted = escaped = False
    for c in text:
        if quoted:
            escaped, quoted = (c == "\\" and not escaped), (c != '"' or escaped)
        elif c == '"':
            quoted = True
        elif c in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif c in "]}":
            depth -= 1
    return deepest


def read(payload: bytes) -> tuple[Any] | None:
    """The tree in a tuple, or None if the payload is refused."""
    try:
        text = payload.decode("utf-8")
        tree = json.loads(
            text, object_pairs_hook=_first, parse_int=Text, parse_float=Text, parse_constant=_refuse, strict=True
        )
    except (ValueError, RecursionError):
        return None
    return None if _brackets(text) > DEPTH else (tree,)


def _elements(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for element in value:
            yield from _elements(element)
    else:
        yield value


def find(node: Any, path: Path) -> list[Any]:
    """All nodes at ``path``, objects included."""
    level = [node]
    for step in path.steps:
        level = [e for n in level if isinstance(n, Members) and step.name in n for e in _elements(n[step.name])]
        if step.index is not None:
            level = [e for at, e in enumerate(level) if at == step.index]
    return level


def _value(node: Any, text: bool) -> Any:
    if isinstance(node, Text):
        number: int | float = float(node)
        if node.lstrip("-").isdecimal() and len(node) < 30 and -(2**63) <= int(node) <= 2**64 - 1:
            number = int(node)
        if text and (isinstance(number, float) or str(number) != str(node)):
            return Number(number, str(node).encode())
        return number
    return _clean(node) if isinstance(node, str) else node


def slot(tree: Any, wanted: Slot) -> SlotValue:
    """The expected value of a slot."""
    nodes = find(tree, wanted.path)
    dropped = any(isinstance(n, Members) and len(n) > 0 for n in nodes)
    items = tuple(_value(n, wanted.text) for n in nodes if not isinstance(n, Members))
    if wanted.listed or dropped or len(items) > 1:
        return ValueList(items, dropped)
    return items[0] if items else None


def key(tree: Any, path: Path) -> bytes | None:
    """The text of a key field."""
    for node in find(tree, path):
        if isinstance(node, Members):
            continue
        if node is True or node is False:
            return b"1" if node else b"0"
        return None if node is None or node == "" else _clean(node).encode()
    return None


def is_half(tree: Any, path: Path) -> bool:
    """Whether the text of a key field has a surrogate without its partner."""
    first = next((node for node in find(tree, path) if not isinstance(node, Members)), None)
    return type(first) is str and _clean(first) != first


def same(a: Sequence[SlotValue], b: Sequence[SlotValue]) -> bool:
    """Equal in value and kind: 1, 1.0 and True differ."""
    return repr(a) == repr(b)
