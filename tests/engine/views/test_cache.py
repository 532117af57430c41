"""The cache of a view: used unchanged, updated incrementally, rebuilt, or not used (sow-view(5))."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from sowctl.engine.views import cache_refresh, column_refresh
from sowctl.engine.views.cache import CacheState, read_state
from sowctl.engine.views.instant import find_entry
from sowctl.engine.views.limits import VIEW_LIMITS
from sowctl.engine.views.view import plan_refresh
from sowctl.errors import DamageError, StorageError
from sowctl.seam import SEAM
from sowctl.store.builder import StoreBuilder
from sowctl.store.env import Store
from sowctl.store.opening.locks import StoreFiles, WriterLock
from sowctl.values.topicref import TopicRef
from tests.support.instances import Lab, config_xml, message, topic_xml

MakeLab = Callable[..., Lab]
TOTALS = """
<View><Name>totals</Name><MessageType>json</MessageType><UnderlyingTopic>orders</UnderlyingTopic>
<Projection><Field>/client</Field><Field>SUM(/qty) AS /total</Field></Projection>
<Grouping><Field>/client</Field></Grouping></View>
<View><Name>named</Name><MessageType>json</MessageType>
<UnderlyingTopic><Join>[orders]./client = [clients]./id</Join></UnderlyingTopic>
<Projection><Field>[clients]./name AS /name</Field><Field>SUM([orders]./qty) AS /total</Field></Projection>
<Grouping><Field>[clients]./name</Field></Grouping></View>
"""


@pytest.fixture(autouse=True, params=["columns", "messages"])
def columns(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Make caches keep columns, for any number of records; return whether they do."""
    kept: bool = request.param == "columns"
    monkeypatch.setattr(VIEW_LIMITS, "min_column_records", 0 if kept else 1 << 60)
    # A third of the rows here belongs to one client.
    monkeypatch.setattr(VIEW_LIMITS, "max_stale_divisor", 2)
    return kept


@pytest.fixture
def lab(make_lab: MakeLab) -> Lab:
    made = make_lab(config_xml(topic_xml("orders") + topic_xml("clients") + TOTALS, ("orders",)))
    made.publish("orders", *(message(id=number, client=f"c{number % 3}", qty=number) for number in range(30)))
    made.publish("clients", *(message(id=f"c{number}", name=f"name {number}") for number in range(2)))
    return made


def place(lab: Lab, name: str = "totals") -> Path:
    return lab.directory / "sow" / "orders.json.sow-views" / f"{name}.json.sow"


def state(lab: Lab, name: str = "totals") -> CacheState:
    with Store.open(place(lab, name), write=False) as store, store.open_snapshot() as snapshot:
        found = read_state(snapshot)
    assert found is not None
    return found


def totals(lab: Lab, name: str = "totals") -> dict[str, int]:
    rows = [json.loads(text) for text in lab.query(name)]
    return {row.get("client", row.get("name")): row["total"] for row in rows}


def test_an_unchanged_view_is_read_as_it_is(lab: Lab) -> None:
    assert totals(lab) == {"c0": 135, "c1": 145, "c2": 155}
    before = place(lab).read_bytes()
    with patch.object(cache_refresh.Refresh, "run", side_effect=AssertionError):
        assert totals(lab) == {"c0": 135, "c1": 145, "c2": 155}
    # Entries of other topics in the log change nothing here.
    assert place(lab).read_bytes() == before


def test_a_change_is_caught_up_with_in_the_same_file(lab: Lab) -> None:
    assert totals(lab, "named") == {"name 0": 135, "name 1": 145, None: 155}
    number = place(lab, "named").stat().st_ino
    lab.publish("orders", message(id=4, client="c0", qty=1000))
    lab.publish("clients", message(id="c2", name="name 0"))
    with patch.object(cache_refresh, "build_store", side_effect=AssertionError):
        assert totals(lab, "named") == {"name 0": 1290, "name 1": 141}
    assert place(lab, "named").stat().st_ino == number
    assert state(lab, "named").changed == 2


