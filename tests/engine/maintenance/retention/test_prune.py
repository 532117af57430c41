"""sowctl journal prune as a function: which files it removes, which users keep files, and what readers report."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from sowctl.engine.maintenance.retention.archive import archive_files
from sowctl.engine.maintenance.retention.prune import KeepRule, PruneReport, prune_files
from sowctl.engine.options import PublishOptions, ReplayOptions
from sowctl.engine.topics.queuestates import build_state_path
from sowctl.engine.verbs.conflate import advance_conflated
from sowctl.engine.verbs.publish import publish_messages
from sowctl.engine.verbs.replay import replay_topics
from sowctl.engine.writing.commit import AcknowledgedBatch
from sowctl.errors import MissingError, SowError
from sowctl.identity.hashes import hash_client_name
from sowctl.messages.framing.frames import FrameReader
from sowctl.seam import SEAM
from tests.crash.test_crash_states import Watcher
from tests.support.chains import MODULES, generator
from tests.support.faults import CountingSeam, FailAt, died_at_call
from tests.support.instances import SECOND, Lab, config_xml, keep_store, message, put_back, topic_xml, verified
from tests.support.objectstore import ObjectStore
from tests.support.processes import Child
from tests.support.queues import QueueLab, queue_xml
from tests.support.verbs import put_files, read_files

ARCHIVED = "</JournalDirectory><JournalArchiveDirectory>old</JournalArchiveDirectory>"
MARKS = (
    "<Topic><Name>marks</Name><MessageType>json</MessageType><Key>/clientName</Key><Key>/subId</Key>"
    "<FileName>sow/%n.sow</FileName></Topic>"
)
CONFLATED = (
    "<ConflatedTopic><Topic>slow</Topic><MessageType>json</MessageType><UnderlyingTopic>t</UnderlyingTopic>"
    "<Interval>10s</Interval></ConflatedTopic>"
)
BARE = (
    "<Topic><Name>bare</Name><MessageType>json</MessageType><Key>/id</Key><Durability>transient</Durability>{}</Topic>"
)


def lab_of(place: Path, *more: str, logged: tuple[str, ...] = (), kind: type[Lab] = Lab) -> Lab:
    """An instance with topics t and u, and further elements; about one journal file per batch or two."""
    xml = config_xml(topic_xml("t") + topic_xml("u") + "".join(more), ("t", "u", *logged))
    return kind(place / "lab", xml.replace("</JournalDirectory>", ARCHIVED), journal_size=1200)


def fill(lab: Lab, topic: str = "t", batches: int = 8, first: int = 0) -> None:
    """Publish batches, ten seconds apart, that change the same twelve records."""
    for number in range(first, first + batches):
        lab.publish(topic, *(message(id=n, v=number, w="x" * 40) for n in range(12)))
        lab.clock.tick(10)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = lab_of(tmp_path)
    fill(lab)
    assert len(lab.journals()) > 3
    return lab


ALL = KeepRule(keep_size=0)


def pruned(lab: Lab, rule: KeepRule = ALL, *bookmarks: str, dry_run: bool = False) -> PruneReport:
    return prune_files(lab.open(), rule, bookmarks=bookmarks, dry_run=dry_run)


def holders(report: PruneReport) -> dict[str, int]:
    """Return the users that keep files, and the txid after which each needs the journal."""
    return {held.holder: held.after for held in report.held}


def first_txid(lab: Lab) -> int:
    from sowctl.engine.topics.positions import open_log

    with open_log(lab.open()) as log:
        return log.first_txid


def test_what_nothing_needs_goes(lab: Lab) -> None:
    before, digest, names = lab.query("t"), lab.digest("t"), [path.name for path in lab.journals()]
    dry = pruned(lab, dry_run=True)
    assert [path.name for path in lab.journals()] == names and first_txid(lab) == 1
    with verified(lab):
        report = pruned(lab)
        assert [path.name for path in lab.journals()] == names[-1:]
        assert (dry.first_txid, dry.removed, dry.past) == (report.first_txid, report.removed, report.past)
        # A dry run removes nothing, and reports so for each file.
        assert {(file.removed, file.removable, file.dry_run) for file in dry.files} == {(False, True, True)}
        assert [replace(file, removed=True, dry_run=False) for file in dry.files] == report.files
        assert report.removed == len(names) - 1 and report.first_txid == first_txid(lab) > 1
        assert report.held == []
        assert lab.query("t") == before and lab.digest("t") == digest
        lab.publish("t", message(id=3, v="new"))
        assert lab.query("t", "/id = 3") == [message(id=3, v="new")]
    assert pruned(lab).files == []


def test_compressed_and_archived_files_go_as_well(lab: Lab) -> None:
    import gzip

    list(archive_files(lab.open()))
    old = sorted((lab.directory / "old").glob("*.journal"))
    old[1].with_name(old[1].name + ".gz").write_bytes(gzip.compress(old[1].read_bytes()))
    old[1].unlink()
    with verified(lab):
        assert pruned(lab).removed == len(old)
        assert list((lab.directory / "old").iterdir()) == []


def test_rules(lab: Lab) -> None:
    files = pruned(lab, dry_run=True).files
    count = len(files)
    assert count >= 3
    for rule, goes in {
        KeepRule(keep_for=3600 * SECOND): 0,
        KeepRule(before_txid=1): 0,
        KeepRule(before_txid=files[1].last_txid): 1,
        KeepRule(before_txid=files[1].last_txid + 1): 2,
        KeepRule(keep_size=1 << 40): 0,
        KeepRule(keep_size=sum(path.stat().st_size for path in lab.journals()[2:])): 2,
        KeepRule(before_time=lab.clock.at): count,
        KeepRule(before_time=0): 0,
    }.items():
        assert pruned(lab, rule, dry_run=True).removed == goes, rule
    ages = [pruned(lab, KeepRule(keep_for=n * SECOND), dry_run=True).removed for n in range(0, 120, 10)]
    assert ages == sorted(ages, reverse=True) and ages[0] == count and ages[-1] == 0
    assert len(set(ages)) > 2


def test_a_store_that_is_behind_keeps_what_it_lacks(lab: Lab, tmp_path: Path) -> None:
    keep_store(lab, "t", tmp_path / "kept")
    last = 8 * 12
    fill(lab, first=8)
    fill(lab, "u", 2)
    put_back(lab, "t", tmp_path / "kept")
    report = pruned(lab)
    assert holders(report) == {"store t": last}
    assert first_txid(lab) <= last + 1 < report.files[report.removed].last_txid + 1
    assert report.files[report.removed].held_by == ("store t",)
    assert report.held[0].release == "sowctl replay t"
    with verified(lab):
        assert '"v":15' in lab.query("t")[0]
        replay_topics(lab.open(), [lab.open().topics[0]], ReplayOptions())
        assert pruned(lab).held == []


def test_missing_and_damaged_stores_keep_everything(lab: Lab) -> None:
    lab.store("t").write_bytes(b"not a store" * 500)
    assert holders(pruned(lab)) == {"store t": 0}
    lab.forget("t")
    report = pruned(lab)
    assert holders(report) == {"store t": 0} and report.removed == 0
    assert "missing" in report.held[0].why
    # Topic u has no store either, but no entries: it needs no files.
    fill(lab, first=8, batches=1)
    with verified(lab):
        assert pruned(lab).held == []


def test_a_topic_without_a_store_keeps_its_recovery(tmp_path: Path) -> None:
    for point, keeps in {"epoch": True, "now": False}.items():
        lab = lab_of(tmp_path / point, BARE.format(f"<RecoveryPoint>{point}</RecoveryPoint>"), logged=("bare",))
        fill(lab, batches=3)
        lab.publish("bare", message(id=1))
        fill(lab, first=3)
        found = lab.query("bare")
        report = pruned(lab)
        assert holders(report) == ({"RecoveryPoint of bare": 0} if keeps else {}), point
        assert lab.query("bare") == found
        # Files before its first entry are not kept for it.
        assert (report.removed > 0) and first_txid(lab) > 1


def test_subscriptions_keep_what_they_have_not_had(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, MARKS, logged=("marks",))
    fill(lab)
    from sowctl.engine.subscriptions.bookmark_stores.file import FileStore
    from sowctl.engine.subscriptions.bookmark_stores.protocol import Subscriber

    beside = lab.directory / "shop.bookmarks"
    elsewhere = tmp_path / "far.places"
    instance = lab.open()
    for path, number in ((beside, 60), (elsewhere, 40)):
        FileStore(path, SEAM, lab.clock).set_place(Subscriber("billing", "1"), f"{instance.publisher_id}|{number}|")
    lab.publish("marks", message(clientName="web", subId="7", bookmark=f"{instance.publisher_id}|80|"))
    report = pruned(lab, ALL, str(elsewhere), dry_run=True)
    assert sorted(holders(report).values()) == [40, 60, 80]
    report = pruned(lab, dry_run=True)
    assert sorted(holders(report).values()) == [60, 80]
    assert any(held.holder == "bookmark marks web/7" for held in report.held)
    assert report.first_txid <= 61 < report.files[report.removed].last_txid + 1
    assert report.held[0].release is not None and "bookmark purge" in report.held[0].release
    with pytest.raises(MissingError) as caught:
        pruned(lab, ALL, str(tmp_path / "none.bookmarks"))
    assert caught.value.code == "SOW-UPK-003" and first_txid(lab) == 1
    with verified(lab):
        pruned(lab)
        with instance.place(str(beside), "billing", "1") as place:
            bookmark = place.recent
        events = [event.txid for event in instance.subscribe("t", sow=False, until_now=True, bookmark=bookmark)]
        assert events[0] == 61
    # A position whose entries are gone keeps no files: its subscription gets an error in any case.
    FileStore(beside, SEAM, lab.clock).set_place(Subscriber("billing", "1"), f"{instance.publisher_id}|1|")
    assert "billing/1" not in "".join(holders(pruned(lab, dry_run=True)))


@pytest.mark.parametrize("point", ["creation", "epoch", "13", "now"])
def test_queues_keep_messages_that_are_not_processed(tmp_path: Path, point: str) -> None:
    # A txid is written in a bookmark of the instance.
    point = f"{hash_client_name('test')}|{point}|" if point.isdigit() else point
    parts = "<Filter>/id = 5</Filter>", f"<RecoveryPoint>{point}</RecoveryPoint>"
    lab = lab_of(tmp_path, queue_xml(*parts, underlying="t"), kind=QueueLab)
    assert isinstance(lab, QueueLab)
    lab.publish("u", message(id=1))
    lab.lease(1)
    fill(lab)
    messages = lab.lease(3)
    assert len(messages) == 3
    lab.ack(*messages)
    report = pruned(lab)
    assert [held.holder for held in report.held] == ["queue work"]
    oldest = lab.lease(1)[0].txid
    assert holders(report) == {"queue work": oldest - 1}
    assert first_txid(lab) <= oldest
    # Its state may be lost: pending messages are in the journal, although the entry of its creation is gone.
    assert first_txid(lab) > 12
    pending = [one.txid for one in _peek(lab)]
    build_state_path(lab.open(), lab.open().config.sow[-1]).unlink()  # type: ignore[union-attr, arg-type]
    # A queue with RecoveryPoint now forgets all messages from before the loss of its state, with or without old files.
    assert [one.txid for one in _peek(lab)] == ([] if point == "now" else pending)
    with lab.queue() as queue:
        assert (queue.purge() >= 1) == (point != "now")
    with verified(lab):
        assert pruned(lab).held == []


def _peek(lab: QueueLab) -> list:  # type: ignore[type-arg]
    with lab.queue() as queue:
        return queue.peek()


def test_conflated_topics_keep_what_is_not_in_their_state(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, CONFLATED)
    fill(lab, batches=4)
    assert holders(pruned(lab)) == {"conflated topic slow": 0}
    assert pruned(lab).removed == 0
    _conflated(lab)
    fill(lab, first=4)
    report = pruned(lab)
    assert holders(report) == {"conflated topic slow": 48} and report.removed
    shown = lab.query("slow")
    assert shown and '"v":11' in shown[0]
    _conflated(lab)
    with verified(lab):
        assert pruned(lab).held == []
        assert lab.query("slow") == shown


def _conflated(lab: Lab) -> None:
    list(advance_conflated(lab.open(), ["slow"]))


def test_chains_keep_what_their_file_lacks(tmp_path: Path) -> None:
    xml = config_xml(topic_xml("c", generator(), key=None) + topic_xml("t"), ("c", "t")).replace(
        "<SOW>", MODULES + "<SOW>"
    )
    lab = Lab(tmp_path / "lab", xml, journal_size=1200)
    for number in range(60):
        lab.publish("c", message(id=f"c{number}", parent=f"c{number - 1}" if number % 5 else "", w="y" * 60))
    chains = next((lab.directory / "sow").glob("*.chains"))
    saved = chains.read_bytes()
    with verified(lab):
        assert pruned(lab, dry_run=True).held == []
        chains.unlink()
        assert holders(pruned(lab)) == {"key chains of c": 0}
        chains.write_bytes(saved)
        assert pruned(lab).held == []
        before = len(lab.query("c"))
        lab.publish("c", message(id="c60", parent="c59"))
        assert len(lab.query("c")) == before


def test_past_states_are_known_from_the_instant_that_is_named(lab: Lab) -> None:
    fill(lab, "u", 1, first=90)
    lab.publish("t", message(id=99))
    lab.clock.tick(10)
    instants = range(lab.clock.at - 120 * SECOND, lab.clock.at + 1, 5 * SECOND)
    from sowctl.values.times import format_time, parse_time

    before = {at: lab.query("t", at=format_time(at)) for at in instants}
    report = pruned(lab, KeepRule(keep_size=sum(path.stat().st_size for path in lab.journals()[3:])))
    assert report.removed == 3
    assert [one.topic for one in report.past] == ["t"]
    named = report.past[0].first_instant
    assert named is not None
    known = 0
    for at, records in before.items():
        if at >= parse_time(named, lab.clock):
            assert lab.query("t", at=format_time(at)) == records
            known += 1
        else:
            with pytest.raises(SowError) as caught:
                lab.query("t", at=format_time(at))
            assert caught.value.code == "SOW-ENG-050" and named in str(caught.value.hint)
    assert 3 < known < len(before)


def test_readers_name_the_first_txid_that_is_left(lab: Lab) -> None:
    fill(lab, first=8)
    instance = lab.open()
    subscription = instance.subscribe("t", sow=False, bookmark="0")
    events = iter(subscription)
    next(events)
    report = pruned(lab)
    with subscription, pytest.raises(MissingError) as caught:
        list(events)
    assert caught.value.code == "SOW-FOL-001"
    assert caught.value.facts["first_txid"] == report.first_txid == first_txid(lab)
    with pytest.raises(MissingError) as caught:
        list(instance.subscribe("t", sow=False, bookmark=f"{instance.publisher_id}|3|", until_now=True))
    assert caught.value.code == "SOW-ENG-071" and caught.value.facts["first_txid"] == report.first_txid


def test_a_publisher_that_was_idle_meanwhile_goes_on(lab: Lab) -> None:
    """A pipe with a message now and then: the publisher's knowledge of the journal files gets stale."""

    def publisher(child: Child) -> None:
        def told(what: AcknowledgedBatch) -> None:
            child.say("published")

        with os.fdopen(child.inlet, "rb", buffering=0) as pipe:
            source = FrameReader(pipe, "lines")
            publish_messages(lab.open(), "t", [("in", source)], PublishOptions(batch=1), on_acknowledged=told)

    with Child(publisher) as child:
        child.write(message(id=1, v="early").encode() + b"\n")
        child.wait_for(b"published")
        fill(lab, first=8)
        fill(lab, "u")
        assert pruned(lab).removed > 5
        child.write(message(id=2, v="late").encode() + b"\n")
        child.wait_for(b"published\npublished")
        child.close_input()
        assert child.join() == 0
    with verified(lab):
        assert lab.query("t", "/id = 2") == [message(id=2, v="late")]
        assert pruned(lab).held == []


