"""The Typer application of one command: error messages, and every command line that is not plain.

The only importer of Typer. An application holds exactly one command, built from that command's declarations, and is
run with ``standalone_mode=False``: it answers with values or raises; it never ends the process.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import re
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import typer

from sowctl.cli.declare import Argument, Option, Parameter
from sowctl.errors import UsageError

_EXTRA = re.compile(r"got unexpected extra argument", re.IGNORECASE)
_POSSIBLE = re.compile(r"\s*\(Possible options: (?P<names>[^)]*)\)$")


def read(name: str, parameters: Sequence[Parameter], words: Sequence[str]) -> dict[str, Any] | None:
    """The values of all ``parameters`` by name, or None where help is asked for.

    Raises :class:`~sowctl.errors.UsageError` ``SOW-CLI-003`` for what Typer refuses.
    """
    answer: dict[str, Any] = {}
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(context_settings={"help_option_names": ["-h", "--help"]})(_collector(parameters, answer))
    hook = sys.excepthook
    try:
        # Typer's own help text is not shown; helptext.py writes it from the same declarations.
        with contextlib.redirect_stdout(io.StringIO()):
            app(list(words), prog_name=name, standalone_mode=False)
    except typer.TyperException as error:
        raise _usage(name, error.format_message(), parameters) from None
    except typer.Abort:
        raise KeyboardInterrupt from None
    finally:
        sys.excepthook = hook
    return answer or None


def _collector(parameters: Sequence[Parameter], answer: dict[str, Any]) -> Any:
    def collect(**values: Any) -> None:
        answer.update(values)

    signature = [
        inspect.Parameter(
            parameter.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if parameter.required else parameter.default,
            annotation=Annotated[_type(parameter), _declaration(parameter)],
        )
        for parameter in parameters
    ]
    collect.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    collect.__annotations__ = {parameter.name: parameter.annotation for parameter in signature}
    return collect


def _type(parameter: Parameter) -> Any:
    if parameter.declared.choices:
        choice: Any = Literal.__getitem__(parameter.declared.choices)
        return list[choice] if parameter.shape == "texts" else choice
    return {"flag": bool, "count": int, "number": int, "text": str, "texts": list[str]}[parameter.shape]


def _declaration(parameter: Parameter) -> Any:
    declared = parameter.declared
    if isinstance(declared, Argument):
        return typer.Argument(help=declared.help, metavar=declared.metavar)
    return typer.Option(
        *declared.names,
        help=declared.help,
        metavar=None if declared.choices or not parameter.takes_value else declared.metavar,
        count=declared.counted,
        min=declared.minimum,
        max=declared.maximum,
    )


def _usage(name: str, text: str, parameters: Sequence[Parameter]) -> UsageError:
    hint = f"{name} --help lists what it takes"
    declared = [parameter.declared for parameter in parameters]
    places = {one.metavar for one in declared if isinstance(one, Argument)}
    words = {word for one in declared if isinstance(one, Option) for word in one.names}
    if _EXTRA.match(text) and "--filter" in words and "FILTER" not in places:
        hint = f"a filter follows the word --filter; {hint}"
    if match := _POSSIBLE.search(text):
        names = " or ".join(match["names"].split(", "))
        text, hint = text[: match.start()], f"did you mean {names}?"
    text = text.replace("Value error, ", "").strip().rstrip(".")
    return UsageError("SOW-CLI-003", text[:1].lower() + text[1:], hint=hint)
