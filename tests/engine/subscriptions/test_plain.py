"""Query and subscribe: one instant, every message after it, and the end of a subscription (behaviour 4.1)."""

from __future__ import annotations

import gc
import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.engine.options import PublishOptions
from sowctl.engine.subscriptions.journal_tail import JournalTail
from sowctl.engine.verbs.publish import publish_messages
from sowctl.engine.writing.batches import ListSource
from sowctl.errors import MissingError, UsageError
from sowctl.identity.hashes import hash_client_name
from sowctl.journal.files import JournalFile
from sowctl.journal.fileset import FileSet
from sowctl.journal.reader import MAX_REREADS
from tests.support.following import following, news, told
from tests.support.instances import Lab, config_xml, message, numbered, topic_xml
from tests.support.processes import Child

MakeLab = Callable[..., Lab]


def test_records_come_first_and_messages_behind_them(lab: Lab) -> None:
    lab.publish("t", message(id=1, v=1), message(id=2, v=1))
    with following(lab, "t") as subscription:
        first = news(subscription)
        assert [event.command for event in first] == ["group_begin", "sow", "sow", "group_end"]
        assert sorted(told(first[1:3], "id", "txid", "bookmark")) == [(1, 1, None), (2, 2, None)]
        assert {(event.txid, event.bookmark) for event in (first[0], first[3])} == {(2, subscription.bookmark)}
        assert news(subscription) == []
        lab.publish("t", message(id=2, v=2), message(id=3, v=1))
        lab.publish("t", message(id=2, v=3))
        found = news(subscription)
        assert told(found, "command", "id", "txid") == [("publish", 2, 3), ("publish", 3, 4), ("publish", 2, 5)]
        assert found[0].topic == "t"
        assert found[0].timestamp == lab.clock.at
        assert found[0].sow_key == first[1 if told(first, "id")[1] == (2,) else 2].sow_key
        assert news(subscription) == []


def test_only_what_a_filter_lets_through(lab: Lab) -> None:
    lab.publish("t", message(id=1, v=1), message(id=2, v=9))
    with following(lab, "t", "/v > 5") as subscription:
        assert told(news(subscription)[1:-1], "id") == [(2,)]
        lab.publish("t", message(id=1, v=7), message(id=2, v=1), message(id=3, v=6))
        assert told(news(subscription), "id", "txid") == [(1, 3), (3, 5)]


def test_a_plain_subscription_has_no_records(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    with following(lab, "t", sow=False) as subscription:
        assert news(subscription) == []
        lab.publish("t", message(id=2))
        assert told(news(subscription), "command", "id") == [("publish", 2)]


def test_c57_a_topic_without_a_sow_has_an_empty_group_and_then_its_messages(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("t"), ("t", "events")))
    with following(lab, "events") as subscription:
        assert told(news(subscription), "command", "topic") == [("group_begin", "events"), ("group_end", "events")]
        publish_messages(lab.open(), "events", [("input", ListSource([b'{"id":1}', b'{"id":1}']))])
        assert told(news(subscription), "command", "data", "sow_key") == [("publish", {"id": 1}, None)] * 2


def test_c22_a_subscriber_gets_the_literal_delta_of_a_topic_without_a_sow(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("t"), ("t", "events")))
    with following(lab, "events", sow=False) as subscription:
        assert news(subscription) == []
        for text in (message(id=1, a=1), message(id=1, b=None)):
            publish_messages(lab.open(), "events", [("input", ListSource([text.encode()]))], PublishOptions(delta=True))
        assert [event.data for event in news(subscription)] == [b'{"id":1,"a":1}', b'{"id":1,"b":null}']


def test_c16_a_delta_that_changes_nothing_is_a_message(lab: Lab) -> None:
    lab.publish("t", message(id=42, flowers="roses"))
    with following(lab, "t") as subscription:
        assert len(news(subscription)) == 3
        lab.clock.tick(5)
        lab.publish("t", message(id=42), delta=True)
        (event,) = news(subscription)
        assert told([event]) == [("publish", {"id": 42, "flowers": "roses"})]
        assert event.timestamp == lab.clock.at


def test_c25_the_correlation_id_of_the_record_comes_with_a_delta(lab: Lab) -> None:
    envelope = json.dumps({"topic": "t", "correlation_id": "abc", "data": {"id": 1, "a": 1}})
    lab.publish("t", message(id=9))
    from io import BytesIO

    from sowctl.messages.framing.frames import FrameReader

    reader = FrameReader(BytesIO(envelope.encode() + b"\n"), "envelope")
    publish_messages(lab.open(), None, [("input", reader)], PublishOptions())
    with following(lab, "t") as subscription:
        news(subscription)
        lab.publish("t", message(id=1, a=2), delta=True)
        assert told(news(subscription), "data", "correlation_id") == [({"id": 1, "a": 2}, "abc")]


