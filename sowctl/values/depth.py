"""The depth of messages: how many objects and arrays may stand inside one another, and whether a JSON text has more.

The one limit for all message types without a limit of their own (xml has 64 levels), for the types that a message may
be declared with, and for the readers that look into values which another reader has cut out.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import accumulate, chain

from msgspec import Struct

MAX_DEPTH = 256
"""Objects and arrays inside one another, the outermost counted."""
_ANY_STRING_PATTERN = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"{[]}"))
_CHANGE_TABLE = bytes.maketrans(b"{[]}", b"\1\1\0\0")
_STEPS = (-1, 1)


class DepthLimits(Struct):
    """Sizes of long payloads; tests set smaller ones."""

    scan_piece_bytes: int = 1 << 18
    """Bytes of a payload whose depth is looked for in pieces."""
    piece_strings: int = 4096
    """Strings, and stretches between strings, of a piece."""


DEPTH_LIMITS = DepthLimits()


@lru_cache(1)
def _compile_piece_pattern(strings: int) -> re.Pattern[bytes]:
    return re.compile(rb'(?:[^"]++|"(?:[^"\\]++|\\.)*+"){1,%d}+' % strings, re.DOTALL)


def is_deep(payload: bytes, max_depth: int = MAX_DEPTH) -> bool:
    """Return True if more than ``max_depth`` containers stand inside one another; exact for acceptable JSON."""
    # Each container takes two bytes and one opening bracket: most payloads are decided by their length or one count.
    if len(payload) <= 2 * max_depth or payload.count(b"{") + payload.count(b"[") <= max_depth:
        return False
    # Brackets inside strings do not count. What is left rises and falls; its highest point is the depth. The pieces end
    # where no string does not, so that a long payload with many strings is not taken apart as a whole.
    pieces = (
        (piece[0] for piece in _compile_piece_pattern(DEPTH_LIMITS.piece_strings).finditer(payload))
        if len(payload) > DEPTH_LIMITS.scan_piece_bytes
        else (payload,)
    )
    brackets = (_ANY_STRING_PATTERN.sub(b"", piece).translate(_CHANGE_TABLE, _NO_BRACKETS) for piece in pieces)
    return max(accumulate(map(_STEPS.__getitem__, chain.from_iterable(brackets))), default=0) > max_depth
