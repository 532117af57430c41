"""The checksum of all files is the one that zlib computes."""

from __future__ import annotations

import zlib

from hypothesis import given
from hypothesis import strategies as st

from sowctl.checksum import crc32


def test_the_check_value_of_the_catalogue() -> None:
    assert crc32(b"123456789") == 0xCBF43926


@given(st.lists(st.binary(max_size=700), max_size=5))
def test_as_in_the_standard_library(parts: list[bytes]) -> None:
    ours = theirs = 0
    for part in parts:
        ours, theirs = crc32(memoryview(part), ours), zlib.crc32(part, theirs)
    assert ours == theirs == crc32(b"".join(parts))
