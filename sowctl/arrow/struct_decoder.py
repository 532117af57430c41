"""Messages as structs: JSON views of any message type to Arrow arrays of a declared type (sowctl-spark(7), MESSAGES).

A field has the value in the message's JSON view if that fits the declared type, else NULL; undeclared members are not
decoded. Messages of few templates are cut into columns all at once (:mod:`sowctl.arrow.template_decoder`). Others are
decoded to typed objects, whole batches at once, and columns are built from their fields, if no field occurs twice in
them (:mod:`sowctl.arrow.unique_fields`). A message in which one may, or that does not fit, is read again separately,
value by value, by :mod:`sowctl.arrow.jsoncolumns`. So of duplicate members the first counts, and the content of a
column depends only on its own field: not on the other columns, not on the rest of the message, not on which of the
three methods was used. Called by the readers of stores and journals, and by the jobs that write columns.

For orders with ten fields, as stored in a journal, templates take 0.5 us of CPU each, msgspec with these columns 1.6
us; for one or two of the fields, templates take 0.2 us and msgspec 0.65. Not used are pyarrow's reader of JSON lines,
which takes 1.2 and 0.7 us and refuses a whole block for one value that does not fit; arrow-rs, which takes 0.6 us and
converts texts and fractions to whole numbers; Spark's from_json on the bytes, which takes 1.5 times as long as all of
this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Annotated, Any

from sowctl.arrow.jsoncolumns import INTEGER_BITS, MemberCount, Misfit, build_coercion, build_column, make_declared_view
from sowctl.arrow.jsontrees import TreeReader, Unreadable, convert_tree, has_suspects
from sowctl.arrow.template_decoder import TemplateDecoder
from sowctl.arrow.unique_fields import FieldProof, count_name_marks
from sowctl.messages.base import PayloadRefused, is_own_view
from sowctl.messages.json.batch import DECODE_ERRORS
from sowctl.messages.nested.type import TreeType
from sowctl.values.unique_members import has_unique_members

if TYPE_CHECKING:
    import pyarrow

    from sowctl.arrow.arrays import Numbers
    from sowctl.messages.base import MessageType


class StructDecoder:
    """Decodes messages into arrays of one struct type. Not thread-safe.

    ``strict``, for an inferred type: a message that is no object, an unknown field and a value that does not fit raise
    :class:`~sowctl.arrow.jsoncolumns.Misfit` with the message's index in the batch. ``partial``: messages may have
    other members nevertheless. ``exact``: the JSON views are exact ones.
    """

    def __init__(
        self, struct: pyarrow.StructType, *, strict: bool = False, partial: bool = False, exact: bool = False
    ) -> None:
        import msgspec

        self._type = struct
        self._strict = strict
        # Then a decoder skips no member, and its members can be counted.
        self._closed = strict and not partial
        self._one: msgspec.json.Decoder[Any] | None = None
        # msgspec does not support names with a quotation mark, a backslash or a control character, and needs several
        # Python calls per level of the type: then each value is read separately.
        with suppress(ValueError, RecursionError):
            absent = msgspec.UNSET if self._closed else None
            self._one = msgspec.json.Decoder(_msgspec_type(struct, [0], absent, strict, partial))
        self._trees = TreeReader(exact=exact)
        self._coerce = build_coercion(struct, strict=strict, partial=partial)
        # In a JSON view binary data are text already; the message itself is read only if a column needs the bytes.
        self._binary = _has_type(struct, "is_binary")
        # The sign of a negative zero, which doubles keep.
        self._signed = _has_type(struct, "is_floating")
        self._conversions: dict[tuple[bool, bool], Callable[[bytes], bytes] | None] = {}
        self._proof = FieldProof(struct)
        self._exact = exact
        values = self.build_value_decoder
        self._shaped = TemplateDecoder(struct, self.decode_objects, values, strict=strict, partial=partial)
        self._fitting = TemplateDecoder(
            struct, self._decode_fitting, values, strict=strict, partial=partial, lossless=True
        )

    def build_value_decoder(
        self, kind: pyarrow.DataType, fitting: bool
    ) -> Callable[[Sequence[bytes | None]], pyarrow.Array]:
        """The decoder of messages with one member, ``value``, of a declared type, which decodes as this one does.

        ``fitting``: it raises Misfit unless each value fits the type as it is written.
        """
        import pyarrow as pa

        decoder = StructDecoder(pa.struct([("value", kind)]), strict=self._strict, exact=self._exact)
        return decoder._decode_fitting if fitting else decoder.decode_objects

    def decode_payloads(self, payloads: Sequence[bytes | None], kind: MessageType) -> pyarrow.Array:
        """One struct per payload; NULL for a missing or an unreadable message."""
        if is_own_view(kind):
            return self.decode_views(payloads)
        if self._binary and isinstance(kind, TreeType):
            return build_column(
                self._decode_each(payloads, lambda payload: self._read_native(payload, kind)), self._type
            )
        return self.decode_views([None if payload is None else self.build_view(payload, kind) for payload in payloads])

    def build_view(self, payload: bytes, kind: MessageType) -> bytes:
        """The JSON view of one message, for :meth:`decode_views`.

        For an untyped message type, a text with a numeric reading becomes a number if a column of numbers is declared:
        00123 is 123 in a BIGINT. For a type whose lists are repeated fields, see :meth:`fit_lists`.
        """
        # An inferred type describes the messages, and a text that only looks like a number may be an identifier.
        return self._convert_view(kind.members_view(payload), not kind.typed and not self._strict, kind.repeatable)

    def fit_lists(self, views: Sequence[bytes]) -> Sequence[bytes]:
        """JSON views of messages whose lists are repeated fields (:attr:`MessageType.repeatable`): if the type has a
        list, a single value becomes a list of one."""
        return [self._convert_view(view, False, True) for view in views]

    def _convert_view(self, view: bytes, numbers: bool, lists: bool) -> bytes:
        if (numbers, lists) not in self._conversions:
            made = make_declared_view(self._type, numbers=numbers, lists=lists) if numbers or lists else None
            self._conversions[numbers, lists] = made
        convert = self._conversions[numbers, lists]
        return view if convert is None else convert(view)

    def decode_packed(self, parts: Sequence[Any], lengths: Numbers, present: Numbers) -> pyarrow.Array:
        """One struct per JSON message; they are contiguous in ``parts``, with their sizes in bytes in ``lengths``.

        Rows that are not ``present`` are NULL and have no bytes.
        """
        found = self._shaped.decode_present(parts, lengths, present)
        if found is not None:
            return found.structs
        raw = b"".join(parts)
        cut = [raw[start:end] for start, end in pairwise(accumulate(lengths.tolist(), initial=0))]
        there = present.tolist()
        return self.decode_objects(cut if all(there) else [cut[row] if one else None for row, one in enumerate(there)])

    def decode_views(self, views: Sequence[bytes | None]) -> pyarrow.Array:
        """One struct per JSON view; NULL for a missing or an unreadable one."""
        if None not in views:
            found = self._shaped.decode_messages(views)  # type: ignore[arg-type]  # no None in it
            if found is not None:
                return found.structs
        return self.decode_objects(views)

    def decode_at_once(self, views: Sequence[bytes]) -> pyarrow.Array | None:
        """Decode as :meth:`decode_views`, all at once; None unless each view fits the type as written."""
        try:
            found = self._fitting.decode_messages(views)
            return self._decode_fitting(views) if found is None else found.structs
        except Misfit:
            return None

    def _decode_fitting(self, views: Sequence[bytes | None]) -> pyarrow.Array:
        """As :meth:`decode_objects`. Raises Misfit unless each message fits the type as written."""
        _, left, array = self._decode_typed(views)
        if left:
            raise Misfit("it is read otherwise")
        return array

    def decode_objects(self, views: Sequence[bytes | None]) -> pyarrow.Array:
        """As :meth:`decode_views`, without templates: by typed objects, and value by value if these do not suffice."""
        objects, left, array = self._decode_typed(views)
        if not left:
            return array
        for row in sorted(left):
            try:
                objects[row] = self._read_exactly(views[row])
            except Misfit as problem:
                problem.row = row
                raise
        return self._build_structs(objects)[0]

    def _build_structs(self, objects: Sequence[Any]) -> tuple[pyarrow.Array, int]:
        """The array of typed objects, and for a closed type the total number of their members."""
        count = MemberCount() if self._closed else None
        array = build_column(objects, self._type, count)
        return array, 0 if count is None else count.members

    def _decode_typed(self, views: Sequence[bytes | None]) -> tuple[list[Any], set[int], pyarrow.Array | None]:
        """Typed objects, and the rows that have none: messages that do not fit as written, or may have a field twice.
        The array of the objects, if there are no such rows.
        """
        if self._one is None:
            return [None] * len(views), set(range(len(views))), None
        left = {row for row, view in enumerate(views) if view is None} if None in views else set()
        if has_suspects(views, signed=self._signed):
            left |= {row for row, view in enumerate(views) if has_suspects([view], signed=self._signed)}
        objects = self._decode_joined(views) if not left else None
        if objects is None:
            objects = [None] * len(views)
            # One message that does not fit stops the batch. Decoded one by one, only such messages need the slow
            # method.
            for row, view in enumerate(views):
                if row not in left:
                    try:
                        objects[row] = self._one.decode(view)  # type: ignore[arg-type]  # what is None is left
                    except DECODE_ERRORS:
                        left.add(row)
        decoded: Sequence[Any] = [view for row, view in enumerate(views) if row not in left] if left else views
        array = None
        if not left:
            array, members = self._build_structs(objects)
            # Each member has a mark, and different members have different marks: as many marks as members found leave
            # no room for a duplicate.
            if self._closed and count_name_marks(b"".join(decoded)) == members:
                return objects, left, array
        if not self._proof.has_unique_fields(decoded):
            left |= {row for row, view in enumerate(views) if row not in left and not self._is_unique(view)}
        return objects, left, array

    def _decode_joined(self, views: Sequence[Any]) -> list[Any] | None:
        """Typed objects of all messages; None if one does not fit."""
        assert self._one is not None
        try:
            # Not decode_lines(): it reads two values on one line, and one on two, as two.
            return list(map(self._one.decode, views))
        except DECODE_ERRORS:
            return None

    def _is_unique(self, view: Any) -> bool:
        return self._proof.has_unique_fields([view]) or has_unique_members(view)

    def _decode_each(self, messages: Sequence[bytes | None], read: Callable[[bytes], Any]) -> list[Any]:
        found = []
        for row, message in enumerate(messages):
            try:
                found.append(None if message is None else read(message))
            except Misfit as problem:
                problem.row = row
                raise
        return found

    def _read_exactly(self, view: bytes | None) -> Any:
        try:
            return None if view is None else self._convert_tree(self._trees.read_tree(view))
        except Unreadable:
            return self._count_unreadable()

    def _read_native(self, payload: bytes, kind: TreeType) -> Any:
        """A message of a format with binary data, which its JSON view would show as text."""
        try:
            return self._convert_tree(convert_tree(kind.read_tree(payload), kind.convert_scalar))
        except PayloadRefused:
            return self._count_unreadable()

    def _convert_tree(self, tree: Any) -> Any:
        if tree is None and self._strict:
            raise Misfit("null is not an object")
        return self._coerce(tree)

    def _count_unreadable(self) -> None:
        if self._strict:
            raise Misfit("it cannot be read")


def _has_type(kind: pyarrow.DataType, test: str) -> bool:
    """True if a test of :mod:`pyarrow.types` holds for a type or for a type in it."""
    import pyarrow.types as t

    asks = getattr(t, test)
    waiting = [kind]
    while waiting:
        one = waiting.pop()
        if t.is_nested(one):
            waiting += [one.field(place).type for place in range(one.num_fields)]
        elif asks(one):
            return True
    return False


def _msgspec_type(kind: pyarrow.DataType, counter: list[int], absent: Any, strict: bool, partial: bool = False) -> Any:
    """The annotation for msgspec that accepts exactly the values that need no further check; ``partial``: for a struct
    that may have other members. ``absent``: the value of a field that an object does not have."""
    import msgspec
    import pyarrow.types as t

    if t.is_struct(kind):
        counter[0] += 1
        fields = [
            (f"f{place}", _nullable_type(field.type, counter, absent, strict), absent)
            for place, field in enumerate(kind)
        ]
        names = {f"f{place}": field.name for place, field in enumerate(kind)}
        # Fields are renamed to numbers, because names in JSON need not be names in Python. ``gc=False``: decoded values
        # are in no cycle, so the collector need not track them.
        forbidden = strict and not partial
        return msgspec.defstruct(f"S{counter[0]}", fields, rename=names, gc=False, forbid_unknown_fields=forbidden)
    if t.is_list(kind):
        return list[_nullable_type(kind.value_type, counter, absent, strict)]  # type: ignore[misc]  # made at run time
    if t.is_map(kind):
        return dict[str, _nullable_type(kind.item_type, counter, absent, strict)]  # type: ignore[misc]  # as above
    if str(kind) in INTEGER_BITS:
        # A number outside of the type must be NULL, and a decoder without bounds would return one that Arrow refuses.
        bound = 1 << INTEGER_BITS[str(kind)]
        return Annotated[int, msgspec.Meta(ge=-bound, le=bound - 1)]
    if t.is_floating(kind):
        return float
    if t.is_boolean(kind):
        return bool
    if t.is_string(kind):
        return str
    # Raw accepts anything, and column() reads it; UnsetType accepts nothing, so that misfits are detected here
    return msgspec.UnsetType if strict else msgspec.Raw


def _nullable_type(kind: pyarrow.DataType, counter: list[int], absent: Any, strict: bool) -> Any:
    import msgspec

    found = _msgspec_type(kind, counter, absent, strict)
    return found if found is msgspec.Raw else found | None  # a Raw in a union is not cut out
