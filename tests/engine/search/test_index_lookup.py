"""Memo indexes with changes beside them: the memtable, unreadable records, another definition of the type."""

from __future__ import annotations

import gc
import json
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.verbs.reindex import reindex_loaded
from sowctl.errors import InputError
from sowctl.memo.directory import MemoDirectory
from tests.support.instances import Lab, config_xml, message, topic_xml


@pytest.fixture(autouse=True)
def always_by_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QUERY_LIMITS, "index_max_share", 1.0)


def _both(lab: Lab, filter: str, **options: object) -> list[bytes]:
    """Return the records that a query finds, which are the same with indexes and without."""
    found = [
        [record.payload for record in lab.records("t", filter, index_from=least, **options)] for least in (0, None)
    ]
    assert found[0] == found[1], filter
    return found[0]


@pytest.fixture(params=[1, 1 << 40], ids=["columns", "rows"])
def array_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Index values are compared, and changed records looked up, by arrays or one by one."""
    monkeypatch.setattr(QUERY_LIMITS, "lasting_array_min_rows", request.param)
    monkeypatch.setattr(QUERY_LIMITS, "array_min_rows", request.param)


@pytest.mark.usefixtures("array_rows")
def test_what_the_journal_has_and_the_store_has_not(tmp_path: Path) -> None:
    """A store that is behind its journal, with indexes of the store's state only: later changes override them."""
    lab = Lab(tmp_path / "lab", config_xml(topic_xml("t"), ("t",)))
    lab.publish("t", *(message(id=number, n=number, s="x") for number in range(30)))
    for text in ("/n > 20", "/s = 'x'", "/n = 5"):
        assert _both(lab, text)
    shutil.copy(lab.store("t"), tmp_path / "behind")
    lab.publish("t", *(message(id=number, n=50 - number, s="x") for number in (3, 25)), message(id=77, n=77, s="y"))
    lab.open().topic("t").delete(filter="/id = 5 OR /id = 24")
    lab.store("t").unlink()
    shutil.copy(tmp_path / "behind", lab.store("t"))
    assert lab.open().topic("t").info().lag
    assert {json.loads(row)["id"] for row in _both(lab, "/n > 20")} == {3, 21, 22, 23, 25, 26, 27, 28, 29, 77}
    assert len(_both(lab, "/s = 'x'")) == 28
    assert _both(lab, "/n = 5") == []
    assert len(_both(lab, "/s = 'x' AND /n < 26", order_by="/n DESC", top_n=5, skip_n=1)) == 5


@pytest.mark.usefixtures("array_rows")
def test_conditions_without_bounds(tmp_path: Path) -> None:
    """Changed records are found by their new values."""
    lab = Lab(tmp_path, config_xml(topic_xml("t"), ("t",)))
    numbers: list[object] = [0, 5, -3, 2.5, None, 1e300, -0.5, 97, 1 << 53, 12]
    lab.publish("t", *(message(id=number, n=numbers[number % 10], s=str(number % 3)) for number in range(60)))
    texts = (
        "/n % 7 = 5",
        "NOT /n > 1",
        "/n * 2 <> 10",
        "/n IS NULL OR /n < 0",
        "/n IS NOT NULL AND /s = '1'",
        "ABS(/n) = 3",
    )
    expected = [_both(lab, text) for text in texts]
    assert list(map(len, expected)) == [12, 24, 48, 18, 18, 6]
    lab.publish("t", message(id=3, n=5, s="1"), message(id=61, n=-3, s="1"))
    assert [len(_both(lab, text)) for text in texts] == [13, 25, 48, 19, 20, 7]


def test_records_that_cannot_be_read_refuse_with_indexes_too(tmp_path: Path) -> None:
    lab = Lab(tmp_path, config_xml(topic_xml("t", key=None), ("t",)))
    for number in range(20):
        lab.publish("t", message(n=number), sow_key=f"K{number}")
    lab.publish("t", '{"n":', sow_key="bad")
    for text in ("/n > 5", "/n IS NULL", "NOT /n = 1"):
        for least in (0, None):
            with pytest.raises(InputError) as caught:
                lab.query("t", text, index_from=least)
            assert caught.value.code == "SOW-QRY-004"


