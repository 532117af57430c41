"""The fields of messages while they are read: their types so far, and messages as columns of these types.

The types are those that :mod:`sowctl.arrow.inference` infers from all messages together, but not every message is
examined value by value. A block of messages that fit the types so far as written cannot widen them, once numbers that
no double can represent are ruled out, which decoding does not detect. Every other block is examined completely. Whether
the types hold a block depends only on the block; if they do not, the writer starts again.

For 1,000,000 orders of nine fields (219 bytes each), examining every value takes 4.0 s of CPU time, msgspec and the
columns of its objects (:class:`~sowctl.arrow.struct_decoder.StructDecoder`) 1.3 s, pyarrow's reader of JSON lines 1.35
s and up to 0.5 s to make sure that each line is an object: for a line that is none, it ends the process.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Collection, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

from sowctl.arrow.inference import Inference
from sowctl.arrow.jsoncolumns import Misfit
from sowctl.arrow.jsontrees import TreeReader, Unreadable
from sowctl.arrow.struct_decoder import StructDecoder
from sowctl.values.scalars import MAX_EXACT_INTEGER

if TYPE_CHECKING:
    import pyarrow

_LONG_NUMBER_PATTERNS = (rb"\.[0-9]{8}", rb"(?<=[0-9]{8})\.", rb"(?<=[0-9])[eE](?=[-+0-9])")
"""Patterns, one of which matches every number that is longer than 15 digits and a point, or has an exponent. Each is
searched for separately: searches that begin with one character are several times as fast as one for all of them."""
_NUMBER_PATTERN = re.compile(rb"[:,\[\s](-?(?:[0-9]+\.[0-9]+(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+))(?=[\s,\]}])")

_FieldPath: TypeAlias = "tuple[str | None, ...]"
"""Names of fields from the outermost one; None for the items of an array. A field may have the empty name."""


class FieldTypes:
    """The types of the fields of messages, as far as they were seen.

    ``names``: only members with these names, in lower case; others are skipped.
    """

    def __init__(self, names: Collection[str] | None = None) -> None:
        self._names = None if names is None else sorted(names)
        self._found = Inference(names, exact=True)
        self._taken: pyarrow.StructType | None = None

    @property
    def struct(self) -> pyarrow.StructType:
        """The type that holds all messages seen so far."""
        if self._taken is None:
            self._take_types()
        return self._taken

    @property
    def scalar_fields(self) -> frozenset[str]:
        """The fields whose values are scalars of one kind, as :meth:`Inference.find_scalar_fields`."""
        return self._found.find_scalar_fields()

    def observe_values(self, views: Sequence[bytes], *, repeatable: bool = False) -> bool:
        """Examine every value of some JSON objects; return whether the types changed. Raises LimitError
        ``SOW-SPK-083``.

        Types only become wider. ``repeatable``: fields with one value may be lists of one
        (:attr:`MessageType.repeatable`), in these objects and in all others.
        """
        self._found.repeatable |= repeatable
        self._found.add(views)
        before = self._taken
        if before is None or self._found.build_struct() != before:
            self._take_types()
        return before is not self._taken

    def build_array(self, views: Sequence[bytes], *, repeatable: bool = False) -> pyarrow.StructArray | None:
        """The columns of some JSON objects; None if these do not fit the types, which are wider then.

        The fields of ``struct`` may be followed by others, which are all null.
        """
        if self._taken is None:
            self._take_types()
        plain = views
        if repeatable or self._found.repeatable:
            views = self._decoder.fit_lists(views)
        found = self._read_at_once(views)
        if found is not None:
            return found
        if self.observe_values(plain, repeatable=repeatable):
            return None
        try:
            return self._decoder.decode_views(views)
        except Misfit:
            # Some of them are no objects, or are unreadable.
            views = list(map(wrap_object, views))
        return None if self.observe_values(views) else self._decoder.decode_views(views)

    def _take_types(self) -> None:
        import pyarrow as pa

        self._taken = self._found.build_struct()
        # A name that no message had may be a member of a later one: such a field accepts only null, so that it is
        # detected.
        known = {field.name.lower() for field in self._taken}
        missing = [name for name in self._names or () if name not in known]
        self._others = [_name_pattern(name) for name in missing]
        kind = pa.struct([*self._taken, *((name, pa.null()) for name in missing)])
        self._decoder = StructDecoder(kind, strict=True, partial=self._names is not None, exact=True)
        self._doubles = _find_double_paths(self._taken)

    def _read_at_once(self, views: Sequence[bytes]) -> pyarrow.StructArray | None:
        """The columns of objects that all fit; None for all others, and if a number may not be preserved."""
        joined = b"\n".join(views)
        if any(search.search(joined) for search in self._others):
            return None
        array = self._decoder.decode_at_once(views)
        if array is None or (self._doubles and not self._keeps_numbers(array, joined)):
            return None
        return array

    def _keeps_numbers(self, array: pyarrow.StructArray, joined: bytes) -> bool:
        """True if the columns of doubles preserve the numbers of the messages."""
        import numpy as np

        for path in self._doubles:
            column = _find_column(array, path)
            # A whole number beyond the 53 bits of a double may have been rounded.
            if len(column) and not bool((np.abs(column.to_numpy(zero_copy_only=False)) <= MAX_EXACT_INTEGER).all()):
                return False
        if not any(search.search(joined) for search in _make_searches()):
            return True
        # Few tokens of a block match, or all of one field: each is compared with the text of its double.
        return all(map(_keeps_digits, _NUMBER_PATTERN.findall(joined)))


def wrap_object(view: bytes) -> bytes:
    """A JSON view as an object: another value becomes its member ``data``, an unreadable message ``data_base64``."""
    try:
        tree = TreeReader(exact=True).read_tree(view)
    except Unreadable:
        return b'{"data_base64":"%b"}' % b64encode(view)
    return view if isinstance(tree, dict) else b'{"data":%b}' % view


def _keeps_digits(number: bytes) -> bool:
    nearest = repr(float(number))
    return nearest.encode() == number or (
        nearest not in ("inf", "-inf") and Decimal(nearest) == Decimal(number.decode())
    )


def _name_pattern(name: str) -> Any:
    """Return the pattern that finds a member of this name, ignoring case."""
    import pcre2

    return pcre2.compile(b'(?i)"\\Q%b\\E"\\s*:' % name.encode("utf-8", "replace").replace(b"\\E", b""))


def _make_searches() -> list[Any]:
    global _compiled_searches
    if not _compiled_searches:
        import pcre2

        _compiled_searches = [pcre2.compile(text) for text in _LONG_NUMBER_PATTERNS]
    return _compiled_searches


_compiled_searches: list[Any] = []


def _find_double_paths(kind: pyarrow.DataType, above: _FieldPath = ()) -> list[_FieldPath]:
    import pyarrow.types as t

    if t.is_struct(kind):
        return [path for field in kind for path in _find_double_paths(field.type, (*above, field.name))]
    if t.is_list(kind):
        return _find_double_paths(kind.value_type, (*above, None))
    return [above] if t.is_floating(kind) else []


def _find_column(array: pyarrow.StructArray, path: _FieldPath) -> pyarrow.Array:
    """The values at a path, without NULLs."""
    import pyarrow.compute as pc

    found: pyarrow.Array = array
    for name in path:
        if name is None:
            found = pc.list_flatten(found)
        else:
            found = pc.struct_field(found, [found.type.get_field_index(name)])
    return found.drop_null()


__all__ = ["FieldTypes", "wrap_object"]
