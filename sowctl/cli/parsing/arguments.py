"""Parses plain command lines quickly, and leaves all others to Typer.

Typer takes longer to import than most commands run. So a command line is first parsed here, directly from the
declarations. This parser has no errors: for anything uncertain - an unknown spelling, a missing value, a value out of
range, ``--help`` - it returns None, and ``application.py`` lets Typer parse the line again and report errors. The law,
checked by a test over every command: a result of this parser equals that of Typer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sowctl.cli.parsing.parameters import Parameter, parse_number
from sowctl.declarations import Argument, Option


def read_plain(parameters: Sequence[Parameter], words: Sequence[str]) -> dict[str, Any] | None:
    """The values of all ``parameters`` by name, or None if Typer must parse the line."""
    spelled = {name: parameter for parameter in parameters for name in _list_names(parameter)}
    values: dict[str, Any] = {}
    operands: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            operands += rest
            break
        # A single dash is an operand: standard input.
        if not word.startswith("-") or word == "-":
            operands.append(word)
        elif not _take_option(word, rest, spelled, values):
            return None
    return _complete_values(parameters, values, operands)


def _list_names(parameter: Parameter) -> tuple[str, ...]:
    return parameter.declared.spellings if isinstance(parameter.declared, Option) else ()


def _take_option(word: str, rest: list[str], spelled: dict[str, Parameter], values: dict[str, Any]) -> bool:
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        parameter = spelled.get(name)
        # Prefixes of names, and values for flags, are left to Typer.
        if parameter is None or (equals and not parameter.takes_value):
            return False
        return _store_value(parameter, value if equals else None, rest, values)
    # Short flags may be combined, with a value after the last one.
    for position, letter in enumerate(word[1:], start=2):
        parameter = spelled.get("-" + letter)
        if parameter is None:
            return False
        attached = word[position:]
        if parameter.takes_value:
            return _store_value(parameter, attached or None, rest, values)
        _store_value(parameter, None, rest, values)
    return True


def _store_value(parameter: Parameter, value: str | None, rest: list[str], values: dict[str, Any]) -> bool:
    name = parameter.name
    if parameter.shape == "flag":
        values[name] = True
        return True
    if parameter.shape == "count":
        values[name] = values.get(name, 0) + 1
        return True
    if value is None:
        if not rest:
            return False
        # The next word is the value, even if it begins with a dash.
        value = rest.pop(0)
    converted = _convert_value(parameter, value)
    if converted is None:
        return False
    if parameter.shape == "texts":
        values.setdefault(name, []).append(converted)
    else:
        # If given twice, the last one counts.
        values[name] = converted
    return True


def _convert_value(parameter: Parameter, text: str) -> str | int | None:
    declared = parameter.declared
    if declared.choices and text not in declared.choices:
        return None
    if parameter.shape != "number":
        return text
    try:
        return parse_number(declared, text)
    except ValueError:  # left to Typer to reject
        return None


def _complete_values(
    parameters: Sequence[Parameter], values: dict[str, Any], operands: list[str]
) -> dict[str, Any] | None:
    for parameter in parameters:
        if not isinstance(parameter.declared, Argument) or not operands:
            continue
        wanted = operands if parameter.shape == "texts" else operands[:1]
        if any(_convert_value(parameter, word) is None for word in wanted):
            return None
        values[parameter.name] = list(wanted) if parameter.shape == "texts" else wanted[0]
        # A repeated operand takes all remaining words, so it is the last.
        operands = operands[len(wanted) :]
    # Too many or too few: Typer reports the error.
    if operands or any(parameter.required and parameter.name not in values for parameter in parameters):
        return None
    return {parameter.name: values.get(parameter.name, parameter.default) for parameter in parameters}
