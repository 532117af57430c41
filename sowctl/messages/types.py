"""The table of message types, read by :func:`get_type`. A type's module is imported on first use of the type.

A new type is a class (:mod:`sowctl.messages.base` describes its members) and a row here: sufficient for publish, query
and eval (``tests/messages/test_new_type.py``). To be complete it also needs

* its name in ``FIELDLESS_TYPES`` or ``UNCONSTRUCTIBLE_TYPES`` if it has no fields, or messages cannot be built from
  them;
* a sample in ``tests/support/messagetypes.py``, with which every law of message types is tested;
* its name in ``test_text_types_are_lines_where_no_framing_is_given`` if its messages are lines;
* a line in the table and a section in ``man/sowctl-messages.7``;
* if it consists of tags and an equals sign: its name in ``equals_sign`` of ``config/rules/messagetypes.py``.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

from sowctl.errors import ConfigError
from sowctl.messages.base import MAX_MESSAGE_BYTES, UNKNOWN_TYPE, MessageType
from sowctl.messages.definition import TypeDefinition

MESSAGE_TYPES: dict[str, tuple[str, str]] = {
    "fix": ("sowctl.messages.tagged.fix", "FixType"),
    "nvfix": ("sowctl.messages.tagged.nvfix", "NvfixType"),
    "json": ("sowctl.messages.json.type", "JsonType"),
    "bflat": ("sowctl.messages.tagged.bflat", "BflatType"),
    "binary": ("sowctl.messages.fixed.binary", "BinaryType"),
    "bson": ("sowctl.messages.nested.bson", "BsonType"),
    "xml": ("sowctl.messages.xml.type", "XmlType"),
    "msgpack": ("sowctl.messages.nested.msgpack", "MsgpackType"),
}
"""Name in configurations, module, class. A class is called with the maximum message size in bytes and, as
``definition``, its :class:`TypeDefinition` or None."""

DEFINED_TYPES: dict[str, tuple[str, str]] = {
    "composite-local": ("sowctl.messages.composite.localtype", "CompositeLocalType"),
    "composite-global": ("sowctl.messages.composite.globaltype", "CompositeGlobalType"),
    "protobuf": ("sowctl.messages.proto.type", "ProtobufType"),
    "struct": ("sowctl.messages.fixed.struct", "StructType"),
}
"""Name, module and class of types that exist only with a definition: as a Module of MessageTypes/MessageType."""
COMPOSITE_TYPES = frozenset({"composite-local", "composite-global"})
"""Types whose messages consist of messages of other types: their classes are also called with ``parts``, the types of
the parts, so that no type depends on this table."""

FIELDLESS_TYPES = frozenset({"binary"})
"""Types that are not ``filterable``: listed here because a configuration is checked before any class is imported."""
UNCONSTRUCTIBLE_TYPES = frozenset({"binary", "composite-global", "protobuf", "struct"})
"""Types that are not ``constructible``, for the same checks; a test compares both with the classes."""


def list_type_names() -> Sequence[str]:
    """The names of all message types that need no definition, in the order of the table."""
    return tuple(MESSAGE_TYPES)


def get_type(name: str | TypeDefinition, *, max_message: int = MAX_MESSAGE_BYTES) -> MessageType:
    """The message type ``name``, or the defined one, refusing messages above ``max_message`` bytes.

    Raises :class:`~sowctl.errors.ConfigError` ``SOW-MSG-006`` for a name that is not in the table, ``SOW-MSG-007`` for
    an unusable definition.
    """
    return _make_type(name, max_message)


def choose_framing(kind: str) -> str:
    """The default framing of messages of a kind of message type: ``lines``, ``json`` or ``length``."""
    if kind == "json":
        return "json"
    return "lines" if _load_class(MESSAGE_TYPES.get(kind) or DEFINED_TYPES[kind]).line_framed else "length"


# Cached by name or definition and limit: types have no state of a batch, so one serves all callers.
@lru_cache(maxsize=64)
def _make_type(name: str | TypeDefinition, max_message: int) -> MessageType:
    kind = name if isinstance(name, str) else name.kind
    row = MESSAGE_TYPES.get(kind)
    if row is None and not isinstance(name, str):
        row = DEFINED_TYPES.get(kind)
    if row is None:
        raise _build_unknown_type_error(name)
    made = _load_class(row)
    if isinstance(name, str):
        return cast(MessageType, made(max_message, definition=None))
    if kind in COMPOSITE_TYPES:
        parts = [_make_part_type(part, name, max_message) for part in name.parts]
        return cast(MessageType, made(max_message, definition=name, parts=parts))
    return cast(MessageType, made(max_message, definition=name))


def _make_part_type(part: TypeDefinition, whole: TypeDefinition, max_message: int) -> MessageType:
    """The type of one part of a composite type's messages. Raises ConfigError at the place of the composite type."""
    # A part with settings of its own needs its definition; any other is the built-in type of that name.
    plain = part == TypeDefinition(part.kind, part.kind)
    try:
        return get_type(part.kind if plain else part, max_message=max_message)
    except ConfigError as problem:
        # An error that already has a place keeps it; any other gets that of the composite type.
        if problem.place is not None:
            raise
        words = f"message type {whole.name!r}: {problem.message}"
        raise ConfigError(problem.code, words, place=whole.place or None, hint=problem.hint) from None


def _load_class(row: tuple[str, str]) -> Any:
    """The class of a row. Its constructor is not part of the protocol, which describes the object: hence Any."""
    return getattr(importlib.import_module(row[0]), row[1])


def _build_unknown_type_error(name: str | TypeDefinition) -> ConfigError:
    if not isinstance(name, str):
        words = f"cannot load the module {name.kind!r} of message type {name.name!r}"
        known = (*MESSAGE_TYPES, *DEFINED_TYPES)
        return ConfigError(UNKNOWN_TYPE, words, place=name.place or None, hint="modules: " + ", ".join(known))
    if name in DEFINED_TYPES:
        words = f"message type {name!r} exists only with a definition"
        return ConfigError(UNKNOWN_TYPE, words, hint="add a MessageType with this Module to MessageTypes")
    return ConfigError(UNKNOWN_TYPE, f"unknown message type {name!r}", hint=_type_hint(name), known=list_type_names())


def _type_hint(name: str) -> str:
    from difflib import get_close_matches

    small = name.lower()
    near = [small] if small in MESSAGE_TYPES else get_close_matches(small, MESSAGE_TYPES, n=3, cutoff=0.6)
    known = "message types: " + ", ".join(MESSAGE_TYPES)
    return f"did you mean {' or '.join(near)}? {known}" if near else known
