"""A small array of MessagePack, read without its library: importing that takes 2 ms, as much as all the rest of a look
at a journal's end.

Read is what a topics file holds - arrays, texts, bytes and numbers that are not negative; at anything else and at every
fault :func:`small_rows` declines, and the library reads and judges. Called by :mod:`sowctl.journal.state` only; ruled
by ``sow-journal(5)``, "The topics file".
"""

from __future__ import annotations

from typing import Any

MOST = 4096
"""Bytes; more are read faster by the library, its import counted in."""
_NUMBERS = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}
_BYTES = {0xC4: 1, 0xC5: 2, 0xC6: 4}
_TEXTS = {0xD9: 1, 0xDA: 2, 0xDB: 4}
_ARRAYS = {0xDC: 2, 0xDD: 4}
"""First byte of a value, and how many bytes of its number or length follow."""


def small_rows(raw: bytes | memoryview, length: int) -> list[Any] | None:
    """A MessagePack array of ``length``; None where the library has to look at the bytes."""
    if len(raw) > MOST:
        return None
    try:
        rows, end = _value(bytes(raw), 0)
    except (ValueError, IndexError, RecursionError):
        return None
    return rows if end == len(raw) and isinstance(rows, list) and len(rows) == length else None


def _value(raw: bytes, at: int) -> tuple[Any, int]:
    """The value that begins at a place, and where it ends. Raises ValueError and IndexError."""
    first, at = raw[at], at + 1
    if first < 0x80:
        return first, at
    if first in _NUMBERS:
        return _number(raw, at, _NUMBERS[first])
    if 0x90 <= first < 0xA0:
        return _array(raw, at, first & 0x0F)
    if first in _ARRAYS:
        count, at = _number(raw, at, _ARRAYS[first])
        return _array(raw, at, count)
    if 0xA0 <= first < 0xC0:
        size = first & 0x1F
    elif first in _TEXTS or first in _BYTES:
        size, at = _number(raw, at, _TEXTS.get(first) or _BYTES[first])
    else:
        raise ValueError("a value of another kind")
    found = _cut(raw, at, size)
    return found if first in _BYTES else found.decode(), at + size


def _array(raw: bytes, at: int, count: int) -> tuple[list[Any], int]:
    items = []
    for _ in range(count):
        item, at = _value(raw, at)
        items.append(item)
    return items, at


def _number(raw: bytes, at: int, size: int) -> tuple[int, int]:
    return int.from_bytes(_cut(raw, at, size), "big"), at + size


def _cut(raw: bytes, at: int, size: int) -> bytes:
    part = raw[at : at + size]
    if len(part) < size:
        raise ValueError("the bytes end inside a value")
    return part
