"""Salvage of a damaged store: the content that can still be read, nothing else (``sow-store(5)``, "Repairing").

Pages are read without LMDB, from the state that was committed last. A record is used if its checksum is right and its
page belongs to that state: a branch leads to it, or, if a branch is damaged, none does, and it is not in the free list.
Pages in the free list may have deleted records; without a valid free list no page without a branch is used. Called only
by the engine's repair, under the writer lock.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from sowctl.errors import DamageError, SowError, VersionError
from sowctl.seam import SEAM, Seam
from sowctl.store.codec import (
    EXPIRY_KEY_SIZE,
    HISTORY_KEY_SIZE,
    KEY_SIZE,
    build_history_key,
    encode_expiry_value,
    extract_expiring_key,
    extract_sow_key,
    is_sound,
)
from sowctl.store.integrity import DIGEST_MODULUS, compute_digest_sum
from sowctl.store.lmdberrors import translate_errors
from sowctl.store.lmdbfile.layout import FIRST_TREE_PAGE, LEAF_FLAG, PAGE_SIZES, count_overflow_pages
from sowctl.store.lmdbfile.meta_page import MetaPage, TreeInfo, parse_likely_meta_page, parse_meta_page
from sowctl.store.lmdbfile.walk import (
    KEY_END,
    PageNode,
    TreePage,
    Walk,
    count_run_pages,
    parse_leaf,
    read_free_list,
    read_named_trees,
    read_page_kind,
    read_value,
)
from sowctl.store.meta import META_KEY, SEQUENCE_PREFIX, StoreMeta, decode_meta, decode_sequence
from sowctl.store.opening.environment import CHANGES_DATABASE, DATABASE_NAMES
from sowctl.store.repair.pagefile import PageFile

SALVAGE_BATCH_RECORDS = 1000
MAX_SOW_KEY = (1 << 64) - 1
"""The highest SOW key."""
_DEFAULT_PAGE_BYTES = 4096
"""Page size if no meta page has it."""
_Leaf: TypeAlias = tuple[bytes, bytes, int]
"""The first and the last key of a leaf, and its page."""
Pairs: TypeAlias = tuple[list[bytes], list[bytes]]


class Loss(Struct, frozen=True):
    """An unreadable part of the store. It had one or more keys, from ``low`` to ``high`` (inclusive).

    ``key``: the stored key of a single unreadable record or version; its own bits may be wrong, so the bounds are those
    of its neighbours. ``versions``: it is part of the history, otherwise of the current records; ``txid`` of a version,
    from its key.
    """

    low: int
    high: int
    why: str
    key: int | None = None
    versions: bool = False
    txid: int | None = None


class _Gap(Struct, frozen=True):
    """A range of keys whose page is missing, from ``low`` up to ``high`` (exclusive)."""

    low: bytes
    high: bytes
    why: str


class _SavedTree:
    """The leaves of one sub-database, and the gaps between them."""

    def __init__(self, size: int) -> None:
        self.key_size = size
        self.leaves: list[tuple[bytes, int]] = []
        self.gaps: list[_Gap] = []
        self.tree: TreeInfo | None = None


class Salvage:
    """The content of a damaged store. Use as a context manager.

    ``meta`` is None if its record cannot be read, ``sequences`` None if one of them cannot. ``losses`` is complete
    after :meth:`iter_records` and :meth:`iter_versions` were read to their ends; then ``is_exact`` shows whether
    nothing is missing: the digest of the data read is the one in the meta record. ``earlier``: only the state before
    the last transaction was found. ``notes`` describe other problems.
    """

    def __init__(self, path: Path, seam: Seam = SEAM) -> None:
        """Open and examine the store. Raises VersionError for a newer format, StorageError."""
        self.path = path
        self.meta: StoreMeta | None = None
        self.sequences: dict[int, int] | None = {}
        self.losses: list[Loss] = []
        self.notes: list[str] = []
        self.earlier = False
        self._digest = 0
        self._counted = [0, 0]
        self._visited: set[int] = set()
        self._free: set[int] = set()
        self._large = 0
        self._expiry: TreeInfo | None = None
        self._saved = {b"records": _SavedTree(KEY_SIZE), b"history": _SavedTree(HISTORY_KEY_SIZE)}
        with translate_errors(path, "read the store"):
            self._metas, size = _read_meta_pages(path, seam)
            self._file = PageFile(path, size, seam)
            try:
                self._look_through()
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> Salvage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def has_content(self) -> bool:
        """True if there is any content."""
        return self.meta is not None or any(saved.leaves for saved in self._saved.values())

    @property
    def is_exact(self) -> bool:
        """True if the data read is everything that the store had; valid after everything was read."""
        meta = self.meta
        if meta is None or self.earlier or self.sequences is None or len(self.sequences) != meta.sequences:
            return False
        return self._digest % DIGEST_MODULUS == meta.digest and self._counted == [meta.records, meta.versions]

    def iter_records(self) -> Iterator[Pairs]:
        """Yield keys and values of the valid records, in key order. Damaged ones are added to ``losses``."""
        yield from self._read_saved(b"records", 0)

    def iter_versions(self) -> Iterator[Pairs]:
        """Yield history keys and values of the valid versions, in order."""
        yield from self._read_saved(b"history", 1)

    def iter_expiring_keys(self) -> Iterator[int]:
        """Yield the SOW keys of records with a lifetime, from their index, unordered, without damaged ones."""
        for node in self._read_small_tree(self._expiry):
            if len(node.key) == EXPIRY_KEY_SIZE and node.value == encode_expiry_value(node.key):
                yield _decode_sow_key(extract_expiring_key(node.key))

    def restart(self) -> None:
        """Reset counts and losses, to read again."""
        self._digest, self._counted, self.losses = 0, [0, 0], []

    # Which state

    def _look_through(self) -> None:
        state = self._find_committed_state()
        if state is None:
            self.notes.append("no LMDB meta page is usable")
            return
        free = read_free_list(self._file, state)
        if free is not None:
            self._free = free.own.union(*free.freed.values())
        trees = read_named_trees(self._file, state) or {}
        # If a tree is missing, its pages cannot be counted.
        counted = trees.keys() >= {*DATABASE_NAMES}
        self._large = sum(tree.overflow_pages for tree in trees.values()) if counted else state.last_page
        # A page has one position: a page seen before is not followed again, so that a cycle of wrong branches ends.
        self._visited = {0, 1}
        if trees:
            self._visited.add(state.main.root)
        for name, saved in self._saved.items():
            saved.tree = trees.get(name)
            if saved.tree is None:
                saved.gaps.append(_Gap(b"", KEY_END, "its root cannot be found"))
            elif saved.tree.depth:
                self._walk_tree(saved, saved.tree.root)
        self._read_meta(trees.get(b"meta"))
        # Used only if records are missing: it has keys but no records.
        self._expiry = trees.get(b"expiry")
        # A tree under another name may be one of these two, with a wrong bit in its name: then its leaves fill gaps.
        for name in trees.keys() & {*DATABASE_NAMES, CHANGES_DATABASE} - self._saved.keys():
            self._pass_over(trees[name])
        # If all branches are valid, a leaf without one is not part of this state: such leaves are used only to fill
        # gaps.
        if any(saved.gaps for saved in self._saved.values()) or self.meta is None:
            if free is None:
                self.notes.append("the list of free pages is damaged: pages without a branch are not used")
            else:
                self._adopt_orphan_leaves(state)

    def _find_committed_state(self) -> MetaPage | None:
        """Return the meta page of the last committed transaction, as far as it can be determined."""
        known = {page.number: page for page in self._metas}
        for page in self._metas:
            other = known.get(1 - page.number)
            led = self._leads_to(page)
            # A write of this page failed: its roots are of a transaction that was never committed (sow-store(5), How to
            # write).
            if other is not None and led is not None and led == page.txnid + 2 == other.txnid + 1:
                del known[page.number]
        # The meta record has the number of its transaction. It identifies a page whose own number was altered.
        order = sorted(known.values(), key=lambda page: (self._leads_to(page) or page.txnid, page.txnid), reverse=True)
        for page in order:
            if read_named_trees(self._file, page) or read_free_list(self._file, page) is not None:
                found = self._leads_to(page) or page.txnid
                self.earlier = any(other.txnid == found + 1 for other in order)
                return page
        return None

    def _leads_to(self, page: MetaPage) -> int | None:
        """Return the LMDB transaction that wrote the meta record under a meta page's roots."""
        # Each transaction rewrites the meta record with its own number: the record dates the roots that lead to it.
        tree = (read_named_trees(self._file, page) or {}).get(b"meta")
        for node in self._read_small_tree(tree):
            if node.key == META_KEY:
                data = read_value(self._file, node)
                try:
                    return decode_meta(data or b"", str(self.path)).transaction
                except VersionError:
                    raise
                except DamageError:
                    return None
        return None

    def _read_small_tree(self, tree: TreeInfo | None) -> Iterator[PageNode]:
        """Yield the entries of a small tree, in no particular order."""
        if tree is None:
            return
        # A damaged page ends its branch but not the search: the other entries may be intact.
        walk = Walk(self._file)
        yield from (node for node in walk.iter_entries(tree.root) if node is not None)
        self._visited |= walk.seen

    def _read_meta(self, tree: TreeInfo | None) -> None:
        for node in self._read_small_tree(tree):
            self._take_meta(node)
        if self.meta is None:
            self.notes.append("the meta record cannot be read")

    def _take_meta(self, node: PageNode) -> None:
        data = read_value(self._file, node) or b""
        try:
            if node.key == META_KEY:
                self.meta = decode_meta(data, str(self.path))
            elif node.key.startswith(SEQUENCE_PREFIX) and self.sequences is not None:
                publisher = int.from_bytes(node.key[len(SEQUENCE_PREFIX) :], "big")
                self.sequences[publisher] = decode_sequence(publisher, data, str(self.path))
        except VersionError:
            raise
        # One unreadable sequence makes the list useless: a publisher missing in it could repeat its messages.
        except (SowError, OverflowError) as problem:
            if node.key != META_KEY:
                self.sequences = None
                told = problem.summary if isinstance(problem, SowError) else problem
                self.notes.append(f"sequence numbers of publishers: {told}")

    # Which pages

    def _walk_tree(self, saved: _SavedTree, root: int) -> None:
        """Collect the leaves below a page, and the keys whose pages are missing."""
        # A free page may have valid records of an older state: any reference to it is wrong, and its records must not
        # reappear.
        for page in Walk(self._file, seen=self._visited, closed=self._free).iter_pages(root):
            if page.is_branch:
                # If a child does not lie within its branch, any keys of the branch may be missing.
                if None in page.children:
                    saved.gaps.append(_Gap(page.low, page.high, _describe_wrong_page(page.number)))
            elif page.is_leaf and page.data is not None:
                self._take_leaf(saved, page, page.data)
            else:
                is_lost = page.data is None and not page.is_repeated
                words = f"page {page.number} cannot be read" if is_lost else _describe_wrong_page(page.number)
                saved.gaps.append(_Gap(page.low, page.high, words))

    def _take_leaf(self, saved: _SavedTree, page: TreePage, data: bytes) -> None:
        number = page.number
        # A leaf is used if the checksum of at least one entry proves that the page belongs to these records.
        nodes = list(parse_leaf(data))
        sound = [node.key for node in nodes if node is not None and self._read_verified_value(saved, node) is not None]
        # A page of another sub-database, or of other keys, to which a wrong bit leads; or the bounds are wrong.
        if not sound or not page.low <= sound[0] <= sound[-1] < page.high or sound != sorted(sound):
            bounds = page.above if sound else (page.low, page.high)
            saved.gaps.append(_Gap(*bounds, _describe_wrong_page(number)))
            return
        self._visited.add(number)
        # The size of a damaged entry may be wrong: it must not claim the pages of other entries.
        for node in nodes:
            if node is not None and node.value is None and node.key in sound:
                self._visited.update(
                    range(node.page, node.page + count_overflow_pages(node.size, self._file.page_size))
                )
        # In key order whatever leads here, so that reading passes keys once and gaps are between neighbours.
        insort(saved.leaves, (sound[0], number))

    def _read_verified_value(self, saved: _SavedTree, node: PageNode) -> bytes | None:
        """Return the value of an entry, if key and checksum are right."""
        if len(node.key) != saved.key_size:
            return None
        # The checksum covers key and payload: a value under another key fails.
        value = read_value(self._file, node)
        if value is None or not is_sound(extract_sow_key(node.key), value):
            return None
        if saved.key_size == HISTORY_KEY_SIZE and build_history_key(extract_sow_key(node.key), value) != node.key:
            return None
        return value

    def _pass_over(self, tree: TreeInfo) -> None:
        """Mark the pages of a sub-database that is rebuilt: they have no records."""
        for node in self._read_small_tree(tree):
            if node.value is None:
                # Checksums are not verified here: the size in the entry or in the first page may be wrong. Pages
                # claimed by both belong to this value; a leaf after it must not be skipped with it.
                count = min(count_overflow_pages(node.size, self._file.page_size), self._count_claimed_pages(node.page))
                self._visited.update(range(node.page, node.page + count))

    def _count_claimed_pages(self, number: int) -> int:
        """Return the length of a large value's run according to its first page; 0 if it is not plausible."""
        data = self._file.read_page(number)
        count = 0 if data is None else count_run_pages(data, number)
        # No value has more pages than all large values together, or pages that are free or used elsewhere.
        run = range(number, number + count)
        return 0 if count > self._large or any(page in self._visited or page in self._free for page in run) else count

    def _adopt_orphan_leaves(self, state: MetaPage) -> None:
        """Add the leaves without a branch: they are in use, because they are not free, and their keys are missing."""
        found: dict[bytes, list[_Leaf]] = {name: [] for name in self._saved}
        number = FIRST_TREE_PAGE
        while number <= min(state.last_page, self._file.size // state.page_size):
            data = None if number in self._visited or number in self._free else self._file.read_page(number)
            if data is None:
                number += 1
                continue
            if read_page_kind(data, number) == LEAF_FLAG:
                self._offer_orphan(data, number, found)
            # The inside of a large value may look like a page: the run is skipped as a whole.
            number += max(1, self._count_claimed_pages(number))
        for name, leaves in found.items():
            self._adopt_leaves(self._saved[name], sorted(leaves))

    def _offer_orphan(self, data: bytes, number: int, found: dict[bytes, list[_Leaf]]) -> None:
        nodes = [node for node in parse_leaf(data) if node is not None]
        if self.meta is None and any(node.key == META_KEY for node in nodes):
            for node in nodes:
                self._take_meta(node)
            return
        for name, saved in self._saved.items():
            keys = [node.key for node in nodes if self._read_verified_value(saved, node) is not None]
            # Only leaves completely within a gap are used: elsewhere a branch has already determined the page of these
            # keys.
            if keys and keys == sorted(keys) and any(gap.low <= keys[0] and keys[-1] < gap.high for gap in saved.gaps):
                found[name].append((keys[0], keys[-1], number))

    def _adopt_leaves(self, saved: _SavedTree, leaves: list[_Leaf]) -> None:
        if not leaves:
            return
        tree = saved.tree
        apart = all(one[1] < other[0] for one, other in pairwise(leaves))
        # The tree counts its leaves: more candidates than missing leaves mean that one of them is of another state.
        missing = tree.leaf_pages - len(saved.leaves) if tree is not None else len(leaves)
        if not apart or len(leaves) > missing:
            # One of them is of another state, and it is unknown which.
            self.notes.append(f"{len(leaves)} pages without a branch are not used, because they contradict each other")
            return
        for first, _, number in leaves:
            insort(saved.leaves, (first, number))
        saved.gaps = [part for gap in saved.gaps for part in _subtract_leaves(gap, leaves)]
        # All leaves counted by the tree were found, so no page is missing between them.
        if tree is not None and len(saved.leaves) == tree.leaf_pages:
            saved.gaps = []

    # Records and versions

    def _read_saved(self, name: bytes, place: int) -> Iterator[Pairs]:
        saved = self._saved[name]
        versions = bool(place)
        for gap in saved.gaps:
            self.losses.append(Loss(_decode_sow_key(gap.low), _find_last_key_before(gap.high), gap.why, None, versions))
        keys: list[bytes] = []
        values: list[bytes] = []
        last = b""
        # Unreadable entries are between the valid ones before and after them.
        pending: list[bytes | None] = []
        # An entry that a split has left in a page is valid but no longer part of it: its key belongs to another page.
        ends = [first for first, _ in saved.leaves[1:]] + [KEY_END]
        for (_, number), end in zip(saved.leaves, ends, strict=False):
            data = self._file.read_page(number)
            for node in parse_leaf(data) if data is not None else (None,):
                value = None if node is None else self._read_verified_value(saved, node)
                if node is None or value is None or not last < node.key < end:
                    pending.append(None if node is None else node.key)
                    continue
                self._note_loss(pending, last, node.key, versions)
                last = node.key
                keys.append(node.key)
                values.append(value)
                if len(keys) == SALVAGE_BATCH_RECORDS:
                    self._count_sound(keys, values, place)
                    yield keys, values
                    keys, values = [], []
        # After the last valid entry, only the end of the key space is a bound.
        self._note_loss(pending, last, KEY_END, versions)
        if keys:
            self._count_sound(keys, values, place)
            yield keys, values

    def _note_loss(self, pending: list[bytes | None], before: bytes, behind: bytes, versions: bool) -> None:
        """Record unreadable entries between two keys. For versions, both keys may be the ones that lost a version."""
        for key in pending:
            low = _decode_sow_key(before) + (0 if versions or not before else 1)
            high = _find_last_key_before(behind) if not versions or behind == KEY_END else _decode_sow_key(behind)
            txid = int.from_bytes(key[16:], "big") if key is not None and len(key) == HISTORY_KEY_SIZE else None
            number = None if key is None else _decode_sow_key(key)
            self.losses.append(Loss(low, max(low, high), "its checksum does not match", number, versions, txid))
        pending.clear()

    def _count_sound(self, keys: list[bytes], values: list[bytes], place: int) -> None:
        self._counted[place] += len(keys)
        self._digest += compute_digest_sum(list(map(extract_sow_key, keys)), values)


def _describe_wrong_page(number: int) -> str:
    return f"page {number} is damaged or outdated"


def _subtract_leaves(gap: _Gap, leaves: list[_Leaf]) -> Iterator[_Gap]:
    """Yield the parts of a gap between found leaves."""
    low = gap.low
    for first, last, _ in leaves:
        if gap.low <= first and last < gap.high:
            if low < first:
                yield replace(gap, low=low, high=first)
            low = last + b"\0"
    if low < gap.high:
        yield replace(gap, low=low)


def _decode_sow_key(key: bytes) -> int:
    """Return the SOW key at the beginning of a key of records or versions, or of a prefix of one."""
    return int.from_bytes(extract_sow_key(key).ljust(KEY_SIZE, b"\0"), "big")


def _find_last_key_before(behind: bytes) -> int:
    """Return the last SOW key that may precede a key."""
    number = _decode_sow_key(behind)
    return MAX_SOW_KEY if behind == KEY_END else number if len(behind) > KEY_SIZE else max(0, number - 1)


def _read_meta_pages(path: Path, seam: Seam) -> tuple[list[MetaPage], int]:
    """Return both meta pages, valid or not, and the page size, which one of them has."""
    with PageFile(path, PAGE_SIZES[-1], seam) as file:
        data = file.read_beginning(2 * PAGE_SIZES[-1])
    first = parse_meta_page(data, 0)
    sizes = [first.page_size] if isinstance(first, MetaPage) else []
    for size in PAGE_SIZES:
        second = parse_meta_page(data[size : 2 * size], 1)
        sizes += [size] if isinstance(second, MetaPage) and second.page_size == size else []
    size = sizes[0] if sizes else _DEFAULT_PAGE_BYTES
    pages = parse_likely_meta_page(data[:size], 0, size), parse_likely_meta_page(data[size : 2 * size], 1, size)
    return [page for page in pages if page is not None], size


__all__ = ["MAX_SOW_KEY", "Loss", "Salvage"]
