"""Messages as structs: JSON views of any message type to Arrow arrays of a declared type (sowctl-spark(7), MESSAGES).

A field takes the value of the message's JSON view where that fits the declared type, else NULL; what is not declared is
not decoded. Messages of few templates are cut into columns all at once (:mod:`sowctl.arrow.template_decoder`). Others
are decoded into typed objects, whole batches at once, and columns are made of their fields; a message that does not fit
that is read again by itself, value by value, by :mod:`sowctl.arrow.jsoncolumns`. What a column holds depends on its own
field alone: not on the other columns, not on what else is in the message, not on which of the three ways was taken.
Called by the readers of stores and journals, and by the jobs that write columns.

Of orders with ten fields, as they lie in a journal, templates take 0.5 us of CPU each, msgspec with these columns 1.6
us; of one or two of the fields, templates take 0.2 us and msgspec 0.65. Not used are pyarrow's reader of JSON lines,
which takes 1.2 and 0.7 us and refuses a whole block for one value that does not fit; arrow-rs, which takes 0.6 us and
makes whole numbers of texts and fractions; Spark's from_json on the bytes, which takes 1.5 times as long as all of
this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Annotated, Any

from sowctl.arrow.jsoncolumns import INTEGER_BITS, Misfit, build_coercion, build_column, make_declared_view
from sowctl.arrow.jsontrees import TreeReader, Unreadable, convert_tree, has_suspects
from sowctl.arrow.template_decoder import TemplateDecoder
from sowctl.messages.base import PayloadRefused
from sowctl.messages.nested.type import TreeType

if TYPE_CHECKING:
    import pyarrow

    from sowctl.arrow.arrays import Numbers
    from sowctl.messages.base import MessageType


class StructDecoder:
    """Decodes messages into arrays of one struct type. Not for several threads at once.

    ``strict``, for a type that was inferred: a message that is no object, a field that the type does not have and a
    value that does not fit raise :class:`~sowctl.arrow.jsoncolumns.Misfit` with the message's place in the
    batch. ``partial``: messages may have other members all the same. ``exact``: the JSON views are exact ones.
    """

    def __init__(
        self, struct: pyarrow.StructType, *, strict: bool = False, partial: bool = False, exact: bool = False
    ) -> None:
        import msgspec

        self._type = struct
        self._strict = strict
        self._one: msgspec.json.Decoder[Any] | None = None
        # msgspec takes no name with a quotation mark, a backslash or a control character, and asks several calls of
        # Python for a level of the type: then each value is looked at.
        with suppress(ValueError, RecursionError):
            self._one = msgspec.json.Decoder(_msgspec_type(struct, [0], strict, partial))
        self._trees = TreeReader(exact=exact)
        self._coerce = build_coercion(struct, strict=strict, partial=partial)
        self._errors = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
        # In a JSON view binary data are text already; only where a column wants the bytes is the message itself looked
        # at.
        self._binary = _has_type(struct, "is_binary")
        # The sign of a negative zero, which doubles keep.
        self._signed = _has_type(struct, "is_floating")
        self._conversions: dict[tuple[bool, bool], Callable[[bytes], bytes] | None] = {}
        self._shaped = TemplateDecoder(struct, self.decode_views, strict=strict, partial=partial)

    def decode_payloads(self, payloads: Sequence[bytes | None], kind: MessageType) -> pyarrow.Array:
        """One struct per payload; NULL where there is no message, or one that cannot be read."""
        if kind.json_text:
            if None not in payloads:
                import numpy as np

                lengths = np.fromiter(map(len, payloads), "i8", len(payloads))  # type: ignore[arg-type]  # no None
                found = self._shaped.decode(payloads, lengths)
                if found is not None:
                    return found.structs
            return self.decode_views(payloads)
        if self._binary and isinstance(kind, TreeType):
            return build_column(
                self._decode_each(payloads, lambda payload: self._read_native(payload, kind)), self._type
            )
        return self.decode_views([None if payload is None else self.build_view(payload, kind) for payload in payloads])

    def build_view(self, payload: bytes, kind: MessageType) -> bytes:
        """The JSON view of one message, for :meth:`decode_views`.

        Of a message type that does not tell numbers from texts, a text with a numeric reading is a number where a
        column of numbers was declared: 00123 is 123 in a BIGINT. Of one whose lists are fields that are repeated, see
        :meth:`fit_lists`.
        """
        # An inferred type says what messages are, and a text that only looks like a number may be an identifier.
        return self._convert_view(kind.members_view(payload), not kind.typed and not self._strict, kind.repeatable)

    def fit_lists(self, views: Sequence[bytes]) -> Sequence[bytes]:
        """JSON views of messages whose lists are fields that are repeated (:attr:`MessageType.repeatable`): where the
        type has a list, a single value is a list of one."""
        return [self._convert_view(view, False, True) for view in views]

    def _convert_view(self, view: bytes, numbers: bool, lists: bool) -> bytes:
        if (numbers, lists) not in self._conversions:
            made = make_declared_view(self._type, numbers=numbers, lists=lists) if numbers or lists else None
            self._conversions[numbers, lists] = made
        convert = self._conversions[numbers, lists]
        return view if convert is None else convert(view)

    def decode_packed(self, parts: Sequence[Any], lengths: Numbers, present: Numbers) -> pyarrow.Array:
        """One struct per JSON message; they lie back to back in ``parts``, ``lengths`` says how many bytes each has.

        What is not ``present`` is NULL and has no bytes.
        """
        found = self._shaped.decode_present(parts, lengths, present)
        if found is not None:
            return found.structs
        raw = b"".join(parts)
        cut = [raw[start:end] for start, end in pairwise(accumulate(lengths.tolist(), initial=0))]
        if not present.all():
            return self.decode_views([one if there else None for one, there in zip(cut, present.tolist(), strict=True)])
        return self.decode_views(cut)

    def decode_views(self, views: Sequence[bytes | None]) -> pyarrow.Array:
        """One struct per JSON view; NULL where there is none, or one that cannot be read."""
        return build_column(self._decode_objects(views), self._type)

    def decode_at_once(self, views: Sequence[bytes], joined: bytes) -> pyarrow.Array | None:
        """Decode as :meth:`decode_views`, all at once; None unless each view fits the type as it is written.

        ``joined`` are the views line by line.
        """
        found = None if has_suspects(views, joined, signed=self._signed) else self._decode_joined(views)
        return None if found is None else build_column(found, self._type)

    def _decode_joined(self, views: Sequence[bytes]) -> list[Any] | None:
        # Not decode_lines(): it takes two values on one line, and one on two, for two.
        if self._one is None:
            return None
        try:
            return list(map(self._one.decode, views))
        # One message that does not fit stops the batch. Read one by one, only such messages take the slow way.
        except self._errors:
            return None

    def _decode_objects(self, views: Sequence[bytes | None]) -> list[Any]:
        if None not in views and not has_suspects(views, signed=self._signed):
            found = self._decode_joined(views)  # type: ignore[arg-type]  # no None in it
            if found is not None:
                return found
        return self._decode_each(views, self._decode_one)

    def _decode_each(self, messages: Sequence[bytes | None], read: Callable[[bytes], Any]) -> list[Any]:
        found = []
        for row, message in enumerate(messages):
            try:
                found.append(None if message is None else read(message))
            except Misfit as problem:
                problem.row = row
                raise
        return found

    def _decode_one(self, view: bytes) -> Any:
        if self._one is not None and not has_suspects([view], signed=self._signed):
            try:
                return self._one.decode(view)
            except self._errors:
                pass
        try:
            return self._convert_tree(self._trees.read_tree(view))
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
    """True where a test of :mod:`pyarrow.types` holds for a type or for a type in it."""
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


def _msgspec_type(kind: pyarrow.DataType, counter: list[int], strict: bool, partial: bool = False) -> Any:
    """The annotation for msgspec that accepts exactly the values which need no second look; ``partial``: of a struct,
    which may have other members."""
    import msgspec
    import pyarrow.types as t

    if t.is_struct(kind):
        counter[0] += 1
        fields = [(f"f{place}", _nullable_type(field.type, counter, strict), None) for place, field in enumerate(kind)]
        names = {f"f{place}": field.name for place, field in enumerate(kind)}
        # Fields are renamed to numbers, because names in JSON need not be names in Python. ``gc=False``: decoded values
        # are in no cycle, so the collector need not look at them.
        forbidden = strict and not partial
        return msgspec.defstruct(f"S{counter[0]}", fields, rename=names, gc=False, forbid_unknown_fields=forbidden)
    if t.is_list(kind):
        return list[_nullable_type(kind.value_type, counter, strict)]  # type: ignore[misc]  # made at run time
    if t.is_map(kind):
        return dict[str, _nullable_type(kind.item_type, counter, strict)]  # type: ignore[misc]  # as above
    if str(kind) in INTEGER_BITS:
        # A number outside of the type must be NULL, and a decoder without bounds would hand on one that Arrow refuses.
        bound = 1 << INTEGER_BITS[str(kind)]
        return Annotated[int, msgspec.Meta(ge=-bound, le=bound - 1)]
    if t.is_floating(kind):
        return float
    if t.is_boolean(kind):
        return bool
    if t.is_string(kind):
        return str
    # Raw accepts anything, and column() reads it; UnsetType nothing, so that what does not fit is found here
    return msgspec.UnsetType if strict else msgspec.Raw


def _nullable_type(kind: pyarrow.DataType, counter: list[int], strict: bool) -> Any:
    import msgspec

    found = _msgspec_type(kind, counter, strict)
    return found if found is msgspec.Raw else found | None  # a Raw in a union is not cut out
