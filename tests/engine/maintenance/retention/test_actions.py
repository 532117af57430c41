"""The actions of a configuration, run when due: which actions run, what they report, and what follows a failure."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sowctl.cli.commands.bodies.retention import RecordDeleter
from sowctl.engine.maintenance.retention import action_log
from sowctl.engine.maintenance.retention.actions import StepReport, list_actions, run_actions
from sowctl.errors import ConfigError, StorageError
from sowctl.seam import Seam
from tests.support.faults import died_at_call
from tests.support.instances import SECOND, Lab, config_xml, message, topic_xml, verified
from tests.support.verbs import put_files, read_files

HOUR = 3600
DAY = 24 * HOUR


def step(kind: str, module: str, **options: str) -> str:
    texts = "".join(f"<{name}>{text}</{name}>" for name, text in options.items())
    return f"<{kind}><Module>amps-action-{module}</Module><Options>{texts}</Options></{kind}>"


def every(text: str, name: str = "") -> str:
    return step("On", "on-schedule", Every=text, **({"Name": name} if name else {}))


def action(*steps: str) -> str:
    return f"<Action>{''.join(steps)}</Action>"


ARCHIVE = action(every("1h", "to the archive"), step("Do", "do-archive-journal", Age="30s"))
REMOVE = action(every("03:00Z", "nightly"), step("Do", "do-remove-journal", Age="2d"))
DELETE = action(
    every("Sunday at 04:00Z", "weekly"), step("Do", "do-delete-sow", Topic="^t$", MessageType="json", Filter="/id = 3")
)


def lab_of(place: Path, *actions: str, size: int = 1200, archive: str = "old") -> Lab:
    xml = config_xml(topic_xml("t") + topic_xml("u"), ("t", "u"))
    xml = xml.replace(
        "</JournalDirectory>", f"</JournalDirectory><JournalArchiveDirectory>{archive}</JournalArchiveDirectory>"
    )
    xml = xml.replace("</AMPSConfig>", f"<Actions>{''.join(actions)}</Actions></AMPSConfig>")
    return Lab(place / "lab", xml, journal_size=size)


def fill(lab: Lab, batches: int = 6) -> None:
    for number in range(batches):
        lab.publish("t", *(message(id=n, v=number, w="x" * 40) for n in range(12)))
        lab.clock.tick(10)


def ran(lab: Lab, *, dry_run: bool = False, seam: Seam | None = None) -> list[StepReport]:
    return list(run_actions(lab.open(seam), RecordDeleter(), dry_run=dry_run))


def told(reports: list[StepReport]) -> list[tuple[str, str, str]]:
    return [(report.name, report.step, report.outcome) for report in reports]


def test_what_is_due_runs_and_is_remembered(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, ARCHIVE, REMOVE, DELETE)
    fill(lab)
    with verified(lab):
        files = len(lab.journals())
        dry = ran(lab, dry_run=True)
        assert [report.outcome for report in dry] == ["would be done"] * 3
        assert len(lab.journals()) == files and len(lab.query("t")) == 12
        first = ran(lab)
        assert told(first) == [
            ("to the archive", "do-archive-journal", "done"),
            ("nightly", "do-remove-journal", "done"),
            ("weekly", "do-delete-sow", "done"),
        ]
        assert first[0].did.files == dry[0].did.files > 0 and first[0].did.bytes > 0
        assert (first[2].did.records, dry[2].did.records, len(lab.query("t"))) == (1, 1, 11)
        assert ran(lab) == []
        lab.clock.tick(HOUR)
        fill(lab, 3)
        assert [report.name for report in ran(lab)] == ["to the archive"]
        # After three days without a run, each action is made up for once.
        lab.clock.tick(3 * DAY)
        again = ran(lab)
        assert [report.name for report in again] == ["to the archive", "nightly"]
        assert again[1].did.files > 0
        assert ran(lab) == []
        lab.clock.tick(7 * DAY)
        assert len(ran(lab)) == 3


def test_the_archive_action_uploads_to_a_file_url(tmp_path: Path) -> None:
    place = tmp_path / "old"
    lab = lab_of(tmp_path, ARCHIVE, archive=place.as_uri())
    fill(lab)
    lab.clock.tick(DAY)
    files = lab.journals()
    assert [one.did.files for one in ran(lab)] == [len(files) - 1]
    assert lab.journals() == files
    assert {one.name for one in place.iterdir()} == {*(one.name for one in files[:-1]), "test.manifest"}


def test_journals_are_compressed_where_they_lie(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, action(every("1h"), step("Do", "do-compress-journal", Age="0s")), ARCHIVE)
    fill(lab, 9)
    with verified(lab):
        records, files = lab.query("t"), len(lab.journals())
        assert next(report.did.files for report in ran(lab, dry_run=True)) == files - 1
        packed, moved = ran(lab)
        assert packed.did.files == files - 1
        assert 0 < moved.did.files == len(list((lab.directory / "old").glob("*.zst"))) < files - 1
        assert lab.query("t") == records and len(lab.journals()) == 1


def test_stores_are_compacted(tmp_path: Path) -> None:
    one = step("Do", "do-compact-sow", Topic="t", MessageType="json")
    lab = lab_of(tmp_path, action(every("1d", "one"), one), action(every("1d", "all"), step("Do", "do-compact-sow")))
    lab.publish("u", message(id=1))
    lab.publish("t", *(message(id=n, w="x" * 400) for n in range(400)))
    lab.open().topic("t").delete(filter="/id >= 4")
    with verified(lab):
        dry = ran(lab, dry_run=True)
        reports = ran(lab)
        assert [(report.did.files, report.outcome) for report in reports] == [(1, "done"), (2, "done")]
        assert dry[0].did.bytes > 0 and reports[0].did.bytes > 50_000
        assert len(lab.query("t")) == 4


def test_a_listing_names_last_and_next(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, ARCHIVE, REMOVE, action(step("On", "on-startup"), step("Do", "do-remove-journal", Age="2d")))
    fill(lab, 2)
    hourly, nightly, starting = list_actions(lab.open())
    now = lab.clock.at
    assert (hourly.find_due_time(now), nightly.find_due_time(now), starting.find_due_time(now)) == (now, now, None)
    assert starting.events == ("on-startup",) and not starting.is_supported
    ran(lab)
    hourly, nightly, _ = list_actions(lab.open())
    assert hourly.last.ran == now == nightly.last.ran and hourly.last.outcome == "do-archive-journal: done"
    assert hourly.find_due_time(now) == now + HOUR * SECOND
    assert nightly.find_due_time(now) == now - now % (DAY * SECOND) + 27 * HOUR * SECOND


def test_a_changed_action_is_another_one_and_order_is_no_matter(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, ARCHIVE, REMOVE, ARCHIVE)
    fill(lab, 2)
    assert len(ran(lab)) == 3
    text = lab.xml
    lab.config.write_text(text.replace(ARCHIVE + REMOVE + ARCHIVE, REMOVE + ARCHIVE))
    assert ran(lab) == []
    lab.config.write_text(text.replace("2d", "3d"))
    assert [report.name for report in ran(lab)] == ["nightly"]


def test_what_a_server_alone_can_do_is_named(tmp_path: Path) -> None:
    lab = lab_of(
        tmp_path,
        action(
            every("1h", "mixed"),
            step("Do", "do-minidump"),
            step("Do", "do-truncate-statistics", Age="1d"),
            step("Do", "do-archive-journal", Age="0s"),
        ),
        action(
            every("1h", "chained"),
            step("Do", "do-extract-values", MessageType="json", Value="A=/id", Data="x"),
            step("Do", "do-remove-journal", Age="0s"),
        ),
        action(every("1h", "none"), step("Do", "do-shutdown")),
    )
    fill(lab)
    assert told(ran(lab)) == [
        ("mixed", "do-minidump", "left to a server"),
        ("mixed", "do-truncate-statistics", "left to a server"),
        ("mixed", "do-archive-journal", "done"),
        # The following steps may be meant only for the extracted values.
        ("chained", "do-extract-values", "left to a server"),
    ]


def test_a_condition_on_the_file_system(tmp_path: Path) -> None:
    def when(percent: str, path: str = ".") -> str:
        usage = step("If", "if-file-system-usage", Path=path, GreaterThan=percent)
        return action(every("1h", percent), usage, step("Do", "do-archive-journal", Age="0s"))

    lab = lab_of(tmp_path, when("100%"), when("0%"), when("5%", "nowhere"))
    fill(lab)
    reports = ran(lab)
    assert told(reports) == [
        ("100%", "if-file-system-usage", "condition is false"),
        ("0%", "do-archive-journal", "done"),
        ("5%", "if-file-system-usage", "failed"),
    ]
    (note,) = reports[0].did.notes
    assert " 100%" in note and str(lab.directory) in note
    # The condition was evaluated: a false condition is not a failure.
    assert [report.name for report in ran(lab)] == ["5%"]


def test_an_action_that_fails_is_due_again_and_the_others_run(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, ARCHIVE, DELETE)
    fill(lab)
    (lab.directory / "old").write_text("no directory")
    reports = ran(lab)
    assert [report.outcome for report in reports] == ["failed", "done"]
    assert reports[0].error is not None and reports[0].error.exit_status == 6
    failed, done = list_actions(lab.open())
    assert failed.last.problem and failed.last.tried and not failed.last.ran and done.last.ran
    (lab.directory / "old").unlink()
    assert told(ran(lab)) == [("to the archive", "do-archive-journal", "done")]


def test_without_a_journal_there_is_nothing_to_look_after(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, ARCHIVE, REMOVE)
    reports = ran(lab)
    assert [report.outcome for report in reports] == ["done", "done"]
    assert "no journal" in reports[0].did.notes[0]


def test_a_schedule_that_is_none_stops_the_command(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, action(every("1h"), step("Do", "do-archive-journal", Age="30s")))
    lab.config.write_text(lab.xml.replace("<Every>1h", "<Every>often"))
    with pytest.raises(ConfigError):
        ran(lab)


def test_killed_at_every_call_everything_is_read_and_the_rest_runs_again(tmp_path: Path, deep: bool, seed: int) -> None:
    lab = lab_of(tmp_path, ARCHIVE, REMOVE.replace("2d", "30s"))
    fill(lab, 7)
    records, files = lab.query("t"), read_files(lab.directory)
    step_ = 1 if deep else 11
    n = 1 + seed % step_
    while died_at_call(n, lambda seam: ran(lab, seam=seam), after=bool(n % 2)):
        with verified(lab):
            assert lab.query("t") == records, f"killed at call {n}"
        ran(lab)
        assert ran(lab) == [], f"killed at call {n}"
        with verified(lab):
            assert lab.query("t") == records, f"killed at call {n}"
        shutil.rmtree(lab.directory / "old", ignore_errors=True)
        put_files(lab.directory, files)
        n += step_
    assert n > 60


def test_what_cannot_be_noted_down_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = lab_of(tmp_path, ARCHIVE)
    fill(lab, 2)

    def refuse(*_: object) -> None:
        raise StorageError("SOW-UPK-004", "the disk is full")

    monkeypatch.setattr(action_log, "write_rows", refuse)
    with pytest.raises(StorageError):
        ran(lab)
    monkeypatch.undo()
    assert len(ran(lab)) == 1
