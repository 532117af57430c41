"""Columns of decoded values to columns of slot values and of key texts, for the fast JSON reader.

Agrees with :func:`sowctl.messages.json.paths.build_slot_value` and :func:`~sowctl.messages.json.paths.build_key_text`
on every value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import UNSET, UnsetType

from sowctl.messages.base import KeyTexts
from sowctl.messages.json.batch import Column, JsonBatch
from sowctl.messages.json.fast_reader import FastReader
from sowctl.messages.json.paths import (
    INTEGER_LIMIT,
    MIN_INTEGER,
    build_key_text,
    build_slot_value,
    build_value_list,
    resolve_path,
)
from sowctl.messages.json.plan import make_plan
from sowctl.values.fields import Number, Refusal, Row, Slot, ValueList
from sowctl.values.paths import Path

_SCALAR_TYPES = frozenset({str, bool, float, int, Number, type(None), UnsetType})
_ABSENT_VALUE = ValueList(())


def build_row_reader(
    slots: Sequence[Slot], exact: Callable[[int, bytes], Row | Refusal], max_message: int, max_depth: int
) -> FastReader[Row] | None:
    """A fast reader of ``slots``; None if they require the exact reader."""
    plan = make_plan([slot.path for slot in slots], [slot.text for slot in slots])
    if plan is None:
        return None
    texts = any(slot.text for slot in slots)

    def columns(values: list[Column], batch: JsonBatch) -> list[Column]:
        # One search over the batch: without -0 anywhere no column has to check for it.
        signed = texts and b"-0" in batch.joined
        return [_slot_column(slot, column, batch, signed) for slot, column in zip(slots, values, strict=True)]

    def tree(root: object, payload: bytes) -> Row | None:
        # The decoder has lost the sign of a zero, and with it the text: only the exact reader keeps it.
        if texts and b"-0" in payload:
            return None
        return tuple([build_slot_value(*resolve_path(root, slot.path.steps), slot) for slot in slots])

    return FastReader(
        plan,
        columns,
        tree,
        exact,
        (None,) * len(slots),
        texts=texts,
        max_message=max_message,
        max_depth=max_depth,
    )


def build_key_reader(
    paths: Sequence[Path], exact: Callable[[int, bytes], KeyTexts | Refusal], max_message: int, max_depth: int
) -> FastReader[KeyTexts] | None:
    """A fast reader of the key texts of ``paths``; None if they require the exact reader."""
    plan = make_plan(paths, [True] * len(paths))
    if plan is None:
        return None

    def columns(values: list[Column], batch: JsonBatch) -> list[Column]:
        signed = b"-0" in batch.joined
        return [_text_column(path, column, batch, signed) for path, column in zip(paths, values, strict=True)]

    def tree(root: object, payload: bytes) -> KeyTexts | None:
        if b"-0" in payload:
            return None
        return tuple([build_key_text(resolve_path(root, path.steps)[0]) for path in paths])

    return FastReader(
        plan, columns, tree, exact, (None,) * len(paths), texts=True, max_message=max_message, max_depth=max_depth
    )


def _slot_column(slot: Slot, column: Column, batch: JsonBatch, signed: bool) -> Column:
    """The slot values for a column of decoded ones. ``signed``: a zero may have been written ``-0``."""
    if _is_dead_path(slot.path):
        return [_ABSENT_VALUE if slot.listed else None] * len(column)
    kinds = batch.find_types(column)
    # The decoder returns the int 0 for -0, whose text would be 0: such zeros keep their text in the exact reader.
    if signed and int in kinds:
        _leave_zeros(column, batch)
    index = slot.path.steps[-1].index
    # Another slot needs the text of the same field; this one gets plain numbers.
    if Number in kinds and not slot.text:
        column = [value.value if type(value) is Number else value for value in column]
        kinds = kinds - {Number} | {float}
    # The common case, for which columns pay off: scalars are slot values already, without a pass in Python.
    if not slot.listed and not index and kinds <= _SCALAR_TYPES and _in_range(column, kinds):
        if UnsetType not in kinds:
            return column
        return [None if value is UNSET else value for value in column]
    if signed and list in kinds:
        _leave_lists(column, batch)
    absent = _ABSENT_VALUE if slot.listed else None
    return [absent if value is UNSET else build_slot_value(*build_value_list(value, index), slot) for value in column]


def _text_column(path: Path, column: Column, batch: JsonBatch, signed: bool) -> list[bytes | None]:
    """The key texts for a column of decoded values."""
    if _is_dead_path(path):
        return [None] * len(column)
    kinds = set(map(type, column))
    if signed and int in kinds:
        _leave_zeros(column, batch)
    index = path.steps[-1].index
    # No subscript, or 0: both find the value itself if it is no array.
    if not index and kinds == {str}:
        texts: list[bytes | None] = list(map(str.encode, column))
        return texts if all(texts) else [text or None for text in texts]
    # Except for ``-0``, an Integer has one spelling in JSON, so its digits are its text.
    if not index and kinds == {int}:
        return [b"%d" % value for value in column]
    if signed and list in kinds:
        _leave_lists(column, batch)
    return [None if value is UNSET else build_key_text(build_value_list(value, index)[0]) for value in column]


def _is_dead_path(path: Path) -> bool:
    """Return True if only an array on the path could satisfy a subscript; such payloads are not read by columns."""
    return any(step.index for step in path.steps[:-1])


def _in_range(column: Column, kinds: set[type]) -> bool:
    """Return True if every int of a column of scalars is an Integer."""
    if int not in kinds:
        return True
    numbers = column if kinds == {int} else [value for value in column if type(value) is int]
    # Integers outside are Doubles in the language; JSON itself has no limit.
    return bool(min(numbers) >= MIN_INTEGER and max(numbers) < INTEGER_LIMIT)


def _leave_zeros(column: Column, batch: JsonBatch) -> None:
    """Leave zeros that may have been written ``-0`` to the exact reader, which keeps the text."""
    batch.exact.update(
        i for i, value in enumerate(column) if type(value) is int and value == 0 and b"-0" in batch.payloads[i]
    )


def _leave_lists(column: Column, batch: JsonBatch) -> None:
    """Leave arrays that may contain such a zero to the exact reader, too."""
    batch.exact.update(i for i, value in enumerate(column) if type(value) is list and b"-0" in batch.payloads[i])
