"""Standard output for rich: tables and charts for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import TYPE_CHECKING, BinaryIO

from sowctl.output.options import Terminal

if TYPE_CHECKING:
    from rich.console import Console


@contextmanager
def open_console(out: BinaryIO, terminal: Terminal, encoding: str) -> Iterator[Console]:
    """A console of rich on a stream, with the terminal's width and colours.

    Raises the errors of writing, including BrokenPipeError, for which rich itself would end the process.
    """
    from rich.console import Console

    class _Console(Console):
        def on_broken_pipe(self) -> None:
            # Called while that error is handled; the caller handles it.
            raise

    text = TextIOWrapper(out, encoding, "backslashreplace", newline="\n", write_through=True)
    try:
        yield _Console(
            file=text,
            width=terminal.columns,
            force_terminal=terminal.colored,
            color_system="auto" if terminal.colored else None,
            no_color=not terminal.colored,
            legacy_windows=False,
        )
    finally:
        # Otherwise the wrapper would close standard output when it is collected.
        text.detach()
