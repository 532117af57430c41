"""Envelopes: the data are returned byte for byte, metadata as values, and ambiguous input is refused with a reason."""

from __future__ import annotations

import base64
import io
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sowctl.messages.framing.envelope import Envelope, EnvelopeRefused, open_envelope, open_envelope_exactly
from sowctl.messages.framing.frames import FrameReader
from tests.support.examples import examples

FULL = {
    "topic": "orders",
    "message_type": "json",
    "sow_key": "18446744073709551615",
    "timestamp": "2026-01-02T03:04:05.000006Z",
    "expiration": "2026-01-02T03:05:05.000006Z",
    "correlation_id": "é/1",
    "client": "c1",
    "sequence": 2**64 - 1,
    "txid": 0,
    "bookmark": "1|2|",
}


def test_every_member() -> None:
    line = json.dumps(FULL).encode()[:-1] + b', "data": {"a": 1.50, "topic":"x"} }'
    payload, envelope = open_envelope(line)
    assert payload == b'{"a": 1.50, "topic":"x"}'
    assert {name: getattr(envelope, name) for name in FULL} == FULL
    assert open_envelope(line) == open_envelope_exactly(line)


@pytest.mark.parametrize("name", ["topic", "sow_key", "correlation_id", "client", "data_base64"])
def test_half_a_surrogate_pair_is_no_metadata(name: str) -> None:
    with pytest.raises(EnvelopeRefused, match=f"'{name}'") as caught:
        open_envelope(b'{"%b":"\\ud800","data":1}' % name.encode())
    assert caught.value.code == "SOW-IDN-010"
    assert open_envelope('{"topic":"\ufffd","data":1}'.encode())[1].topic == "\ufffd"


def test_null_is_as_good_as_absent() -> None:
    line = json.dumps(dict.fromkeys(FULL) | {"data_base64": None, "data": None}).encode()
    assert open_envelope(line) == (b"null", Envelope()) == open_envelope_exactly(line)


DATA = [
    b"1",
    b"1.50",
    b"-0",
    b"1e999",
    b'"x"',
    b'"\\ud800"',
    b"null",
    b"true",
    b"[1, 2]",
    b'{ "data" : {"data":1} }',
    b"64",
]


@pytest.mark.parametrize("data", [*DATA, b'"topic"', b'"data"', b'{"topic":1,"client":2,"data_base64":3}', b"9" * 5000])
def test_data_keeps_its_bytes(data: bytes) -> None:
    for line in (
        b'{"data":%b}',
        b' {"topic":"T" , "data" : %b , "sequence":64}',
        b'{"sequence":1,"data":%b,"txid":1.0e0}',
    ):
        if b"1.0e0" in line:
            with pytest.raises(EnvelopeRefused, match="txid"):
                open_envelope(line % data)
        else:
            assert open_envelope(line % data)[0] == data


REFUSED = [
    (b"", "SOW-INP-010"),
    (b"[]", "SOW-INP-010"),
    (b'{"data":1', "SOW-INP-010"),
    (b'{"data":"\xff"}', "SOW-INP-010"),
    (b'{"data":1}{"data":1}', "SOW-INP-010"),
    (b'{"data":' + b"[" * 257 + b"]" * 257 + b"}", "SOW-INP-010"),
    (b'{"data":1,"Topic":"x"}', "SOW-INP-011"),
    (b'{"data":1,"":1}', "SOW-INP-011"),
    (b'{"data":1,"data":1}', "SOW-INP-012"),
    (b'{"data":"topic","topic":"a","topic":"b"}', "SOW-INP-012"),
    (b'{"topic":"a","t\\u006fpic":"b","data":1}', "SOW-INP-012"),
    (b'{"topic":"topic","topic":"b","data":"topic"}', "SOW-INP-012"),
    (b'{"data":{"x":1},"data":{"x":1}}', "SOW-INP-012"),
    (b'{"data":1,"topic":5}', "SOW-INP-013"),
    (b'{"data":1,"sow_key":5}', "SOW-INP-013"),
    (b'{"data":1,"sequence":"5"}', "SOW-INP-013"),
    (b'{"data":1,"sequence":-1}', "SOW-INP-013"),
    (b'{"data":1,"sequence":18446744073709551616}', "SOW-INP-013"),
    (b'{"data":1,"txid":1.0}', "SOW-INP-013"),
    (b'{"data":1,"txid":true}', "SOW-INP-013"),
    (b'{"data":1,"expiration":true}', "SOW-INP-013"),
    (b'{"data":1,"expiration":1e999}', "SOW-INP-013"),
    (b'{"data":1,"expiration":[1]}', "SOW-INP-013"),
    (b'{"data_base64":5}', "SOW-INP-013"),
    (b"{}", "SOW-INP-014"),
    (b'{"topic":"t"}', "SOW-INP-014"),
    (b'{"data":1,"data_base64":"AA=="}', "SOW-INP-014"),
    (b'{"data_base64":"AA"}', "SOW-INP-015"),
    (b'{"data_base64":"A A="}', "SOW-INP-015"),
    (b'{"data_base64":"\\u00e9AA="}', "SOW-INP-015"),
]


