"""Sets of row numbers. A row number is the position of a record in key order; a set is a list, or a numpy array.

For few records importing numpy costs more than arrays save, so the caller decides by the number of records
(``arrays``). Functions of row numbers return the form that they receive, unless documented otherwise.

The two forms are existing types, which memo files provide and queries use directly: each function implements both and
tests which form it has. A class for each would wrap and unwrap every set.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, compress
from operator import itemgetter
from struct import pack
from typing import Any, TypeAlias

from sowctl.memo.condition import Interval

RowNumbers: TypeAlias = Any
"""A list of ints, or a numpy array of them."""


def read_spans(places: memoryview, spans: Sequence[tuple[int, int]], *, arrays: bool) -> RowNumbers:
    """Return the row numbers in some spans of a section of u32 row numbers."""
    if arrays:
        import numpy

        parts = [numpy.frombuffer(places[start:stop], numpy.uint32) for start, stop in spans]
        return parts[0] if len(parts) == 1 else numpy.concatenate(parts) if parts else numpy.empty(0, numpy.uint32)
    # The section is a view of the mapped file: only the rows of these spans are read.
    if len(spans) == 1:
        return places[spans[0][0] : spans[0][1]].tolist()
    return list(chain.from_iterable(places[start:stop].tolist() for start, stop in spans))


def select_flagged(places: RowNumbers, codes: memoryview, flags: bytes) -> RowNumbers:
    """Return those of ``places`` whose code is flagged; ``flags`` has a byte for each code."""
    if not len(places):
        return places
    if not isinstance(places, list):
        import numpy

        # The flag of each row's code by two takes, without a comparison for each code.
        table = numpy.frombuffer(flags, numpy.bool_)
        return places.compress(table.take(numpy.frombuffer(codes, codes.format).take(places)))
    if len(places) == 1:
        return places if flags[codes[places[0]]] else []
    # itemgetter with many indexes returns a tuple in C; with one it would return the item itself, hence the case above.
    return list(compress(places, itemgetter(*itemgetter(*places)(codes))(flags)))


def select_within(places: RowNumbers, data: Any, interval: Interval) -> RowNumbers:
    """Return those of ``places`` whose number is in an interval."""
    low, high, open_low, open_high = interval.low, interval.high, interval.open_low, interval.open_high
    if not isinstance(places, list):
        import numpy

        values = numpy.frombuffer(data, data.format).take(places)
        chosen = numpy.ones(len(values), bool)
        if low is not None:
            chosen &= values > low if open_low else values >= low
        if high is not None:
            chosen &= values < high if open_high else values <= high
        return places.compress(chosen)
    if low is not None:
        places = [p for p in places if data[p] > low] if open_low else [p for p in places if data[p] >= low]
    if high is not None:
        places = [p for p in places if data[p] < high] if open_high else [p for p in places if data[p] <= high]
    return places


def exclude_rows(places: RowNumbers, removed: Iterable[int]) -> RowNumbers:
    """Return ``places`` without the ``removed`` ones."""
    gone = set(removed)
    return [place for place in list_rows(places) if place not in gone] if gone else places


def intersect_rows(places: RowNumbers, others: RowNumbers) -> RowNumbers:
    """Return those of ``places`` that are among ``others``."""
    if not isinstance(places, list):
        import numpy

        return places[numpy.isin(places, others)]
    # The set is built from the others, so that the order of ``places`` stays.
    known = set(list_rows(others))
    return [place for place in places if place in known]


def unite_rows(parts: Sequence[RowNumbers]) -> RowNumbers:
    """Return the union of several sets, in order."""
    if any(not isinstance(part, list) for part in parts):
        import numpy

        return numpy.unique(numpy.concatenate([numpy.asarray(part, numpy.uint32) for part in parts]))
    return sorted(set(chain.from_iterable(parts)))


def sort_rows(places: RowNumbers) -> RowNumbers:
    """Return the row numbers in order."""
    if isinstance(places, list):
        return sorted(places)
    import numpy

    return numpy.sort(places)


def take_rows(places: RowNumbers, indexes: Sequence[int]) -> RowNumbers:
    """Return some of the row numbers, by their indexes."""
    return [places[at] for at in indexes] if isinstance(places, (list, range)) else places[indexes]


def take_numbers(numbers: memoryview, places: RowNumbers) -> Any:
    """Return the numbers at two or more row numbers; an array if ``places`` is one."""
    if isinstance(places, (list, range)):
        return itemgetter(*places)(numbers)
    import numpy

    return numpy.frombuffer(numbers, numbers.format).take(places).astype(numpy.int64)


def pack_numbers(numbers: memoryview, places: RowNumbers) -> bytes:
    """Return the numbers at two or more row numbers as bytes, end to end."""
    if isinstance(places, (list, range)):
        return pack(f"={len(places)}{numbers.format}", *itemgetter(*places)(numbers))
    import numpy

    found: bytes = numpy.frombuffer(numbers, numbers.format).take(places).tobytes()
    return found


def list_ascending(places: RowNumbers) -> list[int]:
    """Return the row numbers in order, as a list."""
    if isinstance(places, list):
        return sorted(places)
    import numpy

    found: list[int] = numpy.sort(places).tolist()
    return found


def list_rows(places: RowNumbers) -> list[int]:
    """Return the row numbers as a list, in the same order."""
    found: list[int] = places if isinstance(places, list) else places.tolist()
    return found
