"""The bookmark store in a file: its content, and the state after a crash, disk faults, damage or other writers."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sowctl.engine.subscriptions.bookmark_stores import filecodec
from sowctl.engine.subscriptions.bookmark_stores.file import FileStore
from sowctl.engine.subscriptions.bookmark_stores.protocol import (
    NOTHING_ACKNOWLEDGED,
    AcknowledgedMessages,
    PlaceAdvance,
    StoredPlace,
    Subscriber,
)
from sowctl.engine.subscriptions.limits import SUBSCRIPTION_LIMITS
from sowctl.errors import DamageError, SowError, StorageError, VersionError
from sowctl.identity.bookmarks import Bookmark
from sowctl.seam import SEAM, Seam
from tests.support.crashstates import Recorder, Rename
from tests.support.faults import CountingSeam, FailAt, KillAt, ShortWriteAt
from tests.support.processes import Child

R = TypeVar("R")
START = 1_767_600_000_000_000
A, B = Subscriber("c", "1"), Subscriber("c", "2")
GOLDEN = Path(__file__).parents[2] / "formats" / "v1" / "store.bookmarks"


class Rising:
    """A clock that advances by a second on each call."""

    def __init__(self) -> None:
        self.at = START

    def __call__(self) -> int:
        self.at += 1_000_000
        return self.at


def opened(path: Path, seam: Seam = SEAM) -> FileStore:
    return FileStore(path, seam, Rising())


def seen(path: Path) -> dict[Subscriber, tuple[str, AcknowledgedMessages]]:
    """Return the state that another process reads."""
    store = opened(path)
    return {row.who: (row.bookmark, store.read_acknowledged(row.who)) for row in store.list_places()}


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewrite files sooner, so that small files show it."""
    monkeypatch.setattr(SUBSCRIPTION_LIMITS, "rewrite_min_bytes", 600)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.bookmarks"


def test_places_are_kept(path: Path) -> None:
    store = opened(path)
    assert (store.list_places(), store.read_place(A), store.read_acknowledged(A), store.remove_place(A)) == (
        [],
        None,
        NOTHING_ACKNOWLEDGED,
        False,
    )
    assert not path.exists()
    store.set_place(A, "[20260105T000000:20260106T000000)")
    store.advance_place(B, PlaceAdvance("1|5|", {1: 5}))
    expected = [
        StoredPlace(A, "[20260105T000000:20260106T000000)", START + 1_000_000),
        StoredPlace(B, "1|5|", START + 2_000_000),
    ]
    assert store.list_places() == opened(path).list_places() == expected
    assert opened(path).read_place(B) == expected[1]
    assert store.remove_place(A)
    store.close()
    assert opened(path).list_places() == [expected[1]]
    assert path.stat().st_mode & 0o777 == 0o640


def test_what_was_acknowledged_out_of_order_is_known(path: Path) -> None:
    store = opened(path)
    store.advance_place(A, PlaceAdvance("1|5|", {1: 5, 2: 9}, [Bookmark(1, 8), Bookmark(2, 12)]))
    store.advance_place(A, PlaceAdvance(None, {}, [Bookmark(3, 1)]))
    memory = opened(path).read_acknowledged(A)
    assert (
        memory
        == store.read_acknowledged(A)
        == AcknowledgedMessages({1: 5, 2: 9}, frozenset({Bookmark(1, 8), Bookmark(2, 12), Bookmark(3, 1)}))
    )
    asked = [(1, 4), (1, 5), (1, 6), (1, 8), (2, 9), (2, 12), (3, 0), (3, 1), (4, 1)]
    assert [memory.contains_message(*mark) for mark in asked] == [
        True,
        True,
        False,
        True,
        True,
        True,
        False,
        True,
        False,
    ]
    # Acknowledgements before the position are dropped.
    store.advance_place(A, PlaceAdvance("1|8|", {1: 8, 3: 1}))
    assert opened(path).read_acknowledged(A) == AcknowledgedMessages({1: 8, 2: 9, 3: 1}, frozenset({Bookmark(2, 12)}))
    # Setting the position back requests the messages again.
    store.set_place(A, "1|2|")
    assert opened(path).read_acknowledged(A) == NOTHING_ACKNOWLEDGED
    store.advance_place(B, PlaceAdvance(None, {}, [Bookmark(1, 3)]))
    assert seen(path)[B] == ("0", AcknowledgedMessages({}, frozenset({Bookmark(1, 3)})))


