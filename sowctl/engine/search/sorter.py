"""Sorting the result of a query by fields or by time: sort keys, and an external sort in bounded memory.

:func:`sort_records` is called by :mod:`sowctl.engine.verbs.query`. Sort keys are computed batch by batch
(:class:`FieldRanks`, :class:`TimeRanks`). :class:`Sorter` keeps the first n items, or all in sorted runs in temporary
files. Items are ``(sort key, SOW key, value)``. Sort keys are plain tuples (:mod:`sowctl.values.order`), so runs can be
written with :mod:`marshal`: it is fast, and safe because it reads only plain values that this process wrote itself.
Ruled by ``behaviour`` 3.2.
"""

from __future__ import annotations

import heapq
import marshal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from sowctl.engine.records import RecordBatch, build_record_batch
from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.search.plan import PartReducer
from sowctl.messages.base import build_column_extractor
from sowctl.store.codec import extract_payloads, read_stamps
from sowctl.values.fields import Slot

if TYPE_CHECKING:
    from collections.abc import Generator

    from sowctl.engine.instance import Instance
    from sowctl.engine.options import QueryOptions
    from sowctl.engine.sources.source import MatchedPairs, Pairs, Source
    from sowctl.expressions.syntax.actions import OrderKey
    from sowctl.messages.base import MessageType

SourceReader: TypeAlias = "Callable[[PartReducer | None], Generator[tuple[Source, Iterator[MatchedPairs]]]]"
"""Yields every source with its matching records; each call reads them again.

Further processes may omit records that the given reducer does not need.
"""
SortItem = tuple[Any, bytes, bytes]
"""Sort key, unique key, stored value: items are ordered as tuples."""
_ITEM_OVERHEAD_BYTES = 300
"""Approximate memory that Python uses for an item in addition to its value."""


def sort_records(
    found: SourceReader, instance: Instance, options: QueryOptions, order: Sequence[OrderKey], wanted: int | None
) -> Generator[RecordBatch]:
    """Sort the matching records, by time if ``order`` is empty. ``wanted``: number of first records, including skipped
    ones; None for all.

    If a field compared as strings turns out to hold a number, start over with numeric comparison. Raises the errors of
    reading.
    """
    # How strings compare depends on the complete set: with one number in it, strings with a numeric reading are
    # numbers, too. Each element of ``mixed`` changes only to true, so there are at most as many restarts as order keys.
    mixed = [False] * len(order)
    while True:
        names: list[tuple[str, MessageType]] = []
        with closing(Sorter(options.sort_memory, wanted)) as sorter:
            ranks = FieldRanks(order, mixed) if order else TimeRanks()
            # An order by time decodes no records, so further processes would have no work.
            parts = TopKReducer(order, mixed, wanted, options.sort_memory) if order and wanted is not None else None
            if _collect_items(found, instance, ranks, sorter, names, parts):
                yield from _emit_batches(sorter, names, options)
                return


def _collect_items(
    found: SourceReader,
    instance: Instance,
    ranks: FieldRanks | TimeRanks,
    sorter: Sorter,
    names: list[tuple[str, MessageType]],
    parts: TopKReducer | None,
) -> bool:
    """Fill the sorter and the ``names`` of sources. Return False if an order key must be compared differently."""
    with closing(found(parts)) as sources:
        for number, (source, matched) in enumerate(sources):
            # Keys are unique only within a topic. With the topic's number they are unique in the result, so no two
            # items are equal.
            owner = number.to_bytes(2, "big")
            kind = instance.find_message_type(source.message_type)
            names.append((source.topic, kind))
            ranks.set_type(kind)
            if not all(_offer_items(sorter, ranks, keys, values, owner) for keys, values in matched):
                return False
            if parts is not None and not parts.check_agreement():
                return False
    return True


def _offer_items(
    sorter: Sorter, ranks: FieldRanks | TimeRanks, keys: Sequence[bytes], values: Sequence[bytes], owner: bytes
) -> bool:
    """Add the records that may be among the first. Return False if an order key must be compared differently."""
    # Read again for each batch, because the limit tightens as better records are added.
    limit = sorter.limit
    ranked = ranks.compute_ranks_before(values, limit)
    if ranked is None:
        return False
    if limit is not None:
        # Keep equal ranks: the SOW key decides between them.
        ranked = [(place, rank) for place, rank in ranked if rank <= limit]
    sorter.add([(rank, keys[place] + owner, values[place]) for place, rank in ranked])
    return True


