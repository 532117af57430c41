"""bookmark: the positions of a store against the journal; set, rewind and remove."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sowctl.engine.api import RowVerbs
from sowctl.engine.subscriptions.bookmark_stores.protocol import BookmarkStore, Subscriber
from sowctl.engine.subscriptions.bookmark_stores.store_kinds import open_bookmark_store
from sowctl.engine.topics.positions import open_log
from sowctl.engine.topics.targets import resolve_followed_topics
from sowctl.engine.verbs.bookmark import (
    BookmarkStanding,
    Lag,
    SubscriptionSelection,
    list_standings,
    purge_subscriptions,
    rewind_places,
    set_place,
)
from sowctl.errors import MissingError, RefusedError, UsageError
from sowctl.identity.hashes import hash_client_name
from sowctl.seam import Seam
from tests.support.instances import SECOND, START, Lab, config_xml, message, topic_xml

MakeLab = Callable[..., Lab]
R = TypeVar("R")
ALL = SubscriptionSelection()
P, OWN = hash_client_name("p"), hash_client_name("test")
WHO = Subscriber("c", "1")


@pytest.fixture
def shop(make_lab: MakeLab) -> Lab:
    """Ten entries, a second apart; those with even ids come from client p with the numbers 1 to 5."""
    lab = make_lab(config_xml(topic_xml("t"), ("t",)))
    for number in range(10):
        lab.publish("t", message(id=number), **({} if number % 2 else {"client": "p"}))
        lab.clock.tick(1)
    return lab


def store(lab: Lab) -> BookmarkStore:
    return open_bookmark_store(lab.open(), str(lab.directory / "a.bookmarks"), RowVerbs())


def standing(lab: Lab, bookmark: str) -> BookmarkStanding:
    opened = store(lab)
    opened.set_place(WHO, bookmark)
    (found,) = list_standings(lab.open(), opened, ALL)
    return found


def test_how_far_behind_a_place_is(shop: Lab) -> None:
    size = len(message(id=0))
    one = standing(shop, f"{P}|2|")
    assert (one.publisher, one.txid, one.logged) == ("p", 3, START + 2 * SECOND)
    assert one.lag == Lag(7, 7 * size, 7.0)
    assert standing(shop, f"{OWN}|10|") == BookmarkStanding(
        standing(shop, f"{OWN}|10|").row, "test", 10, START + 9 * SECOND, Lag(0, 0, 0.0)
    )
    assert standing(shop, "0").lag == Lag(10, 10 * size, 10.0)
    assert standing(shop, "0|1|").lag == Lag(0, 0, 0.0)
    assert standing(shop, f"{P}|2|,{OWN}|8|").txid == 3


def test_places_that_are_not_there(shop: Lab) -> None:
    shop.notes.clear()
    for wrong, code in ((f"{P}|9|", "SOW-ENG-070"), ("99", "SOW-ENG-070"), ("nonsense", "SOW-IDN-001")):
        problem = standing(shop, wrong).problem
        assert problem is not None
        assert problem.code == code
    partly = standing(shop, f"{P}|9|,{P}|2|")
    assert (partly.txid, partly.missing, partly.problem) == (3, (f"{P}|9|",), None)
    assert not shop.notes


def test_without_a_journal_rows_are_as_they_are(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("t"), ()))
    one = standing(lab, f"{P}|9|")
    assert (one.txid, one.lag, one.problem) == (None, None, None)


def test_set(shop: Lab) -> None:
    instance, opened = shop.open(), store(shop)
    assert set_place(instance, opened, WHO, "-5s") == "20260105T080005.000000Z"
    shop.clock.tick(60)
    # A relative time keeps the meaning of the moment when it was set.
    assert list_standings(instance, opened, ALL)[0].txid == 5
    for wrong in (f"{P}|9|", "[0:99]"):
        with pytest.raises(MissingError):
            set_place(instance, opened, WHO, wrong)
    assert set_place(instance, opened, WHO, f" {P}|9 ", force=True) == f"{P}|9|"
    with pytest.raises(UsageError) as caught:
        set_place(instance, opened, WHO, "recent")
    assert caught.value.code == "SOW-BKM-007"


def test_rewind_takes_all_back_or_none(shop: Lab) -> None:
    instance, opened = shop.open(), store(shop)
    for number, place in enumerate(("9", f"{P}|4|", f"{P}|77|")):
        opened.set_place(Subscriber("c", str(number)), place)
    with pytest.raises(RefusedError, match=r"subscription '1' .* txid 7") as caught:
        rewind_places(instance, opened, ALL, "8")
    assert caught.value.code == "SOW-BKM-008"
    assert [row.bookmark for row in opened.list_places()] == ["9", f"{P}|4|", f"{P}|77|"]
    assert [row.bookmark for row in rewind_places(instance, opened, SubscriptionSelection(sub_id="0"), "8")] == ["8"]
    assert {row.bookmark for row in rewind_places(instance, opened, ALL, "-8s")} == {"20260105T080002.000000Z"}
    assert [one.txid for one in list_standings(instance, opened, ALL)] == [2, 2, 2]
    for wrong in ("recent", "[0:3]"):
        with pytest.raises(UsageError):
            rewind_places(instance, opened, ALL, wrong)
    with pytest.raises(MissingError):
        rewind_places(instance, opened, ALL, "99")


class ActsOnce(Seam):
    """Do something else right before the first call at a point."""

    def __init__(self, point: str, act: Callable[[], object]) -> None:
        self.point, self.act = point, act

    def call(self, point: str, function: Callable[..., R], /, *args: Any, **kwargs: Any) -> R:  # type: ignore[override]
        if point == self.point:
            self.point = ""
            self.act()
        return function(*args, **kwargs)


def test_a_rewind_at_the_same_time_is_not_undone(shop: Lab) -> None:
    opened = store(shop)
    opened.set_place(WHO, "9")
    # The other command takes and releases the locks between this one's read and its own locks.
    seam = ActsOnce("file.lock", lambda: rewind_places(shop.open(), store(shop), ALL, "2"))
    with pytest.raises(RefusedError) as caught:
        rewind_places(shop.open(seam), opened, ALL, "6")
    assert caught.value.code == "SOW-BKM-008" and not seam.point
    assert [row.bookmark for row in opened.list_places()] == ["2"]


def test_a_place_that_was_removed_meanwhile_is_not_made_again(shop: Lab) -> None:
    opened, gone = store(shop), Subscriber("d", "1")
    for who in (WHO, gone):
        opened.set_place(who, "9")
    seam = ActsOnce("file.lock", lambda: purge_subscriptions(shop.open(), store(shop), SubscriptionSelection("d")))
    assert [row.who for row in rewind_places(shop.open(seam), opened, ALL, "6")] == [WHO]
    assert [row.bookmark for row in opened.list_places()] == ["6"]


def test_purge(shop: Lab) -> None:
    opened = store(shop)
    for client in ("c", "d"):
        for number in ("1", "2"):
            opened.set_place(Subscriber(client, number), "0")
    assert len(purge_subscriptions(shop.open(), opened, SubscriptionSelection("c"), dry_run=True)) == 2
    assert [row.who for row in purge_subscriptions(shop.open(), opened, SubscriptionSelection("c", "2"))] == [
        Subscriber("c", "2")
    ]
    assert [row.who for row in purge_subscriptions(shop.open(), opened, SubscriptionSelection(sub_id="1"))] == [
        WHO,
        Subscriber("d", "1"),
    ]
    assert [row.who for row in opened.list_places()] == [Subscriber("d", "2")]


VIEW = (
    "<View><Name>sums</Name><MessageType>json</MessageType><UnderlyingTopic>u</UnderlyingTopic>"
    "<Projection><Field>/id AS /id</Field><Field>COUNT(/pad) AS /n</Field></Projection>"
    "<Grouping><Field>/id</Field></Grouping></View>"
)


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Batches of several sizes in small files; some txids are unused."""
    lab = Lab(tmp_path_factory.mktemp("lags") / "lab", config_xml(topic_xml("t") + topic_xml("u") + VIEW, ("t", "u")))
    lab.journal_size = 1500
    for count, topic in zip((1, 3, 2, 5, 1, 1, 4), "tuttutu", strict=True):
        lab.publish(topic, *(message(id=number, pad="x" * (number * 7 % 30)) for number in range(count)))
        lab.clock.tick(2)
    return lab


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 17), min_size=1, max_size=6), st.sampled_from([None, "t", "u", "sums", "^[tu]$"]))
def test_lags_are_those_of_a_count_of_entries(
    blocks: Lab, tmp_path_factory: pytest.TempPathFactory, places: list[int], target: str | None
) -> None:
    path: Path = tmp_path_factory.mktemp("store") / "a.bookmarks"
    opened = open_bookmark_store(blocks.open(), str(path), RowVerbs())
    for number, place in enumerate(places):
        opened.set_place(Subscriber("c", str(number)), str(place))
    with open_log(blocks.open()) as log:
        entries = [entry for block in log.iter_blocks() for entry in block.iter_entries()]
    topics = None if target is None else resolve_followed_topics(blocks.open(), target)
    names = {"t": "t", "u": "u", "sums": "u"}.get(target or "", "tu")
    for one in list_standings(blocks.open(), opened, ALL, topics):
        place = places[int(one.row.who.sub_id)]
        behind = [entry for entry in entries if entry.txid > place and entry.topic[0] in names]
        seconds = (blocks.clock.at - behind[0].time) / SECOND if behind else 0.0
        assert one.lag == Lag(len(behind), sum(len(entry.payload) for entry in behind), seconds)
