"""The table of message types. Whoever needs one asks :func:`get_type`; modules load when they are first asked for."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import cast

from sowctl.errors import ConfigError
from sowctl.messages.base import MAX_MESSAGE, UNKNOWN_TYPE, MessageType

MESSAGE_TYPES: dict[str, tuple[str, str]] = {
    "json": ("sowctl.messages.jsontype", "JsonType"),
    "binary": ("sowctl.messages.binarytype", "BinaryType"),
}
"""Name as configurations write it, module, class. A class is called with the largest message size in bytes."""


def type_names() -> Sequence[str]:
    """The names of all message types, in the order of the table."""
    return tuple(MESSAGE_TYPES)


def get_type(name: str, *, max_message: int = MAX_MESSAGE) -> MessageType:
    """The message type ``name``, refusing messages above ``max_message`` bytes.

    Raises :class:`~sowctl.errors.ConfigError` ``SOW-MSG-006`` for a name that is not in the table.
    """
    if name not in MESSAGE_TYPES:
        raise ConfigError(UNKNOWN_TYPE, f"there is no message type {name!r}", hint=_hint(name), known=type_names())
    module, kind = MESSAGE_TYPES[name]
    return cast(MessageType, getattr(importlib.import_module(module), kind)(max_message))


def _hint(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name.lower(), MESSAGE_TYPES, n=3, cutoff=0.6)
    known = "known types: " + ", ".join(MESSAGE_TYPES)
    return f"did you mean {' or '.join(near)}? {known}" if near else known
