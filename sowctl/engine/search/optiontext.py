"""The option text of a query command: ``top_n=10,skip_n=20,grouping=[/a],projection=[...],select=[...]``.

Names and values as in ``behaviour`` 3.1. Brackets enclose lists, which may contain commas and quoted text. An unknown
name is an error before any work. Options without effect on files are accepted, and produce a note with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from sowctl.declarations import DeclaredField, list_option_texts
from sowctl.engine.options import QueryOptions
from sowctl.errors import UsageError
from sowctl.values.units import parse_seconds

BOOKMARK, LITERAL = "bookmark", "non_regex_topic"
IGNORED_OPTIONS = {
    "timestamp": "--meta prints the time of each record",
    "no_sowkey": "only --meta prints SOW keys",
    "send_keys": "records are printed completely, including their key fields",
}
"""Options that concern messages of a connection, and the corresponding behaviour with files."""
_SWITCH_VALUES = {"true": True, "false": False}


class ParsedOptions(Struct, frozen=True):
    """A parsed option text: ``bookmark`` of a past state, ``literal``: topic is not a pattern, ``notes`` on ignored
    options."""

    options: QueryOptions
    bookmark: str | None = None
    literal: bool = False
    notes: tuple[str, ...] = ()


@cache
def list_query_options() -> dict[str, DeclaredField]:
    """Return the fields of :class:`~sowctl.engine.options.QueryOptions` that an option text may set, by option name."""
    return list_option_texts(QueryOptions)


def parse_option_value(field: DeclaredField, text: str) -> object:
    """Parse the text of a value by the type of its field. Raises ValueError."""
    if field.base is int:
        if not text.isascii() or not text.isdecimal():
            raise ValueError(f"must be an integer, not {text!r}")
        return int(text)
    if field.base is bool:
        return parse_switch(text)
    return parse_seconds(text) if field.base is float else text


def parse_switch(text: str) -> bool:
    """Parse ``true`` or ``false``, in any case. Raises ValueError."""
    found = _SWITCH_VALUES.get(text.lower())
    if found is None:
        raise ValueError(f"must be true or false, not {text!r}")
    return found


def parse_option_text(text: str) -> Mapping[str, str]:
    """Return names and values, without enclosing brackets. Raises UsageError ``SOW-QRY-017`` with the position.

    A name without ``=`` has the value ``true``.
    """
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        end = _find_option_end(text, at)
        name, equals, value = text[at:end].partition("=")
        name, value = name.strip().lower(), value.strip()
        if not name:
            raise _make_syntax_error(text, at, "a name is missing")
        if name in found:
            raise _make_syntax_error(text, at, f"duplicate option {name}")
        found[name] = value[1:-1] if _is_bracketed_list(value) else value
        if not equals:
            found[name] = "true"
        at = end + 1
    return found


def _is_bracketed_list(value: str) -> bool:
    """Return whether a single pair of brackets encloses the value.

    Identifiers in brackets may also start and end a value: ``[/odd name] AS [/other name]``.
    """
    if not (value.startswith("[") and value.endswith("]")):
        return False
    depth, quote = 0, ""
    for sign in value[:-1]:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        else:
            depth += (sign == "[") - (sign == "]")
            if not depth:
                return False
    return True


def _verify_field_list(name: str, value: str) -> None:
    """Raise ExpressionError for an invalid list of fields, with a hint if the text is valid as a field in brackets."""
    from sowctl.expressions.syntax.errors import ExpressionError
    from sowctl.expressions.syntax.parser import parse_grouping, parse_order_by

    if not value:
        return  # one group of all records, or no order
    parse: Callable[[str], object] = parse_order_by if name == "orderby" else parse_grouping
    try:
        parse(value)
    except ExpressionError as error:
        with suppress(ExpressionError):
            parse(f"[{value}]")
            # Brackets around the complete value enclose a list. An invalid list is not reinterpreted as a field name:
            # a wrong word after a field would become a field that no record has.
            told = f"for a field named {value}, write {name}=[[{value}]]"
            error.hint = told if error.hint is None else f"{error.hint}; {told}"
        raise


def _find_option_end(text: str, at: int) -> int:
    """Return the end of the option that begins at ``at``: the next comma outside brackets and quotes, or the end."""
    depth, quote, start = 0, "", at
    while at < len(text):
        sign = text[at]
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"" and depth:
            quote = sign
        elif sign == "[":
            depth += 1
        elif sign == "]":
            depth -= 1
            if depth < 0:
                raise _make_syntax_error(text, at, "a closing bracket has no opening bracket")
        elif sign == "," and not depth:
            return at
        at += 1
    if depth or quote:
        raise _make_syntax_error(text, start, "a bracket or quote is not closed")
    return at


def apply_option_text(options: QueryOptions, text: str) -> ParsedOptions:
    """Return ``options`` updated by an option text. Raises UsageError ``SOW-QRY-017``, and ExpressionError for an
    invalid list."""
    changes: dict[str, object] = {}
    bookmark, literal, notes = None, False, []
    known = list_query_options()
    for name, value in parse_option_text(text).items():
        try:
            if name in ("orderby", "grouping"):
                _verify_field_list(name, value)
            if name in known:
                changes[known[name].name] = parse_option_value(known[name], value)
            elif name == BOOKMARK:
                bookmark = value
            elif name == LITERAL:
                literal = parse_switch(value)
            elif name not in IGNORED_OPTIONS:
                raise _make_unknown_error(name)
            elif parse_switch(value):
                notes.append(f"the query option {name} has no effect: {IGNORED_OPTIONS[name]}")
        except ValueError as error:
            raise _make_syntax_error(text, 0, f"{name} {error}") from None
    for field in changes:
        if getattr(options, field) not in (None, getattr(QueryOptions(), field)):
            raise _make_syntax_error(text, 0, f"{field} is given both as an option and in --options")
    return ParsedOptions(replace(options, **changes), bookmark, literal, tuple(notes))


def _make_unknown_error(name: str) -> UsageError:
    from difflib import get_close_matches

    known = [*list_query_options(), BOOKMARK, LITERAL, *IGNORED_OPTIONS]
    near = get_close_matches(name, known, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    return UsageError("SOW-QRY-017", f"unknown query option {name!r}", hint=f"{meant}valid options: {', '.join(known)}")


def _make_syntax_error(text: str, at: int, what: str) -> UsageError:
    return UsageError(
        "SOW-QRY-017", f"option text, character {at + 1}: {what}", hint="write options like top_n=10,select=[-/,+/id]"
    )
