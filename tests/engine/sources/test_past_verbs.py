"""Past states through the verbs: retained versions (behaviour C75-C81), and the journal for topics without history."""

from __future__ import annotations

import re

import pytest

from sowctl.engine.verbs.journal import EntryFilter, dump_entries
from sowctl.errors import MissingError
from sowctl.values.times import parse_time
from tests.support.instances import SECOND, START, Lab, config_xml, message, topic_xml

MINUTE = 60 * SECOND
PAST = "<History><Window>%s</Window><Granularity>%s</Granularity></History>"


def _lab(make_lab, window: str, granularity: str, *, journalled: bool = True) -> Lab:  # type: ignore[no-untyped-def]
    xml = config_xml(topic_xml("h", PAST % (window, granularity)), ("h",) if journalled else ())
    return make_lab(xml)  # type: ignore[no-any-return]


def _play(lab: Lab, *steps: tuple[int, str | None], topic: str = "h") -> None:
    """Publish values of key 1 at minutes after START; None deletes."""
    for minute, value in steps:
        lab.clock.at = START + minute * MINUTE
        if value is None:
            lab.open().topic(topic).delete(filter="/id = 1")
        else:
            lab.publish(topic, message(id=1, v=value))


def _at(lab: Lab, minute: float, topic: str = "h") -> str:
    found = lab.query(topic, at=START + round(minute * MINUTE))
    return "".join(re.findall(r'"v":"(.+?)"', "".join(found)))


@pytest.fixture(params=["live", "rebuilt", "behind", "alone"])
def kept(request: pytest.FixtureRequest) -> str:
    """The origin of the versions in the store."""
    return str(request.param)


def _as(lab: Lab, kept: str) -> None:
    if kept == "rebuilt":
        lab.forget("h")
        assert lab.open().topic("h").replay().action == "rebuilt"
    elif kept == "behind":
        lab.forget("h")


def test_timeline_a(make_lab, kept: str) -> None:  # type: ignore[no-untyped-def]  # C75
    lab = _lab(make_lab, "1h", "10m", journalled=kept != "alone")
    _play(lab, (0, "a"), (4, "b"), (8, "c"), (12, "d"), (25, "e"))
    _as(lab, kept)
    lab.clock.at = START + 30 * MINUTE
    asked = {-1: "", 0: "a", 3: "a", 9: "a", 11: "a", 12: "d", 24: "d", 25: "e", 29: "e", 300: "e"}
    assert {minute: _at(lab, minute) for minute in asked} == asked


def test_as_of_while_still_current(make_lab) -> None:  # type: ignore[no-untyped-def]
    lab = _lab(make_lab, "1h", "10m")
    _play(lab, (0, "a"), (4, "b"), (8, "c"))
    lab.clock.at = START + 9 * MINUTE
    assert _at(lab, 9) == "c"


def test_granularity_zero_keeps_all(make_lab, kept: str) -> None:  # type: ignore[no-untyped-def]  # C76
    lab = _lab(make_lab, "1h", "0s", journalled=kept != "alone")
    _play(lab, (0, "a"), (4, "b"), (8, "c"), (12, "d"))
    _as(lab, kept)
    assert [_at(lab, minute) for minute in (0, 4, 7.99, 8, 9, 12)] == ["a", "b", "b", "c", "c", "d"]


def test_a_deletion_is_part_of_the_past(make_lab, kept: str) -> None:  # type: ignore[no-untyped-def]  # C77, C80
    lab = _lab(make_lab, "1h", "0s", journalled=kept != "alone")
    _play(lab, (0, "a"), (30, None))
    _as(lab, kept)
    lab.clock.at = START + 40 * MINUTE
    assert [_at(lab, minute) for minute in (29, 30, 31)] == ["a", "", ""]
    assert lab.query("h") == []


def test_timeline_b(make_lab, kept: str) -> None:  # type: ignore[no-untyped-def]
    lab = _lab(make_lab, "1h", "1m", journalled=kept != "alone")
    for second, value in ((0, "A"), (20, "B"), (30, None), (300, "C")):
        lab.clock.at = START + second * SECOND
        if value is None:
            lab.open().topic("h").delete(filter="1=1")
        else:
            lab.publish("h", message(id=1, v=value))
    _as(lab, kept)
    lab.clock.at = START + 6 * MINUTE
    asked = {-60: "", 10: "A", 25: "A", 30: "", 240: "", 300: "C"}
    assert {second: _at(lab, second / 60) for second in asked} == asked


