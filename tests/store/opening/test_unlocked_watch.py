"""Reading without locks, if the lock files are not writable: a result never mixes two states."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sowctl.errors import LockedError, SowError
from sowctl.findings import Finding
from sowctl.seam import SEAM
from sowctl.store.check import StoreCoverage
from sowctl.store.env import Store
from sowctl.store.examine import examine_store
from sowctl.store.opening.access import StoreFiles, can_discard_lock, can_lock, determine_access
from sowctl.store.opening.unlocked_watch import StateWatch, find_overtaken_error
from tests.support.processes import Child
from tests.support.readonly import allow_writing, as_reader, forbid_writing, open_directory
from tests.support.stores import batch, contents, key_of, new_store


@pytest.fixture
def place() -> Iterator[Path]:
    with open_directory() as root:
        yield root


def put(path: Path, txid: int, records: int = 2000) -> None:
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_records(*batch(range(records), txid)))


def read(path: Path) -> tuple[bool, int, int]:
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        records = sum(len(keys) for keys, _ in snapshot.scan_records())
        assert snapshot.read_record(key_of(2)) is not None and snapshot.read_record(key_of(99_999)) is None
        return store.is_unlocked, records, len(list(snapshot.scan_history()))


def test_a_store_whose_lock_files_may_not_be_written(place: Path) -> None:
    path = new_store(place / "x.sow", 300)
    assert read(path) == (False, 300, 0)
    forbid_writing(place)
    before = sorted(place.iterdir())
    assert as_reader(lambda: (read(path), determine_access(path))) == ((True, 300, 0), "unlocked")
    assert sorted(place.iterdir()) == before


def test_without_any_lock_file(place: Path) -> None:
    """A copy of the data file alone, in a directory in which no other file can be created."""
    path = new_store(place / "x.sow", 300)
    shutil.copy(path, place / "y.sow")
    forbid_writing(place)
    assert as_reader(lambda: read(place / "y.sow")) == (True, 300, 0)
    assert not (place / "y.sow-lock").exists()


@pytest.mark.parametrize("writable", [("-lock",), ("-lock", "-gate"), ("-gate",), ()])
def test_a_restored_store_is_not_the_one_of_its_gate(place: Path, writable: tuple[str, ...]) -> None:
    """The lock file may belong to the previous file; only a process that can write the gate can separate them."""
    path = new_store(place / "x.sow", 300)
    shutil.copy(path, place / "copy")
    (place / "copy").replace(path)
    forbid_writing(place)
    for end in writable:
        path.with_name(path.name + end).chmod(0o666)
    assert as_reader(lambda: read(path)) == (True, 300, 0)


def test_a_lock_file_that_may_be_written_is_used(place: Path) -> None:
    path = new_store(place / "x.sow", 300)
    read(path)
    forbid_writing(place)
    StoreFiles.from_path(path).lock.chmod(0o666)
    assert as_reader(lambda: (read(path), determine_access(path))) == ((False, 300, 0), "read")


def test_access(place: Path) -> None:
    path = new_store(place / "x.sow", 3)
    read(path)
    files = StoreFiles.from_path(path)
    assert (determine_access(path), can_lock(files), can_discard_lock(files)) == ("write", True, True)
    forbid_writing(place)
    path.chmod(0)
    assert as_reader(lambda: (determine_access(path), can_discard_lock(files))) == ("none", False)


def test_a_writer_may_not_go_without(place: Path) -> None:
    path = new_store(place / "x.sow", 3)
    forbid_writing(place)

    def write() -> str:
        try:
            Store.open(path, write=True)
        except SowError as error:
            return error.code
        return ""

    write()
    assert as_reader(write) == "SOW-STO-041"


def overlapping(path: Path, read: Callable[[Callable[[], None]], str], commits: int) -> str:
    """Return the output of a child that reads ``path`` without locks, with ``commits`` in the middle of its read."""

    def work(child: Child) -> None:
        def pause() -> None:
            child.say("reading")
            os.read(child.inlet, 1)

        try:
            child.say(read(pause))
        except SowError as error:
            child.say(f"{type(error).__name__} {error.code} {error.exit_status}")

    with Child(work) as child:
        child.wait_for(b"reading")
        for txid in range(commits):
            put(path, 10 + txid)
        child.write(b"x")
        assert child.join() == 0
        return child.lines[-1].decode()


def scanned(path: Path) -> Callable[[Callable[[], None]], str]:
    def run(pause: Callable[[], None]) -> str:
        with Store.open(path, write=False, no_lock=True) as store, store.open_snapshot() as snapshot:
            found = snapshot.scan_records()
            txids = {value[4:12] for value in next(found)[1]}
            pause()
            for _, values in found:
                txids |= {value[4:12] for value in values}
            return str(sorted(int.from_bytes(txid, "little") for txid in txids))

    return run


@pytest.mark.parametrize("commits", [0, 1, 2, 3, 9])
def test_states_are_not_mixed(tmp_path: Path, commits: int) -> None:
    """One transaction changes no page of the previous state; from the second on its pages may be reused."""
    path = new_store(tmp_path / "x.sow", 2000)
    put(path, 5)
    said = overlapping(path, scanned(path), commits)
    assert said == ("[5]" if commits < 2 else "LockedError SOW-STO-061 11")


WAYS = (
    "read_values read_many_values read_values_at locate_values scan_runs scan_history read_versions"
    " iter_expired_keys find_changed_keys read_sequence"
)


def test_every_way_to_read_asks(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 2000)
    for name in WAYS.split():
        arguments = {
            "read_values": ([key_of(1)],),
            "read_many_values": ([key_of(1)],),
            "read_values_at": ([], None),
            "locate_values": (b"",),
            "read_versions": (key_of(1),),
            "iter_expired_keys": (1,),
            "find_changed_keys": (1,),
            "read_sequence": (1,),
        }

        def run(pause: Callable[[], None], name: str = name, given: object = arguments.get(name, ())) -> str:
            with Store.open(path, write=False, no_lock=True) as store, store.open_snapshot() as snapshot:
                pause()
                found = getattr(snapshot, name)(*given)  # type: ignore[misc]
                return str(list(found) if isinstance(found, Iterator) else found)

        assert overlapping(path, run, 2) == "LockedError SOW-STO-061 11", name


def test_a_check_that_was_overtaken_says_so_and_finds_no_damage(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 2000)

    def run(pause: Callable[[], None]) -> str:
        def note(where: str) -> None:
            if where.startswith("records"):
                pause()

        items = list(examine_store(str(path), True, note))
        codes = [item.id for item in items if isinstance(item, Finding)]
        return f"{codes} {[item.status for item in items if isinstance(item, StoreCoverage)]}"

    assert overlapping(path, run, 0) == "[] [0]"
    assert overlapping(path, run, 1) == "[] [0]"
    assert overlapping(path, run, 3) == "['SOW-STO-061'] [11]"


def test_a_file_restored_in_place_is_another_state(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 100)
    older = path.read_bytes()
    for txid in range(5, 10):
        put(path, txid, 100)
    watch = StateWatch(StoreFiles.from_path(path), SEAM)
    watch.begin_state()
    assert watch.is_state_untouched() and find_overtaken_error() is None
    with path.open("r+b") as file:
        file.write(older)
    assert not watch.is_state_untouched()
    assert isinstance(find_overtaken_error(), LockedError)
    watch.close()
    assert find_overtaken_error() is None


def test_the_writer_goes_on_with_locks_afterwards(place: Path) -> None:
    path = new_store(place / "x.sow", 10)
    forbid_writing(place)
    as_reader(lambda: read(path))
    allow_writing(place)
    put(path, 7, 20)
    assert len(contents(path)[0]) == 20