def test_another_definition_of_the_message_type_makes_indexes_anew(tmp_path: Path) -> None:
    """Field values depend on the definition; after a return to an old one, no values of another definition are used."""
    types = "<MessageTypes><MessageType><Name>m</Name><Module>nvfix</Module><FieldSeparator>{}</FieldSeparator>"
    types += "</MessageType></MessageTypes><SOW>"
    lab = Lab(tmp_path, config_xml(topic_xml("t", key=None).replace(">json<", ">m<"), ()))
    plain, filters = lab.xml, ("/b = 2", "/x = 'a|b=2'", "/x IS NULL", "/z IS NOT NULL")

    def define(separator: str) -> None:
        lab.config.write_text(plain.replace("<SOW>", types.format(ord(separator))))

    def ask(separator: str) -> list[int]:
        define(separator)
        return [len(_both(lab, text)) for text in filters]

    expected = {";": [0, 5, 0, 5], "|": [5, 0, 5, 5], "!": [0, 0, 5, 5]}
    define(";")
    for number in range(5):
        lab.publish("t", f"z={number};x=a|b=2".encode(), sow_key=f"K{number}")
    for separator in ";|;!|;":
        assert ask(separator) == expected[separator], separator
    lab.publish("t", b"z=9;x=a|b=2", sow_key="K0")
    for separator in "|;!;|":
        assert ask(separator) == expected[separator], separator


def test_indexes_are_made_anew_where_too_much_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QUERY_LIMITS, "index_tolerated_changes", 3)
    lab = Lab(tmp_path, config_xml(topic_xml("t"), ("t",)))
    lab.publish("t", *(message(id=number, n=number) for number in range(30)))
    assert len(_both(lab, "/n >= 25")) == 5
    (keys,) = tmp_path.rglob("keys.memo")
    first = keys.read_bytes()
    lab.publish("t", *(message(id=number, n=99) for number in range(3)))
    assert (len(_both(lab, "/n >= 25")), keys.read_bytes() == first) == (8, True)
    lab.publish("t", message(id=3, n=99))
    assert (len(_both(lab, "/n >= 25")), keys.read_bytes() == first) == (9, False)


def test_a_column_of_another_state_than_its_keys_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QUERY_LIMITS, "index_tolerated_changes", 1)
    lab = Lab(tmp_path, config_xml(topic_xml("t"), ("t",)))
    lab.publish("t", *(message(id=number, n=number) for number in range(30)))
    assert len(_both(lab, "/n >= 25")) == 5
    (column,) = [path for path in tmp_path.rglob("*.memo") if path.name not in ("keys.memo", "spots.memo")]
    old = column.read_bytes()
    lab.publish("t", *(message(id=number, n=99) for number in range(10)))
    assert len(_both(lab, "/n >= 25")) == 15
    column.write_bytes(old)
    assert len(_both(lab, "/n >= 25")) == 15


def test_a_closed_instance_keeps_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QUERY_LIMITS, "index_batch_min_rows", 2)
    lab = Lab(tmp_path, config_xml(topic_xml("t"), ("t",)))
    lab.publish("t", *(message(id=number, n=number) for number in range(500)))

    def held() -> int:
        gc.collect()
        maps = sum(str(tmp_path) in line for line in Path("/proc/self/maps").read_text().splitlines())
        for entry in list(Path("/proc/self/fd").iterdir()):
            with suppress(FileNotFoundError):  # the descriptor of the listing itself
                maps += str(tmp_path) in str(entry.readlink())
        return maps

    with lab.open() as instance:
        for _ in range(3):
            found = [record.payload for record in instance.topic("t").query("/n > 20", index_from=0).records()]
            assert len(found) == 479
        assert held() > 0
    assert held() == 0
    assert len(_both(lab, "/n > 20")) == 479


def _access(lab: Lab, filter: str) -> str:
    return lab.open().topic("t").explain(filter, index_from=0).access


