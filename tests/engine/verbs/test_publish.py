"""publish: stored messages, rejected messages, counts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sowctl.engine.api import InstanceHandle
from sowctl.engine.options import PublishOptions
from sowctl.engine.reports import Rejected
from sowctl.engine.verbs.publish import publish_messages
from sowctl.engine.writing.commit import AcknowledgedBatch
from sowctl.errors import InputError, LimitError, MissingError, RefusedError, UsageError
from sowctl.messages.framing.frames import FrameReader
from tests.support.instances import SECOND, START, Lab, config_xml, topic_xml


def test_the_last_message_per_key_stays(lab: Lab) -> None:  # C01, seed example 28
    report = lab.publish("t", '{"id":1,"p":120}', '{"id":2,"p":9}', '{"id":1,"p":95}')
    assert (report.published, report.inserted, report.updated, report.unchanged) == (3, 2, 1, 0)
    assert sorted(lab.query("t")) == ['{"id":1,"p":95}', '{"id":2,"p":9}']


def test_a_publish_replaces_and_does_not_merge(lab: Lab) -> None:  # C02
    lab.publish("t", '{"id":1,"a":1,"b":2}', '{"id":1,"a":5}')
    assert lab.query("t") == ['{"id":1,"a":5}']


def test_composite_keys(make_lab) -> None:  # type: ignore[no-untyped-def]  # C03, seed example 3
    lab = make_lab(config_xml(topic_xml("t", "<Key>/b</Key>", key="/a"), ("t",)))
    lab.publish("t", '{"a":1,"b":1}', '{"a":1,"b":2}', '{"a":1,"b":1,"x":9}')
    assert sorted(lab.query("t")) == ['{"a":1,"b":1,"x":9}', '{"a":1,"b":2}']


def test_topics_have_their_own_keys_unless_they_share_a_domain(make_lab) -> None:  # type: ignore[no-untyped-def]  # C04, C05, seed 37
    domain = "<KeyDomain>shared</KeyDomain>"
    topics_xml = topic_xml("a") + topic_xml("b") + topic_xml("c", domain) + topic_xml("d", domain)
    lab = make_lab(config_xml(topics_xml, ("a", "b", "c", "d")))
    keys = {}
    for topic in "abcd":
        lab.publish(topic, '{"id":1}')
        keys[topic] = next(lab.open().topic(topic).query().records()).sow_key
    assert keys["a"] != keys["b"]
    assert keys["c"] == keys["d"]


def test_user_keys_are_required_and_checked(lab: Lab) -> None:  # C08, C09, C10
    with pytest.raises(InputError) as caught:
        lab.publish("own", '{"x":1}')
    assert caught.value.code == "SOW-PUB-003"
    with pytest.raises(InputError, match="'a b!'") as caught:
        lab.publish("own", '{"x":1}', sow_key="a b!")
    assert caught.value.code == "SOW-PUB-003"
    lab.publish("own", '{"x":1}', sow_key="AAA")
    lab.publish("own", '{"x":2}', sow_key="AAA")
    records = list(lab.open().topic("own").query(sow_keys=("AAA",)).records())
    assert [(r.payload, r.user_key) for r in records] == [(b'{"x":2}', "AAA")]


def test_a_missing_key_field_is_refused(lab: Lab) -> None:  # section 11, 3
    for message in ('{"x":1}', '{"id":null}', '{"id":""}', '{"id":{}}', "[1]"):
        with pytest.raises(InputError) as caught:
            lab.publish("t", message)
        assert caught.value.code == "SOW-PUB-002"
    assert lab.publish("t", '{"x":1}', allow_null_key=True).inserted == 1


def test_stop_keeps_what_stood_before_the_bad_message(lab: Lab) -> None:
    with pytest.raises(InputError) as caught:
        lab.publish("t", '{"id":1}', '{"id":2}', "{bad", '{"id":3}')
    assert caught.value.facts["report"].published == 2
    assert caught.value.place == "messages:3:2"
    assert sorted(lab.query("t")) == ['{"id":1}', '{"id":2}']


def test_skip_goes_on_and_reports(lab: Lab) -> None:
    refused: list[Rejected] = []
    report = publish_messages(
        lab.open(), "t", [("in", _frames(b'{"id":1}\n\n{bad\n{"id":2}\n{"x":1}\n'))],
        PublishOptions(on_error="skip"), on_reject=refused.append,
    )  # fmt: skip
    assert (report.published, report.rejected, report.blank, report.messages) == (2, 2, 1, 4)
    assert [(r.line, r.offset, r.code, r.payload) for r in refused] == [
        (3, 10, "SOW-MSG-002", b"{bad"),
        (5, 24, "SOW-PUB-002", b'{"x":1}'),
    ]


def test_skip_ends_at_max_errors(lab: Lab) -> None:
    with pytest.raises(LimitError) as caught:
        lab.publish("t", *["{bad"] * 5, '{"id":1}', on_error="skip", max_errors=3, batch=2)
    assert caught.value.code == "SOW-PUB-020"


def test_abort_writes_nothing(lab: Lab) -> None:
    with pytest.raises(InputError) as caught:
        lab.publish("t", '{"id":1}', "{bad", on_error="abort", batch=1)
    assert "Nothing was published" in caught.value.message
    assert lab.publish("t", '{"id":1}', '{"id":2}', on_error="abort", batch=1).first_txid == 1
    assert len(lab.query("t")) == 2


def test_unchanged_messages_are_counted_and_logged(lab: Lab) -> None:
    lab.publish("t", '{"id":1}')
    report = lab.publish("t", '{"id":1}', '{"id": 1}')
    assert (report.unchanged, report.updated, report.last_txid) == (1, 1, 3)


def test_sequences_tell_repeats(lab: Lab) -> None:  # C112, C113
    first = lab.publish("t", '{"id":5}', '{"id":6}', client="c", sequence=5)
    assert first.duplicates == 0
    again = lab.publish("t", '{"id":6}', '{"id":4}', '{"id":7}', client="c", sequence=6)
    assert (again.duplicates, again.published) == (1, 2)
    assert lab.publish("t", '{"id":1}', client="d", sequence=1).duplicates == 0
    assert lab.publish("t", '{"id":9}', client="c").duplicates == 0
    with pytest.raises(UsageError):
        lab.publish("t", '{"id":1}', sequence=1)


def test_sequences_without_a_journal_live_in_the_store(lab: Lab) -> None:
    assert lab.publish("alone", '{"id":1}', '{"id":2}', client="c", sequence=1).duplicates == 0
    report = lab.publish("alone", '{"id":2}', '{"id":3}', client="c", sequence=2)
    assert (report.duplicates, report.inserted) == (1, 1)
    assert len(lab.query("alone")) == 3


def test_a_payload_must_fit_its_slab(make_lab) -> None:  # type: ignore[no-untyped-def]  # seed example 45
    lab = make_lab(config_xml(topic_xml("t", "<SlabSize>1KB</SlabSize>"), ("t",)))
    head = b'{"id":1,"x":"'
    fits = head + b"a" * (1024 - 64 - len(head) - 2) + b'"}'
    lab.publish("t", fits)
    with pytest.raises(InputError) as caught:
        lab.publish("t", fits + b" ")
    assert caught.value.code == "SOW-PUB-001"


def test_time_never_goes_back_within_a_topic(lab: Lab) -> None:  # section 11, 41
    lab.publish("t", '{"id":1}', timestamp="2026-01-05T09:00:00Z")
    with pytest.raises(InputError) as caught:
        lab.publish("t", '{"id":2}', timestamp="2026-01-05T08:59:59Z")
    assert caught.value.code == "SOW-PUB-006"
    lab.publish("t", '{"id":3}')
    times = {r.payload: r.timestamp for r in lab.open().topic("t").query().records()}
    assert times[b'{"id":3}'] == times[b'{"id":1}'] == START + 3600 * SECOND


def test_times_come_from_a_field(lab: Lab) -> None:
    lab.publish("t", '{"id":1,"t":"20260105T100000.000001Z"}', '{"id":2,"t":"1767607201s"}', timestamp_field="/t")
    times = [r.timestamp for r in lab.open().topic("t").query(order_by="/id").records()]
    assert times == [1_767_607_200_000_001, 1_767_607_201_000_000]
    with pytest.raises(InputError) as caught:
        lab.publish("t", '{"id":3,"t":"noon"}', timestamp_field="/t")
    assert caught.value.code == "SOW-PUB-004"


def test_envelopes_choose_topic_key_time_and_lifetime(lab: Lab) -> None:
    lines = (
        b'{"topic":"own","sow_key":"K1","timestamp":"2026-01-05T08:00:01Z","data":{"x":1}}\n'
        b'{"topic":"t","correlation_id":"abc","data":{"id":7}}\n'
        b'{"topic":"fading","expiration":5,"data":{"id":1}}\n'
        b'{"topic":"nowhere","data":{"id":1}}\n'
    )
    refused: list[Rejected] = []
    options = PublishOptions(on_error="skip")
    report = publish_messages(lab.open(), None, [("in", _frames(lines, "envelope"))], options, on_reject=refused.append)
    assert (report.published, [r.code for r in refused]) == (3, ["SOW-ENG-012"])
    record = next(lab.open().topic("own").query().records())
    assert (record.user_key, record.timestamp) == ("K1", START + SECOND)
    assert next(lab.open().topic("t").query().records()).correlation_id == "abc"
    assert next(lab.open().topic("fading").query().records()).expiration == START + 5 * SECOND


def test_dry_run_counts_and_writes_nothing(lab: Lab) -> None:
    lab.publish("t", '{"id":1}')
    before = _files(lab)
    report = lab.publish("t", '{"id":1,"a":1}', '{"id":2}', dry_run=True)
    assert (report.inserted, report.updated, report.dry_run) == (1, 1, True)
    assert lab.publish("quotes", '{"id":2}', '{"id":2}', dry_run=True).unchanged == 1
    assert _files(lab) == before


def test_every_batch_is_acknowledged_with_its_place_in_the_input(lab: Lab) -> None:
    seen: list[AcknowledgedBatch] = []
    lines = b"".join(b'{"id":%d}\n' % n for n in range(10))
    publish_messages(lab.open(), "t", [("in", _frames(lines))], PublishOptions(batch=4), on_acknowledged=seen.append)
    assert [(len(a.payloads), a.first_txid, a.last_txid, a.end_offset) for a in seen] == [
        (4, 1, 4, 36),
        (4, 5, 8, 72),
        (2, 9, 10, 90),
    ]


def test_topics_that_cannot_be_published_to(make_lab) -> None:  # type: ignore[no-untyped-def]
    volatile = topic_xml("gone", "<Durability>transient</Durability>", file=None)
    lab = make_lab(config_xml(topic_xml("t") + volatile, ("t",)))
    with pytest.raises(MissingError) as caught:
        lab.publish("tt", '{"id":1}')
    assert caught.value.hint == "did you mean t?"
    with pytest.raises(RefusedError) as refused:
        lab.publish("gone", '{"id":1}')
    assert refused.value.code == "SOW-ENG-021"


def test_a_store_of_another_definition_is_refused(lab: Lab) -> None:
    lab.publish("t", '{"id":1}')
    changed = lab.xml.replace(
        "<Name>t</Name><MessageType>json</MessageType><Key>/id</Key>",
        "<Name>t</Name><MessageType>json</MessageType><Key>/other</Key>",
        1,
    )
    lab.config.write_text(changed)
    with pytest.raises(RefusedError) as caught:
        lab.publish("t", '{"other":1}')
    assert caught.value.exit_status == 8
    lab.config.write_text(lab.xml)


def _files(lab: Lab) -> dict[str, bytes]:
    """Return the content of all files but LMDB's reader tables."""
    paths = (path for path in lab.directory.rglob("*") if path.is_file() and not path.name.endswith("-lock"))
    return {str(path): path.read_bytes() for path in paths}


