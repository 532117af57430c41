"""The Typer application of one command: error messages, and every command line that is not plain.

The only importer of Typer. An application has exactly one command, built from that command's declarations, and is run
with ``standalone_mode=False``: it returns values or raises; it never ends the process.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import re
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Annotated, Any

import typer

from sowctl.cli.parsing.parameters import Parameter, parse_number
from sowctl.cli.parsing.synonyms import (
    COMMAND_OPTION_ADVICE,
    COMMAND_OPTION_SYNONYMS,
    MISSING_ADVICE,
    OPTION_ADVICE,
    OPTION_SYNONYMS,
    VALUE_ADVICE,
    VALUE_SYNONYMS,
    find_near,
)
from sowctl.declarations import Argument, Option
from sowctl.errors import UsageError

_EXTRA_PATTERN = re.compile(r"got unexpected extra argument(\(s\)|s)?", re.IGNORECASE)
_UNKNOWN_PATTERN = re.compile(r"no such option: (?P<name>[^ ]+)", re.IGNORECASE)
_MISSING_PATTERN = re.compile(r"missing (?:argument|option) '(?P<name>[^']+)'", re.IGNORECASE)


def read_with_typer(name: str, parameters: Sequence[Parameter], words: Sequence[str]) -> dict[str, Any] | None:
    """The values of all ``parameters`` by name, or None if help is requested.

    Raises :class:`~sowctl.errors.UsageError` ``SOW-CLI-003`` for errors of Typer.
    """
    # Parameters among repeated operands are split off later.
    among = [parameter for parameter in parameters if parameter.within]
    parameters = [parameter for parameter in parameters if not parameter.within]
    answer: dict[str, Any] = {}
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(context_settings={"help_option_names": ["-h", "--help"]})(_build_collector(parameters, answer))
    # Typer installs its own hook permanently; a calling program must keep its own.
    hook = sys.excepthook
    try:
        # Typer's own help text is discarded; helptext.py formats it from the same declarations.
        with contextlib.redirect_stdout(io.StringIO()):
            app(list(words), prog_name=name, standalone_mode=False)
    except typer.TyperException as error:
        raise _build_usage_error(name, error.format_message(), parameters) from None
    except typer.Abort:
        raise KeyboardInterrupt from None
    finally:
        sys.excepthook = hook
    if not answer:
        return None
    # Typer would convert the default of such a value to a text.
    answer |= {parameter.name: None for parameter in among}
    return {one.name: one.default if answer[one.name] is None else answer[one.name] for one in (*parameters, *among)}


def _build_collector(parameters: Sequence[Parameter], answer: dict[str, Any]) -> Any:
    def collect(**values: Any) -> None:
        answer.update(values)

    signature = [
        inspect.Parameter(
            parameter.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty
            if parameter.required
            else None
            if parameter.declared.unit
            else parameter.default,
            annotation=Annotated[_choose_type(parameter), _build_declaration(parameter)],
        )
        for parameter in parameters
    ]
    # Typer derives its options from a function's signature, so one is built from the declarations.
    collect.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]  # what Typer reads
    collect.__annotations__ = {parameter.name: parameter.annotation for parameter in signature}
    return collect


def _choose_type(parameter: Parameter) -> Any:
    return {"flag": bool, "count": int, "number": int, "text": str, "texts": list[str]}[parameter.shape]


def _build_declaration(parameter: Parameter) -> Any:
    declared, parser = parameter.declared, _choose_parser(parameter)
    if isinstance(declared, Argument):
        return typer.Argument(help=declared.help, metavar=declared.metavar, parser=parser)
    return typer.Option(
        *declared.spellings,
        help=declared.help,
        metavar=declared.metavar if parameter.takes_value else None,
        count=declared.counted,
        parser=parser,
    )


def _choose_parser(parameter: Parameter) -> Callable[[str], Any] | None:
    """Return the parser of one value, which raises this program's errors; None if every text is valid."""
    declared = parameter.declared
    if declared.choices:
        choices = declared.choices

        def choose(text: str) -> str:
            if text in choices:
                return text
            # A synonym of another tool precedes a word with similar spelling: jsonl is ndjson, not json.
            told = VALUE_SYNONYMS.get(text.lower())
            meant = [told] if told in choices else get_close_matches(text, choices, n=1)
            known = VALUE_ADVICE.get(text.lower()) or (
                f"did you mean {meant[0]}?" if meant else f"use one of {', '.join(choices)}"
            )
            raise typer.BadParameter(f"'{text}'; {known}")

        return choose
    if parameter.shape != "number":
        return None

    def number(text: str | int) -> int:
        # Typer passes a default unchanged, and texts as on the command line.
        if isinstance(text, int):
            return text
        try:
            return parse_number(declared, text)
        except ValueError as problem:
            raise typer.BadParameter(str(problem)) from None

    return number


def _build_usage_error(name: str, text: str, parameters: Sequence[Parameter]) -> UsageError:
    hint = f"{name} --help lists the options"
    declared = [parameter.declared for parameter in parameters]
    places = {one.metavar for one in declared if isinstance(one, Argument)}
    words = [word for one in declared if isinstance(one, Option) for word in one.names]
    if _EXTRA_PATTERN.match(text) and "--filter" in words and "FILTER" not in places:
        hint = f"give a filter with --filter; {hint}"
    if _EXTRA_PATTERN.match(text) and name == "sowctl shell":
        hint = "pass commands on standard input: sowctl shell < FILE"
    if match := _UNKNOWN_PATTERN.match(text):
        # Typer's own suggestions are too far off ('--limit': '--delimiter' or '--meta'); these are this program's.
        text = text[: match.end("name")]
        command = name.removeprefix("sowctl ")
        told = {**OPTION_SYNONYMS, **COMMAND_OPTION_SYNONYMS.get(command, {})}
        advice = {**OPTION_ADVICE, **COMMAND_OPTION_ADVICE.get(command, {})}
        if match["name"] in advice and told.get(match["name"], "").split(" ")[0] not in words:
            hint = advice[match["name"]]
        elif meant := find_near(match["name"], words, told):
            hint = f"did you mean {' or '.join(meant)}?"
        elif not match["name"].lstrip("-")[:1].isalpha():
            # Such as the expression -5 % 3: no option has such a name.
            hint = f"give an argument that begins with - after the word --; {hint}"
    if match := _MISSING_PATTERN.match(text):
        hint = MISSING_ADVICE.get((name.removeprefix("sowctl "), match["name"]), hint)
    text = text.strip().rstrip(".")
    if match := _EXTRA_PATTERN.match(text):
        # Typer writes "Got unexpected extra argument(s) (a b)"; the words may contain spaces.
        extra = text[match.end() :].partition("(")[2].removesuffix(")")
        text = f"unexpected argument: {extra}"
        place = next((one for one in ("--to", "--output") if one in words), None)
        if "://" in extra and place is not None:
            hint = f"did you mean {place} {extra}?"
    return UsageError("SOW-CLI-003", text[:1].lower() + text[1:], hint=hint)
