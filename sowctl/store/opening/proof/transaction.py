"""An LMDB transaction in which every page is proven before LMDB accesses it (``sow-store(5)``, "How to read").

It replaces LMDB's own transaction and cursors. Pages are proven in the state with which the transaction began, which
stays in the file while it runs: changed pages are in LMDB's memory, and are derived from proven ones. A search in a
changed tree ends in a page of the proven path or in one that LMDB has already accessed, with two exceptions:

* The neighbour of a cursor's entry may be after pages that became empty. So pages are proven up to one with an entry
  that still exists.
* A deletion may have LMDB merge a page with its neighbours, and the merged page with the next one. Every deletion
  merges at most once: as many pages are proven on both sides.
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
from sowctl.store.codec import CRC_RESIDUE, REBUILD_HINT, extract_sow_key
from sowctl.store.lmdbfile.layout import NO_PAGE, PAGE_NUMBER_LAYOUT
from sowctl.store.lmdbfile.meta_page import MetaPage
from sowctl.store.opening.proof.freelist import find_free_pages, read_free_page_numbers, verify_free_list
from sowctl.store.opening.proof.tree import Entries, LeafPlace, PageFile, Tree, read_sub_databases

_FIRST, _SECOND = itemgetter(0), itemgetter(1)
_ATTEMPTS = 100
_PAUSE_SECONDS = 0.0005
_MAX_NEIGHBOUR_LEAVES = 256
_WORD_BYTES = 8
_MAX_PROOF_PARTS = 64
"""Number of read batches whose leaves are proven together."""
_MAX_SINGLE_KEYS = 4
"""Up to this number of keys, searching each costs less than proving every branch page on the path."""
_MIN_CHILDREN = 2
"""With fewer children a branch page takes some from its neighbour, or is merged with it."""


class ProvenTree:
    """A sub-database in a transaction: proves the pages that LMDB will access. Raises DamageError, StorageError."""

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
        """Verify the pages for looking up ``keys``, in order; an existing key is verified by its own record."""
        self._tree.verify_leaves(keys, whole=False)

    def verify_writes(self, keys: Iterable[bytes]) -> None:
        """Verify the pages for looking up and writing ``keys``, in order."""
        self._tree.verify_leaves(keys, whole=True)

    def verify_puts(self, keys: Iterable[bytes]) -> None:
        """Verify the pages for setting values under ``keys``, in order."""
        # After a split, half a page is soon too empty, and so is a page whose values became shorter.
        self._written.update(self._tree.verify_leaves(keys, whole=True))
        if self._deletions:
            self._is_mixed = True

    def verify_places(self, keys: Iterable[bytes], length: int | None) -> None:
        """Prove the leaves in which ``keys`` would be, but not the values in them."""
        tree = self._tree
        for leaf, is_last in tree.find_edge_leaves(sorted(keys), length):
            if (beside := tree.find_adjacent_leaf(leaf, forward=is_last)) is not None:
                tree.verify_end_keys(beside)

    def verify_absence(self, keys: Iterable[bytes], length: int | None, covered: int | None) -> None:
        """Prove that those of ``keys`` that a search does not find do not exist.

        If a key would be the first or the last one of its leaf, it may be in the neighbouring leaf, whose keys are then
        not those of its position. An altered key may still be in its position: so the entries on both sides must also
        be valid. Keys have a ``length`` (None: any), and the checksum over the first ``covered`` bytes of the key
        (None: all) and the value is RESIDUE.
        """
        tree = self._tree
        keys = sorted(keys)
        if len(keys) <= _MAX_SINGLE_KEYS and all(self._is_absent_within(key, length, covered) for key in keys):
            return
        numbers = tree.verify_leaves(keys, whole=True)
        if length == covered == _WORD_BYTES:
            entries, edges = tree.read_gap_entries(keys, numbers)
            # If one of many is damaged, checking them one by one finds it.
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
            # Keys in the same gap are proven by one check of its two ends.
            if index == proven:
                continue
            proven = index
            for place in (index - 1, index):
                if 0 <= place < count:
                    self._verify_entry(leaf, place, length, covered)
                elif (beside := tree.find_adjacent_leaf(leaf, forward=place > 0)) is not None:
                    self._verify_entry(beside, 0 if place > 0 else -1, length, covered)

    def _find_gap(self, key: bytes) -> tuple[LeafPlace, int] | None:
        """Return a leaf, and the index of the entry before which ``key`` would be; None if it exists, or would be at an
        end of the leaf."""
        leaf = self._tree.find_known_leaf(key)
        if leaf is None:
            return None
        index, count = self._tree.search_leaf(leaf, key)
        is_inner = 0 < index < count and self._tree.read_entry(leaf, index)[0] != key
        return (leaf, index) if is_inner else None

    def _is_absent_within(self, key: bytes, length: int | None, covered: int | None) -> bool:
        """Return whether a key's own leaf alone proves that it is absent."""
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
            # A leaf that is merged with it takes some of its entries.
            bearing = self._bearing[leaf.number] = self._tree.count_safe_deletions(leaf) // 2
        if self._is_mixed or leaf.number in self._written:
            bearing = 0
        if count > max(bearing, self._reach.get(leaf.number, 0)):
            # Twice as far as needed now, so that many deletions in one area prove its neighbours only a few times.
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
        """Prove as many neighbouring leaves as deletions can reach, including those that the neighbours' deletions
        reach."""
        left, steps = self._reach[leaf.number], 0
        beside = self._tree.find_adjacent_leaf(leaf, forward=forward)
        while beside is not None and not self._is_whole:
            steps += 1
            if steps > _MAX_NEIGHBOUR_LEAVES:
                # Nearly everything is removed: all pages are proven once instead of many of them repeatedly.
                self._tree.verify_all()
                self._is_whole = True
            self._tree.verify_end_keys(beside)
            left += self._reach.get(beside.number, 0) - 1
            if left <= 0:
                return
            beside = self._tree.find_adjacent_leaf(beside, forward=forward)

    def _find_living_key(self, leaf: LeafPlace, *, forward: bool) -> bytes | None:
        """Return the key of an entry of a leaf that still exists, or None."""
        if not self.is_changed:
            return self._tree.verify_end_keys(leaf)[not forward]
        keys = self._tree.read_leaf(leaf.number).keys
        there = (key for key in (keys if forward else reversed(keys)) if self._txn.get(key, None, self._database))
        return next(there, None)

    def _prove_living_neighbours(self, leaf: LeafPlace, *, forward: bool) -> bytes | None:
        """Prove the neighbouring leaves up to one with an entry that still exists; return its key, None at the end."""
        beside = self._tree.find_adjacent_leaf(leaf, forward=forward)
        while beside is not None:
            self._tree.verify_end_keys(beside)
            key = self._find_living_key(beside, forward=forward)
            if key is not None:
                return key
            beside = self._tree.find_adjacent_leaf(beside, forward=forward)
        return None

    def find_proven_limit(self, key: bytes, *, forward: bool) -> bytes | None:
        """Return the key up to which a cursor at ``key`` may continue; None: to the end."""
        leaf = self._tree.find_leaf(key)
        return None if leaf is None else self._prove_living_neighbours(leaf, forward=forward)

    def walk_from(self, start: bytes | None, *, tiled: bool) -> Iterator[Entries]:
        """Yield keys and values of the entries from ``start`` on, or of all, some leaves at a time."""
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
        """Yield keys and values of the entries from the existing ``key`` on."""
        leaf = self._tree.find_leaf(key)
        if leaf is None:
            return
        entries = self._hold_entries(self._tree.walk_entries(leaf, forward=forward, tiled=True))
        keys, values = next(entries)
        index = keys.index(key)
        yield keys[index:], values[index:]
        yield from entries

    def look_up(self, keys: Sequence[bytes]) -> list[tuple[bytes, bytes]] | None:
        """Return keys and values of the existing ones among a few ``keys``, each proven by its checksum; None if only
        LMDB can determine them."""
        if self.is_changed:
            return None
        values = [self._tree.look_up(key) for key in keys]
        if any(value is None and self._find_gap(key) is None for key, value in zip(keys, values, strict=True)):
            return None
        # Raises an error if the transaction has ended: the pages just read may have been rewritten since.
        self._txn.id()
        return [(key, value) for key, value in zip(keys, values, strict=True) if value is not None]

    def _hold_entries(self, entries: Iterator[Entries]) -> Iterator[Entries]:
        """Yield ``entries`` while the transaction is open: after its end their pages may be rewritten."""
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
        """Move to the first entry; return whether there is one."""
        self._tree.verify_end(last=False)
        return bool(self._cursor.first())

    def last(self) -> bool:
        """Move to the last entry; return whether there is one."""
        self._tree.verify_end(last=True)
        return bool(self._cursor.last())

    def set_range(self, key: bytes) -> bool:
        """Move to the first entry from ``key`` on; return whether there is one."""
        self._tree.verify_neighbour(key, forward=True)
        return bool(self._cursor.set_range(key))

    def prev(self) -> bool:
        """Move to the previous entry; return whether there is one."""
        if key := self._cursor.key():
            self._tree.verify_neighbour(key, forward=False)
        else:
            self._tree.verify_end(last=True)
        return bool(self._cursor.prev())

    def getmulti(self, keys: Sequence[bytes]) -> Any:
        """Return keys and values of the ``keys`` found, each proven by its checksum; a key not found may still
        exist."""
        # A writer looks up the keys that it is going to write.
        (self._tree.verify_writes if self._owner.is_writing else self._tree.verify_reads)(keys)
        return self._cursor.getmulti(keys)

    def read_parts(self, keys: Sequence[bytes], size: int) -> Iterator[tuple[Sequence[bytes], Any]]:
        """Yield ``size`` of ``keys`` at a time, with keys and values of those found, as :meth:`getmulti`."""
        if (
            len(keys) <= _MAX_SINGLE_KEYS
            and not self._owner.is_writing
            and (found := self._tree.look_up(keys)) is not None
        ):
            yield keys, found
            return
        verify = self._tree.verify_writes if self._owner.is_writing else self._tree.verify_reads
        for start in range(0, len(keys), size):
            # Proven for many parts in advance, as many leaves are proven faster together.
            if start % (_MAX_PROOF_PARTS * size) == 0:
                verify(keys[start : start + _MAX_PROOF_PARTS * size])
            part = keys[start : start + size]
            yield part, self._cursor.getmulti(part)

    def verify_absence(self, keys: Iterable[bytes], length: int | None, covered: int | None) -> None:
        """Prove that the ordered ``keys``, which were not found, do not exist (:meth:`ProvenTree.verify_absence`)."""
        if self._owner.is_writing:
            # Most keys of a batch may be new. The next reader detects a record hidden by an altered key.
            self._tree.verify_places(keys, length)
        else:
            self._tree.verify_absence(keys, length, covered)

    def putmulti(self, pairs: Iterable[tuple[bytes, bytes]], *, append: bool = False) -> Any:
        """Set values; return the number of values and how many were added."""
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
        """Remove the current entry and move to the next one."""
        if key := self._cursor.key():
            self._tree.verify_deletion(key)
            self._owner.begin_change(self._tree)
            # LMDB reads the next entry immediately, and it may be in another leaf.
            self._tree.verify_neighbour(key, forward=True)
        return bool(self._cursor.delete())

    def iternext(self, keys: bool = True, values: bool = True) -> Iterator[Any]:
        """Iterate over entries from the current one on, or from the first one."""
        return self._iterate_entries(forward=True, keys=keys, values=values)

    def iterprev(self, keys: bool = True, values: bool = True) -> Iterator[Any]:
        """Iterate backwards over entries from the current one, or from the last one."""
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
        """Yield keys and values of the entries from ``start`` on, or of all, at most ``size`` at a time.

        The caller must verify order and checksums; without ``tiled``, also their count. Nothing may be written
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
    """LMDB's transaction. ``raw`` is the original, for operations that access only proven pages."""

    def __init__(self, raw: Any, file: PageFile, meta: MetaPage, *, is_writing: bool) -> None:
        """``meta`` is the state with which it began. Raises DamageError, StorageError."""
        self.raw = raw
        self.is_writing = is_writing
        self._file = file
        self._meta = meta
        self._trees = read_sub_databases(file, meta)
        if not is_writing:
            self._refuse_free_pages()
        self._proven: dict[Any, ProvenTree] = {}
        self._names: dict[Any, bytes] = {}
        self._free: bytearray | None = None
        self.id, self.stat, self.abort, self.commit = raw.id, raw.stat, raw.abort, raw.commit

    def _refuse_free_pages(self) -> None:
        """Have the trees refuse free pages. For writers, which take pages from there, more is proven."""
        trees = self._trees.values()
        if all(tree.free_numbers is not None for tree in trees):
            return  # known from an earlier transaction on the state
        free = read_free_page_numbers(self._file, self._meta)
        for tree in trees:
            tree.refuse_free_pages(free)

    @property
    def names(self) -> list[bytes]:
        """The names of the sub-databases of the state."""
        return sorted(self._trees)

    def _get_tree(self, database: Any) -> ProvenTree:
        known = self._proven.get(database)
        if known is None:
            name = self._names.get(database) or self._file.names[database]
            # One created in this transaction has no page in the state yet.
            tree = self._trees.get(name) or Tree(self._file, NO_PAGE, 0, self._meta.last_page)
            if self.is_writing:
                tree = tree.copy_for_writing(self._find_free_pages())
            known = self._proven[database] = ProvenTree(tree, self.raw, database)
        return known

    def begin_change(self, tree: ProvenTree) -> None:
        """Prepare the first change of a sub-database: LMDB allocates pages from the free list."""
        self._find_free_pages()
        tree.is_changed = True

    def _find_free_pages(self) -> bytearray:
        """Return the free pages of the state, with which the pages that LMDB writes to are compared."""
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
        """Prove completely the leaves in which searches for the ordered ``keys`` end."""
        self._get_tree(db).verify_writes(keys)

    def verify_all(self) -> None:
        """Prove every page of every sub-database, and the free list."""
        self.verify_free_list()
        for tree in self._trees.values():
            tree.verify_all()

    def open(self, env: Any, name: bytes, *, create: bool) -> Any:
        """Return LMDB's handle of a sub-database for this transaction; with ``create``, for later ones, too.

        Raises lmdb.NotFoundError.
        """
        if create and name not in self._trees:
            verify_free_list(self._file, self._meta)
        database = env.open_db(name, txn=self.raw, create=create)
        (self._file.names if create else self._names)[database] = name
        return database

    def cursor(self, db: Any) -> ProvenCursor:
        """Return a cursor of the sub-database ``db``."""
        return ProvenCursor(self, self.raw.cursor(db), self._get_tree(db))

    def get(self, key: bytes, default: Any = None, db: Any = None) -> Any:
        """Return the value of ``key`` in the sub-database ``db``."""
        # The leaf is proven completely, so that a missing key is proven absent.
        self._get_tree(db).verify_writes((key,))
        return self.raw.get(key, default, db)

    def read(self, key: bytes, db: Any) -> Any:
        """Return the value of ``key``, which is proven by its checksum; None if there is none."""
        found = None if self.is_writing else self._get_tree(db).look_up((key,))
        return found[0][1] if found else self.get(key, None, db)

    def put(self, key: bytes, value: bytes, *, db: Any) -> bool:
        """Set a value."""
        tree = self._get_tree(db)
        tree.verify_puts((key,))
        self.begin_change(tree)
        return bool(self.raw.put(key, value, db=db))

    def delete_many(self, keys: Iterable[bytes], *, db: Any) -> None:
        """Remove entries; missing ones are ignored."""
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
    """Begin a transaction with ``begin``. Raises its exceptions, DamageError, StorageError."""
    for attempt in range(_ATTEMPTS):
        raw = begin()
        try:
            # A writer starts from the state before its own number.
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
