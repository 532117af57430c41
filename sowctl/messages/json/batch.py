"""A batch of JSON payloads and facts about them: which msgspec must not read, and their members.

Called by :mod:`sowctl.messages.json.fast_reader` and :mod:`~sowctl.messages.json.rows`, which build rows from a batch,
and by :mod:`~sowctl.messages.json.type`, which only checks whether payloads are readable. msgspec is stricter than
:mod:`sowctl.messages.json.exact_reader` except for UTF-8 in skipped values and for nesting, which are checked here.
Ruled by ``sowctl-messages(7)``.
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
"""Exceptions of decoding a payload that is refused."""
_decode_raw = msgspec.json.Decoder(msgspec.Raw).decode


class JsonBatch:
    """Payloads and facts about them: their Structs, and which must be read otherwise.

    ``escaped``: some payload may spell a wanted name with an escape, so that counts over the batch prove nothing.
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
        """The types in a column, by the identity of its list."""

    def find_types(self, column: Column) -> set[type]:
        """The types in a column of the batch; they are cached, so its types must not change after the first call."""
        # By identity: the lists live as long as the batch, so identities are unique.
        found = self.kinds.get(id(column))
        if found is None:
            found = self.kinds[id(column)] = set(map(type, column))
        return found


def find_suspects(payloads: Sequence[bytes], joined: bytes, max_message: int, max_depth: int) -> set[int]:
    """The payloads that msgspec must not read: too large, too deep, or not UTF-8."""
    found: set[int] = set()
    # A container needs two bytes: shorter payloads cannot be too deep, and are not checked one by one.
    longest = max(map(len, payloads), default=0)
    if longest > min(max_message, 2 * max_depth):
        found.update(i for i, p in enumerate(payloads) if len(p) > max_message or is_deep(p, max_depth))
    # One check for all: line breaks between payloads neither complete nor break a sequence of UTF-8.
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
    """The payloads that may be unacceptable; the exact reader decides."""
    found = find_suspects(payloads, b"\n".join(payloads), max_message, max_depth)
    try:
        # Raw values are only checked for syntax, not converted to objects.
        for _ in map(_decode_raw, payloads):
            pass
    except DECODE_ERRORS:
        # Only a batch with an invalid payload is decoded again, one by one, to find it.
        decode_each(_decode_raw, payloads, found, None)
    return found


def decode_each(decode: Callable[[bytes], T], payloads: Sequence[bytes], failed: set[int], blank: T) -> list[T]:
    """Decode every payload; failures become ``blank`` and are added to ``failed``."""
    results = []
    for index, payload in enumerate(payloads):
        try:
            results.append(decode(payload))
        except DECODE_ERRORS:
            results.append(blank)
            failed.add(index)
    return results


class FieldMembers:
    """The values of one field in each payload, and how often it was found.

    A value is that of the one member in the one object, UNSET if there is none, or a list of the values found in
    several objects, which is equivalent to an array of them.
    """

    __slots__ = ("counts", "values")

    def __init__(self, values: Column) -> None:
        self.values = values
        self.counts: dict[int, int] = {}
        """The number of objects with the member, by payload, if it does not follow from the value."""

    def enter_container(self, index: int, container: object, name: str) -> None:
        """Find the member ``name`` of all objects in ``container``, which is part of payload ``index``."""
        values, count = find_members(flatten_array(container) if type(container) is list else [container], name)
        # A list of the values found: in the language it is equivalent to an array of them.
        self.values[index] = values if count else UNSET
        self.counts[index] = count

    def count_objects(self, index: int) -> int:
        """Count the objects of one payload with the member."""
        return self.counts.get(index, self.values[index] is not UNSET)

    def count_all_objects(self, kinds: set[type]) -> int:
        """Count the objects of all payloads with the member; ``kinds`` are the types of the values."""
        values = self.values
        total = len(values)
        if UnsetType in kinds:
            total = sum([value is not UNSET for value in values])
        return total + sum([count - (values[index] is not UNSET) for index, count in self.counts.items()])
