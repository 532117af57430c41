"""Restoring: the state of an instant, with a new history that rejects the undone entries."""

from __future__ import annotations

import gzip
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from sowctl.engine.instance import Instance
from sowctl.engine.maintenance.backup.journals import TXID_STEP, CutChoice, TopicLeftOut
from sowctl.engine.sources.digest import compute_digest
from sowctl.engine.subscriptions.bookmarks import parse_bookmark_range
from sowctl.engine.subscriptions.spans import NotFoundPolicy, resolve_bookmark_range
from sowctl.engine.topics.log_places import find_log_place
from sowctl.engine.topics.positions import open_log
from sowctl.engine.topics.targets import Target, find_topic
from sowctl.engine.verbs.upkeep.restore import describe_choices, describe_left_out
from sowctl.errors import DamageError, MissingError, RefusedError
from sowctl.findings import Level
from sowctl.journal.entries import Entry
from sowctl.journal.reader import Journal
from sowctl.values.times import format_time
from tests.support.backups import LOGGED, NAMES, XML, BackupLab, checks_here
from tests.support.damage import overwrite
from tests.support.instances import config_xml, topic_xml

__all__ = ["checks_here"]


@pytest.fixture
def lab(tmp_path: Path, checks_here: None) -> Iterator[BackupLab]:
    made = BackupLab(tmp_path / "lab", XML, journal_size=2000)
    for number in range(6):
        made.round(number)
    yield made


def find_place_time(instance: Instance, txid: int) -> int:
    place = find_log_place(instance, str(txid))
    assert place is not None
    return place.time


def log_of(lab: BackupLab) -> Journal:
    return open_log(lab.open(), whole=True)


def test_a_restored_instance_is_the_one_of_the_instant(lab: BackupLab) -> None:
    lab.lease(1)
    manifest, _ = lab.take()
    expected, past = lab.digests(), lab.digests(manifest.time)
    lab.round(40)
    restored, report = lab.bring_back()
    restored.clock.at = manifest.time
    assert restored.digests() == expected
    assert restored.digests(manifest.time) == past
    assert report.undone == 0
    assert report.next_txid == TXID_STEP + 1
    assert not [finding for finding in restored.findings() if finding.level >= Level.WARNING]
    # A lease that was active then is active in the restored instance, too.
    with restored.queue() as queue:
        assert len(list(queue.peek())) == 12
    assert len(restored.lease(100)) == 11


def test_the_new_history_goes_on_above_every_txid(lab: BackupLab) -> None:
    lab.take()
    lab.round(40)
    restored, report = lab.bring_back()
    with log_of(lab) as log:
        given = log.read_last_txid()
        former = log.lineage
    restored.clock.tick(5)
    first = restored.publish("t", '{"id":1,"new":true}').first_txid
    assert first == report.next_txid > given
    with log_of(restored) as log:
        assert log.lineage != former
        assert [(one.lineage, one.last_txid, one.above) for one in log.histories] == [(former, 48, TXID_STEP)]
        assert [block.first_txid for block in log.iter_blocks()][-1] == first
        assert sum(len(block) for block in log.iter_blocks()) == 49
    for number in range(50, 60):
        restored.round(number)
    with log_of(restored) as log:
        # The list of histories is carried over from file to file.
        assert len([file for file in log.list_files() if file.first_txid > TXID_STEP]) > 3
        assert [one.lineage for one in log.histories] == [former]
    for name in NAMES:
        restored.open().topic(name).replay()
    assert not [finding for finding in restored.findings() if finding.level >= Level.ERROR]


@pytest.mark.parametrize("kept", [(), ("t",), LOGGED[:4]], ids=["none", "one", "all"])
def test_stores_that_are_missing_are_made_from_both_histories(lab: BackupLab, kept: tuple[str, ...]) -> None:
    lab.take()
    restored, _ = lab.bring_back()
    restored.round(41)
    expected = restored.digests()
    for name in LOGGED[:4]:
        if name not in kept:
            restored.forget(name)
    for name in LOGGED[:4]:
        restored.open().topic(name).replay()
    assert restored.digests() == expected


