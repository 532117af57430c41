"""The bytes of a bookmark store in a file: header, blocks, and the state that they add up to (``sow-bookmark(5)``).

Packed and unpacked here and nowhere else; :mod:`sowctl.engine.subscriptions.bookmark_stores.file` reads and writes the
file.
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
    """The place and the acknowledged messages that a store has of one subscription.

    ``latest``: per publisher the highest number at or before the place; ``beyond``: what was acknowledged behind it.
    """

    bookmark: str
    time: int
    latest: dict[int, int] = field(default_factory=dict)
    beyond: set[Bookmark] = field(default_factory=set)

    def apply_advance(self, step: PlaceAdvance, time: int) -> None:
        """Move on."""
        if step.bookmark is not None:
            self.bookmark = step.bookmark
        self.time = time
        for publisher, sequence in step.passed.items():
            self.latest[publisher] = max(sequence, self.latest.get(publisher, 0))
        # The numbers of a publisher rise with the log, so what is below its highest one has been passed as well.
        self.beyond = {mark for mark in self.beyond.union(step.beyond) if not self.has_passed(mark)}

    def has_passed(self, mark: Bookmark) -> bool:
        """Return whether a message stands at or before the place, as far as its publisher's numbers tell."""
        return mark.sequence <= self.latest.get(mark.publisher, -1)


StoreState = dict[Subscriber, SubscriptionState]


def encode_header() -> bytes:
    """The header of a file."""
    front = struct.pack("<8sHH", STORE_MAGIC, FORMAT_VERSION, 0)
    return front + struct.pack("<I", crc32(front))


def has_header(raw: bytes, place: str) -> bool:
    """Return whether a file has a header; it has none yet where writing it was interrupted.

    Raises VersionError ``SOW-BKM-004``, DamageError ``SOW-BKM-002`` for what is no such file.
    """
    # A header is synced before anything follows, so what a crash leaves of it is short, or was not written: zeros.
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
    """A block that replaces everything."""
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
    """A block that sets a place."""
    return _pack_body([_PUT, who.client, who.sub_id, bookmark, time])


def pack_advance(who: Subscriber, step: PlaceAdvance, time: int) -> bytes:
    """A block that moves a place on."""
    passed, beyond = _encode_sequence_marks(step.passed.items()), _decode_sequence_marks(step.beyond)
    return _pack_body([_ADVANCE, who.client, who.sub_id, step.bookmark, time, passed, beyond])


def pack_purge(who: Subscriber) -> bytes:
    """A block that forgets a subscription."""
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
    """Count the whole blocks of ``raw`` from ``start`` on into ``state``; returns where they end.

    What follows is torn. Raises DamageError ``SOW-BKM-002`` where it is not the end, or a block holds something else.
    """
    end = start
    for body, behind in _iterate_block_bodies(raw, start):
        try:
            _apply_block(state, body)
        except (ValueError, TypeError, UsageError) as error:
            told = error.summary if isinstance(error, UsageError) else error
            raise _make_damage_error(place, end, f"cannot read a block: {told}") from error
        end = behind
    # Blocks are synced one by one: whatever stands behind one that is not whole was written when it was.
    if any(_read_block_body(raw, at) is not None for at in range(end + 1, len(raw) - _BLOCK_HEADER.size)):
        raise _make_damage_error(place, end, "a block is damaged, but intact blocks follow it")
    return end


def _iterate_block_bodies(raw: bytes, at: int) -> Iterator[tuple[bytes, int]]:
    while (body := _read_block_body(raw, at)) is not None:
        at += _BLOCK_HEADER.size + len(body)
        yield body, at


def _read_block_body(raw: bytes, at: int) -> bytes | None:
    """The body of the block at an offset, None where no whole one is there."""
    if at + _BLOCK_HEADER.size > len(raw):
        return None
    length, crc = _BLOCK_HEADER.unpack_from(raw, at)
    stop = at + _BLOCK_HEADER.size + length
    # The length is asked first: space that was never written reads as zeros, and the checksum of nothing is zero.
    if not length or stop > len(raw):
        return None
    body = raw[at + _BLOCK_HEADER.size : stop]
    return body if crc32(body) == crc else None


def _apply_block(state: StoreState, raw: bytes) -> None:
    """Change the state as one block says. Raises ValueError, TypeError and UsageError for what is none."""
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
    """A subscription as others see it."""
    return StoredPlace(who, known.bookmark, known.time)
