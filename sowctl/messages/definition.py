"""A message type defined in a configuration, as plain values that can be pickled (``sow-config(5)``, MessageTypes)."""

from __future__ import annotations

from msgspec import Struct


class TypeDefinition(Struct, frozen=True):
    """A message type by the name that a configuration gives it; ``kind`` is a name of the table of types.

    ``field_separator``: of fix and nvfix; ``first_wins``: for duplicate json members; ``parts``: of composite types;
    ``fields``: the texts of a struct's fields; ``proto_type``, ``proto_file``, ``proto_paths``: of protobuf, the texts
    as written; ``directory``: the base of relative paths.
    """

    name: str
    kind: str
    field_separator: bytes = b"\x01"
    first_wins: bool = True
    parts: tuple[TypeDefinition, ...] = ()
    fields: tuple[str, ...] = ()
    proto_type: str = ""
    proto_file: str = ""
    proto_paths: tuple[str, ...] = ()
    directory: str = "."
    tag_names: bool = False
    """Whether a view of a fix message has names instead of the standard's common tags."""
    place: str = ""
    """Its place in the configuration, for error messages."""
