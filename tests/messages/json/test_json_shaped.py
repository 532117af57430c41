"""Columns of messages of few shapes: always equal to the result of the row reader for the same messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sowctl.messages.json.limits import JSON_LIMITS
from sowctl.messages.json.type import JsonType
from sowctl.messages.template_columns import find_template_reader
from sowctl.messages.types import get_type
from sowctl.values.fields import Number, Row, Slot
from sowctl.values.paths import parse_path
from tests.support.examples import examples

JSON = JsonType()
PATHS = ("/a", "/b", "/o/x", "/o", "/a/x", "/none", "/\u00e9")
SLOTS = [Slot(parse_path(path), text=text) for path in PATHS for text in (False, True)]
ODD = (
    b"0", b"-0", b"-0.0", b"-0.00", b"0.0", b"1", b"-1", b"1.0", b"1.50", b"4.0484", b"1e5", b"1E-3",
    b"1e400", b"-1e999", b"9007199254740993",
    b"999999999999999999", b"1000000000000000000", b"9223372036854775808", b"18446744073709551616",
    b"123456789012345.6", b"1234567890123.45", b"0.1", b"5e-324", b"01", b"1.", b"+1", b"NaN",
    b"null", b"true", b"false", b'""', b'"a"', b'"1"', b'"EMEA"', b'"12345678"', b'"123456789"',
    b'"0123456789abcdef0123456789abcdef"', b'"0123456789abcdef0123456789abcdefg"', '"é€"'.encode(), b'"\xff"',
    b'"a\\nb"', b'"\\u0061"', b'"\\ud800"', b'"a\tb"', b'"\x7f"', b"[]", b"[1]", b"[1,2]",
    b"{}", b'{"x":1}', b'{"x":null}',
)  # fmt: skip
SHAPES = (
    b'{"a":%s,"b":%s}',
    b'{"b":%s,"a":%s}',
    b'{"a":%s}%.0s',
    b'{"a": %s, "o": {"x": %s}}',
    b'{"o":{"x":%s,"y":[1,"z",%s]},"a":7}',
    '{"é":%s,"z":%s}'.encode(),
)
WRONG = (
    b'{"a":%s,"a":%s}',
    b'{"o":{"x":%s},"o":{"x":%s}}',
    b'{"\\u0061":%s,"b":%s}',
    b' {"a":%s,"b":%s}',
    b'{"a":%s,"b":%s}\n',
    b'{"a":%s,"b":%s}{',
    b'{"a":%s,"b":%s',
    b"[%s,%s]",
    b"%s%.0s",
    b"%.0s%.0s",
)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of any size are read by shapes."""
    monkeypatch.setattr(JSON_LIMITS, "min_template_messages", 1)


def spelled(row: Row) -> list[object]:
    """The values of a row, such that values are equal only if they mean the same in every respect. The empty text is
    NULL.
    """
    found: list[object] = []
    for value in row:
        known = value.encode() if isinstance(value, str) else value
        known = None if known == b"" else known
        found.append((type(known), repr(known)) if not isinstance(known, Number) else ("number", repr(known)))
    return found


def check(messages: Sequence[bytes], slots: Sequence[Slot] = SLOTS) -> int:
    """Compare both readings of messages; return the number of those read by shapes."""
    rows, refused = JSON.build_extractor(slots)(messages)
    read = find_template_reader(JSON, slots)
    assert read is not None
    found = read.read_columns(messages)
    if found is None:
        return 0
    pieces, left = found
    seen = left.tolist()
    for some, batch in pieces:
        places = range(len(messages)) if some is None else some.tolist()
        for place, values in zip(places, batch.read_rows(), strict=True):
            assert spelled(values) == spelled(rows[place]), messages[place]
        seen += places
    assert sorted(seen) == list(range(len(messages)))
    assert {one.index for one in refused} <= set(left.tolist())
    return len(messages) - len(left)


@st.composite
def blocks(draw: st.DrawFn) -> list[bytes]:
    """Messages of a few shapes with mostly plain values, and unusual ones among them."""
    plain = draw(st.lists(st.sampled_from((b"1", b"-25", b"4.0484", b'"EMEA"', b'"x"', b"true", b"null")), min_size=2))
    values = st.one_of(*[st.sampled_from(plain)] * 9, st.sampled_from(ODD))
    shapes = draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=2))
    forms = st.one_of(*[st.sampled_from(shapes)] * 9, st.sampled_from(SHAPES + WRONG))
    size = draw(st.integers(1, 40))
    return [draw(forms) % (draw(values), draw(values)) for _ in range(size)]


@settings(max_examples=examples(400), deadline=None)
@given(messages=blocks())
@example(messages=[b'{"a":1}'])
def test_shapes_say_what_rows_say(messages: list[bytes]) -> None:
    check(messages)
    check(messages, [slot for slot in SLOTS if not slot.text])


