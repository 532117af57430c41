"""Constants and structs of LMDB's pages. Format: LMDB 0.9, in the byte order of the machine."""

from __future__ import annotations

import struct

PAGE_SIZES = tuple(1 << bits for bits in range(9, 17))
MAX_TREE_DEPTH = 32
NO_PAGE = (1 << 64) - 1
"""The root of an empty tree."""
FIRST_TREE_PAGE = 2
"""The first page that is no meta page."""

BRANCH_FLAG, LEAF_FLAG, OVERFLOW_FLAG, META_FLAG = 0x01, 0x02, 0x04, 0x08
"""Kinds of pages."""
BIG_DATA_FLAG, SUB_TREE_FLAG = 0x01, 0x02
"""Kinds of leaf nodes: the value has overflow pages; the value describes a sub-database."""
INTEGER_KEY_FLAG, NO_SUBDIR_FLAG = 0x08, 0x4000
"""What a meta page notes of the free list: its keys are numbers; and of the file: it is no directory."""

PAGE_LAYOUT = struct.Struct("=QHHHH")
"""The head of a page: its number, padding, flags, ends of the lower and begin of the upper part."""
OVERFLOW_LAYOUT = struct.Struct("=QHHI")
"""The head of the first of a run of overflow pages: its number, padding, flags, how many pages the run has."""
NODE_LAYOUT = struct.Struct("=HHHH")
"""The head of a node: size of the value (low, high), flags, size of the key."""
NODE_WORD_LAYOUT = struct.Struct("=Q")
"""The head of a node as one number: from the lowest bits on, the size of the value or the lower part of a page number
(32 bits), flags or its upper part (16), the size of the key (16)."""
NODE_OFFSET_LAYOUT = struct.Struct("=H")
"""The offset of a node in its page, as the list behind the page's head has it."""
PAGE_NUMBER_LAYOUT = struct.Struct("=Q")
"""What a node holds of a value that has overflow pages: the number of the first one."""
TREE_LAYOUT = struct.Struct("=IHHQQQQQ")
"""The record of a tree: padding, flags, depth, branch, leaf and overflow pages, entries, root."""
CHILD_MASK = (1 << 48) - 1
"""The bits of a branch node's head that are the number of its page."""
NODE_ALIGNMENT_BYTES = 2
"""Bytes by which nodes are aligned, and which the offset of one takes."""

LMDB_MAGIC = 0xBEEFC0DE
LMDB_VERSION = 1
META_HEAD_LAYOUT = struct.Struct("=IIQQ")
"""What a meta page begins with, behind its head: magic, version, address, size of the map."""
META_TAIL_LAYOUT = struct.Struct("=QQ")
"""What it ends with, behind the trees of the free list and of the sub-databases: last page, transaction number."""
META_HEAD_AT = PAGE_LAYOUT.size
META_TREES_AT = META_HEAD_AT + META_HEAD_LAYOUT.size
META_TAIL_AT = META_TREES_AT + 2 * TREE_LAYOUT.size
META_END = META_TAIL_AT + META_TAIL_LAYOUT.size


def count_overflow_pages(size: int, page_size: int) -> int:
    """Return how many pages of its own a value of ``size`` bytes takes: they have one head together."""
    return -(-(PAGE_LAYOUT.size + size) // page_size)
