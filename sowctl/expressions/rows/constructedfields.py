"""Constructed fields of preprocessing and enrichment (``sowctl-expressions(7)``, constructing fields).

Created by :func:`sowctl.expressions.compiler.compile_fields`. All fields read the message as it was before the phase;
``HINT SET_CURRENT`` makes a result visible to later fields.
"""

from __future__ import annotations

from collections.abc import Sequence

from sowctl.expressions.environment import Environment, Header
from sowctl.expressions.rows.program import CompiledValue
from sowctl.expressions.syntax.actions import FieldDefinition
from sowctl.values.fields import FieldWrite, Row, Slot, SlotValue, ValueList
from sowctl.values.paths import Path
from sowctl.values.scalars import to_scalar


class ConstructedFields:
    """The compiled fields of one phase. ``slots`` are read from the message, ``previous_slots`` from the stored
    record."""

    def __init__(self, definitions: Sequence[tuple[FieldDefinition, CompiledValue]]) -> None:
        self._definitions = definitions
        self.slots = _unite_slots([value.slots for _, value in definitions])
        self.previous_slots = _unite_slots([value.previous_slots for _, value in definitions])
        self.uses_header = any(value.uses_header for _, value in definitions)
        # Qualifiers are not allowed in these contexts, so the path alone identifies a slot.
        places = {str(slot.path): place for place, slot in enumerate(self.slots)}
        before = {str(slot.path): place for place, slot in enumerate(self.previous_slots)}
        self._places = [[places[str(slot.path)] for slot in value.slots] for _, value in definitions]
        self._before = [[before[str(slot.path)] for slot in value.previous_slots] for _, value in definitions]

    def compute_writes(
        self,
        rows: Sequence[Row],
        env: Environment,
        headers: Sequence[Header] | None = None,
        previous: Sequence[Row | None] | None = None,
    ) -> list[list[FieldWrite]]:
        """Per message the writes of its fields, in order. ``previous`` contains None if there is no stored record.

        Raises LimitError ``SOW-EXP-030`` if a pattern exceeds the match limit.
        """
        # Copies, which SET_CURRENT changes; the rows of the caller keep the message as it was before the phase.
        current = [list(row) for row in rows]
        done: list[list[FieldWrite]] = [[] for _ in rows]
        for number, (field, value) in enumerate(self._definitions):
            places, before = self._places[number], self._before[number]
            # One field at a time for all messages: values set by the fields before it are in ``current`` when it is
            # evaluated.
            own = [tuple([row[place] for place in places]) for row in current]
            # None stays None: the program reads NULL for every field of a missing record.
            stored = previous and [row and tuple([row[place] for place in before]) for row in previous]
            assert field.destination is not None
            for index, result in enumerate(value.compute_values(own, env, headers, stored)):
                remove = field.optional and result is None
                done[index].append(FieldWrite(field.destination, result, remove))
                if field.set_current:
                    self._overlay_row(current[index], field.destination, result, remove)
        return done

    def _overlay_row(self, row: list[SlotValue], destination: Path, value: SlotValue, remove: bool) -> None:
        """Change the slots of a row as if ``destination`` contained ``value``."""
        target = destination.names
        for place, slot in enumerate(self.slots):
            names = slot.path.names
            if names == target:
                # There is one scalar at the destination now: a subscript of 0 finds it, any other finds nothing.
                there = not remove and not any(step.index for step in slot.path.steps)
                items = (to_scalar(value),) if there else ()
                row[place] = ValueList(items) if slot.listed else items[0] if items else None
            # The path continues below the value that was written or removed, and a scalar has no members.
            elif names[: len(target)] == target:
                row[place] = ValueList(()) if slot.listed else None
            elif target[: len(names)] == names and not remove:
                # A former scalar is an object now, and an object has no value.
                row[place] = ValueList((), dropped=True)


def _unite_slots(wanted: Sequence[tuple[Slot, ...]]) -> tuple[Slot, ...]:
    merged: dict[str, Slot] = {}
    for slots in wanted:
        for slot in slots:
            # Several fields may use one path: one slot satisfies the requirements of all of them. Code that expected a
            # plain value handles the other form by its general branch.
            other = merged.get(str(slot.path), slot)
            merged[str(slot.path)] = Slot(slot.path, slot.text or other.text, slot.listed or other.listed)
    return tuple(merged.values())
