"""JSON arrays and objects over several lines as inputs: their messages, the positions, and the ends of inputs."""

from __future__ import annotations

import io
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.errors import SowError
from sowctl.messages.framing.frames import FrameReader
from tests.support.examples import examples

Found = tuple[list[tuple[bytes, int, int]], str | None]


class Pieces(io.RawIOBase):
    """A stream that returns a fixed number of bytes at a time."""

    def __init__(self, data: bytes, size: int) -> None:
        self._data = io.BytesIO(data)
        self._size = size

    def read1(self, _: int = -1) -> bytes:
        return self._data.read(self._size)


def read(data: bytes, framing: str = "json", size: int = 1 << 20, **options: Any) -> Found:
    """The messages with line and offset, and the code of the error that ends the input."""
    reader = FrameReader(Pieces(data, size), framing, kind="json", **options)  # type: ignore[arg-type]
    found: list[tuple[bytes, int, int]] = []
    try:
        for chunk in reader:
            found += zip(chunk.payloads, *chunk.places, strict=True)
    except SowError as problem:
        return found, problem.code
    return found, None


@pytest.mark.parametrize(
    ("data", "messages"),
    [
        (b'[{"a":1},{"b":[{"x":"},{"},{"y":2}]}]', [(b'{"a":1}', 1, 1), (b'{"b":[{"x":"},{"},{"y":2}]}', 1, 9)]),
        (b'[\n{"a":1},\n{"b":2}\n]\n', [(b'{"a":1}', 2, 2), (b'{"b":2}', 3, 11)]),
        (b'\xef\xbb\xbf [{"a":  1}]', [(b'{"a":  1}', 1, 5)]),
        (b'[\n  {\n    "a": 1.10,\n    "b": [\n      1\n    ]\n  }\n]\n', [(b'{"a":1.10,"b":[1]}', 2, 4)]),
        (b'{\n  "a": 1\n}\n', [(b'{"a":1}', 1, 0)]),
        (b'{"a": 1,\n "b": 2}\n{\n"a":3}', [(b'{"a":1,"b":2}', 1, 0), (b'{"a":3}', 3, 18)]),
        (b'[{"a":1}]\n[{"a":2},5]\n', [(b'{"a":1}', 1, 1), (b'{"a":2}', 2, 11), (b"5", 2, 19)]),
        (b"[]\n", []),
        (b"", []),
        # One message per line, of any kind.
        (b'{"a":1}\n\n{"b":2}', [(b'{"a":1}', 1, 0), (b'{"b":2}', 3, 9)]),
        (b"[1,2]\n[3]\n", [(b"[1,2]", 1, 0), (b"[3]", 2, 6)]),
        (b'[]\n{"a":1}\n', [(b"[]", 1, 0), (b'{"a":1}', 2, 3)]),
        (b'{"a":\n{"a":1}\n{"a":2}\n', [(b'{"a":', 1, 0), (b'{"a":1}', 2, 6), (b'{"a":2}', 3, 14)]),
        (b'{"a":"x\n{"a":1}\n', [(b'{"a":"x', 1, 0), (b'{"a":1}', 2, 8)]),
        (b'{"a":1', [(b'{"a":1', 1, 0)]),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1 << 20])
def test_how_an_input_begins_says_what_a_message_is(
    data: bytes, messages: list[tuple[bytes, int, int]], size: int
) -> None:
    assert read(data, size=size) == (messages, None)


@pytest.mark.parametrize(
    ("data", "count", "code"),
    [
        (b'[{"a":1},{"b":}]', 1, "SOW-INP-008"),
        (b'[{"a":1} {"b":1}]', 1, "SOW-INP-008"),
        (b'[{"a":1},]', 1, "SOW-INP-008"),
        (b'[{"a":1},{"a":2}', 2, "SOW-INP-002"),
        (b'[{"a":1},{"a":', 1, "SOW-INP-002"),
        (b'{\n"a":1}\n{"a"', 1, "SOW-INP-002"),
    ],
)
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_what_is_no_json_ends_the_input_behind_what_stood_before_it(
    data: bytes, count: int, code: str, size: int
) -> None:
    found, ended = read(data, size=size)
    assert (len(found), ended) == (count, code)


def test_an_element_that_is_too_long() -> None:
    long = b'{"a":"%b"}' % (b"x" * 40)
    assert read(b'[{"a":1},%b,{"a":2}]' % long, max_message=20)[0] == [(b'{"a":1}', 1, 1), (b'{"a":2}', 1, 58)]
    found, code = read(b'[{"a":1},{"a":"' + b"x" * (4 << 20), max_message=20)
    assert (len(found), code) == (1, "SOW-INP-003")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text('ab"\\{}[],\n\u00e9\U0001f600', max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('a"}', max_size=2), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(st.text("abc", max_size=2), VALUES, max_size=4), min_size=1, max_size=6)


@settings(max_examples=examples(150), deadline=None)
@given(OBJECTS, st.sampled_from([None, 1, 2]), st.booleans(), st.integers(1, 40))
def test_the_elements_of_an_array_are_its_messages(
    objects: list[dict[str, Any]], indent: int | None, ascii: bool, size: int
) -> None:
    data = json.dumps(objects, indent=indent, ensure_ascii=ascii).encode()
    found, code = read(data, size=size)
    assert code is None
    assert [json.loads(payload) for payload, _, _ in found] == objects
    assert not any(b"\n" in payload for payload, _, _ in found)
    for payload, line, offset in found:
        assert line == data.count(b"\n", 0, offset) + 1
        assert data[offset : offset + 1] == payload[:1]


@settings(max_examples=examples(150), deadline=None)
@given(OBJECTS, st.sampled_from([b"\n", b"\n\n", b"\r\n"]), st.booleans(), st.integers(1, 40))
def test_objects_in_lines_are_read_as_lines(objects: list[dict[str, Any]], end: bytes, last: bool, size: int) -> None:
    data = end.join(json.dumps(one).encode() for one in objects) + (end if last else b"")
    assert read(data, size=size) == read(data, "lines")


def test_a_large_array_is_not_read_as_a_whole() -> None:
    class Endless(io.RawIOBase):
        count = 0

        def read1(self, _: int = -1) -> bytes:
            self.count += 1
            return b"[" * (self.count == 1) + b'{"id":1,"text":"%b"},' % (b"x" * 100) * 8000

    reader = FrameReader(Endless(), "json", kind="json")  # type: ignore[arg-type]
    tracemalloc.start()
    for _ in range(50):
        assert reader.poll() is not None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 << 20
