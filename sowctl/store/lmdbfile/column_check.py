"""The check of many leaf pages at once, in columns (:mod:`sowctl.store.lmdbfile.check` checks one page).

Imports numpy. It proves leaves of a simple form: without overflow pages. Other leaves may be valid, too: they are
proven one by one, which also finds their errors.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from struct import unpack
from typing import NamedTuple

import numpy as np

from sowctl.identity.keyspace import sort_distinct
from sowctl.store.lmdbfile.layout import NODE_WORD_LAYOUT
from sowctl.store.lmdbfile.locate import Array, read_nodes, view_longs

_NODE_SIZE = NODE_WORD_LAYOUT.size
_WORD_BYTES = 8


class LeafColumns(NamedTuple):
    """Proven leaves: page numbers, counts of entries, first and last keys, bytes of all nodes and of the largest
    one."""

    numbers: list[int]
    counts: list[int]
    firsts: list[bytes]
    lasts: list[bytes]
    used: list[int]
    largest: list[int]


class Gaps(NamedTuple):
    """The bounds in the file of the entries next to absent keys, and the keys at an end of a page."""

    starts: list[int]
    stops: list[int]
    edges: list[bytes]


def probe_leaves(data: mmap.mmap, page_size: int, pages: Sequence[int]) -> dict[int, int]:
    """Count the entries of those of ``pages`` that pass the short proof of single leaves.

    All of ``pages`` must be in the file.
    """
    nodes = read_nodes(data, page_size, np.array(pages, np.int64))
    return dict(zip(nodes.pages.tolist(), nodes.counts.tolist(), strict=True))


def read_leaves(data: mmap.mmap, page_size: int, pages: Sequence[int]) -> LeafColumns | None:
    """Return those of ``pages``, which are in the file, whose nodes fill their end, with ascending keys of one size.

    Keys are a multiple of 8 bytes. None if no page is proven.
    """
    nodes = read_nodes(data, page_size, np.array(pages, np.int64))
    if not len(nodes.pages):
        return None
    key_size = int(nodes.heads[0] >> np.uint64(48))
    if not key_size or key_size % _WORD_BYTES:
        return None
    longs = view_longs(data)
    wrong = nodes.heads >> np.uint64(48) != key_size
    keys = nodes.rows + nodes.places + _NODE_SIZE
    # A key of another size might not lie within its page.
    keys[wrong] = 0
    wrong[1:] |= ~_keys_ascend(longs, keys, key_size)
    # The first key of a page is not compared.
    wrong[nodes.begins] = nodes.heads[nodes.begins] >> np.uint64(48) != key_size
    sound = ~np.logical_or.reduceat(wrong, nodes.begins)
    ends = nodes.ends + 1 & -2
    # Each node except the last ends where another begins, and each except the first begins where another ends. The
    # numbers of each page below are in a separate range, so that one sort orders every page.
    ranges = np.arange(len(nodes.pages)) << 17
    node_ranges = np.repeat(ranges, nodes.counts)
    begun = np.sort(np.concatenate((node_ranges + nodes.places, ranges + page_size)))
    ended = np.sort(np.concatenate((node_ranges + ends, ranges + nodes.uppers)))
    both = nodes.begins + np.arange(len(nodes.pages))
    sound &= np.logical_and.reduceat(begun == ended, both)
    lasts = np.append(nodes.begins[1:], len(keys)) - 1
    sizes = ends - nodes.places
    return LeafColumns(
        nodes.pages[sound].tolist(),
        nodes.counts[sound].tolist(),
        [data[at : at + key_size] for at in keys[nodes.begins][sound].tolist()],
        [data[at : at + key_size] for at in keys[lasts][sound].tolist()],
        (page_size - nodes.uppers)[sound].tolist(),
        np.maximum.reduceat(sizes, nodes.begins)[sound].tolist(),
    )


def read_entries(
    data: mmap.mmap, page_size: int, pages: Sequence[int], *, tiled: bool = False
) -> tuple[list[bytes], list[bytes]] | None:
    """Return keys and values of leaves in the file, in their order; None if one fails the short proof of
    :func:`probe_leaves`, or its keys have another length than those of the first one.

    ``tiled``: the entries of each must fill its end, so that none is missing.
    """
    nodes = read_nodes(data, page_size, np.array(pages, np.int64))
    if len(nodes.pages) != len(pages):
        return None
    key_size = int(nodes.heads[0] >> np.uint64(48))
    if not key_size or (nodes.heads >> np.uint64(48) != key_size).any():
        return None
    if tiled:
        used = np.add.reduceat((nodes.ends + 1 & -2) - nodes.places, nodes.begins)
        if (used != page_size - nodes.uppers).any():
            return None
    starts = nodes.rows + nodes.places + _NODE_SIZE
    stops = (nodes.rows + nodes.ends).tolist()
    bodies = (starts + key_size).tolist()
    if key_size == _WORD_BYTES:
        keys = list(unpack(f"{_WORD_BYTES}s" * len(starts), view_longs(data)[starts].tobytes()))
    else:
        keys = list(map(data.__getitem__, map(slice, starts.tolist(), bodies)))
    return keys, list(map(data.__getitem__, map(slice, bodies, stops)))


def find_gaps(data: mmap.mmap, page_size: int, pages: Sequence[int], keys: Sequence[bytes]) -> Gaps | None:
    """Return the entries between which the ordered ``keys`` would be; ``pages`` are proven leaves in order, with all
    entries between the first and the last of ``keys``. None if keys do not have 8 bytes, or a value is in overflow
    pages.
    """
    nodes = read_nodes(data, page_size, np.array(pages, np.int64))
    if len(nodes.pages) != len(pages) or (nodes.heads >> np.uint64(48) != _WORD_BYTES).any():
        return None
    joined = b"".join(keys)
    if len(joined) != _WORD_BYTES * len(keys) or set(map(len, keys)) != {_WORD_BYTES}:
        return None
    starts = nodes.rows + nodes.places + _NODE_SIZE
    there = view_longs(data)[starts].view(">u8").astype(np.uint64)
    if (there[1:] <= there[:-1]).any():
        return None
    wanted = np.frombuffer(joined, ">u8").astype(np.uint64)
    places = np.searchsorted(there, wanted)
    # The neighbour of a key that is the first or last one of its page may be on another page.
    bounds = np.zeros(len(there) + 1, bool)
    bounds[nodes.begins] = bounds[-1] = True
    edges = bounds[places]
    inner = places[~edges]
    both = sort_distinct([inner, inner - 1])
    stops = nodes.rows + nodes.ends
    return Gaps(starts[both].tolist(), stops[both].tolist(), [keys[at] for at in np.flatnonzero(edges).tolist()])


def _keys_ascend(longs: Array, keys: Array, key_size: int) -> Array:
    """Return whether each key, at an offset in ``keys``, is greater than the previous one."""
    greater = np.zeros(len(keys) - 1, bool)
    equal = np.ones(len(keys) - 1, bool)
    for at in range(0, key_size, _WORD_BYTES):
        words = longs[keys + at].view(">u8").astype(np.uint64)
        greater |= equal & (words[1:] > words[:-1])
        if at + _WORD_BYTES < key_size:
            equal &= words[1:] == words[:-1]
    return greater


__all__ = ["Gaps", "LeafColumns", "find_gaps", "probe_leaves", "read_entries", "read_leaves"]
