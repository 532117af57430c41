"""journal list and dump: files, and entries by topic, key, client, time, txid."""

from __future__ import annotations

import json

import pytest

from sowctl.engine.journals import EntryFilter, dump, list_files
from sowctl.errors import MissingError
from sowctl.output.ndjson import json_values
from tests.support.instances import SECOND, START, Lab


@pytest.fixture
def written(lab: Lab) -> Lab:
    """Five entries: two publishes to t, one to own by client c, a deletion in t, one more to t."""
    lab.publish("t", '{"id":1}', '{"id":2}')
    lab.clock.tick(10)
    lab.publish("own", '{"x":1}', sow_key="AAA", client="c", sequence=7)
    lab.clock.tick(10)
    lab.open().topic("t").delete(filter="/id = 1")
    lab.publish("t", '{"id":3}')
    return lab


def _rows(lab: Lab, data: bool = True, **wanted: object) -> list[dict[str, object]]:
    found = dump(lab.open(), EntryFilter(**wanted), data=data)  # type: ignore[arg-type]
    return [json.loads(line) for batch in found for line in json_values(batch, meta=True)]


def test_entries_come_in_the_order_of_the_log(written: Lab) -> None:
    rows = _rows(written)
    assert [(row["txid"], row["topic"], row["operation"]) for row in rows] == [
        (1, "t", "publish"),
        (2, "t", "publish"),
        (3, "own", "publish"),
        (4, "t", "delete"),
        (5, "t", "publish"),
    ]
    assert rows[0]["data"] == {"id": 1}
    assert "data" not in rows[3] and "data_base64" not in rows[3]
    assert (rows[2]["sow_key"], rows[2]["client"], rows[2]["sequence"]) == ("AAA", "c", 7)
    assert rows[2]["bookmark"] == f"{rows[2]['bookmark'].split('|')[0]}|7|"  # type: ignore[attr-defined]


def test_filters_narrow_the_dump(written: Lab) -> None:
    def txids(**wanted: object) -> list[object]:
        return [row["txid"] for row in _rows(written, **wanted)]

    key = int(str(_rows(written, topic="t", limit=1)[0]["sow_key"]))
    assert txids(topic="own") == [3]
    assert txids(client="c") == [3]
    assert txids(keys=frozenset({key})) == [1, 4]
    assert txids(from_time=START + 10 * SECOND, to_time=START + 10 * SECOND) == [3]
    assert txids(from_txid=2, to_txid=4) == [2, 3, 4]
    assert txids(limit=2) == [1, 2]
    assert txids(topic="nothing") == []


def test_payloads_can_be_left_out(written: Lab) -> None:
    assert all("data" not in row for row in _rows(written, data=False))


def test_the_files_are_listed(written: Lab) -> None:
    (file,) = list_files(written.open())
    assert (file.number, file.first_txid, file.path.name) == (0, 1, "test.0000000000.journal")


def test_no_journal_is_an_error_of_its_own(lab: Lab) -> None:
    with pytest.raises(MissingError):
        list_files(lab.open())