def test_deletes_are_not_told_unless_they_are_asked_for(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    with following(lab, "t") as subscription:
        news(subscription)
        lab.open().topic("t").delete(filter="/id = 1")
        assert news(subscription) == []
        assert subscription.txid == 2


def test_a_subscription_begins_before_the_first_message_and_the_first_journal(lab: Lab) -> None:
    with following(lab, "t") as subscription:
        assert [event.command for event in news(subscription)] == ["group_begin", "group_end"]
        assert news(subscription) == []
        numbered(lab, "t", 1, 3)
        assert told(news(subscription), "id", "txid") == [(1, 1), (2, 2), (3, 3)]


def test_several_topics_come_in_the_order_of_their_messages(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    lab.publish("past", message(id=2))
    with following(lab, "^(t|past)$") as subscription:
        first = news(subscription)
        assert [(event.command, event.topic) for event in first] == [
            (command, topic) for topic in ("t", "past") for command in ("group_begin", "sow", "group_end")
        ]
        assert {event.txid for event in first if event.command != "sow"} == {2}
        envelopes = [
            json.dumps({"topic": topic, "data": {"id": n}}) for n, topic in enumerate(("t", "past", "t", "own"))
        ]
        from io import BytesIO

        from sowctl.messages.framing.frames import FrameReader

        reader = FrameReader(BytesIO("".join(line + "\n" for line in envelopes[:3]).encode()), "envelope")
        publish_messages(lab.open(), None, [("input", reader)], PublishOptions())
        found = news(subscription)
        assert sorted(told(found, "topic", "id")) == [("past", 1), ("t", 0), ("t", 2)]
        txids = [event.txid for event in found]
        assert txids == sorted(set(txids))


def test_it_ends_where_the_log_ended_at_the_start(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    with following(lab, "t", until_now=True) as subscription:
        assert told(subscription, "command") == [("group_begin",), ("sow",), ("group_end",)]
        assert subscription.finished


def test_it_ends_after_so_many_messages(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    with following(lab, "t", most=2) as subscription:
        assert len(news(subscription)) == 3
        lab.publish("t", *(message(id=number) for number in range(5)))
        assert told(news(subscription), "id") == [(0,), (1,)]
        assert subscription.finished


def test_it_ends_after_a_time(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    with following(lab, "t", lasting=0.05) as subscription:
        assert len(list(subscription)) == 3


def test_a_position_is_told_though_nothing_matches(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    with following(lab, "t", "/id > 100", progress_every=0.001) as subscription:
        assert told(news(subscription), "command") == [("group_begin",), ("group_end",)]
        numbered(lab, "t", 2, 4)
        (event,) = news(subscription)
        assert (event.command, event.txid, event.bookmark) == ("progress", 4, subscription.bookmark)
        assert news(subscription) == []


def test_entries_that_were_removed_before_they_were_read_are_an_error(lab: Lab) -> None:
    lab.journal_size = 1
    numbered(lab, "t", 1, 3)
    with following(lab, "t") as subscription:
        news(subscription)
        numbered(lab, "t", 4, 6)
        for path in lab.journals()[:-1]:
            path.unlink()
        with pytest.raises(MissingError) as caught:
            news(subscription)
        assert (caught.value.code, caught.value.exit_status) == ("SOW-FOL-001", 10)
        assert caught.value.facts["first_txid"] == 6
    lab.forget("t")
    for path in (lab.directory / "journal").iterdir():
        path.unlink()


def test_entries_that_are_removed_while_others_are_read_are_an_error(lab: Lab) -> None:
    lab.journal_size = 1
    with following(lab, "t") as subscription:
        news(subscription)
        numbered(lab, "t", 1, 30)
        deliveries = subscription.ready()
        next(deliveries)
        for path in lab.journals()[:-1]:
            path.unlink()
        with pytest.raises(MissingError) as caught:
            list(deliveries)
        assert (caught.value.code, caught.value.facts["first_txid"]) == ("SOW-FOL-001", 30)
    lab.forget("t")
    for path in (lab.directory / "journal").iterdir():
        path.unlink()


def _removing(lab: Lab) -> None:
    """Publish three messages, each into a separate journal file, and remove all files but the last."""
    for number in range(4, 7):
        lab.publish("t", message(id=number, pad=os.urandom(1500).hex()))
    for path in lab.journals()[:-1]:
        path.unlink()


@pytest.mark.parametrize("times", [1, MAX_REREADS])
def test_what_is_removed_before_anything_is_told_makes_a_subscription_begin_later(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    lab.journal_size = 1
    numbered(lab, "t", 1, 3)

    def work(child: Child) -> None:
        while os.read(child.inlet, 1):
            _removing(lab)
            child.say(b"done")

    # Forked before a store is open here: a process opens a store once.
    child, begin, begun = Child(work), JournalTail.start_after, list[int]()

    def late(tail: JournalTail, after: int) -> None:
        begun.append(after)
        if len(begun) <= times:
            child.write(b"x")
            child.wait_for(b"done\n" * len(begun))
        begin(tail, after)

    monkeypatch.setattr(JournalTail, "start_after", late)
    try:
        with following(lab, "t") as subscription:
            if times == MAX_REREADS:
                with pytest.raises(MissingError) as caught:
                    news(subscription)
                assert (caught.value.code, begun) == ("SOW-FOL-001", [3, 6, 9, 12, 15])
                return
            events = news(subscription)
            assert {event.txid for event in (events[0], events[-1])} == {6} and begun == [3, 6]
            assert {json.loads(event.data or b"")["id"] for event in events[1:-1]} == set(range(1, 7))
            numbered(lab, "t", 7, 7)
            assert told(news(subscription), "command", "txid") == [("publish", 7)]
    finally:
        child.close()


def test_the_file_that_grows_may_be_removed_before_it_is_opened(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.journal_size = 1
    numbered(lab, "t", 1, 3)
    opened, removed = FileSet._open_numbered, list[int]()

    def late(files: FileSet, number: int) -> JournalFile:
        if not removed:
            removed.append(number)
            _removing(lab)
        return opened(files, number)

    monkeypatch.setattr(FileSet, "_open_numbered", late)
    with following(lab, "t") as subscription:
        events = news(subscription)
    assert events[0].txid == 6 and len(events) == 8
    assert not lab.journals()[0].name.endswith(f"{removed[0]:010d}.journal")


def test_a_subscription_that_is_forgotten_leaves_no_descriptors(lab: Lab) -> None:
    numbered(lab, "t", 1, 3)
    counts = []
    for _ in range(3):
        for _ in lab.open().topic("t").subscribe():
            break
        gc.collect()
        counts.append(len(list(Path("/proc/self/fd").iterdir())))
    assert counts[0] == counts[-1]


def test_files_that_were_removed_after_they_were_read_are_no_error(lab: Lab) -> None:
    lab.journal_size = 1
    numbered(lab, "t", 1, 3)
    with following(lab, "t") as subscription:
        news(subscription)
        for path in lab.journals()[:-1]:
            path.unlink()
        numbered(lab, "t", 4, 6)
        assert told(news(subscription), "id") == [(4,), (5,), (6,)]


@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_journal_that_was_put_back_to_an_earlier_state_is_told(lab: Lab, count: int) -> None:
    import shutil

    from sowctl.errors import DamageError

    numbered(lab, "t", 1, 3)
    shutil.copytree(lab.directory / "journal", lab.directory / "kept")
    shutil.copytree(lab.directory / "sow", lab.directory / "kept-sow")
    with following(lab, "t") as subscription:
        news(subscription)
        numbered(lab, "t", 4, 6)
        assert len(news(subscription)) == 3
        for name in ("journal", "sow"):
            shutil.rmtree(lab.directory / name)
        shutil.copytree(lab.directory / "kept", lab.directory / "journal")
        shutil.copytree(lab.directory / "kept-sow", lab.directory / "sow")
        # the same txids again, for other messages
        numbered(lab, "t", 7, 6 + count)
        with pytest.raises(DamageError) as caught:
            news(subscription)
        assert caught.value.code == "SOW-FOL-002"


def test_the_select_list_shapes_records_and_messages(lab: Lab) -> None:
    lab.publish("t", message(id=1, a=1, b=1))
    with following(lab, "t", select="-/b") as subscription:
        assert told(news(subscription)[1:2], "data") == [({"id": 1, "a": 1},)]
        lab.publish("t", message(id=1, a=2, b=2))
        assert told(news(subscription), "data") == [({"id": 1, "a": 2},)]


def test_the_order_and_top_n_are_of_the_records_alone(lab: Lab) -> None:
    lab.publish("t", *(message(id=number) for number in (3, 1, 2)))
    with following(lab, "t", order_by="/id DESC", top_n=2) as subscription:
        assert told(news(subscription)[1:-1], "id") == [(3,), (2,)]
        lab.publish("t", message(id=0))
        assert told(news(subscription), "id") == [(0,)]


def test_options_that_do_not_go_together_are_refused_at_once(lab: Lab) -> None:
    for options, code in (({"skip_n": 1}, "SOW-QRY-010"), ({"batch_size": 10_001}, "SOW-QRY-011")):
        with pytest.raises(UsageError) as caught:
            following(lab, "t", **options)
        assert caught.value.code == code
    with pytest.raises(UsageError) as caught:
        lab.publish("t", message(id=1))
        following(lab, str(lab.store("t")))
    assert caught.value.code == "SOW-FOL-003"


def test_what_is_told_with_records(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    with following(lab, "t", query_id="q7", batch_size=10) as subscription:
        begin, row, end = news(subscription)
        assert (begin.query_id, row.query_id, end.query_id, row.batch_size) == ("q7", "q7", "q7", 10)
        lab.publish("t", message(id=2))
        (event,) = news(subscription)
        assert (event.query_id, event.batch_size) == (None, None)


@pytest.mark.parametrize("packed", [False, True])
def test_files_that_are_archived_before_they_are_read_are_found(make_lab: MakeLab, packed: bool) -> None:
    archive = "</JournalDirectory><JournalArchiveDirectory>archive</JournalArchiveDirectory>"
    lab = make_lab(config_xml(topic_xml("t"), ("t",)).replace("</JournalDirectory>", archive))
    lab.journal_size = 1
    numbered(lab, "t", 1, 3)
    (lab.directory / "archive").mkdir()
    with following(lab, "t") as subscription:
        news(subscription)
        numbered(lab, "t", 4, 8)
        for path in lab.journals()[:-1]:
            place = lab.directory / "archive" / path.name
            if packed:
                place.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
                path.unlink()
            else:
                path.rename(place)
        numbered(lab, "t", 9, 10)
        assert told(news(subscription), "id") == [(number,) for number in range(4, 11)]


def test_a_torn_end_is_held_back(lab: Lab) -> None:
    numbered(lab, "t", 1, 3)
    with following(lab, "t") as subscription:
        news(subscription)
        last = lab.journals()[-1]
        whole = last.read_bytes()
        numbered(lab, "t", 4, 4)
        block = last.read_bytes()[len(whole) :]
        for size in (1, 40, len(block) // 2, len(block) - 1):
            last.write_bytes(whole + block[:size])
            assert news(subscription) == []
        last.write_bytes(whole + block)
        assert told(news(subscription), "id") == [(4,)]


def test_memory_does_not_grow_with_what_was_seen(lab: Lab) -> None:
    lab.publish("t", *(message(id=number % 7, n=number) for number in range(100)))
    with following(lab, "t", "/id > 2", sow=False) as subscription:
        news(subscription)
        sizes = []
        for _ in range(6):
            lab.publish("t", *(message(id=number % 7, n=number) for number in range(3000)))
            assert len(news(subscription)) > 1000
            gc.collect()
            sizes.append(len(gc.get_objects()))
        assert sizes[-1] - sizes[1] < 500


def test_c114_entries_without_numbers_are_counted_by_the_instance(lab: Lab) -> None:
    with following(lab, "t", sow=False) as subscription:
        news(subscription)
        handle = lab.open().topic("t")
        handle.publish([message(id=1).encode()])
        handle.publish([message(id=2).encode()], client="c", sequence=7)
        handle.publish([message(id=3).encode()])
        found = [event.bookmark for event in news(subscription)]
    own, other = hash_client_name("test"), hash_client_name("c")
    assert found == [f"{own}|1|", f"{other}|7|", f"{own}|3|"]


def test_a_store_whose_journal_was_deleted_is_followed(lab: Lab) -> None:  # section 11, 33
    lab.publish("t", message(id=1), message(id=2))
    for path in lab.journals():
        path.unlink()
    with following(lab, "t") as subscription:
        assert sorted(told(news(subscription)[1:-1], "command", "id")) == [("sow", 1), ("sow", 2)]
        lab.publish("t", message(id=3))
        (event,) = news(subscription)
        assert (event.command, event.txid) == ("publish", 3)
        lab.publish("t", message(id=1, v=1))
        assert told(news(subscription), "txid", "id") == [(4, 1)]
