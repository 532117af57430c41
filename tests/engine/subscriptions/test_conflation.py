"""Conflated subscriptions: cases C99 and C100, delayed messages, and the subscriber's copy after every interval."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from sowctl.engine.subscriptions.interest import parse_field_paths
from sowctl.engine.verbs.publish import publish_messages
from sowctl.engine.writing.batches import ListSource
from sowctl.errors import UsageError
from tests.support.following import Holder, following, news, told
from tests.support.instances import Lab, config_xml, message, topic_xml

MakeLab = Callable[..., Lab]
OOF = ("command", "reason", "data")


def test_c99_deltas_of_an_interval_are_merged(lab: Lab) -> None:
    lab.publish("t", message(id=99, status="open", notes="none", xref=5))
    with following(lab, "t", delta=True, conflation="2s") as subscription:
        news(subscription)
        for status, notes in (("pending", "none"), ("pending", "call"), ("open", "call"), ("open", "none")):
            lab.publish("t", message(id=99, status=status, notes=notes, xref=5))
            assert news(subscription) == []
        lab.clock.tick(2)
        assert told(news(subscription)) == [("delta_publish", {"id": 99, "status": "open", "notes": "none"})]


def test_c100_the_last_of_an_interval_with_the_stamps_of_the_first(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("ticks", key="/ticker"), ("ticks",)))
    with following(lab, "ticks", conflation="2s") as subscription:
        news(subscription)
        begin = lab.clock.at
        for price in (150.34, 149.76, 149.32, 151.10):
            lab.publish("ticks", message(ticker="IBM", price=price))
            lab.clock.tick(0.4)
        assert news(subscription) == []
        lab.clock.tick(0.4)
        (event,) = news(subscription)
        assert told([event]) == [("publish", {"ticker": "IBM", "price": 151.10})]
        assert (event.timestamp, event.txid) == (begin, 1)
        assert news(subscription) == []


def test_records_of_the_query_are_not_conflated(lab: Lab) -> None:
    lab.publish("t", message(id=1), message(id=2))
    with following(lab, "t", conflation="5s") as subscription:
        assert [event.command for event in news(subscription)] == ["group_begin", "sow", "sow", "group_end"]


def test_records_come_at_once_and_what_follows_is_conflated(lab: Lab) -> None:
    lab.publish("t", *[message(id=number, g=1) for number in range(5)])
    for key, wanted in ((None, [1]), ("[/g]", [2])):
        with following(lab, "t", conflation="2s", conflation_key=key, until_now=False) as subscription:
            assert [event.command for event in news(subscription)].count("sow") == 5
            for number in (1, 2) if key else (1, 1):
                lab.publish("t", message(id=number, g=1, v=lab.clock.at))
                lab.clock.tick(1)
            lab.clock.tick(1)
            # The last message of one record, or of all records with the same conflation key.
            assert [one for (one,) in told(news(subscription), "id")] == wanted


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("/a,/b", ["/a", "/b"]),
        (" [/a, /b] ", ["/a", "/b"]),
        ("[/a]", ["/a"]),
        ("[/last, first]", ["[/last, first]"]),
        ("[/last, first],/b", ["[/last, first]", "/b"]),
        ("[/odd name],[/last, first]", ["[/odd name]", "[/last, first]"]),
        ("[[/odd name],/b]", ["[/odd name]", "/b"]),
    ],
)
def test_a_conflation_key_may_have_names_in_brackets(text: str, paths: list[str]) -> None:
    assert list(map(str, parse_field_paths(text))) == paths


def test_a_position_stays_before_what_is_held_back(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    with following(lab, "t", conflation="5s") as subscription:
        news(subscription)
        before = subscription.bookmark
        lab.publish("t", message(id=1, v=1), message(id=1, v=2))
        assert news(subscription) == []
        assert (subscription.txid, subscription.bookmark) == (3, before)
        lab.clock.tick(5)
        assert len(news(subscription)) == 1
        assert subscription.bookmark != before


def test_intervals_run_on_the_times_of_messages(lab: Lab) -> None:
    with following(lab, "t", conflation="2s", until_now=False) as subscription:
        news(subscription)
        for value in range(5):
            lab.publish("t", message(id=1, v=value))
            lab.clock.tick(1)
        # all read late, at once: intervals from 0 to 2 and from 3 to 5, as if they had been read in time
        assert told(news(subscription), "data") == [({"id": 1, "v": 2},), ({"id": 1, "v": 4},)]


def test_what_came_and_went_within_an_interval_is_not_told(lab: Lab) -> None:
    lab.publish("t", message(id=1, v=1))
    with following(lab, "t", oof=True, conflation="2s") as subscription:
        news(subscription)
        lab.publish("t", message(id=1, v=2), message(id=2, v=1))
        lab.open().topic("t").delete(filter="/id > 0")
        lab.clock.tick(3)
        # the record leaves as it was last sent; the other record was never sent
        assert told(news(subscription), *OOF) == [("oof", "deleted", {"id": 1, "v": 1})]


def test_what_leaves_does_so_as_it_was_told(lab: Lab) -> None:
    lab.publish("t", message(id=1, v=1))
    with following(lab, "t", "/v < 5", oof=True, conflation="2s") as subscription:
        news(subscription)
        lab.publish("t", message(id=1, v=2), message(id=1, v=9))
        lab.clock.tick(3)
        # in the state of the subscriber's copy, without the message that took the record out of focus
        assert told(news(subscription), *OOF) == [("oof", "match", {"id": 1, "v": 1})]


def test_out_and_in_within_an_interval_is_the_final_state(lab: Lab) -> None:
    lab.publish("t", message(id=1, v=1))
    with following(lab, "t", "/v < 5", oof=True, conflation="2s") as subscription:
        news(subscription)
        lab.publish("t", message(id=1, v=9), message(id=1, v=2))
        lab.clock.tick(3)
        assert told(news(subscription), *OOF) == [("publish", None, {"id": 1, "v": 2})]


def test_what_fields_tell_apart_has_the_key_of_the_record_that_is_told(lab: Lab) -> None:
    with following(lab, "t", conflation="1s", conflation_key="/sym") as subscription:
        news(subscription)
        lab.publish("t", message(id=1, sym="X"), message(id=2, sym="X"))
        lab.clock.tick(1)
        (event,) = news(subscription)
        assert told([event], "id", "txid") == [(2, 1)]
        (record,) = lab.records("t", "/id = 2")
        assert event.sow_key == str(record.sow_key)


def test_deltas_without_key_fields_are_conflated_record_by_record(lab: Lab) -> None:
    lab.publish("t", message(id=1, v=0), message(id=2, v=0))
    wishes = {"delta": True, "no_empties": True, "conflation": "1s", "conflation_key": "/id"}
    with following(lab, "t", **wishes) as subscription:
        news(subscription)
        lab.publish("t", message(id=1, v=5), message(id=2, v=6))
        lab.clock.tick(1)
        assert told(news(subscription)) == [("delta_publish", {"v": 5}), ("delta_publish", {"v": 6})]


def test_a_select_list_that_has_the_conflation_key(lab: Lab) -> None:
    wishes = {"conflation": "1s", "conflation_key": "/at/sym", "select": "-/,+/at,-/at/x"}
    with following(lab, "t", **wishes) as subscription:
        news(subscription)
        lab.publish("t", message(id=1, at={"sym": "X", "x": 1}), message(id=2, at={"sym": "Y"}))
        lab.clock.tick(1)
        assert told(news(subscription)) == [("publish", {"at": {"sym": "X"}}), ("publish", {"at": {"sym": "Y"}})]


def test_a_conflation_key_of_fields(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("t"), ("t", "events")))
    with following(lab, "events", conflation="1s", conflation_key="[/who]") as subscription:
        news(subscription)
        texts = [message(who=who, n=number) for number, who in enumerate("abab")]
        publish_messages(lab.open(), "events", [("in", ListSource([text.encode() for text in texts]))])
        lab.clock.tick(1)
        assert told(news(subscription), "data") == [({"who": "a", "n": 2},), ({"who": "b", "n": 3},)]


def test_what_is_drained_is_told_before_its_interval_ends(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    with following(lab, "t", conflation="1h", until_now=True) as subscription:
        assert len(list(subscription)) == 3


def test_keys_that_cannot_be(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("t"), ("t", "events")))
    wrong = (
        ("events", {"conflation": "1s"}, "SOW-FOL-010"),
        ("t", {"conflation_key": "/a"}, "SOW-FOL-010"),
        ("t", {"conflation": "1s", "conflation_key": "/a", "oof": True}, "SOW-FOL-010"),
        ("t", {"conflation": "1s", "conflation_key": "/a", "delta": True}, "SOW-FOL-010"),
        ("t", {"conflation": "1s", "conflation_key": "/a/b", "select": "-/,+/a/c"}, "SOW-FOL-010"),
        ("t", {"conflation": "soon"}, "SOW-FOL-007"),
    )
    for topic, options, code in wrong:
        with pytest.raises(UsageError) as caught:
            following(lab, topic, **options)
        assert caught.value.code == code
    for text in ("auto", "none", "0s"):
        following(lab, "t", conflation=text).close()


def test_what_is_held_is_the_result_where_nothing_is_held_back(lab: Lab, seed: int) -> None:
    chance = random.Random(seed)
    lab.publish("t", *(message(id=number, v=number) for number in range(6)))
    running = [(text, following(lab, "t", text, oof=True, conflation="3s"), Holder()) for text in (None, "/v > 40")]
    try:
        for _ in range(60):
            lab.publish("t", *(message(id=chance.randrange(8), v=chance.randrange(80)) for _ in range(3)))
            if chance.random() < 0.4:
                lab.open().topic("t").delete(filter=f"/id = {chance.randrange(8)}")
            lab.clock.tick(chance.choice((0, 0.3, 1)))
            for _, subscription, holder in running:
                holder.take(news(subscription))
            if chance.random() < 0.3:
                lab.clock.tick(3)
                for text, subscription, holder in running:
                    holder.take(news(subscription))
                    assert sorted(holder.held.values()) == sorted(map(str.encode, lab.query("t", text)))
    finally:
        for _, subscription, _ in running:
            subscription.close()


def test_positions_of_a_page_never_go_back(lab: Lab) -> None:
    lab.publish("t", *(message(id=number, v=number) for number in range(1, 6)))
    lab.clock.tick(9)
    with following(lab, "t", order_by="/v", top_n=2, skip_n=0, oof=True, conflation="2s") as subscription:
        news(subscription)
        lab.publish("t", message(id=1, v=1.5))
        # A record that leaves the page lets in a record with a much older time.
        lab.publish("t", message(id=2, v=9))
        first = [event.txid for event in news(subscription)]
        assert first == []
        lab.clock.tick(3)
        told = [event.txid for event in news(subscription) if event.bookmark]
        assert len(told) == 3
        assert told == sorted(told)
