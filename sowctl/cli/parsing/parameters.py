"""Parameters of a command, as used by the parsers of the command line, help, manual pages and completion.

A command is a function ``run(invocation, arguments)``; the type of ``arguments`` is a Struct that declares its options
and operands (:mod:`sowctl.declarations`). The Typer application (``application.py``), the quick parser
(``arguments.py``), the man pages and the completion scripts are derived from this one declaration, so they cannot
disagree. Declarations are Structs instead of Typer's own classes: most commands start without importing it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args, get_origin

from msgspec import NODEFAULT, Struct

from sowctl.cli.parsing.option_values import parse_bytes, parse_interval, parse_sow_keys
from sowctl.declarations import DOCUMENT, Argument, DeclaredField, Option, Part, declare_option, iterate_fields
from sowctl.errors import UsageError
from sowctl.values.paths import split_list
from sowctl.values.units import MAX_COUNT, format_size

Shape: TypeAlias = Literal["flag", "count", "number", "text", "texts"]
_FILTER_PATTERN = re.compile(
    r"[\s/'\"=<>()[\]]|^$|^[-+]?[0-9.]+(?i:e[-+]?[0-9]+)?$|^[-+]?(?i:true|false|null|nan|inf|infinity)$"
)
_TYPED_NAME_PATTERN = re.compile(r"\[[^\[\]/]+\]\.\[[^\[\]]+\]")
_FILE_PATTERN = re.compile(r"[^'\"=<>]*\.sow$")
_NUMBER_PATTERN = re.compile("([+-]?)0*([0-9]{1,20})")  # 2**64 has 20 digits


class Parameter(Struct, frozen=True):
    """One option or operand of a command: the name of its field, its declaration, shape and default.

    ``part`` is the field that holds the Struct of the option, ``owner``, unless that is the command's own.
    ``switches_off``: a flag whose field is True without it. ``is_tuple``: its texts become a tuple.
    ``stands_for``: a flag that sets another parameter, named first, to a value, or an operand (None) that sets it to
    its own value; the command itself never sees it. ``within``: the repeated operands of which it may be the last one.
    """

    name: str
    declared: Option | Argument
    shape: Shape
    required: bool
    default: Any
    stands_for: tuple[str, str | None] | None = None
    part: str = ""
    owner: type[Struct] | None = None
    switches_off: bool = False
    is_tuple: bool = False
    within: str = ""

    @property
    def takes_value(self) -> bool:
        """True if a value follows the parameter on the command line."""
        return self.shape not in ("flag", "count")

    def format_default(self) -> str:
        """The default as a user would write it; empty if there is none."""
        if not self.takes_value or self.default in (None, ()):
            return ""
        return format_size(self.default) if self.declared.unit == "bytes" else str(self.default)


def parse_number(declared: Option | Argument, text: str) -> int:
    """Parse a whole number. Raises ValueError, with the bounds, for any other text."""
    least, most = (declared.minimum, declared.maximum) if isinstance(declared, Option) else (0, MAX_COUNT)
    bounds = f"it must be an integer from {least} to {most}"
    digits = _NUMBER_PATTERN.fullmatch(text)
    if digits is None or not least <= (number := int(digits[1] + digits[2])) <= most:
        raise ValueError(f"'{text if len(text) <= 60 else text[:60] + '...'}'; {bounds}")
    return number


def read_parameters(kind: type[Struct], shared: Sequence[Parameter] = ()) -> tuple[Parameter, ...]:
    """The declared parameters of a Struct in order, those of its parts in their place, then the ``shared`` ones.

    No name may occur twice.
    """
    own = tuple(_iterate_parameters(kind))
    both = own + _build_synonyms(own) + tuple(shared)
    assert len({parameter.name for parameter in both}) == len(both), "a name is taken"
    return both


def _iterate_parameters(kind: type[Struct], part: str = "", only: Sequence[str] | None = None) -> Iterator[Parameter]:
    names = kind.__struct_fields__
    first = len(names) - len(kind.__struct_defaults__)
    defaults = dict(zip(names[first:], kind.__struct_defaults__, strict=True))
    owner = kind if part else None
    for field in iterate_fields(kind, only):
        if isinstance(field.declared, Part) or (isinstance(field.base, type) and issubclass(field.base, Struct)):
            chosen = field.declared.fields if isinstance(field.declared, Part) else None
            yield from _iterate_parameters(field.base, field.name, chosen)
        elif field.declared is not None:
            yield _build_parameter(field, field.declared, defaults.get(field.name, NODEFAULT), part, owner)


def _build_parameter(
    field: DeclaredField, declared: Option | Argument, default: Any, part: str, owner: type[Struct] | None
) -> Parameter:
    base, origin = field.base, get_origin(field.base)
    if origin is Literal and not declared.choices and isinstance(declared, Option):
        declared = _add_choices(declared, get_args(base))
    shape: Shape
    if base is bool:
        shape = "flag"
    elif declared.unit == "keys" or (declared.unit == "" and origin in (list, tuple)):
        shape = "texts"
    elif base is int and declared.unit == "":
        shape = "count" if isinstance(declared, Option) and declared.counted else "number"
    else:
        shape = "text"
    required, switches_off = default is NODEFAULT, shape == "flag" and default is True
    # For the parsers, a flag that switches off is an ordinary flag: given or not. An empty tuple means: not given.
    known = None if required or default == () else False if switches_off else default
    return Parameter(field.name, declared, shape, required, known, None, part, owner, switches_off, origin is tuple)


def _add_choices(declared: Option, choices: tuple[str, ...]) -> Option:
    from msgspec.structs import replace

    return replace(declared, choices=choices)


def _build_synonyms(own: Sequence[Parameter]) -> tuple[Parameter, ...]:
    """Return ``--json`` if ``--format`` or else ``--summary`` has the choice json and the command declares no
    ``--json``, and operands that replace options."""
    found: list[Parameter] = []
    known = {parameter.name: parameter.declared for parameter in own}
    for name in ("format", "summary"):
        declared = known.get(name)
        if "json" in known or found or not isinstance(declared, Option):
            continue
        if declared.names[0] not in ("--format", "--summary"):
            # A format of files: standard output has the report.
            continue
        if "json" not in declared.choices:
            # A stream has a line for each event.
            if "ndjson" in declared.choices:
                flag = declare_option("--json", help=f"Same as {declared.names[0]} ndjson.", panel=declared.panel)
                found.append(Parameter("json", flag, "flag", False, False, (name, "ndjson")))
            continue
        words = (
            "Print one JSON document, also if all is well."
            if declared.document
            else f"Same as {declared.names[0]} json."
        )
        flag = declare_option("--json", help=words, panel=declared.panel)
        found.append(Parameter("json", flag, "flag", False, False, (name, DOCUMENT if declared.document else "json")))
    operands = [parameter for parameter in own if isinstance(parameter.declared, Argument)]
    # After an optional operand it would be ambiguous, unless the command rules that out.
    if operands and all(one.required or getattr(one.declared, "comes_first", False) for one in operands):
        last = operands[-1]
        for parameter in own:
            if isinstance(option := parameter.declared, Option) and option.operand:
                operand = Argument(option.operand, f"Same as {option.names[0]}.")
                name, within = f"{parameter.name}_operand", last.name if last.shape == "texts" else ""
                found.append(Parameter(name, operand, "text", False, None, (parameter.name, None), within=within))
    return tuple(found)


def fold_flags(parameters: Sequence[Parameter], values: dict[str, Any]) -> dict[str, Any]:
    """``values`` without the parameters that set another one, which now has their value.

    Raises :class:`~sowctl.errors.UsageError` ``SOW-CLI-012`` if that parameter has another value, ``SOW-CLI-013`` if
    both an operand and its option are given, and ``SOW-CLI-003`` if a filter is not the last operand.
    """
    for parameter in parameters:
        if parameter.within:
            values[parameter.within], values[parameter.name] = _split_filter(values[parameter.within])
        if parameter.stands_for is None or (given := values.pop(parameter.name)) in (None, False):
            continue
        name, value = parameter.stands_for
        if value is None:
            if values[name] is not None:
                hint = f"give {parameter.declared.metavar} or --{name}, not both"
                raise UsageError("SOW-CLI-013", f"the {name} is given twice", hint=hint)
            values[name] = given
            continue
        target = next(one for one in parameters if one.name == name)
        # The document that --json prints is JSON, too.
        same = (target.default, value, "json") if value == DOCUMENT else (target.default, value)
        if values[name] not in same:
            flag, other = f"--{parameter.name}", f"--{name} {values[name]}"
            raise UsageError("SOW-CLI-012", f"{flag} and {other} exclude each other", hint="give one of them")
        values[name] = value
    return values


def is_filter_text(word: str) -> bool:
    """Return whether an operand after a name looks like a filter: it contains a blank, a slash, a quote, a comparison
    or a bracket, is empty or a constant. Names with such characters are given first, or matched by a pattern."""
    if _FILE_PATTERN.match(word) or _TYPED_NAME_PATTERN.fullmatch(word):
        return False
    return _FILTER_PATTERN.search(word) is not None


def _split_filter(words: list[str]) -> tuple[list[str], str | None]:
    """Split repeated operands into names and the filter after them. The first one is always a name."""
    filters = [word for word in words[1:] if is_filter_text(word)]
    if not filters:
        return words, None
    if filters != words[-1:]:
        start = words.index(filters[0], 1)
        raise UsageError(
            "SOW-CLI-003",
            f"unexpected argument: {' '.join(words[start + 1 :])}",
            hint='give the filter last and as one argument, in quotes: "/qty > 5"',
        )
    return words[:-1], words[-1]


def build_arguments(kind: type[Struct], parameters: Sequence[Parameter], values: Mapping[str, Any]) -> Any:
    """Build the Struct of a command from the values of its ``parameters``, each converted to the type of its field.

    Raises :class:`~sowctl.errors.UsageError` ``SOW-CLI-022`` for an invalid interval or size.
    """
    own: dict[str, Any] = {}
    parts: dict[str, tuple[type[Struct], dict[str, Any]]] = {}
    for parameter in parameters:
        into = own
        if parameter.owner is not None:
            _, into = parts.setdefault(parameter.part, (parameter.owner, {}))
        # Fields of parameters that are not given keep their defaults.
        if parameter.name in values and (parameter.required or values[parameter.name] is not parameter.default):
            into[parameter.name] = _convert_value(parameter, values[parameter.name])
    return kind(**own, **{name: owner(**given) for name, (owner, given) in parts.items()})


def _convert_value(parameter: Parameter, value: Any) -> Any:
    if parameter.switches_off:
        return not value
    declared = parameter.declared
    name = declared.names[0] if isinstance(declared, Option) else declared.metavar
    match declared.unit:
        case "seconds":
            return parse_interval(name, value)
        case "bytes":
            return parse_bytes(name, value)
        case "keys":
            return parse_sow_keys(value) or None
        case "paths":
            return tuple(split_list(value))
    return tuple(value) if parameter.is_tuple else value
