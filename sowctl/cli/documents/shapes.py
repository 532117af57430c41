"""JSON objects as Structs: results of :func:`sowctl.output.reports.as_dict` for reports, and rows of other builders.

A Struct here rejects unknown members, so decoding an output with it proves the declaration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from types import UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

from msgspec import UNSET, Meta, Struct, UnsetType, defstruct

from sowctl.cli.documents.meanings import MEANINGS
from sowctl.declarations import read_annotation
from sowctl.remote.place import RemotePath

Form: TypeAlias = Literal["object", "array", "lines"]


class Document(Struct, frozen=True):
    """The output of a command: one ``object``, one ``array`` of ``element``, or ``lines`` with one ``element`` each.

    ``condition``: the options with which it is printed, empty for the usual document. ``text`` describes an element
    that is no object of this program, such as a message.
    """

    form: Form
    element: Any
    condition: str = ""
    text: str = ""


def derive_object(report: type[Struct], **changes: Any) -> type[Struct]:
    """Return the Struct of a report as JSON, in which paths become texts and tuples arrays.

    ``changes`` are the types of members that differ from their fields, such as times, or that the report does not have;
    None removes a member.
    """
    members = {}
    # Names imported only for types cannot be evaluated, so the types of such fields are among the changes.
    for name in report.__struct_fields__:
        found = changes.pop(name) if name in changes else _convert_hint(read_annotation(report, name))
        if found is not None:
            members[name] = found
    return declare_object(report.__name__, **members, **changes)


def declare_object(title: str, /, **members: Any) -> type[Struct]:
    """Return the Struct of an object with these members, each with its meaning."""
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for name, kind in members.items():
        described = kind
        if name in MEANINGS and get_origin(kind) is not Annotated:
            described = describe(kind, MEANINGS[name])
        fields.append((name, described, UNSET) if _may_be_absent(kind) else (name, described))
    return defstruct(title, fields, forbid_unknown_fields=True, kw_only=True, frozen=True)


def describe(kind: Any, meaning: str) -> Any:
    """Return a type with its meaning in one document, if the name alone has another meaning or none."""
    return Annotated[kind, Meta(description=meaning)]


def _may_be_absent(kind: Any) -> bool:
    inner = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    return UnsetType in get_args(inner)


def _convert_hint(hint: Any) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (UnionType, Union):
        return Union[tuple(map(_convert_hint, arguments))]  # noqa: UP007  # built from a list
    if origin in (list, tuple, set, frozenset, Sequence):
        return list[_convert_hint(arguments[0])]  # type: ignore[misc]
    if origin in (dict, Mapping):
        return dict[str, _convert_hint(arguments[1])]  # type: ignore[misc]
    if isinstance(hint, type) and issubclass(hint, PurePath | RemotePath | bytes):
        return str
    if isinstance(hint, type) and issubclass(hint, Struct):
        return derive_object(hint)
    return hint
