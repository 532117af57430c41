"""journal list and dump: files, and entries by topic, key, client, time, txid."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from sowctl.engine.topics.log_places import LogPlace, find_log_place
from sowctl.engine.verbs.journal import EntryFilter, dump_entries, list_files
from sowctl.errors import MissingError
from sowctl.identity.hashes import hash_client_name
from sowctl.journal.blockcodec import BLOCK_MAGIC
from sowctl.journal.state import build_topics_path
from sowctl.output.columns import open_columns
from sowctl.output.ndjson import encode_values
from sowctl.output.options import OutputOptions
from sowctl.output.records import METADATA_NAMES
from tests.support.instances import SECOND, START, Lab, config_xml, topic_xml


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
    found = dump_entries(lab.open(), EntryFilter(**wanted), data=data)  # type: ignore[arg-type]
    return [json.loads(line) for batch in found for line in encode_values(batch, meta=True)]


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

    key = int(str(_rows(written, topic_names=("t",), limit=1)[0]["sow_key"]))
    assert txids(topic_names=("own",)) == [3]
    assert txids(client="c") == [3]
    assert txids(keys=frozenset({key})) == [1, 4]
    assert txids(from_time=START + 10 * SECOND, to_time=START + 10 * SECOND) == [3]
    assert txids(from_txid=2, to_txid=4) == [2, 3, 4]
    assert txids(limit=2) == [1, 2]


def test_payloads_can_be_left_out(written: Lab) -> None:
    assert all("data" not in row for row in _rows(written, data=False))


def test_the_files_are_listed(written: Lab) -> None:
    (file,) = list_files(written.open())
    assert (file.number, file.first_txid, file.last_txid, file.path.name) == (0, 1, 5, "test.0000000000.journal")


def test_no_journal_is_an_error_of_its_own(lab: Lab) -> None:
    with pytest.raises(MissingError):
        list(list_files(lab.open()))


def test_a_topic_that_is_nowhere_is_an_error_and_one_without_entries_is_not(make_lab) -> None:  # type: ignore[no-untyped-def]
    lab = make_lab(config_xml(topic_xml("orders") + topic_xml("empty"), ("orders", "empty", "quiet", "^log")))
    lab.publish("orders", '{"id":1}')
    assert [row["txid"] for row in _rows(lab, topic_names=("orders",))] == [1]
    assert _rows(lab, topic_names=("empty",)) == _rows(lab, topic_names=("quiet",)) == []
    assert _rows(lab, topic_names=("logbook",)) == []
    for name, near in (("order", "did you mean orders?"), ("nope", "sowctl info")):
        with pytest.raises(MissingError) as caught:
            _rows(lab, topic_names=(name,))
        assert (caught.value.code, caught.value.exit_status) == ("SOW-ENG-012", 10)
        assert near in (caught.value.hint or "")
    with pytest.raises(MissingError):
        _rows(lab, topic_names=("[fix].[orders]",))


def test_a_topic_that_only_the_journal_knows_is_found(make_lab) -> None:  # type: ignore[no-untyped-def]
    pattern = topic_xml("all", "<Pattern>^news</Pattern>")
    lab = make_lab(config_xml(topic_xml("gone") + pattern, ("gone", "all")))
    lab.publish("gone", '{"id":1}')
    lab.publish("news/a", '{"id":2}')
    lab.config.write_text(config_xml(topic_xml("other"), ("other",)))
    assert [row["txid"] for row in _rows(lab, topic_names=("gone",))] == [1]
    assert [row["txid"] for row in _rows(lab, topic_names=("all",))] == [2]
    assert [row["txid"] for row in _rows(lab, topic_names=("news/a",))] == [2]
    with pytest.raises(MissingError):
        _rows(lab, topic_names=("news/b",))


def test_every_entry_has_a_bookmark_that_is_found_again(written: Lab) -> None:
    rows = _rows(written)
    owner = hash_client_name("test")
    expected = [f"{owner}|1|", f"{owner}|2|", f"{hash_client_name('c')}|7|", f"{owner}|4|", f"{owner}|5|"]
    assert [row["bookmark"] for row in rows] == expected
    for row in rows:
        place = find_log_place(written.open(), str(row["bookmark"]))
        assert place is not None
        assert place.txid == row["txid"]
        at = find_log_place(written.open(), str(row["txid"]))
        assert at == place
    history = [record.bookmark for record in written.open().topic("t").versions(str(rows[0]["sow_key"]), journal=True)]
    assert history == [expected[0], expected[3]]
    for wrong in (f"{owner}|3|", f"{owner}|6|", f"{hash_client_name('c')}|3|"):
        with pytest.raises(MissingError):
            find_log_place(written.open(), wrong)


def test_a_client_of_the_instances_name_keeps_its_own_numbers(lab: Lab) -> None:
    lab.publish("t", '{"id":1}', '{"id":2}')
    lab.publish("t", '{"id":3}', client="test", sequence=2)
    owner = hash_client_name("test")
    assert [find_log_place(lab.open(), f"{owner}|{number}|") for number in (1, 2)] == [
        LogPlace(1, START),
        LogPlace(3, START),
    ]


def test_a_recovery_point_may_be_a_bookmark_of_the_instance(make_lab) -> None:  # type: ignore[no-untyped-def]
    point = f"<RecoveryPoint>{hash_client_name('test')}|1|</RecoveryPoint>"
    lab = make_lab(config_xml(topic_xml("t", "<Durability>transient</Durability>", point, file=None), ("t",)))
    lab.publish("t", '{"id":1}', '{"id":2}')
    assert lab.query("t") == ['{"id":2}']


def test_what_is_torn_is_told_by_dump_and_list_and_by_the_writer_that_cuts_it(written: Lab) -> None:
    (path,) = written.journals()
    noise = random.Random(1).randbytes(1 << 20)
    good = path.read_bytes()
    build_topics_path(path.parent, "test").unlink()
    for rest, words in (
        (noise, "1,048,576 bytes"),
        (bytes(700), "700 bytes"),
        (good[good.rindex(BLOCK_MAGIC) :][:50], "50 bytes"),
    ):
        path.write_bytes(good + rest)
        for act in (lambda: _rows(written), lambda: list(list_files(written.open()))):
            written.notes.clear()
            act()
            (note,) = written.notes
            assert note.startswith(f"{path}@{len(good)}: {words} ")
            assert ("incomplete" in note) == (rest is not noise)
        written.notes.clear()
        report = written.publish("t", '{"id":9}')
        (torn,) = report.torn_tails
        assert (torn.path, torn.offset, torn.bytes) == (str(path), len(good), len(rest))
        assert Path(torn.copy).read_bytes() == rest
        (note,) = written.notes
        assert words in note
        assert torn.copy in note
        written.notes.clear()
        assert written.publish("t", '{"id":10}').torn_tails == []
        good = path.read_bytes()


def test_without_payloads_there_is_no_column_for_them(written: Lab) -> None:
    options = OutputOptions(meta=True)
    columns, rows = open_columns(dump_entries(written.open(), EntryFilter(), data=False), options)
    assert columns.headings == (*METADATA_NAMES, "client", "sequence", "operation")[: len(columns.headings)]
    assert len(list(rows)) == 5
