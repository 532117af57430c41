"""Meaning of bookmarks in a journal: cases C101-C109 of sowctl-behaviour(7), edges (decision 59), missing entries."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from sowctl.engine.subscriptions.bookmarks import parse_bookmark_range
from sowctl.engine.subscriptions.spans import (
    NotFoundPolicy,
    TxidSpan,
    find_publisher_entries,
    resolve_bookmark_range,
    resolve_without_journal,
)
from sowctl.engine.topics.positions import open_log
from sowctl.errors import MissingError
from sowctl.identity.bookmarks import Bookmark
from sowctl.identity.hashes import hash_client_name
from sowctl.values.times import format_time
from tests.support.instances import SECOND, START, Lab, config_xml, message, topic_xml
from tests.support.staged import run

MakeLab = Callable[..., Lab]
C, OWN = hash_client_name("c"), hash_client_name("test")
T, OTHER = frozenset({("t", "json")}), frozenset({("quotes", "json")})


def stamp(seconds: float) -> str:
    return format_time(START + round(seconds * SECOND)).replace("-", "").replace(":", "")


def span(
    lab: Lab, text: str, topic_refs: frozenset[tuple[str, str]] | None = None, **options: NotFoundPolicy
) -> TxidSpan:
    instance = lab.open()
    with open_log(instance) as log:
        return resolve_bookmark_range(instance, log, parse_bookmark_range(text, lab.clock), topic_refs, **options)


def txids(
    lab: Lab, text: str, topic_refs: frozenset[tuple[str, str]] | None = None, **options: NotFoundPolicy
) -> list[int]:
    """Return the txids that a subscription with this bookmark gets from the journal."""
    meant = span(lab, text, topic_refs, **options)
    with open_log(lab.open()) as log:
        entries = [entry for block in log.iter_blocks() for entry in block.iter_entries()]
    return [
        entry.txid
        for entry in entries
        if (topic_refs is None or entry.topic in topic_refs) and meant.contains_entry(entry.txid, entry.time)
    ]


@pytest.fixture
def five(lab: Lab) -> Lab:
    """Five entries of client c, numbered 11 to 15, one every ten seconds."""
    for number in range(1, 6):
        lab.publish("t", message(id=number), client="c", sequence=10 + number)
        lab.clock.tick(10)
    return lab


def e(number: int) -> str:
    """Return the bookmark of entry ``number``."""
    return f"{C}|{10 + number}|"


ALL = [1, 2, 3, 4, 5]


def test_c101_epoch_is_everything(five: Lab) -> None:
    assert txids(five, "0") == txids(five, "EPOCH") == ALL


def test_c102_now_is_nothing_that_was(five: Lab) -> None:
    meant = span(five, "0|1|")
    assert meant == TxidSpan(5)
    assert meant.contains_entry(6, START)


def test_c103_a_bookmark_is_behind_its_entry(five: Lab) -> None:
    assert txids(five, e(2)) == [3, 4, 5]


def test_c104_of_a_list_the_earliest_counts(five: Lab) -> None:
    assert txids(five, f"{e(4)},{e(2)}") == [3, 4, 5]


def test_c105_of_a_list_what_is_known_counts(five: Lab) -> None:
    assert txids(five, f"{e(9)},{e(3)}") == [4, 5]
    assert not five.notes


def test_c106_what_to_do_about_an_unknown_one(five: Lab) -> None:
    for unknown in (e(9), f"{C}|3|", "99", f"{hash_client_name('d')}|1|", f"{OWN}|77|", f"{e(9)},{C}|3|"):
        five.notes.clear()
        assert txids(five, unknown) == []
        (note,) = five.notes
        assert unknown in note
        assert "now" in note
        assert txids(five, unknown, not_found=NotFoundPolicy.EPOCH) == ALL
        assert txids(five, unknown, not_found=NotFoundPolicy.NOW) == []
        with pytest.raises(MissingError) as caught:
            span(five, unknown, not_found=NotFoundPolicy.FAIL)
        assert caught.value.code == "SOW-ENG-070"


def test_c107_a_time_before_the_log_is_epoch(five: Lab) -> None:
    assert txids(five, stamp(-3600)) == ALL
    assert txids(five, "-1d") == ALL


def test_c108_ranges_of_entries(five: Lab) -> None:
    assert txids(five, f"[{e(2)}:{e(4)})") == [2, 3]
    assert txids(five, f"({e(2)}:{e(4)}]") == [3, 4]


def test_c109_ranges_of_lists(five: Lab) -> None:
    assert txids(five, f"[{e(3)},{e(2)}:{e(4)},{e(5)}]") == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Decision 59: a time includes its own entries, unless a bracket excludes them.
        (stamp(10), [2, 3, 4, 5]),
        (f"[{stamp(10)}:{stamp(30)})", [2, 3]),
        (f"({stamp(10)}:{stamp(30)}]", [3, 4]),
        (f"[{stamp(5)}:{stamp(35)}]", [2, 3, 4]),
        ("3", [4, 5]),
        ("[3:4)", [3]),
        ("[3:4]", [3, 4]),
        ("[0:3]", [1, 2, 3]),
        ("(0:3)", [1, 2]),
        ("[0|1|:0|1|]", [5]),
        ("(0|1|:0|1|]", []),
        ("[4:0|1|]", [4, 5]),
        # An end of NOW excludes nothing, whatever its bracket.
        ("[4:0|1|)", [4, 5]),
        ("[4:2]", []),
        ("[2:0]", []),
        (f"{e(4)},2", [3, 4, 5]),
        # The time is the position of entry 4; the bookmark is earlier.
        (f"{stamp(30)},{e(2)}", [3, 4, 5]),
        (f"{stamp(10)},{e(4)}", [2, 3, 4, 5]),
        (f"0,{e(4)}", ALL),
        (f"0|1|,{e(4)}", [5]),
    ],
)
def test_edges(five: Lab, text: str, expected: list[int]) -> None:
    assert txids(five, text) == expected


def test_a_time_ahead_begins_then(five: Lab) -> None:
    assert span(five, stamp(100)) == TxidSpan(5, since=START + 100 * SECOND)
    assert not span(five, stamp(100)).contains_entry(6, START + 99 * SECOND)
    assert span(five, f"({stamp(100)}:{stamp(200)}]").contains_entry(6, START + 200 * SECOND)
    meant = span(five, f"[{stamp(100)}:{stamp(200)})")
    assert meant.is_bounded
    assert [meant.contains_entry(6, START + at * SECOND) for at in (99, 100, 199, 200)] == [False, True, True, False]
    assert meant.ends_before(6, START + 200 * SECOND)
    assert not meant.ends_before(6, START + 50 * SECOND)
    # The known bookmark is earlier, so the future time excludes nothing.
    assert span(five, f"{stamp(100)},{e(4)}") == TxidSpan(4)
    assert span(five, f"{stamp(100)},{stamp(90)}") == TxidSpan(5, since=START + 90 * SECOND)
    assert span(five, f"{stamp(100)},0|1|") == TxidSpan(5)


def test_an_unknown_end_is_an_error(five: Lab) -> None:
    for policy in (None, *NotFoundPolicy):
        with pytest.raises(MissingError, match="1 to 5") as caught:
            span(five, f"[0:{e(9)}]", not_found=policy)  # type: ignore[arg-type]
        assert caught.value.code == "SOW-ENG-070"
    assert txids(five, f"[0:{e(9)},{e(2)}]") == [1, 2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", TxidSpan(0)),
        ("0|1|", TxidSpan(0)),
        (stamp(5), TxidSpan(0, since=START + 5 * SECOND)),
        (f"{stamp(9)},{stamp(5)},7|7|", TxidSpan(0, since=START + 5 * SECOND)),
        (f"{stamp(9)},0", TxidSpan(0)),
        (f"({stamp(5)}:{stamp(9)}]", TxidSpan(0, since=START + 5 * SECOND + 1, before=START + 9 * SECOND + 1)),
        ("[0:0|1|]", TxidSpan(0, 0)),
    ],
)
def test_before_there_is_a_journal(lab: Lab, text: str, expected: TxidSpan) -> None:
    assert resolve_without_journal(lab.open(), parse_bookmark_range(text, lab.clock)) == expected
    assert not lab.notes


def test_what_cannot_be_there_before_there_is_a_journal(lab: Lab) -> None:
    instance, unknown = lab.open(), parse_bookmark_range("7|7|,5", lab.clock)
    assert resolve_without_journal(instance, unknown) == TxidSpan(0)
    (note,) = lab.notes
    assert "7|7|,5" in note
    assert (
        resolve_without_journal(instance, unknown, NotFoundPolicy.NOW)
        == resolve_without_journal(instance, unknown, NotFoundPolicy.EPOCH)
        == TxidSpan(0)
    )
    for wrong in (unknown, parse_bookmark_range("[0:5]", lab.clock)):
        with pytest.raises(MissingError) as caught:
            resolve_without_journal(instance, wrong, NotFoundPolicy.FAIL)
        assert caught.value.code == "SOW-ENG-070"


def test_clocks_of_topics_may_differ(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    lab.clock.tick(100)
    lab.publish("t", message(id=2))
    lab.clock.tick(-50)
    lab.publish("quotes", message(id=1))
    lab.clock.tick(30)
    lab.publish("quotes", message(id=2))
    lab.publish("t", message(id=3))
    # Entries 3 and 4 have the times 50 s and 80 s and follow entry 2, which has 100 s.
    assert txids(lab, stamp(60)) == [2, 4, 5]
    assert txids(lab, stamp(60), OTHER) == [4]
    assert txids(lab, f"[{stamp(0)}:{stamp(60)}]", OTHER) == [3]
    assert txids(lab, stamp(60), T) == [2, 5]
    # A list with an entry is a position in the log: nothing after the earliest one is excluded.
    assert txids(lab, f"{stamp(90)},4") == [2, 3, 4, 5]


def test_several_entries_with_one_bookmark(lab: Lab) -> None:
    lab.publish("t", message(id=0), client="d")
    run(lab, "t", [message(id=1), message(id=2)], [message(id=3)], publisher=("c", 7))
    lab.publish("t", message(id=4), client="c", sequence=8)
    with open_log(lab.open()) as log:
        assert find_publisher_entries(log, [Bookmark(C, 7)]) == {Bookmark(C, 7): (2, 4)}
    assert txids(lab, f"{C}|7|") == [5]
    assert txids(lab, f"[{C}|7|:{C}|7|]") == [2, 3, 4]
    assert txids(lab, f"[0:{C}|7|)") == [1]


def test_every_bookmark_of_a_dump_can_be_resumed_from(lab: Lab) -> None:
    for number in range(1, 4):
        lab.publish("t", message(id=number))
        lab.publish("quotes", message(id=number), client="c")
    for txid in range(1, 7):
        own, named = f"{OWN}|{txid}|", f"{C}|{txid // 2}|"
        rest = list(range(txid + 1, 7))
        assert txids(lab, own) == rest
        assert txids(lab, f"{txid}") == rest
        assert txid % 2 or txids(lab, named) == rest


@pytest.fixture
def rolled(make_lab: MakeLab) -> Lab:
    """Entries 1 to 20 of clients c and d in turn, a second apart, in small files; entries 9 and 10 belong to quotes."""
    lab = make_lab(config_xml(topic_xml("t") + topic_xml("quotes"), ("t", "quotes")))
    lab.journal_size = 2048
    for number in range(20):
        topic = "quotes" if number in (8, 9) else "t"
        lab.publish(topic, message(id=number % 5, pad="x" * 300), client="cd"[number % 2], sequence=number + 1)
        lab.clock.tick(1)
    assert len(lab.journals()) > 4
    return lab


def first_of(path: Path, lab: Lab) -> int:
    with open_log(lab.open()) as log:
        return next(info.first_txid for info in log.list_files() if info.path == path)


def prune(lab: Lab, count: int) -> int:
    """Remove the oldest files; return the first remaining txid."""
    left = lab.journals()[count]
    first = first_of(left, lab)
    for path in lab.journals()[:count]:
        path.unlink()
    return first


def test_a_bookmark_is_found_in_whichever_file(rolled: Lab) -> None:
    for number in range(1, 21):
        who = hash_client_name("cd"[(number - 1) % 2])
        rest = list(range(number + 1, 21))
        assert txids(rolled, f"{who}|{number}|") == rest
        assert txids(rolled, stamp(number)) == rest
        assert txids(rolled, f"{who}|{number}|,20") == rest


def test_files_that_are_compressed_or_archived_are_searched(rolled: Lab) -> None:
    for path in rolled.journals()[:2]:
        with path.open("rb") as plain, gzip.open(f"{path}.gz", "wb") as packed:
            shutil.copyfileobj(plain, packed)
        path.unlink()
    assert txids(rolled, f"{C}|1|") == list(range(2, 21))
    assert txids(rolled, stamp(1)) == list(range(2, 21))


def test_what_was_pruned_is_an_error_that_names_the_first_entry(rolled: Lab) -> None:
    first = prune(rolled, 2)
    who = hash_client_name("cd"[(first - 1) % 2])
    for old in ("1", f"{C}|1|", f"[{C}|1|:15]", f"{C}|1|,15"):
        with pytest.raises(MissingError) as caught:
            span(rolled, old)
        assert caught.value.code == "SOW-ENG-071"
        assert f"bookmark {who}|{first}| and txid {first}" in caught.value.message
        assert caught.value.facts == {"first_txid": first, "first_bookmark": f"{who}|{first}|"}
    # With a policy, both are treated like a bookmark that never existed.
    assert txids(rolled, f"{C}|1|", not_found=NotFoundPolicy.EPOCH) == list(range(first, 21))
    assert txids(rolled, f"{C}|1|", not_found=NotFoundPolicy.NOW) == []
    with pytest.raises(MissingError):
        span(rolled, f"{C}|1|", not_found=NotFoundPolicy.FAIL)
    # The entry is removed, but no later one: continuing loses nothing.
    assert txids(rolled, str(first - 1)) == list(range(first, 21))
    assert txids(rolled, "0") == list(range(first, 21))
    assert not rolled.notes or all("now" in note for note in rolled.notes)


def test_entries_of_other_topics_may_be_gone(rolled: Lab) -> None:
    first = prune(rolled, 2)
    assert 3 < first < 9
    # quotes has only the entries 9 and 10: all removed entries belong to t.
    assert txids(rolled, "1", OTHER) == txids(rolled, f"{C}|1|", OTHER) == [9, 10]
    with pytest.raises(MissingError):
        span(rolled, "1", T)
    with pytest.raises(MissingError):
        span(rolled, "[1:20]", OTHER)


def test_an_empty_rest_names_a_txid(rolled: Lab) -> None:
    prune(rolled, len(rolled.journals()) - 1)
    with pytest.raises(MissingError) as caught:
        span(rolled, "1")
    facts = caught.value.facts
    assert caught.value.code == "SOW-ENG-071" and facts["first_txid"] > 1
    assert facts["first_bookmark"] in caught.value.message and f"txid {facts['first_txid']}," in caught.value.message


def test_another_name_of_the_instance_has_no_bookmarks_of_its_own(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    instance = lab.open()
    assert instance.config is not None
    renamed = replace(instance, config=replace(instance.config, name="else"))
    with open_log(instance) as log:
        assert resolve_bookmark_range(renamed, log, parse_bookmark_range(f"{OWN}|1|", lab.clock)) == TxidSpan(1)
    assert f"{OWN}|1|" in lab.notes[-1]
