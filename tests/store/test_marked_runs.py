"""Marks in a run: matches are assigned to the right value, whatever bytes the values have."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowctl.checksum import crc32
from sowctl.expressions.syntax.patterns import RegexPattern
from sowctl.store import codec, integrity
from sowctl.store.integrity import SECRET_BYTES, Marks, decode_mark_numbers

SECRET = b"\n.\xff\\$1*\x00\xff]\xffa"
PIECES = st.sampled_from(
    [
        b"",
        b"needle",
        b"needleneedle",
        b"need",
        b"\xff",
        b"\n",
        b"\xff" + SECRET[:11],
        SECRET,
        SECRET[:3],
        b"\xff\xff",
        b"y",
        b"\0\0\0\0",
    ]
)
VALUES = st.lists(
    st.lists(PIECES | st.binary(max_size=5), max_size=5).map(b"".join).filter(lambda one: b"\xff" + SECRET not in one),
    max_size=9,
)


def found(marks: Marks, run: bytes, what: bytes = b"needle") -> list[int]:
    return decode_mark_numbers(RegexPattern(what + marks.behind).extract_groups(run))


@given(VALUES)
@example([b"needle\xff" + SECRET[:11], b"needle", b"\xffneedle"])
def test_what_is_found_stands_in_the_value_with_the_number(values: list[bytes]) -> None:
    marks = Marks(SECRET)
    expected = [number for number, value in enumerate(values) if b"needle" in value]
    joined = marks.join_values(values)
    assert found(marks, joined) == expected
    assert marks.join_values(values[:3]) == joined[: len(marks.join_values(values[:3]))], (
        "numbers begin at 0 in every run"
    )


@given(VALUES)
def test_marks_take_the_checksum_back(payloads: list[bytes]) -> None:
    marks = Marks(SECRET)
    keys = [bytes([number]) * 8 for number in range(len(payloads))]
    count = range(len(payloads))
    values = codec.encode_plain_records(keys, [bytes(8)] * len(payloads), count, count, count, payloads)
    run = integrity.build_sound_run(keys, values, marks=marks)
    if not payloads:
        assert run is None
        return
    assert run is not None
    assert crc32(run) == 0
    assert found(marks, run, re.escape(values[-1][-20:]))[-1] == len(values) - 1
    values[0] = values[0][:-1] + bytes([values[0][-1] ^ 1])
    assert integrity.build_sound_run(keys, values, marks=marks) is None


def test_a_value_that_has_a_mark_is_why_marks_are_random() -> None:
    spoof = Marks(SECRET).join_values([b"", b"", b"y", b""])
    assert found(Marks(SECRET), Marks(SECRET).join_values([b"needle" + spoof])) == [0]
    spoof = spoof[-21:]
    assert found(Marks(SECRET), Marks(SECRET).join_values([b"needle" + spoof])) == [3]
    other = Marks(bytes(SECRET_BYTES))
    assert found(other, other.join_values([b"needle" + spoof])) == [0]


@pytest.mark.parametrize("number", [255, 256, 65_535, 65_536])
def test_numbers_have_four_bytes(number: int) -> None:
    marks = Marks(SECRET)
    assert found(marks, marks.join_values([b""] * number + [b"needle"])) == [number]


def test_long_values_need_no_stack() -> None:
    marks = Marks(SECRET)
    values = [b"needle" + b"\xff" * 1_000_000 + b"y" * 1_000_000 + SECRET[:5] * 200_000, b"\xff" * 1_000_000, b"needle"]
    assert found(marks, marks.join_values(values)) == [0, 2]
