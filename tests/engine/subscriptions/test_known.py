"""The list of bookmark store files beside the journal: each is added once, prune reads it, torn lists do no harm."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.engine.maintenance.retention.prune import KeepRule, prune_files
from sowctl.engine.subscriptions.bookmark_stores.store_list import list_known_stores, note_store
from sowctl.errors import StorageError
from tests.support.faults import CountingSeam, FailAt, died_at_call
from tests.support.instances import Lab, config_xml, message, topic_xml

MakeLab = Callable[..., Lab]


@pytest.fixture
def shop(make_lab: MakeLab) -> Lab:
    lab = make_lab(config_xml(topic_xml("t"), ("t",)))
    lab.journal_size = 1100
    for number in range(40):
        lab.publish("t", message(id=number, w="x" * 90))
    return lab


def noted(lab: Lab) -> Path:
    return lab.directory / "journal" / "test.places"


def test_a_subscription_is_known_wherever_it_keeps_its_place(shop: Lab, tmp_path: Path) -> None:
    far = tmp_path / "far" / "away.bookmarks"
    far.parent.mkdir()
    for _ in range(2):
        with (
            shop.open() as instance,
            instance.place(str(far), "c", "1") as place,
            instance.subscribe("t", sow=False, most=5, until_now=True, bookmark=place.recent) as subscription,
        ):
            for event in place.events(subscription):
                place.acknowledge(event)
    assert noted(shop).read_text() == f"{far}\n"
    report = prune_files(shop.open(), KeepRule(keep_size=0))
    assert [held.holder for held in report.held] == [f"bookmark {far} c/1"] and report.held[0].after == 10
    # A removed store has no positions.
    far.unlink()
    assert prune_files(shop.open(), KeepRule(keep_size=0)).held == []


def test_each_file_is_noted_once_and_links_are_followed(shop: Lab, tmp_path: Path) -> None:
    instance = shop.open()
    (tmp_path / "link.bookmarks").symlink_to(tmp_path / "a.bookmarks")
    for name in ("a.bookmarks", "b.bookmarks", "link.bookmarks", "a.bookmarks"):
        note_store(instance, tmp_path / name)
    assert list_known_stores(instance) == [tmp_path / "a.bookmarks", tmp_path / "b.bookmarks"]
    strange = tmp_path / os.fsdecode(b"Gr\xfc\xdfe.bookmarks")
    note_store(instance, strange)
    assert list_known_stores(instance)[-1] == strange
    note_store(instance, tmp_path / "two\nlines.bookmarks")
    assert len(list_known_stores(instance)) == 3


def test_a_torn_line_spoils_no_other(shop: Lab, tmp_path: Path) -> None:
    instance = shop.open()
    note_store(instance, tmp_path / "a.bookmarks")
    with noted(shop).open("ab") as file:
        file.write(b"/half/of/a")
    assert list_known_stores(instance) == [tmp_path / "a.bookmarks"]
    note_store(instance, tmp_path / "b.bookmarks")
    assert tmp_path / "b.bookmarks" in list_known_stores(instance)


def test_without_a_journal_nothing_is_noted(make_lab: MakeLab, tmp_path: Path) -> None:
    lab = make_lab(config_xml(topic_xml("t"), ()))
    note_store(lab.open(), tmp_path / "a.bookmarks")
    assert list_known_stores(lab.open()) == []


def test_faults(shop: Lab, tmp_path: Path) -> None:
    store = tmp_path / "a.bookmarks"
    counting = CountingSeam()
    note_store(shop.open(counting), store)
    whole = noted(shop).read_bytes()
    for n in range(1, counting.count + 1):
        noted(shop).unlink(missing_ok=True)
        shop.notes.clear()
        note_store(shop.open(FailAt(n, errno.EACCES)), store)
        assert "--bookmarks" in shop.notes[0]
        for after in (False, True):
            noted(shop).unlink(missing_ok=True)
            assert died_at_call(n, lambda seam: note_store(shop.open(seam), store), after=after)
            assert list_known_stores(shop.open()) in ([], [store])
            note_store(shop.open(), store)
            assert noted(shop).read_bytes() == whole
    with pytest.raises(StorageError) as caught:
        list_known_stores(shop.open(FailAt(1, errno.EACCES)))
    assert caught.value.code == "SOW-BKM-012"
