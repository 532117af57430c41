"""Historical subscriptions: the numbered cases end to end, ranges in time, rates, ends, and rejected requests."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from sowctl.engine.options import SubscribeOptions
from sowctl.engine.subscriptions import replay as module
from sowctl.engine.subscriptions.control import ControlLine, apply_replace_line, apply_subscription_text
from sowctl.engine.subscriptions.events import Event
from sowctl.engine.subscriptions.pace import ReplayPace
from sowctl.engine.topics.positions import open_log
from sowctl.engine.verbs.publish import publish_messages
from sowctl.engine.writing.batches import ListSource
from sowctl.errors import MissingError, SowError, UsageError
from sowctl.identity.hashes import hash_client_name
from sowctl.values.times import format_time
from tests.support.instances import SECOND, START, Lab, config_xml, message, topic_xml

MakeLab = Callable[..., Lab]
C = hash_client_name("c")


def e(number: int) -> str:
    return f"{C}|{10 + number}|"


def stamp(seconds: float) -> str:
    return format_time(START + round(seconds * SECOND))


@pytest.fixture
def five(lab: Lab) -> Lab:
    """Five entries of client c, numbered 11 to 15, one every ten seconds."""
    for number in range(1, 6):
        lab.publish("t", message(id=number), client="c", sequence=10 + number)
        lab.clock.tick(10)
    return lab


def events(lab: Lab, topic: str = "t", **options: object) -> list[Event]:
    with lab.open().topic(topic).subscribe(**({"until_now": True, "sow": False} | options)) as subscription:  # type: ignore[arg-type]
        return list(subscription)


def told(lab: Lab, topic: str = "t", **options: object) -> list[str]:
    """Return the payloads of messages, and the names of other events."""
    return [event.data.decode() if event.data is not None else event.command for event in events(lab, topic, **options)]


def ids(*numbers: int) -> list[str]:
    return [message(id=number) for number in numbers]


def test_c101_to_c109(five: Lab) -> None:
    expected = {
        "0": (1, 2, 3, 4, 5),
        "0|1|": (),
        e(2): (3, 4, 5),
        f"{e(4)},{e(2)}": (3, 4, 5),
        f"{C}|99|,{e(3)}": (4, 5),
        stamp(-60): (1, 2, 3, 4, 5),
        f"[{e(2)}:{e(4)})": (2, 3),
        f"({e(2)}:{e(4)}]": (3, 4),
        f"[{e(3)},{e(2)}:{e(4)},{e(5)}]": (2, 3, 4, 5),
        f"[{stamp(10)}:{stamp(30)})": (2, 3),
        "[4:2]": (),
    }
    for text, numbers in expected.items():
        assert told(five, bookmark=text) == [*ids(*numbers), "completed"], text


def test_c106_an_unknown_bookmark(five: Lab) -> None:
    assert told(five, bookmark=f"{C}|99|") == ["completed"]
    assert told(five, bookmark=f"{C}|99|", bookmark_not_found="epoch") == [*ids(1, 2, 3, 4, 5), "completed"]
    with pytest.raises(MissingError):
        told(five, bookmark=f"{C}|99|", bookmark_not_found="fail")


def test_c110_deletes_are_not_replayed(lab: Lab) -> None:
    lab.publish("t", message(id=1), message(id=2))
    lab.open().topic("t").delete(data=[message(id=1).encode()])
    lab.publish("t", message(id=3))
    assert told(lab, bookmark="0") == [*ids(1, 2, 3), "completed"]


def test_c111_and_other_replays_that_cannot_be(five: Lab) -> None:
    for wrong in (
        {"bookmark": "0", "delta": True},
        {"bookmark": "0", "oof": True},
        {"bookmark": "0", "top_n": 3, "skip_n": 0},
        {"rate": "1000"},
        {"bookmark_not_found": "epoch"},
        {"bookmark": "0", "rate_max_gap": 1.0},
        {"bookmark": "0", "projection": "/id AS /id", "grouping": "/id"},
        {"bookmark": "0", "projection": "/id AS /id", "grouping": "/id", "sow": True},
        {"bookmark": "0|1|", "top_n": 2},
        {"top_n": 2},
    ):
        with pytest.raises(UsageError) as caught:
            events(five, **wrong)
        assert caught.value.code == "SOW-FOL-024"
    for wrong, code in (
        ({"bookmark": "recent"}, "SOW-FOL-022"),
        ({"bookmark": "0", "bookmark_not_found": "perhaps"}, "SOW-FOL-023"),
        ({"bookmark": "x"}, "SOW-IDN-001"),
        ({"bookmark": "0", "rate": "fast"}, "SOW-FOL-020"),
    ):
        with pytest.raises(UsageError) as caught:
            events(five, **wrong)
        assert caught.value.code == code
    with pytest.raises(SowError) as refused:
        events(five, "alone", bookmark="0")
    assert refused.value.code == "SOW-FOL-021"


def test_messages_behind_the_replay_follow_it(five: Lab) -> None:
    with five.open().topic("t").subscribe(bookmark=e(4), sow=False) as subscription:
        assert [event.txid for event in subscription.ready() for event in event] == [5, 5]
        five.publish("t", message(id=6))
        (delivery,) = subscription.ready()
        assert [event.data for event in delivery] == [message(id=6).encode()]


def test_filter_and_number_of_messages(five: Lab) -> None:
    assert told(five, bookmark="0", filter="/id > 2", top_n=2) == ids(3, 4)
    assert told(five, bookmark="0", most=1) == ids(1)
    assert told(five, bookmark="0", top_n=3, most=2) == told(five, bookmark="0", top_n=2, most=3) == ids(1, 2)
    assert told(five, bookmark="0", top_n=0) == []
    completed = events(five, bookmark="0", filter="/id > 7")
    assert [(event.command, event.txid) for event in completed] == [("completed", 5)]
    # A subscription can continue at the bookmark of the completed event.
    assert told(five, bookmark=completed[0].bookmark) == ["completed"]


def test_an_end_in_the_future(five: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = five.open().topic("t")
    with topic.subscribe(bookmark=f"[{stamp(30)}:{stamp(80)})", sow=False) as subscription:
        assert [event.txid for delivery in subscription.ready() for event in delivery] == [4, 5, 5]
        five.clock.at = START + 79 * SECOND
        five.publish("t", message(id=6))
        assert [event.txid for delivery in subscription.ready() for event in delivery] == [6]
        assert not subscription.finished
        five.clock.at = START + 80 * SECOND
        five.publish("t", message(id=7))
        assert list(subscription.ready()) == []
        assert subscription.finished
    # If no entry follows, the clock shows that the end is reached.
    with topic.subscribe(bookmark=f"[{stamp(80)}:{stamp(100)}]", sow=False) as subscription:
        assert [event.txid for delivery in subscription.ready() for event in delivery] == [7, 7]
        five.clock.at = START + 100 * SECOND
        list(subscription.ready())
        assert not subscription.finished
        five.clock.at = START + 102 * SECOND
        list(subscription.ready())
        assert subscription.finished


def test_a_beginning_in_the_future(five: Lab) -> None:
    with five.open().topic("t").subscribe(bookmark=stamp(100), sow=False) as subscription:
        assert [delivery.command for delivery in subscription.ready()] == ["completed"]
        five.publish("t", message(id=6))
        assert list(subscription.ready()) == []
        five.clock.at = START + 100 * SECOND
        five.publish("t", message(id=7))
        assert [event.data for delivery in subscription.ready() for event in delivery] == [message(id=7).encode()]


def test_c82_records_of_the_past_and_what_came_behind_them(lab: Lab) -> None:
    for number in (1, 2, 3):
        lab.publish("past", message(id=1, v=number))
        lab.clock.tick(60)
    found = told(lab, "past", bookmark="2", sow=True)
    rows = [message(id=1, v=number) for number in (2, 3)]
    assert found == ["group_begin", rows[0], "group_end", rows[1], "completed"]
    # A page at that position, kept up to date.
    page = told(lab, "past", bookmark="2", sow=True, top_n=1, skip_n=0, oof=True)
    assert page == ["group_begin", rows[0], "group_end", rows[1], "completed"]


def test_a_page_of_the_past_is_followed_to_the_present(lab: Lab, seed: int) -> None:
    chance = random.Random(seed)
    for number in range(60):
        lab.publish("past", message(id=chance.randrange(12), price=chance.randrange(100), n=number))
        lab.clock.tick(chance.choice([1, 7, 20]))
        if chance.random() < 0.1:
            lab.open().topic("past").delete(data=[message(id=chance.randrange(12)).encode()])
    asked = {"filter": "/price > 10", "order_by": "/price DESC, /id", "top_n": 4, "skip_n": 1}
    with open_log(lab.open()) as log:
        last = log.read_last_txid()
    for place in ("0", "1", "20", "40", str(last), "-100s"):
        held: dict[str | None, bytes | None] = {}
        for event in events(lab, "past", bookmark=place, sow=True, oof=True, **asked):
            if event.command in ("sow", "publish"):
                held[event.sow_key] = event.data
            elif event.command == "oof":
                held.pop(event.sow_key)
        expected = lab.query("past", **asked)  # type: ignore[arg-type]
        assert sorted(str(data, "utf-8") for data in held.values() if data) == sorted(expected), place


def test_without_history_the_records_are_those_of_now(five: Lab) -> None:
    found = told(five, bookmark="2", sow=True)
    assert sorted(found) == sorted(["group_begin", *ids(1, 2, 3, 4, 5), "group_end"])
    assert any("without History" in note for note in five.notes)


def test_a_replay_is_not_replaced(five: Lab) -> None:
    with five.open().topic("t").subscribe(bookmark="0", sow=False) as subscription:
        with pytest.raises(UsageError) as caught:
            list(subscription.replace(subscription.options))
        assert caught.value.code == "SOW-FOL-025"
        list(subscription.ready())
        list(subscription.replace(subscription.options))


def test_an_option_text_says_the_same() -> None:
    asked = apply_subscription_text(SubscribeOptions(sow=False), "bookmark_not_found=fail,rate=2X,rate_max_gap=10s")
    assert (asked.bookmark_not_found, asked.rate, asked.rate_max_gap) == ("fail", "2X", 10.0)


def test_how_a_replay_goes_is_not_replaced() -> None:
    with pytest.raises(UsageError) as caught:
        apply_replace_line(SubscribeOptions(bookmark="0"), ControlLine("replace", options="rate=3"))
    assert caught.value.code == "SOW-FOL-024"
    assert (
        apply_replace_line(SubscribeOptions(bookmark="0"), ControlLine("replace", filter="/id > 1")).filter == "/id > 1"
    )


class Waited:
    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Waited:
    """Use a manual clock for the pace of replays."""
    found = Waited()
    monkeypatch.setattr(module, "ReplayPace", lambda rate, gap, monotonic: ReplayPace(rate, gap, found))
    monkeypatch.setattr(time, "monotonic", found)
    return found


def test_messages_go_at_the_recorded_pace(five: Lab, clock: Waited) -> None:
    with five.open().topic("t").subscribe(bookmark="0", sow=False, rate="2X", until_now=True) as subscription:
        subscription._replay._monotonic = clock  # type: ignore[union-attr]
        times = []
        while True:
            times += [
                (event.txid if event.data else event.command, clock.at - 100)
                for delivery in subscription.ready()
                for event in delivery
            ]
            if subscription.finished:
                break
            pause = subscription._replay.pause_seconds  # type: ignore[union-attr]
            assert pause
            # A wake-up before the time keeps the message pending.
            clock.at += pause / 2
            assert not list(subscription.ready())
            clock.at += pause / 2
    assert times == [(1, 0), (2, 5), (3, 10), (4, 15), (5, 20), ("completed", 20)]


def test_what_is_live_is_not_held_back(five: Lab) -> None:
    with five.open().topic("t").subscribe(bookmark=e(5), sow=False, rate="0.001") as subscription:
        list(subscription.ready())
        five.publish("t", message(id=6), message(id=7))
        assert sum(len(delivery) for delivery in subscription.ready()) == 2


def test_a_journal_that_rolls_while_a_message_waits(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("t"), ("t",)))
    lab.journal_size = 1024
    for number in range(6):
        lab.publish("t", message(id=number, pad="x" * 300))
    with lab.open().topic("t").subscribe(bookmark="0", sow=False, rate="50") as subscription:
        found: list[int | None] = []
        for event in subscription:
            found.append(event.txid if event.data is not None else None)
            if len(found) in (2, 4):
                lab.publish("t", *(message(id=number, pad="y" * 300) for number in range(6, 9)))
            if len(found) == 13:
                break
    assert [txid for txid in found if txid is not None] == list(range(1, 13))


def test_a_paced_replay_waits_without_spinning(five: Lab) -> None:
    begun, used = time.monotonic(), time.process_time()
    assert told(five, bookmark="0", rate="10") == [*ids(1, 2, 3, 4, 5), "completed"]
    assert time.monotonic() - begun >= 0.4
    assert time.process_time() - used < 0.3


def test_topics_without_a_sow_and_logical_topics_are_replayed(make_lab: MakeLab) -> None:
    pattern = (
        "<Topic><Name>all</Name><Pattern>news/.*</Pattern><MessageType>json</MessageType><Key>/id</Key>"
        "<FileName>sow/all.sow</FileName></Topic>"
    )
    lab = make_lab(config_xml(pattern, ("all", "plain")))
    lab.publish("news/a", message(id=1))
    publish_messages(lab.open(), "plain", [("one", ListSource([message(id=2).encode()], call=""))])
    lab.publish("news/b", message(id=3))
    lab.publish("news/a", message(id=4))
    options = {"sow": False, "until_now": True, "bookmark": "1"}
    for target, expected in (("news/a", [4]), ("plain", [2]), ("^(news/.*|plain)$", [2, 3, 4])):
        with lab.open().subscribe(target, **options) as subscription:
            assert [event.txid for event in subscription if event.data is not None] == expected, target


def test_what_is_derived_is_not_replayed(make_lab: MakeLab) -> None:
    view = (
        "<View><Name>v</Name><UnderlyingTopic>t</UnderlyingTopic><MessageType>json</MessageType>"
        "<Projection><Field>/id</Field></Projection><Grouping><Field>/id</Field></Grouping></View>"
    )
    lab = make_lab(config_xml(topic_xml("t") + view, ("t",)))
    lab.publish("t", message(id=1))
    for options in ({"sow": False}, {"sow": True}):
        with lab.open().subscribe("v", bookmark="0", until_now=True, **options) as subscription:  # type: ignore[arg-type]
            if options["sow"]:
                # Like a topic without History: the current rows.
                assert [event.command for event in subscription] == ["group_begin", "sow", "group_end"]
                continue
            with pytest.raises(SowError) as caught:
                list(subscription)
            assert caught.value.code == "SOW-FOL-021"
