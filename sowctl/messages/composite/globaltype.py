"""Message type ``composite-global``: parts whose fields are those of one message (``sowctl-messages(7)``).

A path finds the values of all parts, in the order of the parts, as if they were in one array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sowctl.messages.base import (
    REPLACEMENT_CHARACTER,
    Extractor,
    KeyExtractor,
    KeyTexts,
    Members,
    MessageType,
    SelectList,
    SurrogateRefusal,
    Tree,
    build_no_fields_error,
    build_surrogate_refusal,
)
from sowctl.messages.composite.type import CompositeType, replace_refused
from sowctl.messages.nested.paths import collect_nodes
from sowctl.values.fields import FieldWrite, Refusal, Row, Slot, SlotValue, ValueList
from sowctl.values.paths import Path, Step
from sowctl.values.scalars import to_text


class CompositeGlobalType(CompositeType):
    """Fields of all parts together, read-only: neither merged, nor written, nor selected."""

    kind = "composite-global"
    selectable = mergeable = constructible = False
    # A field of several parts is a list, whatever the types of the parts are.
    repeatable = True
    nested = False

    def build_extractor(self, slots: Sequence[Slot]) -> Extractor:
        """A reader of ``slots``: the parts of a batch are passed to their types together."""
        # With one readable part there is nothing to join, so its own reader is used for the batch.
        if sum(kind.filterable for kind in self.parts) == 1:
            return self._make_single_part_extractor(slots)
        refused: Row = (None,) * len(slots)
        # Read as lists: the values of all parts together are those of the message.
        plain = [Slot(slot.path, slot.text, True) for slot in slots if _find_subscript(slot.path) is None]
        readers = [kind.build_extractor(plain) if plain and kind.filterable else None for kind in self.parts]
        # A subscript counts through all parts, so these paths are read message by message.
        subscripted = {
            at: self._make_subscript_reader(slot)
            for at, slot in enumerate(slots)
            if _find_subscript(slot.path) is not None
        }

        def extract(payloads: Sequence[bytes]) -> tuple[list[Row], list[Refusal]]:
            taken, refusals = self.split_batch(payloads)
            found = [
                read([parts[number] for parts in taken])[0] for number, read in enumerate(readers) if read is not None
            ]
            rows: list[Row] = []
            for index, parts in enumerate(taken):
                # Slots without a subscript come from the columns of the parts, in order; the others are read for this
                # message.
                merged = iter(_join_part_rows([row[index] for row in found], len(plain)))
                values = [subscripted[at](parts) if at in subscripted else next(merged) for at in range(len(slots))]
                rows.append(tuple([_slot_answer(value, slot) for value, slot in zip(values, slots, strict=True)]))
            return replace_refused(rows, refusals, refused)

        return extract

    def build_key_extractor(self, paths: Sequence[Path]) -> KeyExtractor:
        """A reader of the texts of first values."""
        read = self.build_extractor([Slot(path, text=True) for path in paths])

        def extract(payloads: Sequence[bytes]) -> tuple[list[KeyTexts], list[Refusal]]:
            rows, refusals = read(payloads)
            texts = [tuple([to_text(value) for value in row]) for row in rows]
            # Only the part knows which U+FFFD is an unpaired surrogate; keys hardly ever contain one.
            doubtful = [
                at
                for at, row in enumerate(texts)
                if any(one is not None and REPLACEMENT_CHARACTER in one for one in row)
            ]
            for at in doubtful:
                fields = self._find_surrogate_fields(payloads[at], paths)
                if fields:
                    refusals.append(build_surrogate_refusal(at, fields, texts[at]))
            return texts, sorted(refusals, key=lambda refusal: refusal.index)

        return extract

    def _find_surrogate_fields(self, payload: bytes, paths: Sequence[Path]) -> list[str]:
        """The fields whose first value, in the part that has it, contains an unpaired surrogate."""
        parts = self.split_payload(payload)[0]
        found = []
        for path in paths:
            at = self._find_part(path, parts)
            if at is not None:
                refusals = self.parts[at[0]].build_key_extractor([at[1]])([parts[at[0]]])[1]
                found += [str(path) for refusal in refusals if isinstance(refusal, SurrogateRefusal)]
        return found

    def members_view(self, payload: bytes) -> bytes:
        """The members of all parts; one that several parts have becomes an array of all values."""
        from sowctl.messages.json.exact_reader import parse_spans
        from sowctl.messages.json.text import quote_string

        shown = self.build_part_views(payload)
        if shown is None:
            return self.view(payload)
        found: dict[str, list[bytes]] = {}
        for part in shown:
            # Spans, so that values are copied unchanged.
            top = parse_spans(part).value
            for name, value in top.items() if isinstance(top, dict) else ():
                found.setdefault(name, []).append(part[value.start : value.end])
        return (
            b"{"
            + b",".join([quote_string(name) + b":" + _combine_values(values) for name, values in found.items()])
            + b"}"
        )

    def select_fields(self, payload: bytes, select_list: SelectList) -> bytes:
        """Raises UsageError ``SOW-MSG-005``: a field may be in several parts."""
        raise build_no_fields_error(self.name, "to select")

    def merge_delta(self, base: bytes, delta: bytes, *, set_nulls: bool = False) -> bytes:
        """The new message. Raises InputError for one that cannot be split into parts."""
        self.split_or_raise(delta, "delta")
        return delta

    def assign_fields(self, payload: bytes, writes: Sequence[FieldWrite]) -> bytes:
        """Raises UsageError ``SOW-MSG-005``."""
        raise build_no_fields_error(self.name, "to write")

    def build_message(self, fields: Members) -> bytes:
        """Raises UsageError ``SOW-MSG-005``."""
        raise build_no_fields_error(self.name, "to write")

    def build_from_tree(self, tree: Tree) -> bytes:
        """Raises UsageError ``SOW-MSG-005``."""
        raise build_no_fields_error(self.name, "to write")

    def _make_single_part_extractor(self, slots: Sequence[Slot]) -> Extractor:
        """The reader if only one part can have fields: that of its type."""
        number = next(number for number, kind in enumerate(self.parts) if kind.filterable)
        read = self.parts[number].build_extractor(slots)
        nothing: Row = tuple(ValueList(()) if slot.listed else None for slot in slots)
        refused: Row = (None,) * len(slots)

        def extract(payloads: Sequence[bytes]) -> tuple[list[Row], list[Refusal]]:
            taken, refusals = self.split_batch(payloads)
            rows, skipped = read([parts[number] for parts in taken])
            for refusal in skipped:
                # A part that its type refuses has no fields; the message itself is accepted.
                rows[refusal.index] = nothing
            return replace_refused(rows, refusals, refused)

        return extract

    def _make_subscript_reader(self, slot: Slot) -> Callable[[Sequence[bytes]], ValueList]:
        """Build the reader of a path with subscripts, the first of which counts through all parts."""

        def read(parts: Sequence[bytes]) -> ValueList:
            at = self._find_part(slot.path, parts)
            if at is None:
                return ValueList(())
            number, local = at
            value = self.parts[number].build_extractor([Slot(local, slot.text, True)])([parts[number]])[0][0][0]
            return value if isinstance(value, ValueList) else ValueList(())

        return read

    def _find_part(self, path: Path, parts: Sequence[bytes]) -> tuple[int, Path] | None:
        """The part with the first value at ``path``, and the path in it; None if no part has any."""
        # Only the first subscript counts through the parts; later ones count below the value that it has found.
        steps, at = path.steps, _find_subscript(path)
        last = len(steps) - 1 if at is None else at
        above = (*steps[:last], Step(steps[last].name))
        position = 0 if at is None else steps[at].index or 0
        for number, (kind, part) in enumerate(zip(self.parts, parts, strict=True)):
            count = self._count_part_values(kind, part, above)
            # The subscript counts through the parts: the values of previous parts are subtracted.
            if position < count:
                local = path if at is None else Path((*steps[:at], Step(steps[at].name, position), *steps[at + 1 :]))
                return number, local
            position -= count
        return None

    def _count_part_values(self, kind: MessageType, part: bytes, steps: Sequence[Step]) -> int:
        """Count the values and objects one part has at a path, by its JSON view."""
        from sowctl.messages.json.exact_reader import parse_json

        # An unreadable part has no values, so a subscript skips it.
        if not part or not kind.filterable or kind.check_payloads([part]):
            return 0
        return len(collect_nodes([parse_json(kind.view(part))], steps))


def _combine_values(values: Sequence[bytes]) -> bytes:
    """One JSON value for the values of several parts: one array of all, in which arrays are flattened."""
    if len(values) == 1:
        return values[0]
    # Arrays of several parts become one, as for paths; an empty one adds nothing.
    items = [value[1:-1].strip() if value[:1] == b"[" else value for value in values]
    return b"[" + b",".join([item for item in items if item]) + b"]"


def _find_subscript(path: Path) -> int | None:
    """The index of the first step with a subscript."""
    return next((at for at, step in enumerate(path.steps) if step.index is not None), None)


def _join_part_rows(rows: Sequence[Row], width: int) -> list[ValueList]:
    """One value list per slot, concatenated from those of all parts; an unreadable part has None."""
    merged = []
    for at in range(width):
        lists = [row[at] for row in rows]
        values = [value for value in lists if isinstance(value, ValueList)]
        items = tuple([item for value in values for item in value.items])
        merged.append(ValueList(items, any(value.dropped for value in values)))
    return merged


def _slot_answer(value: ValueList, slot: Slot) -> SlotValue:
    if slot.listed or value.dropped or len(value.items) > 1:
        return value
    return value.items[0] if value.items else None
