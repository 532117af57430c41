"""The option filter of sow-journal: messages judged by themselves are those that records, as the engine has them, give.

Read as Spark's tasks read, in this process and without a session.
"""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

import pyarrow as pa

from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.search.matcher import Matcher
from sowctl.errors import InputError
from sowctl.journal.block import Block
from sowctl.spark.options import Options
from sowctl.spark.origin import find_journal
from sowctl.spark.reading.bounds import ReadBounds
from sowctl.spark.reading.journalbatches import BatchBuilder, JournalQuery
from sowctl.spark.reading.journalplan import open_journal
from tests.support.instances import Lab

FILTERS = (
    "/price > 50 AND /step != 3",
    "/who/name = 'n3é'",
    "/id = 7",
    "/id IN (1, 2, 3) OR /tags = 9",
    "/nothing IS NULL",
    "/step = 2 AND /who/name LIKE 'n[12]'",
    "MESSAGE_SIZE() > 60 AND SOW_KEY() LIKE '1'",
)


def chosen(lab: Lab, text: str, *, topic: str | None = None) -> list[int]:
    """The txids of the entries that match."""
    options = Options("sow-journal", {"config": str(lab.config)}, ("config",))
    query = JournalQuery(find_journal(options), topic=topic, filter=text)
    made = BatchBuilder(query, query.build_bounds() if topic else ReadBounds(), pa.schema([]))
    found = []
    with open_journal(query.origin) as log:
        for block in log.iter_blocks():
            mask = made.select_entries(block)
            places = range(len(block)) if mask is None else mask.nonzero()[0].tolist()
            found += [block.first_txid + place for place in places]
    return found


@pytest.mark.parametrize("looking", [1, 10**9])
@pytest.mark.parametrize("text", FILTERS)
def test_messages_by_themselves_match_as_their_records(
    stocked: Lab, text: str, looking: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QUERY_LIMITS, "prefilter_min_records", looking)
    for topic in (None, "orders"):
        found = chosen(stocked, text, topic=topic)
        with monkeypatch.context() as patch:
            # Nothing is said of messages by themselves, so each is made a record.
            patch.setattr(Matcher, "find_matching_messages", lambda *_: None)
            assert found == chosen(stocked, text, topic=topic)
        assert found


def test_blocks_that_show_nothing_are_passed_over_unread(stocked: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QUERY_LIMITS, "prefilter_min_records", 1)
    for part in ("decode_columns", "list_payloads"):
        monkeypatch.setattr(Block, part, lambda self: pytest.fail("nothing in it can match"))
    for text in ("/id = 987654321", "/who/name = 'nobody' AND /id > 0", "/price = 987.5"):
        assert chosen(stocked, text, topic="orders") == []


def test_a_message_that_cannot_be_read_is_still_an_error(lab: Lab) -> None:
    lab.publish("chosen", b'{"id":1}', sow_key="a")
    lab.publish("chosen", b"no JSON", sow_key="b")
    for text in ("/id = 1", "/id > 5"):
        with pytest.raises(InputError) as caught:
            chosen(lab, text, topic="chosen")
        assert caught.value.code == "SOW-QRY-004"
