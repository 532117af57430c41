"""The JSON Schema (draft 2020-12) of profiled messages, which matches all of them.

Called by the command ``schema``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sowctl.engine.profile.path_profile import PathProfile

DIALECT_URL = "https://json-schema.org/draft/2020-12/schema"


def build_json_schema(root: PathProfile, title: str) -> dict[str, Any]:
    """Return the schema of the messages below ``root``. A member is required if no object lacks it."""
    return {"$schema": DIALECT_URL, "title": title, **_build_path_schema(root)}


def _build_path_schema(shape: PathProfile) -> dict[str, Any]:
    types = [name for name, count in shape.types.items() if count]
    if "integer" in types and "number" in types:
        # In JSON Schema, a number may be an integer.
        types.remove("integer")
    # Bytes without fields are represented as Base64 text.
    if "bytes" in types:
        return {"type": "string", "contentEncoding": "base64"}
    found: dict[str, Any] = {"type": types[0] if len(types) == 1 else types} if types else {}
    if shape.members:
        found["properties"] = {name: _build_path_schema(member) for name, member in shape.members.items()}
        required = [name for name, member in shape.members.items() if not member.missing_count]
        if required:
            found["required"] = required
    if shape.elements is not None:
        found["items"] = _build_path_schema(shape.elements)
    return found
