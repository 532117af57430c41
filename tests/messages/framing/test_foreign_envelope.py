"""Records of Kafka and change events of Debezium: the message, its metadata, and deletions."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.messages.framing.envelope import EnvelopeFormat, EnvelopeRefused, open_envelope, open_envelope_exactly
from sowctl.messages.framing.foreign_envelope import (
    ForeignEnvelope,
    find_key_members,
    find_key_text,
    guess_envelope_form,
    open_foreign_envelope,
)
from sowctl.messages.framing.frames import FrameReader
from tests.support.examples import examples

KAFKA = EnvelopeFormat("kafka")
DEBEZIUM = EnvelopeFormat("debezium")
AT = 1_767_607_200_000
AT_TEXT = "2026-01-05T10:00:00.000000Z"


def read(form: EnvelopeFormat, line: Any) -> tuple[bytes, ForeignEnvelope]:
    found = open_foreign_envelope(line if isinstance(line, bytes) else json.dumps(line).encode(), form)
    assert found is not None
    payload, envelope = found
    assert isinstance(envelope, ForeignEnvelope)
    return payload, envelope


def test_record_as_kcat_prints_it() -> None:
    row = {
        "topic": "orders",
        "partition": 3,
        "offset": 17,
        "tstype": "create",
        "ts": AT,
        "broker": 1,
        "headers": ["trace", "x"],
        "key": "10417",
        "payload": '{"orderId": 1.50}',
    }
    payload, envelope = read(KAFKA, row)
    assert payload == b'{"orderId": 1.50}'
    assert (envelope.topic, envelope.timestamp, envelope.sow_key) == ("orders", AT_TEXT, "10417")
    assert (envelope.client, envelope.sequence, envelope.command, envelope.is_numbered) == (None, None, None, False)


@pytest.mark.parametrize("name", ["payload", "value"])
@pytest.mark.parametrize(
    ("value", "payload"),
    [
        (b'{"a" : 1.50}', b'{"a" : 1.50}'),
        (b"[1]", b"[1]"),
        (b"7", b"7"),
        (b'"{\\"a\\": 1}"', b'{"a": 1}'),
        (b'"\\u00e9"', "é".encode()),
        (b'""', b""),
        (b'{"schema":{"type":"struct"},"payload":{"a":1}}', b'{"a":1}'),
        (b'"{\\"schema\\":null,\\"payload\\":{\\"a\\":1}}"', b'{"a":1}'),
        (b'{"schema":1,"payload":{"a":1},"more":2}', b'{"schema":1,"payload":{"a":1},"more":2}'),
    ],
)
def test_message_of_a_record(name: str, value: bytes, payload: bytes) -> None:
    assert read(KAFKA, b'{"topic":"t","%b":%b}' % (name.encode(), value))[0] == payload


@pytest.mark.parametrize(
    ("row", "at"),
    [
        ({"ts": AT}, AT_TEXT),
        ({"timestamp": AT, "ts": 1}, AT_TEXT),
        ({"timestamp": "20260105T100000Z"}, "20260105T100000Z"),
        ({"ts": -1}, None),
        ({"ts": 0, "tstype": "unknown"}, None),
        ({}, None),
    ],
)
def test_time_of_a_record(row: dict[str, Any], at: str | None) -> None:
    assert read(KAFKA, {"value": 1, **row})[1].timestamp == at


def test_null_message_deletes_the_record_of_the_key() -> None:
    payload, envelope = read(KAFKA, {"topic": "t", "key": {"id": 7}, "payload": None})
    assert (payload, envelope.command, envelope.record_key) == (b"", "sow_delete", '{"id": 7}')


def test_offsets_number_a_partition() -> None:
    form = EnvelopeFormat("kafka", client="prod")
    envelope = read(form, {"topic": "t", "partition": 2, "offset": 0, "value": 1})[1]
    assert (envelope.client, envelope.sequence, envelope.is_numbered) == ("prod/t-2", 1, True)
    assert read(form, {"topic": "t", "value": 1})[1].sequence is None


KEYS = [
    ("7", None, "7"),
    ('"7"', None, "7"),
    ("C-1", None, "C-1"),
    ('{"id":7}', b'{"id":7}', '{"id":7}'),
    ('{"schema":{"type":"struct"},"payload":{"id":7}}', b'{"id":7}', '{"id":7}'),
    ('{"schema":{"type":"int64"},"payload":7}', None, "7"),
    ('{"id":"a"}', b'{"id":"a","_id":"a"}', '{"id":"a"}'),
    (
        '{"id":"{\\"$oid\\":\\"5f\\"}"}',
        b'{"id":"{\\"$oid\\":\\"5f\\"}","_id":{"$oid":"5f"}}',
        '{"id":"{\\"$oid\\":\\"5f\\"}"}',
    ),
    ("{not json", None, "{not json"),
    ('"half', None, '"half'),
]


@pytest.mark.parametrize(("key", "members", "text"), KEYS)
def test_keys(key: str, members: bytes | None, text: str) -> None:
    assert find_key_members(key) == members
    assert find_key_text(key) == text


ROW = {"id": 1, "qty": 5}
SOURCE = {"connector": "postgresql", "db": "shop", "schema": "public", "table": "orders", "ts_ms": AT}


@pytest.mark.parametrize(
    ("op", "before", "after", "payload", "command"),
    [
        ("c", None, ROW, ROW, None),
        ("r", None, ROW, ROW, None),
        ("u", {"id": 1, "qty": 4}, ROW, ROW, None),
        ("d", ROW, None, ROW, "sow_delete"),
    ],
)
def test_change_events(op: str, before: Any, after: Any, payload: Any, command: str | None) -> None:
    event = {"before": before, "after": after, "source": SOURCE, "op": op, "ts_ms": AT + 9, "transaction": None}
    record = {"topic": "s.public.orders", "partition": 0, "offset": 4, "key": '{"id":1}', "ts": 5}
    lines = [
        event,
        {"schema": {"type": "struct"}, "payload": event},
        {**record, "payload": json.dumps(event)},
        {**record, "value": {"schema": {}, "payload": event}},
    ]
    for line in lines:
        found, envelope = read(DEBEZIUM, line)
        assert json.loads(found) == payload
        assert (envelope.topic, envelope.timestamp, envelope.command) == ("orders", AT_TEXT, command)
        assert envelope.record_key is None


MONGO = {"connector": "mongodb", "collection": "orders", "ts_ms": AT}


@pytest.mark.parametrize("key", ['{"id":"7"}', {"id": "7"}, {"schema": {}, "payload": {"id": "7"}}])
def test_a_deletion_without_before_is_of_the_key(key: Any) -> None:
    event = {"before": None, "after": None, "source": MONGO, "op": "d"}
    for value in (json.dumps(event), event, {"schema": {}, "payload": event}):
        found, envelope = read(DEBEZIUM, {"topic": "s.orders", "key": key, "value": value})
        assert (found, envelope.topic, envelope.command) == (b"", "orders", "sow_delete")
        assert json.loads(find_key_members(envelope.record_key or "") or b"") == {"id": "7", "_id": 7}
    for line in (event, {"topic": "s.orders", "key": None, "value": event}):
        with pytest.raises(EnvelopeRefused, match=r"before.*key") as refused:
            read(DEBEZIUM, line)
        assert refused.value.code == "SOW-INP-014"


def test_times_of_change_events_fall_back() -> None:
    event = {"after": ROW, "op": "c", "ts_ms": AT}
    assert read(DEBEZIUM, event)[1].timestamp == AT_TEXT
    assert read(DEBEZIUM, event | {"source": {"ts_ms": 0}})[1].timestamp == AT_TEXT
    assert read(DEBEZIUM, event | {"source": {"ts_us": AT * 1000 + 7, "ts_ms": AT}})[1].timestamp == (
        AT_TEXT.replace("000Z", "007Z")
    )


@pytest.mark.parametrize("line", [b"null", b'{"topic":"t","key":"1","payload":null}'])
def test_tombstone_behind_a_deletion_says_nothing(line: bytes) -> None:
    assert open_foreign_envelope(line, DEBEZIUM) is None


REFUSED = [
    (KAFKA, b"[]", "SOW-INP-013"),
    (KAFKA, b'{"topic":', "SOW-INP-010"),
    (KAFKA, b'{"value":"\xff"}', "SOW-INP-010"),
    (KAFKA, b'{"topic":5,"value":1}', "SOW-INP-013"),
    (KAFKA, b'{"ts":99999999999999999,"value":1}', "SOW-INP-013"),
    (KAFKA, b'{"topic":"t"}', "SOW-INP-014"),
    (KAFKA, b'{"topic":"t","payload":null}', "SOW-INP-014"),
    (KAFKA, b'{"payload":1,"value":1}', "SOW-INP-014"),
    (KAFKA, b'{"payload":null,"payload_error":"no schema","key":"1"}', "SOW-INP-014"),
    (DEBEZIUM, b'{"id":1,"__deleted":"false"}', "SOW-INP-010"),
    (DEBEZIUM, b'{"op":"t","source":{"table":"t"}}', "SOW-INP-016"),
    (DEBEZIUM, b'{"op":"x","after":{}}', "SOW-INP-016"),
    (DEBEZIUM, b'{"op":"d","before":null}', "SOW-INP-014"),
    (DEBEZIUM, b'{"op":"c","after":null}', "SOW-INP-014"),
    (DEBEZIUM, b'{"payload":' * 9 + b"1" + b"}" * 9, "SOW-INP-010"),
]


@pytest.mark.parametrize(("form", "line", "code"), REFUSED)
def test_refusals(form: EnvelopeFormat, line: bytes, code: str) -> None:
    with pytest.raises(EnvelopeRefused) as caught:
        open_foreign_envelope(line, form)
    assert caught.value.code == code


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=examples(100), deadline=None)
@given(JSON.filter(lambda one: one is not None and not isinstance(one, str)), st.booleans())
def test_any_message_comes_out_as_it_went_in(value: Any, as_text: bool) -> None:
    text = json.dumps(value, ensure_ascii=False)
    line = '{"partition":0,"value":%s}' % (json.dumps(text) if as_text else text)
    found = open_foreign_envelope(line.encode(), KAFKA)
    assert found is not None
    wrapped = isinstance(value, dict) and value.keys() == {"schema", "payload"}
    assert wrapped or found[0] == text.encode()


@settings(max_examples=examples(200), deadline=None)
@given(st.binary(max_size=40) | JSON.map(lambda one: json.dumps(one).encode()), st.sampled_from([KAFKA, DEBEZIUM]))
def test_any_line_is_read_or_refused(line: bytes, form: EnvelopeFormat) -> None:
    try:
        open_foreign_envelope(line, form)
    except EnvelopeRefused as refused:
        assert refused.code.startswith("SOW-INP-")
    guess_envelope_form(line)


@pytest.mark.parametrize(
    ("line", "form"),
    [
        ({"topic": "t", "partition": 0, "offset": 1, "key": None, "payload": "{}"}, "kafka"),
        ({"key": "1", "offset": 1, "value": {}}, "kafka"),
        ({"before": None, "after": {}, "op": "c"}, "debezium"),
        ({"schema": {}, "payload": {"after": {}, "op": "c"}}, "debezium"),
        ({"topic": "t", "sow_key": "1", "data": {}}, "sowctl"),
        ({"topic": "t", "data": {}}, None),
        ({"value": 1, "key": "x"}, None),
        ([], None),
    ],
)
def test_guesses(line: Any, form: str | None) -> None:
    assert guess_envelope_form(json.dumps(line).encode()) == form


def test_lines_that_say_nothing_count_as_blank() -> None:
    lines = b'{"op":"c","after":{"id":1}}\nnull\n{"op":"d","before":{"id":1}}\n'
    chunks = list(FrameReader(io.BytesIO(lines), "envelope", form=DEBEZIUM))
    assert [payload for chunk in chunks for payload in chunk.payloads] == [b'{"id":1}', b'{"id":1}']
    assert sum(chunk.blank for chunk in chunks) == 1
    assert [chunk.find_line(at) for chunk in chunks for at in range(len(chunk.payloads))] == [1, 3]


@pytest.mark.parametrize("data", ["1", '{"a":1}'])
@pytest.mark.parametrize(
    ("unit", "number", "text"),
    [
        ("ms", "1767607200000", AT_TEXT),
        ("ms", "1767607200000.5", "2026-01-05T10:00:00.000500Z"),
        ("s", "1767607200", AT_TEXT),
        ("us", "1767607200000001", "2026-01-05T10:00:00.000001Z"),
    ],
)
def test_numbers_are_times_of_envelopes(unit: str, number: str, text: str, data: str) -> None:
    line = f'{{"timestamp":{number},"data":{data}}}'.encode()
    form = EnvelopeFormat(time_unit=unit)
    for way in (open_envelope, open_envelope_exactly):
        payload, envelope = way(line, form)
        assert (payload, envelope.timestamp) == (data.encode(), text)


@pytest.mark.parametrize("data", ["1", '{"a":1}'])
@pytest.mark.parametrize("more", ['"partition":0', '"headers":{"data":1,"topic":2}', '"x":1,"x":2', '"\\u0061":[{}]'])
def test_unknown_members_are_ignored_on_request(more: str, data: str) -> None:
    line = f'{{{more},"topic":"t","data":{data}}}'.encode()
    form = EnvelopeFormat(ignores_unknown=True)
    for way in (open_envelope, open_envelope_exactly):
        payload, envelope = way(line, form)
        assert (payload, envelope.topic) == (data.encode(), "t")
        with pytest.raises(EnvelopeRefused) as caught:
            way(line)
        assert caught.value.code == "SOW-INP-011"
