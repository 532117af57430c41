"""bflat: the bytes of the format, read and written; the encoder here is implemented only from the format."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.messages.types import get_type
from sowctl.values.fields import FieldWrite, Slot, SlotValue, ValueList
from sowctl.values.paths import Path, Step, parse_path

BFLAT = get_type("bflat")


def leb(value: int) -> bytes:
    """Unsigned LEB128."""
    head = value & 127
    return bytes([head]) if value < 128 else bytes([head | 128]) + leb(value >> 7)


def signed_leb(value: int) -> bytes:
    """Signed LEB128, by the definition: sign-extended to a multiple of seven bits."""
    size = 7
    while not -(1 << (size - 1)) <= value < 1 << (size - 1):
        size += 7
    bits = value & ((1 << size) - 1)
    parts = [(bits >> at) & 127 for at in range(0, size, 7)]
    return bytes([part | 128 for part in parts[:-1]] + parts[-1:])


def text(value: bytes) -> bytes:
    return leb(len(value)) + value


WRITERS: dict[int, Any] = {
    0: lambda value: b"",
    1: lambda value: text(value.encode()),
    2: text,
    3: lambda value: struct.pack("<b", value),
    4: lambda value: struct.pack("<h", value),
    5: lambda value: struct.pack("<i", value),
    6: lambda value: struct.pack("<q", value),
    7: lambda value: struct.pack("<d", value),
    8: lambda value: struct.pack("<q", value),
    9: signed_leb,
}
KINDS: dict[int, Any] = {
    0: st.none(),
    1: st.text(max_size=5),
    2: st.binary(max_size=5),
    3: st.integers(-128, 127),
    4: st.integers(-(1 << 15), (1 << 15) - 1),
    5: st.integers(-(1 << 31), (1 << 31) - 1),
    6: st.integers(-(1 << 63), (1 << 63) - 1),
    7: st.floats(allow_nan=False),
    9: st.integers(-(1 << 63), (1 << 64) - 1),
}
TAGS = st.sampled_from(["a", "id", "seven77", "longtags", "é"])


def field(tag: str, kind: int, value: Any, *, array: bool = False) -> bytes:
    """One field by the format."""
    raw = tag.encode()
    head = bytes([(0x80 if array else 0) | kind << 3 | (len(raw) if len(raw) < 8 else 0)])
    name = raw if 0 < len(raw) < 8 else leb(len(raw)) + raw
    items = value if array else [value]
    count = leb(len(items)) if array else b""
    return head + name + count + b"".join(map(WRITERS[kind], items))


@st.composite
def fields(draw: st.DrawFn) -> list[tuple[str, int, Any, bool]]:
    found = []
    for _ in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(list(KINDS)))
        array = draw(st.booleans())
        value = draw(st.lists(KINDS[kind], max_size=3) if array else KINDS[kind])
        found.append((draw(TAGS), kind, value, array))
    return found


def one(payload: bytes, path: str) -> SlotValue:
    rows, refusals = BFLAT.build_extractor([Slot(parse_path(path))])([payload])
    assert not refusals
    return rows[0][0]


def test_c142_the_example_of_the_format() -> None:
    payload = bytes.fromhex("1a6964050973026869")
    assert json.loads(BFLAT.view(payload)) == {"id": 5, "s": "hi"}
    assert (one(payload, "/id"), one(payload, "/s")) == (5, "hi")
    assert BFLAT.build_message([(("id",), 5), (("s",), "hi")]) == payload


def test_a_tag_of_eight_bytes_has_its_length_in_front() -> None:
    payload = b"\x18\x08longtags\x07"
    assert one(payload, "/longtags") == 7
    assert BFLAT.build_message([(("longtags",), 7)]) == payload


@settings(deadline=None)
@given(fields())
def test_every_kind_of_field_is_read(drawn: list[tuple[str, int, Any, bool]]) -> None:
    payload = b"".join(field(tag, kind, value, array=array) for tag, kind, value, array in drawn)
    tags = sorted({tag for tag, *_ in drawn})
    rows, refusals = BFLAT.build_extractor([Slot(Path((Step(tag),)), listed=True) for tag in tags])([payload])
    assert refusals == BFLAT.check_payloads([payload]) == []
    for tag, value in zip(tags, rows[0], strict=True):
        wanted = [v for name, _, given, array in drawn if name == tag for v in (given if array else [given])]
        assert isinstance(value, ValueList)
        assert [as_bytes(item) for item in value.items] == [as_bytes(item) for item in wanted]


def as_bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


@settings(deadline=None)
@given(fields(), TAGS)
def test_fields_that_are_not_wanted_are_passed_over_exactly(
    drawn: list[tuple[str, int, Any, bool]], wanted: str
) -> None:
    payload = b"".join(field(tag, kind, value, array=array) for tag, kind, value, array in drawn)
    marked = payload + field("end", 3, 1)
    assert one(marked, "/end") == 1


@settings(deadline=None)
@given(st.one_of(*[KINDS[kind] for kind in (0, 1, 6, 7, 9)]))
def test_what_is_written_is_read_again(value: Any) -> None:
    assert one(BFLAT.build_message([(("a",), value)]), "/a") == (None if value == "" else value)


@pytest.mark.parametrize(
    ("value", "head"), [(127, 0x19), (128, 0x21), (-32768, 0x21), (32768, 0x29), (1 << 31, 0x31), (1 << 63, 0x49)]
)
def test_the_smallest_integer_is_written(value: int, head: int) -> None:
    assert BFLAT.build_message([(("a",), value)])[0] == head


def test_a_datetime_is_its_text() -> None:
    assert one(field("t", 8, 1711058992535), "/t") == "2024-03-21T22:09:52.535000Z"
    assert one(field("t", 8, 1 << 60), "/t") == str(1 << 60)


def test_a_leb128_beyond_64_bits_is_a_double() -> None:
    assert one(field("a", 9, 1 << 100), "/a") == float(1 << 100)


def test_booleans_are_written_as_numbers_and_odd_bytes_as_binary() -> None:
    assert BFLAT.build_message([(("a",), True), (("b",), b"\xff")]) == b"\x19a\x01" + field("b", 2, b"\xff")


def test_a_delta_replaces_fields_by_tag_and_keeps_the_others_bytes() -> None:
    base = field("a", 6, 1) + field("l", 1, ["x", "y"], array=True) + field("b", 1, "z")
    delta = field("l", 1, ["q"], array=True) + field("b", 0, None) + field("c", 3, 2)
    expected = field("a", 6, 1) + field("l", 1, ["q"], array=True) + field("b", 1, "z") + field("c", 3, 2)
    assert BFLAT.merge_delta(base, delta) == expected
    assert BFLAT.merge_delta(base, field("l", 0, [], array=True)) == base


def test_several_fields_of_one_tag_are_a_list() -> None:
    payload = field("a", 3, 1) + field("b", 3, 9) + field("a", 1, ["x"], array=True)
    assert one(payload, "/a") == ValueList((1, "x"))
    assert BFLAT.view(payload) == b'{"a":[1,"x"],"b":9}'
    assert BFLAT.assign_fields(payload, [FieldWrite(parse_path("/a"), 5)]) == field("a", 3, 5) + field("b", 3, 9)


@pytest.mark.parametrize(
    ("payload", "offset"),
    [
        (b"\x19a", 0),
        (b"\x19a\x05\x50a", 3),
        (b"\x1aa", 0),
        (b"\x00\xff\xff", 1),
        (b"\x09a\x05xyz", 0),
        (b"\x49a\xff\xff", 2),
        (b"\x89a\xff\xff\xff\xff\xff\x7f", 0),
        (b"\x81a" + leb(70_000), 0),
        (b"\x81a" + leb(40_000) + b"\x81b" + leb(40_000), 5),
    ],
)
def test_damage_is_refused_where_it_is(payload: bytes, offset: int) -> None:
    refusals = BFLAT.check_payloads([payload])
    assert [(refusal.code, refusal.offset) for refusal in refusals] == [("SOW-MSG-002", offset)]


@settings(deadline=None)
@given(fields(), st.data())
def test_a_message_that_is_cut_off_is_never_read_beyond_its_end(
    drawn: list[tuple[str, int, Any, bool]], data: st.DataObject
) -> None:
    pieces = [field(tag, kind, value, array=array) for tag, kind, value, array in drawn]
    payload = b"".join(pieces)
    cut = data.draw(st.integers(0, len(payload)))
    ends = {0, *(sum(map(len, pieces[: at + 1])) for at in range(len(pieces)))}
    assert (BFLAT.check_payloads([payload[:cut]]) == []) == (cut in ends)


def test_a_message_of_more_fields_than_memory_should_hold_is_refused() -> None:
    payload = b"\x01a" * ((1 << 20) + 1)
    assert [refusal.code for refusal in BFLAT.check_payloads([payload])] == ["SOW-MSG-010"]
    assert BFLAT.check_payloads([payload[2:]]) == []
