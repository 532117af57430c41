"""The protocol of message types: bytes in; rows, key texts, selections, JSON out (``sowctl-messages(7)``).

The engine and the other rooms call message types only through these protocols and get one from
:func:`sowctl.messages.types.get_type`. A type never raises for a bad payload of a batch: it hands back a
:class:`~sowctl.values.fields.Refusal` and goes on, so that one bad message never costs its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar, cast

from sowctl.errors import InputError, MissingPackageError, UsageError
from sowctl.extras import build_missing_package_error
from sowctl.values.fields import FieldWrite, Refusal, Row, Slot, SlotValue
from sowctl.values.paths import Path

MAX_MESSAGE_BYTES = 64 << 20
"""Bytes that one message may have unless the caller says otherwise."""

MAX_FIELDS = 1 << 20
"""Fields that a message of a type without nesting may have: a field costs fifty times its bytes in memory."""

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
"""The texts of one message's key fields in order; ``None`` where a field is NULL."""

Tree: TypeAlias = dict[str, Any]
"""Fields of a message to make: scalars, lists, and dicts of fields."""

Members: TypeAlias = Sequence[tuple[tuple[str, ...], SlotValue]]
"""Fields of a message to make: the member names of the destination, and the value."""

SelectList: TypeAlias = Sequence[tuple[bool, tuple[str, ...]]]
"""Directives of a select list: include or not, and the member names of the path; no names at all stands for ``/``."""


class Extractor(Protocol):
    """Reads the wanted fields of many payloads at once."""

    def __call__(self, payloads: Sequence[bytes], /) -> tuple[list[Row], list[Refusal]]:
        """One row per payload, in order, and the refusals by ascending index; a refused payload has a row of None."""
        ...


class SinglePassExtractor(Protocol):
    """Reads as an :class:`Extractor` does, but its rows can be gone through only once."""

    def __call__(
        self, payloads: Sequence[bytes], joined: bytes | None = None, /
    ) -> tuple[Iterable[Row], list[Refusal]]:
        """``joined``: the bytes that the payloads were cut out of, line by line, where there are such."""
        ...


class ColumnExtractor(Protocol):
    """Reads what an :class:`Extractor` does, as a column for each slot."""

    def __call__(self, payloads: Sequence[bytes], /) -> tuple[Sequence[Sequence[SlotValue]], list[Refusal]]:
        """The columns, not to be changed; of no payloads there may be none."""
        ...


class KeyExtractor(Protocol):
    """Reads the texts of the first values of some fields of many payloads at once."""

    def __call__(self, payloads: Sequence[bytes], /) -> tuple[list[KeyTexts], list[Refusal]]:
        """One tuple per payload, in order, and the refusals; ``None`` stands for NULL, empty, absent, or an object.

        One in whose fields a surrogate has no partner is refused as :class:`SurrogateRefusal`; its texts have U+FFFD
        there.
        """
        ...


