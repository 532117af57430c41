"""Messages that do not fit a declared type, which Spark calls corrupt records (sowctl-spark(7), MODES).

Separate from decoding, which replaces misfits by NULL and is faster without this check. Called if a reader must keep,
drop or reject such messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sowctl.arrow.jsoncolumns import Misfit, build_coercion, format_type
from sowctl.arrow.jsontrees import TreeReader, Unreadable, read_digits
from sowctl.arrow.struct_decoder import StructDecoder

if TYPE_CHECKING:
    import pyarrow

_MAX_SHOWN_CHARACTERS = 60
"""Maximum characters of a value in the reason."""


class TypeChecker:
    """Checks JSON views against one struct type. Undeclared and missing members and nulls are accepted.

    A number that a DECIMAL rounds fits. Not thread-safe.
    """

    def __init__(self, struct: pyarrow.StructType) -> None:
        self._trees = TreeReader()
        self._check = _make_check(struct)
        # A type whose values are all decoded at once shows thereby whether they fit; of dates, decimals and bytes it
        # keeps the text, which is checked one by one.
        self._at_once = StructDecoder(struct) if _is_plain(struct) else None

    def find_misfits(self, views: Sequence[bytes | None]) -> dict[int, str]:
        """The indexes of the messages that do not fit, with the reason; None is no message and fits."""
        # The usual batch: nothing in it needs a further check.
        if self._at_once is not None and None not in views:
            every = [view for view in views if view is not None]
            if self._at_once.decode_at_once(every) is not None:
                return {}
        found = {}
        for place, view in enumerate(views):
            if view is not None and (why := self._find_reason(view)) is not None:
                found[place] = why
        return found

    def _find_reason(self, view: bytes) -> str | None:
        try:
            value = self._trees.read_tree(view)
        except Unreadable:
            return "it cannot be read"
        if not isinstance(value, dict):
            return "it is not an object"
        try:
            self._check(value)
        except Misfit as problem:
            return f"field {'/'.join(problem.names)}: {problem.what}" if problem.names else problem.what
        return None


def _is_plain(kind: pyarrow.DataType) -> bool:
    """True if a typed decoder reads every value of the type itself."""
    import pyarrow.types as t

    if t.is_nested(kind):
        return all(_is_plain(kind.field(place).type) for place in range(kind.num_fields))
    # A text accepts any value, so a number in its place is no misfit; it only costs the further check.
    return bool(t.is_integer(kind) or t.is_floating(kind) or t.is_boolean(kind) or t.is_string(kind))


def _make_check(kind: pyarrow.DataType) -> Callable[[Any], None]:
    """Return a check that raises :class:`Misfit` for a value that does not fit."""
    import pyarrow.types as t

    if t.is_struct(kind):
        return _make_member_check([(field.name, _make_check(field.type)) for field in kind], kind)
    if t.is_list(kind):
        return _make_item_check(_make_check(kind.value_type), list, kind)
    if t.is_map(kind):
        return _make_item_check(_make_check(kind.item_type), dict, kind)
    coerce = build_coercion(kind)

    def value_fits(value: Any) -> None:
        if value is not None and coerce(value) is None:
            raise Misfit(f"{_shorten_value(value)} is not of type {format_type(kind)}")

    return value_fits


def _make_member_check(
    members: list[tuple[str, Callable[[Any], None]]], kind: pyarrow.DataType
) -> Callable[[Any], None]:
    def fits(value: Any) -> None:
        if value is None:
            return
        if not isinstance(value, dict):
            raise Misfit(f"{_shorten_value(value)} is not an object")
        for name, check in members:
            try:
                check(value.get(name))
            except Misfit as problem:
                problem.names.insert(0, name)
                raise

    return fits


def _make_item_check(
    check: Callable[[Any], None], container: type[list[Any]] | type[dict[str, Any]], kind: pyarrow.DataType
) -> Callable[[Any], None]:
    def fits(value: Any) -> None:
        if value is None:
            return
        if not isinstance(value, container):
            raise Misfit(f"{_shorten_value(value)} is not of type {format_type(kind)}")
        items: Iterable[Any] = value.values() if isinstance(value, dict) else value
        for item in items:
            check(item)

    return fits


def _shorten_value(value: Any) -> str:
    from msgspec import Raw
    from msgspec.json import encode

    text = read_digits(value) if isinstance(value, Raw) else encode(value).decode(errors="replace")
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else text[:_MAX_SHOWN_CHARACTERS] + "..."
