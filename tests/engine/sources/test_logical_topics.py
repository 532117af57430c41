"""Logical topics of a Pattern topic: one store and one journal topic, many names (behaviour 1.8, C54, C55)."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from sowctl.engine.instance import Instance
from sowctl.engine.options import DeleteOptions, PublishOptions, QueryOptions
from sowctl.engine.topics.positions import open_log
from sowctl.engine.topics.targets import Target, find_publish_topic, resolve_targets
from sowctl.engine.verbs.delete import delete_records
from sowctl.engine.verbs.expire import expire_records
from sowctl.engine.verbs.get import get_records
from sowctl.engine.verbs.history import read_key_versions
from sowctl.engine.verbs.info import find_topic_info, list_topic_info
from sowctl.engine.verbs.key import KeyFinder
from sowctl.engine.verbs.publish import publish_messages
from sowctl.engine.verbs.query import start_query
from sowctl.engine.verbs.replay import ReplayOptions, replay_topics
from sowctl.engine.verbs.snapshot import write_snapshot
from sowctl.engine.writing.batches import ListSource
from sowctl.errors import ConfigError, InputError, MissingError, UsageError
from sowctl.identity.keys import build_domain_prefix, compute_key_digest
from sowctl.journal.format import DELETE
from sowctl.messages.framing.frames import FrameReader
from tests.support.instances import SECOND, Lab, config_xml, message, topic_xml

PATTERN = "<Pattern>^/[a-z]</Pattern>"
KINDS = {
    "journalled": (topic_xml("all", PATTERN), ("all",)),
    "alone": (topic_xml("all", PATTERN), ()),
    "transient": (topic_xml("all", PATTERN, "<Durability>transient</Durability>", file=None), ("all",)),
}


@pytest.fixture(params=KINDS)
def lab(request: pytest.FixtureRequest, make_lab) -> Lab:  # type: ignore[no-untyped-def]
    topics_xml, logged = KINDS[request.param]
    made: Lab = make_lab(config_xml(topics_xml, logged))
    return made


def _publish(lab: Lab, *envelopes: str, **options: object) -> None:
    source = FrameReader(io.BytesIO(b"\n".join(text.encode() for text in envelopes)), "envelope")
    publish_messages(lab.open(), None, [("input", source)], PublishOptions(**options))  # type: ignore[arg-type]


def _labelled(lab: Lab, target: str, filter: str | None = None) -> list[tuple[str, str]]:
    instance = lab.open()
    found = start_query(instance, resolve_targets(instance, target), QueryOptions(filter=filter))
    return sorted((str((record.extra or {})["topic"]), record.payload.decode()) for record in found.iterate_records())


def test_equal_keys_of_two_logical_topics_are_two_records(lab: Lab) -> None:
    assert lab.publish("/a", message(id=1, n=1)).inserted == 1
    assert lab.publish("/b", message(id=1, n=2)).inserted == 1
    assert lab.publish("/a", message(id=1, n=3)).updated == 1
    assert _labelled(lab, "all") == [("/a", message(id=1, n=3)), ("/b", message(id=1, n=2))]
    assert lab.query("/a") == [message(id=1, n=3)]
    assert lab.query("/b") == [message(id=1, n=2)]
    assert lab.query("/nobody") == []
    keys = {record.sow_key for record in lab.records("all")}
    assert keys == {
        int.from_bytes(compute_key_digest(build_domain_prefix(name), (b"1",))[:8], "big") for name in ("/a", "/b")
    }


def test_a_batch_of_many_logical_topics_keeps_its_order(lab: Lab) -> None:
    lines = [json.dumps({"topic": f"/{'abc'[n % 3]}", "data": {"id": n % 2, "n": n}}) for n in range(12)]
    _publish(lab, *lines)
    assert len(_labelled(lab, "all")) == 6
    if lab.journals():
        with open_log(lab.open()) as log:
            entries = [entry for block in log.iter_blocks() for entry in block.iter_entries()]
        assert [json.loads(entry.payload)["n"] for entry in entries] == list(range(12))
        assert [entry.logical_topic for entry in entries] == [b"/a", b"/b", b"/c"] * 4
        assert {entry.topic for entry in entries} == {("all", "json")}


def test_times_do_not_go_back_from_one_logical_topic_to_another(lab: Lab) -> None:
    late, early = "2026-01-05T09:00:00Z", "2026-01-05T08:30:00Z"
    first = json.dumps({"topic": "/a", "timestamp": late, "data": {"id": 1}})
    second = json.dumps({"topic": "/b", "timestamp": early, "data": {"id": 1}})
    with pytest.raises(InputError) as caught:
        _publish(lab, first, second)
    assert caught.value.code == "SOW-PUB-006"
    assert _labelled(lab, "all") == [("/a", json.dumps({"id": 1}))]


def test_an_expression_takes_parts_or_the_whole(lab: Lab) -> None:
    for name in ("/ab", "/ac", "/b"):
        lab.publish(name, message(id=1))
    assert [name for name, _ in _labelled(lab, "^/a")] == ["/ab", "/ac"]
    assert [name for name, _ in _labelled(lab, "^all$")] == ["/ab", "/ac", "/b"]
    assert [name for name, _ in _labelled(lab, ".*", "TOPIC_NAME() = '/b'")] == ["/b"]
    assert _labelled(lab, "^/zz") == []
    with pytest.raises(MissingError):
        resolve_targets(lab.open(), "^/a", literal=True)


def test_an_expression_does_not_mean_a_topic_without_records(lab: Lab) -> None:
    with pytest.raises(MissingError) as caught:
        resolve_targets(lab.open(), "^/a")
    assert caught.value.code == "SOW-ENG-014"


def test_an_expression_that_is_none_is_a_mistake_of_whoever_wrote_it(lab: Lab) -> None:
    for text in ("^/(", "^/(.sow"):
        with pytest.raises(UsageError) as caught:
            resolve_targets(lab.open(), text)
        assert (caught.value.code, caught.value.exit_status) == ("SOW-ENG-033", 2)


def test_a_name_with_dots_is_a_name(lab: Lab) -> None:
    lab.publish("/a.b", message(id=1))
    lab.publish("/axb", message(id=2))
    assert lab.query("/a.b") == [message(id=1)]
    assert [name for name, _ in _labelled(lab, "/a.b$")] == ["/a.b", "/axb"]


def test_keys_name_records_of_their_logical_topic(lab: Lab) -> None:
    lab.publish("/a", message(id=1), message(id=2))
    lab.publish("/b", message(id=1))
    number = str(lab.records("/b")[0].sow_key)
    instance = lab.open()
    assert [r.payload.decode() for r in instance.topic("/b").get("1", fields=True)] == [message(id=1)]
    assert [r.sow_key for r in instance.topic("all").get(number)] == [int(number)]
    assert list(instance.topic("/a").get(number)) == []
    assert lab.records("all", sow_keys=(number,))[0].logical_topic == "/b"
    assert lab.records("/a", sow_keys=(number,)) == []
    with pytest.raises(UsageError) as caught:
        list(instance.topic("all").get("1", fields=True))
    assert caught.value.code == "SOW-ENG-032"


def test_the_name_of_the_whole_is_no_place_for_messages(lab: Lab) -> None:
    with pytest.raises(UsageError) as caught:
        find_publish_topic(lab.open(), "all")
    assert caught.value.code == "SOW-ENG-032"
    with pytest.raises(UsageError):
        lab.open().topic("all").delete(data=[b'{"id":1}'])


def test_names_that_no_record_could_carry_are_refused(lab: Lab) -> None:
    for name in ("/a" + "x" * 5000, "/a\udcff"):
        with pytest.raises(MissingError):
            find_publish_topic(lab.open(), name)
    line = json.dumps({"topic": "/a" + "x" * 5000, "data": {"id": 1}})
    with pytest.raises(InputError):
        _publish(lab, line)


def test_deleting_stays_within_what_was_named(lab: Lab) -> None:
    for name in ("/a", "/b", "/bb"):
        lab.publish(name, *(message(id=n) for n in range(3)))
    instance = lab.open()
    look = delete_records(instance, resolve_targets(instance, "/b"), DeleteOptions(filter="1=1", dry_run=True))[0]
    assert (look.topic, look.examined, look.matched, look.deleted) == ("/b", 3, 3, 0)
    assert instance.topic("/b").delete(filter="/id < 2").deleted == 2
    assert instance.topic("/a").delete(data=[b'{"id":0}', b'{"id":9}']).deleted == 1
    other = str(lab.records("/bb")[0].sow_key)
    assert instance.topic("/a").delete(sow_keys=[other]).matched == 0
    assert [name for name, _ in _labelled(lab, "all")] == ["/a", "/a", "/b", "/bb", "/bb", "/bb"]
    report = delete_records(instance, resolve_targets(instance, "^/b"), DeleteOptions(filter="/id = 2"))[0]
    assert (report.topic, report.examined, report.matched, report.deleted) == ("all", 4, 2, 2)
    assert [name for name, _ in _labelled(lab, "all")] == ["/a", "/a", "/bb", "/bb"]
    if lab.journals():
        with open_log(lab.open()) as log:
            gone = [e for block in log.iter_blocks() for e in block.iter_entries() if e.operation == DELETE]
        assert [entry.logical_topic for entry in gone] == [b"/b", b"/b", b"/a", *[e.logical_topic for e in gone[3:]]]
        assert {entry.logical_topic for entry in gone[3:]} == {b"/b", b"/bb"}


def test_digests_are_of_what_was_named(lab: Lab) -> None:
    lab.publish("/a", message(id=1))
    alone = lab.digest("/a")
    assert alone == lab.digest("all")
    lab.publish("/b", message(id=1))
    total = (int(lab.digest("/a"), 16) + int(lab.digest("/b"), 16)) % (1 << 128)
    assert lab.digest("/a") == alone
    assert int(lab.digest("all"), 16) == total


def test_aggregates_and_counts_and_orders(lab: Lab) -> None:
    lab.publish("/a", message(id=1, q=2), message(id=2, q=3))
    lab.publish("/b", message(id=1, q=100))
    assert lab.query("/a", projection="SUM(/q) AS /q", grouping="/x") != []
    assert lab.query("/a", order_by="/q DESC", top_n=1) == [message(id=2, q=3)]
    assert lab.open().topic("/a").query("/q > 2").count() == 1
    (plan,) = lab.open().topic("/a").query().plans()
    assert (plan.topic, plan.access, plan.records) == ("/a", "scan", 3)


def test_what_the_journal_holds_makes_the_same_store(make_lab, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    lab = make_lab(config_xml(*KINDS["journalled"]))
    for number in range(40):
        lab.publish(f"/{'abc'[number % 3]}", message(id=number % 7, n=number), expiration=100 if number % 5 else None)
    lab.open().topic("/c").delete(filter="/id > 4")
    before, digest = _labelled(lab, "all"), lab.digest("all")
    lab.forget("all")
    assert _labelled(lab, "all") == before
    instance = lab.open()
    assert replay_topics(instance, [resolve_targets(instance, "/a")[0].topic], ReplayOptions())[0].action == "rebuilt"
    assert (lab.digest("all"), _labelled(lab, "all")) == (digest, before)
    assert replay_topics(lab.open(), [lab.open().topics[0]], ReplayOptions(verify=True))[0].action == "verified"
    assert list_topic_info(lab.open())[0].records == len(before)
    path = tmp_path / "part.sow"
    report = write_snapshot(lab.open(), resolve_targets(lab.open(), "/b")[0], lab.clock.at, path)
    assert report.records == len(lab.query("/b"))
    assert {name for name, _ in _labelled(lab, str(path))} == {"/b"}


def test_info_of_a_logical_topic_is_of_its_records(lab: Lab) -> None:
    lab.publish("/a", message(id=1), message(id=2))
    lab.clock.tick(5)
    lab.publish("/b", message(id=1, n=1))
    (row,) = find_topic_info(lab.open(), "/a")
    assert (row.topic, row.kind) == ("/a", "logical topic")
    assert (row.records, row.payload_bytes, row.digest) == (2, 16, lab.digest("/a"))
    assert (row.last_update, row.last_txid) == (lab.clock.at - 5 * SECOND, 3)
    assert row.path == (None if row.state == "transient" else str(lab.store("all")))
    (part,) = find_topic_info(lab.open(), "^/[bc]")
    assert (part.topic, part.records, part.last_update) == ("all", 1, lab.clock.at)
    (nobody,) = find_topic_info(lab.open(), "/c")
    assert (nobody.records, nobody.payload_bytes, nobody.last_update) == (0, 0, None)


def test_the_past_of_a_logical_topic(make_lab) -> None:  # type: ignore[no-untyped-def]
    lab = make_lab(config_xml(*KINDS["journalled"]))
    lab.publish("/a", message(id=1, n=1))
    lab.clock.tick(10)
    lab.publish("/a", message(id=1, n=2))
    lab.publish("/b", message(id=1, n=3))
    at = lab.clock.at - 5 * SECOND
    assert lab.query("/a", at=at) == [message(id=1, n=1)]
    assert lab.query("/b", at=at) == []


def test_journals_tell_what_a_logical_topic_was(make_lab) -> None:  # type: ignore[no-untyped-def]
    lab = make_lab(config_xml(*KINDS["journalled"]))
    for number in range(3):
        lab.publish("/a", message(id=1, n=number))
    lab.publish("/b", message(id=1, n=9))

    def told(target: str, *keys: str, **how: bool) -> list[str]:
        batch, _ = read_key_versions(lab.open(), resolve_targets(lab.open(), target)[0], keys, journal=True, **how)
        return [record.payload.decode() for record in batch.records]

    expected = [message(id=1, n=number) for number in range(3)]
    key = str(lab.records("/a")[0].sow_key)
    assert told("/a", "1", fields=True) == told("/a", "1") == told("/a", key) == told("all", key) == expected
    assert told("/b", "1") == [message(id=1, n=9)]
    assert told("/b", key) == []
    with pytest.raises(UsageError) as caught:
        told("all", "1", fields=True)
    assert caught.value.code == "SOW-ENG-032"


def test_journals_tell_what_publishers_filed_under_a_key(make_lab) -> None:  # type: ignore[no-untyped-def]
    lab = make_lab(config_xml(topic_xml("all", PATTERN, key=None), ("all",)))
    lab.publish("/a", message(x=1), sow_key="K")
    lab.publish("/b", message(x=2), sow_key="K")
    batch, missing = read_key_versions(lab.open(), resolve_targets(lab.open(), "/b")[0], ["K", "L"], journal=True)
    assert [record.payload.decode() for record in batch.records] == [message(x=2)]
    assert missing == ["L"]


def test_a_file_that_is_not_there_is_no_expression(lab: Lab) -> None:
    lab.publish("/a", message(id=1))
    for name in ("part.sow", "sow/part.sow"):
        with pytest.raises(MissingError) as caught:
            resolve_targets(lab.open(), name)
        assert caught.value.code == "SOW-ENG-013"
    assert resolve_targets(lab.open(), "a..sow|all")[0].topic is not None


def test_expiry_is_that_of_the_file(make_lab) -> None:  # type: ignore[no-untyped-def]
    topics_xml = topic_xml("all", PATTERN, "<Expiration>30s</Expiration>")
    lab = make_lab(config_xml(topics_xml, ("all",)))
    lab.publish("/a", message(id=1))
    lab.publish("/b", message(id=1), expiration=0)
    lab.clock.tick(31)
    assert lab.query("/a") == []
    assert lab.query("/b") == [message(id=1)]
    assert expire_records(lab.open(), [lab.open().topics[0]])[0].expired == 1


def test_deltas_meet_the_record_of_their_logical_topic(lab: Lab) -> None:
    lab.publish("/a", message(id=1, a=1))
    lab.publish("/b", message(id=1, b=1))
    lab.publish("/a", message(id=1, x=2), delta=True)
    assert lab.query("/a") == [message(id=1, a=1, x=2)]
    assert lab.query("/b") == [message(id=1, b=1)]


def test_publishers_keys_belong_to_the_logical_topic(make_lab) -> None:  # type: ignore[no-untyped-def]
    lab = make_lab(config_xml(topic_xml("all", PATTERN, key=None), ("all",)))
    lab.publish("/a", message(x=1), sow_key="K")
    lab.publish("/b", message(x=2), sow_key="K")
    assert lab.query("/b", sow_keys=("K",)) == [message(x=2)]
    assert len(lab.query("all")) == 2
    for verb in (lambda: lab.query("all", sow_keys=("K",)), lambda: lab.open().topic("all").delete(sow_keys=["K"])):
        with pytest.raises(UsageError) as caught:
            verb()
        assert caught.value.code == "SOW-ENG-032"
    instance = lab.open()
    found = start_query(
        instance, resolve_targets(instance, str(lab.store("all"))), QueryOptions(filter="SOW_KEY() = 'K'")
    )
    assert len(list(found.iterate_records())) == 2
    assert lab.query("all", "SOW_KEY() = 'K' AND TOPIC_NAME() = '/a'") == [message(x=1)]
    assert lab.open().topic("/a").delete(sow_keys=["K"]).deleted == 1
    assert _labelled(lab, "all") == [("/b", message(x=2))]


def test_a_key_domain_is_shared_and_one_logical_topic_owns_each_key(make_lab) -> None:  # type: ignore[no-untyped-def]
    topics_xml = topic_xml("all", PATTERN, "<KeyDomain>d</KeyDomain>") + topic_xml("t", "<KeyDomain>d</KeyDomain>")
    lab = make_lab(config_xml(topics_xml, ("all", "t")))
    lab.publish("t", message(id=1))
    lab.publish("/a", message(id=1))
    assert {record.sow_key for record in lab.records("all")} == {record.sow_key for record in lab.records("t")}
    with pytest.raises(InputError) as caught:
        lab.publish("/b", message(id=1))
    assert caught.value.code == "SOW-PUB-007"
    assert lab.publish("/b", message(id=2)).inserted == 1
    assert [r.payload.decode() for r in lab.open().topic("all").get("1", fields=True)] == [message(id=1)]


def test_the_first_entry_of_the_configuration_counts(make_lab) -> None:  # type: ignore[no-untyped-def]
    topics_xml = (
        topic_xml("a-first", "<Pattern>^/a</Pattern>") + topic_xml("/ab") + topic_xml("rest", "<Pattern>/</Pattern>")
    )
    lab = make_lab(config_xml(topics_xml, ("a-first", "/ab", "rest")))
    assert lab.publish("/ab", message(id=1)).topics[0].topic == "a-first"
    assert lab.publish("/b", message(id=1)).topics[0].topic == "rest"
    assert lab.query("/ab") == [message(id=1)]


def test_a_name_of_two_message_types_is_ambiguous(make_lab) -> None:  # type: ignore[no-untyped-def]
    second = topic_xml("more", "<Pattern>^/a</Pattern>").replace(">json<", ">nvfix<")
    lab = make_lab(config_xml(topic_xml("all", PATTERN) + second, ("all",)))
    with pytest.raises(UsageError) as caught:
        lab.publish("/a", message(id=1))
    assert (caught.value.code, "[nvfix].[/a]" in str(caught.value.hint)) == ("SOW-ENG-030", True)
    instance = lab.open()
    assert instance.topic("[json].[/a]").publish([b'{"id":1}']).topics[0].topic == "all"
    assert len(list(instance.topic("/a", "json").query().records())) == 1


def test_the_keys_of_messages_can_be_asked_for(lab: Lab) -> None:
    told, _ = KeyFinder(lab.open(), find_publish_topic(lab.open(), "/a"), PublishOptions()).find_keys([b'{"id":1}'])
    lab.publish("/a", message(id=1))
    assert [(one.sow_key, one.key_domain) for one in told] == [(str(lab.records("/a")[0].sow_key), "/a")]


def test_a_dry_run_writes_nothing(lab: Lab) -> None:
    source = ListSource([b'{"id":1}', b'{"id":2}'])
    report = publish_messages(lab.open(), "/a", [("m", source)], PublishOptions(dry_run=True))
    assert report.inserted == 2
    assert not list(lab.directory.rglob("*.sow"))


def test_chains_need_a_topic_of_their_own(make_lab) -> None:  # type: ignore[no-untyped-def]
    modules = (
        "<Modules><Module><Name>chains</Name><Library>libamps_id_chaining_key_generator.so</Library></Module></Modules>"
    )
    generator = (
        "<KeyGenerator><Module>chains</Module><Options><Primary>/id</Primary><Secondary>/parent</Secondary>"
        "<FileName>chains.bin</FileName></Options></KeyGenerator>"
    )
    xml = config_xml(topic_xml("all", PATTERN, generator, key=None), ("all",))
    lab = make_lab(xml.replace("<SOW>", modules + "<SOW>"))
    with pytest.raises(ConfigError) as caught:
        lab.publish("/a", message(id=1))
    assert caught.value.code == "SOW-PUB-023"


def test_a_bare_file_is_asked_for_its_publishers_keys_unless_they_belong_to_logical_topics(make_lab) -> None:  # type: ignore[no-untyped-def]
    topics_xml = topic_xml("u", key=None) + topic_xml("all", PATTERN, key=None)
    lab = make_lab(config_xml(topics_xml, ()))
    lab.publish("u", message(v=1), sow_key="K")
    lab.publish("/a", message(v=2), sow_key="K")
    batch, missing = get_records(Instance(), Target(path=lab.store("u")), ["K", "L"])
    assert ([record.payload.decode() for record in batch.records], missing) == ([message(v=1)], ["L"])
    with pytest.raises(UsageError) as caught:
        get_records(Instance(), Target(path=lab.store("all")), ["K"])
    assert caught.value.code == "SOW-QRY-018"
    with pytest.raises(UsageError) as caught:
        get_records(Instance(), Target(path=lab.store("u")), ["K"], fields=True)
    assert caught.value.code == "SOW-QRY-005"
