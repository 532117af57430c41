"""Checks of the keyword arguments of methods, before a store is opened; keywords in hints of errors.

A method declares its keywords in its signature, so that ``help()``, editors and type checkers show them.
:func:`check_keywords` reads the types from there; it is for programs without a type checker.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar, get_args

from sowctl.engine.api.arguments import require_choice, require_count
from sowctl.engine.options import DeltaNull, EnvelopeName, OnError, PublishOptions, TimestampUnit, UnknownFieldPolicy
from sowctl.errors import SowError, UsageError
from sowctl.values.units import MAX_COUNT, MAX_U64

P = ParamSpec("P")
T = TypeVar("T")

_OPTION_PATTERN = re.compile(r"(?<![\w-])--([a-z][a-z0-9-]*)(?: ([a-z]+\b|/[\w/:]+))?")
"""An option in a text, and the next word or path, which may be its value."""
_OPEN_KEYWORDS = ("lock_wait",)
"""Options that all commands share; a program passes them to ``sowctl.open()`` instead."""
_MIN_VALUES = {"batch": 1, "batch_bytes": 1, "batch_size": 1, "jobs": 1, "sort_memory": 1, "most": 1}
"""The minimum of integers that must not be 0."""
_MAX_VALUES = {"sequence": MAX_U64, "until_txid": MAX_U64}
"""The maximum of integers that are not counts."""
_CHOICES: dict[str, tuple[str, ...]] = {
    "OnError": get_args(OnError),
    "DeltaNull": get_args(DeltaNull),
    "UnknownFieldPolicy": get_args(UnknownFieldPolicy),
    "EnvelopeName": get_args(EnvelopeName),
    "TimestampUnit": get_args(TimestampUnit),
}
_KEYWORD_ALIASES = {
    "sow_key": "sow_keys",
    "key": "keys",
    "where": "filter",
    "order": "order_by",
    "sort": "order_by",
    "columns": "select",
    "strict": "unknown='error'",
    "only": "fields",
    "ignore": "ignored",
    "timeout": "lasting",
    "force": "overwrite",
    "format": "input_format",
    "type": "types",
}
"""Names of options on the command line or in other libraries, and the equivalent keyword."""


def check_keywords(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a method with a check of its keywords: names, and values of type int, bool, str or a choice of words.

    It raises TypeError for an unknown name, with the most similar one, and for a value of a wrong type; UsageError
    ``SOW-CLI-006`` for a number out of bounds and for a word that is not one of the choices.

    Errors of the method name keywords where the verb, which the command line calls too, names options.
    """
    code = function.__code__
    known = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    types: dict[str, str] = function.__annotations__

    @wraps(function)
    def checked(*arguments: P.args, **keywords: P.kwargs) -> T:
        for name in keywords:
            if name not in known:
                raise TypeError(f"{function.__name__}() has no keyword {name!r}{_suggest_keyword(name, known)}")
        values: Any = {name: _check_value(name, value, types[name]) for name, value in keywords.items()}
        try:
            return function(*arguments, **values)
        except SowError as error:
            error.message = _name_keywords(error.message, types)
            error.hint = _rewrite_hint(error.hint, types)
            raise

    return checked


def choose_synonym(names: tuple[str, str], value: int | None, other: int | None) -> int | None:
    """Return the value of a keyword with two ``names``. Raises UsageError ``SOW-CLI-006`` if both are given."""
    if value is not None and other is not None:
        raise UsageError("SOW-CLI-006", f"{names[0]} and {names[1]} mean the same", hint=f"pass {names[0]} only")
    return other if value is None else value


def _check_value(name: str, value: Any, written: str) -> Any:
    """Return a value after checking it against the type ``written`` in a signature, such as ``int | None``."""
    wanted = written.removesuffix(" | None")
    if value is None and wanted != written:
        return None
    if wanted == "int":
        return require_count(name, value, _MIN_VALUES.get(name, 0), _MAX_VALUES.get(name, MAX_COUNT))
    if wanted == "bool":
        # Also numpy's bool_.
        if type(value).__name__ not in ("bool", "bool_"):
            raise TypeError(f"{name} must be True or False, not {type(value).__name__}")
        return bool(value)
    if wanted in _CHOICES:
        return require_choice(name, value, _CHOICES[wanted])
    if wanted == "str" and not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    return value


def _rewrite_hint(hint: str | None, types: Mapping[str, str]) -> str | None:
    """Return a hint with keywords instead of options; whole commands stay, and advice that has no keyword goes."""
    advice = []
    for part in (hint or "").split("; "):
        named = part if "sowctl " in part else _name_keywords(part, types)
        if named and not named.startswith("--"):
            advice.append(named)
    return "; ".join(advice) or None


def _name_keywords(text: str, types: Mapping[str, str]) -> str:
    """Return a text with the method's keywords instead of the options of the same meaning: ``on_error="skip"``."""

    def name(found: re.Match[str]) -> str:
        option, value = found[1].replace("-", "_"), found[2]
        keyword = option if option in types else _KEYWORD_ALIASES.get(option, "")
        is_value = bool(value) and (value[0] == "/" or any(value in words for words in _CHOICES.values()))
        written, rest = (f'"{value}"', "") if is_value else ("...", f" {value}" if value else "")
        if keyword.partition("=")[0] in types:
            return f"{keyword}={written}" if is_value else keyword + rest
        if types.get("options", "").startswith("PublishOptions") and option in PublishOptions.__struct_fields__:
            return f"PublishOptions({option}={written}){rest}"
        return f"{option} of sowctl.open(){rest}" if option in _OPEN_KEYWORDS else found[0]

    return _OPTION_PATTERN.sub(name, text)


def _suggest_keyword(name: str, known: Collection[str]) -> str:
    from sowctl.config.suggestions import find_nearest

    meant = _KEYWORD_ALIASES.get(name, "")
    if meant.partition("=")[0] not in known:
        meant = find_nearest(name, list(known)) or ""
    return f"; did you mean {meant}?" if meant else ""
