"""Messages that are a sequence of tagged fields (fix, nvfix, bflat): delta merge, writes and select lists.

A field is its bytes and its tag; several fields of one tag are an array. All fields that an operation does not touch
keep their bytes and their places, including pieces that are no fields (``tag`` None).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from sowctl.errors import UsageError
from sowctl.messages.base import NO_SUCH_FIELD, ListRefused, SelectList, Tree
from sowctl.values.fields import Scalar


class TaggedField(Struct, frozen=True):
    """One field: its tag, its bytes in the message, and whether its value is NULL."""

    tag: bytes | None
    raw: bytes
    null: bool


def merge_fields(
    base: Sequence[TaggedField], delta: Sequence[TaggedField], *, set_nulls: bool
) -> list[TaggedField] | None:
    """``base`` with the fields of ``delta`` by tag; None if nothing counts. An array is replaced completely."""
    # Several fields of one tag are an array, and a delta replaces an array completely.
    news: dict[bytes, list[TaggedField]] = {}
    for field in delta:
        if field.tag is not None:
            news.setdefault(field.tag, []).append(field)
    # An array counts if any of its values does; then all of them are written, including the NULLs.
    if not set_nulls:
        news = {tag: fields for tag, fields in news.items() if not all(field.null for field in fields)}
    return _replace_fields(base, news) if news else None


def _replace_fields(base: Sequence[TaggedField], news: dict[bytes, list[TaggedField]]) -> list[TaggedField]:
    """Put the fields of each tag in the place of the first old one, else at the end."""
    result: list[TaggedField] = []
    written: set[bytes] = set()
    for field in base:
        if field.tag is None or field.tag not in news:
            result.append(field)
        # The first field of the tag marks the place; the others of the same tag are removed.
        elif field.tag not in written:
            written.add(field.tag)
            result.extend(news[field.tag])
    # New tags are appended, in the order of the delta.
    for tag, fields in news.items():
        if tag not in written:
            result.extend(fields)
    return result


def assign_fields(
    fields: Sequence[TaggedField], writes: Sequence[tuple[bytes, TaggedField | None]]
) -> list[TaggedField]:
    """``fields`` after writes in order, each with the only field of its tag, or None for a removal."""
    result = list(fields)
    for tag, new in writes:
        result = _replace_fields(result, {tag: [] if new is None else [new]})
    return result


def select_fields(
    fields: Sequence[TaggedField], select_list: SelectList, keeps: Callable[[bytes], str]
) -> list[TaggedField]:
    """Select fields by a select list; ``keeps`` returns the name of a tag. Pieces that are no fields are kept only if
    the root is.
    """
    # A path of several steps names nothing in a flat message and is ignored; the directive without names applies to
    # the root.
    default = next((include for include, names in select_list if not names), None)
    named: dict[str, bool] = {}
    for include, names in select_list:
        if len(names) == 1:
            named.setdefault(names[0], include)
    everything = default is None or default
    return [field for field in fields if (everything if field.tag is None else named.get(keeps(field.tag), everything))]


def collect_repeated(tree: Tree, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Sequence[Scalar]]]:
    """Yield the path and the values of each field of a tree: those of a list in its order; None is a field without a
    value, and nothing in an object.

    Raises ListRefused for a list in a list, and for a list with objects.
    """
    for name, value in tree.items():
        path = (*above, name)
        if isinstance(value, dict):
            yield from collect_repeated(value, path)
        elif isinstance(value, list):
            if any(isinstance(one, dict | list) for one in value):
                raise ListRefused(path)
            yield path, value
        elif value is not None or not above:
            yield path, (value,)


def require_tag(names: Sequence[str], message_type: str) -> bytes:
    """The tag that a destination names. Raises UsageError ``SOW-MSG-008`` if it has more than one step."""
    if len(names) != 1:
        words = f"messages of type {message_type} are flat: there is no field /{'/'.join(names)} to write"
        raise UsageError(NO_SUCH_FIELD, words, hint="use a destination of one step")
    return names[0].encode()
