"""Texts that look like numbers keep their identity wherever they are written (sowctl-messages(7), WRITTEN FIELDS)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.arrow.inference import infer_ddl
from sowctl.arrow.jsoncolumns import Misfit
from sowctl.arrow.struct_decoder import StructDecoder
from sowctl.config.model import OtherEntry
from sowctl.engine.views.instant import run_at_instant
from sowctl.engine.views.limits import VIEW_LIMITS
from sowctl.engine.views.view import open_computed
from sowctl.messages.types import get_type
from sowctl.values.differences import has_same_reading
from sowctl.values.fields import Number, Slot
from sowctl.values.paths import parse_path
from sowctl.values.scalars import choose_written_scalar, is_shortest_text
from tests.support.examples import examples
from tests.support.instances import Lab

TEXTS = tuple(
    b"74762E102 1E400 00123 123 +5 5 .5 5. 0.5 0042 42 -0 0 1.50 1.5 1.0 1 1e3 1000 9007199254740992 9007199254740993 "
    b"-9007199254740993 18446744073709551615 18446744073709551616 123456789012345678901234567890 0x1F Infinity NaN -7 "
    b"-007 0.00001 0.1 3.141592653589793 3.14159265358979312 123456789.123456 0.30000000000000004 true -0.0 -1.5 "
    b"999999999999999 1000000000000000 037833100 02134 1_000 1,000".decode().split()
)
NUMBERS = [
    *(123, 5, 0.5, 42, 0, 1.5, 1, 1000, 9007199254740992, -7, 0.1, 3.141592653589793, 123456789.123456),
    *(0.30000000000000004, -1.5, 999999999999999, 1000000000000000),
]
"""Those of them that are numbers."""
LIKE_NUMBERS = st.one_of(
    st.sampled_from(TEXTS),
    st.from_regex(r"[+-]?[0-9]{0,18}\.?[0-9]{0,18}([eE][+-]?[0-9]{1,3})?", fullmatch=True).filter(bool),
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)
SOURCES = {"fix": "1", "nvfix": "account", "xml": "r/account"}


def model(text: str) -> Any:
    """Return the JSON form of an untyped text: a number only if every reader of doubles gets the same text back."""
    if re.fullmatch(r"-?(0|[1-9][0-9]*)", text) and text != "-0":
        return int(text) if abs(int(text)) <= 2**53 else text
    if re.fullmatch(r"-?(0|[1-9][0-9]*)\.[0-9]*[1-9]", text):
        nearest = Decimal(repr(float(text)))
        plain = f"{nearest:f}"
        return float(text) if abs(nearest) >= Decimal("0.0001") and plain == text else text
    return text


def message(kind: str, key: str, text: str) -> bytes:
    if kind == "xml":
        return f"<r><id>{key}</id><account>{text}</account></r>".encode()
    tag = SOURCES[kind]
    return f"{'11' if kind == 'fix' else 'id'}={key}\x01{tag}={text}\x01".encode()


def test_the_shortest_text() -> None:
    assert [json.loads(text) for text in TEXTS if is_shortest_text(text.encode())] == NUMBERS


@given(LIKE_NUMBERS)
@settings(max_examples=examples(2000))
def test_a_text_is_written_as_a_number_only_where_that_says_all_of_it(text: str) -> None:
    wanted = model(text)
    for kind, path in SOURCES.items():
        payload = message(kind, "a", text)
        of_view = json.loads(get_type(kind).view(payload))
        assert (of_view["r"] if kind == "xml" else of_view)[path.removeprefix("r/")] == wanted
        # Read alone and with others: types are inferred for all messages together.
        for others in ([], [message(kind, "b", "1")], [message(kind, "b", "1.25")], [message(kind, "b", "x")]):
            rows, _ = get_type(kind).build_extractor([Slot(parse_path("/" + path), text=True)])([payload, *others])
            for target in ("json", "msgpack", "bflat"):
                made = get_type(target).build_message([(("a",), rows[0][0])])
                found = json.loads(get_type(target).view(made))["a"]
                assert (type(found), found) == (type(wanted), wanted)
            tagged = get_type("fix").build_message([(("1",), rows[0][0])])
            assert tagged == f"1={text}\x01".encode()


def config(kind: str) -> str:
    key, field = ("/r/id" if kind == "xml" else "/11" if kind == "fix" else "/id"), "/" + SOURCES[kind]
    views = ""
    for target in ("json", "msgpack", "bflat"):
        fields = f"[{kind}].[o].{field}"
        names = ("account", "most", "least", "any", "one", "chosen", "count")
        parts = (
            fields,
            f"MAX({fields})",
            f"MIN({fields})",
            f"ANY({fields})",
            f"UNIQUE({fields})",
            f"COALESCE({fields}, 0)",
            f"COUNT({fields})",
        )
        projection = "".join(f"<Field>{part} AS /{name}</Field>" for part, name in zip(parts, names, strict=True))
        views += (
            f"<View><Name>{target}</Name><MessageType>{target}</MessageType><UnderlyingTopic>[{kind}].[o]"
            f"</UnderlyingTopic><Projection>{projection}</Projection><Grouping><Field>{fields}</Field></Grouping></View>"
        )
    return (
        f"<AMPSConfig><Name>i</Name><SOW><Topic><Name>o</Name><MessageType>{kind}</MessageType><Key>{key}</Key>"
        f"<FileName>sow/%n.sow</FileName></Topic>{views}</SOW></AMPSConfig>"
    )


def groups(lab: Lab, name: str, columns: int) -> list[Any]:
    """Return the messages of a view as JSON; sources with at least ``columns`` records are read as columns."""
    instance = lab.open()
    assert instance.config is not None
    (entry,) = instance.config.find_entries(name)
    assert isinstance(entry, OtherEntry)

    def messages(moment: Any) -> list[Any]:
        with closing(open_computed(moment, entry)) as source:
            return [json.loads(get_type(name).view(value[-size:])) for value, size in _payloads(source)]

    with patch.object(VIEW_LIMITS, "min_column_records", columns):
        return run_at_instant(instance, entry, None, open_computed, messages)


def _payloads(source: Any) -> list[tuple[bytes, int]]:
    from sowctl.store.codec import extract_payloads

    return [(bytes(one), len(one)) for _, values in source.read_batches(100) for one in extract_payloads(values)]


@pytest.mark.parametrize("kind", SOURCES)
def test_groups_of_views_are_told_apart(make_lab: Callable[..., Lab], kind: str) -> None:
    lab = make_lab(config(kind))
    lab.publish("o", *[message(kind, f"k{number}", text) for number, text in enumerate(TEXTS)])
    lab.publish("o", *[message(kind, f"l{number}", text) for number, text in enumerate(TEXTS)])
    wanted = {text: model(text) for text in TEXTS}
    for name in ("json", "msgpack", "bflat"):
        for columns in (0, 1 << 60):
            found = groups(lab, name, columns)
            accounts = [one["account"] for one in found]
            assert sorted(map(repr, accounts)) == sorted(map(repr, wanted.values())), (name, columns)
            for one in found:
                assert {repr(one[field]) for field in ("most", "least", "any", "one", "chosen")} == {
                    repr(one["account"])
                }
                assert one["count"] == 2


@pytest.mark.parametrize("kind", ["fix", "nvfix"])
def test_grouped_queries_give_the_same_from_records_and_from_indexes(make_lab: Callable[..., Lab], kind: str) -> None:
    lab = make_lab(config(kind))
    field = SOURCES[kind]
    lab.publish("o", *[message(kind, f"k{number}", text) for number, text in enumerate(TEXTS)])
    asked = {"projection": f"/{field}, MAX(/{field}) AS /2", "grouping": f"/{field}"}
    first = lab.query("o", **asked)
    assert {one.split("\x01")[0].partition("=")[2] for one in first} == set(TEXTS)
    # The second and third time, the values may come from an index beside the store.
    assert lab.query("o", **asked) == lab.query("o", **asked) == first


def test_numbers_of_typed_messages_keep_their_texts() -> None:
    payload = b'{"a":1.50,"b":9007199254740993,"c":1e3,"d":"00123"}'
    slots = [Slot(parse_path("/" + name), text=True) for name in "abcd"]
    rows, _ = get_type("json").build_extractor(slots)([payload])
    made = get_type("json").build_message([((name,), value) for name, value in zip("abcd", rows[0], strict=True)])
    assert made == payload


def test_the_text_of_a_number_without_a_kind_is_written() -> None:
    assert choose_written_scalar(Number(123, b"00123", typed=False)) == b"00123"
    assert choose_written_scalar(Number(1.5, b"1.5", typed=False)) == 1.5
    assert choose_written_scalar(Number(1.5, b"1.50")) == Number(1.5, b"1.50")


def test_inferred_columns_of_identifiers_are_texts() -> None:
    fix = get_type("fix")
    views = [fix.view(f"1={text}\x0138={number}\x01".encode()) for number, text in enumerate(["00123", "123"])]
    assert infer_ddl(views) == "STRUCT<`1`: STRING, `38`: BIGINT>"
    assert infer_ddl([fix.view(b"44=185.25\x01"), fix.view(b"44=185.5\x01")]) == "STRUCT<`44`: DOUBLE>"
    assert infer_ddl([fix.view(b"48=74762E102\x01")]) == "STRUCT<`48`: STRING>"


def test_declared_columns_of_numbers_take_texts_of_types_without_kinds() -> None:
    pa = pytest.importorskip("pyarrow")
    fields = [("1", pa.int64()), ("44", pa.float64()), ("6", pa.decimal128(6, 2)), ("48", pa.string())]
    decoder = StructDecoder(pa.struct(fields))
    payload = b"1=00123\x0144=185.50\x016=7.50\x0148=74762E102\x01"
    wanted = {"1": 123, "44": 185.5, "6": Decimal("7.50"), "48": "74762E102"}
    assert decoder.decode_payloads([payload, payload], get_type("fix")).to_pylist() == [wanted, wanted]
    xml = StructDecoder(pa.struct([("r", pa.struct([("a", pa.list_(pa.float64()))]))]))
    assert xml.decode_payloads([b"<r><a>1.50</a><a>2</a></r>"], get_type("xml")).to_pylist() == [
        {"r": {"a": [1.5, 2.0]}}
    ]
    assert xml.decode_payloads([b"<r><a>x</a><a>1e400</a></r>"], get_type("xml")).to_pylist() == [
        {"r": {"a": [None, None]}}
    ]


def test_inferred_columns_of_numbers_take_no_identifiers() -> None:
    pa = pytest.importorskip("pyarrow")
    # Only the first messages were sampled, and their accounts were numbers.
    decoder = StructDecoder(pa.struct([("1", pa.int64())]), strict=True)
    assert decoder.decode_payloads([b"1=123"], get_type("fix")).to_pylist() == [{"1": 123}]
    with pytest.raises(Misfit):
        decoder.decode_payloads([b"1=00123"], get_type("fix"))


def test_declared_columns_of_numbers_take_no_texts_of_json() -> None:
    pa = pytest.importorskip("pyarrow")
    decoder = StructDecoder(pa.struct([("a", pa.int64())]))
    assert decoder.decode_payloads([b'{"a":"123"}'], get_type("json")).to_pylist() == [{"a": None}]


def test_a_loose_difference_reads_numbers(make_lab: Callable[..., Lab]) -> None:
    sides = []
    for name, texts in (("before", ("1.50", "00123", "x", "7")), ("after", ("1.5", "123", "X", "8"))):
        lab = make_lab(config("fix"), name)
        lab.publish("o", *[message("fix", key, text) for key, text in zip("abcd", texts, strict=True)])
        sides.append(lab.open().topic("o"))
    for loose, count in ((False, 4), (True, 2)):
        assert len(list(sides[0].diff(sides[1], loose=loose))) == count


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [("1.50", "1.5", True), (["007", "x"], ["7", "x"], True), (["7"], ["7", "8"], False), ("x", "x ", False)],
)
def test_values_of_one_reading(before: Any, after: Any, same: bool) -> None:
    assert has_same_reading(before, after) is same
