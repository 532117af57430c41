"""Deltas: the fields of a record that differ from those delivered before (``behaviour`` 4.3).

Two stored states are compared, however the publisher wrote them. The fields that differ are found in the JSON views,
and the message's own type leaves the others out, so that what is delivered keeps its bytes.
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
"""Kinds of messages whose JSON view has the names of their paths; messages of others come whole."""


def compute_delta(
    kind: MessageType, before: bytes, now: bytes, keys: Sequence[PathNames], *, empty: bool
) -> bytes | None:
    """The fields of ``now`` that ``before`` has not, or has otherwise, and those at ``keys``.

    None where no delta says what has changed, because a field has gone or the type is none of
    :data:`DELTA_MESSAGE_TYPES`: then the message is delivered whole. b"" stands for "nothing has changed" unless an
    ``empty`` delta is wanted.
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
    """The paths at which values differ; None for one that has gone, which no delta tells."""
    for name in old:
        if name not in new:
            yield None
    for name, value in new.items():
        before = old.get(name)
        if before == value:
            continue
        # Objects are compared member by member, arrays and scalars whole, as a delta is merged.
        below = _split_members(value) if value[:1] == b"{" else None
        above = _split_members(before) if below and before is not None else None
        if below and above:
            yield from _find_changed_paths((*front, name), above, below)
        else:
            yield (*front, name)


def _split_members(text: bytes) -> dict[str, bytes] | None:
    """The members of a JSON object, each as its text; None for anything else."""
    found = read_raw_members(text)
    if found is not None:
        return {name: bytes(raw) for name, raw in found.items()}
    try:
        root = parse_spans(text).value
    except PayloadRefused:
        return None
    return {name: text[one.start : one.end] for name, one in root.items()} if isinstance(root, dict) else None