def test_before_the_window_there_is_nothing(make_lab, kept: str) -> None:  # type: ignore[no-untyped-def]  # C78
    lab = _lab(make_lab, "1h", "0s", journalled=kept != "alone")
    _play(lab, (0, "a"), (200, "b"))
    _as(lab, kept)
    lab.clock.at = START + 210 * MINUTE
    assert (_at(lab, 90), _at(lab, 149), _at(lab, 150), _at(lab, 200)) == ("", "", "a", "b")


def test_the_current_version_has_no_age(make_lab, kept: str) -> None:  # type: ignore[no-untyped-def]  # C79
    lab = _lab(make_lab, "1h", "10m", journalled=kept != "alone")
    _play(lab, (0, "a"))
    _as(lab, kept)
    lab.clock.at = START + 600 * MINUTE
    assert (_at(lab, 600), _at(lab, 541), _at(lab, 500)) == ("a", "a", "")
    assert len(lab.query("h")) == 1


def test_the_edge_of_the_window_is_inside(make_lab) -> None:  # type: ignore[no-untyped-def]
    lab = _lab(make_lab, "1h", "0s")
    _play(lab, (0, "a"), (30, "b"))
    lab.clock.at = START + 90 * MINUTE
    assert (_at(lab, 30), _at(lab, 29.999999)) == ("b", "")
    lab.clock.at = START + 60 * MINUTE
    assert _at(lab, 0) == "a"
    lab.clock.at += 1
    assert _at(lab, 0) == ""


def test_a_step_back_of_the_clock_keeps_versions_in_order(make_lab, kept: str) -> None:  # type: ignore[no-untyped-def]
    lab = _lab(make_lab, "1h", "0s", journalled=kept != "alone")
    _play(lab, (10, "a"), (5, "b"), (12, "c"))
    _as(lab, kept)
    assert [_at(lab, minute) for minute in (5, 9.99, 10, 11, 12)] == ["", "", "b", "b", "c"]


def test_lookup_and_get_answer_as_the_scan_does(make_lab, kept: str) -> None:  # type: ignore[no-untyped-def]
    lab = _lab(make_lab, "1h", "0s", journalled=kept != "alone")
    _play(lab, (0, "a"), (10, "b"), (20, None), (30, "d"))
    key = lab.records("h")[0].sow_key
    _as(lab, kept)
    for minute in (-1, 0, 5, 10, 15, 20, 25, 30, 35):
        at = START + minute * MINUTE
        assert lab.query("h", at=at) == lab.query("h", sow_keys=(str(key),), at=at), minute
        assert lab.query("h", at=at) == [r.payload.decode() for r in lab.open().topic("h").get("1", fields=True, at=at)]


def test_filter_order_and_select_apply_to_the_past(make_lab) -> None:  # type: ignore[no-untyped-def]
    lab = _lab(make_lab, "1h", "0s")
    lab.publish("h", *(message(id=n, v=10 - n) for n in range(5)))
    lab.clock.tick(60)
    lab.publish("h", *(message(id=n, v=0) for n in range(5)))
    assert lab.query("h", "/v > 7", order_by="/v DESC", top_n=2, at=START) == ['{"id":0,"v":10}', '{"id":1,"v":9}']
    assert lab.query("h", "/v = 9", select="-/,+/id", at=START) == ['{"id":1}']
    assert lab.query("h", "/v > 7") == []


# Topics without history


def test_the_journal_answers_for_a_topic_without_history(lab: Lab) -> None:  # C81, section 11, 34
    _play(lab, (0, "a"), (10, "b"), (20, None), (30, "d"), topic="t")
    asked = {-1: "", 0: "a", 9: "a", 10: "b", 20: "", 25: "", 30: "d", 99: "d"}
    assert {minute: _at(lab, minute, "t") for minute in asked} == asked
    lab.forget("t")
    assert {minute: _at(lab, minute, "t") for minute in asked} == asked


