"""The file format of a bookmark store: header, blocks, and the state that results from them (``sow-bookmark(5)``).

Only this module packs and unpacks the format; :mod:`sowctl.engine.subscriptions.bookmark_stores.file` reads and writes
the file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from sowctl.checksum import crc32
from sowctl.engine.subscriptions.bookmark_stores.protocol import PlaceAdvance, StoredPlace, Subscriber
from sowctl.errors import DamageError, UsageError, VersionError
from sowctl.identity.bookmarks import Bookmark

STORE_MAGIC = b"SOWBKM\0\0"
FORMAT_VERSION = 1
_FILE_HEADER = struct.Struct("<8sHHI")
_BLOCK_HEADER = struct.Struct("<II")
HEADER_BYTES = _FILE_HEADER.size
_STATE, _PUT, _ADVANCE, _PURGE = range(4)
_STORE_DAMAGED = "SOW-BKM-002"


class SubscriptionState(Struct):
    """The position and the acknowledged messages of one subscription.

    ``latest``: per publisher, the highest sequence number up to the position. ``beyond``: acknowledged messages after
    the position.
    """

    bookmark: str
    time: int
    latest: dict[int, int] = field(default_factory=dict)
    beyond: set[Bookmark] = field(default_factory=set)

    def apply_advance(self, step: PlaceAdvance, time: int) -> None:
        """Advance the position."""
        if step.bookmark is not None:
            self.bookmark = step.bookmark
        self.time = time
        for publisher, sequence in step.passed.items():
            self.latest[publisher] = max(sequence, self.latest.get(publisher, 0))
        # The numbers of a publisher increase with the log, so everything below its highest one has been passed as well.
        self.beyond = {mark for mark in self.beyond.union(step.beyond) if not self.has_passed(mark)}

    def has_passed(self, mark: Bookmark) -> bool:
        """Return whether a message is at or before the position, according to its publisher's sequence numbers."""
        return mark.sequence <= self.latest.get(mark.publisher, -1)


StoreState = dict[Subscriber, SubscriptionState]


def encode_header() -> bytes:
    """Return the header of a file."""
    front = struct.pack("<8sHH", STORE_MAGIC, FORMAT_VERSION, 0)
    return front + struct.pack("<I", crc32(front))


def has_header(raw: bytes, place: str) -> bool:
    """Return whether a file has a header; False if writing it was interrupted.

    Raises VersionError ``SOW-BKM-004``, DamageError ``SOW-BKM-002`` if the file is not a bookmark store.
    """
    # A header is synced before any block follows, so after a crash it is short or consists of zeros (never written).
    if len(raw) <= HEADER_BYTES and (not any(raw) or (raw != encode_header() and encode_header().startswith(raw))):
        return False
    if len(raw) >= HEADER_BYTES:
        magic, version, _, crc = _FILE_HEADER.unpack_from(raw)
        if magic == STORE_MAGIC and crc == crc32(raw[: HEADER_BYTES - 4]):
            if version <= FORMAT_VERSION:
                return True
            raise VersionError(
                "SOW-BKM-004",
                f"the bookmark store has format version {version}; this release reads up to {FORMAT_VERSION}",
                place=place,
                hint="use the release that wrote it, or a later one",
            )
    raise DamageError(_STORE_DAMAGED, "the file is not a bookmark store", place=place, hint="correct the path")


def pack_state(state: Mapping[Subscriber, SubscriptionState]) -> bytes:
    """Return a block that replaces the whole state."""
    rows = [
        [
            who.client,
            who.sub_id,
            known.bookmark,
            known.time,
            _encode_sequence_marks(known.latest.items()),
            _decode_sequence_marks(known.beyond),
        ]
        for who, known in sorted(state.items())
    ]
    return _pack_body([_STATE, rows])


def pack_put(who: Subscriber, bookmark: str, time: int) -> bytes:
    """Return a block that sets a position."""
    return _pack_body([_PUT, who.client, who.sub_id, bookmark, time])


def pack_advance(who: Subscriber, step: PlaceAdvance, time: int) -> bytes:
    """Return a block that advances a position."""
    passed, beyond = _encode_sequence_marks(step.passed.items()), _decode_sequence_marks(step.beyond)
    return _pack_body([_ADVANCE, who.client, who.sub_id, step.bookmark, time, passed, beyond])


