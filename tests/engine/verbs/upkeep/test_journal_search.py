"""journal search: blocks are skipped unread, invalid texts are rejected, unreadable messages are counted."""

from __future__ import annotations

import re

import pytest

from sowctl.engine.verbs.upkeep.journal_search import JournalSearch, SearchOptions, search_journal
from sowctl.errors import DamageError, MissingError, UsageError
from sowctl.expressions.syntax.errors import ExpressionError
from sowctl.journal.files import BlockRef
from sowctl.journal.limits import JOURNAL_LIMITS
from sowctl.journal.reader import Journal
from tests.engine.conftest import MakeLab
from tests.support.instances import SECOND, START, Lab, config_xml, message, topic_xml


@pytest.fixture
def filled(make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Ten blocks of four entries: five of topic t by client a, five of topic u by client b, ten seconds apart."""
    monkeypatch.setattr(JOURNAL_LIMITS, "max_block_entries", 4)
    lab = make_lab(config_xml(topic_xml("t") + topic_xml("u") + topic_xml("own", key=None), ("t", "u", "own")))
    for number in range(10):
        topic, client = ("t", "a") if number < 5 else ("u", "b")
        rows = [message(id=number * 4 + each, n=each) for each in range(4)]
        lab.publish(topic, *rows, client=client, sequence=number * 4 + 1)
        lab.clock.tick(10)
    return lab


def found(lab: Lab, **wanted: object) -> tuple[list[int], JournalSearch]:
    one = search_journal(lab.open(), SearchOptions(**wanted))  # type: ignore[arg-type]
    return [record.txid for batch in one for record in batch.records], one


def test_blocks_are_passed_over_by_the_cheapest_question(filled: Lab) -> None:
    txids, one = found(filled, topic_names=("t",), client="a", keys=("6",), from_time=START + 10 * SECOND)
    assert txids == [7]
    report = one.report
    assert (report.by_header, report.by_map, report.by_columns, report.payloads_read) == (1, 5, 3, 1)
    assert (report.blocks, report.examined, report.matched) == (10, 40, 1)
    assert re.findall(r"\d+", one.coverage) == ["1", "40", "10", "1", "5", "3", "1"]


def test_payloads_of_blocks_that_are_passed_over_are_not_read(filled: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[int] = []
    load = BlockRef.load

    def noted(ref: BlockRef) -> object:
        loaded.append(ref.header.first_txid)
        return load(ref)

    # The walk verifies the last group by its body; the search loads only one block itself.
    monkeypatch.setattr(BlockRef, "load", noted)
    assert found(filled, keys=("22",))[0] == [23]
    assert loaded == [21]


def test_a_limit_ends_the_search(filled: Lab) -> None:
    txids, one = found(filled, filter="/n = 2", limit=2)
    assert txids == [3, 7]
    assert one.report.blocks == 2


def test_keys_of_fields_of_publishers_and_as_numbers(filled: Lab) -> None:
    filled.publish("own", message(x=1), sow_key="abc")
    filled.publish("own", message(x=2), sow_key="def")
    assert found(filled, keys=("abc",))[0] == [41]
    assert found(filled, keys=("abc", "3", "def"))[0] == [4, 41, 42]
    with Journal.open(filled.directory / "journal", "test") as log:
        key = next(log.iter_blocks()).iter_entries()
        number = int.from_bytes(next(key).key, "big")
    assert found(filled, sow_keys=(str(number),))[0] == [1]
    assert found(filled, sow_keys=(str(number),), keys=("abc",))[0] == [1, 41]
    assert found(filled, keys=("3",), topic_names=("u",))[0] == []


def test_texts_that_mean_nothing_are_refused_at_once(filled: Lab) -> None:
    for wanted, code in (
        ({"sow_keys": ("x",)}, "SOW-QRY-001"),
        ({"operations": ("put",)}, "SOW-CLI-088"),
        ({"pattern": "("}, "SOW-CLI-085"),
        ({"pattern": ""}, "SOW-CLI-085"),
    ):
        with pytest.raises(UsageError) as caught:
            search_journal(filled.open(), SearchOptions(**wanted))  # type: ignore[arg-type]
        assert caught.value.code == code
    with pytest.raises(ExpressionError):
        search_journal(filled.open(), SearchOptions(filter="/n ="))
    with pytest.raises(MissingError):
        found(filled, topic_names=("nope",))
    with pytest.raises(UsageError) as caught:
        found(filled, topic_names=("[json].[t]", "u"))
    assert caught.value.code == "SOW-CLI-086"


def test_a_text_of_a_key_needs_a_topic_that_has_some(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("t"), ("t", "bare")))
    lab.publish("t", message(id=1))
    with pytest.raises(UsageError) as caught:
        found(lab, keys=("1",), topic_names=("bare",))
    assert caught.value.code == "SOW-CLI-087"


def test_what_is_no_message_of_its_type_matches_no_filter(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("own", key=None), ("own",)))
    lab.publish("own", '{"n":1}', sow_key="a")
    lab.publish("own", "no json, and /n is mentioned", sow_key="b")
    txids, one = found(lab, filter="/n = 1 OR /n IS NULL")
    assert (txids, one.report.unreadable) == ([1], 1)


def test_damage_is_not_passed_over(filled: Lab) -> None:
    (path,) = filled.journals()
    with Journal.open(path.parent, "test") as log:
        second = list(log.iter_blocks())[1]
    content = bytearray(path.read_bytes())
    good = bytes(content)
    # Flip a bit in the columns of a block that the search reads.
    content[second.start.offset + 104 + second.header.map_size + 5] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamageError) as caught:
        found(filled, keys=("30",))
    assert caught.value.facts["first_txid"] == second.first_txid
    path.write_bytes(good)
