"""Constants and structs of LMDB's pages. Format: LMDB 0.9, in the byte order of the machine."""

from __future__ import annotations

import struct

PAGE_SIZES = tuple(1 << bits for bits in range(9, 17))
MAX_TREE_DEPTH = 32
NO_PAGE = (1 << 64) - 1
"""The root of an empty tree."""
FIRST_TREE_PAGE = 2
"""The first page after the meta pages."""

BRANCH_FLAG, LEAF_FLAG, OVERFLOW_FLAG, META_FLAG = 0x01, 0x02, 0x04, 0x08
"""Kinds of pages."""
BIG_DATA_FLAG, SUB_TREE_FLAG = 0x01, 0x02
"""Kinds of leaf nodes: the value has overflow pages; the value describes a sub-database."""
INTEGER_KEY_FLAG, NO_SUBDIR_FLAG = 0x08, 0x4000
"""Flags in a meta page: of the free list: its keys are numbers; of the file: it is not a directory."""

PAGE_LAYOUT = struct.Struct("=QHHHH")
"""The header of a page: its number, padding, flags, end of the lower and start of the upper part."""
OVERFLOW_LAYOUT = struct.Struct("=QHHI")
"""The header of the first of a run of overflow pages: its number, padding, flags, number of pages of the run."""
NODE_LAYOUT = struct.Struct("=HHHH")
"""The header of a node: size of the value (low, high), flags, size of the key."""
NODE_WORD_LAYOUT = struct.Struct("=Q")
"""The header of a node as one number: from the lowest bits on, the size of the value or the lower part of a page number
(32 bits), flags or its upper part (16), the size of the key (16)."""
NODE_OFFSET_LAYOUT = struct.Struct("=H")
"""The offset of a node in its page, as in the list after the page's header."""
PAGE_NUMBER_LAYOUT = struct.Struct("=Q")
"""The body of a node whose value has overflow pages: the number of the first one."""
TREE_LAYOUT = struct.Struct("=IHHQQQQQ")
"""The record of a tree: padding, flags, depth, branch, leaf and overflow pages, entries, root."""
CHILD_MASK = (1 << 48) - 1
"""The bits of a branch node's header with the number of its page."""
NODE_ALIGNMENT_BYTES = 2
"""Alignment of nodes in bytes, which is also the size of a node's offset."""

LMDB_MAGIC = 0xBEEFC0DE
LMDB_VERSION = 1
META_HEAD_LAYOUT = struct.Struct("=IIQQ")
"""The beginning of a meta page, after its page header: magic, version, address, size of the map."""
META_TAIL_LAYOUT = struct.Struct("=QQ")
"""The end of a meta page, after the trees of the free list and of the sub-databases: last page, transaction number."""
META_HEAD_AT = PAGE_LAYOUT.size
META_TREES_AT = META_HEAD_AT + META_HEAD_LAYOUT.size
META_TAIL_AT = META_TREES_AT + 2 * TREE_LAYOUT.size
META_END = META_TAIL_AT + META_TAIL_LAYOUT.size


def count_overflow_pages(size: int, page_size: int) -> int:
    """Return the number of overflow pages of a value of ``size`` bytes: they have one header together."""
    return -(-(PAGE_LAYOUT.size + size) // page_size)