@pytest.mark.parametrize("number", range(6))
def test_going_back_to_a_txid(tmp_path: Path, checks_here: None, number: int) -> None:
    lab = BackupLab(tmp_path / "lab", XML, journal_size=2000)
    states, txids = [], []
    for turn in range(6):
        lab.round(turn)
        states.append(lab.digests())
        with log_of(lab) as log:
            txids.append(log.read_last_txid())
        if turn == 2:
            lab.take()
    lab.take()
    at = lab.clock.at
    try:
        restored, report = lab.bring_back(txid=txids[number])
    except MissingError as error:
        # The topic without a journal: no earlier backup has its state.
        assert number < 2
        assert error.code == "SOW-BAK-006" and "topic alone " in error.message
        return
    restored.clock.at = at - (5 - number) * 1_000_000
    expected = states[number]
    if number in (3, 4):
        expected = expected | {"alone": states[2]["alone"]}
    assert restored.digests() == expected
    assert (report.last_txid, report.next_txid) == (txids[number], TXID_STEP + 1)
    assert not [finding for finding in restored.findings() if finding.level >= Level.WARNING]
    with restored.queue() as queue:
        assert len(list(queue.peek())) == 2 * (number + 1)


def test_going_back_to_a_time(lab: BackupLab) -> None:
    lab.take()
    start = lab.clock.at
    for number in range(6, 9):
        lab.round(number)
    lab.take()
    restored, report = lab.bring_back(at=start + 1_000_000)
    assert (report.last_txid, report.undone) == (56, 16)
    assert "left out" not in str(report.note)
    assert '{"id":6,"round":6}' in restored.query("t")
    assert '{"id":0,"round":7}' not in restored.query("t")
    with pytest.raises(MissingError, match=r"the backup .*"):
        lab.bring_back("later", at=lab.clock.at + 1_000_000)
    with pytest.raises(MissingError, match=r"the backup .*"):
        lab.bring_back("later", txid=1000)


def test_a_txid_within_a_group_is_rounded_as_a_question_as_of_it(lab: BackupLab) -> None:
    """Txids 49 to 58 are one group: the state as of any of them is the state after the last."""
    lab.take()
    before = lab.digests()
    lab.clock.tick(1)
    lab.publish("t", *(f'{{"id":{number}}}' for number in range(200, 210)))
    lab.clock.tick(1)
    lab.publish("t", '{"id":300}')
    lab.take()
    asked = lab.open()
    for txid in (49, 53, 58):
        restored, report = lab.bring_back(f"restored-{txid}", txid=txid)
        assert (report.last_txid, report.undone) == (58, 1)
        expected = compute_digest(asked, Target(topic=find_topic(asked, "t")), find_place_time(asked, txid))
        assert restored.digests()["t"] == expected.digest != before["t"]
        assert ("--txid 48 " in report.note) == (txid != 58)
    restored, report = lab.bring_back(txid=48)
    assert (report.last_txid, restored.digests()["t"]) == (48, before["t"])
    assert "excludes" not in report.note
    assert report.versions == sum(topic.versions or 0 for topic in report.restored)


def test_what_stands_behind_a_later_entry_is_left_out_and_named(lab: BackupLab) -> None:
    lab.take()
    start = lab.clock.at
    lab.clock.tick(10)
    lab.publish("t", '{"id":300}')
    with log_of(lab) as log:
        last = log.read_last_txid()
    # The clock was set back, or messages carry their own times.
    lab.clock.at = start + 1_000_000
    lab.publish("quotes", '{"id":300}')
    lab.clock.at = start + 60_000_000
    lab.take()
    _, report = lab.bring_back(at=start + 5_000_000)
    assert report.last_txid == last - 1
    assert report.entries_left_out == (TopicLeftOut("quotes", "json", 1, is_empty=False),)
    assert report.choices == (CutChoice(last + 1, 1, 1, ("quotes",)),)
    words = describe_left_out(report.entries_left_out, report.at or "")
    assert words.startswith("1 entry ") and report.at in words and "(quotes 1)" in words
    choices = describe_choices(report.choices)
    assert choices.startswith(f"--txid {last + 1} ") and " 1 later entry" in choices


