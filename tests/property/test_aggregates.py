"""Law: aggregates see a group's records in the order of their updates, by rows, on columns, by files, and as of a
time alike."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sowctl.engine.options import QueryOptions
from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.topics.targets import resolve_targets
from sowctl.engine.verbs.query import start_query
from sowctl.messages.json import columns
from sowctl.messages.json.limits import JSON_LIMITS
from tests.support.aggregates import GROUPING, PROJECTION, drawn_history, expected, spelled
from tests.support.examples import choose_cases
from tests.support.instances import Lab, config_xml, topic_xml


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of any size are read by the shapes of their messages."""
    monkeypatch.setattr(JSON_LIMITS, "min_template_messages", 1)


ASKED = QueryOptions(projection=PROJECTION, grouping=GROUPING, index_from=None)


def _answer(lab: Lab, options: QueryOptions) -> dict[str, str]:
    instance = lab.open()
    rows = [
        json.loads(record.payload)
        for record in start_query(instance, resolve_targets(instance, "t"), options).iterate_records()
    ]
    return spelled({row["g"]: row for row in rows})


@pytest.mark.parametrize("seed", choose_cases(range(12), 4))
def test_like_a_model_in_plain_python(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QUERY_LIMITS, "index_max_share", 1.0)
    monkeypatch.setattr(QUERY_LIMITS, "index_batch_min_rows", 2)
    monkeypatch.setattr(QUERY_LIMITS, "group_batch_records", 7)
    monkeypatch.setattr(QUERY_LIMITS, "group_batch_column_rows", 5)
    part = ("", "<Durability>transient</Durability>")[seed % 2]
    lab = Lab(tmp_path, config_xml(topic_xml("t", part), ("t",) if seed % 4 else ()))
    history: list[dict[str, Any]] = []
    moments: list[tuple[int, dict[str, str]]] = []
    for step in range(3):
        more = drawn_history(seed * 10 + step)
        lab.publish("t", *map(json.dumps, more))
        history += more
        wanted = spelled(expected(history))
        assert _answer(lab, ASKED) == wanted
        for on_columns in (False, True):
            monkeypatch.setattr(QUERY_LIMITS, "lasting_array_min_rows", 0 if on_columns else 1 << 60)
            for asked in (ASKED, replace(ASKED, index_from=0)):
                assert _answer(lab, asked) == wanted, on_columns
                assert _answer(lab, replace(asked, sort_memory=2500)) == wanted, "a part of the groups in files"
        moments.append((lab.clock.at, wanted))
        lab.clock.tick(5)
    if seed % 4:
        for at, wanted in moments:
            assert _answer(lab, replace(ASKED, at=at)) == wanted


FIELDS = "a,b,c,d"
ASKED_OF_FIELDS = (
    ("/a, /b, SUM(/c * 2) AS /s, COUNT(/d) AS /n, AVG(/d) AS /m, STDDEV_SAMP(/c) AS /e", "/a, /b"),
    ("/c, MIN(/a) AS /x, MAX(/b) AS /y, ANY(/d) AS /z, COUNT_DISTINCT(/a) AS /k, GROUP_CONCAT(/d) AS /l", "/c"),
    ("SUM(IF(/a > /b, /c, 0)) AS /s, UNIQUE(/d) AS /u, /d AS /last", ""),
)
TOKENS = (
    *(
        "0",
        "-0",
        "-0.0",
        "1",
        "1.0",
        "1.50",
        "-7",
        "4.0484",
        "1e2",
        "1e400",
        "9007199254740993",
        "18446744073709551615",
    ),
    *("123456789012345678901", "null", "true", "false", '""', '"x"', '"1"', '"a\\nb"', '"\\u0078"', "[1,2]", '{"x":1}'),
)
"""Values as JSON writes them, plain and odd."""
POOLS: tuple[tuple[Any, ...], ...] = (
    (None, 1, 2, 3),
    (1.5, -0.0, 1e308, 0.1, -1e-300, None),
    (2**63, 2**64 - 1, -(2**63), 7, 10**30),
    ("a", "b", "10", "9.0", "é", "", None),
    (None, True, "1", 1, 1.0, [1, 2], {"x": 1}, "x"),
)


