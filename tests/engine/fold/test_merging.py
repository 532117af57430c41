"""Other processes work while a store and its runs are merged without a lock: they keep running, and nothing is lost."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from sowctl.engine.fold import limits, runs
from sowctl.engine.fold.compaction import StoreMerge
from sowctl.engine.fold.runs import compact_runs, find_runs
from sowctl.engine.sources.current import open_current_source
from sowctl.engine.topics.positions import open_log, read_meta
from sowctl.engine.writing.session import WriteSession
from sowctl.seam import SEAM
from sowctl.store.builder import is_being_built
from sowctl.store.env import Store
from sowctl.store.sortedrun import SortedRun, build_runs_directory, find_run_files, is_being_written
from tests.support.verbs import Plot, flushed, loading, loading_history, problems, rebuilt_is_live, small_memory

ROOT = Path(__file__).parents[3]


def elsewhere(plot: Plot, *arguments: str, given: str = "") -> str:
    """Run a command in another process and return its output."""
    command = [sys.executable, "-m", "sowctl", "-c", str(plot.lab.config), "--lock-wait", "0", *arguments]
    return subprocess.run(command, input=given.encode(), check=True, capture_output=True, cwd=ROOT).stdout.decode()


def publish_elsewhere(plot: Plot, topic: str, ids: Iterable[int]) -> None:
    events = plot.fresh(topic, ids)
    plot.book.hand_in(events)
    elsewhere(plot, "publish", topic, given="".join(f"{event.payload}\n" for event in events))


@pytest.fixture
def plot(tmp_path: Path) -> Plot:
    made = Plot(tmp_path / "lab")
    flushed(made)
    return made


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[StoreMerge], None]], list[int | None]]:
    """Set an action to run once while a merge fills its file; return the change counts of merges, None if abandoned."""
    fill, place = StoreMerge.fill_store, StoreMerge.install_store
    done: list[int | None] = []

    def use(what: Callable[[StoreMerge], None]) -> list[int | None]:
        waiting = [what]

        def filling(self: StoreMerge) -> None:
            fill(self)
            if waiting:
                waiting.pop()(self)

        def placing(self: StoreMerge) -> object:
            found = place(self)
            done.append(found.changes if found is not None else None)
            return found

        monkeypatch.setattr(StoreMerge, "fill_store", filling)
        monkeypatch.setattr(StoreMerge, "install_store", placing)
        return done

    return use


@pytest.mark.parametrize(("topic", "load"), [("j", loading), ("h", loading_history)])
def test_others_publish_while_a_merge_fills_its_file(
    plot: Plot, meanwhile: Callable[..., list[int | None]], topic: str, load: Callable[..., None]
) -> None:
    store = plot.lab.store(topic)
    seen: list[int] = []

    def publish(merging: StoreMerge) -> None:
        assert is_being_built(store)
        before = store.stat().st_ino, len(find_run_files(store))
        publish_elsewhere(plot, topic, range(200, 205))
        # It does not wait for a lock, and leaves the runs to the process that merges them.
        assert (store.stat().st_ino, len(find_run_files(store))) == before
        found = elsewhere(plot, "query", topic, "/id >= 200", "--format", "raw")
        seen.extend(json.loads(line)["id"] for line in found.splitlines())

    done = meanwhile(publish)
    load(plot, SEAM)
    assert sorted(seen) == list(range(200, 205)) and done and None not in done
    assert not is_being_built(store)
    # The messages of the other process follow in the journal, or were applied by a later merge.
    found = plot.contents()
    assert set(range(200, 205)) | set(range(60, 72)) <= set(found[topic])
    assert problems(plot.lab) == []
    assert rebuilt_is_live(plot.lab) is None
    publish_elsewhere(plot, topic, range(210, 211))
    assert plot.lab.open().topic(topic).info().lag == 0
    assert set(plot.contents()[topic]) == set(found[topic]) | {210}


def test_a_merge_is_given_up_where_another_process_has_changed_the_store(
    plot: Plot, meanwhile: Callable[..., list[int | None]]
) -> None:
    def delete(merging: StoreMerge) -> None:
        # A delete applies all runs to the store before it begins.
        elsewhere(plot, "delete", "j", "--filter", "/id IN (20, 61)", "--yes")
        assert not build_runs_directory(plot.lab.store("j")).exists()

    done = meanwhile(delete)
    loading(plot, SEAM)
    assert None in done
    there = set(plot.contents()["j"])
    assert 20 not in there and {21, 60, 62, 83} <= there
    assert problems(plot.lab) == []
    assert rebuilt_is_live(plot.lab) is None


def delete(plot: Plot) -> None:
    plot.delete("j", [20, 61])


def replay(plot: Plot) -> None:
    plot.replay()


def publish_little(plot: Plot) -> None:
    """Publish too little for a bulk load, in a session that finds runs of others."""
    with small_memory():
        limits.MEMTABLE_LIMITS.runs_share = 0
        plot.publish("j", range(40, 52))


@pytest.mark.parametrize("verb", [delete, replay, publish_little], ids=lambda verb: verb.__name__)
@pytest.mark.parametrize("others", [1, 2])
def test_commands_that_find_runs_merge_them_without_the_lock(
    plot: Plot, meanwhile: Callable[..., list[int | None]], verb: Callable[[Plot], None], others: int
) -> None:
    """They need all changes in the store, and these are too many for one transaction."""
    store = plot.lab.store("j")

    def publish(merging: StoreMerge) -> None:
        assert is_being_built(store)
        for number in range(others):
            publish_elsewhere(plot, "j", range(200 + 5 * number, 205 + 5 * number))
        found = elsewhere(plot, "query", "j", "/id >= 200", "--format", "raw")
        assert len(found.splitlines()) == 5 * others

    done = meanwhile(publish)
    with small_memory():
        verb(plot)
    assert done and None not in done
    assert not is_being_built(store)
    assert set(range(200, 200 + 5 * others)) <= set(plot.contents()["j"])
    assert problems(plot.lab) == []
    assert rebuilt_is_live(plot.lab) is None


@pytest.mark.parametrize("topic", ["j", "h"])
@pytest.mark.parametrize("first", [False, True])
def test_others_publish_while_a_bulk_load_is_merged(
    tmp_path: Path, meanwhile: Callable[..., list[int | None]], topic: str, first: bool
) -> None:
    """Into a store with records, and into an empty one: the lock is free, and the whole load is visible."""
    plot = Plot(tmp_path / "lab")
    if not first:
        plot.publish(topic, range(9))
    store = plot.lab.store(topic)

    def publish(merging: StoreMerge) -> None:
        assert is_being_built(store)
        found = elsewhere(plot, "query", topic, "/id >= 60", "--format", "raw")
        assert {json.loads(line)["id"] for line in found.splitlines()} == set(range(60, 84))
        publish_elsewhere(plot, topic, [2, *range(80, 90)])

    done = meanwhile(publish)
    with small_memory():
        plot.load(topic, [*range(60, 84), 60, 2], tasks=4)
    assert done and None not in done
    assert not is_being_built(store)
    plot.book.settle()
    assert plot.contents() == plot.book.final(plot.lab.clock.at)
    assert problems(plot.lab) == []
    assert rebuilt_is_live(plot.lab) is None
    publish_elsewhere(plot, topic, [99])
    assert plot.lab.open().topic(topic).info().lag == 0
    assert not build_runs_directory(store).exists()


def test_a_rebuild_may_come_first(plot: Plot, meanwhile: Callable[..., list[int | None]]) -> None:
    done = meanwhile(lambda merging: elsewhere(plot, "replay", "j", "--rebuild"))
    loading(plot, SEAM)
    assert None in done
    plot.book.settle()
    assert plot.contents() == plot.book.final(plot.lab.clock.at)
    assert read_meta(plot.lab.store("j"), plot.lab.open()).records == len(plot.contents()["j"])
    assert problems(plot.lab) == []
    assert rebuilt_is_live(plot.lab) is None


def test_others_publish_while_a_first_load_fills_its_file(
    tmp_path: Path, meanwhile: Callable[..., list[int | None]]
) -> None:
    plot = Plot(tmp_path / "lab")
    store = plot.lab.store("j")

    def publish(merging: StoreMerge) -> None:
        # The memory goes into the new file unchanged, and the other process leaves the store to this one.
        assert is_being_built(store) and not build_runs_directory(store).exists()
        before = store.read_bytes()
        publish_elsewhere(plot, "j", range(3, 6))
        assert store.read_bytes() == before

    done = meanwhile(publish)
    with small_memory():
        plot.publish("j", range(5), batch=5)
        assert done == [5]
        # After the merge, the journal follows.
        assert read_meta(store, plot.lab.open()).records == 5
        assert sorted(plot.contents()["j"]) == list(range(6))
        plot.publish("j", range(4, 24), batch=5)
    plot.book.settle()
    assert plot.contents() == plot.book.final(plot.lab.clock.at)
    assert len(done) > 1 and None not in done
    assert problems(plot.lab) == []
    assert rebuilt_is_live(plot.lab) is None


@pytest.mark.parametrize("batches", [1, 4])
@pytest.mark.parametrize(
    "command", [("replay", "j", "--rebuild"), ("delete", "j", "--filter", "/id IN (2, 3)", "--yes")]
)
def test_a_first_load_is_merged_once_more_where_another_process_has_changed_the_store(
    tmp_path: Path, meanwhile: Callable[..., list[int | None]], command: tuple[str, ...], batches: int
) -> None:
    plot = Plot(tmp_path / "lab")
    done = meanwhile(lambda merging: elsewhere(plot, *command))
    with small_memory():
        plot.publish("j", range(5 * batches), batch=5)
    assert done[0] is None and None not in done[1:]
    gone = {2, 3} if command[0] == "delete" else set()
    assert set(plot.contents()["j"]) == set(range(5 * batches)) - gone
    assert problems(plot.lab) == []
    assert rebuilt_is_live(plot.lab) is None


def test_what_a_dead_process_was_building_is_not_being_built(tmp_path: Path) -> None:
    store = tmp_path / "s.sow"
    (tmp_path / "s.sow.new-1-0").touch()
    assert not is_being_built(store)


def test_a_load_much_larger_than_its_store_has_few_runs(tmp_path: Path) -> None:
    plot = Plot(tmp_path / "lab", journal_size=None)
    plot.publish("j", range(10))
    plot.publish("h", range(10))
    there: dict[str, list[int]] = {"j": [], "h": []}

    def told(topic: str) -> None:
        runs = [SortedRun(path) for path in find_run_files(plot.lab.store(topic)).values()]
        # The runs are contiguous, starting at the position of the store.
        places = sorted((run.base, run.last_txid) for run in runs)
        assert all(before == after for (_, before), (after, _) in pairwise(places))
        there[topic].append(len(runs))

    with small_memory(share=100.0, fan=3):
        plot.publish("j", [*range(10, 200), *range(0, 200, 3)], told=partial(told, "j"))
        plot.publish("h", [*range(10, 100), *range(0, 100, 3)], told=partial(told, "h"))
    assert (max(there["j"]), max(there["h"])) == (6, 5)
    assert plot.contents() == plot.book.final(plot.lab.clock.at)
    assert rebuilt_is_live(plot.lab) is None
    assert problems(plot.lab) == []


@pytest.mark.parametrize("topic", ["j", "h"])
def test_a_reader_that_meets_runs_which_become_one_looks_again(
    plot: Plot, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = plot.contents()[topic]
    store, instance = plot.lab.store(topic), plot.lab.open()
    seen: list[Path] = []
    listed = runs.find_run_files

    def outdated(path: Path) -> dict[tuple[int, int], Path]:
        found = listed(path)
        if not seen and path == store:
            parts = [SortedRun(one) for _, one in sorted(found.items())]
            with Store.open(store, write=False) as opened:
                seen.append(compact_runs(instance, instance.topic(topic).config, opened, parts).path)
            for one in parts:
                one.path.unlink()
        return found

    monkeypatch.setattr(runs, "find_run_files", outdated)
    meta = read_meta(store, instance)
    with open_log(instance) as log:
        found = find_runs(instance, store, meta, log, meta.applied, every=topic == "h")
    assert [run.path for run in found] == seen
    monkeypatch.undo()
    assert plot.contents()[topic] == expected
    assert list(find_run_files(store).values()) == seen
    assert problems(plot.lab) == []


def test_a_run_that_is_being_written_is_left_alone(plot: Plot) -> None:
    store = plot.lab.store("j")
    path = build_runs_directory(store) / "1-2.run.new-1"
    with path.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert is_being_written(path)
        plot.delete("j", [60])
        assert list(build_runs_directory(store).iterdir()) == [path]
    assert not is_being_written(path) and not is_being_written(path.with_name("none"))
    plot.delete("j", [61])
    assert not build_runs_directory(store).exists()


@pytest.mark.parametrize("topic", ["j", "h"])
def test_a_long_tail_of_the_journal_is_read_in_parts(tmp_path: Path, topic: str) -> None:
    """Such a tail remains when a process dies after the sync of a very large delete."""
    plot = Plot(tmp_path / "lab")
    plot.publish(topic, range(60), batch=20)
    old = plot.lab.store(topic).read_bytes()
    plot.delete(topic, [*range(0, 50, 2)])
    plot.publish(topic, [3, 4, *range(80, 86)])
    plot.lab.forget(topic)
    plot.lab.store(topic).write_bytes(old)
    expected = plot.book.final(plot.lab.clock.at)
    digest = plot.lab.digest(topic)
    with small_memory():
        instance = plot.lab.open()
        with closing(open_current_source(instance, instance.topic(topic).config)) as source:
            # Runs of the reader itself, which no other process finds.
            assert source.memtable is not None
            assert len(source.memtable.runs) >= 2 and source.memtable.memory_change_count < 25
            assert not any(run.path.exists() for run in source.memtable.runs)
        assert plot.contents() == expected
        assert plot.lab.digest(topic) == digest
        assert plot.lab.open().topic(topic).info().runs == 0
        assert not build_runs_directory(plot.lab.store(topic)).exists()
        # A writer leaves them for later processes, until it merges.
        writer = plot.open()
        with WriteSession(writer) as session:
            session.open_topic(writer.topic(topic).config)
            assert len(find_run_files(plot.lab.store(topic))) >= 2
        assert plot.contents() == expected
        plot.publish(topic, [99])
        assert not build_runs_directory(plot.lab.store(topic)).exists()
    assert plot.contents() == plot.book.final(plot.lab.clock.at)
    assert rebuilt_is_live(plot.lab) is None
    assert problems(plot.lab) == []