def test_a_file_is_written_anew_when_it_is_loose(path: Path) -> None:
    store, other = opened(path), opened(path)
    other.set_place(B, "1|1|")
    path.chmod(0o604)
    inode, largest = path.stat().st_ino, 0
    for number in range(3000):
        store.advance_place(A, PlaceAdvance(f"1|{number}|", {1: number}))
        largest = max(largest, path.stat().st_size)
    assert SUBSCRIPTION_LIMITS.rewrite_min_bytes - 100 < largest <= SUBSCRIPTION_LIMITS.rewrite_min_bytes
    assert path.stat().st_size < SUBSCRIPTION_LIMITS.rewrite_min_bytes
    assert path.stat().st_ino != inode
    assert path.stat().st_mode & 0o777 == 0o604
    assert list(path.parent.iterdir()) == [path]
    # A store with the old file open continues with the new one.
    other.advance_place(B, PlaceAdvance("1|2|", {1: 2}))
    assert seen(path) == {
        A: ("1|2999|", AcknowledgedMessages({1: 2999}, frozenset())),
        B: ("1|2|", AcknowledgedMessages({1: 2}, frozenset())),
    }


def test_a_file_that_is_full_of_rows_is_left_as_it_is(path: Path) -> None:
    store = opened(path)
    for number in range(400):
        store.set_place(Subscriber("c" * 200, str(number)), "1|1|")
    inode = path.stat().st_ino
    assert path.stat().st_size > SUBSCRIPTION_LIMITS.rewrite_min_bytes
    store.set_place(A, "1|1|")
    assert path.stat().st_ino == inode


def test_a_removed_file_is_made_again(path: Path) -> None:
    store = opened(path)
    store.set_place(A, "1|1|")
    store.set_place(B, "1|1|")
    path.unlink()
    assert store.list_places() == []
    store.advance_place(A, PlaceAdvance("1|2|", {1: 2}))
    assert seen(path) == {A: ("1|2|", AcknowledgedMessages({1: 2}, frozenset()))}


def test_several_processes_write_one_file(path: Path) -> None:
    def work(number: int) -> Callable[[Child], None]:
        def run(child: Child) -> None:
            store = opened(path)
            for step in range(300):
                store.advance_place(Subscriber("c", str(number)), PlaceAdvance(f"1|{step}|", {1: step}))

        return run

    children = [Child(work(number)) for number in range(3)]
    for child in children:
        assert child.join() == 0
    assert {who.sub_id: found[0] for who, found in seen(path).items()} == dict.fromkeys("012", "1|299|")


def script(store: FileStore, acknowledge: Callable[[], None]) -> None:
    """Run every kind of change; ``acknowledge`` is called after each."""
    steps: list[Callable[[], object]] = [
        lambda: store.set_place(A, "0"),
        lambda: store.advance_place(A, PlaceAdvance("1|1|", {1: 1}, [Bookmark(2, 5)])),
        lambda: store.advance_place(B, PlaceAdvance("1|2|", {1: 2}, [Bookmark(1, 4), Bookmark(1, 5)])),
        lambda: store.advance_place(B, PlaceAdvance("1|5|", {1: 5})),
        lambda: store.remove_place(A),
        # Large enough to trigger a rewrite of the file.
        lambda: store.set_place(B, ",".join(f"{number}|1|" for number in range(150))),
        lambda: store.set_place(B, "1|6|"),
        lambda: store.advance_place(A, PlaceAdvance("3|1|", {3: 1}, [Bookmark(3, 3)])),
    ]
    for step in steps:
        step()
        acknowledge()


def expected_states(directory: Path) -> list[dict[Subscriber, tuple[str, AcknowledgedMessages]]]:
    """Return the visible state after each step of the script, beginning with the empty one."""
    directory.mkdir()
    path = directory / "model.bookmarks"
    states = [seen(path)]
    script(opened(path), lambda: states.append(seen(path)))
    return states


@pytest.mark.usefixtures("tight")
def test_what_a_power_cut_leaves(tmp_path: Path) -> None:
    states = expected_states(tmp_path / "model")
    place = tmp_path / "disk"
    place.mkdir()
    recorder = Recorder(place)
    script(opened(place / "a.bookmarks", recorder), recorder.acknowledge)
    count = 0
    for state in recorder.states():
        count += 1
        crashed = tmp_path / "crashed"
        state.materialise(crashed)
        found = seen(crashed / "a.bookmarks")
        # Every reported change is visible, and at most the pending one besides.
        allowed = states[state.acknowledged : state.acknowledged + 2]
        assert found in allowed, state.label
        store = opened(crashed / "a.bookmarks")
        store.advance_place(A, PlaceAdvance("9|9|", {9: 9}))
        again = seen(crashed / "a.bookmarks")
        assert again[A][0] == "9|9|", state.label
        assert {who: again[who] for who in again if who != A} == {who: found[who] for who in found if who != A}
    assert count > 50
    assert any(isinstance(operation, Rename) for operation in recorder.operations)