def test_a_change_costs_the_groups_that_it_concerns(lab: Lab, columns: bool) -> None:
    assert totals(lab, "named") == {"name 0": 135, "name 1": 145, None: 155}
    lab.publish("clients", message(id="c1", name="other"))
    assert totals(lab, "named") == {"name 0": 135, "other": 145, None: 155}
    # One group was removed and another one added; without columns all are computed.
    assert state(lab, "named").groups == (2 if columns else 3)
    lab.publish("orders", message(id=1, client="c1", qty=1001))
    assert totals(lab, "named") == {"name 0": 135, "other": 1145, None: 155}
    assert state(lab, "named").groups == (1 if columns else 3)


def column_files(lab: Lab, name: str = "totals") -> list[Path]:
    return sorted(place(lab, name).parent.glob(f"{name}.json.sow+columns-*"))


def test_a_view_gets_columns_when_it_has_grown(lab: Lab, columns: bool) -> None:
    totals(lab)
    assert len(column_files(lab)) == columns
    with patch.object(VIEW_LIMITS, "min_column_records", 31):
        lab.publish("orders", message(id=1, client="c1", qty=2))
        totals(lab)
        assert len(column_files(lab)) == columns
        lab.publish("orders", message(id=100, client="c1", qty=1))
        assert totals(lab) == {"c0": 135, "c1": 147, "c2": 155}
        assert len(column_files(lab)) == 1


def test_files_of_columns_are_written_anew_when_many_records_have_changed(lab: Lab, columns: bool) -> None:
    totals(lab, "named")
    before = column_files(lab, "named")
    with patch.object(VIEW_LIMITS, "min_kept_changes", 2):
        for number in range(4):
            lab.publish("orders", message(id=number, client="c0", qty=1))
            totals(lab, "named")
    after = column_files(lab, "named")
    # The file of the clients is unchanged; no file of an earlier state is left.
    assert len(before) == len(after) == (2 if columns else 0)
    assert len(set(before) & set(after)) == columns
    assert totals(lab, "named") == {"name 0": 136, "name 1": 144, None: 153}


@pytest.mark.parametrize("damage", ["cut", "other", "gone", "empty", "bit"])
def test_columns_that_cannot_be_used_are_made_anew(lab: Lab, columns: bool, damage: str) -> None:
    if not columns:
        pytest.skip("there are no columns")
    totals(lab)
    (path,) = column_files(lab)
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        spoilt = {"cut": data[:500], "other": b"no columns" * 1000, "empty": b"", "bit": data[:40] + b"~" + data[41:]}
        path.write_bytes(spoilt[damage])
    lab.publish("orders", message(id=1, client="c0", qty=1))
    assert totals(lab) == {"c0": 136, "c1": 144, "c2": 155}
    assert [note for note in lab.notes if "rebuilding" in note] == lab.notes
    assert bool(lab.notes) == (damage != "gone")
    lab.publish("orders", message(id=1, client="c0", qty=2))
    with patch.object(cache_refresh, "build_store", side_effect=AssertionError):
        assert totals(lab) == {"c0": 137, "c1": 144, "c2": 155}


