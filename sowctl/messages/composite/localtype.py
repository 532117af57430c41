"""Message type ``composite-local``: parts whose fields are below their number, ``/0/a`` (``sowctl-messages(7)``)."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from sowctl.errors import InputError, UsageError
from sowctl.messages.base import (
    NO_SUCH_FIELD,
    UNWRITABLE_CODE,
    Extractor,
    KeyExtractor,
    KeyTexts,
    ListRefused,
    Members,
    MessageType,
    SelectList,
    SurrogateRefusal,
    Tree,
    build_surrogate_refusal,
)
from sowctl.messages.composite.type import CompositeType, join_parts, number_parts, replace_refused
from sowctl.values.fields import FieldWrite, Number, Refusal, Row, Slot, SlotValue, ValueList
from sowctl.values.paths import Path


class CompositeLocalType(CompositeType):
    """Each part is read, merged, written and selected by its own type; an empty part of a delta changes nothing."""

    kind = "composite-local"
    selectable = mergeable = constructible = nested = True

    @property
    def repeatable(self) -> bool:
        """True if fields of any part become lists by being repeated."""
        return any(part.repeatable for part in self.parts)

    def build_extractor(self, slots: Sequence[Slot]) -> Extractor:
        """A reader of ``slots``: the parts of a batch are passed to their types together."""
        nothing: Row = tuple(ValueList(()) if slot.listed else None for slot in slots)
        refused: Row = (None,) * len(slots)
        # A path of one step names a whole part, which is an object: it has no value, but it is not NULL either.
        wholes = [(at, self._part_number(slot.path)) for at, slot in enumerate(slots) if len(slot.path.steps) == 1]
        asked = []
        for number, kind in enumerate(self.parts):
            places = [
                at
                for at, slot in enumerate(slots)
                if self._part_number(slot.path) == number and _strip_part_step(slot.path)
            ]
            below = [Slot(Path(slots[at].path.steps[1:]), slots[at].text, slots[at].listed) for at in places]
            if places:
                asked.append((number, places, kind.build_extractor(below)))

        def extract(payloads: Sequence[bytes]) -> tuple[list[Row], list[Refusal]]:
            if not payloads:
                return [], []
            taken, refusals = self.split_batch(payloads)
            # Every slot is initialized with the result for a message without the field; the values of the parts replace
            # it column by column.
            columns: list[list[SlotValue]] = [[value] * len(payloads) for value in nothing]
            for number, places, read in asked:
                found, skipped = read([parts[number] for parts in taken])
                for refusal in skipped:
                    # A part that its type refuses has no fields; the other parts are read nevertheless.
                    found[refusal.index] = tuple([nothing[at] for at in places])
                for at, column in zip(places, zip(*found, strict=True), strict=True):
                    columns[at] = list(column)
            for at, whole in wholes:
                if whole is not None and self.parts[whole].filterable:
                    columns[at] = [ValueList((), True) if parts[whole] else nothing[at] for parts in taken]
            rows: list[Row] = list(zip(*columns, strict=True)) if columns else [()] * len(payloads)
            return replace_refused(rows, refusals, refused)

        return extract

    def build_key_extractor(self, paths: Sequence[Path]) -> KeyExtractor:
        """A reader of the texts of first values."""
        asked = []
        for number, kind in enumerate(self.parts):
            places = [
                at for at, path in enumerate(paths) if self._part_number(path) == number and _strip_part_step(path)
            ]
            if places:
                asked.append((number, places, kind.build_key_extractor([Path(paths[at].steps[1:]) for at in places])))
        nothing: KeyTexts = (None,) * len(paths)

        def extract(payloads: Sequence[bytes]) -> tuple[list[KeyTexts], list[Refusal]]:
            if not payloads:
                return [], []
            taken, refusals = self.split_batch(payloads)
            columns: list[list[bytes | None]] = [[None] * len(payloads) for _ in paths]
            halves: list[tuple[int, SurrogateRefusal]] = []
            for number, places, read in asked:
                found, skipped = read([p[number] for p in taken])
                for at, column in zip(places, zip(*found, strict=True), strict=True):
                    columns[at] = list(column)
                halves += [(number, refusal) for refusal in skipped if isinstance(refusal, SurrogateRefusal)]
            rows: list[KeyTexts] = list(zip(*columns, strict=True)) if columns else [()] * len(payloads)
            rows, refusals = replace_refused(rows, refusals, nothing)
            for number, refusal in halves:
                # The part names fields from its own root; in the message they are preceded by its number.
                fields = [f"/{number}{field}" for field in refusal.fields]
                refusals.append(build_surrogate_refusal(refusal.index, fields, rows[refusal.index]))
            return rows, sorted(refusals, key=lambda refusal: refusal.index)

        return extract

    def members_view(self, payload: bytes) -> bytes:
        """The parts by their numbers."""
        shown = self.build_part_views(payload)
        if shown is None:
            return self.view(payload)
        return b"{" + b",".join([b'"%d":%b' % (number, part) for number, part in enumerate(shown)]) + b"}"

    def select_fields(self, payload: bytes, select_list: SelectList) -> bytes:
        """``payload`` with the select list applied to each part; a part without fields is dropped or kept
        completely."""
        parts, rest = self.split_or_raise(payload)
        kept = [self._select_part(number, part, select_list) for number, part in enumerate(parts)]
        # The bytes after the last part have no path: only directives for the root apply to them.
        everything = next((include for include, names in select_list if not names), True)
        # Nothing was dropped, so the payload is unchanged.
        if kept == parts and (everything or not rest):
            return payload
        return join_parts(kept, rest if everything else b"")

    def merge_delta(self, base: bytes, delta: bytes, *, set_nulls: bool = False) -> bytes:
        """``base`` with each part of ``delta`` merged into its own. Raises InputError.

        A part that is empty or that its type cannot read changes nothing; one whose type does not merge replaces.
        """
        old, rest = self.split_or_raise(base, "base")
        new, new_rest = self.split_or_raise(delta, "delta")
        merged = [self._merge_part(number, old[number], part, set_nulls) for number, part in enumerate(new)]
        # Bytes after the last part replace those of the base, if the delta has any.
        return base if merged == old and new_rest in (b"", rest) else join_parts(merged, new_rest or rest)

    def assign_fields(self, payload: bytes, writes: Sequence[FieldWrite]) -> bytes:
        """``payload`` with fields written into its parts. Raises InputError, and UsageError for a field in no part."""
        if not writes:
            return payload
        parts, rest = self.split_or_raise(payload)
        for number, below in self._group_by_part(writes).items():
            kind = self.parts[number]
            if parts[number]:
                parts[number] = kind.assign_fields(parts[number], below)
            else:
                # An empty part has no message to write into: one is built from the fields, and removals have nothing to
                # remove.
                parts[number] = kind.build_message(
                    [(one.destination.names, one.value) for one in below if not one.remove]
                )
        return join_parts(parts, rest)

    def build_message(self, fields: Members) -> bytes:
        """A message of these fields; parts without fields are empty. Raises as :meth:`assign_fields`."""
        below: list[list[tuple[tuple[str, ...], SlotValue]]] = [[] for _ in self.parts]
        for names, value in fields:
            # The part does not know its number: its fields begin after the first step.
            below[self._find_written_part(names)].append((names[1:], value))
        return join_parts(
            [kind.build_message(own) if own else b"" for kind, own in zip(self.parts, below, strict=True)], b""
        )

    def build_from_tree(self, tree: Tree) -> bytes:
        """A message of parts by their numbers, as in :meth:`members_view` and :meth:`view`.

        A text is the Base64 form of a part without fields or an unreadable one, except in json. The number after that
        of the last part holds Base64 of the following bytes. Raises as :meth:`build_message`, and ListRefused.
        """
        parts, rest = [b""] * len(self.parts), b""
        for name, value in tree.items():
            if name == str(len(self.parts)) and isinstance(value, str):
                rest = _decode_base64(name, value)
                continue
            number = self._parse_part_name(name)
            if number is None:
                raise self._build_path_error((name,))
            try:
                parts[number] = _build_part(self.parts[number], name, value)
            except ListRefused as problem:
                raise ListRefused((name, problem.path)) from None
        return join_parts(parts, rest)

    def _part_number(self, path: Path) -> int | None:
        """The number of the part that a path leads into."""
        first = path.steps[0]
        return None if first.index else self._parse_part_name(first.name)

    def _parse_part_name(self, name: str) -> int | None:
        """The part of a first step: its number in decimal digits, without leading zeros."""
        # One spelling for each part: otherwise /00/a and /0/a would be two destinations of one place.
        if name.isascii() and name.isdecimal() and len(name) < 7 and str(int(name)) == name:
            return int(name) if int(name) < len(self.parts) else None
        return None

    def _find_written_part(self, names: Sequence[str]) -> int:
        number = self._parse_part_name(names[0])
        if number is None or len(names) < 2:
            raise self._build_path_error(names)
        return number

    def _build_path_error(self, names: Sequence[str]) -> UsageError:
        return UsageError(
            NO_SUCH_FIELD,
            f"/{'/'.join(names)} is in no part of messages of type {self.name}",
            hint=f"destinations start with the number of a part, /0/ to /{len(self.parts) - 1}/",
        )

    def _group_by_part(self, writes: Sequence[FieldWrite]) -> dict[int, list[FieldWrite]]:
        found: dict[int, list[FieldWrite]] = {}
        for write in writes:
            number = self._find_written_part(write.destination.names)
            below = Path(write.destination.steps[1:])
            found.setdefault(number, []).append(FieldWrite(below, write.value, write.remove))
        return found

    def _select_part(self, number: int, part: bytes, select_list: SelectList) -> bytes:
        """Return the remaining bytes of one part; directives for the part itself precede those for the root."""
        own = [(include, names[1:]) for include, names in select_list if names and names[0] == str(number)]
        own += [(include, names) for include, names in select_list if not names]
        kind = self.parts[number]
        if part and kind.selectable and not kind.check_payloads([part]):
            return kind.select_fields(part, own)
        return part if next((include for include, names in own if not names), True) else b""

    def _merge_part(self, number: int, old: bytes, new: bytes, set_nulls: bool) -> bytes:
        kind = self.parts[number]
        # An empty part of a delta changes nothing.
        if not new or not kind.mergeable:
            return new or old
        if not old:
            return new
        try:
            return kind.merge_delta(old, new, set_nulls=set_nulls)
        except InputError as problem:
            # An unreadable stored part is replaced by a readable one; an unreadable delta changes nothing.
            return new if problem.facts.get("part") == "base" and not kind.check_payloads([new]) else old


def _build_part(kind: MessageType, name: str, value: Any) -> bytes:
    """Build one part from the value in its view."""
    if value is None:
        return b""
    if kind.json_text:
        return kind.build_from_tree(value)
    if isinstance(value, str):
        return _decode_base64(name, value)
    if isinstance(value, list) and isinstance(kind, CompositeType):
        value = number_parts(value)
    if not isinstance(value, dict):
        raise InputError(UNWRITABLE_CODE, f"part {name} is no object, but a message of type {kind.name}")
    if kind.rooted and not value:
        # Columns do not distinguish an empty root element from an absent one.
        return b""
    return kind.build_from_tree(value if kind.kind == CompositeLocalType.kind else _convert_numbers(value, kind.typed))


def _decode_base64(name: str, text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise InputError(UNWRITABLE_CODE, f"part {name} is neither an object nor Base64") from None


def _convert_numbers(value: Any, typed: bool) -> Any:
    """A tree with numbers for a part that is not JSON: if it is ``typed``, Python numbers, and texts for numbers that
    these cannot represent; otherwise their digits."""
    if isinstance(value, dict):
        return {name: _convert_numbers(inner, typed) for name, inner in value.items()}
    if isinstance(value, list):
        return [_convert_numbers(inner, typed) for inner in value]
    if not isinstance(value, Number):
        return value
    exact = Decimal(value.text.decode())
    digits = f"{exact:f}"
    if not typed:
        return digits
    # Infinity, the nearest double of 1e400, is not equal to it.
    return value.value if Decimal(repr(value.value)) == exact else digits


def _strip_part_step(path: Path) -> bool:
    return len(path.steps) > 1
