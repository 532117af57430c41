"""fix and nvfix: results agree with an independent library and with a slow reader; writing, separators, views."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
import simplefix
from hypothesis import example, given, settings
from hypothesis import strategies as st
from simplefix import errors

from sowctl.errors import ConfigError, InputError, UsageError
from sowctl.messages.definition import TypeDefinition
from sowctl.messages.types import get_type
from sowctl.values.fields import FieldWrite, Number, Row, Slot, ValueList
from sowctl.values.paths import Path, Step, parse_path
from sowctl.values.scalars import to_text
from tests.support import jsonslots

VALUES = st.one_of(
    st.from_regex(r"\A[ ]?[+-]?[0-9]{0,3}\.?[0-9]{0,2}(e[0-9])?[ ]?\Z"),
    st.integers(-(10**20), 10**20).map(str),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\n"), max_size=4),
    st.sampled_from(["nan", "inf", "1_0", "0x5", "007", "-0", "1e999", "=", "a=b", "true", "٣"]),
)
TAGS = st.sampled_from(["1", "8", "10", "35", "55", "055", "448"])
FIELDS = st.lists(st.tuples(TAGS, VALUES), max_size=6)
JUNK = st.lists(st.sampled_from(["junk", "", "=", "=x", "a b=1"]), max_size=1)
ENDS = st.sampled_from(["", "\x01"])


def payload_of(fields: Sequence[tuple[str, str]], junk: Sequence[str] = (), end: str = "\x01") -> bytes:
    return ("\x01".join([f"{tag}={value}" for tag, value in fields] + list(junk)) + end).encode()


MESSAGES = st.builds(payload_of, FIELDS, JUNK, ENDS)


def library_pairs(payload: bytes) -> list[tuple[int, bytes]] | None:
    """The result of simplefix, configured without length fields; None if it refuses the payload."""
    parser = simplefix.FixParser(
        allow_empty_values=True,
        allow_missing_begin_string=True,
        strip_fields_before_begin_string=False,
        stop_tag=-1,
        stop_byte=b"\n",
    )
    for length, data in zip(parser.raw_len_tags[:], parser.raw_data_tags[:], strict=True):
        parser.remove_raw(length, data)
    parser.append_buffer(payload + b"\n")
    try:
        message = parser.get_message()
    except (errors.ParsingError, ValueError):
        return None
    return [] if message is None else [(int(tag), value) for tag, value in message.pairs]


def texts_at(payload: bytes, tag: str) -> list[bytes]:
    rows, refusals = get_type("fix").build_extractor([Slot(Path((Step(tag),)), text=True, listed=True)])([payload])
    assert not refusals
    value = rows[0][0]
    assert isinstance(value, ValueList)
    return [to_text(item) or b"" for item in value.items]


def as_number(name: bytes) -> int | None:
    """The library's reading of a tag: like Python it accepts signs, underscores and spaces."""
    try:
        return int(name)
    except ValueError:
        return None


def agrees_with_the_library(payload: bytes) -> None:
    pairs = library_pairs(payload)
    if pairs is None:
        return
    spelled = {piece.partition(b"=")[0] for piece in payload.split(b"\x01")}
    for tag in {tag for tag, _ in pairs}:
        if all(name == b"%d" % tag or as_number(name) != tag for name in spelled):
            assert texts_at(payload, str(tag)) == [value for number, value in pairs if number == tag]


@settings(deadline=None)
@given(MESSAGES)
@example(b"8=FIX.4.2\x019=12\x0135=D\x0155=IBM\x01448=A\x01448=B\x0110=128\x01")
def test_fields_are_those_of_an_independent_library(payload: bytes) -> None:
    agrees_with_the_library(payload)


@settings(deadline=None)
@given(
    MESSAGES, st.lists(st.tuples(st.integers(0, 40), st.integers(0, 2), st.binary(max_size=2)), min_size=1, max_size=3)
)
@example(b"1=0", [(0, 0, b"+")])
@example(b"10=0", [(1, 0, b"_")])
def test_so_are_those_of_damaged_messages(payload: bytes, edits: list[tuple[int, int, bytes]]) -> None:
    for start, size, new in edits:
        payload = payload[:start] + new.replace(b"\n", b"\x01") + payload[start + size :]
    agrees_with_the_library(payload)


