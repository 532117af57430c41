"""Law: a search finds the entries that a dump shows and that satisfy the conditions one by one."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.engine.maintenance.journal_search.entries import EntryRecord
from sowctl.engine.options import PublishOptions
from sowctl.engine.verbs.journal import EntryFilter, dump_entries
from sowctl.engine.verbs.publish import publish_messages
from sowctl.engine.verbs.upkeep.journal_search import SearchOptions, search_journal
from sowctl.engine.writing.batches import ListSource
from sowctl.journal.entries import HAS_LOGICAL_TOPIC
from sowctl.journal.format import OPERATIONS, PUBLISH, UNKEYED_FLAG
from sowctl.journal.limits import JOURNAL_LIMITS
from tests.support.examples import examples
from tests.support.instances import START, Lab, config_xml, message, topic_xml

TOPICS = topic_xml("t") + topic_xml("own", key=None) + topic_xml("logical", "<Pattern>^news/</Pattern>")
XML = config_xml(TOPICS, ("t", "own", "logical", "bare"))
CLIENTS = [None, "feed", "desk"]
NAMES = ["t", "own", "bare", "news/a", "news/b"]


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    """Few entries to a block, so that some are passed over; several keys are many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JOURNAL_LIMITS, "max_block_entries", 4)
        patch.setattr(JOURNAL_LIMITS, "max_single_lookups", 2)
        yield


WORK = st.tuples(
    st.sampled_from(NAMES),
    st.sampled_from(CLIENTS),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5), st.sampled_from(["", "a.c", "abc", "É"])), max_size=9),
    st.sampled_from([0, 1, 5]),
    st.booleans(),
)


def put(lab: Lab, topic: str, *messages: str, **options: object) -> None:
    """Publish, also to a topic without a SOW."""
    source = ListSource([one.encode() for one in messages], 100)
    publish_messages(lab.open(), topic, [("in", source)], PublishOptions(**options))  # type: ignore[arg-type]


def carry_out(lab: Lab, work: list[Any]) -> None:
    """Publishes of several clients to all kinds of topics, and deletions."""
    for number, (name, client, rows, seconds, deletes) in enumerate(work):
        lab.clock.tick(seconds)
        if deletes and name == "t":
            lab.open().topic("t").delete(filter=f"/id < {len(rows)}")
            continue
        for each, (key, value, text) in enumerate(rows):
            options: dict[str, object] = {"client": client, "sequence": number * 100 + each + 1} if client else {}
            if name == "own":
                options["sow_key"] = f"k{key}"
            put(lab, name, message(id=key, n=value, text=text), **options)
        if rows and not deletes:
            put(lab, name if name in ("t", "bare") else "t", *(message(id=k, n=v, text=s) for k, v, s in rows))


FILTERS: list[tuple[str, Callable[[dict[str, Any]], bool]]] = [
    ("/n > 2", lambda row: row["n"] > 2),
    ("/text = 'abc' OR /n = 0", lambda row: row["text"] == "abc" or row["n"] == 0),
    ("/id IN (1, 2) AND /text LIKE 'c'", lambda row: row["id"] in (1, 2) and "c" in row["text"]),
    ("/none IS NULL", lambda row: True),
]
PATTERNS = ["abc", r"a\.c", '"n":[1-3],', "É", "(?i)ABC", "nowhere"]

CONDITIONS = st.fixed_dictionaries(
    {},
    optional={
        "topic_names": st.lists(st.sampled_from([*NAMES, "logical"]), min_size=1, max_size=2, unique=True),
        "client": st.sampled_from(["feed", "desk", "nobody"]),
        "keys": st.lists(st.sampled_from(["1", "3", "k2", "k7", "nothing"]), min_size=1, max_size=3, unique=True),
        "sow_key": st.integers(0, 6),
        "operations": st.lists(st.sampled_from(["publish", "delete", "ack"]), min_size=1, max_size=2, unique=True),
        "times": st.tuples(st.integers(-1, 20), st.integers(0, 30)),
        "txids": st.tuples(st.integers(0, 30), st.integers(0, 60)),
        "filter": st.sampled_from(range(len(FILTERS))),
        "pattern": st.sampled_from(PATTERNS),
        "limit": st.integers(1, 5),
    },
)


def keys_by_hand(lab: Lab, text: str, entry: Any, topic_names: list[str]) -> bool:
    """Whether a text of a key means an entry: it is its key field's, its publisher's key, or its SOW key."""
    if entry.flags & UNKEYED_FLAG:
        return False
    if entry.topic[0] == "own":
        return bool(entry.user_key is not None and entry.user_key.decode() == text)
    if text.isdigit() and int.from_bytes(entry.key, "big") == int(text):
        return True
    # The keys of logical topics are theirs: such a text means one where they are named.
    logical = None if entry.logical_topic is None else entry.logical_topic.decode()
    if logical is not None and logical not in topic_names:
        return False
    ids = {payload["id"] for payload in lab_keys(lab, entry)}
    return text.isdigit() and int(text) in ids


