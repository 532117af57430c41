"""Marks in a run of many stored values: what is found somewhere in the run is known to stand in one of them.

Behind every value stands a mark with the value's number. One search through all of a run, in the pattern engine's own
code, then finds which values hold something: many times as fast as asking one value after the other. Runs are made by
:mod:`sowctl.store.integrity`, which verifies what it joins, and searched by :mod:`sowctl.engine.search.prefilter`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sowctl.checksum import crc32
from sowctl.store.codec import RESIDUE
from sowctl.store.integrity import RESTART

SECRET_SIZE = 12
"""Random bytes of a mark: whoever can write values must not be able to write marks."""
_FIRST = b"\xff"
"""Is no part of any character, so that a search for the mark behind a place seldom halts before it."""
_RESTORED = int.from_bytes(RESTART, "little") ^ RESIDUE


class Marks:
    """Marks of one scan: a byte, ``secret``, the number of the value, and what restarts the checksum.

    ``behind`` is a PCRE2 pattern: from anywhere in a value to the end of the mark behind it, with the number as its one
    group.
    """

    def __init__(self, secret: bytes) -> None:
        """``secret``: :data:`SECRET_SIZE` random bytes, which no value holds but by a chance of 2**-96."""
        self._start = _FIRST + secret
        self._parts: list[bytes] = []
        rest = b"".join(b"\\x%02x" % byte for byte in secret)
        self.behind = rb"(?:[^\xff]++|\xff(?!%b))*+\xff%b([\x00-\xff]{4})" % (rest, rest)

    def parts(self, count: int) -> list[bytes]:
        """Parts of a run of ``count`` values: two empty ones, for key and value, before every mark."""
        for number in range(len(self._parts) // 3, count):
            mark = self._start + number.to_bytes(4, sys.byteorder)
            # The register stands at RESIDUE behind a sound value; these four bytes take it from behind the number to 0.
            back = crc32(mark, RESIDUE) ^ _RESTORED
            self._parts += [b"", b"", mark + back.to_bytes(4, "little")]
        return self._parts[: 3 * count]

    def joined(self, values: Sequence[bytes]) -> bytes:
        """A run of ``values`` that nobody has to verify."""
        parts = self.parts(len(values))
        parts[1::3] = values
        return b"".join(parts)


def numbers_of(groups: bytes) -> list[int]:
    """The numbers that a search with :attr:`Marks.behind` found, end to end."""
    return memoryview(groups).cast("I").tolist()