def test_a_field_is_indexed_when_it_is_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QUERY_LIMITS, "index_min_requests", 2)
    lab = Lab(tmp_path / "lab", config_xml(topic_xml("t"), ("t",)))
    lab.publish("t", *(message(id=number, n=number, s="x") for number in range(30)))
    assert [len(lab.query("t", "/n > 20", index_from=0)) for _ in range(2)] == [9, 9]
    assert _access(lab, "/n > 3") == "memo index"
    # Requests are counted per field: one index alone would help, but a query uses all its indexes or none.
    assert [_access(lab, "/n > 20 AND /s = 'x'") for _ in range(2)] == ["scan", "memo index"]
    # A stale index counts as missing: the first query after a load is a scan, too.
    monkeypatch.setattr(QUERY_LIMITS, "index_tolerated_changes", 0)
    lab.publish("t", *(message(id=number, n=-number, s="y") for number in range(30)))
    assert [_access(lab, "/n < -20") for _ in range(3)] == ["scan", "memo index", "memo index"]


def test_what_the_configuration_names_is_indexed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QUERY_LIMITS, "index_min_requests", 2)
    lab = Lab(tmp_path / "lab", config_xml(topic_xml("t", "<Index>/n</Index>"), ("t",)))
    lab.publish("t", *(message(id=number, n=number, s="x") for number in range(30)))
    assert _access(lab, "/n > 20") == "memo index"
    assert _access(lab, "/s = 'x'") == "scan"


def test_where_no_note_can_be_made_nothing_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QUERY_LIMITS, "index_min_requests", 2)
    lab = Lab(tmp_path / "lab", config_xml(topic_xml("t"), ("t",)))
    lab.publish("t", *(message(id=number, n=number) for number in range(30)))
    memos = lab.store("t").with_name(lab.store("t").name + "-memo")
    memos.write_text("a file where the directory should be")
    assert [len(lab.query("t", "/n > 20", index_from=0)) for _ in range(3)] == [9, 9, 9]
    assert memos.read_text() == "a file where the directory should be"


def _loaded(lab: Lab, numbers: Sequence[int]) -> int:
    """Load records as a process does, and return the number of stores whose indexes were rebuilt."""
    lab.publish("t", *(message(id=number, n=number % 7) for number in numbers))
    with lab.open() as instance:
        return reindex_loaded(instance, [("t", "json", len(numbers))])


def test_a_load_brings_the_indexes_that_there_are_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QUERY_LIMITS, "index_tolerated_changes", 3)
    lab = Lab(tmp_path, config_xml(topic_xml("t"), ("t",)))
    assert _loaded(lab, range(40)) == 0, "no index that nobody asked for"
    assert not list(tmp_path.rglob("*.memo"))
    for _ in range(2):
        lab.query("t", "/n = 3", index_from=0)
    # The first loads change few records: the next query reads these as records.
    assert [_loaded(lab, range(count)) for count in (2, 4, 15, 40)] == [0, 0, 0, 1]
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.memo")}
    assert len(before) == 3
    assert len(_both(lab, "/n = 3")) == 6
    # The indexes were usable, so neither this query nor its repetition built anything.
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.memo")} == before
    assert not list(tmp_path.rglob("*.asked"))


def test_a_load_leaves_indexes_to_queries_where_they_cannot_be_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QUERY_LIMITS, "index_tolerated_changes", 3)
    lab = Lab(tmp_path, config_xml(topic_xml("t"), ("t",)))
    _loaded(lab, range(40))
    for _ in range(2):
        lab.query("t", "/n = 3", index_from=0)
    (keys,) = tmp_path.rglob("keys.memo")
    with MemoDirectory(lab.store("t")).hold_build_lock() as mine:
        assert mine
        # Another process builds: this one does not wait for it.
        assert _loaded(lab, range(60)) == 0
    keys.write_bytes(b"damaged")
    assert _loaded(lab, range(60)) == 0
    with lab.open() as instance:
        assert reindex_loaded(instance, [("nothing", "json", 60)]) == 0
    assert len(_both(lab, "/n = 3")) == 9
