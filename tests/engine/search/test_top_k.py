"""The first records of an order by a scan: the records left by a candidate filter sort as all records do."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from sowctl.engine.search import scan
from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.search.top_k import TopKFilter
from sowctl.errors import DamageError
from sowctl.messages.json.limits import JSON_LIMITS
from sowctl.store.limits import STORE_LIMITS
from sowctl.store.snapshot import Snapshot
from tests.support.instances import Lab, config_xml, message, topic_xml

ORDERS = ("/a", "/a DESC", "/a, /b", "/a DESC, /b DESC", "/a, /b TEXT, /c", "/a DESC, /c", "/o/p, /a DESC")
VALUES: dict[str, list[Any]] = {
    # Usual values are frequent: then a shape is useful, and the candidates filter can exclude records.
    "numbers": [*range(-30, 30), 7, 7, 7, 2.5, 2.5, -0.25, 1e300],
    "integers": [1, 2, 3, 1 << 53, (1 << 53) + 1, (1 << 53) + 2, -(1 << 53) - 1, 1 << 62, -(1 << 63)],
    "mixed": [1, 2, 3, 4, 5, "3", "10", "x", "", None, True, False, [4, 1], [], {"n": 1}],
    "texts": ["x", "y", "10", "9", "1e1", "\u00e4", 'a"b', ""],
}


def messages(chance: random.Random, kind: str, size: int) -> list[bytes]:
    found = []
    for number in range(size):
        body: dict[str, Any] = {"id": number, "a": chance.choice(VALUES[kind]), "b": chance.choice(VALUES["texts"])}
        body["c"] = chance.choice(["p", "q"])
        body["o"] = {"p": chance.choice(VALUES["numbers"])}
        if chance.random() < 0.05:
            del body[chance.choice("abc")]
        if chance.random() < 0.01:
            # A number among the texts of another field, perhaps in an excluded record.
            body["b"] = chance.choice([5, 9.5, True])
        found.append(json.dumps(body).encode())
    return found


@pytest.fixture
def sieved(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Collect the record count and the remaining count of each block."""
    monkeypatch.setattr(STORE_LIMITS, "page_batch_bytes", 20_000)
    monkeypatch.setattr(JSON_LIMITS, "min_template_messages", 0)
    monkeypatch.setattr(scan, "_begins_with_numbers", lambda *_: True)
    seen: list[tuple[int, int]] = []
    left = TopKFilter._find_candidates

    def counted(candidates_filter: TopKFilter, lines: Any) -> Any:
        places = left(candidates_filter, lines)
        seen.append((len(lines.messages), len(lines.messages) if places is None else len(places)))
        return places

    monkeypatch.setattr(TopKFilter, "_find_candidates", counted)
    return seen