def test_choices_are_told_in_words() -> None:
    choices = (CutChoice(5, 1, 0, ("a",)), CutChoice(9, 2, 1, ("a", "b")), CutChoice(12, 3, 4, ("c",)))
    assert describe_choices(choices) == (
        "--txid 5 restores the first of them (a); --txid 9 restores the first 2 of them (a, b) and 1 later entry; "
        "--txid 12 restores all of them and 4 later entries"
    )


def test_entries_left_out_are_counted_as_a_reader_of_the_journal_counts_them(tmp_path: Path, checks_here: None) -> None:
    """At every instant: counted entry by entry, including the topics that have none before the cut."""
    lab = BackupLab(tmp_path / "lab", config_xml(topic_xml("a") + topic_xml("b") + topic_xml("c"), ("a", "b", "c")))
    start = lab.clock.at
    # Groups of several entries with overlapping times.
    for name, seconds in (
        ("a", (1, 2)),
        ("b", (3, 9, 12)),
        ("a", (4, 5)),
        ("c", (6, 8)),
        ("b", (14,)),
        ("c", (10, 13)),
    ):
        rows = (f'{{"id":{second},"at":"{format_time(start + second * 1_000_000)}"}}' for second in seconds)
        lab.publish(name, *rows, timestamp_field="/at")
    lab.clock.tick(60)
    lab.take()
    with log_of(lab) as log:
        groups: dict[int, list[Entry]] = {}
        for block in log.iter_blocks():
            groups.setdefault(block.header.group, []).extend(block.iter_entries())
    for second in range(15):
        at = start + second * 1_000_000
        kept, cut = [], False
        behind: list[list[Entry]] = []
        for group in groups.values():
            cut = cut or any(entry.time > at for entry in group)
            (behind if cut else kept).append(group)
        wanted = Counter(entry.topic for group in behind for entry in group if entry.time <= at)
        known = {entry.topic for group in kept for entry in group}
        expected = {topic[0]: (count, topic not in known) for topic, count in wanted.items()}
        if any(empty for _, empty in expected.values()):
            with pytest.raises(RefusedError) as caught:
                lab.bring_back(f"to{second}", at=at)
            assert caught.value.code == "SOW-BAK-008"
            assert not (lab.directory.parent / f"to{second}").exists()
        restored, report = lab.bring_back(f"to{second}", at=at, force=True)
        assert {one.topic: (one.entries, one.is_empty) for one in report.entries_left_out} == expected
        assert bool(report.choices) == bool(wanted)
        for choice in report.choices:
            taken = [entry for group in behind for entry in group if entry.txid <= choice.txid]
            assert (choice.entries, choice.later) == (
                sum(entry.time <= at for entry in taken),
                sum(entry.time > at for entry in taken),
            )
            again, report_at_txid = lab.bring_back(f"to{second}-{choice.txid}", txid=choice.txid)
            assert report_at_txid.last_txid == choice.txid
            assert len(again.query("a") + again.query("b") + again.query("c")) >= len(restored.query("a"))
        if report.choices:
            assert report.choices[-1].entries == wanted.total()


def test_a_dry_run_says_what_would_be_done_and_does_nothing(lab: BackupLab) -> None:
    lab.take()
    to = lab.directory.parent / "restored"
    from sowctl.engine.verbs.upkeep.restore import restore_backup
    from sowctl.seam import SEAM

    report = restore_backup(lab.backups, to, lab.opened, dry_run=True, seam=SEAM, now=lab.clock(), lineage=bytes(16))
    assert report.dry_run
    assert [topic.topic for topic in report.restored] == list(NAMES)
    assert report.records == sum(topic.records or 0 for topic in report.restored) > 0
    # The counts of an earlier position are known only after the restore: a backup has the counts of its end.
    lab.clock.tick(1)
    lab.publish("t", *(f'{{"id":{number}}}' for number in range(200, 210)))
    lab.publish("t", '{"id":300}')
    lab.take()
    report = restore_backup(
        lab.backups, to, lab.opened, txid=53, dry_run=True, seam=SEAM, now=lab.clock(), lineage=bytes(16)
    )
    assert report.records is None and {topic.records for topic in report.restored} == {None}
    assert "records" in report.note
    assert not to.exists()


