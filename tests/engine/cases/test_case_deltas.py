"""Delta publish: cases C16-C26 of sowctl-behaviour(7), without effects on subscribers, and its rules beyond them.

C22, a topic without a SOW, is in tests/engine/writing/test_log_only.py.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable

import pytest

from sowctl.engine.options import PublishOptions
from sowctl.engine.topics.positions import open_log
from sowctl.engine.verbs.publish import publish_messages
from sowctl.errors import InputError
from sowctl.messages.framing.frames import FrameReader
from tests.support.instances import SECOND, START, Lab, config_xml, message, topic_xml

MakeLab = Callable[..., Lab]


def _last_logged(lab: Lab) -> bytes:
    with open_log(lab.open()) as log:
        return [payload for block in log.iter_blocks() for payload in block.list_payloads()][-1]


def test_c16_a_delta_of_the_key_alone_refreshes_the_record(lab: Lab) -> None:
    lab.publish("quotes", message(id=42, flowers="roses"))
    lab.clock.tick(20)
    report = lab.publish("quotes", message(id=42), delta=True)
    assert (report.unchanged, report.last_txid) == (1, 2)
    record = lab.records("quotes")[0]
    assert record.payload.decode() == message(id=42, flowers="roses")
    assert (record.timestamp, record.expiration) == (START + 20 * SECOND, START + 50 * SECOND)


def test_c17_an_array_is_replaced_whole(lab: Lab) -> None:
    lab.publish("t", message(id=42, contents={"packages": [{"box": "cookies"}, {"bowl": "noodles"}]}, n=1))
    lab.publish("t", message(id=42, contents={"packages": [{"basket": "eggs"}]}), delta=True)
    assert lab.query("t") == [message(id=42, contents={"packages": [{"basket": "eggs"}]}, n=1)]


def test_c18_objects_are_merged_by_path(lab: Lab) -> None:
    lab.publish("t", message(id=1, q={"bid": 1, "ask": 2}))
    lab.publish("t", message(id=1, q={"bid": 3}), delta=True)
    assert lab.query("t") == [message(id=1, q={"bid": 3, "ask": 2})]


def test_c19_new_fields_are_added(lab: Lab) -> None:
    lab.publish("t", message(id=1, a=1))
    lab.publish("t", message(id=1, new=7), delta=True)
    assert lab.query("t") == [message(id=1, a=1, new=7)]


def test_c20_without_a_record_a_delta_is_published_as_it_is(lab: Lab) -> None:
    assert lab.publish("t", '{ "id":9, "a":1 }', delta=True).inserted == 1
    assert lab.query("t") == ['{ "id":9, "a":1 }']


def test_c21_null_changes_nothing_unless_it_is_set(lab: Lab) -> None:
    lab.publish("t", message(id=1, a=5, b=6))
    lab.publish("t", message(id=1, a=None, b=""), delta=True)
    assert lab.query("t") == [message(id=1, a=5, b=6)]
    lab.publish("t", message(id=1, a=None), delta=True, delta_null="set")
    assert [json.loads(text) for text in lab.query("t")] == [{"id": 1, "a": None, "b": 6}]


def test_a_binary_topic_takes_deltas_literally(make_lab: MakeLab) -> None:
    """Data without fields has nothing to merge and is stored unchanged."""
    lab = make_lab(config_xml(topic_xml("b", key=None).replace(">json<", ">binary<"), ()))
    lab.publish("b", b"\x00one", sow_key="K")
    lab.publish("b", b"\x01two", sow_key="K", delta=True)
    assert [record.payload for record in lab.records("b")] == [b"\x01two"]


PARTS = (
    "<MessageType><Name>pair</Name><Module>composite-{}</Module>"
    "<MessageType>json</MessageType><MessageType>{}</MessageType></MessageType>"
)
STRUCT = (
    "<MessageType><Name>pair</Name><Module>struct</Module><Field>/id = i</Field><Field>/a = i</Field></MessageType>"
)


def _typed(make_lab: MakeLab, definition: str, key: str) -> Lab:
    topic = topic_xml("t", key=key).replace(">json<", ">pair<")
    types = f"<MessageTypes>{definition}</MessageTypes><SOW>"
    return make_lab(config_xml(topic, ()).replace("<SOW>", types))


def _parts(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def test_c23_an_empty_part_of_a_composite_message_is_kept(make_lab: MakeLab) -> None:
    lab = _typed(make_lab, PARTS.format("local", "binary"), "/0/id")
    lab.publish("t", _parts(b'{"id":1,"a":1}', b"\x00picture"))
    lab.publish("t", _parts(b'{"id":1,"a":2}', b""), delta=True)
    assert [record.payload for record in lab.records("t")] == [_parts(b'{"id":1,"a":2}', b"\x00picture")]


def test_c24_composite_global_takes_deltas_literally(make_lab: MakeLab) -> None:
    lab = _typed(make_lab, PARTS.format("global", "json"), "/id")
    lab.publish("t", _parts(b'{"id":1,"a":1}', b'{"b":2}'))
    lab.publish("t", _parts(b'{"id":1}', b'{"c":3}'), delta=True)
    assert [record.payload for record in lab.records("t")] == [_parts(b'{"id":1}', b'{"c":3}')]


def test_c24_struct_takes_deltas_literally(make_lab: MakeLab) -> None:
    lab = _typed(make_lab, STRUCT, "/id")
    first, second = ((1).to_bytes(4, "little") + value.to_bytes(4, "little") for value in (5, 0))
    lab.publish("t", first)
    lab.publish("t", second, delta=True)
    assert [record.payload for record in lab.records("t")] == [second]


def _send(lab: Lab, *rows: dict[str, object], **options: object) -> None:
    lines = "".join(json.dumps({"topic": "t"} | row) + "\n" for row in rows).encode()
    chosen = PublishOptions(**options)  # type: ignore[arg-type]
    publish_messages(lab.open(), None, [("in", FrameReader(io.BytesIO(lines), "envelope"))], chosen)


def test_c25_a_delta_without_a_correlation_id_keeps_the_records(lab: Lab) -> None:
    _send(lab, {"correlation_id": "abc", "data": {"id": 1}})
    lab.publish("t", message(id=1, a=1), delta=True)
    assert lab.records("t")[0].correlation_id == "abc"
    _send(lab, {"correlation_id": "new", "command": "delta_publish", "data": {"id": 1, "a": 2}})
    assert lab.records("t")[0].correlation_id == "new"
    lab.publish("t", message(id=1))
    assert lab.records("t")[0].correlation_id is None


def test_c26_the_journal_holds_the_merged_message(lab: Lab) -> None:
    lab.publish("t", message(id=1, q={"bid": 1, "ask": 2}))
    lab.publish("t", message(id=1, q={"bid": 3}), delta=True)
    assert _last_logged(lab) == message(id=1, q={"bid": 3, "ask": 2}).encode()
    before = lab.digest("t")
    lab.forget("t")
    lab.open().topic("t").replay(rebuild=True)
    assert lab.digest("t") == before


def test_deltas_of_one_batch_see_one_another(lab: Lab) -> None:
    report = lab.publish("t", *(message(id=1, **{f"f{n}": n}) for n in range(5)), message(id=2, a=1), delta=True)
    assert (report.inserted, report.updated, report.last_txid) == (2, 4, 6)
    assert sorted(lab.query("t")) == sorted([message(id=1, f0=0, f1=1, f2=2, f3=3, f4=4), message(id=2, a=1)])


def test_envelopes_say_which_messages_are_deltas(lab: Lab) -> None:
    delta, whole = {"command": "delta_publish"}, {"command": "publish"}
    _send(lab, {"data": {"id": 1, "a": 1}}, delta | {"data": {"id": 1, "b": 2}})
    assert lab.query("t") == [message(id=1, a=1, b=2)]
    _send(lab, whole | {"data": {"id": 1, "c": 3}}, {"data": {"id": 1, "d": 4}}, delta=True)
    assert lab.query("t") == [message(id=1, c=3, d=4)]
    _send(lab, {"command": "sow_delete", "data": {"id": 1}})
    assert lab.query("t") == []
    with pytest.raises(InputError) as caught:
        _send(lab, {"command": "sow", "data": {"id": 1}})
    assert caught.value.code == "SOW-PUB-019"


def test_update_only_refuses_a_delta_without_a_record(lab: Lab) -> None:
    lab.publish("t", message(id=1, a=1))
    report = lab.publish("t", message(id=2, b=1), message(id=1, b=2), delta=True, update_only=True, on_error="skip")
    assert (report.updated, report.rejected) == (1, 1)
    with pytest.raises(InputError) as caught:
        lab.publish("t", message(id=2, b=1), delta=True, update_only=True)
    assert caught.value.code == "SOW-PUB-018"
    assert lab.query("t") == [message(id=1, a=1, b=2)]


def test_an_expired_record_is_none_to_a_delta(lab: Lab) -> None:  # section 11, 40
    lab.publish("quotes", message(id=1, a=1))
    lab.clock.tick(31)
    assert lab.publish("quotes", message(id=1, b=2), delta=True).inserted == 1
    assert lab.query("quotes") == [message(id=1, b=2)]


def test_a_deleted_record_is_none_to_a_delta(lab: Lab) -> None:  # section 11, 40
    lab.publish("t", message(id=1, a=1))
    lab.open().topic("t").delete(filter="1=1")
    assert lab.publish("t", message(id=1, b=2), delta=True).inserted == 1
    assert lab.query("t") == [message(id=1, b=2)]


def test_a_message_that_expires_at_once_is_none_to_the_next_of_its_batch(lab: Lab) -> None:
    past = "2026-01-05T07:00:00Z"
    _send(lab, *({"topic": "fading", "expiration": past, "data": {"id": 1, f"f{n}": n}} for n in range(3)), delta=True)
    lab.publish("fading", message(id=1, z=1), delta=True)
    assert lab.query("fading") == [message(id=1, z=1)]


def test_what_is_too_large_after_the_merge_is_refused(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("t", "<SlabSize>1KB</SlabSize>"), ("t",)))
    lab.publish("t", message(id=1, a="x" * 600))
    with pytest.raises(InputError) as caught:
        lab.publish("t", message(id=1, b="y" * 600), delta=True)
    assert caught.value.code == "SOW-PUB-001"
    report = lab.publish("t", message(id=1, b="y" * 600), message(id=1, c=1), delta=True, on_error="skip")
    assert (report.rejected, report.updated) == (1, 1)
    assert lab.query("t") == [message(id=1, a="x" * 600, c=1)]


def test_a_delta_that_cannot_be_read_is_refused(lab: Lab) -> None:
    lab.publish("own", message(a=1), sow_key="K")
    with pytest.raises(InputError) as caught:
        lab.publish("own", "{nonsense", sow_key="K", delta=True)
    assert caught.value.code == "SOW-MSG-002"
    assert lab.query("own") == [message(a=1)]


def test_a_dry_run_counts_deltas_and_writes_nothing(lab: Lab) -> None:
    lab.publish("t", message(id=1, a=1))
    report = lab.publish("t", message(id=1, b=2), message(id=2), message(id=1, a=1, b=2), delta=True, dry_run=True)
    assert (report.inserted, report.updated, report.unchanged) == (1, 1, 1)
    assert lab.query("t") == [message(id=1, a=1)]


def test_versions_of_a_topic_with_history_are_merged_messages(lab: Lab) -> None:
    lab.publish("past", message(id=1, a=1))
    lab.clock.tick(60)
    lab.publish("past", message(id=1, b=2), delta=True)
    assert lab.query("past") == [message(id=1, a=1, b=2)]
    assert lab.query("past", at=START + 30 * SECOND) == [message(id=1, a=1)]
    reports = [lab.open().topic("past").replay(verify=True)]
    assert [report.action for report in reports] == ["verified"]


def test_a_delta_is_never_merged_into_a_record_of_another_key(monkeypatch: pytest.MonkeyPatch, lab: Lab) -> None:
    """The digest is patched: the key is the first digit of the id alone. Section 11, 5.

    The patch is still active while the stores are verified at the end: its fixture is undone after ``lab``.
    """
    import xxhash

    def bent(data: bytes) -> bytes:
        return data[-2:-1].rjust(8, b"k") + data[-2:].rjust(8, b"c")

    monkeypatch.setattr(xxhash, "xxh3_128_digest", bent)
    lab.publish("t", message(id=11, a=1))
    rows = [message(id=12, b=2), message(id=11, c=3), message(id=21), message(id=22, d=4), message(id=21, e=5)]
    report = lab.publish("t", *rows, delta=True, on_error="skip")
    assert (report.rejected, report.updated, report.inserted) == (2, 2, 1)
    assert sorted(lab.query("t")) == [message(id=11, a=1, c=3), message(id=21, e=5)]
    with pytest.raises(InputError) as caught:
        lab.publish("t", message(id=12), delta=True)
    assert caught.value.code == "SOW-PUB-007"
