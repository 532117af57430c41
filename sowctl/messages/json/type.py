"""Message type ``json``, with the JSON readers and writers of this package (``sowctl-expressions(7)``).

:mod:`~sowctl.messages.json.exact_reader` defines the accepted texts, :mod:`~sowctl.messages.json.paths` the results of
paths, :mod:`~sowctl.messages.json.rows` and :mod:`~sowctl.messages.json.fast_reader` do the same fast for many
payloads, and :mod:`~sowctl.messages.json.write` applies select lists and writes fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Raw
from msgspec.json import Encoder
from msgspec.structs import replace

from sowctl.messages.base import (
    MAX_MESSAGE_BYTES,
    Extractor,
    KeyExtractor,
    KeyTexts,
    Members,
    PayloadRefused,
    SelectList,
    SurrogateRefusal,
    Tree,
    build_input_error,
    build_surrogate_refusal,
    find_size_problem,
    refuse_large,
)
from sowctl.messages.json.exact_reader import (
    Json,
    JsonRefused,
    SpannedValue,
    parse_json,
    parse_spans,
    replace_surrogates,
)
from sowctl.messages.json.paths import build_key_text, build_slot_value, resolve_path
from sowctl.values.depth import MAX_DEPTH
from sowctl.values.fields import FieldWrite, Number, Refusal, Row, Slot, SlotValue
from sowctl.values.paths import Path

if TYPE_CHECKING:
    from sowctl.messages.definition import TypeDefinition
    from sowctl.messages.json.columns import JsonTemplateReader
    from sowctl.messages.json.select import Selection


def _encode_number(value: Any) -> Raw:
    """The JSON number with the original digits. Raises TypeError for other objects."""
    if not isinstance(value, Number):
        raise TypeError(f"a field of a message cannot be of type {type(value).__name__}")
    return Raw(value.text)


_encode_tree = Encoder(enc_hook=_encode_number).encode


class JsonType:
    """JSON (RFC 8259) in UTF-8, white space around the value allowed; of duplicate members the first counts.

    ``fast`` off reads every payload with the exact reader, against which the fast one is tested, and which is the only
    one that supports definitions in which the last duplicate member counts.
    """

    kind = "json"
    filterable = selectable = mergeable = constructible = True
    line_framed = json_text = True
    rooted = False
    typed = True
    repeatable = False
    nested = True

    def __init__(
        self,
        max_message: int = MAX_MESSAGE_BYTES,
        max_depth: int = MAX_DEPTH,
        *,
        fast: bool = True,
        definition: TypeDefinition | None = None,
    ) -> None:
        self.name = "json" if definition is None else definition.name
        self.max_message = max_message
        self.max_depth = max_depth
        self.first_wins = definition is None or definition.first_wins
        self.fast = fast and self.first_wins
        self._selection: Selection | None = None

    def build_extractor(self, slots: Sequence[Slot]) -> Extractor:
        """A reader of ``slots``."""
        wanted = tuple(slots)

        def exact(index: int, payload: bytes) -> Row | Refusal:
            tree = self._parse_payload(index, payload)
            if isinstance(tree, Refusal):
                return tree
            return tuple([build_slot_value(*resolve_path(tree[0], slot.path.steps), slot) for slot in wanted])

        if self.fast:
            from sowctl.messages.json.rows import build_row_reader

            reader = build_row_reader(wanted, exact, self.max_message, self.max_depth)
            if reader is not None:
                return reader
        refused: Row = (None,) * len(wanted)

        def extract(payloads: Sequence[bytes]) -> tuple[list[Row], list[Refusal]]:
            results = [exact(index, payload) for index, payload in enumerate(payloads)]
            rows = [refused if isinstance(result, Refusal) else result for result in results]
            return rows, [result for result in results if isinstance(result, Refusal)]

        return extract

    def build_template_reader(self, slots: Sequence[Slot]) -> JsonTemplateReader | None:
        """A reader of ``slots`` of messages of few templates, as columns; None if they require rows."""
        if not self.fast:
            return None
        from sowctl.messages.json.columns import build_template_reader

        def exact(payload: bytes) -> Row | None:
            tree = self._parse_payload(0, payload)
            if isinstance(tree, Refusal):
                return None
            return tuple([build_slot_value(*resolve_path(tree[0], slot.path.steps), slot) for slot in slots])

        return build_template_reader(slots, exact, self.max_message)

    def build_key_extractor(self, paths: Sequence[Path]) -> KeyExtractor:
        """A reader of the texts of first values."""
        wanted = tuple(paths)

        def exact(index: int, payload: bytes) -> KeyTexts | Refusal:
            # Unpaired surrogates stay, because encoding them fails below: that is how a key that contains one is
            # noticed.
            tree = self._parse_payload(index, payload, halves=True)
            if isinstance(tree, Refusal):
                return tree
            found = [resolve_path(tree[0], path.steps)[0] for path in wanted]
            try:
                return tuple(map(build_key_text, found))
            except UnicodeEncodeError:
                return _needs_surrogate_check(index, wanted, found)

        if self.fast:
            from sowctl.messages.json.rows import build_key_reader

            reader = build_key_reader(wanted, exact, self.max_message, self.max_depth)
            if reader is not None:
                return reader
        refused: KeyTexts = (None,) * len(wanted)

        def extract(payloads: Sequence[bytes]) -> tuple[list[KeyTexts], list[Refusal]]:
            results = [exact(index, payload) for index, payload in enumerate(payloads)]
            rows = [
                result.texts
                if isinstance(result, SurrogateRefusal)
                else refused
                if isinstance(result, Refusal)
                else result
                for result in results
            ]
            return rows, [result for result in results if isinstance(result, Refusal)]

        return extract

    def check_payloads(self, payloads: Sequence[bytes]) -> list[Refusal]:
        """The payloads that are not acceptable JSON."""
        # The fast check finds payloads that may be invalid; the exact reader decides and words the refusal.
        doubtful: Sequence[int] = range(len(payloads))
        if self.fast:
            from sowctl.messages.json.batch import find_unreadable

            doubtful = sorted(find_unreadable(payloads, self.max_message, self.max_depth))
        results = [self._parse_payload(index, payloads[index]) for index in doubtful]
        return [result for result in results if isinstance(result, Refusal)]

    def select_fields(self, payload: bytes, select_list: SelectList) -> bytes:
        """``payload`` without the excluded fields; all others keep their bytes. Raises InputError."""
        from sowctl.messages.json.write import select_fields

        if self.fast and not all(include for include, _ in select_list):
            kept = self._selection_of(select_list)(payload)
            if kept is not None:
                return kept
        return select_fields(payload, self._parse_payload_spans(payload), select_list)

    def select_all(self, payloads: Sequence[bytes], select_list: SelectList) -> list[bytes]:
        """:meth:`select_fields` of several payloads. Raises InputError for the first unreadable one."""
        if self.fast and not all(include for include, _ in select_list):
            kept = self._selection_of(select_list).select_all(payloads)
            if kept is not None:
                return kept
        return [self.select_fields(payload, select_list) for payload in payloads]

    def _selection_of(self, select_list: SelectList) -> Selection:
        """The prepared select list, cached between payloads."""
        if self._selection is None or self._selection.of is not select_list:
            from sowctl.messages.json.select import Selection

            self._selection = Selection(select_list, self.max_message, self.max_depth)
        return self._selection

    def merge_delta(self, base: bytes, delta: bytes, *, set_nulls: bool = False) -> bytes:
        """``base`` with the fields of ``delta``, merged by path. Raises InputError."""
        from sowctl.messages.json.write import merge_delta

        old, new = self._parse_payload_spans(base, "base"), self._parse_payload_spans(delta, "delta")
        return merge_delta(base, old, delta, new, set_nulls=set_nulls)

    def assign_fields(self, payload: bytes, writes: Sequence[FieldWrite]) -> bytes:
        """``payload`` with fields written and removed. Raises InputError."""
        from sowctl.messages.json.write import assign_fields

        return assign_fields(payload, self._parse_payload_spans(payload), writes)

    def build_message(self, fields: Members) -> bytes:
        """An object of these fields."""
        from sowctl.messages.json.write import build_object

        return build_object(fields)

    def build_messages(
        self, destinations: Sequence[tuple[str, ...]], rows: Sequence[Sequence[SlotValue]]
    ) -> list[bytes]:
        """See :func:`sowctl.messages.base.build_messages`."""
        from sowctl.messages.json.write import build_objects

        return build_objects(destinations, rows)

    def build_from_tree(self, tree: Tree) -> bytes:
        """An object of this tree."""
        return _encode_tree(tree)

    def view(self, payload: bytes) -> bytes:
        """``payload`` without line breaks, which valid JSON has only between its tokens.

        If the last duplicate member counts, the others are omitted: another reader of JSON may use the first.
        """
        if not self.first_wins:
            from sowctl.messages.json.write import rebuild_payload
            from sowctl.values.unique_members import has_unique_members

            try:
                if not has_unique_members(payload):
                    return rebuild_payload(payload, parse_spans(payload, self.max_depth, last=True))
            except PayloadRefused:
                pass
        # Inside a JSON string a line break is escaped, so these bytes are white space between tokens.
        if b"\n" in payload or b"\r" in payload:
            return payload.translate(None, b"\r\n")
        return payload

    members_view = view

    def _parse_payload_spans(self, payload: bytes, part: str | None = None) -> SpannedValue:
        """The values of one payload with their places. Raises InputError."""
        try:
            if problem := find_size_problem(payload, self.max_message):
                raise problem
            return parse_spans(payload, self.max_depth, last=not self.first_wins)
        except PayloadRefused as problem:
            raise build_input_error(problem, part) from None

    def _parse_payload(self, index: int, payload: bytes, *, halves: bool = False) -> tuple[Json] | Refusal:
        """The tree of one payload, in a tuple, or the reason why there is none; ``halves`` as in :func:`parse_json`."""
        if len(payload) > self.max_message:
            return replace(refuse_large([payload], self.max_message)[0], index=index)
        try:
            # In a tuple: the value itself may be null, which is None.
            return (parse_json(payload, self.max_depth, last=not self.first_wins, halves=halves),)
        except JsonRefused as problem:
            return Refusal(index, problem.code, problem.message, problem.offset)


def _needs_surrogate_check(index: int, paths: Sequence[Path], found: Sequence[list[object]]) -> SurrogateRefusal:
    """The refusal of key fields that were ``found`` at ``paths``, some of which contain an unpaired surrogate."""
    whole = [[replace_surrogates(item) if isinstance(item, str) else item for item in items[:1]] for items in found]
    fields = [str(path) for path, old, new in zip(paths, found, whole, strict=True) if old[:1] != new]
    return build_surrogate_refusal(index, fields, tuple(map(build_key_text, whole)))
