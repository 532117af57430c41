"""sowctl journal archive as a function: which files move, what stays readable, and which readers keep running."""

from __future__ import annotations

import errno
import json
import shutil
from itertools import islice
from pathlib import Path

import pytest

from sowctl.engine.maintenance.retention.archive import archive_files
from sowctl.engine.maintenance.retention.journals import hold_journal_files
from sowctl.engine.subscriptions.events import Event
from sowctl.engine.topics.positions import open_log
from sowctl.errors import ConfigError, LockedError, MissingError, SowError
from sowctl.values.times import format_time
from tests.journal.maintenance.test_relocation import WAYS, Way
from tests.support.faults import CountingSeam, FailAt, died_at_call
from tests.support.instances import SECOND, Lab, config_xml, message, topic_xml, verified
from tests.support.verbs import put_files, read_files

XML = config_xml(topic_xml("t") + topic_xml("u"), ("t", "u")).replace(
    "</JournalDirectory>", "</JournalDirectory><JournalArchiveDirectory>old</JournalArchiveDirectory>"
)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """Several journal files, a new one about every ten seconds."""
    lab = Lab(tmp_path / "lab", XML, journal_size=1200)
    for number in range(12):
        lab.publish("t" if number % 3 else "u", *(message(id=n, v=number, w="x" * 40 * (n % 3)) for n in range(12)))
        lab.clock.tick(10)
    assert len(lab.journals()) > 3
    return lab


def archived(lab: Lab) -> list[str]:
    return sorted(path.name for path in (lab.directory / "old").glob("*"))


def published(lab: Lab) -> list[tuple[int, str]]:
    """Return every entry of topic t, with its txid."""
    with open_log(lab.open()) as log:
        blocks = [entry for block in log.iter_blocks() for entry in block.iter_entries()]
    return [(entry.txid, entry.payload.decode()) for entry in blocks if entry.topic[0] == "t"]


def test_finished_files_go_and_everything_is_read_as_before(lab: Lab) -> None:
    with verified(lab):
        before, digests = lab.query("t"), (lab.digest("t"), lab.digest("u"))
        past = lab.query("t", at=format_time(lab.clock.at - 65 * SECOND))
        names = [path.name for path in lab.journals()]
        dry = list(archive_files(lab.open(), dry_run=True))
        assert [path.name for path in lab.journals()] == names and not archived(lab)
        found = list(archive_files(lab.open()))
        assert [one.path.name for one in found] == names[:-1] == archived(lab)
        assert [path.name for path in lab.journals()] == names[-1:]
        assert [(one.number, one.size, one.first_txid, one.last_txid) for one in found] == [
            (one.number, one.size, one.first_txid, one.last_txid) for one in dry
        ]
        assert [one.dry_run for one in (dry[0], found[0])] == [True, False]
        assert lab.query("t") == before and (lab.digest("t"), lab.digest("u")) == digests
        assert lab.query("t", at=format_time(lab.clock.at - 65 * SECOND)) == past
        lab.forget("t")
        assert lab.query("t") == before
        assert list(archive_files(lab.open())) == []
        lab.publish("t", message(id=99))
        assert lab.digest("u") == digests[1]


def test_age_and_number_choose(lab: Lab) -> None:
    names = [path.name for path in lab.journals()]
    assert len(list(archive_files(lab.open(), keep=2))) == len(names) - 3
    assert len(list(archive_files(lab.open(), keep=99))) == 0
    aged = Lab(lab.directory.parent / "other", XML, journal_size=1200)
    for number in range(12):
        aged.publish("t", *(message(id=n, v=number, w="y" * 40) for n in range(12)))
        aged.clock.tick(10)
    count = len(aged.journals())
    found = list(archive_files(aged.open(), older_than=60 * SECOND))
    assert 0 < len(found) < count - 1
    left = list(archive_files(aged.open(), older_than=60 * SECOND))
    assert left == []
    aged.clock.tick(3600)
    assert len(list(archive_files(aged.open(), older_than=60 * SECOND))) == count - 1 - len(found)