def test_without_history_and_journal_only_the_present_is_known(lab: Lab) -> None:
    _play(lab, (0, "a"), (10, "b"), topic="alone")
    assert _at(lab, 10, "alone") == "b"
    with pytest.raises(MissingError) as caught:
        _at(lab, 9, "alone")
    assert caught.value.code == "SOW-ENG-050"
    assert "2026-01-05T08:10:00" in str(caught.value.hint)


def test_the_past_of_a_topic_that_joins_a_running_journal_is_not_made_up(make_lab) -> None:  # type: ignore[no-untyped-def]
    both = topic_xml("a") + topic_xml("b")
    lab = make_lab(config_xml(both, ("a",)))
    _play(lab, (0, "x"), topic="a")
    _play(lab, (5, "x"), (10, "y"), topic="b")
    lab.config.write_text(config_xml(both, ("a", "b")))
    lab.clock.tick(600)
    assert _at(lab, 10, "b") == "y"
    with pytest.raises(MissingError):
        _at(lab, 7, "b")


def _pruned(lab: Lab, keep: int, topic: str = "t") -> int:
    """Remove the oldest journal files but ``keep``; return the first remaining txid."""
    for file in lab.journals()[:-keep]:
        file.unlink()
    return next(r.txid for batch in dump_entries(lab.open(), EntryFilter(topic_names=(topic,))) for r in batch.records)


def test_pruned_journals_answer_right_or_name_the_first_instant(make_lab) -> None:  # type: ignore[no-untyped-def]
    """A record deleted and replaced before the oldest file is not in the store either, so the query fails."""
    lab = make_lab(config_xml(topic_xml("t"), ("t",)))
    lab.journal_size = 1024
    truth: dict[int, list[str]] = {}
    for minute in range(40):
        lab.clock.at = START + minute * MINUTE
        if minute == 5:
            lab.open().topic("t").delete(filter="/id = 4")
        else:
            lab.publish("t", message(id=minute % 7, v=minute, x="x" * 60))
        if minute == 3:
            lab.publish("t", '{"id":100}')
        if minute == 6:
            lab.open().topic("t").delete(filter="/id = 100")
        truth[minute] = sorted(lab.query("t"))
    assert len(lab.journals()) > 3
    _pruned(lab, 2)
    refused, first = [], None
    for minute, expected in truth.items():
        try:
            found = sorted(lab.query("t", at=START + minute * MINUTE))
        except MissingError as error:
            assert error.code == "SOW-ENG-050"
            refused.append(minute)
            first = parse_time(str(error.facts["first_instant"]), lab.clock)
        else:
            assert found == expected, minute
    assert refused == list(range(len(refused)))
    assert 5 < len(refused) < 40
    assert first is not None
    assert sorted(lab.query("t", at=first)) == truth[(first - START) // MINUTE]


def test_pruned_journals_do_not_forget_who_was_deleted_before(make_lab) -> None:  # type: ignore[no-untyped-def]
    lab = make_lab(config_xml(topic_xml("t") + topic_xml("u"), ("t", "u")))
    _play(lab, (0, "a"), (5, None), topic="t")
    lab.journal_size = 1024
    for minute in range(6, 16):
        lab.clock.at = START + minute * MINUTE
        lab.publish("u", message(id=1, x=f"{minute}" * 300))
    _play(lab, (20, "b"), topic="t")
    for file in lab.journals()[:-1]:
        file.unlink()
    assert _at(lab, 20, "t") == "b"
    assert _at(lab, 6, "t") == ""
    with pytest.raises(MissingError):
        _at(lab, 3, "t")


def test_versions_that_nobody_can_ask_for_leave_the_file(make_lab, kept: str) -> None:  # type: ignore[no-untyped-def]
    lab = _lab(make_lab, "10s", "0s", journalled=kept != "alone")
    for number in range(60):
        lab.publish("h", message(id=1, v=number))
        lab.clock.tick(1)
    _as(lab, kept)
    row = lab.open().topic("h").info() if kept != "behind" else None
    assert row is None or row.versions <= 12