class OtherWriter(Recorder):
    """Let another process store a position of B right after the file was renamed or created."""

    def __init__(self, root: Path, point: str) -> None:
        super().__init__(root)
        self.point = point

    def call(self, point: str, function: Callable[..., R], /, *args: Any, **kwargs: Any) -> R:  # type: ignore[override]
        result = super().call(point, function, *args, **kwargs)
        if point == self.point:
            self.point = ""
            opened(self.root / "a.bookmarks", self).set_place(B, "1|2|")
            self.acknowledge()
        return result


@pytest.mark.parametrize("point", ["file.open", "file.rename"])
@pytest.mark.usefixtures("tight")
def test_a_power_cut_after_another_process_wrote_to_a_new_file(tmp_path: Path, point: str) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    recorder = OtherWriter(place, point)
    store = opened(place / "a.bookmarks", recorder)
    while recorder.point:
        store.set_place(A, ",".join(f"{number}|1|" for number in range(20)))
    for state in recorder.states():
        if state.acknowledged:
            state.materialise(tmp_path / "crashed")
            assert B in seen(tmp_path / "crashed" / "a.bookmarks"), state.label


class InterruptedBeforeSync(Recorder):
    """Fail the first sync of the directory."""

    failed = False

    def call(self, point: str, function: Callable[..., R], /, *args: Any, **kwargs: Any) -> R:  # type: ignore[override]
        if point == "dir.sync" and not self.failed:
            self.failed = True
            raise OSError(errno.EIO, "interrupted")
        return super().call(point, function, *args, **kwargs)


def test_a_power_cut_after_a_file_whose_maker_did_not_sync_its_name(tmp_path: Path) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    recorder = InterruptedBeforeSync(place)
    with pytest.raises(StorageError):
        opened(place / "a.bookmarks", recorder).set_place(A, "1|1|")
    opened(place / "a.bookmarks", recorder).set_place(B, "1|2|")
    recorder.acknowledge()
    for state in recorder.states():
        if state.acknowledged:
            state.materialise(tmp_path / "crashed")
            assert B in seen(tmp_path / "crashed" / "a.bookmarks"), state.label


@pytest.mark.usefixtures("tight")
def test_a_store_that_never_syncs_would_be_noticed(tmp_path: Path) -> None:
    states = expected_states(tmp_path / "model")
    place = tmp_path / "disk"
    place.mkdir()
    recorder = Recorder(place, forget_syncs=True)
    script(opened(place / "a.bookmarks", recorder), recorder.acknowledge)
    for state in recorder.states():
        crashed = tmp_path / "crashed"
        state.materialise(crashed)
        try:
            if seen(crashed / "a.bookmarks") not in states[state.acknowledged : state.acknowledged + 2]:
                return
        except SowError:
            return
    pytest.fail("no state showed that nothing had been synced")


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.usefixtures("tight")
def test_the_nth_call_fails(tmp_path: Path, code: int, after: bool) -> None:
    states = expected_states(tmp_path / "model")
    counting = CountingSeam()
    script(opened(tmp_path / "count.bookmarks", counting), lambda: None)
    assert "file.rename" in counting.points
    # The first call looks for a file that does not exist yet: its creation reports the error itself.
    for number in range(1 + after, counting.count + 1):
        path = tmp_path / f"{number}.bookmarks"
        done: list[int] = []
        with pytest.raises(StorageError) as caught:
            store = opened(path, FailAt(number, code, after=after))
            script(store, partial(done.append, 1))
        assert caught.value.code == "SOW-BKM-003", counting.points[number - 1]
        # A failed change may be visible or not.
        assert seen(path) in states[len(done) : len(done) + 2], counting.points[number - 1]
        # A failed read does no harm; after a failed write, no other may follow.
        if done and counting.points[number - 1] != "file.read":
            with pytest.raises(StorageError):
                store.set_place(A, "1|1|")
        opened(path).set_place(A, "7|7|")
        assert seen(path)[A][0] == "7|7|"
        path.unlink()
    assert not list(tmp_path.glob("*.new-*"))


