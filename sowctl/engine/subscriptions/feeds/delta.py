"""Deltas: the fields of a record that differ from those delivered before (``behaviour`` 4.3).

Stored states are compared, so the form in which the publisher wrote them does not matter. Changed fields are found in
the JSON views; the message's own type then omits the other fields, so the delivered fields keep their bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sowctl.messages.base import PayloadRefused
from sowctl.messages.json.exact_reader import parse_spans
from sowctl.values.rawmembers import read_raw_members

if TYPE_CHECKING:
    from sowctl.messages.base import MessageType

PathNames = tuple[str, ...]
DELTA_MESSAGE_TYPES = frozenset(("json", "fix", "nvfix", "bflat", "msgpack", "bson"))
"""Message types whose JSON view has the names of their paths; messages of other types are delivered complete."""


def compute_delta(
    kind: MessageType, before: bytes, now: bytes, keys: Sequence[PathNames], *, empty: bool
) -> bytes | None:
    """Return the fields of ``now`` that are new or different from ``before``, and those at ``keys``.

    None if a delta cannot express the change, because a field was removed or the type is not in
    :data:`DELTA_MESSAGE_TYPES`: then the complete message is delivered. b"" if nothing has changed, unless an ``empty``
    delta is wanted.
    """
    if kind.kind not in DELTA_MESSAGE_TYPES:
        return None
    old, new = _split_members(kind.view(before)), _split_members(kind.view(now))
    if old is None or new is None:
        return None
    changed = list(_find_changed_paths((), old, new))
    if None in changed:
        return None
    if not changed and not empty:
        return b""
    paths = [*keys, *(path for path in changed if path is not None)]
    return kind.select_fields(now, [(False, ()), *((True, path) for path in paths)])


def _find_changed_paths(front: PathNames, old: dict[str, bytes], new: dict[str, bytes]) -> Iterator[PathNames | None]:
    """Yield the paths at which values differ; None for a removed one, which a delta cannot express."""
    for name in old:
        if name not in new:
            yield None
    for name, value in new.items():
        before = old.get(name)
        if before == value:
            continue
        # Objects are compared member by member, arrays and scalars as a whole, as in a merge of deltas.
        below = _split_members(value) if value[:1] == b"{" else None
        above = _split_members(before) if below and before is not None else None
        if below and above:
            yield from _find_changed_paths((*front, name), above, below)
        else:
            yield (*front, name)


def _split_members(text: bytes) -> dict[str, bytes] | None:
    """Return the members of a JSON object with their texts; None for another value."""
    found = read_raw_members(text)
    if found is not None:
        return {name: bytes(raw) for name, raw in found.items()}
    try:
        root = parse_spans(text).value
    except PayloadRefused:
        return None
    return {name: text[one.start : one.end] for name, one in root.items()} if isinstance(root, dict) else None
