"""Live pages: cases C91-C93, the edges of a page, and a page that equals the query after every message."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from sowctl.engine.subscriptions.events import Event
from sowctl.engine.subscriptions.feeds.order import OrderedItems
from sowctl.engine.subscriptions.limits import SUBSCRIPTION_LIMITS
from sowctl.errors import UsageError
from tests.support.following import following, news, told
from tests.support.instances import Lab, message

OOF = ("command", "reason", "id")


def _page(lab: Lab, *ids: int, size: int = 2, skip: int = 1, order: str = "/id", **options: Any):  # type: ignore[no-untyped-def]
    lab.publish("t", *(message(id=number) for number in ids))
    return following(lab, "t", order_by=order, top_n=size, skip_n=skip, oof=True, **options)


def test_c91_a_record_that_enters_pushes_one_out(lab: Lab) -> None:
    with _page(lab, 1, 2, 5, 7) as subscription:
        assert told(news(subscription)[1:-1], "id") == [(2,), (5,)]
        lab.clock.tick(9)
        lab.publish("t", message(id=4))
        out, entered = news(subscription)
        assert told([out, entered], *OOF) == [("oof", "match", 5), ("publish", None, 4)]
        # the bookmark of the cause, and the time of each record (decision 56)
        assert (out.bookmark, out.txid) == (entered.bookmark, entered.txid)
        assert out.timestamp == lab.clock.at - 9_000_000
        assert entered.timestamp == lab.clock.at


def test_c92_what_is_deleted_beside_the_page_is_not_told(lab: Lab) -> None:
    with _page(lab, 1, 2, 5, 7) as subscription:
        news(subscription)
        lab.open().topic("t").delete(filter="/id = 7")
        assert news(subscription) == []


def test_c93_a_delete_before_the_page_moves_it(lab: Lab) -> None:
    with _page(lab, 1, 2, 5, 7) as subscription:
        news(subscription)
        lab.open().topic("t").delete(filter="/id = 1")
        assert told(news(subscription), *OOF) == [("oof", "match", 2), ("publish", None, 7)]


def test_the_table_of_behaviour_4_4(lab: Lab) -> None:
    with _page(lab, 1, 2, 5, 7) as subscription:
        news(subscription)
        lab.publish("t", message(id=4))
        assert told(news(subscription), *OOF) == [("oof", "match", 5), ("publish", None, 4)]
        lab.publish("t", message(id=2, x=1))
        assert told(news(subscription), *OOF) == [("publish", None, 2)]
        lab.publish("t", message(id=9))
        assert news(subscription) == []
        lab.open().topic("t").delete(filter="/id = 4")
        assert told(news(subscription), *OOF) == [("oof", "deleted", 4), ("publish", None, 5)]
        lab.open().topic("t").delete(filter="/id = 1")
        assert told(news(subscription), *OOF) == [("oof", "match", 2), ("publish", None, 7)]
        lab.open().topic("t").delete(filter="/id = 9")
        assert news(subscription) == []


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("add_first", [False, True])
def test_the_edge_of_a_page_within_one_batch(lab: Lab, descending: bool, add_first: bool) -> None:
    ids = (10, 20, 30, 40)
    with _page(lab, *ids, skip=0, order="/v DESC" if descending else "/v") as subscription:
        held = Shown(size=2)
        held.take(news(subscription))
        lab.publish("t", *(message(id=number, v=-number if descending else number) for number in ids))
        held.take(news(subscription))
        assert held.ids == {10, 20}
        sign = -1 if descending else 1
        inserted, edge = message(id=15, v=15 * sign), message(id=20, v=99 * sign)
        # one batch: a record enters at the edge, and the record at the edge moves past the page
        lab.publish("t", *((inserted, edge) if add_first else (edge, inserted)))
        held.take(news(subscription))
        assert held.ids == {10, 15}


class Shown:
    """The page as its subscriber holds it; a record that leaves must be in it."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.held: dict[str, Any] = {}

    @property
    def ids(self) -> set[int]:
        return {row["id"] for row in self.held.values()}

    def take(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.sow_key is None or event.data is None:
                continue
            if event.command == "oof":
                del self.held[event.sow_key]
            elif event.command == "delta_publish":
                self.held[event.sow_key] = self.held[event.sow_key] | json.loads(event.data)
            else:
                self.held[event.sow_key] = json.loads(event.data)
        assert len(self.held) <= self.size


@pytest.mark.parametrize("topic", ["t", "quotes"])
def test_a_page_is_that_of_a_query_after_every_message(lab: Lab, seed: int, deep: bool, topic: str) -> None:
    chance = random.Random(seed)
    lab.publish(topic, *(message(id=number, v=chance.randrange(30), w=0) for number in range(12)))
    shapes = [
        (size, skip, order, text, delta)
        for size, skip in ((3, 0), (2, 3), (5, 9), (0, 2))
        for order, text, delta in (("/v", None, False), ("/v DESC, /id", "/v > 5", True), (None, "/w < 3", False))
    ]
    running = [
        (shape, Shown(shape[0]), following(
            lab, topic, shape[3], order_by=shape[2], top_n=shape[0], skip_n=shape[1], oof=True, delta=shape[4]
        ))
        for shape in shapes
    ]  # fmt: skip
    try:
        for _ in range(300 if deep else 25):
            if chance.random() < 0.75:
                rows = [
                    message(id=chance.randrange(20), v=chance.randrange(30), w=chance.randrange(5))
                    for _ in range(chance.choice((1, 1, 2, 6)))
                ]
                lab.publish(topic, *rows)
            else:
                lab.open().topic(topic).delete(filter=f"/id = {chance.randrange(20)}")
            lab.clock.tick(chance.choice((0, 1, 4)))
            for (size, skip, order, text, _), shown, subscription in running:
                shown.take(news(subscription))
                expected = [json.loads(row) for row in lab.query(topic, text, order_by=order, top_n=size, skip_n=skip)]
                found = sorted(shown.held.values(), key=lambda row: row["id"])
                assert found == sorted(expected, key=lambda row: row["id"])
    finally:
        for _, _, subscription in running:
            subscription.close()


def test_texts_become_numbers_with_the_first_number(lab: Lab) -> None:
    lab.publish("t", *(message(id=number, v=text) for number, text in ((1, "10"), (2, "9"))))
    with following(lab, "t", order_by="/v", top_n=1, skip_n=0, oof=True) as subscription:
        shown = Shown(1)
        shown.take(news(subscription))
        assert shown.ids == {1}
        lab.publish("t", message(id=3, v=100))
        shown.take(news(subscription))
        assert [json.loads(row)["id"] for row in lab.query("t", order_by="/v", top_n=1)] == [2]
        assert shown.ids == {2}


def test_a_page_without_oof_is_allowed_with_a_note(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    with following(lab, "t", top_n=1, skip_n=0) as subscription:
        assert any("--oof" in note for note in lab.notes)
        assert len(news(subscription)) == 3


def test_a_page_is_of_one_topic(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    with pytest.raises(UsageError) as caught:
        following(lab, "^(t|past)$", top_n=1, skip_n=0)
    assert caught.value.code == "SOW-FOL-005"


def test_top_n_alone_makes_no_page(lab: Lab) -> None:
    lab.publish("t", message(id=1), message(id=2))
    with following(lab, "t", order_by="/id", top_n=1, oof=True) as subscription:
        assert told(news(subscription)[1:-1], "id") == [(1,)]
        lab.publish("t", message(id=0))
        assert told(news(subscription), *OOF) == [("publish", None, 0)]


def test_ordered_items_are_a_sorted_list(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SUBSCRIPTION_LIMITS, "bucket_items", 4)
    chance = random.Random(seed)
    model = sorted(chance.sample(range(1000), 50))
    ordered = OrderedItems(model)
    for _ in range(2000):
        if model and chance.random() < 0.5:
            item = chance.choice(model)
            model.remove(item)
            ordered.remove(item)
        elif (item := chance.randrange(1000)) not in model:
            model = sorted([*model, item])
            ordered.add(item)
        start, count = chance.randrange(60), chance.randrange(60)
        assert ordered.slice_items(start, count) == model[start : start + count]
        assert len(ordered) == len(model)
    for missing in (-1, 1000):
        with pytest.raises(ValueError, match="no such item"):
            ordered.remove(missing)


def test_lifetimes_that_end_together_move_the_page_once(lab: Lab) -> None:
    lab.publish("quotes", *(message(id=number) for number in (1, 2, 3)))
    lab.clock.tick(5)
    lab.publish("quotes", *(message(id=number) for number in (4, 5)))
    with following(lab, "quotes", order_by="/id", top_n=2, skip_n=0, oof=True) as subscription:
        assert told(news(subscription)[1:-1], "id") == [(1,), (2,)]
        lab.clock.tick(25)
        # Record 3 expires at the same time, and neither enters nor leaves.
        assert told(news(subscription), *OOF) == [
            ("oof", "expired", 1),
            ("oof", "expired", 2),
            ("publish", None, 4),
            ("publish", None, 5),
        ]
