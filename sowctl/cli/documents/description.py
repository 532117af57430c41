"""A document in words and as JSON Schema."""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Meta, Struct, UnsetType
from msgspec.json import schema

from sowctl.cli.documents.shapes import Document

_TYPE_WORDS = {str: "text", int: "integer", float: "number", bool: "true or false", NoneType: "null", Any: "any value"}


class Member(Struct, frozen=True):
    """One member of an object: its name, with ``[]`` for elements of arrays and ``.`` for nested members."""

    name: str
    type_text: str
    meaning: str


def build_json_schema(document: Document) -> dict[str, Any]:
    """Return the JSON Schema of a document; for lines, that of each line."""
    if document.form == "array":
        return schema(list[document.element])  # type: ignore[name-defined]  # a type that is made at run time
    return schema(document.element)


def iterate_members(kind: Any, front: str = "") -> Iterator[Member]:
    """Yield the members of an object, each followed by the members of its value."""
    if not (isinstance(kind, type) and issubclass(kind, Struct)):
        return
    hints = get_type_hints(kind, include_extras=True)
    for name in kind.__struct_fields__:
        hint, meaning = hints[name], ""
        if get_origin(hint) is Annotated:
            hint, *metas = get_args(hint)
            meaning = next((one.description or "" for one in metas if isinstance(one, Meta)), "")
        yield Member(front + name, format_type(hint), meaning)
        inner, mark = _find_inner(hint)
        yield from iterate_members(inner, f"{front}{name}{mark}.")


def format_type(hint: Any) -> str:
    """Return a type in words: ``text or null``, ``array of objects``."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (UnionType, Union):
        words = [format_type(one) for one in arguments if one is not UnsetType]
        return " or ".join(words) + (", or absent" if UnsetType in arguments else "")
    if origin is Literal:
        return " or ".join(str(one) for one in arguments)
    if origin is list:
        return f"array of {_format_plural(arguments[0])}"
    if origin is dict:
        return f"object with {_format_plural(arguments[1])}"
    return _TYPE_WORDS.get(hint, "object")


def _format_plural(hint: Any) -> str:
    plurals = {str: "texts", int: "integers", float: "numbers", Any: "any values"}
    if get_origin(hint) is list:
        return f"arrays of {_format_plural(get_args(hint)[0])}"
    if get_origin(hint) in (UnionType, Union):
        return " or ".join(_format_plural(one) if one is not NoneType else "null" for one in get_args(hint))
    return plurals.get(hint, "objects")


def _find_inner(hint: Any) -> tuple[Any, str]:
    """Return the object within a type, and ``[]`` if it is an element of an array."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (UnionType, Union):
        inner = [found for found in map(_find_inner, arguments) if isinstance(found[0], type)]
        structs = [found for found in inner if issubclass(found[0], Struct)]
        return structs[0] if structs else (None, "")
    if origin is list:
        return _find_inner(arguments[0])[0], "[]"
    return hint, ""