class TopKReducer(PartReducer):
    """Reduces parts in further processes to the matching records that may be among the first.

    ``mixed``: see :func:`sort_records`. A process sees only its part, and reports how it compared the order keys. If
    this differs from the comparison of the complete set, its result is unusable.
    """

    def __init__(self, order: Sequence[OrderKey], mixed: list[bool], wanted: int, memory: int) -> None:
        self._order, self._mixed, self._wanted, self._memory = order, mixed, wanted, memory
        self._reported: list[list[bool]] = []

    def reduce_part(self, kind: MessageType, found: Iterator[Pairs]) -> tuple[Iterator[Pairs], list[bool]]:
        """See :class:`PartReducer`. Raises ValueError if the comparison changes within the part, so that the first
        process reads the part again."""
        mixed = list(self._mixed)
        ranks = FieldRanks(self._order, mixed)
        ranks.set_type(kind)
        with closing(Sorter(self._memory, self._wanted)) as sorter:
            if not all(_offer_items(sorter, ranks, keys, values, b"") for keys, values in found):
                raise ValueError("the reading of a key has to change")
            kept = sorted([(key, value) for _, key, value in sorter.iterate_sorted()])
        parts = [
            kept[at : at + QUERY_LIMITS.spill_batch_items] for at in range(0, len(kept), QUERY_LIMITS.spill_batch_items)
        ]
        return map(_split_columns, parts), mixed

    def add_report(self, told: list[bool]) -> None:
        """See :class:`PartReducer`."""
        self._reported.append(told)

    def note_numbers(self, numbers: Sequence[bool]) -> None:
        """See :class:`PartReducer`."""
        # The sorter has seen only some records, but the numbers it has found count, too.
        self._reported.append([seen or known for seen, known in zip(numbers, self._mixed, strict=True)])

    def check_agreement(self) -> bool:
        """Return whether all parts were compared like the complete set; update ``mixed`` to the comparison required."""
        same = all(told == self._mixed for told in self._reported)
        self._mixed[:] = map(any, zip(self._mixed, *self._reported, strict=True))
        self._reported.clear()
        return same


def _emit_batches(sorter: Sorter, names: list[tuple[str, MessageType]], options: QueryOptions) -> Iterator[RecordBatch]:
    held: list[tuple[bytes, bytes]] = []
    number = -1
    for _, ranked, value in islice(sorter.iterate_sorted(), options.skip_n or 0, None):
        owner = int.from_bytes(ranked[8:], "big")
        # A batch contains records of a single topic.
        if held and (owner != number or len(held) >= options.batch_size):
            yield build_record_batch(*names[number], *_split_columns(held))
            held = []
        number = owner
        held.append((ranked[:8], value))
    if held:
        yield build_record_batch(*names[number], *_split_columns(held))


def _split_columns(held: list[tuple[bytes, bytes]]) -> Pairs:
    return [key for key, _ in held], [value for _, value in held]


def holds_number(kind: MessageType, key: OrderKey, values: Iterable[bytes]) -> bool:
    """Return whether the order field is a number in any record; then strings are compared as numbers, too."""
    from sowctl.values.order import has_numbers

    rows, _ = kind.build_extractor((Slot(key.path, text=key.text),))(extract_payloads(values))
    return has_numbers([row[0] for row in rows])