@pytest.mark.parametrize("seed", choose_cases(range(8), 3))
def test_all_ways_give_the_same_bytes(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random histories with deltas and deletes: rows, columns and files of either, with and without indexes."""
    source = random.Random(seed)
    monkeypatch.setattr(QUERY_LIMITS, "group_batch_records", 11)
    monkeypatch.setattr(QUERY_LIMITS, "group_batch_column_rows", 6)
    lab = Lab(tmp_path, config_xml(topic_xml("t"), ("t",)))
    pools = {name: source.choice(POOLS) for name in FIELDS.split(",")}
    for step in range(3):
        for _ in range(30):
            some = source.sample(sorted(pools), source.randint(0, 4))
            fields = {name: source.choice(pools[name]) for name in some}
            lab.publish("t", json.dumps({"id": source.randrange(40)} | fields), delta=step > 0)
        lab.clock.tick(5)
        projection, grouping = source.choice(ASKED_OF_FIELDS)
        filtered = source.choice(["", "/id < 20", "/a IS NOT NULL"])
        asked = QueryOptions(projection=projection, grouping=grouping, filter=filtered, index_from=None)
        found = []
        for arrays in (1 << 60, 0):
            monkeypatch.setattr(QUERY_LIMITS, "lasting_array_min_rows", arrays)
            instance = lab.open()
            for index in (None, 0, 0):
                for memory in (1 << 26, 1500):
                    options = replace(asked, index_from=index, sort_memory=memory)
                    records = start_query(instance, resolve_targets(instance, "t"), options).iterate_records()
                    found.append([(record.key, record.txid, record.payload) for record in records])
        assert all(one == found[0] for one in found)


LIKE = (
    ("0", "1", "-7", "42"),
    ("1.0", "1.50", "4.0484", "-0.25"),
    ('""', '"x"', '"1"', '"é"'),
    ("true", "false", "null"),
)
"""Values that one slot of a shape may have."""


def _message(source: random.Random, names: list[str], kinds: dict[str, tuple[str, ...]], number: int) -> str:
    """A message of one of two shapes; now and then a value is odd, a member lacks, or is there twice."""
    members = [(name, source.choice(kinds[name] if source.random() < 0.98 else TOKENS)) for name in names]
    if source.random() < 0.02:
        members.pop()
    if source.random() < 0.02:
        members.append(source.choice(members))
    if source.random() < 0.02:
        members.insert(0, ("\\u0061", "5"))
    return "{" + ",".join(f'"{name}":{value}' for name, value in [("id", str(number)), *members]) + "}"


@pytest.mark.parametrize("seed", choose_cases(range(4), 2))
def test_columns_of_shapes_give_the_same_bytes(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a scan reads by shapes, what it decodes beside them, and rows: groups, filters and parts of files."""
    source = random.Random(seed)
    read, used = columns.JsonTemplateReader.read_columns, list[Any]()
    monkeypatch.setattr(JSON_LIMITS, "max_template_attempts", 9)
    monkeypatch.setattr(
        columns.JsonTemplateReader, "read_columns", lambda self, *some: used.append(read(self, *some)) or used[-1]
    )
    lab = Lab(tmp_path, config_xml(topic_xml("t"), ("t",)))
    orders = [source.sample(["a", "b", "c", "d"], 4) for _ in range(2)]
    kinds = {name: source.choice(LIKE) for name in "abcd"}
    lab.publish("t", *[_message(source, source.choice(orders), kinds, number) for number in range(120)])
    for projection, grouping in ASKED_OF_FIELDS:
        for filtered in ("", "/id < 90"):
            asked = QueryOptions(projection=projection, grouping=grouping, filter=filtered, index_from=None)
            found = []
            for arrays, size in ((1 << 60, 11), (0, 16), (0, 200)):
                monkeypatch.setattr(QUERY_LIMITS, "lasting_array_min_rows", arrays)
                monkeypatch.setattr(QUERY_LIMITS, "group_batch_records", size)
                for memory in (1 << 26, 1500):
                    instance = lab.open()
                    records = start_query(
                        instance, resolve_targets(instance, "t"), replace(asked, sort_memory=memory)
                    ).iterate_records()
                    found.append([(record.key, record.txid, record.payload) for record in records])
            assert found[0]
            assert all(one == found[0] for one in found)
    assert any(used), "none was read by its shape"
