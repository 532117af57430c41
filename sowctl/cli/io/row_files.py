"""Options of inputs of rows on the command line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sowctl.errors import UsageError

if TYPE_CHECKING:
    from sowctl.arrow.inputs.input_formats import InputOptions

_DELIMITER_NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}
"""Names of characters that are difficult to type on a command line."""
_FORBIDDEN_DELIMITERS = frozenset('"\\\r\n\0\ufeff')


def parse_types(texts: Sequence[str]) -> dict[str, str]:
    """Parse ``--type COLUMN=KIND``. Raises UsageError ``SOW-EXC-010``."""
    if not texts:
        return {}
    from sowctl.arrow.inputs.rows import TEXT_KINDS
    from sowctl.cli.parsing.synonyms import TYPE_SYNONYMS

    found: dict[str, str] = {}
    for text in texts:
        column, _, kind = text.rpartition("=")
        if not column or kind not in TEXT_KINDS:
            known = TYPE_SYNONYMS.get(kind.lower())
            hint = f"use for example --type qty=integer; types: {', '.join(TEXT_KINDS)}"
            hint = f"did you mean --type {column}={known}?" if column and known else hint
            raise UsageError("SOW-EXC-010", f"--type {text!r} is not COLUMN=TYPE", hint=hint)
        if "," in column and "=" in column:
            hint = "give --type once per column: --type id=integer --type qty=integer"
            raise UsageError("SOW-EXC-010", f"--type {text!r} names several columns", hint=hint)
        found[column.removeprefix("/")] = kind
    return found


def parse_delimiter(text: str | None) -> str | None:
    """Parse ``--delimiter``. Raises UsageError ``SOW-EXC-010``."""
    if text is None:
        return None
    delimiter = _DELIMITER_NAMES.get(text, text)
    if len(delimiter) != 1 or delimiter in _FORBIDDEN_DELIMITERS:
        words = f"--delimiter {delimiter!r} is not a single valid character"
        raise UsageError("SOW-EXC-010", words, hint="use for example ';', '|' or tab")
    return delimiter


def refuse_foreign_options(options: InputOptions, names: Iterable[str], given: Sequence[tuple[str, bool, str]]) -> None:
    """Reject options, each with whether it is given and its formats, that no input of rows supports.

    Raises UsageError ``SOW-EXC-010``.
    """
    from sowctl.arrow.inputs.input_formats import choose_format

    formats = [choose_format(name, options.format) for name in names]
    for option, is_given, takes in given:
        if not is_given:
            continue
        if not formats:
            hint = "add --format, for example --format csv, or name a file that ends in .csv"
            raise UsageError("SOW-EXC-010", f"{option} requires an input of rows", hint=hint)
        if any(one is not None and one not in takes.split() for one in formats):
            words = f"{option} is only for {takes.replace(' ', ' and ')}"
            why = ": other files declare the types of their columns" if option == "--type" else ""
            raise UsageError("SOW-EXC-010", words + why)