class FieldRanks:
    """Sort keys by fields. Each order key is compared as strings until the first number is found, then numerically."""

    def __init__(self, order: Sequence[OrderKey], mixed: list[bool]) -> None:
        from sowctl.values import order as ordering

        self._order, self._mixed, self._seen = order, mixed, False
        self._ordering = ordering
        self._slots = tuple(Slot(key.path, text=key.text) for key in order)

    def set_type(self, kind: MessageType) -> None:
        """Set the message type of the next values."""
        self._read = build_column_extractor(kind.build_extractor(self._slots))

    def compute_ranks(self, values: Sequence[bytes]) -> list[Any] | None:
        """Return the sort keys of all values; None if previous sort keys used a comparison that has become invalid."""
        found = self.compute_ranks_before(values, None)
        return None if found is None else [rank for _, rank in found]

    def compute_ranks_before(self, values: Sequence[bytes], limit: Any) -> Iterable[tuple[int, Any]] | None:
        """Return row numbers and sort keys; None if previous sort keys used a comparison that has become invalid.

        Rows may be omitted if their first field sorts after that of ``limit``, a sort key or None.
        """
        if not values:
            return []
        ordering = self._ordering
        columns = self._read(extract_payloads(values))[0]
        numeric = [known or ordering.has_numbers(one) for known, one in zip(self._mixed, columns, strict=True)]
        if numeric != self._mixed:
            self._mixed[:] = numeric
            # Previous sort keys cannot be compared with new ones.
            if self._seen:
                return None
        self._seen = True
        places: Sequence[int] = range(len(values))
        if limit is not None:
            places = ordering.find_at_or_before(columns[0], limit[0], self._order[0].text)
            columns = [[column[place] for place in places] for column in columns]
        parts = []
        for column, key, mixed in zip(columns, self._order, self._mixed, strict=True):
            part = ordering.build_components(column, mixed, key.text)
            parts.append(ordering.reverse_components(part) if key.descending else part)
        return zip(places, zip(*parts, strict=True), strict=True)


class TimeRanks:
    """Sort keys by time and txid: the order for republishing records."""

    def set_type(self, kind: MessageType) -> None:
        """Do nothing: stamps do not depend on the message type."""

    def compute_ranks_before(self, values: Sequence[bytes], limit: Any) -> Iterable[tuple[int, Any]] | None:
        """Return row numbers and sort keys."""
        # Stamps are (txid, time). Reversed, they sort by time, and by txid between equal times.
        return enumerate([read_stamps(value)[::-1] for value in values])


class Sorter:
    """Sorts items. ``first``: number of first items to return, None for all. ``memory``: maximum bytes in memory."""

    def __init__(self, memory: int, first: int | None = None) -> None:
        self._memory = memory
        self._first = first
        self._items: list[SortItem] = []
        self._size = 0
        self._limit: SortItem | None = None
        self._runs: list[IO[bytes]] = []
        self._stack = ExitStack()

    @property
    def limit(self) -> Any:
        """The sort key after which no more items are needed; None until it is known."""
        return None if self._limit is None else self._limit[0]

    def add(self, items: list[SortItem]) -> None:
        """Add items in any order."""
        if self._limit is not None:
            limit = self._limit
            # Skip items that cannot be among the first.
            items = [item for item in items if item < limit]
        self._items.extend(items)
        self._size += sum(len(value) for _, _, value in items) + _ITEM_OVERHEAD_BYTES * len(items)
        # Trim at about twice the wanted number, so that each item takes part in few sorts.
        if self._first is not None and len(self._items) > 2 * self._first + 1000:
            self._trim()
        if self._size > self._memory:
            self._spill()

    def _trim(self) -> None:
        self._items.sort()
        del self._items[self._first :]
        if self._items:
            # Enough items sort before this one, so no item after it is needed.
            self._limit = self._items[-1]
        self._size = sum(len(value) for _, _, value in self._items) + _ITEM_OVERHEAD_BYTES * len(self._items)

    def _spill(self) -> None:
        import tempfile

        self._items.sort()
        if self._first is not None:
            del self._items[self._first :]
        run = self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - closed by the stack
        for start in range(0, len(self._items), QUERY_LIMITS.spill_batch_items):
            marshal.dump(self._items[start : start + QUERY_LIMITS.spill_batch_items], run)
        # An empty list ends a run.
        marshal.dump([], run)
        run.seek(0)
        self._runs.append(run)
        self._items, self._size = [], 0

    def iterate_sorted(self) -> Iterator[SortItem]:
        """Yield the items in order: the first ones if their number is limited, otherwise all."""
        self._items.sort()
        sources = [_read_run(run) for run in self._runs]
        # Runs and the items in memory are sorted; the merge keeps a part of each run in memory.
        merged = heapq.merge(*sources, self._items) if sources else iter(self._items)
        for count, item in enumerate(merged):
            if self._first is not None and count >= self._first:
                return
            yield item

    def close(self) -> None:
        """Discard all items and remove temporary files."""
        self._stack.close()
        self._items = []


def _read_run(run: IO[bytes]) -> Iterator[SortItem]:
    while items := marshal.load(run):
        yield from items
