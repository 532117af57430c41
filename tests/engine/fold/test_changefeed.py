"""The law of the change feed: applied to an empty state it gives the state of a replay, however it is split."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from sowctl.engine.fold.blocks import find_entry_places, read_entry_values, read_values_at
from sowctl.engine.fold.changefeed import (
    CHANGE_ROW_TYPES,
    LastEntries,
    RecordState,
    build_change_rows,
    fold_entries,
    read_records_at,
)
from sowctl.engine.fold.limits import FOLD_LIMITS
from sowctl.engine.topics.expiration import find_unexpired
from sowctl.journal.reader import Journal
from tests.support.instances import Lab, config_xml, message, topic_xml

XML = config_xml(topic_xml("a", "<Expiration>1h</Expiration>") + topic_xml("b"), ("a", "b"))
REF = ("a", "json")
Row = tuple[str, bytes, "bytes | None", int]
"""Type, key, the record's stored value, the txid of the entry."""


def history(directory: Path, seed: int) -> Lab:
    """Random publishes, deletions and expirations of two topics, in several files."""
    lab = Lab(directory, XML, journal_size=4000)
    rng = random.Random(seed)
    for step in range(60):
        topic = rng.choice("aab")
        if rng.random() < 0.25:
            lab.open().topic(topic).delete(filter=f"/id IN ({rng.randrange(12)}, {rng.randrange(12)})")
        else:
            ids = [rng.randrange(12) for _ in range(rng.randrange(1, 9))]
            some = [message(id=i, step=step, n=n) for n, i in enumerate(ids)]
            lab.publish(topic, *some, expiration=rng.choice((None, 5.0)))
        lab.clock.tick(rng.choice((0, 1, 6)))
    return lab


def feed(log: Journal, after: int, until: int, state: RecordState) -> list[Row]:
    """Return the rows of a part of the journal."""
    found: list[Row] = []
    for block in log.iter_blocks(after=after, until=until, topic=REF):
        places = find_entry_places(block, REF, after=after, until=until)
        keys, values = read_values_at(block, places)
        met = fold_entries(state, keys, values)
        columns, chosen = block.decode_numpy_columns(), np.array(places, int)
        kinds, entries = build_change_rows(columns.operations[chosen], columns.flags[chosen])
        for kind, at in zip(kinds.tolist(), entries.tolist(), strict=True):
            image = met[at] if CHANGE_ROW_TYPES[kind] in ("update_preimage", "delete") else values[at]
            found.append((CHANGE_ROW_TYPES[kind], keys[at], image, block.first_txid + places[at]))
    return found


def parts(log: Journal, edges: list[int]) -> list[Row]:
    """Return the feed, read in parts that share only the plan of each part."""
    before, found = LastEntries(REF), list[Row]()
    for after, until in pairwise(edges):
        before.advance_to(log, after)
        found += feed(log, after, until, read_records_at(log, before.find_replaced_txids(log, until)))
    return found


def opened(lab: Lab) -> Journal:
    return Journal.open(lab.directory / "journal", "test")


@pytest.mark.parametrize("seed", range(4))
def test_the_feed_applied_to_nothing_gives_the_state(tmp_path: Path, seed: int) -> None:
    lab = history(tmp_path, seed)
    with opened(lab) as log:
        end = log.read_last_txid()
        folded: RecordState = {}
        for block in log.iter_blocks(topic=REF):
            fold_entries(folded, *read_entry_values(block, REF))
        rows = feed(log, 0, end, {})
    state: RecordState = {}
    for kind, key, image, _ in rows:
        if kind == "delete":
            assert state.pop(key) == image
        elif kind == "update_preimage":
            assert state[key] == image
        elif image is not None:
            state[key] = image
    assert state == folded
    # the engine has the same state after its store was removed and rebuilt
    lab.forget("a")
    lab.open().topic("a").replay()
    values = list(state.values())
    keys, there = list(state), find_unexpired(values, lab.clock.at)
    assert {record.key: record.value for record in lab.records("a")} == {keys[at]: values[at] for at in there}
    kinds = [kind for kind, *_ in rows]
    assert set(kinds) == set(CHANGE_ROW_TYPES) and kinds.count("update_preimage") == kinds.count("update_postimage")


@pytest.mark.parametrize("held", [3, 1_000_000])
@pytest.mark.parametrize("seed", range(4))
def test_however_it_is_cut_the_feed_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, held: int
) -> None:
    monkeypatch.setattr(FOLD_LIMITS, "table_entries", held)
    lab = history(tmp_path, seed)
    rng = random.Random(seed)
    with opened(lab) as log:
        end = log.read_last_txid()
        whole = feed(log, 0, end, {})
        for count in (1, 2, 7):
            edges = [0, *sorted(rng.sample(range(1, end), count)), end]
            assert parts(log, edges) == whole
        # a single part, as a query that starts at a txid reads it
        start = end // 2
        assert parts(log, [start, end]) == [row for row in whole if row[3] > start]


def test_what_is_published_over_a_record_that_has_expired_is_an_insert(tmp_path: Path) -> None:
    lab = Lab(tmp_path, XML)
    lab.publish("a", message(id=1), expiration=5.0)
    lab.publish("a", message(id=1, again=True), expiration=5.0)
    lab.clock.tick(10)
    lab.publish("a", message(id=1, anew=True))
    with opened(lab) as log:
        kinds = [kind for kind, *_ in feed(log, 0, 3, {})]
    assert kinds == ["insert", "update_preimage", "update_postimage", "insert"]