# faults --------------------------------------------------------------------------------------------------------------

SHORT_STEP = 11
"""In the short form every Nth call fails or kills, starting at a random one."""


def judged(lab: Lab, records: list[str], problem: str) -> None:
    """Assert that all records are present and intact, and that another prune completes."""
    with verified(lab):
        assert lab.query("t") == records, problem
    report = pruned(lab)
    with verified(lab):
        assert lab.query("t") == records, problem
        assert report.held == [] and len(lab.journals()) == 1, problem


def test_killed_at_every_call(lab: Lab, deep: bool, seed: int) -> None:
    records, files = lab.query("t"), read_files(lab.directory)
    step = 1 if deep else SHORT_STEP
    for after in (False, True):
        n = 1 + (seed + after) % step
        while died_at_call(n, lambda seam: prune_files(lab.open(seam), ALL), after=after):
            judged(lab, records, f"killed at call {n}, {after=}")
            put_files(lab.directory, files)
            n += step
        assert n > 30
        put_files(lab.directory, files)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_an_error_at_every_call(lab: Lab, code: int, deep: bool, seed: int) -> None:
    records, files = lab.query("t"), read_files(lab.directory)
    counting = CountingSeam()
    prune_files(lab.open(counting), ALL)
    step = 1 if deep else SHORT_STEP
    for n in range(1 + (seed + code) % step, counting.count + 1, step):
        put_files(lab.directory, files)
        try:
            report = prune_files(lab.open(FailAt(n, code)), ALL)
        except SowError as error:
            assert error.exit_status in (5, 6), f"call {n}: {error.code}"
        else:
            assert report.removed or report.held, f"call {n} ({counting.points[n - 1]})"
        judged(lab, records, f"call {n} ({counting.points[n - 1]})")


