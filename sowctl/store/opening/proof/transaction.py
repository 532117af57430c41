"""A transaction of LMDB in which every page is proven before LMDB is sent to it (``sow-store(5)``, "How to read").

Stands in the place of LMDB's own transaction and cursors. Pages are proven in the state that the transaction began
with, which stays in the file as long as it runs: changed pages are in LMDB's memory, and come from proven ones. A
search in a changed tree ends in a page of that way or in one that LMDB has touched before, with two exceptions:

* An entry beside the one that a cursor stands at may lie behind pages that are empty by now. So pages are proven up to
  one with an entry that is still there.
* A deletion may have LMDB merge a page with the ones beside it, and the merged page with the next one. Every deletion
  merges once at most: so many pages are proven on both sides.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import Any

from sowctl.checksum import crc32
from sowctl.errors import DamageError
from sowctl.store.codec import CRC_RESIDUE, extract_sow_key
from sowctl.store.lmdberrors import REBUILD_HINT
from sowctl.store.lmdbfile.layout import NO_PAGE, PAGE_NUMBER_LAYOUT
from sowctl.store.lmdbfile.meta_page import MetaPage
from sowctl.store.opening.proof.freelist import find_free_pages, verify_free_list
from sowctl.store.opening.proof.tree import Entries, LeafPlace, PageFile, Tree, read_sub_databases

_FIRST, _SECOND = itemgetter(0), itemgetter(1)
_ATTEMPTS = 100
_PAUSE_SECONDS = 0.0005
_MAX_NEIGHBOUR_LEAVES = 256
_WORD_BYTES = 8
_MAX_PROOF_PARTS = 64
"""Parts of a reading whose leaves are proven together."""
_MAX_SINGLE_KEYS = 4
"""Up to this number of keys, searching each costs less than proving every branch page on the way."""
_MIN_CHILDREN = 2
"""With fewer children a branch page takes some of the one beside it, or is merged with it."""


class ProvenTree:
    """A sub-database in a transaction: proves what LMDB is going to touch in it. Raises DamageError, StorageError."""

    def __init__(self, tree: Tree, txn: Any, database: Any) -> None:
        self._tree = tree
        self._txn = txn
        self._database = database
        self.is_changed = False
        self._deletions: dict[int, int] = {}
        self._reach: dict[int, int] = {}
        self._bearing: dict[int, int] = {}
        self._is_whole = False
        self._written: set[int] = set()
        self._is_mixed = False

    def verify_reads(self, keys: Iterable[bytes]) -> None:
        """Verify the pages for looking up ``keys``, in order; a key that exists is verified by its own record."""
        self._tree.verify_leaves(keys, whole=False)

    def verify_writes(self, keys: Iterable[bytes]) -> None:
        """Verify the pages for looking up and writing ``keys``, in order."""
        self._tree.verify_leaves(keys, whole=True)

    def verify_puts(self, keys: Iterable[bytes]) -> None:
        """Verify the pages for setting values under ``keys``, in order."""
        # Half of a page that is divided is soon too empty, and so is one whose values became shorter.
        self._written.update(self._tree.verify_leaves(keys, whole=True))
        if self._deletions:
            self._is_mixed = True

    def verify_places(self, keys: Iterable[bytes], length: int | None) -> None:
        """Prove the leaves in which ``keys`` would be, without the values that stand there."""
        tree = self._tree
        for leaf, is_last in tree.find_edge_leaves(sorted(keys), length):
            if (beside := tree.find_adjacent_leaf(leaf, forward=is_last)) is not None:
                tree.verify_end_keys(beside)

    def verify_absence(self, keys: Iterable[bytes], length: int | None, covered: int | None) -> None:
        """Prove that those of ``keys`` that a search does not find are not there.

        Where a key would be the first or the last one of its leaf, it may be in the one beside that: the keys of that
        one are not those of its place then. A key that was altered keeps its place, perhaps: so what stands on both
        sides has to be sound, too. Its keys have a ``length`` (None: any), and the checksum over the first ``covered``
        bytes of the key (None: all) and the value is RESIDUE.
        """
        tree = self._tree
        keys = sorted(keys)
        if len(keys) <= _MAX_SINGLE_KEYS and all(self._is_absent_within(key, length, covered) for key in keys):
            return
        numbers = tree.verify_leaves(keys, whole=True)
        if length == covered == _WORD_BYTES:
            entries, edges = tree.read_gap_entries(keys, numbers)
            # Which of many is damaged is told by looking at them one by one.
            if not set(map(crc32, entries)) - {CRC_RESIDUE}:
                keys = list(edges)
        leaf, proven, count = None, -1, 0
        for key in keys:
            if leaf is None or not leaf.covers_key(key):
                leaf = tree.find_leaf(key)
                if leaf is None:
                    return
                proven = -1
            index, count = tree.search_leaf(leaf, key)
            # Keys in the same gap are answered by one look at its two ends.
            if index == proven:
                continue
            proven = index
            for place in (index - 1, index):
                if 0 <= place < count:
                    self._verify_entry(leaf, place, length, covered)
                elif (beside := tree.find_adjacent_leaf(leaf, forward=place > 0)) is not None:
                    self._verify_entry(beside, 0 if place > 0 else -1, length, covered)

    def _find_gap(self, key: bytes) -> tuple[LeafPlace, int] | None:
        """A leaf, and the index of the entry before which ``key`` would be; None where it is there, or would be at an
        end of the leaf."""
        leaf = self._tree.find_known_leaf(key)
        if leaf is None:
            return None
        index, count = self._tree.search_leaf(leaf, key)
        is_inner = 0 < index < count and self._tree.read_entry(leaf, index)[0] != key
        return (leaf, index) if is_inner else None

    def _is_absent_within(self, key: bytes, length: int | None, covered: int | None) -> bool:
        """Return whether a key is shown to be absent by its own leaf alone."""
        gap = self._find_gap(key)
        if gap is not None:
            for place in (gap[1] - 1, gap[1]):
                self._verify_entry(gap[0], place, length, covered)
        return gap is not None

    def _verify_entry(self, leaf: LeafPlace, place: int, length: int | None, covered: int | None) -> None:
        key, flags, value = self._tree.read_entry(leaf, place)
        if flags:
            value = self._txn.get(key, b"", self._database)
        if length not in (None, len(key)) or crc32(value, crc32(key[:covered])) != CRC_RESIDUE:
            number = int.from_bytes(extract_sow_key(key), "big")
            reason = f"record {number}, next to the requested one, has a wrong checksum"
            raise self._tree.page_error(leaf.number, reason)

    def verify_neighbour(self, key: bytes, *, forward: bool) -> None:
        """Verify the pages for a search for the first entry from ``key`` on, or the last one before it."""
        leaf = self._tree.find_leaf(key)
        if leaf is not None:
            first, last = self._tree.verify_end_keys(leaf)
            if self.is_changed or not (key <= last if forward else first < key):
                self._prove_living_neighbours(leaf, forward=forward)

    def verify_end(self, *, last: bool) -> None:
        """Verify the pages for a search for the first or the last entry."""
        leaf = self._tree.find_end_leaf(last=last)
        if leaf is not None:
            self._tree.verify_end_keys(leaf)
            if self.is_changed and self._find_living_key(leaf, forward=not last) is None:
                self._prove_living_neighbours(leaf, forward=not last)

    def verify_all(self) -> None:
        """Verify all pages, before LMDB reads all of them."""
        self._tree.verify_all()

    def verify_deletion(self, key: bytes) -> None:
        """Verify the pages for removing the entry of ``key``."""
        leaf = self._tree.find_leaf(key)
        if leaf is None:
            return
        self._tree.verify_end_keys(leaf)
        if self._is_whole:
            return
        deletions = self._deletions
        deletions[leaf.number] = count = deletions.get(leaf.number, 0) + 1
        bearing = self._bearing.get(leaf.number)
        if bearing is None:
            # What is merged with it takes some of its entries.
            bearing = self._bearing[leaf.number] = self._tree.count_safe_deletions(leaf) // 2
        if self._is_mixed or leaf.number in self._written:
            bearing = 0
        if count > max(bearing, self._reach.get(leaf.number, 0)):
            # Twice as far as needed now, so that many deletions in one place go over its neighbours a few times only.
            self._reach[leaf.number] = 2 * count
            for forward in (False, True):
                self._prove_deletion_range(leaf, forward=forward)
        for level in range(1, len(leaf.steps)):
            branch = leaf.steps[level][0]
            deletions[branch.number] = count = deletions.get(branch.number, 0) + 1
            if len(branch.page.children) - count < _MIN_CHILDREN and count > self._reach.get(branch.number, 0):
                self._reach[branch.number] = 2 * count
                self._tree.verify_siblings(leaf.steps, level, 2 * count + 1)

    def _prove_deletion_range(self, leaf: LeafPlace, *, forward: bool) -> None:
        """Prove as many leaves beside one as deletions can reach, with those of the leaves that they reach."""
        left, steps = self._reach[leaf.number], 0
        beside = self._tree.find_adjacent_leaf(leaf, forward=forward)
        while beside is not None and not self._is_whole:
            steps += 1
            if steps > _MAX_NEIGHBOUR_LEAVES:
                # Nearly all is removed: everything is proven once instead of much of it again and again.
                self._tree.verify_all()
                self._is_whole = True
            self._tree.verify_end_keys(beside)
            left += self._reach.get(beside.number, 0) - 1
            if left <= 0:
                return
            beside = self._tree.find_adjacent_leaf(beside, forward=forward)

    def _find_living_key(self, leaf: LeafPlace, *, forward: bool) -> bytes | None:
        """The key of an entry of a leaf that is still there; None where there is none."""
        if not self.is_changed:
            return self._tree.verify_end_keys(leaf)[not forward]
        keys = self._tree.read_leaf(leaf.number).keys
        there = (key for key in (keys if forward else reversed(keys)) if self._txn.get(key, None, self._database))
        return next(there, None)

    def _prove_living_neighbours(self, leaf: LeafPlace, *, forward: bool) -> bytes | None:
        """Prove the leaves beside one, up to one with an entry that is still there: its key, None at the end."""
        beside = self._tree.find_adjacent_leaf(leaf, forward=forward)
        while beside is not None:
            self._tree.verify_end_keys(beside)
            key = self._find_living_key(beside, forward=forward)
            if key is not None:
                return key
            beside = self._tree.find_adjacent_leaf(beside, forward=forward)
        return None

    def find_proven_limit(self, key: bytes, *, forward: bool) -> bytes | None:
        """The key up to which a cursor at ``key`` may go on; None: to the end."""
        leaf = self._tree.find_leaf(key)
        return None if leaf is None else self._prove_living_neighbours(leaf, forward=forward)

    def walk_from(self, start: bytes | None, *, tiled: bool) -> Iterator[Entries]:
        """Keys and values of the entries from ``start`` on, or of all, some leaves at a time."""
        tree = self._tree
        leaf = tree.find_end_leaf(last=False) if start is None else tree.find_leaf(start)
        if leaf is None:
            return
        tree.verify_end_keys(leaf)
        entries = self._hold_entries(tree.walk_entries(leaf, forward=True, tiled=tiled))
        if start is not None:
            keys, values = next(entries)
            index = bisect_left(keys, start)
            yield keys[index:], values[index:]
        yield from entries

    def walk_on(self, key: bytes, *, forward: bool) -> Iterator[Entries]:
        """Keys and values of the entries from that of ``key``, which is there, on."""
        leaf = self._tree.find_leaf(key)
        if leaf is None:
            return
        entries = self._hold_entries(self._tree.walk_entries(leaf, forward=forward, tiled=True))
        keys, values = next(entries)
        index = keys.index(key)
        yield keys[index:], values[index:]
        yield from entries

    def look_up(self, keys: Sequence[bytes]) -> list[tuple[bytes, bytes]] | None:
        """Keys and values of those of a few ``keys`` that are there, each of which proves itself; None where only LMDB
        can tell."""
        if self.is_changed:
            return None
        values = [self._tree.look_up(key) for key in keys]
        if any(value is None and self._find_gap(key) is None for key, value in zip(keys, values, strict=True)):
            return None
        # Raises an error if the transaction has ended: the pages just read may have been written again since.
        self._txn.id()
        return [(key, value) for key, value in zip(keys, values, strict=True) if value is not None]

    def _hold_entries(self, entries: Iterator[Entries]) -> Iterator[Entries]:
        """``entries``, each as long as the transaction lasts: behind its end their pages may be written again."""
        for one in entries:
            self._txn.id()
            yield one


class ProvenCursor:
    """LMDB's cursor."""

    def __init__(self, owner: ProvenTransaction, cursor: Any, tree: ProvenTree) -> None:
        self._owner = owner
        self._cursor = cursor
        self._tree = tree
        self.key, self.value, self.close = cursor.key, cursor.value, cursor.close

    def __enter__(self) -> ProvenCursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def first(self) -> bool:
        """Go to the first entry; whether there is one."""
        self._tree.verify_end(last=False)
        return bool(self._cursor.first())

    def last(self) -> bool:
        """Go to the last entry; whether there is one."""
        self._tree.verify_end(last=True)
        return bool(self._cursor.last())

    def set_range(self, key: bytes) -> bool:
        """Go to the first entry from ``key`` on; whether there is one."""
        self._tree.verify_neighbour(key, forward=True)
        return bool(self._cursor.set_range(key))

    def prev(self) -> bool:
        """Go to the entry before; whether there is one."""
        if key := self._cursor.key():
            self._tree.verify_neighbour(key, forward=False)
        else:
            self._tree.verify_end(last=True)
        return bool(self._cursor.prev())

    def getmulti(self, keys: Sequence[bytes]) -> Any:
        """Keys and values of those ``keys`` that are there; what is there proves itself, what is not may be there."""
        # What a writer looks up it is going to write.
        (self._tree.verify_writes if self._owner.is_writing else self._tree.verify_reads)(keys)
        return self._cursor.getmulti(keys)

    def read_parts(self, keys: Sequence[bytes], size: int) -> Iterator[tuple[Sequence[bytes], Any]]:
        """``size`` of ``keys`` at a time, and keys and values of those that are there, as :meth:`getmulti`."""
        if (
            len(keys) <= _MAX_SINGLE_KEYS
            and not self._owner.is_writing
            and (found := self._tree.look_up(keys)) is not None
        ):
            yield keys, found
            return
        verify = self._tree.verify_writes if self._owner.is_writing else self._tree.verify_reads
        for start in range(0, len(keys), size):
            # Proven for many parts ahead, as many leaves are proven faster together.
            if start % (_MAX_PROOF_PARTS * size) == 0:
                verify(keys[start : start + _MAX_PROOF_PARTS * size])
            part = keys[start : start + size]
            yield part, self._cursor.getmulti(part)

    def verify_absence(self, keys: Iterable[bytes], length: int | None, covered: int | None) -> None:
        """Prove that ``keys``, in order, which were not found, are not there (:meth:`ProvenTree.verify_absence`)."""
        if self._owner.is_writing:
            # Most keys of a batch may be new. A record that an altered key hides is found by the next reader.
            self._tree.verify_places(keys, length)
        else:
            self._tree.verify_absence(keys, length, covered)

    def putmulti(self, pairs: Iterable[tuple[bytes, bytes]], *, append: bool = False) -> Any:
        """Set values; how many there were and how many were added."""
        pairs = list(pairs)
        if append:
            self._tree.verify_end(last=True)
        else:
            self._tree.verify_puts(map(_FIRST, pairs))
        self._owner.begin_change(self._tree)
        return self._cursor.putmulti(pairs, append=append)

    def put(self, key: bytes, value: bytes) -> bool:
        """Set a value."""
        self._tree.verify_puts((key,))
        self._owner.begin_change(self._tree)
        return bool(self._cursor.put(key, value))

    def delete(self) -> bool:
        """Remove the entry at which the cursor stands, and stand at the next one."""
        if key := self._cursor.key():
            self._tree.verify_deletion(key)
            self._owner.begin_change(self._tree)
            # LMDB reads the next entry at once, and that may be in another leaf.
            self._tree.verify_neighbour(key, forward=True)
        return bool(self._cursor.delete())

    def iternext(self, keys: bool = True, values: bool = True) -> Iterator[Any]:
        """Entries from the one on at which the cursor stands, or from the first one."""
        return self._iterate_entries(forward=True, keys=keys, values=values)

    def iterprev(self, keys: bool = True, values: bool = True) -> Iterator[Any]:
        """Entries back from the one at which the cursor stands, or from the last one."""
        return self._iterate_entries(forward=False, keys=keys, values=values)

    def _iterate_entries(self, *, forward: bool, keys: bool, values: bool) -> Iterator[Any]:
        cursor = self._cursor
        if not cursor.key() and not (self.first() if forward else self.last()):
            return iter(())
        if self._tree.is_changed:
            return self._step_cursor((cursor.iternext if forward else cursor.iterprev)(keys, values), forward=forward)
        # The usual case: the pages are read without LMDB, whole leaves at a time.
        entries = self._tree.walk_on(cursor.key(), forward=forward)
        if keys and values:
            return chain.from_iterable(zip(*one, strict=True) for one in entries)
        return chain.from_iterable(one[0] if keys else one[1] for one in entries)

    def read_from(self, start: bytes | None, size: int, *, tiled: bool) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Keys and values of the entries from ``start`` on, or of all, at most ``size`` at a time.

        Order and checksums are for the caller to prove; without ``tiled``, also their count. Nothing may be written
        meanwhile.
        """
        if self._tree.is_changed:
            found = self.first() if start is None else self.set_range(start)
            pairs = self.iternext() if found else iter(())
            while chunk := list(islice(pairs, size)):
                yield list(map(_FIRST, chunk)), list(map(_SECOND, chunk))
            return
        keys: list[bytes] = []
        values: list[bytes] = []
        for some, others in self._tree.walk_from(start, tiled=tiled):
            keys += some
            values += others
            while len(keys) >= size:
                yield keys[:size], values[:size]
                del keys[:size], values[:size]
        if keys:
            yield keys, values

    def _step_cursor(self, steps: Iterator[Any], *, forward: bool) -> Iterator[Any]:
        key = self._cursor.key()
        horizon = self._tree.find_proven_limit(key, forward=forward)
        for step in steps:
            yield step
            key = self._cursor.key()
            if horizon is not None and (key >= horizon if forward else key <= horizon):
                horizon = self._tree.find_proven_limit(key, forward=forward)


class ProvenTransaction:
    """LMDB's transaction. ``raw`` is it itself, for what touches no page that is not proven."""

    def __init__(self, raw: Any, file: PageFile, meta: MetaPage, *, is_writing: bool) -> None:
        """``meta`` is the state that it began with. Raises DamageError, StorageError."""
        self.raw = raw
        self.is_writing = is_writing
        self._file = file
        self._meta = meta
        self._trees = read_sub_databases(file, meta)
        self._proven: dict[Any, ProvenTree] = {}
        self._names: dict[Any, bytes] = {}
        self._free: bytearray | None = None
        self.id, self.stat, self.abort, self.commit = raw.id, raw.stat, raw.abort, raw.commit

    @property
    def names(self) -> list[bytes]:
        """The names of the sub-databases that the state has."""
        return sorted(self._trees)

    def _get_tree(self, database: Any) -> ProvenTree:
        known = self._proven.get(database)
        if known is None:
            name = self._names.get(database) or self._file.names[database]
            # One that was made in this transaction has no page in the state yet.
            tree = self._trees.get(name) or Tree(self._file, NO_PAGE, 0, self._meta.last_page)
            if self.is_writing:
                tree = tree.copy_for_writing(self._find_free_pages())
            known = self._proven[database] = ProvenTree(tree, self.raw, database)
        return known

    def begin_change(self, tree: ProvenTree) -> None:
        """Prepare the first change of a sub-database: LMDB takes pages from the free list."""
        self._find_free_pages()
        tree.is_changed = True

    def _find_free_pages(self) -> bytearray:
        """The free pages of the state, which the pages that LMDB writes to are compared with."""
        if self._free is None:
            self._free = find_free_pages(self._file, self._meta)
            assert self._file.main is not None
            for page in self._file.main[1]:
                number = PAGE_NUMBER_LAYOUT.unpack_from(page)[0]
                if self._free[number]:
                    raise self._file.free_page_error(number)
        return self._free

    def verify_free_list(self) -> None:
        """Prove the list of free pages."""
        verify_free_list(self._file, self._meta)

    def verify_tree(self, db: Any) -> None:
        """Prove every page of the sub-database ``db``."""
        self._get_tree(db).verify_all()

    def verify_places(self, keys: Iterable[bytes], db: Any) -> None:
        """Prove all of the leaves in which searches for ``keys``, in order, end."""
        self._get_tree(db).verify_writes(keys)

    def verify_all(self) -> None:
        """Prove every page of every sub-database, and the free list."""
        self.verify_free_list()
        for tree in self._trees.values():
            tree.verify_all()

    def open(self, env: Any, name: bytes, *, create: bool) -> Any:
        """LMDB's handle of a sub-database, to be used in this transaction; where it may be made, in later ones, too.

        Raises lmdb.NotFoundError.
        """
        if create and name not in self._trees:
            verify_free_list(self._file, self._meta)
        database = env.open_db(name, txn=self.raw, create=create)
        (self._file.names if create else self._names)[database] = name
        return database

    def cursor(self, db: Any) -> ProvenCursor:
        """A cursor of the sub-database ``db``."""
        return ProvenCursor(self, self.raw.cursor(db), self._get_tree(db))

    def get(self, key: bytes, default: Any = None, db: Any = None) -> Any:
        """The value of ``key`` in the sub-database ``db``."""
        # Whole, as an absent key is to be absent.
        self._get_tree(db).verify_writes((key,))
        return self.raw.get(key, default, db)

    def read(self, key: bytes, db: Any) -> Any:
        """The value of ``key``, which proves itself; None where there is none."""
        found = None if self.is_writing else self._get_tree(db).look_up((key,))
        return found[0][1] if found else self.get(key, None, db)

    def put(self, key: bytes, value: bytes, *, db: Any) -> bool:
        """Set a value."""
        tree = self._get_tree(db)
        tree.verify_puts((key,))
        self.begin_change(tree)
        return bool(self.raw.put(key, value, db=db))

    def delete_many(self, keys: Iterable[bytes], *, db: Any) -> None:
        """Remove entries; those that are not there are left alone."""
        tree, keys, delete = self._get_tree(db), list(keys), self.raw.delete
        if not keys:
            return
        tree.verify_writes(keys)
        self.begin_change(tree)
        for key in keys:
            tree.verify_deletion(key)
            delete(key, db=db)

    def drop(self, database: Any) -> None:
        """Remove all entries of a sub-database."""
        tree = self._get_tree(database)
        tree.verify_all()
        self.begin_change(tree)
        self.raw.drop(database, delete=False)


def begin_proven_transaction(begin: Callable[[], Any], file: PageFile, *, write: bool) -> ProvenTransaction:
    """A transaction that ``begin`` begins. Raises what it raises, DamageError, StorageError."""
    for attempt in range(_ATTEMPTS):
        raw = begin()
        try:
            # A writer stands on the state before its own number.
            meta = file.find_meta_page(int(raw.id()) - write)
            if meta is not None:
                return ProvenTransaction(raw, file, meta, is_writing=write)
        except BaseException:
            raw.abort()
            raise
        # Writers have committed twice since it began: its roots are in no meta page any more.
        raw.abort()
        time.sleep(_PAUSE_SECONDS * (attempt > 2))
    raise DamageError(
        "SOW-STO-021",
        "invalid LMDB file: its meta pages are not those of the last transaction",
        place=str(file.path),
        hint=REBUILD_HINT,
    )


__all__ = ["ProvenCursor", "ProvenTransaction", "ProvenTree", "begin_proven_transaction"]
