"""Declarations of options and operands: spelling, help, unit and bounds, written at the field that holds the value.

A Struct of options annotates its fields ``Annotated[type, Option(...)]`` or ``Annotated[type, Argument(...)]``; a field
whose type is another Struct of options is a part, whose options belong to the command, too. The command line, help,
manual pages and completion use these declarations (``cli/parsing``), and so do AMPS option texts; the Python API has
the same fields as keywords. A field without a declaration is only for programs.

The type determines the shape: ``bool`` is a flag (with the default True, one that switches off), ``int`` a whole number
or a counted flag, ``str`` a text, a Literal one of its words, ``list[str]`` or ``tuple[str, ...]`` a repeatable option
or the last operands.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

from msgspec import Struct

from sowctl.values.units import MAX_COUNT

Completion: TypeAlias = Literal[
    "file", "directory", "store", "page", "function", "message type", "code",
    "target", "stored", "published", "topic", "view", "conflated", "queue", "",
]  # fmt: skip
"""The candidates that a completion script offers for a value: names of files or directories, ``.sow`` files, words of a
table, or names of a configuration (:data:`COMPLETED_KINDS`)."""
COMPLETED_KINDS: dict[str, tuple[str, ...]] = {
    "target": ("topic", "view", "conflated", "queue"),
    "stored": ("topic",),
    "published": ("topic", "queue"),
    "topic": ("topic",),
    "view": ("view",),
    "conflated": ("conflated",),
    "queue": ("queue",),
}
"""By kind of value, the entries of a configuration whose names complete it."""
STORE_COMPLETIONS = ("target", "stored")
"""Kinds of values for which ``.sow`` files are offered in addition to names."""
_PATH_METAVARS: dict[str, Completion] = {"FILE": "file", "DIR": "directory"}
Unit: TypeAlias = Literal["", "seconds", "bytes", "keys", "paths"]
"""The conversion of a value: an interval such as ``5m`` to seconds, a size such as ``64MB`` to bytes, a list with
commas to SOW keys or paths. Empty: the text itself, or a whole number."""


DOCUMENT = "document"
"""The value of an option for formats that ``--json`` sets if json alone means lines."""


class Option(Struct, frozen=True):
    """One option: its spellings, its help, its metavar, and its values.

    A whole number is between ``minimum`` and ``maximum``, inclusive. ``option_text``: its name in an AMPS option text.
    ``old_names``: former spellings, which still work. ``document``: the choice json prints lines, so that ``--json``,
    which prints one document, sets the value :data:`DOCUMENT`. ``operand``: the name of the value as the last operand
    of a command whose other operands are all required; there it is equivalent to the option. After repeated operands,
    the last one is this value if it looks like a filter and not like a name.
    """

    names: tuple[str, ...]
    help: str
    metavar: str = "TEXT"
    choices: tuple[str, ...] = ()
    minimum: int = 0
    maximum: int = MAX_COUNT
    counted: bool = False
    complete: Completion = ""
    panel: str = "Options"
    unit: Unit = ""
    option_text: str = ""
    operand: str = ""
    old_names: tuple[str, ...] = ()
    document: bool = False

    @property
    def spellings(self) -> tuple[str, ...]:
        """All accepted spellings."""
        return self.names + self.old_names


class Argument(Struct, frozen=True):
    """One operand. ``comes_first``: it is optional, but required if the operand of an option follows it."""

    metavar: str
    help: str
    choices: tuple[str, ...] = ()
    complete: Completion = ""
    unit: Unit = ""
    comes_first: bool = False


class Part(Struct, frozen=True):
    """The options of a Struct that a command has, by the names of its fields; the others keep their defaults."""

    fields: tuple[str, ...]


class DeclaredField(Struct, frozen=True):
    """A field of a Struct of options: its type without ``None``, and its declaration."""

    name: str
    base: Any
    declared: Option | Argument | Part | None


def declare_option(*names: str, help: str, **more: Any) -> Option:
    """Return an option with its spellings first: ``declare_option("--filter", "-f", help="...", metavar="EXPR")``.

    A value with the metavar FILE or DIR is completed as such.
    """
    more.setdefault("complete", _PATH_METAVARS.get(more.get("metavar", ""), ""))
    return Option(names, help, **more)


def declare_part(*fields: str) -> Part:
    """Return the declaration of a part with only these options of its Struct."""
    return Part(fields)


def read_annotation(kind: type[Struct], name: str) -> Any:
    """Return the annotation of a field of the class or one of its bases, evaluated in the module of its class.

    Raises KeyError for an unknown field, NameError for a name that is imported only for type checkers.
    """
    # Evaluated here: evaluation by inspect and typing would take 5 ms of every start.
    for base in kind.__mro__:
        text = base.__dict__.get("__annotations__", {}).get(name)  # noqa: RUF063  # importing inspect takes longer
        if text is not None:
            return eval(text, vars(sys.modules[base.__module__])) if isinstance(text, str) else text
    raise KeyError(name)


def iterate_fields(kind: type[Struct], only: Sequence[str] | None = None) -> Iterator[DeclaredField]:
    """Yield the fields of a Struct in order, or ``only`` these in their order, with their declarations."""
    for name in kind.__struct_fields__ if only is None else only:
        annotation, declared = read_annotation(kind, name), None
        if get_origin(annotation) is Annotated:
            annotation, declared = get_args(annotation)
        # ``X | None`` means that the option is optional; the value itself is an X.
        if get_origin(annotation) in (UnionType, Union):
            annotation = next(part for part in get_args(annotation) if part is not type(None))
        yield DeclaredField(name, annotation, declared)


def list_option_texts(kind: type[Struct]) -> dict[str, DeclaredField]:
    """Return the fields of a Struct that an AMPS option text may name, by these names."""
    return {
        field.declared.option_text: field
        for field in iterate_fields(kind)
        if isinstance(field.declared, Option) and field.declared.option_text
    }


def list_given_options(options: Struct) -> list[str]:
    """Return the spellings of the options in a Struct whose values differ from their defaults."""
    plain = type(options)()
    return [
        field.declared.names[0]
        for field in iterate_fields(type(options))
        if isinstance(field.declared, Option) and getattr(options, field.name) != getattr(plain, field.name)
    ]
