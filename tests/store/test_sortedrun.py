"""Sorted runs: written changes are read by key and in order; any damage is noticed before the data is used."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.seam import SEAM
from sowctl.store.meta import StoreMeta
from sowctl.store.sortedrun import BadRun, SortedRun, build_runs_directory, find_run_files, write_run
from tests.support.stores import DEFINITION, START, key_of, value_of

STATE = StoreMeta(DEFINITION, lineage=b"l" * 16, applied=90, last_time=START + 90, block=(1, 80, 7))
KEYS = [key_of(number) for number in range(600)]
CHANGES = st.dictionaries(st.sampled_from(KEYS[:40]), st.none() | st.binary(max_size=30), max_size=25)


def written(store: Path, changes: dict[bytes, bytes | None], base: int = 10, state: StoreMeta = STATE) -> SortedRun:
    """Write a run of ``changes``, payloads or None for deletions, as values of txid 50."""
    store.touch()
    keys = sorted(changes)
    values = [stored(key, changes[key]) for key in keys]
    return SortedRun(write_run(store, state, base, len(keys), [(keys, values)], SEAM))


def stored(key: bytes, payload: bytes | None) -> bytes | None:
    return None if payload is None else value_of(key, 50, payload)


@given(changes=CHANGES, asked=st.sets(st.sampled_from(KEYS[:40])))
def test_what_was_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, changes: dict[bytes, bytes | None], asked: set[bytes]
) -> None:
    store = tmp_path_factory.mktemp("run") / "s.sow"
    run = written(store, changes)
    assert (run.base, run.last_txid, len(run), run.state) == (10, 90, len(changes), STATE)
    assert run.deletions == sum(payload is None for payload in changes.values())
    ordered = sorted(changes)
    assert run.read_changes(0, len(run)) == (ordered, [stored(key, changes[key]) for key in ordered])
    for place, key in enumerate(ordered):
        assert run.key_at(place) == key
        assert run.read_changes(place, place + 1) == ([key], [stored(key, changes[key])])
    for key in asked:
        assert run.find_place(key) == sum(one < key for one in ordered)
        assert run.find_place(key, after=True) == sum(one <= key for one in ordered)
    assert run.find_values(sorted(asked)) == {key: stored(key, changes[key]) for key in asked if key in changes}
    run.check()
    assert find_run_files(store) == {(10, 90): run.path}


@pytest.mark.parametrize("arrays", [False, True])
def test_many_keys_are_found_together(tmp_path: Path, arrays: bool) -> None:
    run = written(tmp_path / "s.sow", {key: b"%d" % number for number, key in enumerate(KEYS) if number % 3})
    run.arrays = arrays
    asked = KEYS[:500]
    assert run.find_values(asked) == {key: value_of(key, 50, b"%d" % n) for n, key in enumerate(asked) if n % 3}


@pytest.mark.parametrize("deleted", [False, True])
def test_damage_of_any_byte_is_noticed(tmp_path: Path, deleted: bool) -> None:
    changes: dict[bytes, bytes | None] = dict.fromkeys(KEYS[:5], b"payload")
    if deleted:
        changes[KEYS[2]] = None
    path = written(tmp_path / "s.sow", changes).path
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.unlink()  # a file that is mapped is never changed
        path.write_bytes(whole[:place] + bytes((whole[place] ^ 0x10,)) + whole[place + 1 :])
        with pytest.raises(BadRun):
            SortedRun(path).check()
    path.unlink()
    path.write_bytes(whole)
    SortedRun(path).check()


def test_a_cut_end_or_more_behind_it_is_noticed(tmp_path: Path) -> None:
    path = written(tmp_path / "s.sow", dict.fromkeys(KEYS[:3], b"payload")).path
    whole = path.read_bytes()
    for content in [whole[:size] for size in range(len(whole))] + [whole + b"\0", bytes(len(whole))]:
        path.unlink()
        path.write_bytes(content)
        with pytest.raises(BadRun):
            SortedRun(path)
    path.unlink()
    with pytest.raises(BadRun):
        SortedRun(path)


def test_values_under_wrong_keys_are_noticed(tmp_path: Path) -> None:
    store = tmp_path / "s.sow"
    store.touch()
    values: list[bytes | None] = [value_of(KEYS[2], 50, b"two"), value_of(KEYS[1], 50, b"one")]
    run = SortedRun(write_run(store, STATE, 10, 2, [(KEYS[1:3], values)], SEAM))
    with pytest.raises(BadRun):
        run.find_values([KEYS[1]])
    unordered = SortedRun(write_run(store, STATE, 11, 2, [(KEYS[2:0:-1], values)], SEAM))
    with pytest.raises(BadRun):
        unordered.check()


def test_a_run_has_the_permissions_of_its_store(tmp_path: Path) -> None:
    store = tmp_path / "s.sow"
    store.touch()
    store.chmod(0o600)
    link = tmp_path / "link.sow"
    link.symlink_to(store)
    path = write_run(link, STATE, 10, 0, [], SEAM)
    assert path.stat().st_mode & 0o777 == 0o600
    # next to the file itself, as its locks are
    assert path.parent == build_runs_directory(store) == tmp_path / "s.sow-runs"
    assert list(path.parent.iterdir()) == [path]


def test_other_files_are_no_runs(tmp_path: Path) -> None:
    store = tmp_path / "s.sow"
    assert find_run_files(store) == {}
    path = written(store, {KEYS[0]: b"x"}).path
    (path.parent / "10-90.run.new-7").write_bytes(b"")
    (path.parent / "notes").write_bytes(b"")
    assert find_run_files(store) == {(10, 90): path}


GOLDEN = Path(__file__).parent.parent / "formats" / "v1" / "changes.run"


def test_the_file_of_a_released_version_is_read_for_ever(tmp_path: Path) -> None:
    """``changes.run`` was written by version 1 from these changes and never changes; the writer still produces it."""
    changes: dict[bytes, bytes | None] = {
        key: None if number % 4 == 1 else (b'{"id":%d}' % number).ljust(number * 9)
        for number, key in enumerate(KEYS[:12])
    }
    run = SortedRun(GOLDEN)
    ordered = sorted(changes)
    assert run.read_changes(0, len(run)) == (ordered, [stored(key, changes[key]) for key in ordered])
    assert (run.base, run.last_txid, run.state, run.deletions) == (10, 90, STATE, 3)
    assert written(tmp_path / "s.sow", changes).path.read_bytes() == GOLDEN.read_bytes()