@pytest.mark.usefixtures("tight")
def test_the_nth_write_is_short(tmp_path: Path) -> None:
    states = expected_states(tmp_path / "model")
    counting = CountingSeam(("file.pwrite",))
    script(opened(tmp_path / "count.bookmarks", counting), lambda: None)
    for number in range(1, counting.count + 1):
        path = tmp_path / f"{number}.bookmarks"
        script(opened(path, ShortWriteAt(number)), lambda: None)
        assert seen(path) == states[-1]
        full = tmp_path / f"full{number}.bookmarks"
        done: list[int] = []
        with pytest.raises(StorageError):
            script(opened(full, ShortWriteAt(number, then=errno.ENOSPC)), partial(done.append, 1))
        assert seen(full) in states[len(done) : len(done) + 2]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.usefixtures("tight")
def test_killed_at_the_nth_call(tmp_path: Path, after: bool) -> None:
    states = expected_states(tmp_path / "model")
    counting = CountingSeam()
    script(opened(tmp_path / "count.bookmarks", counting), lambda: None)
    for number in range(1, counting.count + 1):
        path = tmp_path / f"{number}.bookmarks"
        told, voice = os.pipe()

        def work(child: Child, path: Path = path, number: int = number, voice: int = voice) -> None:
            script(opened(path, KillAt(number, after=after)), lambda: os.write(voice, b"."))

        child = Child(work)
        os.close(voice)
        done = 0
        while some := os.read(told, 100):
            done += len(some)
        os.close(told)
        assert child.join() != 0
        assert seen(path) in states[done : done + 2], counting.points[number - 1]
        opened(path).set_place(A, "7|7|")
        assert seen(path)[A][0] == "7|7|"


def test_every_truncation_is_a_state_that_was(tmp_path: Path) -> None:
    path = tmp_path / "a.bookmarks"
    store = opened(path)
    sizes, states = [0], [seen(path)]
    for step in range(6):
        store.advance_place(A if step % 2 else B, PlaceAdvance(f"1|{step}|", {1: step}, [Bookmark(2, step + 7)]))
        sizes.append(path.stat().st_size)
        states.append(seen(path))
    raw = path.read_bytes()
    for size in range(len(raw)):
        path.write_bytes(raw[:size])
        step = max(number for number, end in enumerate(sizes) if end <= size)
        assert seen(path) == states[step]
        # Unwritten space reads as zeros.
        path.write_bytes(raw[:size].ljust(sizes[step] + 30 if step else min(size + 3, 16), b"\0"))
        if step or size == 0:
            assert seen(path) == states[step]


def test_damage_before_the_last_block_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.bookmarks"
    store = opened(path)
    for step in range(4):
        store.advance_place(A, PlaceAdvance(f"1|{step}|", {1: step}))
    raw = path.read_bytes()
    last = raw.rindex(b"1|3|")
    for place in range(len(raw)):
        path.write_bytes(raw[:place] + bytes([raw[place] ^ 0x55]) + raw[place + 1 :])
        try:
            found = seen(path)
        except (DamageError, VersionError) as error:
            assert error.code in ("SOW-BKM-002", "SOW-BKM-004")
            with pytest.raises(type(error)):
                opened(path).set_place(A, "0")
        else:
            # Only damage that looks like an interrupted write is accepted: in the last block.
            assert place > last - 30
            assert found[A][0] == "1|2|"


@pytest.mark.parametrize("raw", [b"x", b"{}" * 50, b"SOWRUN\0\0" + bytes(60), b"\0" * 17, b"SOWBKM\0\1"])
def test_other_files_are_refused(path: Path, raw: bytes) -> None:
    path.write_bytes(raw)
    with pytest.raises(DamageError) as caught:
        opened(path)
    assert (caught.value.code, caught.value.place) == ("SOW-BKM-002", str(path))
    assert path.read_bytes() == raw


def test_blocks_of_another_meaning_are_refused(path: Path) -> None:
    import msgpack

    for body in (
        [9, "c", "1"],
        [1, "c", "1"],
        [1, "", "1", "0", 1],
        {},
        [],
        7,
        [0, [["c"]]],
        [2, "c", "1", "0", 1, [[1]], []],
    ):
        path.write_bytes(filecodec.encode_header() + filecodec._pack_body(body))  # type: ignore[arg-type]
        with pytest.raises(DamageError) as caught:
            opened(path)
        assert caught.value.code == "SOW-BKM-002", body
        assert msgpack.packb(body) in path.read_bytes()


def test_a_later_version_is_told(path: Path) -> None:
    from sowctl.checksum import crc32

    front = b"SOWBKM\0\0" + bytes([2, 0, 0, 0])
    path.write_bytes(front + crc32(front).to_bytes(4, "little") + b"what follows")
    with pytest.raises(VersionError) as caught:
        opened(path)
    assert (caught.value.code, caught.value.exit_status) == ("SOW-BKM-004", 9)


