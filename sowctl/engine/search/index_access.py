"""Access to the candidate records of a filter by memo indexes.

The result equals that of a scan (principle 3): conditions that no index answers are evaluated on the records. Records
that changed since the indexes were built are always read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.search.index_lookup import OpenIndexes, open_indexes
from sowctl.engine.search.plan import (
    SCAN,
    IndexCounts,
    Plan,
    TopicQuery,
    TopicStatistics,
    build_order_slot,
    is_faster_by_arrays,
    is_faster_by_columns,
    refine_plan,
)
from sowctl.errors import SowError
from sowctl.memo import rownumbers as p
from sowctl.memo.format import BadMemo
from sowctl.store.codec import read_all_stamps

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.search.index_fields import StampedRows
    from sowctl.engine.search.matcher import Matcher
    from sowctl.engine.sources.source import MatchedPairs, Pairs, StoredSource
    from sowctl.expressions.syntax.actions import OrderKey
    from sowctl.memo.index import Hits
    from sowctl.values.batch import ColumnBatch
    from sowctl.values.fields import Slot


class IndexAccess:
    """The candidate records of a filter by a refined ``plan``: row numbers ``places``, None for all. The plan's
    residual conditions are evaluated on each candidate. If the plan is ranked, :meth:`read_top_k` can be used.

    ``arrays``: numpy is loaded or worth loading, so changed records are looked up by arrays.
    """

    def __init__(
        self,
        source: StoredSource,
        memos: OpenIndexes,
        matcher: Matcher,
        plan: Plan,
        places: p.RowNumbers | None,
        *,
        lasting: bool,
        arrays: bool,
    ) -> None:
        self.source = source
        self.plan = plan
        self._memos = memos
        self._matcher = matcher
        self._left = places
        self._lasting = lasting
        self._find_records = source.find_many_records if arrays else source.find_records

    @cached_property
    def _places(self) -> list[int] | None:
        """The row numbers in ascending order; computed on first use, since counting does not need the order."""
        return None if self._left is None else p.list_ascending(self._left)

    def read_matching(self, size: int) -> Iterator[MatchedPairs]:
        """Yield keys and values of the matching records, in key order, about ``size`` at a time."""
        from sowctl.engine.sources.merge import merge_records

        changed = self._read_changed_records()
        pairs = self._read_unchanged(
            range(self._memos.records) if self._left is None else p.sort_rows(self._left), size
        )
        # Changed records are read in their current state and merged by key.
        if changed:
            pairs = merge_records(pairs, changed, size)
        yield from pairs

    def count_matching(self) -> int | None:
        """Return the number of matching records, None if that requires reading all of them."""
        # Indexes cannot count residual conditions or expired records: both depend on the record itself.
        if self.plan.residual or self.source.hides:
            return None
        if self._left is None:
            return self.source.count_visible()
        unchanged = len(self._left)
        if self._memos.changed:
            # Index entries of changed records are stale: these records are read and counted by their current state.
            unchanged = sum(key not in self._memos.changed for key in self._memos.read_keys(p.list_rows(self._left)))
        return unchanged + len(self._read_changed_records())

    def read_top_k(self, key: OrderKey, wanted: int) -> Pairs | None:
        """Return records that include the first ``wanted`` by ``key`` and all their ties; None if no index can tell."""
        column = self._memos.indexes.get(build_order_slot(key))
        # If at most ``wanted`` candidates remain, all of them are read and sorted anyway.
        if column is None or self.plan.residual or (self._left is not None and len(self._left) <= wanted):
            return None
        from sowctl.engine.search.sorter import holds_number

        changed = self._read_changed_records()
        # The index was built while the field held only strings. A single number among the changed records changes how
        # all values compare.
        if not column.numeric and holds_number(self._matcher.type, key, changed.values()):
            return None  # strings are compared as numbers, too
        allowed = None if self._places is None else set(self._places)
        keys, values = list(changed), list(changed.values())
        waiting: list[int] = []
        seen = 0
        try:
            # A group consists of all records with one value. Only complete groups are read, so that all ties are
            # present when the result is sorted by the remaining order keys.
            for group in column.iterate_by_value(descending=key.descending):
                waiting += group if allowed is None else [place for place in group if place in allowed]
                # Collect row numbers until they may suffice, then read their records.
                if len(waiting) + seen < wanted:
                    continue
                for more_keys, more_values in self._read_unchanged(sorted(waiting), max(len(waiting), 1)):
                    keys += more_keys
                    values += more_values
                    # The result may be smaller than requested: it omits changed records, which are already in ``keys``
                    # if they match.
                    seen += len(more_keys)
                waiting = []
                if seen >= wanted:
                    return keys, values
            for more_keys, more_values in self._read_unchanged(sorted(waiting), max(len(waiting), 1)):
                keys += more_keys
                values += more_values
        except BadMemo:
            return None
        return keys, values

    def read_rows(self, slots: Sequence[Slot]) -> Iterator[StampedRows] | None:
        """Return fields and stamps of the matching records, in key order; None if indexes do not cover the fields."""
        columns = [column for slot in slots if (column := self._memos.indexes.get(slot)) is not None]
        if self.plan.residual or self.source.hides or len(columns) < len(slots):
            return None
        from sowctl.engine.search.index_fields import read_rows

        return read_rows(self._memos, columns, self._places, slots, self.source, self._matcher)

    def read_columns(self, slots: Sequence[Slot]) -> ColumnBatch | None:
        """Return the fields as a batch with stamps; None if the records are too few or indexes do not cover the fields.

        Columns do not contain records that changed since the indexes were built; :meth:`read_changed` returns them.
        """
        left = self._memos.records if self._left is None else len(self._left)
        if not is_faster_by_columns(left, lasting=self._lasting) or self.plan.residual or self.source.hides:
            return None
        from sowctl.engine.search.index_fields import read_columns

        places: Sequence[int] | None = self._places
        if self._memos.changed:
            gone = self._memos.find_changed_places()
            places = [place for place in (range(left) if places is None else places) if place not in gone]
        found = read_columns(self._memos, places, slots)
        if found is not None and self._memos.changed:
            txids = {txid for txid, _ in read_all_stamps(self.read_changed().values())}
            # Of records with equal txids the key order may decide which is the latest, but changed records are
            # returned separately.
            if not txids.isdisjoint(found.txids.tolist()):
                return None
        return found

    def read_changed(self) -> dict[bytes, bytes]:
        """Return the matching records that changed since the indexes were built, in key order."""
        return self._read_changed_records() if self._memos.changed else {}

    def _read_changed_records(self) -> dict[bytes, bytes]:
        """Return the matching records that changed since the indexes were built, in key order."""
        found: dict[bytes, bytes] = {}
        # The matcher evaluates the complete filter, including the conditions that indexes answer for other records.
        changed = sorted(self._memos.changed)
        for start in range(0, len(changed), QUERY_LIMITS.lookup_batch_records):
            keys, values = self._find_records(changed[start : start + QUERY_LIMITS.lookup_batch_records])
            found.update((keys[place], values[place]) for place in self._matcher.find_matches(keys, values))
        return found

    def _read_unchanged(self, places: p.RowNumbers, size: int) -> Iterator[MatchedPairs]:
        values: Sequence[bytes]
        for keys, locations in self._memos.iterate_unchanged(places, size):
            keys, values = (
                self.source.find_records(keys) if locations is None else self.source.read_at_offsets(keys, locations)
            )
            if self.plan.residual:
                chosen = self._matcher.find_matches(keys, values)
                keys, values = [keys[place] for place in chosen], [values[place] for place in chosen]
            if keys:
                yield keys, values


def open_index_access(
    instance: Instance, source: StoredSource, question: TopicQuery, statistics: TopicStatistics, plan: Plan
) -> IndexAccess | None:
    """Open the indexes that the draft of a plan names. Return None if a scan is faster, or the only way."""
    slots = [one.slot for one in plan.asked] + ([build_order_slot(plan.sort)] if plan.sort is not None else [])
    memos = open_indexes(instance, source, tuple(dict.fromkeys((*slots, *plan.fields))))
    if memos is None:
        return None
    environment = question.matcher.environment
    steps = 0 if environment is None else environment.steps
    try:
        return _build_index_access(source, memos, question, statistics, plan)
    except BadMemo:
        return None  # unreadable index
    except SowError:
        # The condition fails for some value (a runaway pattern). A scan may never evaluate it on that value.
        if environment is not None:
            environment.reset_steps(steps)
        return None


def _build_index_access(
    source: StoredSource, memos: OpenIndexes, question: TopicQuery, statistics: TopicStatistics, plan: Plan
) -> IndexAccess | None:
    hits: dict[str, Hits] = {}
    counted: list[int | None] = []
    arrays = is_faster_by_arrays(memos.records, lasting=statistics.lasting)
    for slot, condition in plan.asked:
        column = memos.indexes.get(slot)
        if column is not None:
            hits[condition.text] = column.find_hits(condition, columns=arrays)
        counted.append(None if column is None else hits[condition.text].count)
    chosen = refine_plan(plan, IndexCounts(memos.records, counted, memos.indexes), question, statistics)
    if chosen.access == SCAN:
        return None
    places: p.RowNumbers | None = None
    for step in chosen.steps:
        found = hits[step.condition]
        # Conditions are joined by AND: each one examines only the row numbers left by the previous ones.
        places = found.read_row_numbers(arrays=chosen.arrays) if places is None else found.select_among(places)
    left = (memos.records if places is None else len(places)) + len(memos.changed)
    plan = replace(chosen, estimated=left)
    return IndexAccess(source, memos, question.matcher, plan, places, lasting=statistics.lasting, arrays=arrays)