def test_a_lab_over_a_restored_instance_writes_nothing(lab: BackupLab) -> None:
    """Suites that kill a restore would otherwise take a configuration written by the lab for one of the restore."""
    lab.take()
    restored, _ = lab.bring_back()
    before = restored.config.stat().st_mtime_ns
    assert lab.beside(restored.directory).config.stat().st_mtime_ns == before


def test_never_over_something(lab: BackupLab) -> None:
    lab.take()
    with pytest.raises(RefusedError) as caught:
        lab.bring_back("lab")
    assert caught.value.code == "SOW-BAK-007"
    (lab.directory.parent / "file").write_text("x")
    with pytest.raises(RefusedError):
        lab.bring_back("file")
    (lab.directory.parent / "link").symlink_to(lab.directory.parent / "elsewhere")
    with pytest.raises(RefusedError):
        lab.bring_back("link")
    (lab.directory.parent / "empty").mkdir()
    restored, _ = lab.bring_back("empty")
    assert restored.digests() == lab.digests()


def test_bookmarks_of_what_was_undone_fail_and_name_both_histories(lab: BackupLab) -> None:
    lab.take()
    lab.clock.tick(1)
    lab.publish("t", '{"id":1}', client="pub", sequence=7)
    lab.round(40)
    restored, _ = lab.bring_back()
    with log_of(lab) as log:
        former, last = log.lineage.hex()[:8], log.read_last_txid()
        own = f"{lab.open().publisher_id}|{last}|"
    with log_of(restored) as log:
        present = log.lineage.hex()[:8]
        instance = restored.open()
        from sowctl.identity.hashes import hash_client_name

        for text in (str(last), own, "49", f"{hash_client_name('pub')}|7|", f"[{last}:0|1|)"):
            for how in (None, NotFoundPolicy.FAIL):
                with pytest.raises(MissingError) as caught:
                    resolve_bookmark_range(instance, log, parse_bookmark_range(text, restored.clock), None, how)
                assert caught.value.code == "SOW-ENG-072", text
                assert former in caught.value.message
                assert present in caught.value.message
        assert resolve_bookmark_range(instance, log, parse_bookmark_range("48", restored.clock), None, None).after == 48
        assert (
            resolve_bookmark_range(
                instance, log, parse_bookmark_range(str(last), restored.clock), None, NotFoundPolicy.NOW
            ).after
            == TXID_STEP
        )
    with pytest.raises(MissingError) as caught:
        restored.open().topic("t").query(at=str(last))
    assert caught.value.code == "SOW-ENG-072"


@pytest.mark.parametrize("topic", ["t", "past"])
def test_a_store_of_what_was_undone_is_refused_by_all_and_made_anew(lab: BackupLab, topic: str) -> None:
    lab.take()
    lab.round(40)
    restored, _ = lab.bring_back()
    expected = restored.digests()
    restored.forget(topic)
    shutil.copy(lab.store(topic), restored.store(topic))
    with log_of(lab) as log:
        former = log.lineage.hex()[:8]
    restored.clock.tick(5)
    handle = restored.open().topic(topic)
    for act in (lambda: restored.query(topic), lambda: restored.publish(topic, '{"id":3}'), handle.digest):
        with pytest.raises(DamageError) as caught:
            act()  # type: ignore[operator]
        assert caught.value.code == "SOW-ENG-089"
        assert former in caught.value.message
        assert "replay" in str(caught.value.hint)
    assert "SOW-ENG-089" in [finding.id for finding in restored.findings()]
    restored.store(topic).unlink()
    for left in restored.store(topic).parent.glob(f"{topic}.json.sow-*"):
        left.unlink()
    handle.replay()
    assert restored.digests()[topic] == expected[topic]


