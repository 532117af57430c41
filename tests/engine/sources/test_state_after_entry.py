"""A state as of a txid contains exactly the entries up to this txid, whatever their times."""

from __future__ import annotations

import json
import pickle
import random
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sowctl.engine.topics.log_places import parse_moment
from sowctl.errors import MissingError
from sowctl.values.times import EntryInstant
from tests.support.instances import SECOND, START, Lab, config_xml, message, topic_xml

MINUTE = 60 * SECOND
HISTORY = "<History><Window>52w</Window><Granularity>1us</Granularity></History>"
VIEW = (
    "<View><Name>v</Name><UnderlyingTopic>plain</UnderlyingTopic><MessageType>json</MessageType>"
    "<Projection><Field>/group</Field><Field>SUM(/value) AS /sum</Field></Projection>"
    "<Grouping><Field>/group</Field></Grouping></View>"
)
TOPICS = ("plain", "kept", "short")


class Entry(NamedTuple):
    """A change: the value of a message, None for a deletion."""

    topic: str
    time: int
    key: int
    value: dict[str, Any] | None


class Shop(NamedTuple):
    """An instance, and its entries in txid order."""

    lab: Lab
    entries: list[Entry]

    def compute_state(self, topic: str, txid: int) -> list[dict[str, Any]]:
        """Return the messages after an entry, by an independent fold."""
        found: dict[int, Entry] = {}
        for entry in self.entries[:txid]:
            if entry.topic == topic:
                found.pop(entry.key, None)
                found |= {entry.key: entry} if entry.value is not None else {}
        clock = self.entries[txid - 1].time
        lifetime = 15 * MINUTE if topic == "short" else 1 << 60
        return _sort([one.value for one in found.values() if one.value is not None and one.time + lifetime > clock])


