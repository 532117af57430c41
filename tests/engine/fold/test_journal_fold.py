"""Folding a journal into a new store: the same store under the smallest memory limits, which are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from sowctl.engine.fold import journal_fold
from sowctl.engine.fold.limits import FOLD_LIMITS
from sowctl.engine.topics.positions import open_log
from sowctl.identity.keyspace import KEYSPACE_LIMITS
from sowctl.journal.reader import Journal
from sowctl.store.builder import build_store
from sowctl.store.codec import encode_record
from sowctl.store.env import Store
from tests.support.faults import CountingSeam
from tests.support.instances import Lab, message
from tests.support.stores import DEFINITION

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


@pytest.mark.parametrize(("size", "transactions"), [(100, 1), (100_000, 4)])
def test_transactions_with_large_values_have_fewer_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, transactions: int
) -> None:
    monkeypatch.setattr(FOLD_LIMITS, "transaction_bytes", 1_000_000)
    keys = [number.to_bytes(8, "big") for number in range(40)]
    values = [encode_record(key, bytes(8), 1, 1, 0, 0, b"x" * size) for key in keys]
    seam = CountingSeam(["lmdb.commit"])
    with build_store(tmp_path / "t.sow", DEFINITION, seam=seam, now=1) as builder:
        before = seam.count
        journal_fold.append_sorted(
            builder, iter([(keys[at : at + 5], values[at : at + 5]) for at in range(0, len(keys), 5)])
        )
        assert seam.count - before == transactions
        builder.finish()
        builder.install()
    with Store.open(tmp_path / "t.sow", write=False) as store, store.open_snapshot() as snapshot:
        assert snapshot.read_values(keys) == dict(zip(keys, values, strict=True))
