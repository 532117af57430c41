"""MessageTypes of a configuration as definitions for the message types (``sow-config(5)``, MessageTypes)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sowctl.config.model import MessageTypeConfig
from sowctl.messages.definition import TypeDefinition


def definitions(types: Sequence[MessageTypeConfig], root: Path) -> dict[str, TypeDefinition]:
    """The definitions by name; the parts of composite types refer to earlier ones, then to built-in ones.

    Values of wrong kinds were refused before.
    """
    found: dict[str, TypeDefinition] = {}
    for given in types:
        found[given.name] = _definition(given, found, root)
    return found


def _definition(given: MessageTypeConfig, earlier: Mapping[str, TypeDefinition], root: Path) -> TypeDefinition:
    settings = given.settings
    parts = settings.get("MessageType", ())
    return TypeDefinition(
        name=given.name,
        kind=given.module,
        field_separator=bytes([int(_first(settings, "FieldSeparator", "1"))]),
        first_wins=_first(settings, "EarlyTerminationOptimization", "true").lower() not in ("false", "disabled"),
        parts=tuple(earlier.get(part) or TypeDefinition(part, part) for part in parts),
        fields=settings.get("Field", ()),
        proto_type=_first(settings, "Type", ""),
        proto_file=_first(settings, "ProtoFile", ""),
        proto_paths=settings.get("ProtoPath", ()),
        directory=str(root),
        place=str(given.place),
    )


def _first(settings: Mapping[str, tuple[str, ...]], tag: str, default: str) -> str:
    texts = settings.get(tag)
    return texts[0] if texts else default