def _sort(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(messages, key=lambda one: json.dumps(one, sort_keys=True))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """Batches of alternating topics: each has several times, several entries of one time, and overlaps others."""
    topics = topic_xml("plain") + topic_xml("kept", HISTORY) + topic_xml("short", "<Expiration>15m</Expiration>")
    lab = Lab(tmp_path_factory.mktemp("shop"), config_xml(topics + VIEW, TOPICS))
    chance = random.Random(1)
    entries: list[Entry] = []
    for turn, topic in enumerate(("plain", "kept", "plain", "short", "kept", "plain", "short")):
        # Times ascend within a topic. Those of "plain" are hours ahead of the others.
        lab.clock.at = START + turn * 40 * MINUTE + (600 * MINUTE if topic == "plain" else 0)
        for _ in range(4):
            values = [
                {"id": chance.randrange(5), "group": chance.randrange(2), "value": chance.randrange(99)} for _ in "123"
            ]
            lab.publish(topic, *(message(**value) for value in values))
            entries += [Entry(topic, lab.clock.at, value["id"], value) for value in values]
            key = values[0]["id"]
            if lab.open().topic(topic).delete(filter=f"/id = {key}").matched:
                entries.append(Entry(topic, lab.clock.at, key, None))
            lab.clock.tick(600)
    lab.clock.at = START + 1500 * MINUTE
    return Shop(lab, entries)


@pytest.mark.parametrize("topic", TOPICS)
def test_every_state_has_the_entries_up_to_its_txid(shop: Shop, topic: str) -> None:
    for txid in range(1, len(shop.entries) + 1):
        found = _sort(list(map(json.loads, shop.lab.query(topic, at=str(txid)))))
        assert found == shop.compute_state(topic, txid), txid


def test_a_time_takes_other_entries(shop: Shop) -> None:
    """Control of the test above: entries of a topic share times, and times of topics are out of order."""
    different = 0
    for txid, entry in enumerate(shop.entries, 1):
        found = _sort(list(map(json.loads, shop.lab.query("plain", at=entry.time))))
        different += found != shop.compute_state("plain", txid)
    assert different > 10


def test_the_state_after_the_last_entry_is_the_present(shop: Shop) -> None:
    last = str(len(shop.entries))
    for topic in ("plain", "kept", "v"):
        assert list(shop.lab.open().topic(topic).diff(at=last)) == []
        if topic != "kept":  # kept is excluded: its present digest includes versions
            assert shop.lab.open().topic(topic).digest(at=last).digest == shop.lab.digest(topic)


def test_views_keys_and_bookmarks_mean_the_same_state(shop: Shop) -> None:
    topic = shop.lab.open().topic("plain")
    for txid in range(1, len(shop.entries) + 1, 7):
        state = shop.compute_state("plain", txid)
        sums: dict[int, int] = {}
        for one in state:
            sums[one["group"]] = sums.get(one["group"], 0) + one["value"]
        rows = map(json.loads, shop.lab.query("v", at=str(txid)))
        assert {row["group"]: row["sum"] for row in rows} == sums
        assert _sort([json.loads(one.payload) for one in topic.get(*range(5), at=f"txid:{txid}")]) == state
        bookmark = f"{shop.lab.open().publisher_id}|{txid}|"
        assert _sort(list(map(json.loads, shop.lab.query("plain", at=bookmark)))) == state


def test_a_log_without_its_beginning_proves_some_states_and_refuses_others(tmp_path: Path) -> None:
    lab = Lab(tmp_path, config_xml(topic_xml("x"), ("x",)), journal_size=1200)
    for turn in range(30):
        lab.publish("x", message(id=turn % 2, n=turn), message(id=9, n=turn))
    for path in lab.journals()[:2]:
        path.unlink()
    codes, hint = [], None
    for txid in range(1, 61):
        try:
            found = {one["id"]: one["n"] for one in map(json.loads, lab.query("x", at=str(txid)))}
        except MissingError as error:
            codes.append(error.code)
            hint = error.hint
            continue
        turn, whole = divmod(txid - 1, 2)
        expected = {turn % 2: turn, (turn - 1) % 2: turn - 1, 9: turn if whole else turn - 1}
        assert found == expected, txid
        codes.append("")
    assert codes[-1] == "" and codes[0] == "SOW-ENG-070" and "SOW-ENG-050" in codes
    assert sorted(codes, reverse=True) == codes
    assert hint is not None and hint.endswith(f"that of txid {codes.index('') + 1}")


def test_versions_that_were_dropped_are_read_from_the_journal_while_it_is_whole(tmp_path: Path) -> None:
    coarse = "<History><Window>52w</Window><Granularity>1m</Granularity></History>"
    lab = Lab(tmp_path, config_xml(topic_xml("x", coarse), ("x",)), journal_size=1200)
    for number in range(40):
        lab.publish("x", message(id=1, n=number))
        lab.clock.tick(2)
    topic = lab.open().topic("x")
    for txid in range(1, 41):
        assert [json.loads(one)["n"] for one in lab.query("x", at=str(txid))] == [txid - 1]
        assert [json.loads(one.payload)["n"] for one in topic.get(1, at=str(txid))] == [txid - 1]
    assert lab.notes == []
    lab.journals()[0].unlink()
    retained = {json.loads(one)["n"] for txid in range(30, 41) for one in lab.query("x", at=str(txid))}
    assert len(retained) < 11 and 39 in retained
    assert lab.notes and all("Granularity" in note for note in lab.notes)


def test_a_conflated_topic_is_shown_as_of_the_time_of_the_entry(shop: Shop, tmp_path: Path) -> None:
    conflated = (
        "<ConflatedTopic><Name>c</Name><UnderlyingTopic>x</UnderlyingTopic><MessageType>json</MessageType>"
        "<Interval>1s</Interval></ConflatedTopic>"
    )
    lab = Lab(tmp_path, config_xml(topic_xml("x") + topic_xml("y") + conflated, ("x", "y")))
    for number in range(3):
        lab.publish("x", message(id=number))
        lab.clock.tick(10)
    lab.clock.at = START + 15 * SECOND
    lab.publish("y", message(id=1))
    lab.clock.at = START + 60 * SECOND
    assert len(lab.query("c", at="3")) == 2 and lab.notes == []
    assert len(lab.query("c", at="4")) == 2
    assert len(lab.notes) == 1 and "1 entry with a lower txid is later" in lab.notes[0]
    assert len(lab.query("x", at="4")) == 3


def test_an_instant_of_an_entry_is_a_number_that_knows_its_txid() -> None:
    one = EntryInstant(5, 7)
    assert (one + 0, one <= 5, min(one, 9) is one) == (5, True, True)
    assert one == pickle.loads(pickle.dumps(one)) and pickle.loads(pickle.dumps(one)).txid == 7
    assert one != EntryInstant(5, 8) and one != 5
    assert len({f"{one}", f"{EntryInstant(5, 8)}", f"{5}"}) == 3
    assert parse_moment("txid: 7", lambda: 0) == parse_moment("7", lambda: 0)
