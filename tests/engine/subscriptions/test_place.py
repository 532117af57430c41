"""A program's subscription with a stored position: acknowledged messages are not sent again, all others are."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.engine.subscriptions.bookmark_stores.file import FileStore
from sowctl.engine.subscriptions.events import Event
from sowctl.errors import LockedError
from tests.support.instances import Lab, config_xml, message, topic_xml
from tests.support.staged import run as stage

MakeLab = Callable[..., Lab]
KEYS = "<Key>/clientName</Key><Key>/subId</Key>"
STORE = f"<Topic><Name>marks</Name><MessageType>json</MessageType>{KEYS}<FileName>sow/marks.sow</FileName></Topic>"


@pytest.fixture
def shop(make_lab: MakeLab) -> Lab:
    lab = make_lab(config_xml(topic_xml("t") + STORE, ("t", "marks")))
    for number in range(1, 7):
        lab.publish("t", message(id=number))
    return lab


def run(lab: Lab, store: str, keep: Callable[[Event], bool], *, every: float = 0.0, sow: bool = False) -> list[int]:
    """Return the txids of the messages of a run, which acknowledges those that ``keep`` accepts."""
    instance, got = lab.open(), []
    with (
        instance.place(store, "c", "1", every=every) as place,
        instance.subscribe("t", sow=sow, until_now=True, bookmark=place.recent) as subscription,
    ):
        for event in place.events(subscription):
            if event.command == "publish":
                assert event.txid is not None
                got.append(event.txid)
                if keep(event):
                    assert place.acknowledge(event)
                    assert not place.acknowledge(event)
            else:
                assert not place.acknowledge(event)
    return got


@pytest.mark.parametrize("every", [0.0, 60.0])
def test_a_file_knows_each_message(shop: Lab, every: float) -> None:
    store = str(shop.directory / "a.bookmarks")
    assert run(shop, store, lambda event: event.txid in (1, 2, 4, 6), every=every) == [1, 2, 3, 4, 5, 6]
    assert run(shop, store, lambda event: event.txid == 5, every=every) == [3, 5]
    assert run(shop, store, lambda event: True, every=every) == [3]
    assert run(shop, store, lambda event: True, every=every) == []
    shop.publish("t", message(id=7))
    assert run(shop, store, lambda event: True, every=every) == [7]


def test_a_topic_knows_the_place(shop: Lab) -> None:
    assert run(shop, "marks", lambda event: event.txid in (1, 2, 4)) == [1, 2, 3, 4, 5, 6]
    assert run(shop, "marks", lambda event: True) == [3, 4, 5, 6]
    assert run(shop, "marks", lambda event: True) == []


def test_records_that_come_first_are_told_each_time(shop: Lab) -> None:
    store = str(shop.directory / "a.bookmarks")
    assert run(shop, store, lambda event: True, sow=True) == []
    shop.publish("t", message(id=8))
    assert run(shop, store, lambda event: True) == [7]


def test_a_run_that_ends_within_messages_of_one_bookmark_gets_the_rest(shop: Lab) -> None:
    stage(shop, "t", [message(id=7), message(id=8), message(id=9)], publisher=("bulk", 1))
    shop.publish("t", message(id=10), client="p")
    store, got = str(shop.directory / "a.bookmarks"), []
    for _ in range(12):
        instance = shop.open()
        with (
            instance.place(store, "c", "1", every=0.0) as place,
            instance.subscribe("t", sow=False, most=1, until_now=True, bookmark=place.recent) as subscription,
        ):
            for event in place.events(subscription):
                if event.data is not None:
                    got.append(event.txid)
                    place.acknowledge(event)
        if len(got) == 7:
            # Three messages have one bookmark: until all three are acknowledged, the position stays before them.
            assert got == [1, 2, 3, 4, 5, 6, 7]
            break
    with (
        instance.place(store, "c", "1", every=0.0) as place,
        instance.subscribe("t", sow=False, most=3, until_now=True, bookmark=place.recent) as subscription,
    ):
        for event in place.events(subscription):
            got.append(event.txid)
            place.acknowledge(event)
    assert got[7:] == [7, 8, 9]
    assert run(shop, store, lambda event: True) == [10]


def test_what_was_not_stored_comes_again(shop: Lab, tmp_path: Path) -> None:
    instance = shop.open()
    place = instance.place(str(tmp_path / "a.bookmarks"), "c", "1", every=60.0)
    with instance.subscribe("t", sow=False, until_now=True, bookmark=place.recent) as subscription:
        for event in place.events(subscription):
            place.acknowledge(event)
    # As after a crash, the position is not closed, and the store does not know it.
    assert FileStore(tmp_path / "a.bookmarks", instance.seam, instance.clock).list_places() == []
    place.close()
    assert instance.place(str(tmp_path / "a.bookmarks"), "c", "1").recent != "0"


@pytest.mark.parametrize("store", ["a.bookmarks", "marks"])
def test_one_run_has_a_place(shop: Lab, store: str) -> None:
    instance = shop.open()
    name = store if store == "marks" else str(shop.directory / store)
    with instance.place(name, "c", "1") as first:
        with pytest.raises(LockedError) as caught:
            shop.open().place(name, "c", "1")
        assert (caught.value.code, caught.value.facts["holder_pid"]) == ("SOW-BKM-010", os.getpid())
        assert str(os.getpid()) in caught.value.message
        with shop.open().place(name, "c", "2"), shop.open().place(name, "d", "1"):
            assert first.recent == "0"
    with shop.open().place(name, "c", "1"):
        pass
    assert not list(shop.directory.rglob("*-place-*"))


def test_a_killed_run_leaves_no_lock(shop: Lab) -> None:
    name = str(shop.directory / "a.bookmarks")
    child = os.fork()
    if child == 0:
        kept = shop.open().place(name, "c", "1")
        os.kill(os.getpid() if kept.recent else 0, signal.SIGKILL)
    os.waitpid(child, 0)
    assert len(list(shop.directory.glob("*-place-*"))) == 1
    with shop.open().place(name, "c", "1"):
        pass
    assert not list(shop.directory.glob("*-place-*"))


def test_a_place_that_was_forgotten_is_free(shop: Lab) -> None:
    name = str(shop.directory / "a.bookmarks")
    place = shop.open().place(name, "c", "1")
    del place
    gc.collect()
    with shop.open().place(name, "c", "1"):
        pass