@pytest.mark.parametrize("kind", ["pipe", "socket", "directory", "device"])
@pytest.mark.parametrize("late", [False, True])
def test_what_is_no_file_in_the_place_of_columns_is_no_columns(
    lab: Lab, columns: bool, kind: str, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not columns:
        pytest.skip("there are no columns")
    totals(lab)
    (path,) = column_files(lab)
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        # The address of a socket may have fewer characters than the path.
        monkeypatch.chdir(path.parent)
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to(os.devnull)
    lab.publish("orders", message(id=1, client="c0", qty=1))
    if late:
        # It appeared after the check of the files.
        monkeypatch.setattr(cache_refresh.Refresh, "_explain_build", lambda *_: "")
    else:
        plan = plan_refresh(lab.open(), find_entry(lab.open(), TopicRef("totals", "json")))
        assert (plan.way, plan.why) == ("compute", "its columns are missing")
    assert totals(lab) == {"c0": 136, "c1": 144, "c2": 155}
    assert lab.notes == []
    # Columns are kept again, and the foreign file is removed unless it is a directory.
    assert len(column_files(lab)) == 1 + (kind == "directory")
    lab.publish("orders", message(id=1, client="c0", qty=2))
    with patch.object(cache_refresh, "build_store", side_effect=AssertionError):
        assert totals(lab) == {"c0": 137, "c1": 144, "c2": 155}


def test_copies_of_other_columns_are_not_used(lab: Lab, columns: bool) -> None:
    if not columns:
        pytest.skip("there are no columns")
    totals(lab)
    totals(lab, "named")
    (own,), others = column_files(lab), column_files(lab, "named")
    earlier = own.read_bytes()
    wanted = {"c0": 135, "c1": 145, "c2": 155}
    for number, data in enumerate((others[0].read_bytes(), others[1].read_bytes(), earlier)):
        with patch.object(VIEW_LIMITS, "min_kept_changes", 0):
            # Replace a current file by that of another view or of an earlier state.
            lab.publish("orders", message(id=200 + number, client="c0", qty=100))
            wanted["c0"] += 100
            assert totals(lab) == wanted
        (own,) = column_files(lab)
        own.write_bytes(data)
        lab.publish("orders", message(id=300 + number, client="c1", qty=10))
        wanted["c1"] += 10
        assert totals(lab) == wanted


@pytest.mark.parametrize("fresh", [False, True])
def test_builds_that_fail_leave_the_columns_of_the_cache_that_stays(lab: Lab, columns: bool, fresh: bool) -> None:
    if not columns:
        pytest.skip("there are no columns")
    totals(lab)
    before = column_files(lab)
    lab.publish("orders", message(id=1, client="c0", qty=1))
    full = StorageError("SOW-STO-021", "no space left on device")
    with (
        patch.object(StoreBuilder, "install", side_effect=full) as install,
        patch.object(VIEW_LIMITS, "max_refresh_changes", 10 if fresh else 0),
        pytest.raises(StorageError),
    ):
        lab.query("totals", fresh=fresh)
    assert install.called
    assert column_files(lab) == before
    with patch.object(cache_refresh, "build_store", side_effect=AssertionError):
        assert totals(lab) == {"c0": 136, "c1": 144, "c2": 155}


def test_columns_of_refreshes_that_were_killed_are_removed(lab: Lab, columns: bool) -> None:
    if not columns:
        pytest.skip("there are no columns")
    totals(lab)
    stray = place(lab).with_name(f"{place(lab).name}+columns-0-0123456789abcdef")
    stray.write_bytes(b"of a refresh that was killed")
    lab.publish("orders", message(id=1, client="c0", qty=1))
    assert totals(lab)["c0"] == 136
    assert len(column_files(lab)) == 1
    assert not stray.exists()


@pytest.mark.parametrize("damage", ["cut", "other", "gone", "empty"])
def test_a_cache_that_cannot_be_used_is_made_anew(lab: Lab, columns: bool, damage: str) -> None:
    totals(lab)
    path = place(lab)
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes({"cut": path.read_bytes()[:5000], "other": b"not a store" * 1000, "empty": b""}[damage])
    assert totals(lab) == {"c0": 135, "c1": 145, "c2": 155}
    assert len(column_files(lab)) == columns


def test_a_damaged_table_is_noticed_and_told(lab: Lab, columns: bool) -> None:
    if not columns:
        pytest.skip("nothing is kept in the table")
    totals(lab)
    lab.publish("orders", message(id=1, client="c0", qty=3))
    totals(lab)
    with Store.open(place(lab), write=True) as store:
        store.open_tables(("view:changes",))

        def spoil(txn):  # type: ignore[no-untyped-def]
            table = txn.open_table("view:changes")
            table.put([(key, b"\x93\x00\x00\x00") for key, _ in list(table.walk())])

        store.write(spoil)
    lab.publish("orders", message(id=1, client="c0", qty=2))
    assert totals(lab) == {"c0": 137, "c1": 144, "c2": 155}
    assert any("rebuilding" in note for note in lab.notes)


def test_another_definition_is_another_view(lab: Lab) -> None:
    totals(lab)
    for old, new, wanted in (
        ("SUM(/qty)", "MAX(/qty)", {"c0": 27, "c1": 28, "c2": 29}),
        ("<Field>/client</Field></Grouping>", "<Field>/none</Field></Grouping>", {"c2": 29}),
    ):
        lab.config.write_text(lab.config.read_text().replace(old, new))
        assert totals(lab) == wanted


def test_lifetimes_that_end_and_clocks_that_are_set_back(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("orders", "<Expiration>10s</Expiration>") + topic_xml("clients") + TOTALS, ()))
    lab.publish("orders", message(id=1, client="a", qty=1))
    lab.clock.tick(6)
    lab.publish("orders", message(id=2, client="a", qty=2))
    assert totals(lab) == {"a": 3}
    assert state(lab).expires == lab.clock.at + 4_000_000
    with (
        patch.object(cache_refresh, "build_store", side_effect=AssertionError),
        patch.object(VIEW_LIMITS, "max_changed_divisor", 0),
        patch.object(VIEW_LIMITS, "max_stale_divisor", 0),
    ):
        lab.clock.tick(5)
        assert totals(lab) == {"a": 2}
        lab.clock.tick(-5)
        assert totals(lab) == {"a": 3}
        lab.clock.tick(30)
        assert totals(lab) == {}
        lab.open().topic("orders").expire()
        assert totals(lab) == {}


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_where_nothing_can_be_written_the_view_is_computed(lab: Lab) -> None:
    place(lab).parent.parent.chmod(0o500)
    try:
        assert totals(lab) == {"c0": 135, "c1": 145, "c2": 155}
    finally:
        place(lab).parent.parent.chmod(0o750)


