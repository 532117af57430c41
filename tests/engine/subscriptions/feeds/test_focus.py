"""Out-of-focus messages and deltas: cases C84-C90 and C96-C98, lifetimes, and the final copy of a subscriber."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest

from sowctl.engine.subscriptions.feeds.delta import compute_delta
from sowctl.engine.subscriptions.held_values import HeldValues
from sowctl.engine.subscriptions.limits import SUBSCRIPTION_LIMITS
from sowctl.errors import UsageError
from sowctl.messages.types import get_type
from tests.support.following import Holder, following, news, told
from tests.support.instances import Lab, config_xml, message, topic_xml

MakeLab = Callable[..., Lab]
OOF = ("command", "reason", "data")


def test_c84_an_update_that_leaves_the_filter_is_told_with_the_new_message(lab: Lab) -> None:
    lab.publish("t", message(id=100, loc="NY"))
    with following(lab, "t", "/loc = 'NY'", oof=True) as subscription:
        news(subscription)
        lab.publish("t", message(id=100, loc="LN"))
        (event,) = news(subscription)
        assert told([event], *OOF) == [("oof", "match", {"id": 100, "loc": "LN"})]
        assert (event.txid, event.timestamp) == (2, lab.clock.at)
        assert event.bookmark is not None


def test_c85_what_is_out_of_focus_is_not_told_again(lab: Lab) -> None:
    lab.publish("t", message(id=100, loc="NY"))
    with following(lab, "t", "/loc = 'NY'", oof=True) as subscription:
        news(subscription)
        lab.publish("t", message(id=100, loc="LN"))
        assert len(news(subscription)) == 1
        lab.publish("t", message(id=100, loc="LN", x=1))
        assert news(subscription) == []


@pytest.mark.parametrize("delta", [False, True])
def test_c86_what_comes_back_into_focus_is_a_whole_message(lab: Lab, delta: bool) -> None:
    lab.publish("t", message(id=100, loc="NY"))
    with following(lab, "t", "/loc = 'NY'", oof=True, delta=delta) as subscription:
        news(subscription)
        lab.publish("t", message(id=100, loc="LN"))
        lab.publish("t", message(id=100, loc="NY", x=1))
        assert told(news(subscription), *OOF)[1:] == [("publish", None, {"id": 100, "loc": "NY", "x": 1})]


def test_c87_a_deleted_record_goes_with_its_last_message(lab: Lab) -> None:
    lab.publish("t", message(id=1, v=1), message(id=2, v=1))
    with following(lab, "t", oof=True) as subscription:
        rows = news(subscription)[1:-1]
        lab.publish("t", message(id=1, v=2))
        lab.clock.tick(1)
        lab.open().topic("t").delete(filter="/id = 1")
        _, event = news(subscription)
        assert told([event], *OOF) == [("oof", "deleted", {"id": 1, "v": 2})]
        assert event.sow_key in {row.sow_key for row in rows}
        assert (event.txid, event.timestamp) == (4, lab.clock.at)


def test_c88_a_deleted_record_that_never_matched_is_not_told(lab: Lab) -> None:
    lab.publish("t", message(id=1, v=1))
    with following(lab, "t", "/v = 2", oof=True) as subscription:
        news(subscription)
        lab.open().topic("t").delete(filter="/id = 1")
        assert news(subscription) == []


def test_c89_an_expired_record_goes_at_its_instant(lab: Lab) -> None:
    lab.publish("quotes", message(id=1, v=1))
    begin = lab.clock.at
    with following(lab, "quotes", oof=True) as subscription:
        news(subscription)
        lab.clock.tick(29.999)
        assert news(subscription) == []
        lab.clock.tick(5)
        (event,) = news(subscription)
        assert told([event], *OOF) == [("oof", "expired", {"id": 1, "v": 1})]
        assert (event.bookmark, event.txid, event.timestamp) == (None, None, begin + 30_000_000)
        assert news(subscription) == []


def test_a_lifetime_that_begins_anew_ends_later(lab: Lab) -> None:
    lab.publish("quotes", message(id=1, v=1))
    with following(lab, "quotes", oof=True) as subscription:
        news(subscription)
        lab.clock.tick(20)
        lab.publish("quotes", message(id=1, v=2))
        assert len(news(subscription)) == 1
        lab.clock.tick(15)
        assert news(subscription) == []
        lab.clock.tick(15)
        assert told(news(subscription), *OOF) == [("oof", "expired", {"id": 1, "v": 2})]


def test_a_record_that_expires_where_its_next_message_comes_is_told_first(lab: Lab) -> None:
    lab.publish("quotes", message(id=1, v=1))
    with following(lab, "quotes", oof=True) as subscription:
        news(subscription)
        # exactly at the end of the lifetime: an insert follows (decision 58)
        lab.clock.tick(30)
        report = lab.publish("quotes", message(id=1, v=2))
        assert report.inserted == 1
        assert told(news(subscription), *OOF) == [
            ("oof", "expired", {"id": 1, "v": 1}),
            ("publish", None, {"id": 1, "v": 2}),
        ]


def test_the_clock_alone_says_when_the_next_lifetime_ends(lab: Lab) -> None:
    lab.publish("quotes", message(id=1))
    with following(lab, "quotes", oof=True) as subscription:
        news(subscription)
        (feed,) = (one.feed for one in subscription._followed.values())
        assert feed.next_due_time == lab.clock.at + 30_000_000
        lab.open().topic("quotes").delete(filter="/id = 1")
        assert told(news(subscription), "reason") == [("deleted",)]
        lab.clock.tick(31)
        assert news(subscription) == []
        assert feed.next_due_time is None


def test_records_that_are_not_shown_go_out_of_focus_all_the_same(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    with following(lab, "t", sow=False, oof=True) as subscription:
        assert news(subscription) == []
        lab.open().topic("t").delete(filter="/id = 1")
        assert told(news(subscription), *OOF) == [("oof", "deleted", {"id": 1})]


def test_c90_a_delta_that_leaves_the_filter_is_told_merged(lab: Lab) -> None:
    lab.publish("t", message(id=1, loc="NY", qty=5))
    with following(lab, "t", "/loc = 'NY'", oof=True) as subscription:
        news(subscription)
        lab.publish("t", message(id=1, loc="LN"), delta=True)
        assert told(news(subscription), *OOF) == [("oof", "match", {"id": 1, "loc": "LN", "qty": 5})]


def test_c96_a_delta_has_the_key_and_what_has_changed(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("orders", key="/order"), ("orders",)))
    lab.publish("orders", message(order=3, status="new", qty=10))
    with following(lab, "orders", delta=True) as subscription:
        assert told(news(subscription)[1:-1]) == [("sow", {"order": 3, "status": "new", "qty": 10})]
        lab.publish("orders", message(order=3, status="pending", qty=10))
        assert told(news(subscription)) == [("delta_publish", {"order": 3, "status": "pending"})]


def test_c97_without_empties_a_message_that_changes_nothing_is_not_told(lab: Lab) -> None:
    lab.publish("t", message(id=1, v=1))
    with following(lab, "t", delta=True, no_empties=True) as subscription:
        news(subscription)
        lab.publish("t", message(id=1, v=1))
        assert news(subscription) == []
        lab.publish("t", message(id=1, v=2))
        assert told(news(subscription)) == [("delta_publish", {"v": 2})]


def test_c98_a_message_that_changes_nothing_has_only_its_key(lab: Lab) -> None:
    lab.publish("t", message(id=1, v=1))
    with following(lab, "t", delta=True) as subscription:
        news(subscription)
        lab.publish("t", message(id=1, v=1))
        assert told(news(subscription)) == [("delta_publish", {"id": 1})]


def test_keys_in_every_delta_without_empties(lab: Lab) -> None:
    lab.publish("t", message(id=1, v=1))
    with following(lab, "t", delta=True, no_empties=True, send_keys=True) as subscription:
        news(subscription)
        lab.publish("t", message(id=1, v=1), message(id=1, v=2))
        assert told(news(subscription)) == [("delta_publish", {"id": 1, "v": 2})]


def test_only_selected_fields_make_a_delta(lab: Lab) -> None:
    lab.publish("t", message(id=1, a=1, b=1))
    with following(lab, "t", delta=True, no_empties=True, select="-/b") as subscription:
        news(subscription)
        lab.publish("t", message(id=1, a=1, b=2), message(id=1, a=2, b=2))
        assert told(news(subscription)) == [("delta_publish", {"a": 2})]


def test_a_field_that_is_gone_makes_a_whole_message(lab: Lab) -> None:
    lab.publish("t", message(id=1, a=1, b=1))
    with following(lab, "t", delta=True) as subscription:
        news(subscription)
        lab.publish("t", message(id=1, a=1))
        assert told(news(subscription)) == [("publish", {"id": 1, "a": 1})]


def test_out_of_focus_is_told_whole_to_a_delta_subscriber(lab: Lab) -> None:
    lab.publish("t", message(id=1, a=1, b=1))
    with following(lab, "t", delta=True, oof=True) as subscription:
        news(subscription)
        lab.open().topic("t").delete(filter="/id = 1")
        assert told(news(subscription), *OOF) == [("oof", "deleted", {"id": 1, "a": 1, "b": 1})]


@pytest.mark.parametrize(
    ("kind", "before", "now", "expected"),
    [
        ("json", b'{"id":1,"q":{"b":1,"a":2},"l":[1]}', b'{"id":1,"q":{"b":1,"a":3},"l":[1]}', b'{"id":1,"q":{"a":3}}'),
        ("json", b'{"id":1,"l":[1,2]}', b'{"id":1,"l":[1,3]}', b'{"id":1,"l":[1,3]}'),
        ("json", b'{"id":1,"q":1}', b'{"id":1,"q":{"a":1}}', b'{"id":1,"q":{"a":1}}'),
        ("json", b'{"id":1,"q":1,"q":2}', b'{"id":1,"q":3,"q":2}', b'{"id":1,"q":3}'),
        ("json", b'{"id":1,"q":{"a":1,"a":2}}', b'{"id":1,"q":{"a":1,"a":3}}', b'{"id":1}'),
        ("nvfix", b"id=1\x01a=1\x01b=2\x01", b"id=1\x01a=1\x01b=3\x01", b"id=1\x01b=3\x01"),
    ],
)
def test_deltas_of_message_types(kind: str, before: bytes, now: bytes, expected: bytes) -> None:
    assert compute_delta(get_type(kind), before, now, [("id",)], empty=True) == expected


def test_messages_of_types_without_deltas_come_whole() -> None:
    assert compute_delta(get_type("binary"), b"a", b"b", [], empty=True) is None


def test_a_topic_without_records_has_none_that_could_leave(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("t"), ("t", "events")))
    for options in ({"oof": True}, {"delta": True}):
        with pytest.raises(UsageError) as caught:
            following(lab, "events", **options)
        assert caught.value.code == "SOW-FOL-004"


def test_what_is_held_survives_its_file(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(SUBSCRIPTION_LIMITS, "copy_part_bytes", 500)
    kept, model = HeldValues(memory=1000), dict[bytes, bytes]()
    for _ in range(5000):
        key = chance.randrange(60).to_bytes(8, "big")
        if chance.random() < 0.2:
            kept.drop(key)
            model.pop(key, None)
        else:
            value = bytes([chance.randrange(256)]) * chance.randrange(200)
            kept.put(key, value)
            model[key] = value
        assert len(kept) == len(model)
    assert {key: kept.get(key) for key in kept} == model
    assert kept._file is not None
    assert kept._end < 60 * 200 + 4 * 1000 + 3 * kept._garbage
    kept.close()


def test_folded_events_are_the_result_at_every_quiet_point(lab: Lab, seed: int, deep: bool) -> None:
    chance = random.Random(seed)

    def queried(topic: str, text: str | None) -> list[str]:
        return lab.query(topic, text) if lab.store(topic).exists() else []

    filters = (None, "/v > 50", "/v < 30 OR /id = 3")
    # records of quotes expire after 30 seconds
    running = [
        (topic, text, following(lab, topic, text, oof=True), Holder()) for topic in ("t", "quotes") for text in filters
    ]
    deltas = [(text, following(lab, "t", text, oof=True, delta=True), dict[str, object]()) for text in filters]
    try:
        for _ in range(300 if deep else 25):
            for topic in ("t", "quotes"):
                if chance.random() < 0.8:
                    rows = [
                        message(id=chance.randrange(8), v=chance.randrange(100)) for _ in range(chance.randrange(1, 6))
                    ]
                    lab.publish(topic, *rows)
                elif lab.store(topic).exists():
                    lab.open().topic(topic).delete(filter=f"/id < {chance.randrange(4)}")
            lab.clock.tick(chance.choice((0, 0.5, 7)))
            if chance.random() < 0.2:
                lab.open().topic("quotes").expire()
            for topic, text, subscription, holder in running:
                holder.take(news(subscription))
                assert sorted(holder.held.values()) == sorted(map(str.encode, queried(topic, text)))
            for text, subscription, held in deltas:
                for event in news(subscription):
                    if event.command == "delta_publish":
                        held[str(event.sow_key)].update(json.loads(event.data or b""))  # type: ignore[attr-defined]
                    elif event.command == "oof":
                        assert json.loads(event.data or b"") is not None
                        del held[str(event.sow_key)]
                    elif event.data is not None:
                        held[str(event.sow_key)] = json.loads(event.data)
                key = lambda row: json.dumps(row, sort_keys=True)  # noqa: E731
                assert sorted(held.values(), key=key) == sorted(map(json.loads, queried("t", text)), key=key)
    finally:
        for _, _, subscription, _ in running:
            subscription.close()
        for _, subscription, _ in deltas:
            subscription.close()


def test_shapes_of_deltas_without_deltas_are_remarked_on(lab: Lab) -> None:
    with following(lab, "t", no_empties=True):
        assert any("--no-empties" in note and "--delta" in note for note in lab.notes)
    lab.notes.clear()
    with following(lab, "t", no_empties=True, send_keys=True, delta=True):
        assert not lab.notes
