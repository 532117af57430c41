"""Payloads of JSON in a batch and what is found out about them: which msgspec must not judge, and their members.

Called by :mod:`sowctl.messages.json.fast_reader` and :mod:`~sowctl.messages.json.rows`, which make rows out of a batch,
and by :mod:`~sowctl.messages.json.type`, which only asks whether payloads can be read. msgspec is stricter than
:mod:`sowctl.messages.json.exact_reader` but for UTF-8 in what it skips and for nesting, which are looked at here. Ruled
by ``sowctl-messages(7)``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from sowctl.messages.json.paths import find_members, flatten_array
from sowctl.values.depth import MAX_DEPTH, is_deep

T = TypeVar("T")
Column = list[Any]
DECODE_ERRORS = (ValueError, RecursionError)
"""What decoding raises for a payload that it refuses."""
_decode_raw = msgspec.json.Decoder(msgspec.Raw).decode


class JsonBatch:
    """Payloads with what was found out about them: their Structs, and which must be read otherwise.

    ``escaped``: some payload may spell a wanted name with an escape, so that the sums over the batch prove nothing.
    """

    __slots__ = ("escaped", "exact", "joined", "kinds", "payloads", "structs", "tree")

    def __init__(self, payloads: Sequence[bytes], joined: bytes) -> None:
        self.payloads = payloads
        self.joined = joined
        self.structs: list[Any] = []
        self.exact: set[int] = set()
        self.tree: set[int] = set()
        self.escaped = False
        self.kinds: dict[int, set[type]] = {}
        """The types in a column, under the identity of its list."""

    def find_types(self, column: Column) -> set[type]:
        """The types in a column of the batch; they are kept, so its types must not change after the first call."""
        # By identity: the lists live as long as the batch, so no other list can get the same one.
        found = self.kinds.get(id(column))
        if found is None:
            found = self.kinds[id(column)] = set(map(type, column))
        return found


def find_suspects(payloads: Sequence[bytes], joined: bytes, max_message: int, max_depth: int) -> set[int]:
    """The payloads that msgspec must not judge: too large, too deep, or not UTF-8."""
    found: set[int] = set()
    # A container takes two bytes: shorter payloads cannot be too deep, and are not looked at one by one.
    longest = max(map(len, payloads), default=0)
    if longest > min(max_message, 2 * max_depth):
        found.update(i for i, p in enumerate(payloads) if len(p) > max_message or is_deep(p, max_depth))
    # One pass tells for all: line breaks between payloads neither complete nor break a sequence of UTF-8.
    if not joined.isascii() and not _is_utf8(joined):
        found.update(i for i, p in enumerate(payloads) if not _is_utf8(p))
    return found


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def find_unreadable(payloads: Sequence[bytes], max_message: int, max_depth: int = MAX_DEPTH) -> set[int]:
    """The payloads that are not surely acceptable; the exact reader decides."""
    found = find_suspects(payloads, b"\n".join(payloads), max_message, max_depth)
    try:
        # Raw values are checked for syntax and not made into objects.
        for _ in map(_decode_raw, payloads):
            pass
    except DECODE_ERRORS:
        # Only a batch that holds a bad payload is decoded a second time, one by one, to learn which.
        decode_each(_decode_raw, payloads, found, None)
    return found


def decode_each(decode: Callable[[bytes], T], payloads: Sequence[bytes], failed: set[int], blank: T) -> list[T]:
    """Every payload decoded, ``blank`` where that failed, which ``failed`` notes."""
    results = []
    for index, payload in enumerate(payloads):
        try:
            results.append(decode(payload))
        except DECODE_ERRORS:
            results.append(blank)
            failed.add(index)
    return results


class FieldMembers:
    """The values found of one field in each payload, and how often it was found.

    A value is that of the one member in the one object, UNSET if there is none, or a list of the values found in
    several objects, which means the same as an array of them would.
    """

    __slots__ = ("counts", "values")

    def __init__(self, values: Column) -> None:
        self.values = values
        self.counts: dict[int, int] = {}
        """How many objects had the member, by payload, where that does not follow from the value."""

    def enter_container(self, index: int, container: object, name: str) -> None:
        """Find the member ``name`` of all objects that ``container``, part of payload ``index``, consists of."""
        values, count = find_members(flatten_array(container) if type(container) is list else [container], name)
        # A list of the values found: it counts as an array of them, as the language has it.
        self.values[index] = values if count else UNSET
        self.counts[index] = count

    def count_objects(self, index: int) -> int:
        """Count the objects of one payload that had the member."""
        return self.counts.get(index, self.values[index] is not UNSET)

    def count_all_objects(self, kinds: set[type]) -> int:
        """Count the objects of all payloads that had it; ``kinds`` are the types of the values."""
        values = self.values
        total = len(values)
        if UnsetType in kinds:
            total = sum([value is not UNSET for value in values])
        return total + sum([count - (values[index] is not UNSET) for index, count in self.counts.items()])
