"""Values that a subscriber holds: the last value of each record in focus, in bounded memory.

Out-of-focus messages have the last body of a record, and deltas are relative to it. It cannot be read from the store,
which may be ahead of the subscriber, nor from the journal, whose beginning may be removed. So values are kept here: in
memory up to a limit, then in a temporary file that is rewritten when it is mostly garbage. About 200 bytes per record
in focus remain in memory. Called by the feeds.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import IO

from sowctl.engine.subscriptions.limits import SUBSCRIPTION_LIMITS

HELD_MEMORY_BYTES = 64 << 20
"""Maximum bytes of values in memory; more go to a file."""
_VALUE_SIZE_BITS = 28
"""Bits for a value's size in a packed place: enough for the largest message."""


class HeldValues:
    """Values by key; ``len`` returns their number. Must be closed."""

    def __init__(self, memory: int = HELD_MEMORY_BYTES) -> None:
        self._memory = memory
        self._young: dict[bytes, bytes] = {}
        self._size = 0
        self._places: dict[bytes, int] = {}
        self._file: IO[bytes] | None = None
        self._end = 0
        self._garbage = 0

    def __len__(self) -> int:
        return len(self._young) + len(self._places)

    def __contains__(self, key: bytes) -> bool:
        return key in self._young or key in self._places

    def __iter__(self) -> Iterator[bytes]:
        yield from self._young
        yield from self._places

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, None if it has none."""
        value = self._young.get(key)
        if value is None and (place := self._places.get(key)) is not None:
            return self._read_value(place)
        return value

    def put(self, key: bytes, value: bytes) -> None:
        """Set the value of a key."""
        self._forget_place(key)
        self._young[key] = value
        self._size += len(value)
        if self._size > self._memory:
            self._spill_values()

    def drop(self, key: bytes) -> None:
        """Remove the value of a key."""
        self._forget_place(key)

    def clear(self) -> None:
        """Remove all values."""
        self.close()
        self._young, self._places = {}, {}
        self._size = self._end = self._garbage = 0

    def close(self) -> None:
        """Remove the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _forget_place(self, key: bytes) -> None:
        before = self._young.pop(key, None)
        if before is not None:
            self._size -= len(before)
        elif self._places and (place := self._places.pop(key, None)) is not None:
            self._garbage += place & (1 << _VALUE_SIZE_BITS) - 1

    def _read_value(self, place: int) -> bytes:
        assert self._file is not None
        return os.pread(self._file.fileno(), place & (1 << _VALUE_SIZE_BITS) - 1, place >> _VALUE_SIZE_BITS)

    def _spill_values(self) -> None:
        """Write the values in memory to the file; if the file is mostly garbage, copy its live values to a new file
        first."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed by close()
        if self._garbage > self._memory and 2 * self._garbage > self._end:
            self._compact_file()
        self._append_values(self._young)
        self._young, self._size = {}, 0

    def _compact_file(self) -> None:
        old, places = self._file, self._places
        assert old is not None
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed by close()
        self._places, self._end, self._garbage = {}, 0, 0
        part: dict[bytes, bytes] = {}
        size = 0
        for key, place in places.items():
            part[key] = os.pread(old.fileno(), place & (1 << _VALUE_SIZE_BITS) - 1, place >> _VALUE_SIZE_BITS)
            size += len(part[key])
            if size > SUBSCRIPTION_LIMITS.copy_part_bytes:
                self._append_values(part)
                part, size = {}, 0
        self._append_values(part)
        old.close()

    def _append_values(self, values: dict[bytes, bytes]) -> None:
        assert self._file is not None
        for key, value in values.items():
            self._places[key] = self._end << _VALUE_SIZE_BITS | len(value)
            self._end += len(value)
        # A write may be short, as on a nearly full disk; the next one then raises the reason.
        data = memoryview(b"".join(values.values()))
        while data:
            data = data[self._file.write(data) :]
