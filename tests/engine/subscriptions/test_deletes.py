"""Subscriptions without initial records that report deletions: their events keep a copy of the records up to date."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sowctl.engine.subscriptions.events import Event
from sowctl.errors import UsageError
from tests.support.examples import examples
from tests.support.instances import SECOND, Lab, message
from tests.support.plainrecords import LIFETIMES, STEPS, PlainRecords, Step, apply_step, make_lab

HISTORY = "<History><Window>1h</Window><Granularity>1s</Granularity></History>"


def events(lab: Lab, bookmark: str | None, filter: str | None = None, **options: object) -> list[Event]:
    wanted = {"sow": False, "deletes": True, "until_now": True} | options
    with lab.open().topic("t").subscribe(filter, bookmark=bookmark, **wanted) as subscription:  # type: ignore[arg-type]
        return list(subscription)


def rows(found: list[Event]) -> list[tuple[object, ...]]:
    """Return command, reason, txid and payload of each event with a record."""
    return [
        (event.command, event.reason, event.txid, None if event.data is None else json.loads(event.data))
        for event in found
        if event.sow_key is not None
    ]


def test_a_deletion_has_the_last_payload(tmp_path: Path) -> None:
    lab = make_lab(tmp_path)
    lab.publish("t", message(id=1, a=1), message(id=2, a=2))
    lab.publish("t", message(id=1, a=3))
    lab.open().topic("t").delete(filter="/id = 1")
    expected = [("sow_delete", "deleted", 4, {"id": 1, "a": 3})]
    for bookmark in ("2", "3"):
        assert rows(events(lab, bookmark))[-1:] == expected
    # Times and bookmarks of entries are positions as well.
    assert rows(events(lab, "[3:4]"))[-1:] == expected
    assert rows(events(lab, None)) == []
    assert not any("deletions" in note for note in lab.notes)


def test_without_the_option_one_note_says_that_deletions_are_passed_over(tmp_path: Path) -> None:
    lab = make_lab(tmp_path)
    lab.publish("t", message(id=1), message(id=2))
    lab.open().topic("t").delete(filter="/id < 3")
    assert {row[0] for row in rows(events(lab, "0", deletes=False))} == {"publish"}
    assert len([note for note in lab.notes if "--deletes" in note]) == 1
    lab.notes.clear()
    assert rows(events(lab, None, sow=True, deletes=False)) == []
    assert not lab.notes


def test_a_filter_sees_the_last_payload(tmp_path: Path) -> None:
    lab = make_lab(tmp_path)
    lab.publish("t", *(message(id=n, a=n) for n in range(4)))
    lab.open().topic("t").delete(filter="/id < 2")
    lab.publish("t", message(id=2, a=7), message(id=3, a=8))
    assert rows(events(lab, "4", "/a IN (1, 2)")) == [
        ("sow_delete", "deleted", 6, {"id": 1, "a": 1}),
        ("sow_delete", "match", 7, {"id": 2, "a": 7}),
    ]
    assert rows(events(lab, "4", keys=["0"])) == [("sow_delete", "deleted", 5, {"id": 0, "a": 0})]


def test_an_expiration_is_told_at_its_instant_without_a_position(tmp_path: Path) -> None:
    lab = make_lab(tmp_path, LIFETIMES)
    lab.publish("t", message(id=1), expiration=10)
    began = lab.clock.at
    lab.publish("u", message(id=1))
    lab.clock.tick(60)
    lab.publish("t", message(id=2))
    found = events(lab, "2")
    assert rows(found) == [("sow_delete", "expired", None, {"id": 1}), ("publish", None, 3, {"id": 2})]
    assert found[0].timestamp == began + 10 * SECOND
    assert found[0].bookmark is None
    # The run that read past the expiration has reported it.
    assert rows(events(lab, "3")) == []


def test_a_time_as_the_start(tmp_path: Path) -> None:
    lab = make_lab(tmp_path)
    lab.publish("t", message(id=1, a=1))
    lab.clock.tick(10)
    lab.publish("u", message(id=1))
    lab.clock.tick(-5)
    lab.publish("t", message(id=1, a=2), message(id=2))
    lab.clock.tick(20)
    lab.open().topic("t").delete(filter="/id > 0")
    # The entry of the other topic has the time of the start; entries of this topic that follow it are older.
    for target in ("t", "^(t|u)$"):
        with lab.open().subscribe(
            target, bookmark="20260105T080010Z", sow=False, deletes=True, until_now=True
        ) as found:
            told = [row for row in rows(list(found)) if row[0] == "sow_delete"]
        assert sorted(str(row[3]) for row in told) == ["{'id': 1, 'a': 2}", "{'id': 2}"]


@pytest.mark.parametrize("parts", [(), (HISTORY,)])
def test_what_removed_files_had_is_unknown_and_reported(tmp_path: Path, parts: tuple[str, ...]) -> None:
    lab = make_lab(tmp_path, *parts)
    lab.journal_size = 1000
    lab.publish("t", message(id=1, a=1), message(id=2, a=1), message(id=3, a=1))
    for number in range(4, 12):
        lab.publish("t", message(id=number, pad="x" * 600))
    lab.clock.tick(7200)
    lab.open().topic("t").delete(filter="/id IN (2, 4)")
    lab.publish("t", message(id=3, a=2), message(id=12), message(id=12))
    lab.open().topic("t").delete(filter="/id = 3")
    for path in lab.journals()[:-4]:
        path.unlink()
    found = rows(events(lab, "5", "/a = 1", bookmark_not_found="epoch"))
    assert [row for row in found if row[3] is None][-4:-1] == [
        ("sow_delete", "deleted", 12, None),
        ("sow_delete", "deleted", 13, None),
        ("sow_delete", "match", 14, None),
    ]
    # A key that occurred is known: its deletion is that of a record that did not match.
    assert 17 not in {row[2] for row in found}
    assert any("unknown" in note for note in lab.notes)


@pytest.mark.parametrize(
    "options",
    [
        {"sow": True},
        {"oof": True, "bookmark": None},
        {"conflation": "1s"},
        {"top_n": 1, "skip_n": 0},
        {"projection": "COUNT(/id) AS /n", "grouping": "/a", "bookmark": None},
    ],
)
def test_what_does_not_go_together(tmp_path: Path, options: dict[str, object]) -> None:
    lab = make_lab(tmp_path)
    lab.publish("t", message(id=1))
    with pytest.raises(UsageError) as caught:
        events(lab, **({"bookmark": "0"} | options))  # type: ignore[arg-type]
    assert caught.value.code == "SOW-FOL-024"


@pytest.mark.parametrize("filter", [None, "/a = 1"])
@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, max_size=25))
def test_applied_to_the_old_records_the_events_make_the_new_ones(filter: str | None, steps: list[Step]) -> None:
    with TemporaryDirectory() as directory:
        lab, plain = make_lab(Path(directory), LIFETIMES), PlainRecords()
        held: dict[str, dict[str, int]] = {}
        position = "0"
        for step in [*steps, ("read", 0, 0, 0)]:
            if step[0] != "read":
                apply_step(lab, plain, step)
                continue
            for event in events(lab, position, filter):
                position = event.bookmark or position
                if event.command == "publish":
                    assert event.sow_key is not None
                    assert event.data is not None
                    held[event.sow_key] = json.loads(event.data)
                elif event.command == "sow_delete":
                    # A record that has ended since may be reported twice, but never without its last payload.
                    assert event.data is not None
                    assert event.sow_key is not None
                    gone = held.pop(event.sow_key, None)
                    assert event.reason != "deleted" or gone == json.loads(event.data)
            expected = plain.visible(lab.clock.at).values()
            wanted = [fields for fields in expected if filter is None or fields.get("a") == 1]
            assert sorted(held.values(), key=lambda fields: fields["id"]) == sorted(
                wanted, key=lambda fields: fields["id"]
            )
