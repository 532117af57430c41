"""Aggregated queries (behaviour C70 to C74, section 3.4): one message per group, as in a view."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.topics.targets import resolve_targets
from sowctl.errors import UsageError
from sowctl.expressions.syntax.errors import ExpressionError
from sowctl.store.limits import STORE_LIMITS
from sowctl.store.read import LineBatch
from sowctl.store.snapshot import Snapshot
from tests.support.examples import examples
from tests.support.instances import Lab, config_xml, message, topic_xml


def _rows(lab: Lab, **options: object) -> list[dict[str, Any]]:
    return [json.loads(text) for text in lab.query("t", **options)]


def _by(rows: list[dict[str, Any]], name: str) -> dict[object, dict[str, Any]]:
    return {row[name]: row for row in rows}


def test_maximum_by_ticker(lab: Lab) -> None:  # C70
    prices = [150.34, 149.76, 149.32, 151.10]
    lab.publish("t", *(message(id=number, tickerId="IBM", price=price) for number, price in enumerate(prices)))
    lab.publish("t", message(id=9, tickerId="MSFT", price=1))
    rows = _rows(lab, projection="MAX(/price) AS /max,/tickerId as /ticker", grouping="/tickerId")
    assert _by(rows, "ticker")["IBM"] == {"ticker": "IBM", "max": 151.10}
    assert len(rows) == 2


@pytest.mark.parametrize("given", [{"grouping": "/id"}, {"projection": "SUM(/id) AS /s"}])
def test_both_or_neither(lab: Lab, given: dict[str, str]) -> None:  # C71
    lab.publish("t", message(id=1))
    with pytest.raises(UsageError) as caught:
        lab.query("t", **given)
    assert (caught.value.code, caught.value.exit_status) == ("SOW-QRY-015", 2)
    assert ("to select fields of each record, use select" in str(caught.value.hint)) == ("projection" in given)


@pytest.mark.parametrize("index", [None, 0])
@pytest.mark.parametrize("grouping", ["", " "])
def test_an_empty_grouping_makes_one_group_of_all_records(lab: Lab, grouping: str, index: int | None) -> None:
    asked = {"projection": "SUM(/v) AS /sum, COUNT(1) AS /n, /v AS /last", "index_from": index, "grouping": grouping}
    lab.publish("t", *(message(id=number, v=number) for number in range(10)))
    assert _rows(lab, **asked) == [{"sum": 45, "n": 10, "last": 9}]
    assert _rows(lab, **asked, filter="/v < 3") == [{"sum": 3, "n": 3, "last": 2}]
    assert _rows(lab, **asked, filter="/v < 0") == []
    assert _rows(lab, **asked, sow_keys=()) == []


def test_sums_of_conditions(lab: Lab) -> None:  # C72
    lab.publish("t", *(message(id=number, oid=1, qty=qty) for number, qty in enumerate([10, 10, 25])))
    projection = "SUM(/qty) AS /all, SUM(IF(/qty % 10 == 0, 1, 0)) AS /tens, /oid"
    assert _rows(lab, projection=projection, grouping="/oid") == [{"all": 45, "tens": 2, "oid": 1}]


def test_extremes_of_mixed_values(lab: Lab) -> None:  # C73
    values: list[object] = [24, 20, "cat", 75, 1.3, 200, "75", "42"]
    lab.publish("t", *(message(id=number, g=1, v=value) for number, value in enumerate(values)))
    rows = _rows(lab, projection="MIN(/v) AS /least, MAX(/v) AS /most", grouping="/g")
    assert rows == [{"least": 1.3, "most": "cat"}]


def test_unique(lab: Lab) -> None:  # C74
    for number, (group, value) in enumerate([("a", 5), ("a", 5), ("b", 5), ("b", 6)]):
        lab.publish("t", message(id=number, g=group, v=value))
    rows = _by(_rows(lab, projection="/g, UNIQUE(/v) AS /u", grouping="/g"), "g")
    assert (rows["a"]["u"], rows["b"]["u"]) == (5, None)


def test_other_fields_come_from_the_record_that_was_updated_last(lab: Lab) -> None:
    for number in (3, 1, 2, 4, 0):
        lab.publish("t", message(id=number, g=1, who=f"w{number}"))
        lab.clock.tick(1)
    lab.publish("t", message(id=2, g=1, who="again"))
    assert _rows(lab, projection="/g, /who", grouping="/g") == [{"g": 1, "who": "again"}]


def test_filter_order_and_pages(lab: Lab) -> None:
    lab.publish("t", *(message(id=n, g=f"g{n % 5}", v=n) for n in range(40)))
    asked = {"projection": "/g, SUM(/v) AS /sum", "grouping": "/g", "filter": "/v >= 10", "order_by": "/sum DESC"}
    sums = {f"g{g}": sum(n for n in range(10, 40) if n % 5 == g) for g in range(5)}
    expected = sorted(sums.items(), key=lambda one: -one[1])
    assert [(row["g"], row["sum"]) for row in _rows(lab, **asked)] == expected
    assert [(row["g"], row["sum"]) for row in _rows(lab, **asked, top_n=2, skip_n=1)] == expected[1:3]
    result = lab.open().topic("t").query(**asked, top_n=2)  # type: ignore[arg-type]
    assert sum(len(batch) for batch in result) == 2
    numbers = result.statistics[0]
    assert (numbers.examined, numbers.matched, numbers.returned) == (40, 30, 2)
    assert lab.open().topic("t").query(**asked).count() == 5  # type: ignore[arg-type]


def test_keys_and_stamps_of_groups(lab: Lab) -> None:
    lab.publish("t", message(id=1, g="a", h=None), message(id=2, g="a", h=""), message(id=3, g="a", h="x"))
    found = list(lab.open().topic("t").query(projection="/g, COUNT(/id) AS /n", grouping="/g, /h").records())
    assert [json.loads(record.payload)["n"] for record in sorted(found, key=lambda r: r.txid)] == [2, 1]
    assert sorted(record.txid for record in found) == [2, 3]
    assert [record.key for record in found] == sorted({record.key for record in found})


def test_as_of_an_earlier_time(lab: Lab) -> None:
    lab.publish("t", message(id=1, g=1, v=1))
    then = lab.clock.at
    lab.clock.tick(10)
    lab.publish("t", message(id=1, g=1, v=50), message(id=2, g=1, v=3))
    asked = {"projection": "SUM(/v) AS /s", "grouping": "/g"}
    assert _rows(lab, **asked, at=then) == [{"s": 1}]
    assert _rows(lab, **asked) == [{"s": 53}]


def test_a_projection_of_bytes_that_are_not_utf8_is_an_error_of_the_text(lab: Lab) -> None:
    with pytest.raises(ExpressionError) as caught:
        _rows(lab, projection="SUM(/\udcff) AS /s", grouping="/id")
    assert caught.value.code == "SOW-EXP-009"


def test_what_does_not_go_together(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    instance = lab.open()
    asked = {"projection": "/id", "grouping": "/id"}
    with pytest.raises(UsageError, match="select list"):
        lab.query("t", **asked, select="-/,+/id")
    with pytest.raises(UsageError, match="single topic"):
        from sowctl.engine.options import QueryOptions
        from sowctl.engine.verbs.query import start_query

        start_query(instance, resolve_targets(instance, "t") * 2, QueryOptions(**asked))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="exceeds the maximum"):
        lab.query("t", projection="/id AS /" + "x" * 70_000, grouping="/id")
    with pytest.raises(ExpressionError):
        lab.query("t", projection="SUM(SUM(/id)) AS /x", grouping="/id")
    with pytest.raises(ExpressionError):
        lab.query("t", projection="SUM([other]./id) AS /x", grouping="/id")


_MESSAGES = st.lists(
    st.fixed_dictionaries({"id": st.integers(0, 15), "g": st.sampled_from(["a", "b", "c"]), "v": st.integers(-5, 5)}),
    max_size=40,
    min_size=1,
)


@settings(max_examples=examples(25), deadline=None)
@given(messages=_MESSAGES, least=st.integers(-5, 5))
def test_like_a_dictionary(
    messages: list[dict[str, Any]], least: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lab = Lab(Path(tmp_path_factory.mktemp("lab")), config_xml(topic_xml("t"), ("t",)))
    lab.publish("t", *map(json.dumps, messages))
    last = {one["id"]: one for one in messages}
    groups: dict[str, list[int]] = {}
    for one in last.values():
        if one["v"] >= least:
            groups.setdefault(one["g"], []).append(one["v"])
    projection = "/g, SUM(/v) AS /s, COUNT(/v) AS /n, AVG(/v) AS /mean, MIN(/v) AS /low"
    for index in (None, 0):
        rows = _by(_rows(lab, projection=projection, grouping="/g", filter=f"/v >= {least}", index_from=index), "g")
        assert set(rows) == set(groups)
        for name, values in groups.items():
            row = rows[name]
            assert (row["s"], row["n"], row["low"]) == (sum(values), len(values), min(values))
            assert math.isclose(row["mean"], sum(values) / len(values))


def test_groups_of_a_scan_are_made_of_lines_of_the_file(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """All records as lines, some of them read through LMDB: groups, counts and errors are the same as row by row."""
    shown: list[tuple[int, int]] = []
    lined = Snapshot.scan_lines

    def counted(snapshot: Snapshot, batch: int = 1000) -> Iterator[LineBatch]:
        for one, pairs in lined(snapshot, batch) or ():
            shown.append((len(pairs[0]), 0 if one is None else len(one.messages)))
            yield one, pairs

    monkeypatch.setattr(Snapshot, "scan_lines", counted)
    monkeypatch.setattr(STORE_LIMITS, "page_batch_bytes", 30_000)
    lab.publish("t", *(message(id=number, g=f"g{number % 3}", v=number / 4 or 1) for number in range(2000)))
    lab.publish("t", message(id=777, g="g0", v=5, more="x" * 9000))
    asked = {"projection": "/g, SUM(/v) AS /s, MAX(/id) AS /most", "grouping": "/g", "index_from": None}
    found = []
    for arrays in (1 << 60, 0):
        monkeypatch.setattr(QUERY_LIMITS, "lasting_array_min_rows", arrays)
        result = lab.open().topic("t").query(**asked)  # type: ignore[arg-type]
        found.append([(record.key, record.txid, record.payload) for record in result.records()])
        numbers = result.statistics[0]
        assert (numbers.examined, numbers.matched, numbers.returned) == (2000, 2000, 3)
    assert found[0] == found[1]
    by_scan, by_lines = map(sum, zip(*shown, strict=True))
    assert 0 < by_scan < 1000 < by_lines
    assert by_scan + by_lines == 2000