def both(lab: Lab, monkeypatch: pytest.MonkeyPatch, **options: Any) -> list[list[Any]]:
    """Return the records in order and the statistics, without and with the candidates filter."""
    found = []
    for least in (1 << 60, 0):
        monkeypatch.setattr(QUERY_LIMITS, "lasting_top_k_min_records", least)
        result = lab.open().topic("t").query(index_from=None, **options)
        records = [(record.key, record.txid, record.payload) for record in result.records()]
        numbers = result.statistics[0]
        found.append([records, numbers.examined, numbers.matched, numbers.returned])
    return found


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_first_are_those_of_all(
    lab: Lab, kind: str, seed: int, sieved: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    lab.publish("t", *messages(chance, kind, 900))
    lab.publish("t", *messages(chance, kind, 100), message(id=2000, a=2, b="x", more="y" * 9000))
    lab.open().topic("t").delete(filter="/id > 40 AND /id < 60")
    # Also with so many remaining records that the candidates filter would be given up.
    monkeypatch.setattr(QUERY_LIMITS, "top_k_max_left_divisor", seed % 2)
    for order in ORDERS:
        top, skip = chance.choice([1, 3, 10, 60]), chance.choice([0, 1, 25])
        by_rows, by_columns = both(lab, monkeypatch, order_by=order, top_n=top, skip_n=skip)
        assert by_rows == by_columns, (order, top, skip)
        assert by_rows[1:] == [882, 882, top]
    assert sieved
    if kind == "numbers":
        assert sum(left for _, left in sieved) * 2 < sum(size for size, _ in sieved)


def test_a_number_that_was_passed_over_changes_how_texts_compare(
    lab: Lab, sieved: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As texts, "10" sorts before "9"; with one number among all records it does not."""
    rows = [{"id": n, "a": 100 + n, "b": "x"} for n in range(300)]
    rows[5:8] = [{"id": n, "a": 1, "b": text} for n, text in ((5, "10"), (6, "9"), (7, "x"))]
    lab.publish("t", *(json.dumps(row) for row in rows))
    by_rows, by_columns = both(lab, monkeypatch, order_by="/a, /b", top_n=3)
    assert by_rows == by_columns
    assert [json.loads(payload)["b"] for _, _, payload in by_columns[0]] == ["10", "9", "x"]
    lab.publish("t", json.dumps({"id": 299, "a": 500, "b": 7}))
    sieved.clear()
    by_rows, by_columns = both(lab, monkeypatch, order_by="/a, /b", top_n=3)
    assert by_rows == by_columns
    assert [json.loads(payload)["b"] for _, _, payload in by_columns[0]] == ["9", "10", "x"]
    # Read twice: the first pass had sorted "9" and "10" as texts.
    assert sum(size for size, _ in sieved) == 600


def test_where_most_are_left_the_rest_is_scanned(
    lab: Lab, sieved: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.publish("t", *(message(id=n, a=f"t{n % 7}", b=n) for n in range(2000)))
    by_rows, by_columns = both(lab, monkeypatch, order_by="/a, /b", top_n=5)
    assert by_rows == by_columns
    assert len(sieved) == 1


def test_it_is_taken_for_numbers_of_many_records_alone(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.publish("t", *(message(id=n, a=n % 7, b=f"x{n}") for n in range(2500)))
    taken: list[bool] = []
    matched = TopKFilter.read_candidates
    monkeypatch.setattr(TopKFilter, "read_candidates", lambda *a: taken.append(True) or matched(*a))  # type: ignore[func-returns-value]
    for options, wanted in (
        ({"order_by": "/a"}, True),
        ({"order_by": "/a", "top_n": None}, False),
        ({"order_by": "/a", "top_n": 0}, False),
        ({"order_by": "/b"}, False),
        ({"order_by": "/a TEXT"}, False),
        ({"order_by": "/a", "filter": "/a > 1"}, False),
        ({"order_by": "/a", "jobs": 1}, True),
        ({"order_by": "/a", "jobs": 2}, False),
        ({"order_by": "/a", "top_n": QUERY_LIMITS.top_k_max_records + 1}, False),
        ({"order_by": "/a", "top_n": 0, "skip_n": 1}, True),
        ({"order_by": None}, False),
    ):
        taken.clear()
        list(lab.open().topic("t").query(**{"top_n": 3, "index_from": None} | options).records())  # type: ignore[arg-type]
        assert bool(taken) == wanted, options
    monkeypatch.setattr(QUERY_LIMITS, "lasting_top_k_min_records", 2501)
    taken.clear()
    list(lab.open().topic("t").query(order_by="/a", top_n=3, index_from=None).records())
    assert not taken


def test_the_plan_that_is_printed_is_the_one_that_is_executed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """One process, although two would read row by row."""
    monkeypatch.setattr(QUERY_LIMITS, "parallel_min_records", 100)
    monkeypatch.setattr(scan, "count_processors", lambda: 2)
    monkeypatch.setattr(scan, "can_fork", lambda: True)
    lab.publish("t", *(message(id=n, a=n) for n in range(300)))
    for least, processes in ((300, 1), (301, 2)):
        monkeypatch.setattr(QUERY_LIMITS, "lasting_top_k_min_records", least)
        plan = lab.open().topic("t").query(order_by="/a", top_n=3, index_from=None).plans()[0]
        assert (plan.processes, plan.leading) == (processes, processes == 1)


@pytest.mark.parametrize("order", ["/n", "/n DESC"])
def test_messages_that_cannot_be_read_have_no_field(
    tmp_path: Path, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "_begins_with_numbers", lambda *_: True)
    lab = Lab(tmp_path, config_xml(topic_xml("t", key=None), ("t",)))
    for number in range(60):
        lab.publish("t", '{"n":' if number % 20 == 3 else message(n=number), sow_key=f"K{number}")
    by_rows, by_columns = both(lab, monkeypatch, order_by=order, top_n=5, skip_n=1)
    # Records with explicit keys are not read as lines: all of them remain.
    assert by_rows == by_columns


def test_where_the_tree_does_not_lead_to_a_record_lmdb_reads_all(
    lab: Lab, sieved: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.publish("t", *(message(id=n, a=n) for n in range(900)))
    get_many = Snapshot.read_values
    monkeypatch.setattr(Snapshot, "read_values", lambda snapshot, keys: get_many(snapshot, keys[1:]))
    # If the store were damaged, the scan would report it.
    by_rows, by_columns = both(lab, monkeypatch, order_by="/a", top_n=5)
    assert by_rows[0] == by_columns[0]
    assert sieved


def test_damage_is_named_as_by_a_scan(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the same record, and the command that helps."""
    monkeypatch.setattr(STORE_LIMITS, "page_batch_bytes", 20_000)
    lab.publish("t", *(message(id=n, a=n * 7919 % 1000, b="w" * 40) for n in range(900)))
    whole = lab.store("t").read_bytes()
    record = bytearray(whole)
    record[whole.index(lab.records("t")[0].payload) + 3] ^= 1
    leaves = [at for at in range(8192, len(whole), 4096) if b"wwww" in whole[at : at + 4096]]
    # A page at the position of another has the wrong page number.
    pairs = zip(leaves, leaves[2:], strict=False)
    swapped = [whole[:target] + whole[at : at + 4096] + whole[target + 4096 :] for at, target in pairs]
    codes: list[object] = []
    for content in (bytes(record), *swapped):
        lab.store("t").write_bytes(content)
        told: list[tuple[object, ...] | None] = []
        for least in (1 << 60, 0):
            monkeypatch.setattr(QUERY_LIMITS, "lasting_top_k_min_records", least)
            try:
                list(lab.open().topic("t").query(order_by="/a", top_n=5, index_from=None).records())
                told.append(None)
            except DamageError as error:
                assert "sowctl replay t" in str(error.hint)
                told.append((error.code, str(error), error.hint, error.facts))
        assert told[0] == told[1]
        codes.append(told[0] and told[0][0])
    lab.store("t").write_bytes(whole)
    # Damage in a free page is not visible.
    assert codes[0] == "SOW-STO-001"
    assert codes.count("SOW-STO-023") > 3
