"""States before a replay (C82, C83): duplicates are possible, gaps are not, whichever versions were dropped."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sowctl.engine.subscriptions.bookmarks import parse_bookmark_range
from sowctl.engine.subscriptions.replay_start import ReplayStart, find_replay_start, open_replay_states
from sowctl.engine.subscriptions.spans import TxidSpan
from sowctl.engine.topics.positions import open_log
from sowctl.errors import MissingError, RefusedError
from sowctl.values.times import format_time
from tests.support.examples import examples
from tests.support.instances import SECOND, START, Lab, config_xml, message, topic_xml

MakeLab = Callable[..., Lab]
MINUTE = 60 * SECOND


def history(window: str, granularity: str) -> str:
    return f"<History><Window>{window}</Window><Granularity>{granularity}</Granularity></History>"


def shop(make_lab: MakeLab, window: str = "1h", granularity: str = "0s") -> Lab:
    topics_xml = topic_xml("past", history(window, granularity)) + topic_xml("t") + topic_xml("alone")
    return make_lab(config_xml(topics_xml, ("past", "t")))


def begun(lab: Lab, bookmark: str, *topic_names: str) -> tuple[dict[str, list[str]], int]:
    """Return the rows of each topic at a bookmark, and the txid after which the replay begins."""
    instance = lab.open()
    configs = [instance.topic(name).config for name in topic_names or ("past",)]
    past = find_replay_start(instance, configs, parse_bookmark_range(bookmark, lab.clock), None, states=True)
    together, after = open_replay_states(instance, configs, past)
    rows = {}
    for config, source in zip(configs, together.sources, strict=True):
        found = [] if source is None else [value for _, values in source.read_batches(100) for value in values]
        rows[config.name] = [value[36:-4].decode() for value in found]
    together.close()
    return rows, after


def write(lab: Lab, minute: float, topic: str = "past", **fields: object) -> None:
    lab.clock.at = START + round(minute * MINUTE)
    lab.publish(topic, message(**fields))


def stamp(minute: float) -> str:
    return format_time(START + round(minute * MINUTE))


def test_c82_the_state_at_the_bookmark_and_what_comes_behind_it(make_lab: MakeLab) -> None:
    lab = shop(make_lab)
    write(lab, 1 / 6, id=1, v="at 10 seconds")
    write(lab, 5 / 6, id=1, v="at 50 seconds")
    assert begun(lab, stamp(1 / 3)) == ({"past": ['{"id":1,"v":"at 10 seconds"}']}, 1)
    for place in ("1", f"[{stamp(5 / 6)}:{stamp(2)}]", "[2:2]"):
        assert begun(lab, place) == ({"past": ['{"id":1,"v":"at 10 seconds"}']}, 1)
    for place in ("2", "0|1|", stamp(5 / 6), f"({stamp(5 / 6)}:{stamp(2)}]", stamp(2)):
        assert begun(lab, place) == ({"past": ['{"id":1,"v":"at 50 seconds"}']}, 2)
    assert begun(lab, "0")[1] == 0


def test_c83_the_replay_begins_behind_the_oldest_version_that_may_be_wrong(make_lab: MakeLab) -> None:
    for caught_up in (True, False):
        lab = make_lab(config_xml(topic_xml("past", history("1h", "10m")), ("past",)), f"lab{caught_up}")
        write(lab, 0, key=1, id=1, v=0)
        store = lab.store("past")
        early = store.read_bytes()
        write(lab, 4, key=1, id=1, v=4)
        write(lab, 9, id=2, v=9)
        # Too soon after minute 0: this update drops the version of minute 4.
        write(lab, 10.5, key=1, id=1, v=10)
        if not caught_up:
            # The journal has entries that the store lacks; only both together show which versions are dropped.
            store.write_bytes(early)
        rows, after = begun(lab, stamp(9.5))
        assert sorted(json.loads(row)["v"] for row in rows["past"]) == [0, 9]
        assert after == 1


def test_a_state_outside_the_window_is_the_oldest_within_it(make_lab: MakeLab) -> None:
    lab = shop(make_lab)
    write(lab, 0, id=1, v="never again")
    write(lab, 1, id=2, v="old")
    write(lab, 50, id=2, v="new")
    lab.clock.at = START + 100 * MINUTE
    # The state as of minute 0 is no longer available. The record that was never published again is in the rows, and the
    # earlier value of the other record comes with the replay.
    rows, after = begun(lab, stamp(0.5))
    assert sorted(json.loads(row)["v"] for row in rows["past"]) == ["never again", "old"]
    assert after == 1


def test_versions_that_were_dropped_and_are_gone_from_the_journal(make_lab: MakeLab) -> None:
    lab = shop(make_lab, granularity="10m")
    lab.journal_size = 1024
    for minute in (0, 4, 5, 6, 7):
        write(lab, minute, id=1, v=minute, pad="x" * 900)
    assert begun(lab, "4")[1] == 1
    assert len(lab.journals()) >= 4
    for path in lab.journals()[:2]:
        path.unlink()
    with pytest.raises(MissingError, match="txid 1") as caught:
        begun(lab, "4")
    assert caught.value.code == "SOW-ENG-071"
    assert begun(lab, "5")[1] == 5


def test_several_topics_whose_clocks_differ(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml("".join(topic_xml(name, history("1h", "0s")) for name in ("a", "b")), ("a", "b")))
    write(lab, 10, "a", id=1, v="a10")
    write(lab, 2, "b", id=1, v="b2")
    write(lab, 11, "a", id=1, v="a11")
    write(lab, 3, "b", id=1, v="b3")
    lab.clock.at = START + 12 * MINUTE
    expected = {
        "1": (["a10"], []),
        "2": (["a10"], ["b2"]),
        "3": (["a11"], ["b2"]),
        "4": (["a11"], ["b3"]),
    }
    for place, (first, second) in expected.items():
        rows, after = begun(lab, place, "a", "b")
        assert [json.loads(row)["v"] for row in rows["a"]] == first
        assert [json.loads(row)["v"] for row in rows["b"]] == second
        assert after == int(place)


def test_topics_without_history_are_as_they_are_now(make_lab: MakeLab) -> None:
    lab = shop(make_lab)
    write(lab, 0, "t", id=1, v=0)
    write(lab, 1, "past", id=1, v=1)
    write(lab, 2, "t", id=1, v=2)
    assert begun(lab, "1", "t", "past") == ({"t": ['{"id":1,"v":2}'], "past": []}, 1)


def test_a_bookmark_needs_a_journal(make_lab: MakeLab) -> None:
    lab = shop(make_lab)
    write(lab, 0, "alone", id=1)
    write(lab, 0, "t", id=1)
    with pytest.raises(RefusedError) as caught:
        begun(lab, "0", "t", "alone")
    assert caught.value.code == "SOW-FOL-021"


def test_messages_alone_need_no_state(make_lab: MakeLab) -> None:
    lab = shop(make_lab)
    write(lab, 0, id=1)
    instance = lab.open()
    config = instance.topic("past").config
    found = find_replay_start(instance, [config], parse_bookmark_range(stamp(-1), lab.clock), None, states=False)
    assert found == ReplayStart(TxidSpan(0, since=START - MINUTE), 1, {})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(30))
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4), st.booleans()), min_size=1, max_size=12),
    st.integers(0, 5),
    st.integers(5, 30),
    st.data(),
)
def test_state_and_replay_lead_to_the_present(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[int, int, bool]],
    granularity: int,
    window: int,
    data: st.DataObject,
) -> None:
    """The rows and the replayed entries after them give exactly the present state.

    No change is missing in between: for each record, changes before the replay are in its row.
    """
    xml = config_xml(topic_xml("past", history(f"{window}m", f"{granularity}m")), ("past",))
    lab = Lab(tmp_path_factory.mktemp("model") / "lab", xml)
    minute = 0
    for number, (key, pause, gone) in enumerate(steps):
        minute += pause
        write(lab, minute, id=key, v=number)
        if gone:
            lab.open().topic("past").delete(data=[message(id=key).encode()])
    lab.clock.at = START + (minute + data.draw(st.integers(0, 40))) * MINUTE
    with open_log(lab.open()) as log:
        entries = [entry for block in log.iter_blocks() for entry in block.iter_entries()]
    place = data.draw(st.integers(0, len(entries)))
    text = data.draw(st.sampled_from([str(place), stamp(data.draw(st.integers(0, minute)))]))
    rows, after = begun(lab, text)
    state = {json.loads(row)["id"]: row for row in rows["past"]}
    written = {entry.payload.decode(): entry.txid for entry in entries if entry.payload}
    newest = {entry.key: entry for entry in entries if entry.txid <= after}
    keys = {entry.key: json.loads(entry.payload)["id"] for entry in entries if entry.payload}
    # The state has each record's last change before the replay, or a later one: there is no gap between.
    for key, entry in newest.items():
        row = state.get(keys[key])
        # All entries of an instant count: a record deleted in the same instant is not in the state. Outside the window,
        # the state is that of the window's beginning.
        instant = max(lab.clock.at - window * MINUTE, *(one.time for one in newest.values()))
        deleted = [one for one in entries if one.key == key and not one.payload and entry.time <= one.time <= instant]
        assert written[row] >= entry.txid if row is not None else deleted or not entry.payload
    for entry in entries:
        if entry.txid > after:
            if entry.payload:
                state[keys[entry.key]] = entry.payload.decode()
            else:
                state.pop(keys[entry.key], None)
    assert sorted(state.values()) == sorted(lab.query("past"))
    if text == str(place):
        assert after <= place
    else:
        # The first entry that is newer than the time is replayed, and all entries after it.
        first = min((entry.txid for entry in entries if format_time(entry.time) > text), default=len(entries) + 1)
        assert after < first


@pytest.mark.parametrize("minute", [0, 1, 1.5, 2, 3, 4])
def test_the_records_are_those_of_a_query_as_of_the_instant(make_lab: MakeLab, minute: float) -> None:
    lab = shop(make_lab)
    for at, fields in ((1, {"id": 1, "v": 1}), (2, {"id": 1, "v": 2}), (2, {"id": 2, "v": 2}), (3, {"id": 2, "v": 3})):
        write(lab, at, **fields)
    lab.clock.at = START + 5 * MINUTE
    rows, after = begun(lab, stamp(minute))
    assert rows["past"] == lab.query("past", at=stamp(minute))
    # Newer entries follow.
    assert after == {0: 0, 1: 1, 1.5: 1, 2: 3, 3: 4, 4: 4}[minute]