@pytest.mark.parametrize("odd", ODD)
def test_every_odd_value_among_plain_ones(odd: bytes) -> None:
    for plain in (b"1", b"2.5", b'"x"', b"null"):
        one = [b'{"a":%s,"b":%d,"o":{"x":3}}' % (plain, number) for number in range(6)]
        check([*one, b'{"a":%s,"b":1,"o":{"x":3}}' % odd, *one])
        check([*one, b'{"a":%s,"b":1,"o":%s}' % (plain, odd), *one])
    check([b'{"a":%s}' % odd] * 3)


@pytest.mark.parametrize("wrong", WRONG)
def test_every_wrong_message_among_right_ones(wrong: bytes) -> None:
    right = [b'{"a":%d,"b":"%d"}' % (number, number) for number in range(6)]
    assert check([*right, wrong % (b"1", b'"2"'), *right], [SLOTS[0]]) in (0, 12, 13)


def test_messages_cannot_lend_each_other_bytes() -> None:
    whole = b'{"a":1,"b":"x"}'
    for cut in range(len(whole) + 1):
        check([whole, whole[:cut], whole[cut:], whole])
    check([whole, whole + whole, b"", whole])
    check([whole, whole + b"\n" + whole, whole])


def test_most_of_what_a_publisher_sends_is_read_by_shapes() -> None:
    slots = [Slot(parse_path(path)) for path in ("/region", "/price", "/trader/id", "/on", "/none")]
    messages = [
        json.dumps(
            {"region": f"r{n % 4}" * (n % 9), "price": n / 8 or 1, "trader": {"id": n}, "on": n % 3 == 0}
        ).encode()
        for n in range(200)
    ]
    # Integral prices are written with a point, too; the first one is not.
    assert check(messages, slots) == 200
    assert check([b'{"region":null}', *messages], slots) == 201


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("texts", [("B", "S"), ("S", "S", "B"), ("xyz", "aaa", "aaa"), ("", "a"), ("123456789", "a")])
def test_few_messages_of_a_shape_among_many(texts: Sequence[str], count: int) -> None:
    """The texts of few messages are copied out of the text of all messages."""
    messages = [b'{"b":%d}' % number for number in range(6000)]
    # The shape of the message at two thirds is tried first, and on all messages.
    for number in range(count):
        messages[4000 + number] = b'{"a":"%s"}' % texts[number % len(texts)].encode()
    assert check(messages) == 6000


@settings(max_examples=examples(100), deadline=None)
@given(messages=blocks(), random=st.randoms(use_true_random=False))
def test_lines_with_spaces_in_front_in_another_order(messages: list[bytes], random: Any) -> None:
    messages = [one.strip() for one in messages]
    order = random.sample(range(len(messages)), len(messages))
    lines = b"".join(b" " * (place % 5) + messages[place] + b"\n" for place in order)
    expected, found = find_template_reader(JSON, SLOTS), find_template_reader(JSON, SLOTS)
    assert expected is not None
    assert found is not None
    plain, moved = expected.read_columns(messages), found.read_columns(messages, (lines, np.argsort(order)))
    assert (plain is None) == (moved is None)
    if plain is None or moved is None:
        return
    assert plain[1].tolist() == moved[1].tolist()
    for (places, one), (others, other) in zip(plain[0], moved[0], strict=True):
        assert (places is None) == (others is None)
        assert places is None or others is None or places.tolist() == others.tolist()
        assert list(map(spelled, one.read_rows())) == list(map(spelled, other.read_rows()))


def test_which_slots_are_read_by_shapes_at_all() -> None:
    assert find_template_reader(JSON, [Slot(parse_path("/a"), listed=True)]) is None
    assert find_template_reader(JSON, [Slot(parse_path("/a[1]"))]) is None
    assert find_template_reader(JsonType(fast=False), SLOTS) is None
    assert find_template_reader(get_type("nvfix"), SLOTS) is None


def test_a_message_that_is_too_large_is_left_to_the_reader_of_rows() -> None:
    kind = JsonType(max_message=40)
    read = find_template_reader(kind, SLOTS)
    assert read is not None
    assert read.read_columns([b'{"a":1}', b'{"a":"%b"}' % (b"x" * 40)] * 5) is None
    found: Any = read.read_columns([b'{"a":1}'] * 20) or read.read_columns([b'{"a":1}'] * 20)
    assert len(found[1]) == 0


def test_data_that_shapes_do_not_fit_is_tried_seldom() -> None:
    read = find_template_reader(JSON, SLOTS[:1])
    assert read is not None
    odd = [b'{"a":[%d]}' % number for number in range(10)]
    tried = 0
    for _ in range(200):
        if not read.prefers_rows(len(odd)):
            tried += 1
            assert read.read_columns(odd) is None
    assert 3 <= tried <= 12
