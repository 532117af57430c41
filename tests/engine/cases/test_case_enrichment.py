"""Preprocessing and enrichment: cases C49-C53 of sowctl-behaviour(7), and its rules beyond them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable

import pytest

from sowctl.engine.options import PublishOptions
from sowctl.engine.verbs.publish import publish_messages
from sowctl.engine.writing.commit import AcknowledgedBatch
from sowctl.errors import ConfigError, InputError
from sowctl.messages.framing.frames import FrameReader
from tests.support.instances import SECOND, START, Lab, config_xml, message, topic_xml

MakeLab = Callable[..., Lab]


def _phase(name: str, *fields: str) -> str:
    return f"<{name}>{''.join(f'<Field>{field}</Field>' for field in fields)}</{name}>"


def _lab(make_lab: MakeLab, *parts: str, key: str | None = "/id", logged: bool = True) -> Lab:
    return make_lab(config_xml(topic_xml("t", *parts, key=key), ("t",) if logged else ()))


def _contents(lab: Lab) -> list[dict[str, object]]:
    return [json.loads(text) for text in lab.query("t")]


def test_c49_a_rebuild_enriches_nothing_again(make_lab: MakeLab) -> None:
    lab = _lab(make_lab, _phase("Enrichment", "CONCAT(/n,'!') AS /n"))
    lab.publish("t", message(id=1, n="a"))
    assert lab.query("t") == [message(id=1, n="a!")]
    before = lab.digest("t")
    lab.forget("t")
    lab.open().topic("t").replay(rebuild=True)
    assert lab.query("t") == [message(id=1, n="a!")]
    assert lab.digest("t") == before


def test_c50_a_key_is_made_of_what_preprocessing_built(make_lab: MakeLab) -> None:
    lab = _lab(make_lab, _phase("Preprocessing", "CONCAT(/desk, '-', /book) AS /bucket"), key="/bucket")
    lab.publish("t", message(desk="fx", book=1, v=1), message(desk="fx", book=2, v=2), message(desk="fx", book=1, v=3))
    assert sorted((row["bucket"], row["v"]) for row in _contents(lab)) == [("fx-1", 3), ("fx-2", 2)]
    records = list(lab.open().topic("t").get("fx-1", fields=True))
    assert [json.loads(record.payload)["v"] for record in records] == [3]


def test_c51_of_current_and_of_previous(make_lab: MakeLab) -> None:
    coalesce = "COALESCE(/i OF CURRENT, /i OF PREVIOUS, 'default') AS /i"
    lab = _lab(make_lab, _phase("Enrichment", coalesce))
    seen = []
    for payload in (message(id=1), message(id=1, i=5), message(id=1)):
        lab.publish("t", payload)
        seen += [row["i"] for row in _contents(lab)]
    assert seen == ["default", 5, 5]


def test_c51_within_one_batch(make_lab: MakeLab) -> None:
    lab = _lab(make_lab, _phase("Enrichment", "COALESCE(/i OF CURRENT, /i OF PREVIOUS, 'default') AS /i"))
    tee: list[bytes] = []

    def acknowledged(batch: AcknowledgedBatch) -> None:
        tee.extend(batch.payloads)

    lines = "\n".join([message(id=1), message(id=1, i=5), message(id=2), message(id=1)]).encode()
    publish_messages(
        lab.open(), "t", [("in", FrameReader(io.BytesIO(lines), "lines"))], PublishOptions(),
        on_acknowledged=acknowledged,
    )  # fmt: skip
    assert [json.loads(payload)["i"] for payload in tee] == ["default", 5, "default", 5]


def test_c52_an_optional_field_without_a_value_is_left_out(make_lab: MakeLab) -> None:
    lab = _lab(make_lab, _phase("Enrichment", "IF(/s IN ('a'), /s, NULL) AS /s HINT OPTIONAL"))
    lab.publish("t", message(id=1, s="z"), message(id=2, s="a"))
    assert sorted(lab.query("t")) == [message(id=1), message(id=2, s="a")]


def test_c53_without_the_hint_it_is_null(make_lab: MakeLab) -> None:
    lab = _lab(make_lab, _phase("Enrichment", "IF(/s IN ('a'), /s, NULL) AS /s"))
    lab.publish("t", message(id=1, s="z"))
    assert lab.query("t") == [message(id=1, s=None)]


def test_fields_see_the_message_as_it_was_unless_set_current(make_lab: MakeLab) -> None:
    plain = _lab(make_lab, _phase("Enrichment", "/a + 1 AS /a", "/a + 1 AS /b"))
    plain.publish("t", message(id=1, a=1))
    assert plain.query("t") == [message(id=1, a=2, b=2)]
    fields = _phase("Enrichment", "/a + 1 AS /a HINT SET_CURRENT", "/a + 1 AS /b")
    hinted = make_lab(config_xml(topic_xml("t", fields), ("t",)), name="hinted")
    hinted.publish("t", message(id=1, a=1))
    assert hinted.query("t") == [message(id=1, a=2, b=3)]


def test_preprocessing_then_enrichment_then_merge(make_lab: MakeLab) -> None:
    phases = _phase("Preprocessing", "/a * 2 AS /a"), _phase("Enrichment", "/a + /a OF PREVIOUS AS /sum HINT OPTIONAL")
    lab = _lab(make_lab, *phases)
    lab.publish("t", message(id=1, a=1, k="x"))
    lab.publish("t", message(id=1, a=5), message(id=1, a=6), delta=True)
    assert _contents(lab) == [{"id": 1, "a": 12, "k": "x", "sum": 22}]


def test_an_expired_record_is_no_previous(make_lab: MakeLab) -> None:  # section 11, 40
    fields = _phase("Enrichment", "COALESCE(/n OF PREVIOUS, 0) + 1 AS /n")
    lab = _lab(make_lab, fields, "<Expiration>30s</Expiration>")
    lab.publish("t", message(id=1))
    lab.publish("t", message(id=1))
    assert _contents(lab) == [{"id": 1, "n": 2}]
    lab.clock.tick(31)
    lab.publish("t", message(id=1))
    assert _contents(lab) == [{"id": 1, "n": 1}]
    lab.open().topic("t").delete(filter="1=1")
    lab.publish("t", message(id=1))
    assert _contents(lab) == [{"id": 1, "n": 1}]


def test_what_is_known_besides_the_message(make_lab: MakeLab) -> None:
    fields = ("TOPIC_NAME() AS /topic", "SOW_KEY() AS /key", "UNIX_TIMESTAMP() AS /at", "CLIENT_NAME() AS /who")
    names = ("AMPS_INSTANCE_NAME() AS /instance", "CORRELATION_ID() AS /correlation", "MESSAGE_SIZE() AS /size")
    lab = _lab(make_lab, _phase("Enrichment", *fields, *names))
    line = b'{"client":"me","correlation_id":"c1","data":{"id":1}}\n'
    publish_messages(lab.open(), "t", [("in", FrameReader(io.BytesIO(line), "envelope"))])
    record = lab.records("t")[0]
    found = json.loads(record.payload)
    assert found == {
        "id": 1, "topic": "t", "key": str(record.sow_key), "at": START / SECOND, "who": "me",
        "instance": "test", "correlation": "c1", "size": 8,
    }  # fmt: skip


def test_a_topic_without_a_journal_is_enriched_too(make_lab: MakeLab) -> None:
    lab = _lab(make_lab, _phase("Enrichment", "COALESCE(/n OF PREVIOUS, 0) + 1 AS /n"), logged=False)
    for _ in range(2):
        lab.publish("t", message(id=1), message(id=1))
    assert _contents(lab) == [{"id": 1, "n": 4}]


def test_a_dry_run_enriches_and_writes_nothing(make_lab: MakeLab) -> None:
    lab = _lab(make_lab, _phase("Enrichment", "COALESCE(/n OF PREVIOUS, 0) + 1 AS /n"))
    lab.publish("t", message(id=1))
    report = lab.publish("t", message(id=1), message(id=1, n=7), dry_run=True)
    assert (report.updated, report.inserted) == (2, 0)
    assert _contents(lab) == [{"id": 1, "n": 1}]


def test_a_runaway_pattern_refuses_one_message(make_lab: MakeLab) -> None:
    lab = _lab(make_lab, _phase("Enrichment", "REGEXP_MATCH(/s, '(a+)+$') AS /m"))
    report = lab.publish("t", message(id=1, s="aa"), message(id=2, s="a" * 40 + "b"), message(id=3), on_error="skip")
    assert (report.published, report.rejected) == (2, 1)
    assert sorted(row["id"] for row in _contents(lab)) == [1, 3]


def test_a_stored_message_that_cannot_be_read_refuses(make_lab: MakeLab) -> None:
    lab = _lab(make_lab, _phase("Enrichment", "/a OF PREVIOUS AS /b"), key=None)
    with pytest.raises(InputError) as caught:
        lab.publish("t", "{bad", sow_key="K")
    assert caught.value.code == "SOW-MSG-002"


def test_what_enrichment_makes_too_large_is_refused(make_lab: MakeLab) -> None:
    lab = _lab(make_lab, _phase("Enrichment", "CONCAT(/a, /a, /a) AS /b"), "<SlabSize>1KB</SlabSize>")
    with pytest.raises(InputError) as caught:
        lab.publish("t", message(id=1, a="x" * 400))
    assert caught.value.code == "SOW-PUB-001"


@pytest.mark.parametrize(
    ("part", "code"),
    [
        (_phase("Enrichment", "NOSUCH(/a) AS /b"), "SOW-ENG-057"),
        (_phase("Preprocessing", "/a OF PREVIOUS AS /b"), "SOW-ENG-057"),
        (_phase("Enrichment", "/a AS /b", "/c AS /b"), "SOW-ENG-057"),
    ],
)
def test_fields_that_cannot_be_compiled_stop_a_publish(make_lab: MakeLab, part: str, code: str) -> None:
    lab = _lab(make_lab, part, logged=False)
    with pytest.raises(ConfigError) as caught:
        lab.publish("t", message(id=1))
    assert (caught.value.code, caught.value.exit_status) == (code, 4)


def test_a_type_that_cannot_be_changed_is_not_enriched(make_lab: MakeLab) -> None:
    topic = topic_xml("t", _phase("Enrichment", "'x' AS /b"), key=None).replace(">json<", ">binary<")
    lab = make_lab(config_xml(topic, ()))
    with pytest.raises(ConfigError) as caught:
        lab.publish("t", b"abc", sow_key="K")
    assert caught.value.code == "SOW-ENG-058"


@pytest.mark.parametrize(
    ("kind", "payload", "expected"),
    [
        ("nvfix", b"id=1\x01a=2\x01", b"id=1\x01a=2\x01b=3\x01"),
        ("fix", b"1=1\x012=2\x01", b"1=1\x012=2\x013=3\x01"),
        ("xml", b"<r><id>1</id><a>2</a></r>", b"<r><id>1</id><a>2</a><b>3</b></r>"),
    ],
)
def test_other_message_types_are_enriched(make_lab: MakeLab, kind: str, payload: bytes, expected: bytes) -> None:
    paths = {"nvfix": ("/id", "/a", "/b"), "fix": ("/1", "/2", "/3"), "xml": ("/r/id", "/r/a", "/r/b")}[kind]
    field = _phase("Enrichment", f"{paths[1]} + 1 AS {paths[2]}")
    lab = make_lab(config_xml(topic_xml("t", field, key=paths[0]).replace(">json<", f">{kind}<"), ()))
    lab.publish("t", payload)
    assert [record.payload for record in lab.records("t")] == [expected]
