"""Sorted runs in whole instances: the runs that a bulk load leaves, their users, and identical results for readers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from sowctl.engine.fold import limits
from sowctl.engine.fold.compaction import merge_store
from sowctl.engine.fold.flush_plan import FlushStep
from sowctl.engine.fold.limits import FOLD_LIMITS
from sowctl.engine.fold.memtable import Memtable
from sowctl.engine.fold.runs import find_runs
from sowctl.engine.sources import current
from sowctl.engine.topics.positions import open_log, read_meta
from sowctl.engine.verbs.check import check_instance
from sowctl.engine.verbs.history import read_key_versions
from sowctl.errors import DamageError
from sowctl.findings import Level
from sowctl.seam import SEAM
from sowctl.store.env import Store
from sowctl.store.meta import AppliedPosition, StoreMeta
from sowctl.store.sortedrun import SortedRun, build_runs_directory, find_run_files, write_run
from sowctl.values.display import format_bytes
from tests.support.stores import key_of, value_of
from tests.support.verbs import (
    Plot,
    flushed,
    grown,
    loading,
    problems,
    put_files,
    read_files,
    rebuilt_is_live,
    small_memory,
)

Spoil = Callable[[Plot], None]


@pytest.fixture
def plot(tmp_path: Path) -> Iterator[Plot]:
    """An instance with two runs beside the store of j, and entries after them."""
    made = Plot(tmp_path / "lab")
    flushed(made)
    made.book.settle()
    assert len(find_run_files(made.lab.store("j"))) == 2
    yield made


def store_of(plot: Plot) -> Path:
    return plot.lab.store("j")


def meta(plot: Plot) -> StoreMeta:
    return read_meta(store_of(plot), plot.lab.open())


def used(plot: Plot) -> int:
    """Return the number of runs that a reader uses."""
    instance = plot.lab.open()
    with open_log(instance) as log:
        known = meta(plot)
        return len(find_runs(instance, store_of(plot), known, log, known.applied))


def runs_of(plot: Plot) -> list[SortedRun]:
    """Return the runs in order."""
    return [SortedRun(path) for _, path in sorted(find_run_files(store_of(plot)).items())]


def sound(plot: Plot) -> None:
    """Assert that every kind of reader sees exactly the published records."""
    now = plot.lab.clock.at
    expected = plot.book.final(now)
    assert plot.contents() == expected
    topic = plot.lab.open().topic("j")
    assert topic.query().count() == len(expected["j"]) == topic.info().records
    rows = topic.query("/id IN (3, 20, 21, 1)").records()
    assert {json.loads(row.payload)["id"] for row in rows} == {3, 20, 21}
    assert rebuilt_is_live(plot.lab) is None


def put(path: Path, content: bytes) -> None:
    """Replace a file by a new one: a mapped file is never changed."""
    path.unlink()
    path.write_bytes(content)


def publish_elsewhere(plot: Plot) -> None:
    """Publish in another process, which applies the runs to the store."""
    events = plot.fresh("j", range(90, 95))
    plot.book.hand_in(events)
    plot.book.settle()
    command = [sys.executable, "-m", "sowctl", "-c", str(plot.lab.config), "publish", "j"]
    lines = "".join(f"{event.payload}\n" for event in events)
    subprocess.run(command, input=lines.encode(), check=True, capture_output=True, cwd=Path(__file__).parents[3])


def test_readers_see_through_runs(plot: Plot) -> None:
    sound(plot)
    runs = runs_of(plot)
    row = plot.lab.open().topic("j").info()
    assert (row.runs, row.run_records) == (2, sum(map(len, runs)))
    assert row.run_bytes == sum(run.path.stat().st_size for run in runs)
    # two messages follow the runs
    assert row.lag == row.run_records + 2 == 14
    assert row.flush is not None and row.flush.startswith(FlushStep.IN_PLACE.value)
    with small_memory():
        row = plot.lab.open().topic("j").info()
        assert row.flush is not None and row.flush.startswith(FlushStep.RUN.value) and "2 sorted runs" in row.flush
    assert plot.lab.open().topic("a").info().flush is None
    found = check_instance(plot.lab.open())
    assert list(found) == []
    assert f"j.json.sow-runs: 2 runs, {row.run_records} changes, {format_bytes(row.run_bytes)}" in found.coverage
    assert found.report.runs == 4  # those of h, too
    # a dry run reads through them, and changes nothing
    topic = plot.lab.open().topic("j")
    report = topic.publish([b'{"id":20}', b'{"id":21}', b'{"id":777}'], dry_run=True)
    assert (report.inserted, report.updated) == (1, 2)
    assert used(plot) == 2


def test_a_memo_index_and_the_runs_behind_it(plot: Plot) -> None:
    values = {json.loads(text)["v"]: key for key, text in plot.book.final(plot.lab.clock.at)["j"].items()}
    for value, key in values.items():
        rows = list(plot.lab.open().topic("j").query(f"/v = {value}", index_from=0).records())
        assert [json.loads(row.payload)["id"] for row in rows] == [key]
    assert list((plot.root / "sow").rglob("*.memo"))


def test_the_next_session_merges(plot: Plot) -> None:
    before = meta(plot)
    loading(plot, SEAM)
    after = meta(plot)
    assert not build_runs_directory(store_of(plot)).exists()
    sound(plot)
    assert (after.created, after.definition, after.lineage) == (before.created, before.definition, before.lineage)
    assert after.last_time == plot.lab.clock.at
    assert problems(plot.lab) == []


def test_a_replay_brings_runs_into_the_store(plot: Plot) -> None:
    report = plot.lab.open().topic("j").replay()
    assert report.action == "caught up"
    assert not build_runs_directory(store_of(plot)).exists()
    assert plot.lab.open().topic("j").info().lag == 0
    sound(plot)


def test_a_rebuild_needs_no_runs_and_leaves_none(plot: Plot) -> None:
    report = plot.lab.open().topic("j").replay(rebuild=True)
    assert report.action == "rebuilt"
    assert not build_runs_directory(store_of(plot)).exists()
    sound(plot)


def test_runs_of_others_that_are_small_stay(plot: Plot, monkeypatch: pytest.MonkeyPatch) -> None:
    # with the usual limits, all runs of such a small store would be merged
    monkeypatch.setattr(limits, "MEMTABLE_LIMITS", limits.Limits(runs_share=1, small_records=0))
    plot.publish("j", [50, 51])
    assert used(plot) == 2
    assert plot.lab.open().topic("j").info().lag > 12
    sound(plot)
    # the entries after them are folded on each read until memory is full; then they become another run
    monkeypatch.setattr(limits, "MEMTABLE_LIMITS", limits.Limits(runs_share=1, small_records=0, changes=4))
    plot.publish("j", [52])
    assert used(plot) == 3
    sound(plot)
    # a merge follows when the runs are large compared with the store
    monkeypatch.setattr(limits, "MEMTABLE_LIMITS", limits.Limits(runs_share=4, small_records=0, changes=4))
    plot.publish("j", [53])
    assert not build_runs_directory(store_of(plot)).exists()
    sound(plot)


def _header(plot: Plot) -> None:
    path = runs_of(plot)[0].path
    put(path, path.read_bytes()[:20] + b"\1" + path.read_bytes()[21:])


def _cut(plot: Plot) -> None:
    path = runs_of(plot)[1].path
    put(path, path.read_bytes()[:-3])


def _holes(plot: Plot) -> None:
    # a power cut may leave this of a file that was never synced
    path = runs_of(plot)[0].path
    put(path, bytes(path.stat().st_size))


def _first_gone(plot: Plot) -> None:
    runs_of(plot)[0].path.unlink()


def _second_gone(plot: Plot) -> None:
    runs_of(plot)[1].path.unlink()


def _rewritten(plot: Plot, **parts: object) -> None:
    """Rewrite the first run with another state and without its last key: a reader that used it would be wrong."""
    run = runs_of(plot)[0]
    keys, values = run.read_changes(0, len(run) - 1)
    write_run(store_of(plot), run.state.replace_parts(**parts), run.base, len(keys), [(keys, values)], SEAM)


def _other_journal(plot: Plot) -> None:
    _rewritten(plot, lineage=b"another journal.")


def _other_copy(plot: Plot) -> None:
    block = runs_of(plot)[0].state.block
    assert block is not None
    _rewritten(plot, block=(*block[:2], block[2] ^ 1))


def _other_definition(plot: Plot) -> None:
    _rewritten(plot, definition=replace(runs_of(plot)[0].state.definition, key_fields=("/v",)))


def _no_block(plot: Plot) -> None:
    _rewritten(plot, block=None)


def _named_otherwise(plot: Plot) -> None:
    run = runs_of(plot)[1]
    run.path.rename(run.path.with_name(f"{meta(plot).applied}-{run.last_txid}.run"))


@pytest.mark.parametrize(
    ("spoil", "left"),
    [
        (_header, 0),
        (_cut, 1),
        (_holes, 0),
        (_first_gone, 0),
        (_second_gone, 1),
        (_other_journal, 0),
        (_other_copy, 0),
        (_other_definition, 0),
        (_no_block, 0),
        (_named_otherwise, 1),
    ],
)
def test_a_run_that_is_of_no_use_is_passed_over(plot: Plot, spoil: Spoil, left: int) -> None:
    spoil(plot)
    assert used(plot) == left
    sound(plot)
    loading(plot, SEAM)
    sound(plot)
    assert not build_runs_directory(store_of(plot)).exists()


def test_check_names_a_damaged_run_and_readers_say_it_once(plot: Plot) -> None:
    _header(plot)
    found = list(check_instance(plot.lab.open()))
    assert [(one.id, one.level) for one in found] == [("SOW-CHK-004", Level.WARNING)]
    plot.lab.notes.clear()
    instance = plot.lab.open()
    expected = plot.book.final(plot.lab.clock.at)["j"]
    assert len(list(instance.topic("j").query().records())) == len(expected) == instance.topic("j").query().count()
    assert len(plot.lab.notes) == 1 and "is ignored" in plot.lab.notes[0]


def test_a_damaged_value_is_read_from_the_journal(plot: Plot) -> None:
    run = runs_of(plot)[0]
    whole = bytearray(run.path.read_bytes())
    whole[-6] ^= 1
    put(run.path, bytes(whole))
    # header, keys and ends are sound, so the run is used
    assert used(plot) == 2
    plot.lab.notes.clear()
    instance = plot.lab.open()
    assert {json.loads(row.payload)["id"] for row in instance.topic("j").query().records()} == set(
        plot.book.final(plot.lab.clock.at)["j"]
    )
    assert len(plot.lab.notes) == 1 and "damaged" in plot.lab.notes[0]
    sound(plot)
    loading(plot, SEAM)
    sound(plot)
    assert problems(plot.lab) == []


def test_a_damaged_value_that_the_journal_has_no_more(plot: Plot) -> None:
    run = runs_of(plot)[1]
    whole = bytearray(run.path.read_bytes())
    whole[-6] ^= 1
    put(run.path, bytes(whole))
    # every journal file but the last is removed, and with them the entries of the run
    plot.publish("q", range(30))
    for path in plot.lab.journals()[:-1]:
        path.unlink()
    with pytest.raises(DamageError):
        list(plot.lab.open().topic("j").query().records())


def test_a_reader_that_was_overtaken_looks_again(plot: Plot, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer merges store and runs after the reader opened the store and before it lists the runs."""
    read, seen = current.read_overlay, []

    def overtaken(*args: object, **options: object) -> object:
        if not seen:
            publish_elsewhere(plot)
        seen.append(options)
        return read(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(FOLD_LIMITS, "max_tail_txids", 5)
    monkeypatch.setattr(current, "read_overlay", overtaken)
    source = current.open_current_source(plot.lab.open(), plot.lab.open().topic("j").config)
    try:
        # the second attempt finds a store with all changes
        assert len(seen) == 2 and source.memtable is None
        assert source.count_visible() == len(plot.book.final(plot.lab.clock.at)["j"])
    finally:
        source.close()


def test_a_long_journal_is_read_where_there_is_no_other_way(plot: Plot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FOLD_LIMITS, "max_tail_txids", 1)
    for run in runs_of(plot):
        run.path.unlink()
    sound(plot)


def test_a_reader_keeps_the_runs_that_it_has_open(plot: Plot) -> None:
    expected = plot.book.final(plot.lab.clock.at)["j"]
    source = current.open_current_source(plot.lab.open(), plot.lab.open().topic("j").config)
    try:
        parts = source.read_batches(5)
        first = next(parts)
        publish_elsewhere(plot)
        assert not build_runs_directory(store_of(plot)).exists()
        assert len(first[0]) + sum(len(keys) for keys, _ in parts) == len(expected)
    finally:
        source.close()


def test_up_to_a_txid_no_run_leads_beyond_it(plot: Plot) -> None:
    instance, known = plot.lab.open(), meta(plot)
    first, second = runs_of(plot)
    with open_log(instance) as log:
        for until, count in [(known.applied, 0), (first.last_txid - 1, 0), (first.last_txid, 1), (second.last_txid, 2)]:
            assert len(find_runs(instance, store_of(plot), known, log, known.applied, until)) == count


def test_nothing_is_merged_with_a_store_that_took_the_place_of_another(plot: Plot) -> None:
    """A replay may install a store at another position: the merge result would lack the entries between."""
    instance = plot.lab.open()
    path = store_of(plot)
    with Store.open(path, write=True) as store:
        meta = store.read_meta()
        memtable = Memtable(base=meta.applied + 3)
        key = key_of(1)
        memtable.put_records([key], [value_of(key, meta.applied + 4, b"{}")])
        done = merge_store(instance, store, memtable, AppliedPosition(meta.lineage, meta.applied + 4))
        assert (done, store.read_meta(), len(memtable), memtable.base) == (None, meta, 0, meta.applied + 4)
    sound(plot)


def test_what_expires_is_left_out_of_a_merge(tmp_path: Path) -> None:
    plot = Plot(tmp_path / "lab")
    grown(plot)
    with small_memory():
        plot.publish("q", range(100, 130))
        plot.lab.clock.tick(31)
        assert read_meta(plot.lab.store("q"), plot.lab.open()).records > 30
        plot.publish("q", range(130, 150))
    after = read_meta(plot.lab.store("q"), plot.lab.open())
    assert (after.records, after.removal_mark) == (20, plot.lab.clock.at)
    assert plot.contents() == plot.book.final(plot.lab.clock.at)
    assert problems(plot.lab) == []
    assert rebuilt_is_live(plot.lab) is None


def test_topics_without_a_journal_have_no_runs(tmp_path: Path) -> None:
    plot = Plot(tmp_path / "lab")
    grown(plot)

    def told() -> None:
        assert not build_runs_directory(plot.lab.store("a")).exists()

    with small_memory():
        plot.publish("a", range(40), told=told)
    assert plot.contents() == plot.book.final(plot.lab.clock.at)


def past_of(plot: Plot, instants: list[int]) -> list[object]:
    """Return everything that can be queried of the past of h: states, versions of its keys, and its digest."""
    topic = plot.lab.open().topic("h")
    states = [{row.key: row.value for row in topic.query(at=instant).records()} for instant in instants]
    texts = [str(number) for number in range(50)]
    batch, missing = read_key_versions(topic.instance, topic.target, texts, fields=True)
    found = [(one.key, one.value, one.until, one.lossy) for one in batch.records]
    return [states, found, missing, plot.lab.digest("h")]


def test_versions_are_read_through_runs_and_merged(tmp_path: Path) -> None:
    """Every version in the runs can be read from them, from the merged store and from a rebuilt one."""
    plot = Plot(tmp_path / "lab")
    grown(plot)
    instants = [plot.lab.clock.at]
    files: dict[str, bytes] = {}

    def told() -> None:
        plot.lab.clock.tick(3)
        instants.append(plot.lab.clock.at)
        if len(instants) == 12:
            files.update(read_files(plot.root))

    with small_memory():
        plot.publish("h", [*range(20, 44), *range(20, 40, 3), 20, 3, 1], told=told)
    after = past_of(plot, instants)
    assert not build_runs_directory(plot.lab.store("h")).exists()
    inode = plot.lab.store("h").stat().st_ino
    assert rebuilt_is_live(plot.lab) is None
    assert problems(plot.lab) == []
    plot.lab.open().topic("h").replay(rebuild=True)
    assert plot.lab.store("h").stat().st_ino != inode
    assert past_of(plot, instants) == after
    # the state in the middle of the session: runs, and a deletion after them
    put_files(plot.root, files)
    plot.book.acknowledged["journal"] = 0
    known = read_meta(plot.lab.store("h"), plot.lab.open())
    with open_log(plot.lab.open()) as log:
        find = partial(find_runs, plot.lab.open(), plot.lab.store("h"), known, log, known.applied)
        assert len(find(every=True)) >= 2 and find() == []
    before = past_of(plot, instants)
    for path in find_run_files(plot.lab.store("h")).values():
        path.unlink()
    assert past_of(plot, instants) == before
    # in place, and through a merge
    inode = plot.lab.store("h").stat().st_ino
    put_in_place = plot.lab.open().topic("h").publish([b'{"t":"h","id":20,"v":-1}'])
    expected = past_of(plot, instants)
    put_files(plot.root, files)
    with small_memory():
        merged = plot.lab.open().topic("h").publish([b'{"t":"h","id":20,"v":-1}'])
    assert not build_runs_directory(plot.lab.store("h")).exists()
    assert past_of(plot, instants) == expected != before
    assert (merged.last_txid, plot.lab.store("h").stat().st_ino != inode) == (put_in_place.last_txid, True)
    assert rebuilt_is_live(plot.lab) is None
    assert problems(plot.lab) == []


def test_a_damaged_run_of_a_topic_with_history(plot: Plot) -> None:
    store = plot.lab.store("h")
    instants = [plot.lab.clock.at]
    before = past_of(plot, instants)
    first = SortedRun(min(find_run_files(store).items())[1])
    assert first.every
    whole = bytearray(first.path.read_bytes())
    whole[-6] ^= 1
    put(first.path, bytes(whole))
    assert past_of(plot, instants) == before
    # a run of an earlier configuration without History
    kept = first.read_changes(0, 1)
    write_run(store, first.state, first.base, 1, [kept], SEAM)
    assert past_of(plot, instants) == before


def test_a_small_change_of_a_large_store_goes_into_it_in_place(tmp_path: Path) -> None:
    plot = Plot(tmp_path / "lab")
    plot.publish("j", range(200), batch=50)
    inode = plot.lab.store("j").stat().st_ino
    with small_memory():
        limits.MEMTABLE_LIMITS.runs_share = 4
        plot.publish("j", range(30), batch=6)
        assert plot.lab.store("j").stat().st_ino == inode
        plot.publish("j", range(300, 400), batch=6)
    # the second session changed more than a quarter, switched to runs, and was merged at its end
    assert plot.lab.store("j").stat().st_ino != inode
    assert not build_runs_directory(plot.lab.store("j")).exists()
    assert plot.contents() == plot.book.final(plot.lab.clock.at)
