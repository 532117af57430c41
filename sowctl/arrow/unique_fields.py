"""The proof that no declared field occurs twice in the objects of JSON messages, over many messages at once.

Called by :mod:`sowctl.arrow.struct_decoder`. The messages are JSON: a typed decoder has read them, using the last of
duplicate members. If it has skipped none, members are counted, as :mod:`sowctl.values.unique_members` does for whole
trees: here the marks of names, while arrays are built the members found. Otherwise, and if texts contain marks of
names, a pattern that follows the declared type checks only the names: each declared one is recorded when it occurs, and
does not match the second time. Names with a backslash, which may have another spelling, do not match either.

Orders of 220 bytes with 11 members take 0.3 us of CPU each if two are declared, and 0.35 if all are. Counting the names
in their bytes takes 0.25 us for each name; decoding a whole message and counting its members 2.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sowctl import pcre
from sowctl.messages.json.template import escape_pattern

if TYPE_CHECKING:
    import pyarrow

_SPACE = rb"[ \t\r\n]*+"
_COLON = rb"[ \t\r\n]*+:[ \t\r\n]*+"
_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_VALUE = rb"(?:%b|[^\"\[\]{},\x00]++|(?&any))" % _STRING
"""Any value, with the white space after a number or word."""
_ANY_CONTAINER = rb"(?<any>[\[{](?:[^\"\[\]{}]++|%b|(?&any))*+[\]}])" % _STRING
_MAX_MAP_MEMBERS = 32
"""Maximum number of members of an object whose names are data. Each is compared with all later ones: quadratic time."""


_MAX_GROUPS = 100
"""Maximum number of fields and objects of a type with a pattern. The engine maintains all groups for each member: 50
fields take 3 us per message, 200 take 40, and decoding such messages completely and counting their members 17."""


def count_name_marks(text: bytes) -> int | None:
    """The maximum number of members of JSON messages; None if white space precedes some colon.

    As :func:`sowctl.values.unique_members.count_marks`, in a quarter of its time.
    """
    import numpy as np

    characters = np.frombuffer(text, np.uint8)
    # A colon is never the first character of JSON.
    before = characters[np.flatnonzero(characters == 0x3A) - 1]
    return None if (before <= 0x20).any() else int(np.count_nonzero(before == 0x22))


class FieldProof:
    """Proves that messages have each declared field of a struct, and each member of a map, only once.

    Nothing is proved if patterns cannot be compiled to machine code, or the type has too many fields for one.
    """

    def __init__(self, kind: pyarrow.StructType) -> None:
        self._kind = kind
        self._groups = 0
        self._objects: list[bytes] = []
        self._code: Any = None
        self._is_compiled = False

    def has_unique_fields(self, messages: Sequence[bytes]) -> bool:
        """Return True if certainly none of some JSON messages has a declared field twice in an object."""
        # Usually templates read all messages, and no pattern is needed.
        if not self._is_compiled:
            self._compile()
        if self._code is None:
            return False
        try:
            # Each match is one message, and begins at the end of the previous one. No message contains a zero byte.
            found = pcre.substitute_all(self._code, b"x", b"\0".join([*messages, b""]))
        except pcre.LibraryError:
            return False
        return len(found) == len(messages)

    def _compile(self) -> None:
        self._is_compiled = True
        try:
            root = self._add_struct(self._kind)
            if self._groups > _MAX_GROUPS:
                return
            defined = b"".join([_ANY_CONTAINER, *self._objects])
            code = pcre.compile_code(rb"(?s)(?(DEFINE)%b)\G%b%b%b\x00" % (defined, _SPACE, root, _SPACE))
            pcre.compile_machine_code(code)
        except (pcre.PatternError, pcre.LibraryError, RecursionError):
            return
        self._code = code

    def _add_struct(self, kind: pyarrow.StructType) -> bytes:
        """Define the pattern of an object with these fields; return the reference to it."""
        parts, names = [], []
        for field in kind:
            self._groups += 1
            seen, start = b"g%d" % self._groups, rb'%b"' % escape_pattern(field.name.encode())
            value = self._build_value(field.type)
            # The group is set if the name has occurred. It is set within one reference to the object's pattern, and
            # restored after it: each object has its own.
            parts.append(rb"%b(?(<%b>)(*F)|(?<%b>))%b%b" % (start, seen, seen, _COLON, value))
            names.append(start)
        # A declared name must not match as another one, even if it has occurred before.
        others = rb"(?!%b)" % b"|".join(names) if names else b""
        parts.append(rb'%b[^"\\]*+"%b%b' % (others, _COLON, _VALUE))
        self._groups += 1
        name = b"o%d" % self._groups
        member = rb'"(?>%b)%b(?:,%b)?+' % (b"|".join(parts), _SPACE, _SPACE)
        self._objects.append(rb"(?<%b>\{%b(?:%b)*+\})" % (name, _SPACE, member))
        return rb"(?&%b)" % name

    def _add_map(self, kind: pyarrow.DataType) -> bytes:
        """Define the pattern of an object whose names are data; return the reference to it."""
        value = self._build_value(kind.item_type)
        self._groups += 1
        name, own = b"m%d" % self._groups, b"n%d" % self._groups
        behind = rb"(?!(?:,%b%b%b%b%b)*?,%b\k<%b>%b:)" % (_SPACE, _STRING, _COLON, _VALUE, _SPACE, _SPACE, own, _SPACE)
        member = rb'(?<%b>"[^"\\]*+")%b%b%b%b(?:,%b)?+' % (own, _COLON, value, _SPACE, behind, _SPACE)
        self._objects.append(rb"(?<%b>\{%b(?:%b){0,%d}+\})" % (name, _SPACE, member, _MAX_MAP_MEMBERS))
        return rb"(?&%b)" % name

    def _build_value(self, kind: pyarrow.DataType) -> bytes:
        """The pattern of a value of this type, or of another value in its place."""
        import pyarrow.types as t

        if t.is_struct(kind):
            return rb"(?:%b|(?!\{)%b)" % (self._add_struct(kind), _VALUE)
        if t.is_map(kind):
            return rb"(?:%b|(?!\{)%b)" % (self._add_map(kind), _VALUE)
        if t.is_list(kind):
            item = self._build_value(kind.value_type)
            return rb"(?:\[%b(?:%b%b(?:,%b)?+)*+\]|(?!\[)%b)" % (_SPACE, item, _SPACE, _SPACE, _VALUE)
        return _VALUE
