"""Changes since a position: applied to the old records they give the new ones, in every form of output."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sowctl.engine.fold.limits import FOLD_LIMITS
from sowctl.engine.verbs.changes import ChangeRecord
from sowctl.errors import RefusedError, SowError, UsageError
from tests.support.examples import examples
from tests.support.instances import SECOND, Lab, message
from tests.support.plainrecords import LIFETIMES, STEPS, PlainRecords, Step, apply_step, make_lab


def rows(lab: Lab, since: str = "0", filter: str | None = None, **options: object) -> list[tuple[object, ...]]:
    """Return type, reason, txid and message of each row."""
    found = lab.open().topic("t").changes(filter, since=since, **options)  # type: ignore[arg-type]
    return [describe(record) for record in found.records()]


def describe(record: ChangeRecord) -> tuple[object, ...]:
    message = json.loads(record.payload) if record.has_data else None
    return record.change_type, record.reason, record.txid, message


def test_inserts_updates_and_deletions_with_the_records_before(tmp_path: Path) -> None:
    lab = make_lab(tmp_path)
    lab.publish("t", message(id=1, a=1), client="c", sequence=7)
    lab.publish("u", message(id=1))
    lab.publish("t", message(id=1, b=2), delta=True)
    lab.open().topic("t").delete(filter="/id = 1")
    found = list(lab.open().topic("t").changes().records())
    assert list(map(describe, found)) == [
        ("insert", None, 1, {"id": 1, "a": 1}),
        ("update_preimage", None, 3, {"id": 1, "a": 1}),
        ("update_postimage", None, 3, {"id": 1, "a": 1, "b": 2}),
        ("delete", "deleted", 4, {"id": 1, "a": 1, "b": 2}),
    ]
    assert found[0].extra["client"] == "c"
    assert found[0].bookmark is not None and found[0].bookmark.endswith("|7|")
    result = lab.open().topic("t").changes(since="3")
    assert [record.change_type for record in result.records()] == ["delete"]
    assert result.txid == 4
    assert rows(lab, result.bookmark) == rows(lab, "4") == []
    assert [row[0] for row in rows(lab, "[2:3]")] == ["update_preimage", "update_postimage"]


def test_the_filter_sees_the_record_of_each_row(tmp_path: Path) -> None:
    lab = make_lab(tmp_path)
    lab.publish("t", message(id=1, a=1), message(id=2, a=2))
    lab.publish("t", message(id=1, a=2), message(id=2, a=1))
    lab.open().topic("t").delete(filter="/id > 0")
    found = rows(lab, "2", "/a = 1")
    assert [row[0] for row in found] == ["update_preimage", "update_postimage", "delete"]
    assert found[2][3] == {"id": 2, "a": 1}
    assert {row[3]["id"] for row in rows(lab, keys=["2"])} == {2}  # type: ignore[index]
    assert rows(lab, "4", select="-/,+/id")[0][3] in ({"id": 1}, {"id": 2})


def test_an_expiration_is_a_deletion_at_its_instant(tmp_path: Path) -> None:
    lab = make_lab(tmp_path, LIFETIMES)
    began = lab.clock.at
    lab.publish("t", message(id=1, n=1), message(id=2), message(id=3), expiration=10)
    lab.clock.tick(5)
    lab.publish("t", message(id=2, again=1), expiration=1)
    lab.clock.tick(5)
    lab.publish("t", message(id=1, n=2), message(id=4))
    lab.publish("t", message(id=1, n=3))
    found = list(lab.open().topic("t").changes(since="4").records())
    assert [describe(one)[:3] for one in found if one.reason is None] == [
        ("insert", None, 5),
        ("insert", None, 6),
        ("update_preimage", None, 7),
        ("update_postimage", None, 7),
    ]
    gone = [(one.timestamp - began, json.loads(one.payload)) for one in found if one.reason == "expired"]
    assert gone[0] == (6 * SECOND, {"id": 2, "again": 1})
    assert sorted((at, one["id"]) for at, one in gone[1:]) == [(10 * SECOND, 1), (10 * SECOND, 3)]
    assert [describe(one)[1] for one in found][:3] == ["expired"] * 3
    assert {one.bookmark for one in found if one.reason} == {None}
    # A range ends with its last entry: later expirations are not part of it.
    lab.publish("t", message(id=5), expiration=1)
    lab.clock.tick(5)
    assert [row[0] for row in rows(lab, "[8:8]")] == ["insert"]
    assert [row[:2] for row in rows(lab, "7")] == [("insert", None), ("delete", "expired")]


def test_records_of_removed_files_are_unknown_and_their_rows_are_given(tmp_path: Path) -> None:
    lab = make_lab(tmp_path, LIFETIMES)
    lab.journal_size = 1000
    lab.publish("t", message(id=1, a=1), message(id=2, a=1))
    for number in range(3, 8):
        lab.publish("t", message(id=number, pad="x" * 600))
    lab.open().topic("t").delete(filter="/id = 1")
    lab.publish("t", message(id=2, a=2))
    for path in lab.journals()[:-3]:
        path.unlink()
    found = rows(lab, "7", "/a = 1")
    assert found == [("delete", "deleted", 8, None), ("update_preimage", None, 9, None)]
    assert any("older journals" in note for note in lab.notes)


def test_what_has_no_changes(tmp_path: Path) -> None:
    lab = make_lab(tmp_path)
    lab.publish("t", message(id=1))
    with pytest.raises(UsageError) as wrong:
        rows(lab, "recent")
    assert wrong.value.code == "SOW-FOL-022"
    with pytest.raises(SowError) as gone:
        rows(lab, "99", bookmark_not_found="fail")
    assert gone.value.code == "SOW-ENG-070"
    with pytest.raises(UsageError) as both:
        lab.open().topic("t").export(tmp_path / "x.csv", changes=True, order_by="/id")
    assert both.value.code == "SOW-EXC-019"
    with pytest.raises(TypeError):
        lab.open().topic("t").export(tmp_path / "x.csv", since="0")
    view = "<View><Name>v</Name><MessageType>json</MessageType><UnderlyingTopic>t</UnderlyingTopic><Projection><Field>"
    view += "COUNT(/id) AS /n</Field></Projection><Grouping><Field>/a</Field></Grouping></View></SOW>"
    derived = Lab(tmp_path / "derived", lab.xml.replace("</SOW>", view))
    with pytest.raises(UsageError) as computed:
        derived.open().topic("v").changes()
    assert computed.value.code == "SOW-EXC-019"
    bare = Lab(tmp_path / "bare", lab.xml.replace("<TransactionLog>", "<!--").replace("</TransactionLog>", "-->"))
    bare.publish("t", message(id=1))
    with pytest.raises(RefusedError) as unlogged:
        rows(bare)
    assert unlogged.value.code == "SOW-FOL-021"


def test_a_file_and_the_position_behind_it(tmp_path: Path) -> None:
    lab = make_lab(tmp_path)
    lab.publish("t", message(id=1, a=1), message(id=2))
    lab.open().topic("t").delete(filter="/id = 2")
    first = lab.open().topic("t").export(tmp_path / "a.ndjson", changes=True)
    assert (first.records, first.next_txid) == (3, 3)
    lab.publish("t", message(id=1, a=2))
    lab.open().topic("t").export(tmp_path / "b.ndjson", changes=True, since=first.next_bookmark)
    told = [json.loads(line) for line in (tmp_path / "b.ndjson").read_text().splitlines()]
    assert [(row["change_type"], row["data"]["a"]) for row in told] == [("update_preimage", 1), ("update_postimage", 2)]


def apply_rows(state: dict[int, dict[str, int]], found: list[ChangeRecord]) -> None:
    """Apply a change feed to records, and check its rows against them."""
    for row in found:
        message = json.loads(row.payload)
        if row.change_type == "delete":
            assert row.reason in ("deleted", "expired")
            gone = state.pop(row.sow_key, None)
            # An expiration that the previous feed had reported finds no record.
            assert gone == message or (gone is None and row.reason == "expired")
        elif row.change_type == "update_preimage":
            assert state[row.sow_key] == message
        else:
            assert (row.sow_key in state) == (row.change_type == "update_postimage")
            state[row.sow_key] = message


@pytest.mark.parametrize("size", [1, 16 << 20])
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, max_size=30))
def test_applied_to_the_old_records_the_changes_give_the_new_ones(
    size: int, steps: list[Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each part is one block: records before a part are read again.
    monkeypatch.setattr(FOLD_LIMITS, "change_part_bytes", size)
    with TemporaryDirectory() as directory:
        lab, plain = make_lab(Path(directory), LIFETIMES), PlainRecords()
        state: dict[int, dict[str, int]] = {}
        position = "0"
        for step in [*steps, ("read", 0, 0, 0)]:
            if step[0] != "read":
                apply_step(lab, plain, step)
                continue
            result = lab.open().topic("t").changes(since=position)
            found = list(result.records())
            apply_rows(state, found)
            assert list(map(describe, result.records())) == list(map(describe, found))
            position = result.bookmark
            expected = plain.visible(lab.clock.at)
            assert sorted(state.values(), key=lambda fields: fields["id"]) == [
                expected[key] for key in sorted(expected)
            ]