def lab_keys(lab: Lab, entry: Any) -> list[dict[str, Any]]:
    """The messages that were ever published under the key of an entry, in its topic."""
    return [
        json.loads(record.entry.payload)
        for record in everything(lab)
        if (record.entry.topic, record.entry.key) == (entry.topic, entry.key) and record.entry.payload
    ]


def everything(lab: Lab) -> list[EntryRecord]:
    return [record for batch in dump_entries(lab.open(), EntryFilter()) for record in batch.records]


def by_hand(lab: Lab, wanted: dict[str, Any], sow_key: int | None) -> list[int]:
    """The txids of the entries that satisfy the conditions, each asked of each entry of a dump."""
    found = []
    for record in everything(lab):
        entry = record.entry
        logical = entry.logical_topic.decode() if entry.flags & HAS_LOGICAL_TOPIC else None
        row = json.loads(entry.payload) if entry.operation == PUBLISH else None
        tests = [
            "topic_names" not in wanted or entry.topic[0] in wanted["topic_names"] or logical in wanted["topic_names"],
            "client" not in wanted or entry.client == wanted["client"],
            "operations" not in wanted or OPERATIONS[entry.operation] in wanted["operations"],
            "times" not in wanted or wanted["times"][0] <= entry.time <= wanted["times"][1],
            "txids" not in wanted or wanted["txids"][0] <= entry.txid <= wanted["txids"][1],
            "filter" not in wanted or (row is not None and FILTERS[wanted["filter"]][1](row)),
            "pattern" not in wanted
            or (row is not None and re.search(wanted["pattern"].encode(), entry.payload) is not None),
        ]
        if "keys" in wanted or sow_key is not None:
            is_it = sow_key == int.from_bytes(entry.key, "big") and not entry.flags & UNKEYED_FLAG
            tests.append(
                is_it
                or any(keys_by_hand(lab, text, entry, wanted.get("topic_names", [])) for text in wanted.get("keys", ()))
            )
        if all(tests):
            found.append(entry.txid)
    return found[: wanted.get("limit")]


def options_of(wanted: dict[str, Any], sow_key: int | None) -> SearchOptions:
    times, txids = wanted.get("times", (None, None)), wanted.get("txids", (None, None))
    return SearchOptions(
        topic_names=tuple(wanted.get("topic_names", ())),
        keys=tuple(wanted.get("keys", ())),
        sow_keys=() if sow_key is None else (str(sow_key),),
        client=wanted.get("client"),
        operations=tuple(wanted.get("operations", ())),
        from_time=times[0],
        to_time=times[1],
        from_txid=txids[0],
        to_txid=txids[1],
        filter=FILTERS[wanted["filter"]][0] if "filter" in wanted else None,
        pattern=wanted.get("pattern"),
        limit=wanted.get("limit"),
    )


@settings(max_examples=examples(60))
@given(st.lists(WORK, min_size=1, max_size=6), st.lists(CONDITIONS, min_size=1, max_size=12), st.booleans())
def test_a_search_is_a_dump_with_its_conditions_by_hand(
    work: list[Any], conditions: list[dict[str, Any]], packed: bool
) -> None:
    place = Path(tempfile.mkdtemp())
    try:
        lab = Lab(place, XML, journal_size=2500)
        # Every topic has an entry, so that none of their names is refused.
        for name in NAMES:
            put(lab, name, message(id=0, n=0, text=""), **({"sow_key": "k0"} if name == "own" else {}))
        carry_out(lab, work)
        if packed:
            for path in lab.journals()[:-1:2]:
                path.with_name(path.name + ".zst").write_bytes(zstandard.ZstdCompressor().compress(path.read_bytes()))
                path.unlink()
        keys = [int.from_bytes(record.entry.key, "big") for record in everything(lab)]
        for drawn in conditions:
            wanted = dict(drawn)
            number = wanted.pop("sow_key", None)
            sow_key = keys[number % len(keys)] if number is not None else None
            if "times" in wanted:
                wanted["times"] = tuple(START + second * 1_000_000 for second in wanted["times"])
            names = wanted.get("topic_names")
            if "keys" in wanted and names and not {"t", "own", "logical"} & set(names):
                del wanted[
                    "topic_names"
                ]  # keys of these depend on logical topics, or there are none: a case of its own
            if "logical" in wanted.get("topic_names", ()) and "keys" in wanted:
                wanted["topic_names"] = ["t"]
            found = search_journal(lab.open(), options_of(wanted, sow_key))
            txids = [record.txid for batch in found for record in batch.records]
            assert txids == by_hand(lab, wanted, sow_key), (wanted, sow_key)
            report = found.report
            assert report.matched == len(txids)
            looked = report.by_header + report.by_map + report.by_columns + report.payloads_read
            assert looked == report.blocks
    finally:
        shutil.rmtree(place)
