"""The list of free pages, which LMDB takes pages from when it writes: page numbers by the transaction that freed them.

A number that names no page, or one twice, would be written to all the same. A page that is free and in use is not
noticed here, as finding that out takes every branch of every tree: checks do it.
"""

from __future__ import annotations

import sys

from sowctl.store.opening.pages import BIG_DATA, NO_PAGE, PAGE, MetaPage
from sowctl.store.opening.proof.page import PAGE_NUMBER
from sowctl.store.opening.proof.tree import PageFile

_WORD = PAGE_NUMBER.size


def verify_free_list(file: PageFile, meta: MetaPage) -> None:
    """Prove the free list of a state, once for an open file. Raises DamageError SOW-STO-023, StorageError.

    It may be as long as the store was; what is written to it later, LMDB makes of what was proven.
    """
    if file.is_list_proven:
        return
    leaves = _leaves(file, meta)
    lists: list[bytes] = []
    before = -1
    for number in leaves:
        data, page = file.leaf(number)
        for key, flags, size, place in zip(page.keys, page.flags, page.sizes, page.places, strict=True):
            freed_by = int.from_bytes(key, sys.byteorder) if len(key) == _WORD else -1
            if not before < freed_by <= meta.txnid or flags not in (0, BIG_DATA):
                raise file.fault(number, "it is not a list of free pages")
            before = freed_by
            if flags == BIG_DATA:
                first = PAGE_NUMBER.unpack_from(data, place)[0]
                file.verify_run(number, first, size, meta.last_page)
                pages = -(-(PAGE.size + size) // file.page_size)
                lists.append(file.read(first, pages)[PAGE.size : PAGE.size + size])
            else:
                lists.append(data[place : place + size])
    if leaves:
        _verify_numbers(file, meta, leaves[0], lists)
    file.is_list_proven = True


def _leaves(file: PageFile, meta: MetaPage) -> list[int]:
    if meta.free_root == NO_PAGE:
        return []
    pages = [meta.free_root]
    # Their keys are in another order than others: only where they lead to is asked for.
    for _ in range(meta.free_depth - 1):
        pages = [child for number in pages for child in file.branch(number).children]
        if not min(pages) >= 2 or max(pages) > meta.last_page or len(pages) > meta.last_page:
            raise file.fault(meta.free_root, "it refers to a page that does not exist")
    return pages


def _verify_numbers(file: PageFile, meta: MetaPage, page: int, lists: list[bytes]) -> None:
    """Each list has its length before it, and its numbers descend; no page is in two of them."""
    counted: list[int] = []
    for data in lists:
        words = memoryview(data).cast("Q") if len(data) % _WORD == 0 and data else None
        if words is None or words[0] != len(words) - 1:
            raise file.fault(page, "the length of a list of free pages is wrong")
        numbers = words[1:].tolist()
        if not numbers:
            continue
        if numbers[-1] < 2 or numbers[0] > meta.last_page or numbers != sorted(numbers, reverse=True):
            raise file.fault(page, "a list of free pages has an invalid page number")
        counted += numbers
    if len(set(counted)) != len(counted):
        raise file.fault(page, "a page is listed as free twice")


__all__ = ["verify_free_list"]
