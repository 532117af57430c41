"""The protocol of message types: from bytes to rows, key texts, selections, JSON (``sowctl-messages(7)``).

The engine and other packages call message types only through these protocols and get one from
:func:`sowctl.messages.types.get_type`. A type never raises for an invalid payload of a batch: it returns a
:class:`~sowctl.values.fields.Refusal` and continues, so that an invalid message never affects others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar, cast

from sowctl.errors import InputError, MissingPackageError, UsageError
from sowctl.extras import build_missing_package_error
from sowctl.values.fields import FieldWrite, Refusal, Row, Slot, SlotValue
from sowctl.values.paths import Path

MAX_MESSAGE_BYTES = 64 << 20
"""Default limit of the size of one message."""

MAX_FIELDS = 1 << 20
"""Maximum number of fields in a message without nesting: a field costs fifty times its bytes in memory."""

NOT_UTF8_CODE = "SOW-MSG-001"
MALFORMED_CODE = "SOW-MSG-002"
TOO_DEEP_CODE = "SOW-MSG-003"
TOO_LARGE_CODE = "SOW-MSG-004"
NO_FIELDS = "SOW-MSG-005"
UNKNOWN_TYPE = "SOW-MSG-006"
BAD_DEFINITION = "SOW-MSG-007"
NO_SUCH_FIELD = "SOW-MSG-008"
UNWRITABLE_CODE = "SOW-MSG-009"
TOO_MANY_FIELDS_CODE = "SOW-MSG-010"
MISSING_EXTRA = "SOW-MSG-011"
SURROGATE_CODE = "SOW-IDN-010"

REPLACEMENT_CHARACTER = "\ufffd".encode()
SURROGATE_WORDS = r"half a surrogate pair (one of \ud800 to \udfff alone), which is not a character"

T = TypeVar("T")

KeyTexts: TypeAlias = tuple[bytes | None, ...]
"""The texts of one message's key fields in order; ``None`` for NULL."""

Tree: TypeAlias = dict[str, Any]
"""Fields of a new message: scalars, lists, and dicts of fields."""

Members: TypeAlias = Sequence[tuple[tuple[str, ...], SlotValue]]
"""Fields of a new message: the member names of the destination, and the value."""

SelectList: TypeAlias = Sequence[tuple[bool, tuple[str, ...]]]
"""Directives of a select list: include or not, and the member names of the path; no names mean ``/``."""


class Extractor(Protocol):
    """Reads the wanted fields of many payloads at once."""

    def __call__(self, payloads: Sequence[bytes], /) -> tuple[list[Row], list[Refusal]]:
        """One row per payload, in order, and the refusals by ascending index; a refused payload has a row of None."""
        ...


class SinglePassExtractor(Protocol):
    """Reads as an :class:`Extractor` does, but its rows can be iterated only once."""

    def __call__(
        self, payloads: Sequence[bytes], joined: bytes | None = None, /
    ) -> tuple[Iterable[Row], list[Refusal]]:
        """``joined``: the bytes from which the payloads were split, line by line, if available."""
        ...


class ColumnExtractor(Protocol):
    """Reads the same as an :class:`Extractor`, as a column for each slot."""

    def __call__(self, payloads: Sequence[bytes], /) -> tuple[Sequence[Sequence[SlotValue]], list[Refusal]]:
        """The columns, which must not be changed; possibly none if there are no payloads."""
        ...


class KeyExtractor(Protocol):
    """Reads the texts of the first values of some fields of many payloads at once."""

    def __call__(self, payloads: Sequence[bytes], /) -> tuple[list[KeyTexts], list[Refusal]]:
        """One tuple per payload, in order, and the refusals; ``None`` for NULL, empty, absent, or an object.

        A payload with an unpaired surrogate in its key fields is refused as :class:`SurrogateRefusal`, with U+FFFD
        instead in its texts.
        """
        ...