def test_the_library_does_read_something() -> None:
    assert library_pairs(b"8=F\x0155=\x0155=x") == [(8, b"F"), (55, b""), (55, b"x")]


SLOTS = [
    Slot(parse_path(path), text=text, listed=listed)
    for path in ("/1", "/55", "/055", "/448[1]", "/35[0]", "/448", "/8/x")
    for text in (False, True)
    for listed in (False, True)
]


def comparable(row: Row) -> list[object]:
    def one(value: object) -> object:
        if isinstance(value, ValueList):
            return [one(item) for item in value.items], value.dropped
        if isinstance(value, Number):
            exact = isinstance(value.value, int) and b"%d" % value.value == value.text
            return value.value if exact else (repr(value.value), value.text)
        return value.encode() or None if isinstance(value, str) else repr(value) if isinstance(value, float) else value

    return [one(value) for value in row]


@pytest.mark.parametrize("kind", ["fix", "nvfix"])
@settings(deadline=None)
@given(payloads=st.lists(MESSAGES, max_size=5))
@example(payloads=[b"1=5\x01", b"1=6\x01", b"1=7\x01"])
@example(payloads=[b"1=1.5\x01", b"1=6.0\x01"])
@example(payloads=[b"1=a\x01", b"1=b\x01"])
@example(payloads=[b"1=1\x011=2\x01", b"\x01", b"11=1\x01"])
def test_batches_are_read_as_the_slow_reader_reads_each(kind: str, payloads: list[bytes]) -> None:
    rows, refusals = get_type(kind).build_extractor(SLOTS)(payloads)
    assert not refusals
    slow = [jsonslots.row(payload.decode(), SLOTS, kind) for payload in payloads]
    assert [comparable(row) for row in rows] == [comparable(row) for row in slow]


@settings(deadline=None)
@given(st.lists(MESSAGES, max_size=4))
def test_key_texts_are_the_bytes_of_first_values(payloads: list[bytes]) -> None:
    paths = [parse_path(path) for path in ("/55", "/448[1]", "/8/x")]
    texts, _ = get_type("fix").build_key_extractor(paths)(payloads)
    for payload, found in zip(payloads, texts, strict=True):
        values = {"55": [], "448": []}  # type: dict[str, list[bytes]]
        for piece in payload.split(b"\x01"):
            tag, equals, value = piece.partition(b"=")
            if equals and tag.decode() in values:
                values[tag.decode()].append(value)
        first, second = values["55"][:1], values["448"][1:2]
        assert found == ((first[0] or None) if first else None, (second[0] or None) if second else None, None)


def test_bytes_that_are_no_text_are_kept() -> None:
    rows, _ = get_type("nvfix").build_extractor([Slot(parse_path("/a"))])([b"a=\xff\xfe\x01", b"a=x\x01"])
    assert rows == [(b"\xff\xfe",), (b"x",)]
    assert get_type("nvfix").view(b"a=\xff\x01") == '{"a":"\ufffd"}'.encode()


@pytest.mark.parametrize(
    ("base", "delta", "merged"),
    [
        (b"1=a\x012=b\x01", b"2=c\x01", b"1=a\x012=c\x01"),
        (b"1=a\x012=b", b"3=c\x01", b"1=a\x012=b\x013=c"),
        (b"1=a\x012=b\x01", b"2=\x01", b"1=a\x012=b\x01"),
        (b"448=A\x011=x\x01448=B\x01", b"448=C\x01", b"448=C\x011=x\x01"),
        (b"448=A\x011=x\x01", b"448=C\x01448=D\x01", b"448=C\x01448=D\x011=x\x01"),
        (b"1=a\x01junk\x012=b\x01", b"junk\x011=z\x01", b"1=z\x01junk\x012=b\x01"),
        (b"", b"1=a\x01", b"1=a\x01"),
        (b"448=A\x011=x\x01", b"448=C\x01448=\x01", b"448=C\x01448=\x011=x\x01"),
        (b"448=A\x011=x\x01", b"448=\x01448=\x01", b"448=A\x011=x\x01"),
    ],
)
def test_deltas_are_merged_by_tag(base: bytes, delta: bytes, merged: bytes) -> None:
    assert get_type("fix").merge_delta(base, delta) == merged


