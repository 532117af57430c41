"""The contract between message types and expressions: which fields are requested, and which values are returned.

A :class:`Slot` requests one path. A message type answers a batch of payloads with one tuple per payload, a value per
slot. The cheap answer is a plain Python value; only what a plain value cannot express has a class of its own:

===================================  =================================================================================
slot value                           meaning
===================================  =================================================================================
``None``                             NULL or absent; no container was dropped (only if ``listed`` is false)
``bool``, ``int``, ``float``         that value; ``int`` within -2**63 .. 2**64-1
``str`` or ``bytes``                 a String: the same bytes either way; ``str`` is always encodable as UTF-8.
                                     The empty string is NULL everywhere (``values/scalars.py``)
:class:`Number`                      a number with its original text, if the slot requested text; ``typed``: whether
                                     the format distinguishes numbers from texts
:class:`ValueList`                   a value list of several values, or any list if ``listed`` is true, or a
                                     list from which non-empty objects were dropped
===================================  =================================================================================
"""

from __future__ import annotations

from typing import TypeAlias, final

from msgspec import Struct

from sowctl.values.paths import Path


class Slot(Struct, frozen=True):
    """One requested field. ``text``: numbers keep their original text. ``listed``: the value is always a
    :class:`ValueList`."""

    path: Path
    text: bool = False
    listed: bool = False


@final
class Number:
    """A number in a message and its original text (ASCII, including surrounding space).

    ``typed`` is false for message types without kinds of values (fix, nvfix, xml): the text may be an identifier that
    only looks like a number, and :func:`sowctl.values.scalars.choose_written_scalar` decides how it is written.
    """

    __slots__ = ("text", "typed", "value")

    def __init__(self, value: int | float, text: bytes, typed: bool = True) -> None:
        self.value = value
        self.text = text
        self.typed = typed

    def __repr__(self) -> str:
        return f"Number({self.value!r}, {self.text!r}{'' if self.typed else ', typed=False'})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Number)
            and (self.value, self.text) == (other.value, other.text)
            and self.typed == other.typed
        )

    def __hash__(self) -> int:
        return hash((self.value, self.text))


Scalar: TypeAlias = bool | int | float | str | bytes | Number | None


@final
class ValueList:
    """A value list. ``dropped`` is true if a non-empty object among the values was dropped."""

    __slots__ = ("dropped", "items")

    def __init__(self, items: tuple[Scalar, ...], dropped: bool = False) -> None:
        self.items = items
        self.dropped = dropped

    def __repr__(self) -> str:
        return f"Values({self.items!r}, dropped={self.dropped})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ValueList) and (self.items, self.dropped) == (other.items, other.dropped)

    def __hash__(self) -> int:
        return hash((self.items, self.dropped))


SlotValue: TypeAlias = Scalar | ValueList
Row: TypeAlias = tuple[SlotValue, ...]


class Refusal(Struct, frozen=True):
    """Why one payload of a batch could not be read: its index in the batch, an error code, a message, and the byte
    offset in the payload."""

    index: int
    code: str
    message: str
    offset: int | None = None


class FieldWrite(Struct, frozen=True):
    """One change of one message: ``value`` is written to ``destination``, or that field is removed."""

    destination: Path
    value: SlotValue
    remove: bool = False