def test_a_subscription_goes_on_through_every_move(lab: Lab) -> None:
    with lab.open().subscribe("t", bookmark="0", sow=False) as subscription:
        messages = (event.data.decode() for event in subscription if isinstance(event, Event) and event.data)
        seen: list[str] = []
        for number in range(4):
            list(archive_files(lab.open()))
            lab.publish("t", *(message(id=n, v=f"new {number}", w="z" * 60) for n in range(12)))
            seen += islice(messages, 5)
        seen += islice(messages, 12 * 12 - len(seen))
    assert len(archived(lab)) > 5
    assert seen == [payload for _, payload in published(lab)]


def test_without_an_archive_it_is_refused(tmp_path: Path) -> None:
    for place in ("", "<JournalArchiveDirectory>journal</JournalArchiveDirectory>"):
        xml = config_xml(topic_xml("t"), ("t",)).replace("</JournalDirectory>", f"</JournalDirectory>{place}")
        lab = Lab(tmp_path / f"lab{len(place)}", xml)
        lab.publish("t", message(id=1))
        with pytest.raises(ConfigError) as caught:
            list(archive_files(lab.open()))
        assert caught.value.code == "SOW-UPK-001"
    with pytest.raises(ConfigError) as caught:
        list(archive_files(Lab(tmp_path / "no", config_xml(topic_xml("t"), ())).open()))
    assert caught.value.code == "SOW-ENG-020"
    with pytest.raises(MissingError) as missing:
        list(archive_files(Lab(tmp_path / "none", XML).open()))
    assert missing.value.code == "SOW-JRN-001"


def test_one_at_a_time(lab: Lab) -> None:
    with hold_journal_files(lab.open()), pytest.raises(LockedError) as caught:
        list(archive_files(lab.open(lock_wait=0.0)))
    assert caught.value.code == "SOW-JRN-060"
    # Neither writers nor readers wait.
    with hold_journal_files(lab.open()):
        lab.publish("t", message(id=1))
        assert json.loads(lab.query("t")[0])["id"] is not None


SHORT_STEP = 11
"""In the short form every Nth call fails or kills, starting at a random one."""


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_killed_at_every_call(lab: Lab, way: Way, deep: bool, seed: int) -> None:
    records, digest, files = lab.query("t"), lab.digest("u"), read_files(lab.directory)
    finished = len(lab.journals()) - 1
    step = 1 if deep else SHORT_STEP
    for after in (False, True):
        n = 1 + (seed + after) % step
        while died_at_call(n, lambda seam: list(archive_files(lab.open(way(seam)))), after=after):
            problem = f"killed at call {n}, {after=}"
            with verified(lab):
                assert lab.query("t") == records and lab.digest("u") == digest, problem
            list(archive_files(lab.open()))
            assert (len(lab.journals()), len(archived(lab))) == (1, finished), problem
            assert not list((lab.directory / "old").glob(".*")), problem
            assert lab.query("t") == records, problem
            shutil.rmtree(lab.directory / "old")
            put_files(lab.directory, files)
            n += step
        assert n > 30
        shutil.rmtree(lab.directory / "old")
        put_files(lab.directory, files)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_an_error_at_every_call(lab: Lab, way: Way, code: int, deep: bool, seed: int) -> None:
    records, files = lab.query("t"), read_files(lab.directory)
    finished, counting = len(lab.journals()) - 1, CountingSeam()
    list(archive_files(lab.open(way(counting))))
    step = 1 if deep else SHORT_STEP
    for n in range(1 + (seed + code) % step, counting.count + 1, step):
        shutil.rmtree(lab.directory / "old")
        put_files(lab.directory, files)
        problem = f"call {n} of {counting.count} ({counting.points[n - 1]})"
        try:
            list(archive_files(lab.open(way(FailAt(n, code)))))
        except SowError as error:
            assert error.exit_status in (5, 6), f"{problem}: {error.code}"
        assert lab.query("t") == records, problem
        list(archive_files(lab.open()))
        assert (len(lab.journals()), len(archived(lab))) == (1, finished), problem
        assert lab.query("t") == records, problem
