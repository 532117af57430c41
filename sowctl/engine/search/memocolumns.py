"""Memo indexes as columns of the columnar evaluator. Whoever imports this loads numpy.

Called by :class:`sowctl.engine.search.indexed.Found` for aggregated queries over many records; those over few take rows
(:mod:`sowctl.engine.search.memorows`). Ruled by ``behaviour`` 3.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sowctl.expressions.columns import Column, Kind
from sowctl.expressions.columns.column import column_of
from sowctl.memo.column import DOUBLES, INTEGER, INTEGERS, NULL, Numbers, Strings
from sowctl.memo.column import MemoColumn as Memo
from sowctl.memo.format import BadMemo
from sowctl.values.fields import Slot

if TYPE_CHECKING:
    from sowctl.engine.search.memos import Memos

Columns: TypeAlias = "tuple[dict[Slot, Any], Any, Any]"
"""Columns by slot, txids, times."""


def columns_of(memos: Memos, places: Sequence[int] | None, slots: Sequence[Slot]) -> Columns | None:
    """The fields at ``places`` (None: all) with the stamps of their records; None where indexes do not know them."""
    known = {slot: memo for slot in slots if (memo := memos.columns.get(slot)) is not None}
    if len(known) < len(slots):
        return None
    chosen = None if places is None else np.array(places, np.int64)
    try:
        txids, times = memos.stamp_columns(np)
        found = {slot: column_from(memo, chosen) for slot, memo in known.items()}
    except BadMemo:
        return None
    return found, *((txids, times) if chosen is None else (txids[chosen], times[chosen]))


def column_from(memo: Memo, places: Any) -> Column:
    """The values of a memo index at ``places`` (None: all). Raises BadMemo."""
    if isinstance(memo, Strings):
        codes = np.frombuffer(memo.codes, memo.codes.format)
        size = len(codes) if places is None else len(places)
        words = [text.encode() if isinstance(text, str) else text for text in memo.distinct()]
        return Column(Kind.STRING, size, codes if places is None else codes[places], words=words)  # type: ignore[arg-type]
    if isinstance(memo, Numbers):
        return _numbers(memo, places)
    values = memo.values()
    return column_of(values if places is None else [values[place] for place in places])


def _numbers(memo: Numbers, places: Any) -> Column:
    data: Any = np.frombuffer(memo.data, memo.data.format)  # type: ignore[arg-type]
    marks: Any = np.frombuffer(memo.marks, np.uint8) if len(memo.marks) else None
    if places is not None:
        data, marks = data[places], None if marks is None else marks[places]
    nulls = None if marks is None or not memo.nulls else marks == NULL
    if nulls is not None and not nulls.any():
        nulls = None
    if nulls is not None and nulls.all():
        return Column(Kind.NULL, len(data))
    if memo.kinds == INTEGERS:
        return Column(Kind.I64, len(data), data, nulls)
    if memo.kinds == DOUBLES or marks is None:
        return Column(Kind.DOUBLE, len(data), data, nulls)
    ints = marks == INTEGER
    return Column(Kind.NUMBER, len(data), data, nulls, ints=ints)
