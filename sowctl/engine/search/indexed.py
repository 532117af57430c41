"""Which records a filter can match, by memo indexes: the way to them, and the records.

The answer is that of a scan (README, principle 3): what an index cannot tell is asked of the records themselves, and
records that changed since it was built always are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.engine.search.memos import Memos, open_memos
from sowctl.errors import SowError
from sowctl.memo import rownumbers as p
from sowctl.memo.format import BadMemo
from sowctl.values.fields import Slot

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.search.conditions import Asked
    from sowctl.engine.search.matcher import Matcher
    from sowctl.engine.search.memofields import Columns, Stamped
    from sowctl.engine.sources.source import Matched, Pairs, StoredSource
    from sowctl.expressions.syntax.actions import OrderKey
    from sowctl.memo.column import Hits

_LOOKED_UP = 400
"""Records looked up at a time: what is made of so many stays in the processor's cache."""
_GAIN = 8
"""How many times a row costs what looking at a place does."""
MOST = 0.3
"""Where more of the records than this share are left, reading all of them in order is faster."""


class Taken(Struct, frozen=True):
    """One condition, and how many records an index says satisfy it."""

    condition: str
    matched: int


class Found:
    """What indexes left of a filter: ``places``, None for all. ``steps`` in the order in which they were taken;
    ``residual`` conditions are asked of each record that is left; ``ranked``: :meth:`first` may be asked."""

    access = "memo index"
    """What the plan calls it; ``hash index`` where a filter asks for exact Strings of all the fields of one."""

    def __init__(
        self,
        source: StoredSource,
        memos: Memos,
        matcher: Matcher,
        places: p.Places | None,
        steps: Sequence[Taken],
        residual: Sequence[str],
        *,
        ranked: bool = False,
    ) -> None:
        self.source = source
        self.ranked = ranked
        self.steps = steps
        self.residual = residual
        self._memos = memos
        self._matcher = matcher
        self._left = places

    @cached_property
    def _places(self) -> list[int] | None:
        """In order, which a mere count does without."""
        return None if self._left is None else p.ascending(self._left)

    @property
    def candidates(self) -> int:
        """How many records a query for all that match reads."""
        left = self._memos.records if self._left is None else len(self._left)
        return left + len(self._memos.changed)

    def matching(self, size: int) -> Iterator[Matched]:
        """Keys and values of the records that match, in key order, about ``size`` at a time."""
        from sowctl.engine.sources.merge import woven

        changed = self._changed()
        pairs = self._unchanged(range(self._memos.records) if self._left is None else p.ordered(self._left), size)
        if changed:
            pairs = woven(pairs, changed, size)
        yield from pairs

    def count(self) -> int | None:
        """How many records match, where that needs no reading of all of them; else None."""
        if self.residual or self.source.hides:
            return None
        if self._left is None:
            return self.source.visible_records()
        unchanged = len(self._left)
        if self._memos.changed:
            unchanged = sum(key not in self._memos.changed for key in self._memos.keys(p.listed(self._left)))
        return unchanged + len(self._changed())

    def first(self, key: OrderKey, wanted: int) -> Pairs | None:
        """Records among which are the first ``wanted`` by ``key``, ties and all; None where indexes cannot tell."""
        column = self._memos.columns.get(order_slot(key))
        if column is None or self.residual or (self._left is not None and len(self._left) <= wanted):
            return None
        from sowctl.engine.search.sorting import holds_number

        changed = self._changed()
        if not column.numeric and holds_number(self._matcher.type, key, changed.values()):
            return None  # then Strings are read as numbers, too
        allowed = None if self._places is None else set(self._places)
        keys, values = list(changed), list(changed.values())
        waiting: list[int] = []
        seen = 0
        try:
            for group in column.ordered(descending=key.descending):
                waiting += group if allowed is None else [place for place in group if place in allowed]
                if len(waiting) + seen < wanted:
                    continue
                for more_keys, more_values in self._unchanged(sorted(waiting), max(len(waiting), 1)):
                    keys += more_keys
                    values += more_values
                    seen += len(more_keys)
                waiting = []
                if seen >= wanted:
                    return keys, values
            for more_keys, more_values in self._unchanged(sorted(waiting), max(len(waiting), 1)):
                keys += more_keys
                values += more_values
        except BadMemo:
            return None
        return keys, values

    def rows(self, slots: Sequence[Slot]) -> Iterator[Stamped] | None:
        """The fields of the records that match, in key order, with their stamps; None where indexes do not know."""
        columns = [column for slot in slots if (column := self._memos.columns.get(slot)) is not None]
        if self.residual or self.source.hides or len(columns) < len(slots):
            return None
        from sowctl.engine.search.memofields import rows_of

        return rows_of(self._memos, columns, self._places, slots, self.source, self._matcher)

    def columns(self, slots: Sequence[Slot]) -> Columns | None:
        """The same on columns, where there are enough records for that: columns by slot, txids, times."""
        left = self._memos.records if self._left is None else len(self._left)
        numpy = p.numpy_for(left * _GAIN)
        if numpy is None or self.residual or self.source.hides or self._memos.changed:
            return None
        from sowctl.engine.search.memofields import columns_of

        return columns_of(self._memos, self._places, slots)

    def _changed(self) -> dict[bytes, bytes]:
        """The records that changed since the indexes were built, if they match; in key order."""
        found: dict[bytes, bytes] = {}
        for keys, values in self.source.lookups(sorted(self._memos.changed), _LOOKED_UP):
            found.update((keys[place], values[place]) for place in self._matcher.places(keys, values))
        return found

    def _unchanged(self, places: p.Places, size: int) -> Iterator[Matched]:
        values: Sequence[bytes]
        for keys, spots in self._memos.located(places, size):
            keys, values = self.source.lookup(keys) if spots is None else self.source.at_spots(keys, spots)
            if self.residual:
                chosen = self._matcher.places(keys, values)
                keys, values = [keys[place] for place in chosen], [values[place] for place in chosen]
            if keys:
                yield keys, values


