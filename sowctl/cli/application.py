"""The Typer application of one command: help, error messages, and every command line that is not plain.

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
from typing import Annotated, Any, BinaryIO, Literal

import typer

from sowctl.cli.declare import Argument, Parameter
from sowctl.errors import UsageError

_POSSIBLE = re.compile(r"\s*\(Possible options: (?P<names>[^)]*)\)$")


class HelpShown(Exception):
    """Help was asked for and has been written."""


def read(
    name: str,
    help: str,
    parameters: Sequence[Parameter],
    words: Sequence[str],
    *,
    stdout: BinaryIO,
    rich: bool,
) -> dict[str, Any]:
    """The values of all ``parameters`` by name.

    Writes help to ``stdout`` and raises :class:`HelpShown` where it is asked for; with ``rich``, in boxes for a
    terminal. Raises :class:`~sowctl.errors.UsageError` ``SOW-CLI-003`` for what Typer refuses.
    """
    answer: dict[str, Any] = {}
    app = typer.Typer(add_completion=False, rich_markup_mode="rich" if rich else None)
    settings = {"help_option_names": ["-h", "--help"]}
    app.command(context_settings=settings, help=_mark(help, rich))(_collector(parameters, answer, rich))
    hook = sys.excepthook
    shown = io.StringIO()
    try:
        # Rich asks the stream about the terminal, so only a stream that is not the process's own is caught.
        with contextlib.nullcontext() if stdout is sys.stdout.buffer else contextlib.redirect_stdout(shown):
            app(list(words), prog_name=name, standalone_mode=False)
    except typer.TyperException as error:
        raise _usage(name, error.format_message()) from None
    except typer.Abort:
        raise KeyboardInterrupt from None
    finally:
        sys.excepthook = hook
    if not answer:
        stdout.write(shown.getvalue().encode())
        raise HelpShown
    return answer


def _collector(parameters: Sequence[Parameter], answer: dict[str, Any], rich: bool) -> Any:
    def collect(**values: Any) -> None:
        answer.update(values)

    signature = [
        inspect.Parameter(
            parameter.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if parameter.required else parameter.default,
            annotation=Annotated[_type(parameter), _declaration(parameter, rich)],
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


def _declaration(parameter: Parameter, rich: bool) -> Any:
    declared = parameter.declared
    words = _mark(declared.help, rich)
    if isinstance(declared, Argument):
        return typer.Argument(help=words, metavar=declared.metavar, show_default=False)
    return typer.Option(
        *declared.names,
        help=words,
        metavar=None if declared.choices or not parameter.takes_value else declared.metavar,
        count=declared.count,
        min=declared.minimum,
        max=declared.maximum,
        show_default=parameter.takes_value and parameter.default not in (None, []),
        rich_help_panel=declared.panel,
    )


def _mark(text: str, rich: bool) -> str:
    """Help texts are plain: brackets in them must not be read as markup."""
    return re.sub(r"(\\*)(\[[a-z#/@][^[]*?])", r"\1\1\\\2", text) if rich else text


def _usage(name: str, text: str) -> UsageError:
    hint = f"{name} --help lists what it takes"
    if match := _POSSIBLE.search(text):
        names = ", ".join(match["names"].split(", "))
        text, hint = text[: match.start()], f"did you mean {names}?"
    text = text.strip().rstrip(".")
    return UsageError("SOW-CLI-003", text[:1].lower() + text[1:], hint=hint)