class PayloadRefused(ValueError):
    """Why a payload cannot be read: code, words, byte offset. Raised inside this room only."""

    def __init__(self, code: str, message: str, offset: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.offset = offset


class SurrogateRefusal(Refusal, frozen=True):
    """The refusal of key ``fields`` that hold half a surrogate pair; ``texts`` are those of all fields.

    Such a half is no character and has no bytes. Every one reads as U+FFFD, so that different keys would be one key.
    """

    fields: tuple[str, ...] = ()
    texts: KeyTexts = ()


def build_surrogate_refusal(index: int, fields: Sequence[str], texts: KeyTexts) -> SurrogateRefusal:
    """The one place that says what is wrong with such key fields."""
    words = f"key field {fields[0]} holds" if len(fields) == 1 else f"key fields {', '.join(fields)} hold"
    return SurrogateRefusal(index, SURROGATE_CODE, f"{words} {SURROGATE_WORDS}", None, tuple(fields), texts)


class ListRefused(ValueError):
    """A list at ``path`` that messages of the type cannot have. Raised by :meth:`MessageType.build_from_tree`."""

    def __init__(self, path: Sequence[str]) -> None:
        self.path = "/".join(path)
        super().__init__(f"field {self.path} is a list")


class MessageType(Protocol):
    """One payload format. ``filterable``: its messages have fields, so filters and ``Key`` make sense."""

    @property
    def name(self) -> str:
        """The name as configurations write it, such as ``json``."""
        ...

    @property
    def kind(self) -> str:
        """The name of its row in the table of types, such as ``nvfix`` for a type defined as such by another name."""
        ...

    @property
    def filterable(self) -> bool:
        """True if messages of this type have fields."""
        ...

    @property
    def selectable(self) -> bool:
        """True if a select list can be applied."""
        ...

    @property
    def mergeable(self) -> bool:
        """True if a delta is merged; where not, a delta publish is a publish."""
        ...

    @property
    def constructible(self) -> bool:
        """True if fields can be written: by preprocessing and enrichment, and as output of projections, views."""
        ...

    @property
    def line_framed(self) -> bool:
        """True if messages are lines where no framing is given; others stand behind their lengths."""
        ...

    @property
    def json_text(self) -> bool:
        """True if messages are JSON texts. See :func:`is_own_view`."""
        ...

    @property
    def typed(self) -> bool:
        """True if the format tells numbers from texts, else :func:`sowctl.values.scalars.choose_written_scalar`
        decides."""
        ...

    @property
    def repeatable(self) -> bool:
        """True if several fields of one name are a list, so that a field with one value may be a list of one."""
        ...

    @property
    def nested(self) -> bool:
        """True if a field may be an object that has fields."""
        ...

    @property
    def rooted(self) -> bool:
        """True if a message has one outermost element, which every path begins with."""
        ...

    def build_extractor(self, slots: Sequence[Slot]) -> Extractor:
        """A reader of ``slots``; make one per query or batch run, it is not cheap to make."""
        ...

    def build_key_extractor(self, paths: Sequence[Path]) -> KeyExtractor:
        """A reader of key texts: a number's original text, a String's bytes, ``1`` or ``0`` for a Boolean."""
        ...

    def check_payloads(self, payloads: Sequence[bytes]) -> list[Refusal]:
        """The payloads that this type cannot read, for topics whose keys do not come from the payload."""
        ...

    def select_fields(self, payload: bytes, select_list: SelectList) -> bytes:
        """``payload`` reduced to what a select list leaves; raises InputError with the code of a refusal."""
        ...

    def merge_delta(self, base: bytes, delta: bytes, *, set_nulls: bool = False) -> bytes:
        """``base`` with the fields that ``delta`` has (``behaviour`` 1.3): NULL ones change nothing, arrays and scalars
        replace, objects are merged by path, new fields go last. ``set_nulls``: NULL ones replace as well.

        A type that is not ``mergeable`` gives ``delta`` itself. Raises InputError with the code of a refusal and, in
        its facts, ``offset`` and ``part`` (``base`` or ``delta``).
        """
        ...

    def assign_fields(self, payload: bytes, writes: Sequence[FieldWrite]) -> bytes:
        """``payload`` with constructed fields written into it, in order; what they do not touch keeps its bytes.

        Replaced fields keep their place, new ones go last; NULL is written as the type writes it. Raises InputError
        with the code of a refusal, ``SOW-MSG-009`` for a value that the format cannot hold, UsageError ``SOW-MSG-005``
        and ``SOW-MSG-008`` where the type has no such fields.
        """
        ...

    def build_message(self, fields: Members) -> bytes:
        """A new message of these fields, in their order. Raises UsageError as :meth:`assign_fields`."""
        ...

    def build_from_tree(self, tree: Tree) -> bytes:
        """A new message of a whole tree, as views show it: a list is an array, or repeated fields in its order, of
        which an empty one has none. A field that is None is left out if the type has no null; in a list it is a value
        without text.

        Raises :class:`ListRefused` for a list that the type cannot have, otherwise as :meth:`build_message`.
        """
        ...

    def view(self, payload: bytes) -> bytes:
        """``payload`` as one line of JSON, for output; never fails."""
        ...

    def members_view(self, payload: bytes) -> bytes:
        """``payload`` as the JSON object whose members become columns; of most types that is what ``view`` makes."""
        ...


def find_exact_view(kind: MessageType) -> Callable[[bytes], bytes] | None:
    """Find the type's JSON view with NaN, Infinity and -Infinity, for formats that have these numbers.

    Optional, and asked for in this one place: None for the types that have none of them.
    """
    return cast("Callable[[bytes], bytes] | None", getattr(kind, "exact_view", None))


def find_columns_view(kind: MessageType) -> Callable[[bytes], bytes]:
    """Find the JSON view whose members become columns, an exact one where the type has that."""
    return find_exact_view(kind) or kind.members_view


def find_single_pass(extract: Extractor) -> SinglePassExtractor | None:
    """The extractor's way to read rows without holding them together; None where its type has none.

    Optional, and asked for in this one place: most types make their rows one by one, and have nothing to save.
    """
    return getattr(extract, "read_once", None)


def build_column_extractor(extract: Extractor) -> ColumnExtractor:
    """The extractor's way to read columns, one for each slot; where its type has none, its rows turned."""
    own: ColumnExtractor | None = getattr(extract, "read_columns", None)
    if own is not None:
        return own

    def turned(payloads: Sequence[bytes]) -> tuple[Sequence[Sequence[SlotValue]], list[Refusal]]:
        rows, refused = extract(payloads)
        return list(zip(*rows, strict=True)), refused

    return turned


def select_all(kind: MessageType, payloads: Sequence[bytes], select_list: SelectList) -> list[bytes]:
    """:meth:`MessageType.select_fields` of several payloads, by the type's way to do that at once where it has one."""
    own: Callable[[Sequence[bytes], SelectList], list[bytes]] | None = getattr(kind, "select_all", None)
    return own(payloads, select_list) if own is not None else [kind.select_fields(one, select_list) for one in payloads]


def build_messages(
    kind: MessageType, destinations: Sequence[tuple[str, ...]], rows: Sequence[Sequence[SlotValue]]
) -> list[bytes]:
    """:meth:`MessageType.build_message` for each of ``rows``, whose values are the fields at ``destinations``, by the
    type's way to do that at once where it has one."""
    own: Callable[..., list[bytes]] | None = getattr(kind, "build_messages", None)
    if own is not None:
        return own(destinations, rows)
    return [kind.build_message(list(zip(destinations, row, strict=True))) for row in rows]


def is_own_view(kind: MessageType) -> bool:
    """Return True if a payload is its own JSON view, so that readers of JSON text may look at its bytes.

    Where the last of repeated members counts, the view leaves the others out.
    """
    return kind.json_text and getattr(kind, "first_wins", True)


def replaces_bytes(kind: MessageType) -> bool:
    """Return True if views may have U+FFFD in the place of bytes that are not UTF-8.

    If so, payloads hold a U+FFFD of their own as its three bytes.
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
    """Why ``payload`` is too long, if it is."""
    if len(payload) <= max_message:
        return None
    return PayloadRefused(
        TOO_LARGE_CODE, f"the message has {len(payload):,} bytes, more than {max_message:,}", max_message
    )


def require_size(payload: bytes, max_message: int) -> bytes:
    """``payload`` itself. Raises PayloadRefused if it is too long."""
    if problem := find_size_problem(payload, max_message):
        raise problem
    return payload


def read_each(payloads: Sequence[bytes], read: Callable[[bytes], T], refused: T) -> tuple[list[T], list[Refusal]]:
    """Read every payload by itself; ``refused`` stands where ``read`` raises PayloadRefused, with the reason."""
    results: list[T] = []
    refusals: list[Refusal] = []
    # One bad payload costs a row of its own and no other: the batch goes on.
    for index, payload in enumerate(payloads):
        try:
            results.append(read(payload))
        except PayloadRefused as problem:
            results.append(refused)
            refusals.append(Refusal(index, problem.code, problem.message, problem.offset))
    return results, refusals


def build_field_count_refusal() -> PayloadRefused:
    """Why a message with more than :data:`MAX_FIELDS` fields is refused."""
    return PayloadRefused(TOO_MANY_FIELDS_CODE, f"the message has more than {MAX_FIELDS:,} fields")


def build_input_error(problem: PayloadRefused, part: str | None = None) -> InputError:
    """The error of a payload that cannot be read; ``part`` says which, where a merge has two."""
    if part is None:
        return InputError(problem.code, problem.message, offset=problem.offset)
    # The delta is the message that was published; a fault of the stored one must be named as such.
    words = f"invalid stored message: {problem.message}" if part == "base" else problem.message
    return InputError(problem.code, words, part=part, offset=problem.offset)


def build_no_fields_error(name: str, wish: str) -> UsageError:
    """The error of asking a type for something that its messages cannot do."""
    return UsageError(NO_FIELDS, f"messages of type {name} have no fields {wish}")


def build_missing_extra_error(name: str, package: str, extra: str) -> MissingPackageError:
    """The error of a type whose library is not installed."""
    words = f"messages of type {name} require the package {package}, which is not installed"
    return build_missing_package_error(MISSING_EXTRA, words, extra)
