"""The fast JSON reader: many payloads at once through msgspec, with the results of the exact reader.

Each payload is read by the first of three methods that is provably exact for it:

1. *columns*: all payloads are decoded into Structs with only the wanted fields; these become columns, then rows; 2.
*tree*: one payload is decoded completely; for subscripted arrays on the path, and if counting cannot rule out duplicate
members among the objects on the path, but can among all objects of the payload; 3. *exact*:
:mod:`sowctl.messages.json.exact_reader`; for everything else, and for every refusal.

msgspec is as strict as the JSON grammar, and refuses texts that the exact reader accepts beyond it (unpaired
surrogates, numbers too large for a double); such payloads are read by the third method. It is less strict in three
respects: UTF-8 in skipped values and nesting, checked by :mod:`sowctl.messages.json.batch`, and duplicate members
(:mod:`sowctl.values.unique_members`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, Generic, TypeVar, cast

import msgspec
from msgspec import UNSET

from sowctl.messages.base import SurrogateRefusal
from sowctl.messages.json.batch import DECODE_ERRORS, Column, FieldMembers, JsonBatch, decode_each, find_suspects
from sowctl.messages.json.plan import FieldPlan, PlannedField
from sowctl.values.fields import Number, Refusal
from sowctl.values.unique_members import count_occurrences, has_all_members

T = TypeVar("T", bound=tuple[Any, ...])


def parse_number(text: str) -> Number:
    """A number with point or exponent, with its text."""
    return Number(float(text), text.encode())


class FastReader(Generic[T]):
    """Reads rows of one plan.

    ``read_columns``: converts the columns of the leaves of a whole batch to the columns of the rows; ``tree``: the row
    of one decoded payload, None if it needs the exact reader; ``exact_reader``: the row or the refusal of payload
    number i; ``refused``: the row of a refused payload.
    """

    def __init__(
        self,
        plan: FieldPlan,
        columns: Callable[[list[Column], JsonBatch], list[Column]],
        tree: Callable[[object, bytes], T | None],
        exact: Callable[[int, bytes], T | Refusal],
        refused: T,
        *,
        texts: bool,
        max_message: int,
        max_depth: int,
    ) -> None:
        # Floats keep their text only by this hook, which costs a call for each: it is omitted if possible.
        hook = parse_number if texts else None
        self.plan = plan
        self._make = columns
        self._tree = tree
        self._exact = exact
        self._refused = refused
        self._max_message = max_message
        self._max_depth = max_depth
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(plan.struct, float_hook=hook).decode
        self._decode_tree: Callable[[bytes], object] = msgspec.json.Decoder(float_hook=hook).decode
        # The blank Struct represents failed payloads: all fields are UNSET, and the exact reader replaces the row.
        self._blank = plan.struct()

    def __call__(self, payloads: Sequence[bytes]) -> tuple[list[T], list[Refusal]]:
        """One row per payload, and the refusals."""
        rows, refusals = self.read_once(payloads)
        return rows if isinstance(rows, list) else list(rows), refusals

    def read_once(self, payloads: Sequence[bytes], joined: bytes | None = None) -> tuple[Iterable[T], list[Refusal]]:
        """One row per payload, to be iterated once and not held in memory together, and the refusals.

        ``joined``: the bytes from which the payloads were split, line by line, if available.
        """
        if not payloads:
            return [], []
        parts, others, refusals = self._decode_columns(payloads, joined)
        passing = cast("Iterable[T]", zip(*parts, strict=True) if parts else repeat((), len(payloads)))
        if not others:
            return passing, refusals
        rows = list(passing)
        for index, row in others.items():
            rows[index] = row
        return rows, refusals

    def read_columns(self, payloads: Sequence[bytes]) -> tuple[list[Column], list[Refusal]]:
        """Read the rows as a column for each value of a row; the columns must not be changed."""
        if not payloads:
            return [[] for _ in self.plan.leaves], []
        parts, others, refusals = self._decode_columns(payloads, None)
        if others:
            # Two slots of one field may share a column, but differ in rows that were read otherwise.
            parts = [list(part) for part in parts]
            for index, row in others.items():
                for part, value in zip(parts, row, strict=True):
                    part[index] = value
        return parts, refusals

    def _decode_columns(
        self, payloads: Sequence[bytes], joined: bytes | None
    ) -> tuple[list[Column], dict[int, T], list[Refusal]]:
        """The columns of all rows, the rows that replace theirs, by number, and the refusals."""
        # Checks of a batch cost one pass over the joined bytes, not one per payload and field.
        batch = JsonBatch(payloads, b"\n".join(payloads) if joined is None else joined)
        batch.exact = find_suspects(payloads, batch.joined, self._max_message, self._max_depth)
        if b"\\" in batch.joined:
            self._find_escaped_names(batch)
        # All payloads in one C loop; only if one of them fails are they decoded one by one, to find it.
        try:
            batch.structs = list(map(self._decode, payloads))
        except DECODE_ERRORS:
            batch.structs = decode_each(self._decode, payloads, batch.exact, self._blank)
        columns = self._decode_all_columns(batch)
        self._find_duplicates(batch, columns)
        # The columns may move payloads to the exact reader too, such as those with -0: so the check comes after them.
        parts = self._make([columns[leaf].values for leaf in self.plan.leaves], batch)
        others: dict[int, T] = {}
        if not batch.tree and not batch.exact:
            return parts, others, []
        # Rows of doubtful payloads were built from msgspec's result: each is replaced by that of the tree or the exact
        # reader.
        for index in batch.tree - batch.exact:
            row = self._read_tree(payloads[index])
            if row is None:
                batch.exact.add(index)
            else:
                others[index] = row
        return parts, others, self._read_exactly(batch, others)

    def _find_escaped_names(self, batch: JsonBatch) -> None:
        """Mark batches in which a name may be spelled with an escape, and so cannot be counted."""
        if self.plan.counted.may_be_escaped(batch.joined):
            batch.escaped = True
            batch.exact.update(
                i for i, payload in enumerate(batch.payloads) if self.plan.counted.may_be_escaped(payload)
            )

    def _decode_all_columns(self, batch: JsonBatch) -> dict[PlannedField, FieldMembers]:
        """The values of every field, UNSET if absent."""
        columns: dict[PlannedField, FieldMembers] = {}
        for field in self.plan.fields:
            parent = field.parent
            if parent is None:
                # A field of the outermost object: every Struct has it, UNSET if the payload does not.
                columns[field] = FieldMembers(list(map(field.get, batch.structs)))
                continue
            # Parents come first in the plan. Usually all values above are Structs, and one C loop reads the member.
            above = columns[parent].values
            kinds = set(map(type, above))
            if kinds == {parent.kind}:
                columns[field] = FieldMembers(list(map(field.get, above)))
                continue
            kind, get = parent.kind, field.get
            columns[field] = below = FieldMembers([get(value) if type(value) is kind else UNSET for value in above])
            if list in kinds or dict in kinds:
                for index, value in enumerate(above):
                    if type(value) is dict or type(value) is list:
                        # Arrays on the path provide the members of all their objects. With a subscript on the path the
                        # position in the array counts, which columns do not keep.
                        below.enter_container(index, value, field.name)
                        if type(value) is list and parent.subscripted:
                            batch.tree.add(index)
        return columns

    def _find_duplicates(self, batch: JsonBatch, columns: dict[PlannedField, FieldMembers]) -> None:
        """Leave payloads in which a wanted name occurs more often than found to the tree."""
        # The law of plan.py: as many occurrences as members found leave no room for a second member of one object.
        counted = self.plan.counted
        for name, needle, mask in zip(counted.names, counted.needles, self.plan.masks, strict=True):
            # A name may be wanted at several places; each occurrence in the bytes must be one of those that were
            # decoded.
            fields = [field for field in self.plan.fields if field.name == name]
            members = [columns[field] for field in fields]
            found = sum([one.count_all_objects(batch.find_types(one.values)) for one in members])
            if batch.escaped or count_occurrences(batch.joined, needle) != found:
                known = batch.exact | batch.tree
                doubtful = [
                    i
                    for i, payload in enumerate(batch.payloads)
                    if payload.count(needle) != sum([one.count_objects(i) for one in members]) and i not in known
                ]
                if len(fields) == 1 and fields[0].parent is None:
                    doubtful = self._is_member_left(batch, doubtful, fields[0], needle, mask)
                batch.tree.update(doubtful)

    def _is_member_left(
        self, batch: JsonBatch, doubtful: list[int], field: PlannedField, needle: bytes, mask: bytes
    ) -> list[int]:
        """The payloads in which the outermost object may have the field twice.

        The first occurrence of the name is overwritten with another name of the same length, which keeps the message
        valid; if the decoder then finds no field, there was only one. Otherwise the first occurrence was something
        else, or there is a second member.
        """
        masked = [batch.payloads[index].replace(needle, mask, 1) for index in doubtful]
        # A payload that no longer decodes was changed in something other than a name, so it counts as doubtful, too.
        failed: set[int] = set()
        structs = decode_each(self._decode, masked, failed, None)
        return [index for at, index in enumerate(doubtful) if at in failed or field.get(structs[at]) is not UNSET]

    def _read_tree(self, payload: bytes) -> T | None:
        try:
            tree = self._decode_tree(payload)
        except DECODE_ERRORS:
            return None
        # A name may also occur as a value or in an object on no path. In the whole tree every member is counted.
        return self._tree(tree, payload) if has_all_members(payload, (tree,)) else None

    def _read_exactly(self, batch: JsonBatch, rows: dict[int, T]) -> list[Refusal]:
        refusals = []
        # In the order of the payloads, as refusals are reported.
        for index in sorted(batch.exact):
            row = self._exact(index, batch.payloads[index])
            if isinstance(row, Refusal):
                # A key with an unpaired surrogate is refused, but its texts are known and identify it in messages.
                refusals.append(row)
                rows[index] = cast("T", row.texts) if isinstance(row, SurrogateRefusal) else self._refused
            else:
                rows[index] = row
        return refusals