def _frames(data: bytes, framing: str = "lines") -> FrameReader:
    import io

    return FrameReader(io.BytesIO(data), framing)


def test_open_gives_a_typed_instance(lab: Lab) -> None:
    import sowctl

    with sowctl.open(str(lab.config), clock=lab.clock) as instance:
        assert isinstance(instance, InstanceHandle)
        assert instance.topic("t").publish([b'{"id":1}']).published == 1
        assert [r.payload for r in instance.topic("t").query("/id = 1").records()] == [b'{"id":1}']


def test_colliding_keys_are_refused_and_never_merged(monkeypatch: pytest.MonkeyPatch, lab: Lab) -> None:
    """No two texts with one key are known, so the digest is patched: the key is the first byte of the id alone."""
    import xxhash

    def bent(data: bytes) -> bytes:
        return data[-2:-1].rjust(8, b"k") + data[-2:].rjust(8, b"c")

    monkeypatch.setattr(xxhash, "xxh3_128_digest", bent)
    lab.publish("t", '{"id":11}')
    refused: list[Rejected] = []
    lines = b'{"id":12}\n{"id":11,"a":1}\n{"id":21}\n{"id":22}\n{"id":21}\n'
    options = PublishOptions(on_error="skip")
    report = publish_messages(lab.open(), "t", [("in", _frames(lines))], options, on_reject=refused.append)
    assert [(one.line, one.code) for one in refused] == [(1, "SOW-PUB-007"), (4, "SOW-PUB-007")]
    assert (report.inserted, report.updated, report.unchanged) == (1, 1, 1)
    assert sorted(lab.query("t")) == ['{"id":11,"a":1}', '{"id":21}']