def test_what_cannot_be_read_or_made_is_told(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        opened(tmp_path)
    with pytest.raises(StorageError):
        opened(tmp_path / "none" / "a.bookmarks").set_place(A, "0")


TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)
WHO = st.builds(Subscriber, st.sampled_from(["c", "d"]), st.sampled_from(["1", "2"]))
NUMBERS = st.integers(0, 6)
STEPS = st.one_of(
    st.tuples(st.just("put"), WHO, TEXTS),
    st.tuples(st.just("purge"), WHO),
    st.tuples(
        st.just("advance"),
        WHO,
        st.builds(
            PlaceAdvance,
            TEXTS | st.none(),
            st.dictionaries(st.integers(1, 3), NUMBERS, max_size=2),
            st.lists(st.builds(Bookmark, st.integers(1, 3), NUMBERS), max_size=3, unique=True),
        ),
    ),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEPS, max_size=15), st.lists(st.integers(0, 1), min_size=15, max_size=15))
def test_two_users_of_a_file_see_what_a_model_says(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, ...]], turns: list[int]
) -> None:
    path = tmp_path_factory.mktemp("model") / "a.bookmarks"
    stores = [opened(path), opened(path)]
    model: dict[Subscriber, tuple[str, dict[int, int], set[Bookmark]]] = {}
    for (kind, who, *rest), turn in zip(steps, turns, strict=False):
        assert isinstance(who, Subscriber)
        if kind == "put":
            stores[turn].set_place(who, rest[0])
            model[who] = rest[0], {}, set()
        elif kind == "purge":
            assert stores[turn].remove_place(who) == (model.pop(who, None) is not None)
        else:
            step = rest[0]
            assert isinstance(step, PlaceAdvance)
            stores[turn].advance_place(who, step)
            place, latest, beyond = model.get(who, ("0", {}, set()))
            for publisher, sequence in step.passed.items():
                latest = latest | {publisher: max(sequence, latest.get(publisher, -1))}
            kept = {mark for mark in beyond | {*step.beyond} if mark.sequence > latest.get(mark.publisher, -1)}
            model[who] = place if step.bookmark is None else step.bookmark, latest, kept
    expected = {
        who: (place, AcknowledgedMessages(latest, frozenset(beyond))) for who, (place, latest, beyond) in model.items()
    }
    assert seen(path) == expected
    for store in stores:
        assert {row.who: row.bookmark for row in store.list_places()} == {
            who: found[0] for who, found in expected.items()
        }
        store.close()


def write_sample(path: Path) -> None:
    """Write the sample file of version 1, as the golden file was made. It never changes."""
    store = opened(path)
    store.set_place(Subscriber("trackedClient", "1"), "13948331409633568391|1465596069899000013|")
    store.set_place(A, "[20260105T000000:20260106T000000)")
    store.advance_place(B, PlaceAdvance("1|5|", {1: 5, 2: (1 << 64) - 1}, [Bookmark(1, 8), Bookmark(3, 1)]))
    store.advance_place(B, PlaceAdvance(None, {}, [Bookmark(3, 2)]))
    store.set_place(Subscriber("gone", "\N{GREEK SMALL LETTER ALPHA}"), "0|1|")
    store.remove_place(Subscriber("gone", "\N{GREEK SMALL LETTER ALPHA}"))
    store.close()


def test_the_golden_file_is_read_and_written(tmp_path: Path) -> None:
    expected = {
        Subscriber("trackedClient", "1"): ("13948331409633568391|1465596069899000013|", NOTHING_ACKNOWLEDGED),
        A: ("[20260105T000000:20260106T000000)", NOTHING_ACKNOWLEDGED),
        B: (
            "1|5|",
            AcknowledgedMessages({1: 5, 2: (1 << 64) - 1}, frozenset({Bookmark(1, 8), Bookmark(3, 1), Bookmark(3, 2)})),
        ),
    }
    assert seen(GOLDEN) == expected
    write_sample(tmp_path / "a.bookmarks")
    assert (tmp_path / "a.bookmarks").read_bytes() == GOLDEN.read_bytes()
    whole = tmp_path / "whole.bookmarks"
    state: filecodec.StoreState = {}
    filecodec.apply_blocks(state, GOLDEN.read_bytes(), filecodec.HEADER_BYTES, "")
    whole.write_bytes(filecodec.encode_header() + filecodec.pack_state(state))
    assert seen(whole) == expected
    assert json.loads(json.dumps([row.bookmark for row in opened(GOLDEN).list_places()])) == [
        "[20260105T000000:20260106T000000)",
        "1|5|",
        "13948331409633568391|1465596069899000013|",
    ]