def pack_purge(who: Subscriber) -> bytes:
    """Return a block that removes a subscription."""
    return _pack_body([_PURGE, who.client, who.sub_id])


def _encode_sequence_marks(pairs: Any) -> list[list[int]]:
    return sorted([publisher, sequence] for publisher, sequence in pairs)


def _decode_sequence_marks(marks: Any) -> list[list[int]]:
    return _encode_sequence_marks((mark.publisher, mark.sequence) for mark in marks)


def _pack_body(body: list[Any]) -> bytes:
    import msgpack

    raw: bytes = msgpack.packb(body)
    return _BLOCK_HEADER.pack(len(raw), crc32(raw)) + raw


def apply_blocks(state: StoreState, raw: bytes, start: int, place: str) -> int:
    """Apply the complete blocks of ``raw`` from ``start`` on to ``state``; return their end offset.

    The rest is a torn write. Raises DamageError ``SOW-BKM-002`` if complete blocks follow it, or if a block is invalid.
    """
    end = start
    for body, behind in _iterate_block_bodies(raw, start):
        try:
            _apply_block(state, body)
        except (ValueError, TypeError, UsageError) as error:
            told = error.summary if isinstance(error, UsageError) else error
            raise _make_damage_error(place, end, f"cannot read a block: {told}") from error
        end = behind
    # Blocks are synced one by one: if a complete block follows an incomplete one, that one was complete once.
    if any(_read_block_body(raw, at) is not None for at in range(end + 1, len(raw) - _BLOCK_HEADER.size)):
        raise _make_damage_error(place, end, "a block is damaged, but intact blocks follow it")
    return end


def _iterate_block_bodies(raw: bytes, at: int) -> Iterator[tuple[bytes, int]]:
    while (body := _read_block_body(raw, at)) is not None:
        at += _BLOCK_HEADER.size + len(body)
        yield body, at


def _read_block_body(raw: bytes, at: int) -> bytes | None:
    """Return the body of the block at an offset, None without a complete block."""
    if at + _BLOCK_HEADER.size > len(raw):
        return None
    length, crc = _BLOCK_HEADER.unpack_from(raw, at)
    stop = at + _BLOCK_HEADER.size + length
    # Check the length first: space that was never written reads as zeros, and the checksum of an empty body is zero.
    if not length or stop > len(raw):
        return None
    body = raw[at + _BLOCK_HEADER.size : stop]
    return body if crc32(body) == crc else None


def _apply_block(state: StoreState, raw: bytes) -> None:
    """Apply one block to the state. Raises ValueError, TypeError and UsageError for an invalid block."""
    import msgpack

    kind, *rest = msgpack.unpackb(raw)
    if kind == _STATE:
        state.clear()
        for client, sub_id, bookmark, time, latest, beyond in rest[0]:
            known = SubscriptionState(bookmark, time, dict(latest), {Bookmark(*mark) for mark in beyond})
            state[Subscriber(client, sub_id)] = known
        return
    who = Subscriber(*rest[:2])
    if kind == _PUT:
        bookmark, time = rest[2:]
        state[who] = SubscriptionState(bookmark, time)
    elif kind == _ADVANCE:
        bookmark, time, passed, beyond = rest[2:]
        step = PlaceAdvance(bookmark, dict(passed), [Bookmark(*mark) for mark in beyond])
        known = state.setdefault(who, SubscriptionState("0", time))
        known.apply_advance(step, time)
    elif kind == _PURGE:
        state.pop(who, None)
    else:
        raise ValueError(f"unknown kind {kind!r}")


def _make_damage_error(place: str, offset: int, words: str) -> DamageError:
    return DamageError(
        _STORE_DAMAGED,
        words,
        place=f"{place}: offset {offset}",
        hint="restore the file from a copy, or move it away and set the positions of the subscriptions again",
        offset=offset,
    )


def build_stored_place(who: Subscriber, known: SubscriptionState) -> StoredPlace:
    """Return the stored position of a subscription."""
    return StoredPlace(who, known.bookmark, known.time)
