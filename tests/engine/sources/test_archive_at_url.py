"""A JournalArchiveDirectory at a URL: results are the same as with local files, and no file is lost silently."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from sowctl.engine.maintenance.retention.archive import archive_files, archive_to_url
from sowctl.engine.maintenance.retention.compression import compress_files
from sowctl.engine.maintenance.retention.prune import KeepRule, prune_files
from sowctl.engine.options import ReplayOptions
from sowctl.engine.topics.positions import open_log
from sowctl.engine.verbs.journal import EntryFilter, dump_entries, list_files
from sowctl.engine.verbs.replay import replay_topics
from sowctl.errors import DamageError, MissingError, RefusedError, SowError, StorageError
from sowctl.journal.archive import manifest
from sowctl.remote import remote_files
from sowctl.remote.place import RemotePath, parse_url, resolve_place
from tests.support.faraway import Faraway, far_away
from tests.support.instances import Lab, message, topic_xml

HISTORY = "<History><Window>1h</Window><Granularity>20s</Granularity></History>"
TOPICS = ("plain", "past")


def config(archive: str | None) -> str:
    logged = "".join(f"<Topic><Name>{name}</Name><MessageType>json</MessageType></Topic>" for name in TOPICS)
    there = "" if archive is None else f"<JournalArchiveDirectory>{archive}</JournalArchiveDirectory>"
    log = f"<TransactionLog><JournalDirectory>journal</JournalDirectory>{there}{logged}</TransactionLog>"
    sow = topic_xml("plain") + topic_xml("past", HISTORY)
    return f"<AMPSConfig><Name>test</Name><SOW>{sow}</SOW>{log}</AMPSConfig>"


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Faraway]:
    with far_away(tmp_path / "far") as place:
        yield place


def made(directory: Path, far: Faraway) -> Lab:
    return Lab(directory, config(far.url("lake/journal")), journal_size=1200)


def publish(lab: Lab, chance: random.Random, steps: int) -> None:
    for _ in range(steps):
        topic = chance.choice(TOPICS)
        if chance.random() < 0.2:
            lab.open().topic(topic).delete(filter=f"/id = {chance.randrange(8)}")
        else:
            lab.publish(topic, message(id=chance.randrange(8), n=chance.random(), pad="x" * chance.choice((5, 300))))
        lab.clock.tick(chance.choice((0, 1, 30)))


def send(lab: Lab) -> list[Path]:
    """Send the finished files; return those that are both local and at the URL."""
    list(archive_files(lab.open()))
    sent = {one.name for one in (lab.directory.parent / "far" / "lake" / "journal").iterdir()}
    return [path for path in lab.journals() if path.name in sent]


def whole_copy(lab: Lab, directory: Path, kept: Path) -> Lab:
    """Copy the instance, with all journal files in one local directory."""
    shutil.copytree(lab.directory, directory)
    for path in kept.iterdir():
        shutil.copy(path, directory / "journal")
    return Lab(directory, config(None), clock=lab.clock)


def entries(lab: Lab) -> list[tuple[int, bytes]]:
    with open_log(lab.open()) as log:
        return [(one.txid, bytes(one.payload)) for block in log.iter_blocks() for one in block.iter_entries()]


def seen(lab: Lab, at: int | None, topic: str) -> list[tuple[int, bytes]] | str:
    try:
        return [(one.txid, one.payload) for one in lab.records(topic, at=at)]
    except MissingError as error:
        return error.code


@pytest.mark.parametrize("seed", range(8))
def test_answers_are_those_of_files_that_are_here(tmp_path: Path, far: Faraway, seed: int, deep: bool) -> None:
    if seed > 0 and not deep:
        pytest.skip("--deep runs this")
    chance = random.Random(seed)
    lab, kept = made(tmp_path / "lab", far), tmp_path / "kept"
    kept.mkdir()
    begin = lab.clock.at
    for _ in range(3):
        publish(lab, chance, 15)
        both = send(lab)
        for path in both[: chance.randrange(len(both) + 1)]:
            shutil.move(path, kept)
        if chance.random() < 0.3:
            lab.forget(chance.choice(TOPICS))
    assert kept.exists() and any(kept.iterdir())
    whole = whole_copy(lab, tmp_path / "whole", kept)
    assert entries(lab) == entries(whole)
    for topic in TOPICS:
        assert seen(lab, None, topic) == seen(whole, None, topic)
        for _ in range(8):
            at = chance.randint(begin - 1, lab.clock.at)
            assert seen(lab, at, topic) == seen(whole, at, topic), (topic, at)
    made_anew = [
        replay_topics(one.open(), one.open().topics, ReplayOptions(into=str(one.directory / "new")))
        for one in (lab, whole)
    ]
    for here, there in zip(*made_anew, strict=True):
        assert replace(here, path=None, seconds=0) == replace(there, path=None, seconds=0)
    judged = [replay_topics(one.open(), one.open().topics, ReplayOptions(verify=True)) for one in (lab, whole)]
    assert [one.action for one in judged[0]] == [one.action for one in judged[1]]
    assert [one.action == "verified" for one in judged[0]] == [lab.store(topic).exists() for topic in TOPICS]
    facts = [(one.number, one.first_txid, one.last_txid) for one in list_files(lab.open())]
    assert facts == [(one.number, one.first_txid, one.last_txid) for one in list_files(whole.open())]
    told = [sum(len(batch.records) for batch in dump_entries(one.open(), EntryFilter())) for one in (lab, whole)]
    assert told[0] == told[1]
    # and the next publish succeeds
    lab.publish("plain", message(id=1, n="more"))
    assert len(entries(lab)) == len(entries(whole)) + 1


def pruned(tmp_path: Path, far: Faraway) -> Lab:
    """Return an instance whose oldest files are only at the URL."""
    lab = made(tmp_path / "lab", far)
    publish(lab, random.Random(5), 25)
    for path in send(lab)[:-1]:
        path.unlink()
    return lab


def test_the_present_needs_no_answer_from_there(tmp_path: Path, far: Faraway) -> None:
    lab = pruned(tmp_path, far)
    before = lab.query("plain"), lab.query("past")
    far.is_away, far.asked = True, 0
    lab.publish("plain", message(id=99))
    assert len(lab.query("plain")) == len(before[0]) + 1 and lab.query("past") == before[1]
    lab.open().topic("plain").delete(filter="/id = 99")
    assert lab.query("plain") == before[0] and far.asked == 0
    # files that are only there are missing: every read fails instead of returning fewer records
    lab.forget("plain")
    for ask in (lambda: lab.query("plain"), lambda: entries(lab), lambda: replay_topics(lab.open(), lab.open().topics)):
        with pytest.raises(StorageError) as caught:
            ask()
        assert caught.value.code == "SOW-RMT-005" and caught.value.hint
    far.is_away = False
    assert lab.query("plain") == before[0]


def refused(lab: Lab) -> SowError:
    with pytest.raises(SowError) as caught:
        entries(lab)
    error = caught.value
    assert "\n" not in error.message and error.hint
    return error


def test_files_between_are_missed(tmp_path: Path, far: Faraway) -> None:
    lab = made(tmp_path / "lab", far)
    publish(lab, random.Random(6), 30)
    last = send(lab)[-1]
    publish(lab, random.Random(7), 20)
    number = int(last.name.split(".")[1])
    for path in lab.journals():
        if int(path.name.split(".")[1]) <= number + 1:
            path.unlink()
    error = refused(lab)
    assert error.code == "SOW-JRN-086" and isinstance(error, DamageError)
    assert f"{number:010d}" in error.message and f"{number + 2:010d}" in error.message
    lab.forget("plain")
    with pytest.raises(DamageError):
        replay_topics(lab.open(), lab.open().topics)


def test_an_archive_that_is_not_the_beginning_of_this(tmp_path: Path, far: Faraway) -> None:
    lab = pruned(tmp_path, far)
    # the journal of another instance with the same name
    other = made(tmp_path / "other", far)
    publish(Lab(other.directory, config(None), journal_size=1200), random.Random(8), 25)
    other.config.write_text(other.xml)
    for path in other.journals()[:2]:
        path.unlink()
    assert refused(other).code == "SOW-JRN-087"
    # a copy that was used separately, and archived: its txids are the same, its entries are not
    copy = Lab(tmp_path / "copy", config(far.url("copy")), journal_size=1200)
    shutil.copytree(lab.directory, copy.directory, dirs_exist_ok=True)
    copy.config.write_text(copy.xml)
    (far.path / "copy").mkdir()
    for path in (far.path / "lake" / "journal").iterdir():
        shutil.copy(path, far.path / "copy")
    chance = random.Random(9)
    publish(copy, chance, 20)
    list(archive_files(copy.open()))
    publish(lab, chance, 20)
    numbers = [int(path.name.split(".")[1]) for path in lab.journals()]
    for path, number in zip(lab.journals(), numbers, strict=True):
        if number < numbers[-1]:
            path.unlink()
    mixed = lab.open().with_archive(resolve_place(Path(), far.url("copy")))
    with pytest.raises(DamageError) as caught, open_log(mixed) as log:
        list(log.iter_blocks())
    assert caught.value.code in ("SOW-JRN-086", "SOW-JRN-087")


def test_each_fault_there_is_an_error_of_its_own(tmp_path: Path, far: Faraway) -> None:
    lab = pruned(tmp_path, far)
    wanted, here = entries(lab), {path: path.read_bytes() for path in lab.journals()}
    directory = far.path / "lake" / "journal"
    manifest_file = directory / "test.manifest"
    segment = directory / "test.0000000001.journal"
    raw = segment.read_bytes()
    faults = {
        "SOW-JRN-081": (manifest_file, None),
        "SOW-JRN-080": (manifest_file, manifest_file.read_bytes()[:-30]),
        "SOW-JRN-083": (segment, None),
        "SOW-JRN-084": (segment, raw[:-1]),
        "SOW-JRN-010": (segment, raw[:-1] + bytes([raw[-1] ^ 1])),
    }
    with open_log(lab.open()) as log:
        for code, (path, content) in faults.items():
            kept = path.read_bytes()
            path.unlink() if content is None else path.write_bytes(content)
            manifest._REMOTE_MANIFESTS.clear()  # as in another process
            error = refused(lab)
            assert error.code == code and path.parent.name in str(error.place), error
            with pytest.raises(SowError) as caught:
                replay_topics(lab.open(), lab.open().topics, ReplayOptions(into=str(tmp_path / code)))
            assert caught.value.code == code and not list(tmp_path.glob(f"{code}/*.sow"))
            # the same reader returns all entries once the file is back, as when a store shows it late
            if path == segment:
                with pytest.raises(SowError):
                    list(log.iter_blocks())
            path.write_bytes(kept)
            assert (
                entries(lab)
                == wanted
                == [(one.txid, bytes(one.payload)) for block in log.iter_blocks() for one in block.iter_entries()]
            )
    assert here == {path: path.read_bytes() for path in lab.journals()}


def test_what_a_listing_shows_does_not_matter(tmp_path: Path, far: Faraway, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = pruned(tmp_path, far)
    wanted = entries(lab)
    # a store may list new files late, and removed ones for a long time: readers use the manifest
    monkeypatch.setattr(remote_files, "list_files", lambda *_, **__: pytest.fail("listed"))
    (far.path / "lake" / "journal" / "test.0000000999.journal").write_bytes(b"not told of")
    assert entries(lab) == wanted


def test_a_reader_goes_on_while_files_are_sent_and_pruned(tmp_path: Path, far: Faraway) -> None:
    lab = made(tmp_path / "lab", far)
    publish(lab, random.Random(3), 20)
    for path in send(lab):
        path.unlink()
    with open_log(lab.open()) as log:
        before = [one.txid for block in log.iter_blocks() for one in block.iter_entries()]
        publish(lab, random.Random(4), 20)
        for path in send(lab):
            path.unlink()
        after = [one.txid for block in log.iter_blocks() for one in block.iter_entries()]
    assert after[: len(before)] == before and after == [txid for txid, _ in entries(lab)] and len(after) > len(before)


def made_at_file_url(tmp_path: Path) -> Lab:
    lab = Lab(tmp_path / "lab", config((tmp_path / "old").as_uri()), journal_size=1200)
    publish(lab, random.Random(3), 20)
    return lab


def test_files_are_uploaded_to_a_file_url_and_stay_here(tmp_path: Path) -> None:
    lab, place = made_at_file_url(tmp_path), tmp_path / "old"
    wanted, files = entries(lab), lab.journals()
    sent = list(archive_files(lab.open()))
    assert [one.path for one in sent] == files[:-1] and lab.journals() == files
    names = [one.name for one in files[:-1]]
    assert sorted(one.name for one in place.iterdir()) == sorted([*names, "test.manifest"])
    # --to with the same URL names this archive.
    assert list(archive_to_url(lab.open(), parse_url(place.as_uri()))) == []
    for path in files[:-1]:
        path.unlink()
    assert entries(lab) == wanted


def test_segments_at_a_file_url_are_not_compressed_and_not_pruned(tmp_path: Path) -> None:
    lab, place = made_at_file_url(tmp_path), tmp_path / "old"
    wanted = entries(lab)
    held = prune_files(lab.open(), KeepRule(keep_size=0))
    assert held.removed == 0 and [one.holder for one in held.held] == ["archive " + str(parse_url(place.as_uri()))]
    sent = [one.archived.name for one in archive_files(lab.open())]
    assert list(compress_files(lab.open()))
    gone = prune_files(lab.open(), KeepRule(keep_size=0))
    assert gone.removed == len(sent) and gone.past == [] and len(lab.journals()) == 1
    assert sorted(one.name for one in place.iterdir()) == sorted([*sent, "test.manifest"])
    assert entries(lab) == wanted
    publish(lab, random.Random(4), 20)
    assert list(archive_files(lab.open()))
    assert len(entries(lab)) > len(wanted)


def test_files_that_were_moved_to_a_file_url_are_read(tmp_path: Path) -> None:
    lab, place = made_at_file_url(tmp_path), tmp_path / "old"
    wanted = entries(lab)
    place.mkdir()
    for path in lab.journals()[:3]:
        shutil.move(path, place)
    assert list(archive_files(lab.open()))
    assert entries(lab) == wanted
    prune_files(lab.open(), KeepRule(keep_size=0))
    assert entries(lab) == wanted and len(lab.journals()) == 1


def test_the_journal_directory_as_a_file_url_is_no_archive(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", config((tmp_path / "lab" / "journal").as_uri()), journal_size=1200)
    publish(lab, random.Random(3), 20)
    with pytest.raises(RefusedError) as refused:
        list(archive_files(lab.open()))
    assert refused.value.code == "SOW-JRN-085"


def test_files_go_to_the_url_that_is_named(tmp_path: Path, far: Faraway) -> None:
    lab = made(tmp_path / "lab", far)
    publish(lab, random.Random(3), 20)
    there = lab.open().log.archive_directory
    assert there == RemotePath("hdfs", "far", "lake/journal")
    dry = list(archive_files(lab.open(), dry_run=True))
    sent = list(archive_files(lab.open()))
    assert [one.archived for one in dry] == [one.archived for one in sent] and sent
    assert list(archive_to_url(lab.open(), there)) == []
