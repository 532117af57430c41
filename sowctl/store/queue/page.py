"""A page: up to 256 messages of a queue in txid order, by columns (``sow-queue(5)``, "Pages").

A page is the unit in which a queue is read and written: its columns are changed in runs, so that leasing a hundred
messages costs little more than leasing one. :mod:`sowctl.store.queue.rows` derives indexes of pages with ready messages
and of pages with a deadline when pages are written.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable
from struct import Struct as Layout
from typing import Any, TypeAlias

from msgspec import Struct

from sowctl.checksum import crc32
from sowctl.structs import DescribedStruct

PAGE_MESSAGES = 256
"""Maximum number of messages of a page: a lease rewrites a page, so pages are small; one index row serves all of it."""
NEVER_MICROS = (1 << 63) - 1
"""The instant for things without an end: a lease without LeasePeriod, a message without a lifetime."""

# States of a message. A finished one stays in its page until all messages of the page are finished.
DONE, READY, LEASED, DELAYED, BARRIER = range(5)
PENDING_STATES = (READY, LEASED, DELAYED, BARRIER)

_CRC = Layout("<I")
_HEAD = Layout("<HHHxxq")
_PLACE = Layout("<HxxIQQ")
_COLUMNS = (
    ("txids", "Q"),
    ("states", "B"),
    ("deliveries", "H"),
    ("cancels", "H"),
    ("holders", "I"),
    ("tokens", "Q"),
    ("until", "q"),
    ("expirations", "q"),
    ("priorities", "Q"),
    ("publishers", "Q"),
    ("sequences", "Q"),
)
"""Names and type codes, in the order of the file; a column of zeros is not written."""
_PRIORITIES_BIT = 1 << [name for name, _ in _COLUMNS].index("priorities")
_ZERO_COLUMN = bytes(8 * PAGE_MESSAGES)
_NEEDS_SWAP = sys.byteorder != "little"
_SIZES = {code: Layout("<" + code).size for code in "BHIQq"}
assert all(array(code).itemsize == size for code, size in _SIZES.items())
MAX_COUNTER = 0xFFFF
"""The maximum of the counters of deliveries and cancels."""


class BlockPlace(Struct, frozen=True):
    """The location of the messages from index ``start`` on: a journal block, and the txid before its first entry."""

    start: int
    number: int
    offset: int
    before: int


Column: TypeAlias = "array[int] | bytearray"


def _make_column(code: str, size: int = 0) -> Column:
    """Return a column of ``size`` zeros. States are bytes, which are fast to search and count."""
    return bytearray(size) if code == "B" else array(code, bytes(size * _SIZES[code]))


class Page(DescribedStruct):
    """Messages by columns; element n of each column belongs to message n.

    ``states`` are the constants of this module; ``until`` is the end of a lease, or the instant at which a delayed
    message becomes ready (microseconds UTC, 0 for none); ``holders`` and ``tokens`` are those of leases, otherwise 0;
    ``expirations`` are 0 for never; ``publishers`` and ``sequences`` are the bookmark of a message with a client's
    sequence, otherwise 0. ``alarm`` is not later than the next deadline in the page, 0 for none; ``ranked``: there are
    priorities other than 0.
    """

    places: list[BlockPlace]
    txids: array[int]
    states: bytearray
    deliveries: array[int]
    cancels: array[int]
    holders: array[int]
    tokens: array[int]
    until: array[int]
    expirations: array[int]
    priorities: array[int]
    publishers: array[int]
    sequences: array[int]
    alarm: int = 0
    ranked: bool = False

    @classmethod
    def create_empty(cls) -> Page:
        """Return a page without messages."""
        return cls([], *(_make_column(code) for _, code in _COLUMNS))  # type: ignore[arg-type]  # by their codes

    def __len__(self) -> int:
        return len(self.txids)

    def find_index(self, txid: int) -> int:
        """Return the index of a message, -1 if it is not in this page."""
        place = bisect_left(self.txids, txid)
        return place if place < len(self.txids) and self.txids[place] == txid else -1

    def append_messages(self, txids: array[int], place: tuple[int, int, int], **columns: Iterable[int]) -> None:
        """Append messages of one block, in order; ``place`` is its file number, its offset, and the txid before it.

        ``columns`` are the columns other than zeros; ``states`` is READY unless given.
        """
        start = len(self.txids)
        if not self.places or (self.places[-1].number, self.places[-1].offset) != place[:2]:
            self.places.append(BlockPlace(start, *place))
        self.txids.extend(txids)
        self.ranked = self.ranked or any(columns.get("priorities", ()))
        for name, code in _COLUMNS[1:]:
            column: Column = getattr(self, name)
            given = columns.get(name)
            if given is None:
                given = bytes((READY,)) * len(txids) if name == "states" else _make_column(code, len(txids))
            column.extend(given)

    def find_block_place(self, index: int) -> BlockPlace:
        """Return the block of the message at ``index``."""
        found = self.places[0]
        for place in self.places:
            if place.start > index:
                break
            found = place
        return found

    def count_state(self, state: int) -> int:
        """Count the messages in a state."""
        return self.states.count(state)

    @property
    def is_finished(self) -> bool:
        """True if every message is finished."""
        return self.states.count(DONE) == len(self.states)

    def list_ready_priorities(self) -> set[int]:
        """Return the priorities of the ready messages."""
        if READY not in self.states:
            return set()
        if not self.ranked:
            return {0}
        return {prio for prio, state in zip(self.priorities, self.states, strict=True) if state == READY}

    def list_holders(self) -> set[int]:
        """Return the holders of the leases in this page."""
        found = set(self.holders)
        found.discard(0)
        return found

    def find_first_pending(self) -> int:
        """Return the index of the first unfinished message, the length if all are finished."""
        return len(self.states) - len(self.states.lstrip(b"\0"))

    def find_next_alarm(self) -> int:
        """Return the next deadline, 0 for none: end of a lease, delay or lifetime of a pending message."""
        found = NEVER_MICROS
        for state, until, expiration in zip(self.states, self.until, self.expirations, strict=True):
            if state == DONE:
                continue
            if until and until < found:
                found = until
            if expiration and expiration < found:
                found = expiration
        return 0 if found == NEVER_MICROS else found

    def encode(self) -> bytes:
        """Return the encoded row of this page."""
        mask = 0
        parts = []
        for bit, (name, _) in enumerate(_COLUMNS):
            raw = _to_little_endian(getattr(self, name))
            # Most columns usually contain zeros: the row of a page of new messages has two columns.
            if raw != _ZERO_COLUMN[: len(raw)]:
                mask |= 1 << bit
                parts.append(raw)
        body = b"".join(
            (
                _HEAD.pack(len(self.txids), mask, len(self.places), self.alarm),
                *(_PLACE.pack(place.start, place.number, place.offset, place.before) for place in self.places),
                *parts,
            )
        )
        return _CRC.pack(crc32(body)) + body

    @classmethod
    def decode(cls, raw: bytes | memoryview) -> Page:
        """Decode a page. Raises ValueError for a damaged one."""
        view = memoryview(raw)
        if len(view) < _CRC.size + _HEAD.size or crc32(view[_CRC.size :]) != _CRC.unpack_from(view)[0]:
            raise ValueError("a page with a wrong checksum")
        count, mask, placed, alarm = _HEAD.unpack_from(view, _CRC.size)
        at = _CRC.size + _HEAD.size
        # Rows of other databases have the same checksum: damaged pages of the file may lead to one.
        if len(view) < at + _PLACE.size * placed:
            raise ValueError("a page that is not as long as it says")
        places = [BlockPlace(*_PLACE.unpack_from(view, at + _PLACE.size * number)) for number in range(placed)]
        at += _PLACE.size * placed
        columns: dict[str, Any] = {}
        for bit, (name, code) in enumerate(_COLUMNS):
            if not mask & 1 << bit:
                columns[name] = _make_column(code, count)
                continue
            piece = view[at : at + count * _SIZES[code]]
            columns[name] = bytearray(piece) if code == "B" else _to_native_order(array(code, bytes(piece)))
            at += len(piece)
        if at != len(view) or any(len(column) != count for column in columns.values()):
            raise ValueError("a page that is not as long as it says")
        return cls(places, alarm=alarm, ranked=bool(mask & _PRIORITIES_BIT), **columns)


def _to_little_endian(column: Column) -> bytes:
    return bytes(column) if isinstance(column, bytearray) else _to_native_order(column).tobytes()


def _to_native_order(column: array[int]) -> array[int]:
    """Convert a column between the byte order of the file and that of this machine."""
    if _NEEDS_SWAP:
        column = column[:]
        column.byteswap()
    return column