def test_where_no_directory_can_be_made_the_view_is_computed(lab: Lab) -> None:
    place(lab).parent.write_text("in the way")
    assert totals(lab) == {"c0": 135, "c1": 145, "c2": 155}
    assert any("without a cache" in note for note in lab.notes)


def test_who_cannot_have_the_lock_does_without_a_cache(lab: Lab) -> None:
    totals(lab)
    lab.publish("orders", message(id=0, client="c0", qty=1))
    lock = WriterLock(StoreFiles.from_path(place(lab)), SEAM, "test")
    with lock.hold(1):
        result = lab.open(lock_wait=0.05).topic("totals").query()
        assert sorted(json.loads(record.payload)["total"] for record in result.records()) == [136, 145, 155]
    assert state(lab).changed == 0
    assert totals(lab) == {"c0": 136, "c1": 145, "c2": 155}


def test_a_view_that_is_being_read_can_be_asked_again_after_a_change(lab: Lab) -> None:
    totals(lab)
    first = lab.open().topic("totals").query(batch_size=1)
    iter(first)
    next(iter(first))
    lab.publish("orders", message(id=0, client="c0", qty=1))
    # The file is open here and cannot be written to: the result is up to date nevertheless.
    assert totals(lab) == {"c0": 136, "c1": 145, "c2": 155}
    assert len(list(first.records())) == 2
    assert totals(lab) == {"c0": 136, "c1": 145, "c2": 155}


def test_who_may_not_read_a_source_may_not_read_the_cache(lab: Lab) -> None:
    lab.store("clients").chmod(0o600)
    totals(lab)
    totals(lab, "named")
    assert place(lab).stat().st_mode & 0o777 == 0o640
    assert place(lab, "named").stat().st_mode & 0o777 == 0o600
    assert {path.stat().st_mode & 0o777 for path in column_files(lab, "named")} <= {0o600}


def test_the_past_has_no_cache(lab: Lab) -> None:
    before = lab.clock.at
    lab.clock.tick(1)
    lab.publish("orders", message(id=0, client="c0", qty=1000))
    row = lab.open().topic("totals").query("/client = 'c0'", at=before)
    assert [json.loads(record.payload)["total"] for record in row.records()] == [135]
    assert not place(lab).exists()
    assert totals(lab)["c0"] == 1135


