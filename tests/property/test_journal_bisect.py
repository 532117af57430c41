"""Law: what bisect finds is an entry that makes the condition true, with the counts that a model has around it."""

from __future__ import annotations

import json
import operator
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.engine.verbs.journal import EntryFilter, dump_entries
from sowctl.engine.verbs.upkeep.journal_bisect import BisectOptions, bisect_journal
from sowctl.errors import NegativeError, UsageError
from sowctl.journal.format import PUBLISH
from sowctl.journal.limits import JOURNAL_LIMITS
from tests.support.examples import examples
from tests.support.instances import Lab, config_xml, message, topic_xml

TOPICS = topic_xml("t") + topic_xml("q", "<Expiration>30s</Expiration>") + topic_xml("all", "<Pattern>^news/</Pattern>")
XML = config_xml(TOPICS, ("t", "q", "all"))
NAMES = ["t", "q", "news/a"]
FILTERS: list[tuple[str | None, Callable[[dict[str, Any]], bool]]] = [
    (None, lambda row: True),
    ("/n > 2", lambda row: row["n"] > 2),
    ("/n = 1 OR /id = 4", lambda row: row["n"] == 1 or row["id"] == 4),
]
COUNTS = {"> 0": (operator.gt, 0), ">= 3": (operator.ge, 3), "= 0": (operator.eq, 0), "< 2": (operator.lt, 2)}
STEP = st.tuples(
    st.sampled_from([*NAMES, "news/b"]),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), min_size=1, max_size=5),
    st.sampled_from([0, 7, 40]),
    st.booleans(),
)
QUESTION = st.tuples(
    st.sampled_from(NAMES),
    st.sampled_from(range(len(FILTERS))),
    st.sampled_from(sorted(COUNTS)),
    st.sampled_from([None, "1", "4"]),
    st.tuples(st.integers(0, 12), st.one_of(st.none(), st.integers(1, 40))),
)


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JOURNAL_LIMITS, "max_block_entries", 3)
        yield


def model(lab: Lab, name: str, matches: Callable[[dict[str, Any]], bool], key: str | None) -> dict[int, int]:
    """How many records of a topic match behind every txid, by a dictionary of its records."""
    records: dict[bytes, tuple[dict[str, Any], int]] = {}
    counts, now = {0: 0}, 0
    for batch in dump_entries(lab.open(), EntryFilter()):
        for record in batch.records:
            entry = record.entry
            if name in (entry.topic[0], (entry.logical_topic or b"").decode()):
                now = entry.time
                if entry.operation == PUBLISH:
                    records[entry.key] = json.loads(entry.payload), entry.expiration
                else:
                    records.pop(entry.key, None)
            there = [row for row, end in records.values() if not (name == "q" and 0 < end <= now)]
            counts[entry.txid] = sum(matches(row) and key in (None, str(row["id"])) for row in there)
    return counts


@settings(max_examples=examples(100))
@given(st.lists(STEP, min_size=2, max_size=10), st.lists(QUESTION, min_size=1, max_size=10))
def test_what_is_found_makes_the_condition_true(work: list[Any], questions: list[Any]) -> None:
    place = Path(tempfile.mkdtemp())
    try:
        lab = Lab(place, XML, journal_size=2500)
        for name, rows, seconds, deletes in work:
            lab.clock.tick(seconds)
            if deletes and name in ("t", "q") and lab.store(name).exists():
                lab.open().topic(name).delete(filter=f"/id < {len(rows)}")
            else:
                lab.publish(name, *(message(id=key, n=value) for key, value in rows))
        for name, number, count, key, (first, last) in questions:
            text, matches = FILTERS[number]
            compare, bound = COUNTS[count]
            counts = model(lab, name, matches, key)
            end = max(counts) if last is None else min(last, max(counts))
            begin = min(first, max(counts))
            options = BisectOptions(text, count, () if key is None else (key,), (), first, None, last, None)
            try:
                found = bisect_journal(lab.open(), name, options)
            except UsageError:
                assert end <= begin
                continue
            except NegativeError:
                # It holds at the beginning, or not at the end.
                assert compare(counts[begin], bound) or not compare(counts[end], bound)
                continue
            assert not compare(counts[begin], bound) and compare(counts[end], bound)
            txid = found.after.txid
            assert begin < txid <= end and found.before.txid == txid - 1
            assert (found.before.count, found.after.count) == (counts[txid - 1], counts[txid])
            assert not compare(counts[txid - 1], bound) and compare(counts[txid], bound)
            (record,) = found.entry.records
            assert record.txid == txid == found.values["txid"]
            assert found.steps <= (end - begin).bit_length()
            # Where it changes once, it is the first entry behind which the condition holds.
            changes = [at for at in range(begin + 1, end + 1) if compare(counts[at], bound)]
            if changes == list(range(changes[0], end + 1)):
                assert txid == changes[0]
    finally:
        shutil.rmtree(place)
