"""Folding a journal into a new store: the same store under the smallest memory limits, which are kept."""

from __future__ import annotations

import pytest

from sowctl.engine.fold import journal_fold
from sowctl.engine.fold.limits import FOLD_LIMITS
from sowctl.engine.topics.positions import open_log
from sowctl.identity.keyspace import KEYSPACE_LIMITS
from sowctl.journal.reader import Journal
from tests.support.instances import Lab, message

REF = ("t", "json")


def _grown(lab: Lab, topic: str) -> None:
    for value in range(3):
        lab.publish(topic, *(message(id=n, v=value) for n in range(value, 60, value + 1)), batch=10)
    lab.open().topic(topic).delete(filter="/id < 7")


@pytest.mark.parametrize("topic", ["t", "past"])
def test_the_same_store_under_the_smallest_bounds(lab: Lab, monkeypatch: pytest.MonkeyPatch, topic: str) -> None:
    _grown(lab, topic)
    live = lab.digest(topic)
    for name in ("bucket_bytes", "block_cache_bytes", "fold_part_records", "transaction_parts", "compact_entries"):
        monkeypatch.setattr(FOLD_LIMITS, name, 5)
    monkeypatch.setattr(FOLD_LIMITS, "max_bucket_file_bytes", 500)
    monkeypatch.setattr(KEYSPACE_LIMITS, "sort_batch_keys", 5)
    lab.forget(topic)
    assert lab.open().topic(topic).replay().action == "rebuilt"
    assert lab.digest(topic) == live


def test_blocks_that_are_kept_count_with_their_columns(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    _grown(lab, "t")
    with open_log(lab.open()) as log:
        headers = [block.header for block in log.iter_blocks()]
    stored, columns = sum(header.size for header in headers), sum(header.columns_raw for header in headers)
    reads: list[object] = []
    blocks = Journal.iter_blocks
    monkeypatch.setattr(Journal, "iter_blocks", lambda log, **given: reads.append(log) or blocks(log, **given))
    for limit, passes in ((stored + columns, 1), (stored + columns - 1, 2), (stored, 2)):
        monkeypatch.setattr(FOLD_LIMITS, "block_cache_bytes", limit)
        reads.clear()
        with open_log(lab.open()) as log:
            held = journal_fold._BlockCache(log, REF, journal_fold.EntrySpan(0, log.read_last_txid()))
            first = [block.first_txid for block in held.read_first()]
            assert [block.first_txid for block in held.read_again()] == first
        assert (len(first), len(reads)) == (len(headers), passes)