def test_many_changes_are_computed_anew(lab: Lab, columns: bool) -> None:
    totals(lab)
    lab.publish("orders", *(message(id=number, client="c1", qty=1) for number in range(30)))
    before = place(lab).stat().st_ino
    with patch.object(column_refresh, "refresh_columns", side_effect=AssertionError):
        assert totals(lab) == {"c1": 30}
    assert (place(lab).stat().st_ino != before) == columns


def damage(lab: Lab, old: bytes, new: bytes, name: str = "totals") -> None:
    """Alter the payload of a record in a cache."""
    data = place(lab, name).read_bytes()
    assert old in data
    place(lab, name).write_bytes(data.replace(old, new))


def test_a_cache_with_a_damaged_record_is_made_anew_while_it_is_read(lab: Lab) -> None:
    assert totals(lab) == {"c0": 135, "c1": 145, "c2": 155}
    sound = place(lab).read_bytes()
    damage(lab, b'"total":145', b'"total":945')
    assert totals(lab) == {"c0": 135, "c1": 145, "c2": 155}
    assert [note for note in lab.notes if "rebuilding" in note] == lab.notes != []
    assert len(place(lab).read_bytes()) == len(sound)
    with Store.open(place(lab), write=False) as store, store.open_snapshot() as snapshot:
        assert sum(len(keys) for keys, _ in snapshot.scan_records()) == 3


def test_what_was_read_before_the_damage_is_not_read_again(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("orders") + TOTALS.replace("clients", "orders"), ("orders",)))
    lab.publish("orders", *(message(id=number, client=f"c{number}", qty=number) for number in range(3000)))
    right = totals(lab)
    assert len(right) == 3000
    last = lab.query("totals")[-5]
    damage(lab, last.encode(), last.replace('"total":', '"tatol":').encode())
    rows = [json.loads(text) for text in lab.query("totals", batch_size=100)]
    assert len(rows) == 3000
    assert {row["client"]: row["total"] for row in rows} == right
    assert len(lab.notes) == 1


@pytest.mark.parametrize(
    "options", [{"filter": "/total > 140"}, {"order_by": "/total DESC"}, {"filter": "/client = 'c1'"}]
)
def test_every_way_to_read_a_damaged_cache_gives_what_is_right(lab: Lab, options: dict[str, str]) -> None:
    right = lab.query("totals", **options)  # type: ignore[arg-type]
    damage(lab, b'"total":145', b'"total":945')
    assert lab.query("totals", **options) == right  # type: ignore[arg-type]


def test_a_damaged_cache_that_cannot_be_written_is_computed_aside(lab: Lab) -> None:
    totals(lab)
    damage(lab, b'"total":145', b'"total":945')
    refused = StorageError("SOW-STO-041", "no permission", place="here")
    with patch.object(cache_refresh.Refresh, "run", side_effect=refused):
        assert totals(lab) == {"c0": 135, "c1": 145, "c2": 155}
    assert any("without a cache" in note for note in lab.notes)


def test_damage_met_after_the_topics_went_on_names_what_makes_the_cache_anew(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("orders") + TOTALS.replace("clients", "orders"), ("orders",)))
    lab.publish("orders", *(message(id=number, client=f"c{number}", qty=number) for number in range(3000)))
    last = lab.query("totals")[-5]
    damage(lab, last.encode(), last.replace('"total":', '"tatol":').encode())
    other = Lab(lab.directory, lab.xml)
    with pytest.raises(DamageError) as caught:
        for count, _ in enumerate(lab.open().topic("totals").query(batch_size=100).records()):
            if count == 0:
                other.publish("orders", message(id=1, client="c1", qty=1000))
    # The rows already returned belong to another state than a new cache.
    assert "sowctl view refresh totals --fresh" in str(caught.value.hint)
    assert totals(lab)["c1"] == 1000