def test_written_values_have_the_text_of_the_message() -> None:
    kind = get_type("fix")
    fields = [(("1",), Number(5, b" 5 ")), (("2",), True), (("3",), float("nan")), (("4",), None), (("5",), 1.0)]
    assert kind.build_message(fields) == b"1= 5 \x012=1\x013=0\x014=\x015=1.0\x01"


def test_fix_writes_numeric_tags_and_nvfix_any() -> None:
    for kind, name in (("fix", "abc"), ("nvfix", "a=b"), ("nvfix", "a\x01b")):
        with pytest.raises(UsageError) as caught:
            get_type(kind).build_message([((name,), 1)])
        assert caught.value.code == "SOW-MSG-008"
    assert get_type("nvfix").build_message([(("abc",), 1)]) == b"abc=1\x01"


def test_nothing_can_be_written_below_a_field() -> None:
    with pytest.raises(UsageError) as caught:
        get_type("fix").assign_fields(b"1=a\x01", [FieldWrite(parse_path("/1/x"), 1)])
    assert caught.value.code == "SOW-MSG-008"


def test_a_value_with_the_separator_cannot_be_written() -> None:
    with pytest.raises(InputError) as caught:
        get_type("fix").assign_fields(b"1=a\x01", [FieldWrite(parse_path("/1"), "a\x01b")])
    assert caught.value.code == "SOW-MSG-009"


def test_a_definition_sets_the_separator() -> None:
    kind = get_type(TypeDefinition("mine", "nvfix", field_separator=b"|"))
    assert kind.merge_delta(b"a=1|b=2", b"b=\x01|") == b"a=1|b=\x01"
    assert kind.build_key_extractor([parse_path("/b")])([b"a=1|b=2"]) == ([(b"2",)], [])


def test_the_separator_may_be_a_byte_beyond_ascii() -> None:
    kind = get_type(TypeDefinition("mine", "nvfix", field_separator=b"\xff"))
    rows, _ = kind.build_extractor([Slot(parse_path("/a")), Slot(parse_path("/b"))])([b"a=x\xffb=5\xff"])
    assert rows == [(b"x", 5)]


def test_the_equals_sign_separates_no_fields() -> None:
    with pytest.raises(ConfigError) as caught:
        get_type(TypeDefinition("mine", "fix", field_separator=b"=", place="c.xml:3:1"))
    assert (caught.value.code, caught.value.place) == ("SOW-MSG-007", "c.xml:3:1")


@settings(deadline=None)
@given(MESSAGES)
def test_a_view_has_every_field(payload: bytes) -> None:
    shown = json.loads(get_type("nvfix").view(payload))
    tags = [piece.partition(b"=")[0].decode() for piece in payload.split(b"\x01") if b"=" in piece]
    assert set(shown) == set(tags)
    for tag, value in shown.items():
        assert len(value) == tags.count(tag) if isinstance(value, list) else tags.count(tag) == 1


def test_a_view_writes_numbers_only_as_they_were_written() -> None:
    assert get_type("fix").view(b"1=90.50\x012=007\x013= 5\x014=\x015=1\x015=x\x01") == (
        b'{"1":"90.50","2":"007","3":" 5","4":null,"5":[1,"x"]}'
    )


def test_a_message_of_more_fields_than_memory_should_hold_is_refused() -> None:
    kind = get_type("nvfix")
    most, more = b"\x01" * (1 << 20), b"\x01" * ((1 << 20) + 1)
    assert [(refusal.index, refusal.code) for refusal in kind.check_payloads([most, more])] == [(1, "SOW-MSG-010")]
    rows, refusals = kind.build_extractor([Slot(parse_path("/a"))])([b"a=1", more])
    assert (rows, refusals) == ([(1,), (None,)], kind.check_payloads([b"a=1", more]))
    with pytest.raises(InputError) as caught:
        kind.merge_delta(more, b"a=1")
    assert (caught.value.code, caught.value.facts["part"]) == ("SOW-MSG-010", "base")