def test_an_older_store_of_the_former_history_catches_up(lab: BackupLab, tmp_path: Path) -> None:
    shutil.copy(lab.store("t"), tmp_path / "older")
    lab.round(20)
    lab.take()
    restored, _ = lab.bring_back()
    restored.round(30)
    expected = restored.digests()["t"]
    restored.forget("t")
    shutil.copy(tmp_path / "older", restored.store("t"))
    assert restored.digests()["t"] == expected
    restored.publish("t", '{"id":1,"more":1}')
    assert not [finding for finding in restored.findings() if finding.level >= Level.ERROR]


def test_restoring_a_restored_instance_again(lab: BackupLab) -> None:
    lab.take()
    once, first = lab.bring_back("once")
    once.clock.tick(5)
    once.round(60)
    shutil.rmtree(lab.backups)
    once.take()
    once.round(61)
    twice, second = once.bring_back("twice")
    assert second.next_txid == 2 * TXID_STEP + 1
    twice.clock.tick(9)
    twice.round(62)
    with log_of(twice) as log:
        assert [(one.last_txid, one.above) for one in log.histories] == [
            (48, TXID_STEP),
            (TXID_STEP + 8, 2 * TXID_STEP),
        ]
    assert first.next_txid == TXID_STEP + 1
    for name in LOGGED[:4]:
        twice.open().topic(name).replay()
    assert not [finding for finding in twice.findings() if finding.level >= Level.ERROR]


ARCHIVED = config_xml(topic_xml("t"), ("t",)).replace(
    "<JournalDirectory>", "<JournalArchiveDirectory>archive</JournalArchiveDirectory><JournalDirectory>"
)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "compressed"])
def test_an_archive_is_backed_up_and_restored_as_it_lies(tmp_path: Path, checks_here: None, *, packed: bool) -> None:
    """At every txid, also if the journal is cut within a compressed file of the archive."""
    lab = BackupLab(tmp_path / "lab", ARCHIVED, journal_size=1500)
    states = {0: {"t": "0" * 32}}
    for number in range(14):
        lab.clock.tick(1)
        lab.publish("t", f'{{"id":{number % 5},"n":{number},"text":"{"x" * 60}"}}')
        states[number + 1] = lab.digests()
    (lab.directory / "archive").mkdir()
    for path in lab.journals()[:3]:
        target = lab.directory / "archive" / path.name
        if packed:
            Path(f"{target}.gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
        else:
            path.rename(target)
    manifest, _ = lab.take()
    assert sum(file.path.startswith("archive/") for file in manifest.files) == 3
    for txid, expected in states.items():
        restored, report = lab.bring_back(f"to{txid}", txid=txid)
        assert report.last_txid == txid
        assert restored.digests() == expected, txid
        restored.clock.tick(9)
        assert restored.publish("t", '{"id":1}').first_txid == TXID_STEP + 1
        assert not [finding for finding in restored.findings() if finding.level >= Level.WARNING]


def test_a_damaged_backup_is_not_restored(lab: BackupLab) -> None:
    manifest, path = lab.take()
    for file in manifest.files:
        if not file.size:
            continue
        place = path / "tree" / file.path
        content = place.read_bytes()
        place.unlink()
        place.write_bytes(content)
        at = len(content) // 2
        overwrite(place, at, bytes([content[at] ^ 4]))
        with pytest.raises(DamageError):
            lab.bring_back()
        assert not (lab.directory.parent / "restored").exists()
        overwrite(place, at, content[at : at + 1])
    lab.bring_back()


def test_a_subscription_that_found_nothing_new_yet_goes_on_from_where_it_stood(lab: BackupLab) -> None:
    lab.take()
    lab.round(40)
    restored, _ = lab.bring_back()
    with restored.open().topic("t").subscribe(sow=False, bookmark="0|1|") as subscription:
        assert [event.command for delivery in subscription.ready() for event in delivery] == ["completed"]
        place = subscription.bookmark
        assert place == f"{restored.open().publisher_id}|{TXID_STEP}|"
    restored.publish("t", '{"id":77}')
    for bookmark in (place, str(TXID_STEP)):
        with restored.open().topic("t").subscribe(sow=False, bookmark=bookmark) as subscription:
            events = [event for delivery in subscription.ready() for event in delivery]
            assert [event.data for event in events] == [b'{"id":77}', None]