def test_an_input_that_breaks_off_still_gives_what_came_before(lab: Lab) -> None:
    whole = b'\x00\x00\x00\x08{"id":1}\x00\x00\x00\x08{"id'
    with pytest.raises(InputError) as caught:
        publish_messages(lab.open(), "t", [("in", _frames(whole, "length"))])
    assert (caught.value.code, caught.value.facts["report"].published) == ("SOW-INP-002", 1)
    assert lab.query("t") == ['{"id":1}']


def test_a_stopped_run_says_where_the_input_stands(lab: Lab) -> None:
    with pytest.raises(InputError) as caught:
        publish_messages(lab.open(), "t", [("in", _frames(b'{"id":1}\n{"id":2}\n{bad\n{"id":3}\n'))])
    assert caught.value.facts["report"].end == 18


def test_envelopes_of_two_clients_do_not_share_numbers(lab: Lab) -> None:
    lines = b"".join(
        b'{"client":"%s","sequence":%d,"data":{"id":%d}}\n' % pair
        for pair in ((b"a", 1, 1), (b"b", 1, 2), (b"a", 2, 3))
    )
    refused: list[Rejected] = []
    options = PublishOptions(on_error="skip")
    report = publish_messages(lab.open(), "t", [("in", _frames(lines, "envelope"))], options, on_reject=refused.append)
    assert (report.published, [one.code for one in refused]) == (2, ["SOW-PUB-008"])


