"""The three streams of a run, their appearance on a terminal, and questions to the user.

Standard output is data, bytes: exact in a pipe or file, and escaped on a terminal (:mod:`sowctl.output.terminal`).
Standard error is messages: UTF-8, one line feed at the end, always escaped here. No other code writes to either of
them.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

from sowctl.errors import RefusedError

if TYPE_CHECKING:
    from sowctl.output.terminal import SafeTerminal

_STYLES = {"error": "1;31", "warning": "1;33", "hint": "36", "note": "2", "bold": "1"}


class PagerLeft(BrokenPipeError):
    """The user has left the pager before the end of the output."""


class PagingStream(Protocol):
    """A stream to a terminal that ends only when the user has left it."""

    @property
    def is_busy(self) -> bool:
        """True if output is on its way to the terminal, which other messages would disturb or overtake."""
        ...

    def end(self, *, at_once: bool = False) -> None:
        """Wait for the user, or with ``at_once`` do not wait."""
        ...


class Streams:
    """Standard input, output and error as binary streams, with the environment that determines colours and widths.

    ``under`` erases the last line of the terminal before a message.
    """

    def __init__(
        self,
        stdin: BinaryIO,
        stdout: BinaryIO,
        stderr: BinaryIO,
        environ: Mapping[str, str],
        color: str = "auto",
    ) -> None:
        self.stdin = stdin
        # The stream of another run in this process is already wrapped: unwrap it, and wrap it again.
        self._stdout: BinaryIO = getattr(stdout, "stream", stdout)
        self._safe: SafeTerminal | None = None
        self.stderr = stderr
        self.environ = environ
        self.color = color
        self.under: Callable[[], None] | None = None
        self._pager: PagingStream | None = None
        self._unsaid: list[bytes] = []

    @property
    def stdout(self) -> BinaryIO:
        """Standard output, after erasing a progress line of the terminal.

        On a terminal, control characters are written as visible text.
        """
        out = self.painted_stdout
        if not is_terminal(out):
            return out
        if self._safe is None or self._safe.stream is not out:
            from sowctl.output.terminal import SafeTerminal

            self._safe = SafeTerminal(out)
        return cast(BinaryIO, self._safe)

    @property
    def painted_stdout(self) -> BinaryIO:
        """Standard output for text with the program's own colours: the writer escapes each value in it."""
        if self.under is not None:
            self.under()
        return self._stdout

    def start_paging(self, make: Callable[[BinaryIO], PagingStream | None]) -> None:
        """Start a pager for standard output, unless there is one or ``make`` returns none."""
        if self._pager is None and (pager := make(self._stdout)) is not None:
            self._pager = pager
            self._stdout = cast(BinaryIO, pager)

    def end_paging(self, *, at_once: bool = False) -> None:
        """Wait until the user has left the pager; then print the messages that were held back."""
        if self._pager is None:
            return
        try:
            self._pager.end(at_once=at_once)
        finally:
            # Runs even if the user left the pager early: the terminal is free again.
            self._write_stderr_bytes(b"".join(self._unsaid))
            self._unsaid.clear()

    def shows_color(self, stream: BinaryIO) -> bool:
        """True if colours are used on ``stream``: by --color, NO_COLOR, CLICOLOR_FORCE, FORCE_COLOR, then TERM."""
        if self.color != "auto":
            return self.color == "always"
        if self.environ.get("NO_COLOR") or self.environ.get("TERM") == "dumb":
            return False
        if any(self.environ.get(name, "0") not in ("", "0") for name in ("CLICOLOR_FORCE", "FORCE_COLOR")):
            return True
        return is_terminal(stream)

    def style_text(self, kind: str, text: str) -> str:
        """``text`` in the colour of ``kind`` if standard error has colours."""
        return self.paint_text(kind, text) if self.shows_color(self.stderr) else text

    @staticmethod
    def paint_text(kind: str, text: str) -> str:
        """``text`` in the colour of ``kind``: error, warning, hint, note or bold."""
        return f"\x1b[{_STYLES[kind]}m{text}\x1b[0m"

    def write_stderr(self, *lines: str) -> None:
        """Write lines to standard error, each escaped. A closed standard error is ignored."""
        from sowctl.output.display import escape_line

        self.write_stderr_painted("\n".join(map(escape_line, lines)))

    def fold_lines(self, lines: Sequence[str]) -> list[str]:
        """The lines, escaped; on a terminal, longer lines are broken between words."""
        from sowctl.output.display import escape_line

        shown = list(map(escape_line, lines))
        if not is_terminal(self.stderr) or max(map(len, shown), default=0) <= (
            columns := self.measure_columns(self.stderr)
        ):
            return shown
        from sowctl.output.facts import wrap_list_line

        return [part for line in shown for part in wrap_list_line(line, columns)]

    def fold_labelled(self, style: str, label: str, text: str, indent: str = "") -> list[str]:
        """``label: text``, the label in a style; on a terminal broken between words, never within one, such as a path.

        The text is already escaped.
        """
        lines = [f"{indent}{label}: {text}"]
        if is_terminal(self.stderr) and len(lines[0]) > (columns := self.measure_columns(self.stderr)):
            from sowctl.output.facts import wrap_words

            lines = list(wrap_words(lines[0][len(indent) :], columns, indent, indent + "  "))
        return [lines[0].replace(label, self.style_text(style, label), 1), *lines[1:]]

    def write_stderr_json(self, row: Mapping[str, object]) -> None:
        """Write an object to standard error as one line of JSON: ASCII without control characters."""
        from sowctl.values.jsonline import format_json_line

        self.write_stderr_painted(format_json_line(row))

    def write_stderr_painted(self, text: str) -> None:
        """As :meth:`write_stderr`, for text with the program's own colours: the caller escapes each value in it."""
        # A name may contain bytes that are not UTF-8; they are shown, and must not cause a failure.
        line = text.encode("utf-8", "backslashreplace") + b"\n"
        if self._pager is not None and self._pager.is_busy:
            self._unsaid.append(line)
            return
        if self.under is not None:
            self.under()
        self._write_stderr_bytes(line)

    def draw_line(self, text: str) -> bool:
        """Write ``text`` over the last line of standard error's terminal; return whether that was possible."""
        from sowctl.output.display import clip_text, escape_line

        # Only a part of a line that wraps could be erased.
        shown = clip_text(escape_line(text), self.measure_columns(self.stderr) - 1)
        try:
            self.stderr.write(b"\r\x1b[K" + shown.encode("utf-8", "backslashreplace"))
            self.stderr.flush()
        except (OSError, ValueError):
            return False
        return True

    def ask_line(self, question: str) -> bytes:
        """Read one line from the user at the terminal, with its line feed; empty at the end of the input."""
        from sowctl.output.display import escape_line

        self.stderr.write(escape_line(question).encode("utf-8", "backslashreplace"))
        self.stderr.flush()
        return self.stdin.readline()

    def _write_stderr_bytes(self, lines: bytes) -> None:
        try:
            self.stderr.write(lines)
            self.stderr.flush()
        except (OSError, ValueError):
            pass

    def find_encoding(self) -> str:
        """The encoding of the terminal by the locale variables; UTF-8 by default."""
        # The first variable that is set decides, as in other programs.
        for name in ("LC_ALL", "LC_CTYPE", "LANG"):
            if locale := self.environ.get(name):
                codeset = locale.partition(".")[2].partition("@")[0]
                return _find_codec(codeset) if codeset else "ascii" if locale in ("C", "POSIX") else "utf-8"
        return "utf-8"

    def measure_columns(self, stream: BinaryIO | None = None) -> int:
        """The width of the terminal of standard output or another stream: COLUMNS, else the terminal's own, else 80."""
        if (wanted := self.environ.get("COLUMNS", "")).isdecimal() and int(wanted) > 0:
            return int(wanted)
        try:
            return os.get_terminal_size((self.stdout if stream is None else stream).fileno()).columns or 80
        except (OSError, ValueError, AttributeError):
            return 80

    def probe_stdout(self) -> None:
        """Check that standard output is writable, before an irreversible operation whose result will be printed.

        Raises OSError if it is not writable, BrokenPipeError if its reader has closed it.
        """
        import select

        try:
            number = self.stdout.fileno()
        except OSError:
            # One that was closed before the start fails when it is written; any other is a caller's own.
            raw = getattr(self.stdout, "raw", None)
            if raw is not None:
                raw.write(b"")
            return
        poll = select.poll()
        poll.register(number, 0)
        if any(events & select.POLLERR for _, events in poll.poll(0)):
            raise BrokenPipeError
        os.write(number, b"")

    def must_confirm(self, *, yes: bool, look: str = "--dry-run") -> bool:
        """True if :meth:`confirm` must be called: not with ``yes``, else if there is a user to ask. ``look`` is the
        option that shows the effect beforehand.

        Raises :class:`~sowctl.errors.RefusedError` ``SOW-CLI-007`` if there is no terminal to ask on.
        """
        if yes:
            return False
        # Standard output does not matter: it is data, and may go to a file while the user watches.
        if not (is_terminal(self.stdin) and is_terminal(self.stderr)):
            raise RefusedError(
                "SOW-CLI-007",
                "the command deletes data, and requires confirmation on a terminal",
                hint=f"add --yes, or check first with {look}",
            )
        return True

    def confirm(self, question: str) -> None:
        """Ask on the terminal. Raises RefusedError ``SOW-CLI-008`` unless the answer is yes."""
        answer = self.ask_line(f"{question}? [y/N] ").strip().lower()
        # An empty line and the end of the input count as no.
        if answer not in (b"y", b"yes"):
            raise RefusedError("SOW-CLI-008", "not confirmed; nothing was changed")


class ClosedInput(io.BytesIO):
    """Replaces a standard input that was closed before the start: it cannot be read, and a command may report that."""


def is_terminal(stream: BinaryIO) -> bool:
    """True if ``stream`` is a terminal; false for a closed one."""
    try:
        return stream.isatty()
    except ValueError:
        return False


def _find_codec(codeset: str) -> str:
    import codecs

    try:
        return codecs.lookup(codeset).name
    except LookupError:
        return "utf-8"
