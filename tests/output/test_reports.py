"""Reports by their fields' names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import replace

from sowctl.engine.reports import CompactReport, DeleteReport, ExpireReport, PublishReport, TopicCounts
from sowctl.output.reports import as_dict, encode_report, format_report, format_reports, sum_reports


class Share(Struct, frozen=True):
    topic: str
    inserted: int = 812
    updated: int = 0


class Published(Struct, frozen=True):
    topics: tuple[Share, ...] = (Share("orders"),)
    published: int = 812
    rejected: int = 3
    blank: int = 0
    bytes: int = 2_000_000
    first_txid: int = 1
    last_txid: int = 815
    durable: bool = True
    seconds: float = 2.0
    dry_run: bool = False


class Whole(Struct, frozen=True):
    parts: tuple[Published, ...]
    path: Path
    digest: bytes


def test_text() -> None:
    assert format_report(Published()) == (
        "orders: 812 inserted, 0 updated, 3 rejected; 1.9 MiB in 2.0 s (406 a second); txid 1-815, durable"
    )


def test_a_dry_run_says_so_and_promises_nothing() -> None:
    text = format_report(Published((Share("a\x1bb"),), first_txid=0, last_txid=0, dry_run=True))
    assert text.startswith("a\\x1bb: dry run, nothing was written: 812 inserted")
    assert "durable" not in text


def test_shares_of_several_topics_have_their_lines() -> None:
    text = format_report(Published((Share("a"), Share("b", 3, 4)), 819, 0, 0, 0, 5, 5, True, 0.0))
    assert text == "819 published; txid 5, durable\n  a: 812 inserted, 0 updated\n  b: 3 inserted, 4 updated"


class Replayed(Struct, frozen=True):
    topic: str
    action: str
    entries: int = 0
    records: int = 0
    path: str | None = None
    moved: str | None = None
    note: str | None = None


def test_a_replay_says_what_it_did() -> None:
    assert format_report(Replayed("t", "current")) == "t: current: nothing to do"
    assert format_report(Replayed("t", "rebuilt", 5, 3, "t.sow", "t.damaged-1", "odd")) == (
        "t: rebuilt: 5 entries, 3 records; odd; t.sow; the damaged file is now t.damaged-1"
    )
    assert "verify.sow" not in format_report(Replayed("t", "verified", 5, 3, "/tmp/x/verify.sow"))


def test_json_is_one_ascii_line() -> None:
    whole = Whole((Published((Share("Zoë"),)),), Path("x.sow"), b"\xff")
    text = encode_report(whole)
    assert text.isascii()
    assert json.loads(text) == as_dict(whole)
    assert as_dict(whole)["parts"][0]["topics"][0]["topic"] == "Zoë"
    assert as_dict(whole)["path"] == "x.sow"


class File(Struct, frozen=True):
    path: Path
    size: int


def test_named_tuples_are_reports() -> None:
    assert as_dict(File(Path("a"), 5)) == {"path": "a", "size": 5}


def test_only_reports() -> None:
    with pytest.raises(TypeError):
        as_dict({"inserted": 1})
    with pytest.raises(TypeError):
        as_dict((1, 2))


def test_several_topics_are_followed_by_their_total() -> None:
    reports = [DeleteReport("x", "json", 4, 2, 2), DeleteReport("x", "nvfix", 3), DeleteReport("y", "json", 1, 1, 1)]
    assert format_reports(reports) == [
        "[json].[x]: 4 examined, 2 matched, 2 deleted",
        "[nvfix].[x]: 3 examined, 0 deleted",
        "y: 1 examined, 1 matched, 1 deleted",
        "3 topics: 8 examined, 3 matched, 3 deleted",
    ]
    assert sum_reports(reports) == {
        "topic": None, "message_type": None, "examined": 8, "matched": 3, "deleted": 3, "dry_run": False, "topics": 3,
    }  # fmt: skip
    assert sum_reports(reports[:1]) is None
    assert format_reports(reports[2:]) == ["y: 1 examined, 1 matched, 1 deleted"]
    assert format_reports([]) == []


def test_what_only_the_journal_has_is_neither_inserted_nor_updated() -> None:
    report = PublishReport(
        topics=[TopicCounts("events", "json", journalled=2)], published=2, journalled=2, first_txid=1, last_txid=2
    )
    assert format_report(report) == "events: 2 journalled; txid 1-2, durable"


def test_the_time_of_an_expire_is_written_as_one() -> None:
    report = ExpireReport("orders", "json", 7, 1_767_607_200_000_000)
    assert as_dict(report)["now"] == "2026-01-05T10:00:00.000000Z"
    assert "1767607200" not in encode_report(report)


def test_a_total_has_no_file_of_its_own() -> None:
    one = CompactReport("a", "json", "left", records=1, path="/x/a.sow", note="a copy would not be smaller")
    two = CompactReport("b", "json", "compacted", records=2, path="/x/b.sow")
    row = sum_reports([one, two])
    assert row is not None
    assert (row["action"], row["path"], row["note"], row["records"]) == (None, None, None, 3)
    same = sum_reports([one, replace(one, topic="b")])
    assert same is not None
    assert (same["action"], same["note"]) == ("left", one.note)
