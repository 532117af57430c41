"""The three streams of a run, what a person sees on them, and questions to that person.

Standard output is data, bytes: exact in a pipe or file, and safe to show on a terminal
(:mod:`sowctl.output.terminal`). Standard error is talk: UTF-8, one line feed at the end, made safe here whatever it
says. Nothing else writes to either of them.
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
    """The reader has left the pager before the end, and wants no more of it."""


class PagingStream(Protocol):
    """A stream in front of a terminal whose end shows only when the reader has left it."""

    @property
    def is_busy(self) -> bool:
        """True where something is on its way to the terminal, which other words would disturb or overtake."""
        ...

    def end(self, *, at_once: bool = False) -> None:
        """Wait for the reader, or with ``at_once`` for nobody."""
        ...


class Streams:
    """Standard input, output and error as binary streams, with the environment that says how to dress them.

    ``under`` takes away what stands in the last line of the terminal before something is said.
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
        # Of the streams of another run in this process its own is made safe anew.
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
        """Standard output, with the last line of the terminal free for what is written next.

        On a terminal all that could command it is written as visible text.
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
        """Standard output for text that has the program's own colours: the writer makes each datum in it safe."""
        if self.under is not None:
            self.under()
        return self._stdout

    def start_paging(self, make: Callable[[BinaryIO], PagingStream | None]) -> None:
        """Put a pager in front of standard output, if there is none yet and ``make`` makes one."""
        if self._pager is None and (pager := make(self._stdout)) is not None:
            self._pager = pager
            self._stdout = cast(BinaryIO, pager)

    def end_paging(self, *, at_once: bool = False) -> None:
        """Wait until the reader has left the pager; then what was to be said meanwhile is said."""
        if self._pager is None:
            return
        try:
            self._pager.end(at_once=at_once)
        finally:
            # Runs also if the reader quit the pager early: the terminal is free again.
            self._write_stderr_bytes(b"".join(self._unsaid))
            self._unsaid.clear()

    def shows_color(self, stream: BinaryIO) -> bool:
        """True where colour belongs on ``stream``: by --color, NO_COLOR, CLICOLOR_FORCE, FORCE_COLOR, then TERM."""
        if self.color != "auto":
            return self.color == "always"
        if self.environ.get("NO_COLOR") or self.environ.get("TERM") == "dumb":
            return False
        if any(self.environ.get(name, "0") not in ("", "0") for name in ("CLICOLOR_FORCE", "FORCE_COLOR")):
            return True
        return is_terminal(stream)

    def style_text(self, kind: str, text: str) -> str:
        """``text`` in the colour of ``kind`` where standard error shows colours."""
        return self.paint_text(kind, text) if self.shows_color(self.stderr) else text

    @staticmethod
    def paint_text(kind: str, text: str) -> str:
        """``text`` in the colour of ``kind``: error, warning, hint, note or bold."""
        return f"\x1b[{_STYLES[kind]}m{text}\x1b[0m"

    def write_stderr(self, *lines: str) -> None:
        """Write lines to standard error, each made safe to show. A standard error that is gone is no reason to stop."""
        from sowctl.output.display import escape_line

        self.write_stderr_painted("\n".join(map(escape_line, lines)))

    def fold_lines(self, lines: Sequence[str]) -> list[str]:
        """The lines made safe to show; on a terminal broken between words where they are longer than it."""
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

        The text is already safe to show.
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
        """As :meth:`write_stderr`, of text in the program's own colours: the caller makes each datum in it safe."""
        # A name may hold bytes that are not UTF-8; they are shown, and are no reason to fail.
        line = text.encode("utf-8", "backslashreplace") + b"\n"
        if self._pager is not None and self._pager.is_busy:
            self._unsaid.append(line)
            return
        if self.under is not None:
            self.under()
        self._write_stderr_bytes(line)

    def draw_line(self, text: str) -> bool:
        """Write ``text`` over the last line of the terminal behind standard error; whether that was possible."""
        from sowctl.output.display import clip_text, escape_line

        # A line that goes on below would be erased in part only.
        shown = clip_text(escape_line(text), self.measure_columns(self.stderr) - 1)
        try:
            self.stderr.write(b"\r\x1b[K" + shown.encode("utf-8", "backslashreplace"))
            self.stderr.flush()
        except (OSError, ValueError):
            return False
        return True

    def ask_line(self, question: str) -> bytes:
        """One line of the person at the terminal, with its line feed; nothing at the end of the input."""
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
        """The encoding of the terminal as the locale variables name it; UTF-8 where they say nothing else."""
        # The first that is set decides, as for every other program.
        for name in ("LC_ALL", "LC_CTYPE", "LANG"):
            if locale := self.environ.get(name):
                codeset = locale.partition(".")[2].partition("@")[0]
                return _find_codec(codeset) if codeset else "ascii" if locale in ("C", "POSIX") else "utf-8"
        return "utf-8"

    def measure_columns(self, stream: BinaryIO | None = None) -> int:
        """The width of the terminal behind standard output or another stream: COLUMNS, else what the terminal says,
        else 80."""
        if (wanted := self.environ.get("COLUMNS", "")).isdecimal() and int(wanted) > 0:
            return int(wanted)
        try:
            return os.get_terminal_size((self.stdout if stream is None else stream).fileno()).columns or 80
        except (OSError, ValueError, AttributeError):
            return 80

    def probe_stdout(self) -> None:
        """Find out whether standard output takes anything, for what cannot be taken back once it is to be printed.

        Raises OSError where nothing can be written, BrokenPipeError where nobody reads it any more.
        """
        import select

        try:
            number = self.stdout.fileno()
        except OSError:
            # One that was closed before the start says so when it is written to; any other is a caller's own.
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
        """True where :meth:`confirm` has to be called: not with ``yes``, else where there is a person to ask. ``look``
        is how to see beforehand what would happen.

        Raises :class:`~sowctl.errors.RefusedError` ``SOW-CLI-007`` where there is no terminal to ask on.
        """
        if yes:
            return False
        # Standard output is not asked: it is data, and may be on its way into a file while a person watches.
        if not (is_terminal(self.stdin) and is_terminal(self.stderr)):
            raise RefusedError(
                "SOW-CLI-007",
                "the command deletes data, and requires confirmation on a terminal",
                hint=f"add --yes, or check first with {look}",
            )
        return True

    def confirm(self, question: str) -> None:
        """Ask on the terminal. Raises RefusedError ``SOW-CLI-008`` where the answer is not yes."""
        answer = self.ask_line(f"{question}? [y/N] ").strip().lower()
        # An empty line, and the end of the input, are a no.
        if answer not in (b"y", b"yes"):
            raise RefusedError("SOW-CLI-008", "not confirmed; nothing was changed")


class ClosedInput(io.BytesIO):
    """Stands for a standard input that was closed before the start: nothing can be read, and a command may say so."""


def is_terminal(stream: BinaryIO) -> bool:
    """True where ``stream`` is a terminal; false for a closed one."""
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
