"""Message type struct: layouts, values, and definitions that cannot be used."""

from __future__ import annotations

import json
import struct
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.errors import ConfigError, InputError
from sowctl.messages.base import MessageType
from sowctl.messages.definition import TypeDefinition
from sowctl.messages.types import get_type
from sowctl.values.fields import Slot, SlotValue, ValueList
from sowctl.values.paths import parse_path


def of(*fields: str) -> MessageType:
    return get_type(TypeDefinition("s", "struct", fields=fields, place="c.xml:3"))


def one(kind: MessageType, payload: bytes, path: str, listed: bool = False) -> SlotValue:
    rows, refusals = kind.build_extractor([Slot(parse_path(path), listed=listed)])([payload])
    assert not refusals
    return rows[0][0]


STANDARD = {
    "c": (1, b"x"), "b": (1, -5), "B": (1, 250), "?": (1, True), "h": (2, -300), "H": (2, 60000), "i": (4, -70000),
    "I": (4, 4000000000), "l": (4, -7), "L": (4, 7), "q": (8, -(2**62)), "Q": (8, 2**64 - 1), "n": (8, -1),
    "N": (8, 2**64 - 1), "f": (4, 1.5), "d": (8, 0.1),
}  # fmt: skip


@pytest.mark.parametrize("code", STANDARD)
@pytest.mark.parametrize("order", ["", "<", ">", "=", "@"])
def test_every_code_has_its_standard_size_in_every_order(code: str, order: str) -> None:
    size, value = STANDARD[code]
    mark = {"": "<", "=": "<", "@": "<"}.get(order, order) if sys.byteorder == "little" else order or "<"
    payload = struct.pack(mark + {"n": "q", "N": "Q", "l": "i", "L": "I"}.get(code, code), value) + b"!"
    kind = of(f"/a = {order}{code}", "/z=1s")
    assert len(payload) == size + 1
    assert one(kind, payload, "/a") == value
    assert type(one(kind, payload, "/a")) is type(value)
    assert one(kind, payload, "/z") == b"!"
    assert [refusal.offset for refusal in kind.check_payloads([payload[:-1]])] == [size]


@given(st.binary(max_size=6), st.binary(max_size=6), st.binary(max_size=5), st.integers(-5, 5), st.integers(-5, 5))
def test_texts_of_three_kinds_and_arrays(s: bytes, upto: bytes, counted: bytes, first: int, second: int) -> None:
    kind = of("/s = 6s", "/S=6S", "/p = 6p", "/pad = 2x", "/l = >2h", "/l = b")
    payload = struct.pack("<6s6s6p2x", s, upto, counted) + struct.pack(">2h", first, second) + struct.pack("b", 9)
    assert one(kind, payload, "/s") == s.ljust(6, b"\0")
    assert (one(kind, payload, "/S") or b"") == upto.partition(b"\0")[0]
    assert (one(kind, payload, "/p") or b"") == counted
    assert one(kind, payload, "/pad") is None
    assert one(kind, payload, "/l") == ValueList((first, second, 9))
    assert one(kind, payload, "/l[2]") == 9
    assert one(kind, payload, "/l[3]") is None
    assert one(kind, payload + b"ignored", "/l[1]") == second
    texts, _ = kind.build_key_extractor([parse_path("/l"), parse_path("/pad")])([payload])
    assert texts == [(str(first).encode(), None)]


def test_names_of_several_steps_are_objects() -> None:
    kind = of("/o/price = d", "/o/[odd] = b".replace("[odd]", "qty"), "/id = b")
    payload = struct.pack("<dbb", 90.5, 3, 7)
    assert one(kind, payload, "/o/price") == 90.5
    assert one(kind, payload, "/o") == ValueList((), True)
    assert one(kind, payload, "/o[0]/qty[0]") == 3
    assert one(kind, payload, "/o[1]/qty") is None
    assert one(kind, payload, "/o[1]") is None
    assert one(kind, payload, "/id/below") is None
    assert json.loads(kind.view(payload)) == {"o": {"price": 90.5, "qty": 3}, "id": 7}
    assert json.loads(of("/a = 2b", "/a = ?", "/f = d").view(b"\1\2\1" + struct.pack("d", float("nan")))) == {
        "a": [1, 2, True],
        "f": None,
    }


def test_a_name_may_be_odd() -> None:
    assert one(of("[/odd name] = b"), b"\x05", "[/odd name]") == 5


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ((), "needs a Field"),
        (("price",), "is not a field"),
        (("/a = 4",), "is not a field"),
        (("a = d",), "not a field identifier"),
        (("/a[1] = d",), "no subscript"),
        (("/a = s",), "needs a count"),
        (("/a = 0S",), "needs a count"),
        (("/a = 0d",), "no value"),
        (("/a = e",), "unknown code e"),
        (("/a = 999999999d",), "count is too large"),
        (("/a = 60000000x", "/b = 60000000x"), "more than"),
        (("/a = d", "/a/b = d"), "/a is "),
    ],
)
def test_layouts_that_cannot_be_used(fields: tuple[str, ...], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        of(*fields)
    assert caught.value.code == "SOW-MSG-007"
    assert words in caught.value.message
    assert caught.value.place == "c.xml:3"


@given(st.binary(max_size=12))
def test_what_is_long_enough_is_a_message(payload: bytes) -> None:
    kind = of("/a = I", "/b = 2S")
    refusals = kind.check_payloads([payload])
    found: Any = one(kind, payload, "/a") if len(payload) >= 6 else None
    assert bool(refusals) == (len(payload) < 6)
    assert found is None or found == int.from_bytes(payload[:4], "little")


def test_a_delta_that_is_too_short_is_refused() -> None:
    kind = of("/a = i", "/b = i")
    assert kind.merge_delta(bytes(8), b"\1" * 8) == b"\1" * 8
    with pytest.raises(InputError) as caught:
        kind.merge_delta(bytes(8), bytes(7))
    assert caught.value.code == "SOW-MSG-002"
