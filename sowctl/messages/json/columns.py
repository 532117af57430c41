"""Slots of messages of few templates as columns, without an object for each message. Imports numpy.

The result equals that of :meth:`~sowctl.messages.json.type.JsonType.build_extractor`, value for value, for messages of
templates (:mod:`sowctl.messages.json.template_match`); the rows of the others are returned, and the extractor reads
them. A template is used only if it has read its own first message as the exact reader does. Called through
:mod:`sowctl.messages.template_columns`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sowctl.messages.json.limits import JSON_LIMITS
from sowctl.messages.json.template import ARRAY_MARKER, NoTemplateError, Template
from sowctl.messages.json.template_match import (
    LINE_END,
    MessageLines,
    TemplateBuilder,
    TemplateCache,
    TemplateMatch,
    TemplateMatcher,
)
from sowctl.values.batch import ColumnBatch
from sowctl.values.column import Array, Column, Kind, choose_code_type
from sowctl.values.fields import Number, Row, Slot
from sowctl.values.textspans import LazyNumbers, TextSpans

if TYPE_CHECKING:
    from sowctl.messages.json.template_match import NumberForm
    from sowctl.messages.template_columns import Lines, PlacedBatch

MAX_WORD_STRING_BYTES = 32
"""Maximum size of strings that are compared as numbers; longer ones are cut out one by one."""
_WORD_BYTES = 8

ExactRow = Callable[[bytes], "Row | None"]
"""The row of one message; None if it is refused."""


class JsonTemplateReader:
    """Reads ``slots`` of texts; ``exact_reader`` defines the row of a message. Created by
    :func:`build_template_reader`.
    """

    def __init__(self, slots: Sequence[Slot], exact: ExactRow, max_message: int) -> None:
        self._slots = slots
        self._exact = exact
        self._max_message = max_message
        self._shapes: TemplateCache[ColumnBatch] = TemplateCache(self._learn_template)

    def prefers_rows(self, messages: int) -> bool:
        """See :class:`~sowctl.messages.template_columns.TemplateReader`."""
        return messages < JSON_LIMITS.min_template_messages or self._shapes.skips_next()

    def read_columns(
        self, messages: Sequence[bytes], lines: Lines | None = None
    ) -> tuple[Sequence[PlacedBatch], Array] | None:
        """See :class:`~sowctl.messages.template_columns.TemplateReader`."""
        try:
            text = (
                MessageLines(LINE_END.join([*messages, b""]), messages)
                if lines is None
                else MessageLines(lines[0], messages, lines[1])
            )
            if len(text.lines) > self._max_message:
                self._refuse_large(text)
        except NoTemplateError:
            self._shapes.pause()
            return None
        return self._shapes.match_lines(text)

    def _refuse_large(self, text: MessageLines) -> None:
        # A template does not limit the size of its messages, and one that is too large is refused elsewhere.
        if any(len(message) > self._max_message for message in text.messages):
            raise NoTemplateError

    def _learn_template(self, message: bytes) -> TemplateBuilder[ColumnBatch]:
        template = Template(message)
        wanted: dict[int, NumberForm] = {}
        places = [_find_slot_place(slot, template, wanted) for slot in self._slots]

        def build(match: TemplateMatch) -> ColumnBatch:
            columns = [
                _build_slot_column(place, template, match, slot)
                for place, slot in zip(places, self._slots, strict=True)
            ]
            return ColumnBatch(columns, match.size)

        shape = TemplateMatcher(template, wanted)
        alone = shape.match(MessageLines(message + LINE_END, [message]), None)
        expected = self._exact(message)
        if not alone.size or expected is None:
            raise NoTemplateError
        (found,) = build(alone).read_rows()
        if list(map(_comparable_form, found)) != list(map(_comparable_form, expected)):
            raise NoTemplateError
        return TemplateBuilder(shape, build)


def build_template_reader(slots: Sequence[Slot], exact: ExactRow, max_message: int) -> JsonTemplateReader | None:
    """The reader of ``slots`` by templates; None if they need rows: lists of values, subscripts."""
    if any(slot.listed or any(step.index is not None for step in slot.path.steps) for slot in slots):
        return None
    return JsonTemplateReader(slots, exact, max_message)


def _find_slot_place(slot: Slot, template: Template, wanted: dict[int, NumberForm]) -> int | None:
    """The place of a slot in a template, added to ``wanted``; None if it has none. Raises NoTemplateError."""
    node: Any = template.tree
    for step in slot.path.steps:
        # A scalar has no members; those of an array are several values.
        if node is ARRAY_MARKER or (isinstance(node, int) and template.slots[node].kind == "list"):
            raise NoTemplateError
        node = node.get(step.name) if isinstance(node, dict) else None
    if node is None:
        return None
    if not isinstance(node, int) or template.slots[node].kind == "list":
        raise NoTemplateError
    pointed = template.slots[node].kind == "number" and not template.slots[node].whole
    # Another slot may read the same field.
    spelled = slot.text or wanted.get(node) == "spelled"
    wanted[node] = ("spelled" if spelled else "pointed") if pointed else "whole"
    return node


def _build_slot_column(place: int | None, template: Template, match: TemplateMatch, slot: Slot) -> Column:
    if place is None:
        return Column(Kind.NULL, match.size)
    found = match.values[place]
    if isinstance(found, TextSpans):
        return _build_text_column(found)
    if isinstance(found, LazyNumbers):
        # Another slot of the same field may need only the texts.
        source = found if slot.text else None
        return Column(Kind.DOUBLE, match.size, found.data, source=source, texts=slot.text)
    if template.slots[place].kind == "word":
        return _build_word_column(found)
    # An integer has one spelling, since templates do not accept -0: its text need not be kept.
    return Column(Kind.DOUBLE if found.dtype.kind == "f" else Kind.I64, match.size, found)


def _build_word_column(codes: Array) -> Column:
    """The column for codes of :data:`~sowctl.messages.json.template_match.WORD_VALUES`: NULL, TRUE and FALSE."""
    nulls = codes == 0
    if nulls.all():
        return Column(Kind.NULL, len(codes))
    return Column(Kind.BOOL, len(codes), codes == 1, nulls if nulls.any() else None)


def _build_text_column(spans: TextSpans) -> Column:
    codes, texts = _encode_strings(spans)
    # NULL, which includes the empty text, has the code after those of the words.
    words = [text for text in texts if text]
    nothing = len(words)
    if not words:
        return Column(Kind.NULL, len(codes))
    kind = choose_code_type(nothing)
    if nothing == len(texts):
        return Column(Kind.STRING, len(codes), codes.astype(kind), dictionary=words)
    # Codes after that of the empty text are decremented, since that is no word.
    numbers = np.arange(len(texts))
    empty = texts.index(b"")
    numbers[empty + 1 :] -= 1
    numbers[empty] = nothing
    return Column(Kind.STRING, len(codes), numbers.astype(kind)[codes], dictionary=words)


def _encode_strings(spans: TextSpans) -> tuple[Array, list[bytes]]:
    """A code for each string, and the strings."""
    raw, ends = spans.raw, spans.ends
    sizes = ends - spans.begins
    longest = int(sizes.max(initial=0))
    if longest > MAX_WORD_STRING_BYTES:
        cut = list(spans)
        known = {text: code for code, text in enumerate(dict.fromkeys(cut))}
        return np.fromiter(map(known.__getitem__, cut), "i8", len(cut)), list(known)
    if spans.begins.min(initial=_WORD_BYTES) < _WORD_BYTES:
        # Texts that were copied out of a text have lost the bytes in front of it, which the first words include.
        raw, ends = bytes(_WORD_BYTES) + bytes(raw), ends + _WORD_BYTES
    # An eight-byte number for every position of the text, and masks that keep its last bytes.
    words = np.ndarray((len(raw) - _WORD_BYTES + 1,), "<u8", raw, 0, (1,))
    keep = np.array([(1 << 64) - (1 << (64 - 8 * size)) for size in range(_WORD_BYTES + 1)], "u8")
    codes = np.zeros(len(sizes), "i8")
    # Eight characters at a time from the end of all strings. The mask clears the bytes before a string, wherever in the
    # text the word begins; no string contains a zero byte, so strings of different lengths stay distinct.
    for passed in range(0, max(longest, 1), _WORD_BYTES):
        part = words[ends - _WORD_BYTES - passed] & keep[np.clip(sizes - passed, 0, _WORD_BYTES)]
        more = np.unique(part, return_inverse=True)[1]
        # Two codes are combined into one number, and these are renumbered: there are never more of them than strings.
        codes = more if not passed else np.unique(codes * (int(more.max()) + 1) + more, return_inverse=True)[1]
    some = np.empty(int(codes.max(initial=-1)) + 1, "i8")
    some[codes] = np.arange(len(codes))
    return codes, list(spans.take(some))


def _comparable_form(value: Any) -> object:
    """A value in a form in which only values equal in type and spelling are equal; the empty text is NULL."""
    if isinstance(value, str | bytes) and not value:
        value = None
    if isinstance(value, Number):
        return "number", repr(value)
    if isinstance(value, str):
        return "text", value.encode()
    return ("text", value) if isinstance(value, bytes) else (type(value), repr(value))
