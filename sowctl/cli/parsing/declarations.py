"""Declarations of a command's options and arguments, and how the rest of ``cli`` reads them.

A command is a function ``run(invocation, ...)`` whose parameters are annotated ``Annotated[type, Option(...)]`` or
``Annotated[type, Argument(...)]``. From the one declaration come the Typer application (``application.py``), the quick
reader (``arguments.py``), the man pages and the completion scripts, so none of them can disagree with another about
what a command takes. Declarations are Structs and not Typer's own: most commands start without importing it.

The type says the shape: ``bool`` is a flag, ``int`` a whole number (or a counted flag), ``str`` a text, ``list[str]``
an option that may be repeated or the last operands.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import FunctionType, UnionType
from typing import Any, Literal, TypeAlias, get_args, get_origin

from msgspec import Struct

from sowctl.errors import UsageError
from sowctl.values.units import MAX_COUNT

Shape: TypeAlias = Literal["flag", "count", "number", "text", "texts"]
Completion: TypeAlias = Literal[
    "file", "directory", "store", "page", "function", "message type", "code",
    "target", "stored", "published", "topic", "view", "conflated", "queue", "",
]  # fmt: skip
"""What a completion script offers for a value: names of files or directories, ``.sow`` files, words of a table, or
names of a configuration (:data:`COMPLETED_KINDS`)."""
COMPLETED_KINDS: dict[str, tuple[str, ...]] = {
    "target": ("topic", "view", "conflated", "queue"),
    "stored": ("topic",),
    "published": ("topic", "queue"),
    "topic": ("topic",),
    "view": ("view",),
    "conflated": ("conflated",),
    "queue": ("queue",),
}
"""Which entries of a configuration have the names that complete a value."""
STORE_COMPLETIONS = ("target", "stored")
"""Where ``.sow`` files are offered beside names."""
_NUMBER_PATTERN = re.compile("([+-]?)0*([0-9]{1,20})")  # 2**64 has 20 digits
_PATH_METAVARS: dict[str, Completion] = {"FILE": "file", "DIR": "directory"}
_REQUIRED: Any = object()
"""The default of a parameter that has none."""


class Option(Struct, frozen=True):
    """One option: its spellings, what it does, what stands for its value, and which values it takes.

    A whole number lies between ``minimum`` and ``maximum``.
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


class Argument(Struct, frozen=True):
    """One operand."""

    metavar: str
    help: str
    choices: tuple[str, ...] = ()
    complete: Completion = ""


def parse_number(declared: Option | Argument, text: str) -> int:
    """The whole number in the text of a value. Raises ValueError, with the bounds, for any other text."""
    least, most = (declared.minimum, declared.maximum) if isinstance(declared, Option) else (0, MAX_COUNT)
    bounds = f"it must be an integer from {least} to {most}"
    digits = _NUMBER_PATTERN.fullmatch(text)
    if digits is None or not least <= (number := int(digits[1] + digits[2])) <= most:
        raise ValueError(f"'{text if len(text) <= 60 else text[:60] + '...'}'; {bounds}")
    return number


def declare_option(*names: str, help: str, **more: Any) -> Option:
    """``Option`` with its spellings first, as in ``option("--filter", "-f", help="...", metavar="EXPR")``.

    What is written FILE or DIR is completed as such.
    """
    more.setdefault("complete", _PATH_METAVARS.get(more.get("metavar", ""), ""))
    return Option(names, help, **more)


class Parameter(Struct, frozen=True):
    """One declared parameter of a command: the Python name, its declaration, shape and default.

    ``stands_for``: a flag that gives another parameter, named first, a value; the command itself never sees it.
    """

    name: str
    declared: Option | Argument
    shape: Shape
    required: bool
    default: Any
    stands_for: tuple[str, str] | None = None

    @property
    def takes_value(self) -> bool:
        """True where a value follows the parameter on the command line."""
        return self.shape not in ("flag", "count")


def read_parameters(run: FunctionType, shared: Sequence[Parameter] = ()) -> tuple[Parameter, ...]:
    """The declared parameters of a command function in order, then the ``shared`` ones; no name may occur twice."""
    # read from the function itself: inspect and typing's evaluation of annotations would take 5 ms of every start
    code, values = run.__code__, run.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    positional = names[: code.co_argcount]
    defaults = dict(zip(positional[len(positional) - len(values) :], values, strict=True)) | (run.__kwdefaults__ or {})
    own = tuple(
        _build_parameter(name, eval(run.__annotations__[name], run.__globals__), defaults.get(name, _REQUIRED))
        for name in names
        if name != "invocation"
    )
    both = own + _build_synonyms(own) + tuple(shared)
    assert len({parameter.name for parameter in both}) == len(both), "a global option's name is taken"
    return both


def _build_synonyms(own: Sequence[Parameter]) -> tuple[Parameter, ...]:
    """``--json`` where ``--format`` knows json and the command has no ``--json`` of its own."""
    known = {parameter.name: parameter.declared for parameter in own}
    declared = known.get("format")
    if "json" in known or not isinstance(declared, Option) or "json" not in declared.choices:
        return ()
    words = declare_option("--json", help="Same as --format json.", panel=declared.panel)
    return (Parameter("json", words, "flag", False, False, ("format", "json")),)


def fold_flags(parameters: Sequence[Parameter], values: dict[str, Any]) -> dict[str, Any]:
    """``values`` without the flags that stand for a value of another parameter, which has that value now.

    Raises :class:`~sowctl.errors.UsageError` ``SOW-CLI-012`` where that parameter was given another one.
    """
    for parameter in parameters:
        if parameter.stands_for is None or not values.pop(parameter.name):
            continue
        name, value = parameter.stands_for
        target = next(one for one in parameters if one.name == name)
        if values[name] not in (target.default, value):
            flag, other = f"--{parameter.name}", f"--{name} {values[name]}"
            raise UsageError("SOW-CLI-012", f"{flag} and {other} exclude each other", hint="give one of them")
        values[name] = value
    return values


def _build_parameter(name: str, annotation: Any, default: Any) -> Parameter:
    base, declared = get_args(annotation)
    # ``X | None`` says that the option may be left out; the value itself is an X.
    if get_origin(base) is UnionType:
        base = next(part for part in get_args(base) if part is not type(None))
    shape: Shape
    if base is bool:
        shape = "flag"
    elif base is int:
        shape = "count" if isinstance(declared, Option) and declared.counted else "number"
    elif get_origin(base) is list:
        shape = "texts"
    else:
        shape = "text"
    required = default is _REQUIRED
    return Parameter(name, declared, shape, required, None if required else default)