def order_slot(key: OrderKey) -> Slot:
    """The field by which an order sorts."""
    return Slot(key.path, text=key.text)


def find(
    instance: Instance,
    source: StoredSource,
    matcher: Matcher,
    order: OrderKey | None = None,
    fields: Sequence[Slot] = (),
    *,
    least: int,
) -> Found | None:
    """What indexes leave of the matcher's filter; None where a scan is the better way, or the only one.

    ``order``: the result will be asked for :meth:`Found.first`; ``fields``: for :meth:`Found.rows`.
    """
    if source.path is None or source.meta.records < least:
        return None
    asked: list[Asked] = []
    residual: list[str] = []
    if matcher.filter is not None:
        from sowctl.engine.search.conditions import conditions_of

        assert matcher.environment is not None
        asked, residual = conditions_of(matcher.filter, matcher.environment, matcher.functions)
    if residual or (order is not None and order.text):
        order = None
    if residual:
        fields = ()
    slots = [one.slot for one in asked] + ([order_slot(order)] if order is not None else []) + [*fields]
    if not slots or not matcher.type.filterable:
        return None
    memos = open_memos(instance, source, tuple(dict.fromkeys(slots)))
    if memos is None:
        return None
    try:
        found = _found(source, memos, matcher, asked, residual, order, fields)
        if found is not None and _by_hash_index(source, asked, residual):
            found.access = "hash index"
        return found
    except BadMemo:
        return None
    except SowError:
        # A condition that fails for some value (a runaway pattern) may never be asked of it by a scan.
        return None


def _by_hash_index(source: StoredSource, asked: Sequence[Asked], residual: Sequence[str]) -> bool:
    """Whether the filter is one of exact matches on all fields of Key or of a HashIndex (seed example 38)."""
    config = source.config
    if config is None or residual or not asked or any(one.condition.strings is None for one in asked):
        return False
    paths = [one.slot.path for one in asked]
    return any(sorted(map(str, paths)) == sorted(map(str, index)) for index in (config.keys, *config.hash_indexes))


def _found(
    source: StoredSource,
    memos: Memos,
    matcher: Matcher,
    asked: Sequence[Asked],
    residual: list[str],
    order: OrderKey | None,
    fields: Sequence[Slot],
) -> Found | None:
    hits: list[tuple[int, str, Hits]] = []
    for slot, condition in asked:
        column = memos.columns.get(slot)
        if column is None:
            residual.append(condition.text)
            continue
        found = column.hits(condition)
        hits.append((found.count, condition.text, found))
    ranked = order is not None and not residual and order_slot(order) in memos.columns
    ranked = ranked or (bool(fields) and not residual and all(slot in memos.columns for slot in fields))
    if not hits:
        return Found(source, memos, matcher, None, (), residual, ranked=True) if ranked and not asked else None
    hits.sort(key=lambda one: one[0])
    if hits[0][0] > MOST * memos.records and not ranked:
        return None
    places = hits[0][2].places()
    for _, _, more in hits[1:]:
        places = more.among(places)
    steps = [Taken(text, count) for count, text, _ in hits]
    return Found(source, memos, matcher, places, steps, residual, ranked=ranked)


__all__ = ["Found", "Taken", "find"]