@pytest.mark.parametrize(("line", "code"), REFUSED)
def test_refusals(line: bytes, code: str) -> None:
    for way in (open_envelope, open_envelope_exactly):
        with pytest.raises(EnvelopeRefused) as caught:
            way(line)
        assert caught.value.code == code


def test_data_may_be_as_deep_as_a_message() -> None:
    data = b"[" * 256 + b"]" * 256
    assert open_envelope(b'{"data":%b}' % data)[0] == data


VALUES = [
    *[d.decode() for d in DATA],
    '"topic"',
    '"client"',
    '"AA=="',
    "5",
    '"\\u0074opic"',
    "null",
    "é",
    '":"',
    '":x"',
    "{}",
]
VALUES += ['{"client":1}', "[64]", '["topic","a"]', '","', '"data"', "[]"]
NAMES = ["topic", "client", "data", "data", "data_base64", "sequence", "expiration", "t\\u006fpic", "x", ":"]
MEMBERS = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)), max_size=5)


@given(MEMBERS, st.sampled_from(["", " ", "\t", "\r"]))
@settings(max_examples=examples(500))
@example([("data", '"client"'), ("client", '"a"'), ("client", '"b"')], "")
@example([("data", "64"), ("data_base64", "null"), ("data_base64", "null")], "")
@example([("data", "{}"), ("topic", '"{}"'), ("topic", '"a"')], " ")
def test_the_fast_way_agrees_with_the_exact_one(members: list[tuple[str, str]], space: str) -> None:
    line = ("{" + ",".join(f'{space}"{name}"{space}:{value}{space}' for name, value in members) + "}").encode()
    results = []
    for way in (open_envelope, open_envelope_exactly):
        try:
            results.append(repr(way(line)))
        except EnvelopeRefused as problem:
            results.append((problem.code, problem.message))
    assert results[0] == results[1]


def test_a_stream_of_envelopes() -> None:
    lines = [
        b'{"data":{"a":1}}',
        b"",
        b'{"topic":"t","data_base64":"' + base64.b64encode(b"\0\xff\n") + b'"}',
        b'{"data":1,"extra":2}',
        b'{"data":"' + b"x" * 9 + b'"}',
        b'{"data":5,"sequence":3}',
    ]
    (chunk,) = FrameReader(io.BytesIO(b"\r\n".join([*lines, b""])), "envelope", max_message=10)
    assert chunk.payloads == [b'{"a":1}', b"\0\xff\n", b"5"]
    assert chunk.envelopes == [Envelope(), Envelope(topic="t"), Envelope(sequence=3)]
    starts = [sum(len(line) + 2 for line in lines[:i]) for i in range(len(lines))]
    assert list(chunk.places[0]) == [1, 3, 6]
    assert list(chunk.places[1]) == [starts[0], starts[2], starts[5]]
    assert chunk.blank == 1
    assert [(f.line, f.offset, f.code, f.payload) for f in chunk.refused] == [
        (4, starts[3], "SOW-INP-011", lines[3]),
        (5, starts[4], "SOW-INP-001", lines[4]),
    ]


def test_a_line_may_be_longer_than_its_message() -> None:
    payload = b"x" * 100_000
    line = b'{"data_base64":"' + base64.b64encode(payload) + b'"}\n'
    (chunk,) = FrameReader(io.BytesIO(line), "envelope", max_message=100_000)
    assert chunk.payloads == [payload]
    (chunk,) = FrameReader(io.BytesIO(line), "envelope", max_message=99_999)
    assert [f.code for f in chunk.refused] == ["SOW-INP-001"]
