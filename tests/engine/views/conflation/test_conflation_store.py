"""Stored states of conflated topics: where they continue, when they are rebuilt, and when nothing else has the data."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from sowctl.engine.topics.targets import resolve_targets
from sowctl.engine.verbs.conflate import ConflateReport, advance_conflated, follow_conflated
from sowctl.engine.verbs.info import list_topic_info
from sowctl.errors import MissingError, UsageError
from sowctl.values.times import format_time
from tests.cli.conftest import Cli, cli
from tests.support.instances import SECOND, START, Lab, config_xml, message, topic_xml

__all__ = ["cli"]
PLAIN = (
    "<ConflatedTopic><Name>c</Name><MessageType>json</MessageType><UnderlyingTopic>t</UnderlyingTopic></ConflatedTopic>"
)


def lab_of(tmp_path: Path, *, logged: bool, parts: str = "", xml: str = PLAIN) -> Lab:
    return Lab(tmp_path / "lab", config_xml(topic_xml("t", parts) + xml, ("t",) if logged else ()))


def tick(lab: Lab, name: str = "c") -> ConflateReport:
    [report] = advance_conflated(lab.open(), [name])
    return report


def kept(lab: Lab) -> Path:
    return lab.directory / "sow" / "t.json.sow-views" / "c.json.sow"


def values(lab: Lab, name: str = "c") -> dict[int, int]:
    return {one["id"]: one["v"] for one in map(json.loads, lab.query(name))}


def test_a_state_goes_on_from_where_it_stands(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, logged=True)
    lab.publish("t", *(message(id=n, v=0) for n in range(5)))
    report = tick(lab)
    assert (report.way, report.shown, report.pending) == ("computed", 0, 5)
    assert tick(lab).way == "current"
    lab.clock.tick(5)
    report = tick(lab)
    assert (report.way, report.shown, report.gone, report.pending) == ("advanced", 5, 0, 0)
    lab.clock.tick(1)
    lab.publish("t", message(id=1, v=1))
    lab.open().topic("t").delete(filter="/id = 2")
    report = tick(lab)
    assert report.pending == 2
    lab.clock.tick(5)
    # A reader advances it as well.
    assert values(lab) == {0: 0, 1: 1, 3: 0, 4: 0}
    assert tick(lab).way == "current"


def test_a_state_with_a_damaged_page_is_made_anew(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, logged=True)
    lab.publish("t", *(message(id=n, v=0) for n in range(60)))
    lab.clock.tick(5)
    tick(lab)
    lab.publish("t", *(message(id=n, v=1) for n in range(60)))
    tick(lab)
    lab.clock.tick(1)
    lab.publish("t", message(id=1, v=2))
    whole, ways = kept(lab).read_bytes(), set()
    for page in range(2, len(whole) // 4096):
        data = bytearray(whole)
        data[page * 4096 + 10 : page * 4096 + 12] = b"\x22\0"
        kept(lab).write_bytes(data)
        ways.add(tick(lab).way)
    assert ways == {"advanced", "computed"}


def test_a_state_is_made_anew_where_it_does_not_fit(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, logged=True)
    lab.publish("t", message(id=1, v=1))
    lab.clock.tick(5)
    assert tick(lab).way == "computed"
    # At the clock of the state: the message belongs to the output that was already shown.
    lab.publish("t", message(id=1, v=2))
    assert values(lab) == {1: 2}
    lab.clock.tick(1)
    assert values(lab) == {1: 2}
    # Another interval gives another output.
    lab.config.write_text(lab.xml.replace("</UnderlyingTopic></C", "</UnderlyingTopic><Interval>9s</Interval></C"))
    assert values(lab) == {}
    assert tick(lab).way == "current"
    # Damaged, or written by another program.
    kept(lab).write_bytes(b"no store")
    lab.clock.tick(3)
    assert values(lab) == {1: 2}
    kept(lab).unlink()
    assert values(lab) == {1: 2}


def test_an_entry_that_comes_late_is_put_in_its_place(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, logged=True)

    def late(seconds: float, key: int, value: int) -> None:
        """Publish to the journal now, with a time in the past."""
        lab.clock.tick(-seconds)
        lab.publish("t", message(id=key, v=value))
        lab.clock.tick(seconds)

    lab.publish("t", message(id=1, v=0), message(id=2, v=0))
    lab.clock.tick(5.2)
    assert tick(lab).shown == 2
    # The output at 5 includes messages of 4.9; a message of 5.1 opens an interval then.
    late(0.3, 1, 1)
    late(0.1, 2, 1)
    late(0.05, 3, 1)
    report = tick(lab)
    assert (report.way, report.shown, report.pending) == ("advanced", 1, 2)
    assert values(lab) == {1: 1, 2: 0}
    lab.clock.tick(4.9)
    assert values(lab) == {1: 1, 2: 1}
    lab.clock.tick(0.05)
    assert values(lab) == {1: 1, 2: 1, 3: 1}
    at = lab.clock.at
    kept(lab).unlink()
    assert {one["id"]: one["v"] for one in map(json.loads, lab.query("c", at=at))} == {1: 1, 2: 1, 3: 1}


def test_a_clock_that_is_set_back_leaves_the_state(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, logged=True)
    lab.publish("t", message(id=1, v=1))
    lab.clock.tick(5)
    assert tick(lab).shown == 1
    lab.clock.tick(-1)
    assert tick(lab).way == "ahead"
    assert values(lab) == {}
    lab.clock.tick(1)
    assert values(lab) == {1: 1}


def test_a_state_needs_no_older_journals(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, logged=True)
    lab.journal_size = 4096
    for number in range(60):
        lab.publish("t", message(id=number, v=1, text="x" * 200))
    lab.clock.tick(5)
    assert len(values(lab)) == 60
    gone = lab.journals()[:-1]
    assert gone
    for path in gone:
        path.unlink()
    lab.clock.tick(1)
    lab.publish("t", message(id=1, v=2))
    lab.clock.tick(5)
    assert values(lab)[1] == 2
    with pytest.raises(MissingError) as caught:
        lab.query("c", at=START + SECOND)
    assert caught.value.code == "SOW-ENG-050"


def test_without_a_journal_the_state_is_what_was_kept(tmp_path: Path) -> None:
    xml = PLAIN.replace("</UnderlyingTopic>", "</UnderlyingTopic><Filter>/v &gt; 0</Filter>") + PLAIN.replace(
        "<Name>c<", "<Name>cc<"
    ).replace(">t<", ">c<")
    lab = lab_of(tmp_path, logged=False, parts="<Expiration>8s</Expiration>", xml=xml)
    lab.publish("t", message(id=1, v=1), message(id=2, v=0), message(id=3, v=3))
    assert tick(lab).pending == 2
    assert values(lab) == {}
    lab.clock.tick(6)
    lab.publish("t", message(id=1, v=0), message(id=2, v=2))
    assert values(lab) == {}
    # After the end of the first interval: the message of 1 is shown, and the interval of its removal begins.
    report = tick(lab)
    assert (report.shown, report.pending) == (2, 2)
    assert values(lab) == {1: 1, 3: 3}
    assert tick(lab, "cc").pending == 2
    lab.clock.tick(2.5)
    # Record 3 expired at 8.
    assert tick(lab).pending == 3
    lab.clock.tick(5)
    tick(lab)
    assert values(lab) == {2: 2}
    with pytest.raises(MissingError) as caught:
        lab.query("c", at=START)
    assert caught.value.facts["first_instant"] == "2026-01-05T08:00:13.500000Z"
    assert [json.loads(payload)["id"] for payload in lab.query("c", at=lab.clock.at)] == [2]


@pytest.mark.parametrize("listed", [True, False])
def test_changes_are_found_by_the_change_list_or_by_looking_at_all(tmp_path: Path, listed: bool) -> None:
    lab = lab_of(tmp_path, logged=False)
    lab.publish("t", *(message(id=n, v=0) for n in range(30)))
    tick(lab)
    lab.clock.tick(5)
    assert tick(lab).shown == 30
    if not listed:
        # A store of another history, whose change list does not continue from the last position.
        lab.forget("t")
        lab.publish("t", *(message(id=n, v=0) for n in range(29)))
    lab.clock.tick(1)
    lab.publish("t", message(id=5, v=5))
    lab.open().topic("t").delete(filter="/id = 7")
    tick(lab)
    lab.clock.tick(5)
    tick(lab)
    assert values(lab) == {n: 5 if n == 5 else 0 for n in range(30 if listed else 29) if n != 7}


def test_following_takes_one_step_after_the_other(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, logged=True, xml=PLAIN.replace("</C", "<Interval>400ms</Interval></C"))
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        lab.clock.tick(seconds)

    lab.publish("t", message(id=1, v=1))
    steps = follow_conflated(lab.open(), ["c"], sleep)
    shown = [next(steps)[0].shown for _ in range(4)]
    assert shown == [0, 0, 1, 0]
    assert slept == [0.2, 0.2, 0.2]


def test_info_and_doctor_say_how_far_a_state_is_behind(tmp_path: Path, cli: Cli) -> None:
    lab = lab_of(tmp_path, logged=True)

    def row() -> tuple[object, ...]:
        [found] = list_topic_info(lab.open(), resolve_targets(lab.open(), "c", derived=True))
        return found.state, found.records, found.lag, found.note

    lab.publish("t", message(id=1, v=1), message(id=2, v=1))
    assert row() == ("no state", 0, 0, None)
    tick(lab)
    assert row() == ("current", 0, 0, "2 messages are pending")
    lab.clock.tick(5)
    # Reading the status advances nothing.
    assert row() == row() == ("behind", 0, 0, "2 messages are pending")
    tick(lab)
    lab.publish("t", message(id=1, v=2))
    assert row() == ("behind", 2, 1, None)
    told = cli("doctor", "-c", str(lab.config)).out
    assert "conflated topic c" in told
    (line,) = [line for line in told.splitlines() if "conflated topic c " in line]
    assert re.findall(r"\d[^ ,]*", line) == ["2", "0", "2026-01-05T08:00:05.000000Z", "1"]
    unlogged = lab_of(tmp_path / "other", logged=False)
    unlogged.publish("t", message(id=1, v=1))
    tick(unlogged)
    unlogged.clock.tick(100)
    [found] = list_topic_info(unlogged.open(), resolve_targets(unlogged.open(), "c", derived=True))
    assert found.state == "kept"


def test_names_of_other_entries_are_refused(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, logged=True)
    with pytest.raises(UsageError) as caught:
        tick(lab, "t")
    assert caught.value.code == "SOW-VIW-003"
    with pytest.raises(MissingError):
        tick(lab, "nothing")
    [report] = advance_conflated(lab.open(), ["[json].[c]"])
    assert report.topic == "c"


def test_a_source_without_file_and_journal_keeps_nothing(tmp_path: Path) -> None:
    transient = topic_xml("t", "<Durability>transient</Durability>", file=None)
    lab = Lab(tmp_path / "lab", config_xml(transient + PLAIN, ()))
    with pytest.raises(UsageError) as caught:
        tick(lab)
    assert caught.value.code == "SOW-VIW-002"
    recorded = Lab(tmp_path / "other", config_xml(transient + PLAIN, ("t",)))
    recorded.publish("t", message(id=1, v=1))
    recorded.clock.tick(5)
    assert tick(recorded).way == "computed by readers"
    assert values(recorded) == {1: 1}


def test_the_state_of_another_copy_is_made_anew(tmp_path: Path) -> None:
    """Two copies of an instance diverged: lineage and txids are the same, the messages are not."""
    lab = lab_of(tmp_path, logged=True)
    lab.publish("t", message(id=1, v=0))
    shutil.copytree(lab.directory, tmp_path / "copy")
    other = Lab(tmp_path / "copy", lab.xml, clock=lab.clock)
    lab.publish("t", message(id=1, v=1))
    other.publish("t", message(id=1, v=2))
    tick(lab)
    lab.clock.tick(5)
    tick(lab)
    assert values(lab) == {1: 1}
    kept(other).parent.mkdir(exist_ok=True)
    shutil.copy(kept(lab), kept(other))
    assert values(other) == {1: 2}
    assert tick(other).way in ("computed", "current")
    assert values(other) == {1: 2}


def test_messages_that_come_with_an_expiration_that_is_over(tmp_path: Path, cli: Cli) -> None:
    lab = lab_of(tmp_path, logged=True, parts="<Expiration>enabled</Expiration>")
    over = format_time(lab.clock() - SECOND)
    lines = [
        {"topic": "t", "expiration": over, "data": {"id": 1, "v": 1}},
        {"topic": "t", "data": {"id": 2, "v": 1}},
        {"topic": "t", "expiration": over, "data": {"id": 2, "v": 2}},
        {"topic": "t", "expiration": over, "data": {"id": 3, "v": 1}},
        {"topic": "t", "data": {"id": 3, "v": 2}},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    now = format_time(lab.clock())
    assert cli("publish", "-c", str(lab.config), "--framing", "envelope", "--now", now, stdin=text).status == 0
    assert (tick(lab).way, values(lab)) == ("computed", {})
    lab.clock.tick(5)
    assert (tick(lab).way, values(lab)) == ("advanced", {3: 2})
    kept(lab).unlink()
    assert (tick(lab).way, values(lab)) == ("computed", {3: 2})
