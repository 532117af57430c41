"""The bookmark store in a SOW topic (C140), and which store a text names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sowctl.config.model import TopicConfig
from sowctl.engine.instance import Instance
from sowctl.engine.options import DeleteOptions
from sowctl.engine.subscriptions.bookmark_stores.file import FileStore
from sowctl.engine.subscriptions.bookmark_stores.progress import ConsumerProgress
from sowctl.engine.subscriptions.bookmark_stores.protocol import (
    NOTHING_ACKNOWLEDGED,
    BookmarkStore,
    PlaceAdvance,
    StoredPlace,
    Subscriber,
)
from sowctl.engine.subscriptions.bookmark_stores.store_kinds import open_bookmark_store
from sowctl.engine.subscriptions.bookmark_stores.topic import TopicStore
from sowctl.engine.topics.targets import Target
from sowctl.engine.verbs.delete import delete_records
from sowctl.engine.verbs.publish import publish_messages
from sowctl.engine.writing.batches import ListSource
from sowctl.errors import MissingError, UsageError
from sowctl.identity.hashes import hash_client_name
from tests.support.instances import START, Lab, config_xml, message, topic_xml

MakeLab = Callable[..., Lab]
C1, C2 = Subscriber("c", "1"), Subscriber("c", "2")
KEYS = "<Key>/clientName</Key><Key>/subId</Key>"


class Verbs:
    """The real verbs."""

    def publish(self, instance: Instance, topic: TopicConfig, payload: bytes) -> None:
        publish_messages(
            instance, topic.label, [("row", ListSource([payload], call=""))], message_type=topic.message_type
        )

    def delete(self, instance: Instance, topic: TopicConfig, payload: bytes) -> None:
        delete_records(instance, [Target(topic=topic)], DeleteOptions(data=(payload,)))


def store_xml(name: str = "/sample/bookmarkStore", kind: str = "json", keys: str = KEYS) -> str:
    return (
        f"<Topic><Name>{name}</Name><MessageType>{kind}</MessageType>{keys}"
        "<FileName>sow/marks.%n.sow</FileName></Topic>"
    )


@pytest.fixture
def shop(make_lab: MakeLab) -> Lab:
    """Topics t and /sample/bookmarkStore, both journalled."""
    return make_lab(config_xml(topic_xml("t") + store_xml(), ("t", "/sample/bookmarkStore")))


def opened(lab: Lab, text: str = "/sample/bookmarkStore") -> BookmarkStore:
    return open_bookmark_store(lab.open(), text, Verbs())


def test_c140_a_row_for_each_subscription(shop: Lab) -> None:
    assert opened(shop).list_places() == []
    for sub_id, bookmark in (("1", "b1"), ("2", "b2")):
        shop.publish("/sample/bookmarkStore", message(clientName="c", subId=sub_id, bookmark=bookmark))
    store = opened(shop)
    row = store.read_place(C1)
    assert row is not None
    assert row.bookmark == "b1"
    assert store.read_place(Subscriber("c", "9")) is None
    assert ConsumerProgress(store, C1, 0).resume_bookmark == "b1"
    # EPOCH for a subscription that the store does not know.
    assert ConsumerProgress(store, Subscriber("c", "9"), 0).resume_bookmark == "0"
    assert not store.remembers
    assert store.read_acknowledged(C1) == NOTHING_ACKNOWLEDGED


def test_rows_are_messages_of_three_fields(shop: Lab) -> None:
    store = opened(shop)
    store.set_place(C1, "13948331409633568391|1465596069899000013|")
    expected = '{"clientName":"c","subId":"1","bookmark":"13948331409633568391|1465596069899000013|"}'
    assert shop.query("/sample/bookmarkStore") == [expected]
    store.advance_place(C2, PlaceAdvance("1|2|", {1: 2}))
    store.advance_place(C2, PlaceAdvance(None, {}, []))
    shop.clock.tick(1)
    store.advance_place(C1, PlaceAdvance("1|3|", {1: 3}))
    assert opened(shop).list_places() == [StoredPlace(C1, "1|3|", START + 1_000_000), StoredPlace(C2, "1|2|", START)]
    assert store.remove_place(C1)
    assert not store.remove_place(C1)
    assert [row.who for row in opened(shop).list_places()] == [C2]
    store.close()


def test_incomplete_rows_are_left_out(shop: Lab) -> None:
    for more in ({}, {"bookmark": ""}, {"bookmark": None}, {"bookmark": {"a": 1}}):
        shop.publish("/sample/bookmarkStore", message(clientName="c", subId="1", **more))
        assert opened(shop).list_places() == []
    # Other clients write numbers where sowctl writes texts.
    shop.publish("/sample/bookmarkStore", message(clientName="c", subId=1, bookmark=0))
    assert [(row.who, row.bookmark) for row in opened(shop).list_places()] == [(C1, "0")]


@pytest.mark.parametrize("kind", ["nvfix", "bson", "msgpack"])
def test_any_type_whose_fields_can_be_written(make_lab: MakeLab, kind: str) -> None:
    store = opened(make_lab(config_xml(store_xml("marks", kind), ())), "marks")
    store.set_place(C1, "1|2|")
    store.set_place(C2, "[3:4)")
    assert [(row.who, row.bookmark) for row in store.list_places()] == [(C1, "1|2|"), (C2, "[3:4)")]


def test_other_topics_are_refused(make_lab: MakeLab) -> None:
    one = store_xml("one", keys="<Key>/clientName</Key>").replace("marks", "one")
    rooted = store_xml("rooted", "xml").replace("marks", "rooted")
    lab = make_lab(config_xml(topic_xml("t") + one + rooted, ("t",)))
    for name in ("t", "one", "rooted"):
        with pytest.raises(UsageError) as caught:
            opened(lab, name)
        assert caught.value.code == "SOW-BKM-005"


def test_which_store_a_text_names(shop: Lab) -> None:
    assert isinstance(opened(shop), TopicStore)
    directory = shop.directory
    store = opened(shop, str(directory / "a.bookmarks"))
    assert isinstance(store, FileStore)
    store.set_place(C1, "1|1|")
    (directory / "a.bookmarks").rename(directory / "plain")
    assert [row.who for row in opened(shop, str(directory / "plain")).list_places()] == [C1]
    for wrong in ("none", str(directory / "none"), str(directory / "none" / "a.bookmarks"), "sample/bookmarkStore"):
        with pytest.raises(MissingError) as caught:
            opened(shop, wrong)
        assert caught.value.code == "SOW-BKM-001"


def test_a_pattern_takes_names_that_are_no_files(make_lab: MakeLab) -> None:
    pattern = (
        "<Topic><Name>stores</Name><Pattern>.*</Pattern><MessageType>json</MessageType>"
        f"{KEYS}<FileName>sow/s.sow</FileName></Topic>"
    )
    lab = make_lab(config_xml(pattern, ()))
    path = lab.directory / "a.bookmarks"
    assert isinstance(opened(lab, str(path)), FileStore)
    store = opened(lab, "marks")
    assert isinstance(store, TopicStore)
    store.set_place(C1, "1|1|")
    assert [row.who for row in opened(lab, "marks").list_places()] == [C1]


def test_rows_may_lie_in_another_instance(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("t"), ("t",)))
    other = make_lab(config_xml(store_xml("marks"), (), name="other"), name="other")
    lab.publish("t", message(id=1), message(id=2), client="p", sequence=1)
    progress = ConsumerProgress(opened(other, "marks"), C1, lab.open().publisher_id)
    progress.note_delivered([hash_client_name("p")] * 2, [1, 2])
    progress.acknowledge(f"{hash_client_name('p')}|1|")
    assert progress.commit()
    assert ConsumerProgress(opened(other, "marks"), C1, 0).resume_bookmark == f"{hash_client_name('p')}|1|"