def test_a_power_cut_after_publishing_and_pruning(lab: Lab, tmp_path: Path) -> None:
    """A store may lose its last commit until it is synced: no file with its entries is removed before the sync."""
    recorder = Watcher(lab.directory)
    seamed = lab.open(recorder)
    seamed.topic("t").publish([message(id=n, v="last", w="z" * 40).encode() for n in range(12)])
    recorder.acknowledge()
    fillers = [message(id=n, v="u", w="z" * 40).encode() for n in range(24)]
    seamed.topic("u").publish(fillers)
    prune_files(seamed, ALL)
    records = lab.query("t")
    states = [state for state in recorder.states() if state.acknowledged]
    assert len(states) > 20
    other = Lab(tmp_path / "other", lab.xml, clock=lab.clock, journal_size=1200)
    lost = 0
    for state in states:
        shutil.rmtree(other.directory)
        state.materialise(other.directory)
        assert other.query("t") == records, state.label
        lost += not other.store("u").exists() or len(other.query("u")) < 24
    assert lost  # records without an acknowledgement may be lost: the states are realistic


def test_what_an_archive_at_a_url_has_not_got_stays(tmp_path: Path, lake: ObjectStore) -> None:
    """A file removed before it was sent would be missing between the segments and the local files."""
    url = lake.url("journal").replace("&", "&amp;")
    xml = config_xml(topic_xml("t"), ("t",)).replace(
        "</JournalDirectory>", f"</JournalDirectory><JournalArchiveDirectory>{url}</JournalArchiveDirectory>"
    )
    lab = Lab(tmp_path / "lab", xml, journal_size=1200)
    fill(lab)
    past, last = lab.query("t", at="40"), len(lab.journals()) - 1
    report = pruned(lab)
    assert report.removed == 0 and list(holders(report).values()) == [0]
    list(archive_files(lab.open(), keep=2))
    report = pruned(lab)
    # All files are removed but the active one and the two that were not sent; queries of the past work as before.
    assert report.removed == last - 2 and report.past == []
    (held,) = report.held
    assert held.holder.startswith("archive s3://") and held.after == report.first_txid - 1
    assert held.release == "sowctl journal archive"
    list(archive_files(lab.open()))
    assert pruned(lab).removed == 2 and len(lab.journals()) == 1
    assert lab.query("t", at="40") == past
    # The archive has no files of another journal with the same name, whatever its txids are.
    other = Lab(tmp_path / "other", config_xml(topic_xml("t"), ("t",)), journal_size=1200)
    other.clock.tick(1)
    fill(other)
    other.config.write_text(xml)
    report = pruned(other)
    (held,) = report.held
    assert (report.removed, held.number, held.after) == (0, 0, 0) and "file 0000000000 " in held.why