def test_nothing_behind_a_message_that_ends_the_run_is_published(lab: Lab) -> None:
    """Also if the input is idle after it and other batches are pending."""
    messages = [b"bad" if n == 5 else b'{"id":%d}' % n for n in range(1, 31)]
    for given in (iter(messages), messages):
        with pytest.raises(InputError) as caught:
            lab.open().topic("t").publish(given, batch=10)
        assert caught.value.facts["report"].last_line == 4
        assert sorted(lab.query("t")) == ['{"id":1}', '{"id":2}', '{"id":3}', '{"id":4}']


def test_threads_of_one_program_publish_to_instances_of_their_own(tmp_path: Path) -> None:
    """Compression runs without the interpreter's lock: each thread has its own compressor."""
    labs = [Lab(tmp_path / str(number), config_xml(topic_xml("t"), ("t",))) for number in range(3)]
    lines = [b'{"id":%d,"t":"%s"}' % (n, b"abc" * (n % 60)) for n in range(3000)]
    with ThreadPoolExecutor(len(labs)) as pool:
        done = list(pool.map(lambda lab: lab.open().topic("t").publish(lines, batch=100).published, labs))
    assert done == [len(lines)] * len(labs)
    for lab in labs:
        assert lab.findings() == []
        assert lab.open().topic("t").replay(verify=True).action == "verified"