class PayloadRefused(ValueError):
    """The reason why a payload is unreadable: code, message, byte offset. Raised only inside this package."""

    def __init__(self, code: str, message: str, offset: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.offset = offset


class SurrogateRefusal(Refusal, frozen=True):
    """The refusal of key ``fields`` with unpaired surrogates; ``texts`` are those of all fields.

    An unpaired surrogate is no character and has no encoding. All of them read as U+FFFD, so different keys would
    become one key.
    """

    fields: tuple[str, ...] = ()
    texts: KeyTexts = ()


def build_surrogate_refusal(index: int, fields: Sequence[str], texts: KeyTexts) -> SurrogateRefusal:
    """Build the refusal of such key fields; the only place with its message."""
    words = f"key field {fields[0]} holds" if len(fields) == 1 else f"key fields {', '.join(fields)} hold"
    return SurrogateRefusal(index, SURROGATE_CODE, f"{words} {SURROGATE_WORDS}", None, tuple(fields), texts)


class ListRefused(ValueError):
    """A list at ``path`` that messages of the type do not support. Raised by :meth:`MessageType.build_from_tree`."""

    def __init__(self, path: Sequence[str]) -> None:
        self.path = "/".join(path)
        super().__init__(f"field {self.path} is a list")


class MessageType(Protocol):
    """One payload format. ``filterable``: its messages have fields, so filters and ``Key`` make sense."""

    @property
    def name(self) -> str:
        """The name in configurations, such as ``json``."""
        ...

    @property
    def kind(self) -> str:
        """The name of its row in the table of types, such as ``nvfix`` for a type that is defined under another
        name."""
        ...

    @property
    def filterable(self) -> bool:
        """True if messages of this type have fields."""
        ...

    @property
    def selectable(self) -> bool:
        """True if select lists are supported."""
        ...

    @property
    def mergeable(self) -> bool:
        """True if deltas are merged; otherwise a delta publish is a publish."""
        ...

    @property
    def constructible(self) -> bool:
        """True if fields can be written: by preprocessing and enrichment, and as output of projections and views."""
        ...

    @property
    def line_framed(self) -> bool:
        """True if messages are lines by default; those of other types have a length prefix."""
        ...

    @property
    def json_text(self) -> bool:
        """True if messages are JSON texts. See :func:`is_own_view`."""
        ...

    @property
    def typed(self) -> bool:
        """True if the format distinguishes numbers from texts; otherwise
        :func:`sowctl.values.scalars.choose_written_scalar` decides."""
        ...

    @property
    def repeatable(self) -> bool:
        """True if several fields of one name are a list, so that a field with one value may be a list of one."""
        ...

    @property
    def nested(self) -> bool:
        """True if a field may be an object with fields."""
        ...

    @property
    def rooted(self) -> bool:
        """True if a message has one outermost element, with which every path begins."""
        ...

    def build_extractor(self, slots: Sequence[Slot]) -> Extractor:
        """A reader of ``slots``; build one per query or batch run, because that is not cheap."""
        ...

    def build_key_extractor(self, paths: Sequence[Path]) -> KeyExtractor:
        """A reader of key texts: a number's original text, a String's bytes, ``1`` or ``0`` for a Boolean."""
        ...

    def check_payloads(self, payloads: Sequence[bytes]) -> list[Refusal]:
        """The unreadable payloads, for topics whose keys do not come from the payload."""
        ...

    def select_fields(self, payload: bytes, select_list: SelectList) -> bytes:
        """``payload`` reduced by a select list; raises InputError with the code of a refusal."""
        ...

    def merge_delta(self, base: bytes, delta: bytes, *, set_nulls: bool = False) -> bytes:
        """``base`` with the fields of ``delta`` (``behaviour`` 1.3): NULLs change nothing, arrays and scalars replace,
        objects are merged by path, new fields are appended. ``set_nulls``: NULLs replace as well.

        A type that is not ``mergeable`` returns ``delta`` itself. Raises InputError with the code of a refusal and, in
        its facts, ``offset`` and ``part`` (``base`` or ``delta``).
        """
        ...

    def assign_fields(self, payload: bytes, writes: Sequence[FieldWrite]) -> bytes:
        """``payload`` with constructed fields written into it, in order; all other bytes are unchanged.

        Replaced fields keep their place, new ones are appended; NULL is written in the form of the type. Raises
        InputError with the code of a refusal, ``SOW-MSG-009`` for a value that the format cannot represent, UsageError
        ``SOW-MSG-005`` and ``SOW-MSG-008`` if the type has no such fields.
        """
        ...

    def build_message(self, fields: Members) -> bytes:
        """A new message of these fields, in order. Raises UsageError as :meth:`assign_fields`."""
        ...

    def build_from_tree(self, tree: Tree) -> bytes:
        """A new message of a whole tree, as in views: a list is an array, or repeated fields in its order, none for an
        empty list. A field that is None is omitted if the type has no null; in a list it is a value without text.

        Raises :class:`ListRefused` for a list that the type does not support, otherwise as :meth:`build_message`.
        """
        ...

    def view(self, payload: bytes) -> bytes:
        """``payload`` as one line of JSON, for output; never fails."""
        ...

    def members_view(self, payload: bytes) -> bytes:
        """``payload`` as the JSON object whose members become columns; for most types the result of ``view``."""
        ...


def find_exact_view(kind: MessageType) -> Callable[[bytes], bytes] | None:
    """Find the type's JSON view with NaN, Infinity and -Infinity, for formats that have these numbers.

    Optional, and checked only here: None for the types without these numbers.
    """
    return cast("Callable[[bytes], bytes] | None", getattr(kind, "exact_view", None))


def find_columns_view(kind: MessageType) -> Callable[[bytes], bytes]:
    """Find the JSON view whose members become columns, an exact one if the type has it."""
    return find_exact_view(kind) or kind.members_view


def find_single_pass(extract: Extractor) -> SinglePassExtractor | None:
    """The extractor's method to read rows without keeping all of them in memory; None if its type has none.

    Optional, and checked only here: most types build their rows one by one, and would save nothing.
    """
    return getattr(extract, "read_once", None)


def build_column_extractor(extract: Extractor) -> ColumnExtractor:
    """The extractor's method to read columns, one for each slot; if its type has none, its rows are transposed."""
    own: ColumnExtractor | None = getattr(extract, "read_columns", None)
    if own is not None:
        return own

    def turned(payloads: Sequence[bytes]) -> tuple[Sequence[Sequence[SlotValue]], list[Refusal]]:
        rows, refused = extract(payloads)
        return list(zip(*rows, strict=True)), refused

    return turned


def select_all(kind: MessageType, payloads: Sequence[bytes], select_list: SelectList) -> list[bytes]:
    """:meth:`MessageType.select_fields` of several payloads, at once if the type supports that."""
    own: Callable[[Sequence[bytes], SelectList], list[bytes]] | None = getattr(kind, "select_all", None)
    return own(payloads, select_list) if own is not None else [kind.select_fields(one, select_list) for one in payloads]


def build_messages(
    kind: MessageType, destinations: Sequence[tuple[str, ...]], rows: Sequence[Sequence[SlotValue]]
) -> list[bytes]:
    """:meth:`MessageType.build_message` for each of ``rows``, whose values are the fields at ``destinations``, at once
    if the type supports that."""
    own: Callable[..., list[bytes]] | None = getattr(kind, "build_messages", None)
    if own is not None:
        return own(destinations, rows)
    return [kind.build_message(list(zip(destinations, row, strict=True))) for row in rows]


def is_own_view(kind: MessageType) -> bool:
    """Return True if a payload is its own JSON view, so that readers of JSON text may use its bytes.

    If the last of repeated members counts, the view omits the others.
    """
    return kind.json_text and getattr(kind, "first_wins", True)


def replaces_bytes(kind: MessageType) -> bool:
    """Return True if views may have U+FFFD instead of bytes that are not UTF-8.

    If so, a payload's own U+FFFD is its three bytes.
    """
    return getattr(kind, "replaces_bytes", False)


def refuse_large(payloads: Sequence[bytes], max_message: int) -> list[Refusal]:
    """The payloads of more than ``max_message`` bytes."""
    return [
        Refusal(
            index, TOO_LARGE_CODE, f"the message has {len(payload):,} bytes, more than {max_message:,}", max_message
        )
        for index, payload in enumerate(payloads)
        if len(payload) > max_message
    ]


def find_size_problem(payload: bytes, max_message: int) -> PayloadRefused | None:
    """The reason to refuse ``payload`` if it is too long."""
    if len(payload) <= max_message:
        return None
    return PayloadRefused(
        TOO_LARGE_CODE, f"the message has {len(payload):,} bytes, more than {max_message:,}", max_message
    )


def require_size(payload: bytes, max_message: int) -> bytes:
    """Return ``payload``. Raises PayloadRefused if it is too long."""
    if problem := find_size_problem(payload, max_message):
        raise problem
    return payload


def read_each(payloads: Sequence[bytes], read: Callable[[bytes], T], refused: T) -> tuple[list[T], list[Refusal]]:
    """Read every payload separately; if ``read`` raises PayloadRefused, the result is ``refused``, with a refusal."""
    results: list[T] = []
    refusals: list[Refusal] = []
    # An invalid payload affects only its own row: the batch continues.
    for index, payload in enumerate(payloads):
        try:
            results.append(read(payload))
        except PayloadRefused as problem:
            results.append(refused)
            refusals.append(Refusal(index, problem.code, problem.message, problem.offset))
    return results, refusals


def build_field_count_refusal() -> PayloadRefused:
    """The reason to refuse a message with more than :data:`MAX_FIELDS` fields."""
    return PayloadRefused(TOO_MANY_FIELDS_CODE, f"the message has more than {MAX_FIELDS:,} fields")


def build_input_error(problem: PayloadRefused, part: str | None = None) -> InputError:
    """The error of an unreadable payload; ``part`` names one of the two payloads of a merge."""
    if part is None:
        return InputError(problem.code, problem.message, offset=problem.offset)
    # The delta is the published message; a fault of the stored one must be described as such.
    words = f"invalid stored message: {problem.message}" if part == "base" else problem.message
    return InputError(problem.code, words, part=part, offset=problem.offset)


def build_no_fields_error(name: str, wish: str) -> UsageError:
    """The error of an operation that messages of a type do not support."""
    return UsageError(NO_FIELDS, f"messages of type {name} have no fields {wish}")


def build_missing_extra_error(name: str, package: str, extra: str) -> MissingPackageError:
    """The error of a type whose library is not installed."""
    words = f"messages of type {name} require the package {package}, which is not installed"
    return build_missing_package_error(MISSING_EXTRA, words, extra)
