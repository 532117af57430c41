"""The depth of messages: how deeply objects and arrays may be nested, and whether a JSON text exceeds the limit.

The same limit applies to all message types without a limit of their own (xml has 64 levels), to the types that a
message may be declared with, and to the readers that parse values cut out by another reader.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import accumulate, chain

from msgspec import Struct

MAX_DEPTH = 256
"""Levels of nested objects and arrays, including the outermost."""
_ANY_STRING_PATTERN = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"{[]}"))
_CHANGE_TABLE = bytes.maketrans(b"{[]}", b"\1\1\0\0")
_STEPS = (-1, 1)


class DepthLimits(Struct):
    """Size limits for long payloads; tests set smaller ones."""

    scan_piece_bytes: int = 1 << 18
    """A longer payload is searched in pieces."""
    piece_strings: int = 4096
    """Strings, and stretches between strings, in a piece."""


DEPTH_LIMITS = DepthLimits()


@lru_cache(1)
def _compile_piece_pattern(strings: int) -> re.Pattern[bytes]:
    return re.compile(rb'(?:[^"]++|"(?:[^"\\]++|\\.)*+"){1,%d}+' % strings, re.DOTALL)


def is_deep(payload: bytes, max_depth: int = MAX_DEPTH) -> bool:
    """Return True if more than ``max_depth`` containers are nested; exact for acceptable JSON."""
    # Each container needs two bytes and one opening bracket: the length or one count decides about most payloads.
    if len(payload) <= 2 * max_depth or payload.count(b"{") + payload.count(b"[") <= max_depth:
        return False
    # Brackets inside strings do not count. The remaining brackets raise and lower the level; its maximum is the depth.
    # Pieces end outside of strings, so that a long payload with many strings is not processed as a whole.
    pieces = (
        (piece[0] for piece in _compile_piece_pattern(DEPTH_LIMITS.piece_strings).finditer(payload))
        if len(payload) > DEPTH_LIMITS.scan_piece_bytes
        else (payload,)
    )
    brackets = (_ANY_STRING_PATTERN.sub(b"", piece).translate(_CHANGE_TABLE, _NO_BRACKETS) for piece in pieces)
    return max(accumulate(map(_STEPS.__getitem__, chain.from_iterable(brackets))), default=0) > max_depth
