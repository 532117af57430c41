"""Split lines into words as a POSIX shell does: quotation marks, backslashes, comments; no other shell syntax.

Variables, patterns and ``~`` are literal. Characters that a shell interprets as a pipe, a redirection or the end of a
command are rejected outside quotation marks: the meaning of an unquoted filter ``/qty > 5`` must not be guessed.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from sowctl.errors import UsageError

_SPECIAL_CHARACTERS = frozenset("|&;<>()`")
_ESCAPABLE_CHARACTERS = frozenset('$`"\\')
"""Characters that a backslash escapes within double quotation marks; before others it is literal."""

_MAX_SHOWN_CHARACTERS = 200
"""Maximum characters of a command in an error message."""


class Word(Struct):
    """A word, and its offset in the text. ``open`` is the unterminated quotation mark, if any."""

    text: str
    start: int
    open: str = ""


class Unfinished(Exception):
    """A quotation mark is open, or the text ends with a backslash: the command continues in the next line."""


class _WordCutter:
    """Splits a text once: all of it, or line by line as lines arrive (``text`` None, then :meth:`feed_lines`)."""

    def __init__(self, text: str | None = None) -> None:
        self.text = ""
        self.words: list[Word] = []
        self.open = ""
        self.joined = False
        self._before = 0
        self._word: Word | None = None
        # Letters of the last word, joined at its end: a string would be copied for each letter.
        self._letters: list[str] = []
        if text is not None:
            self.feed_lines(text)
            self._end_word()

    def feed_lines(self, text: str) -> None:
        """Continue with the next lines; open quotation marks stay open. Raises UsageError ``SOW-CLI-102``."""
        self._before += len(self.text)
        self.text, self.joined = text, False
        self._cut_words()

    def _cut_words(self) -> None:
        at, text = 0, self.text
        while at < len(text):
            letter = text[at]
            if self.open:
                at = self._read_quoted(at, letter)
            elif letter == "\\":
                # At the end of a line it joins this with the next one, which may not have arrived yet.
                self.joined = at + 1 == len(text) or (text[at + 1] == "\n" and at + 2 == len(text))
                if at + 1 < len(text) and text[at + 1] != "\n":
                    self._add_letters(at, text[at + 1])
                at += 2
            elif letter.isspace():
                self._end_word()
                at += 1
            elif letter == "#" and self._word is None:
                end = text.find("\n", at)
                at = len(text) if end < 0 else end
            elif letter in "'\"":
                self._add_letters(at, "")
                self.open = letter
                at += 1
            elif letter in _SPECIAL_CHARACTERS:
                raise _build_shell_error(text, at)
            else:
                self._add_letters(at, letter)
                at += 1
        if self._word is not None:
            self._word.open = self.open

    def _end_word(self) -> None:
        if self._word is not None:
            self._word.text = "".join(self._letters)
        self._word, self._letters = None, []

    def _read_quoted(self, at: int, letter: str) -> int:
        if letter == self.open:
            self.open = ""
            return at + 1
        following = self.text[at + 1 : at + 2]
        if letter == "\\" and self.open == '"' and following in {*_ESCAPABLE_CHARACTERS, "\n"} and following:
            self._add_letters(at, "" if following == "\n" else following)
            return at + 2
        self._add_letters(at, letter)
        return at + 1

    def _add_letters(self, at: int, letters: str) -> None:
        if self._word is None:
            self._word = Word("", self._before + at)
            self.words.append(self._word)
        self._letters.append(letters)


def split_words(text: str) -> list[str]:
    """The words of a command. Raises Unfinished, and UsageError ``SOW-CLI-102`` for shell syntax."""
    cut = _WordCutter(text)
    if cut.open or cut.joined:
        raise Unfinished
    return [word.text for word in cut.words]


def split_last_word(text: str) -> tuple[list[str], Word]:
    """The words before the last one, and the last one, which is empty after a blank. Raises UsageError."""
    cut = _WordCutter(text)
    if not cut.words or (not cut.open and text[-1:].isspace()):
        return [word.text for word in cut.words], Word("", len(text))
    *before, last = cut.words
    return [word.text for word in before], last


def quote_word(text: str, mark: str, *, finished: bool) -> str:
    """A text, quoted if necessary so that it is one word.

    ``mark`` is the quotation mark that it was begun with, if any. Unless ``finished``, the closing mark is omitted.
    """
    if not mark and text and not set(text) & {*_SPECIAL_CHARACTERS, *"'\"\\#"} and not any(map(str.isspace, text)):
        return text
    if mark == "'" and "'" not in text:
        return f"'{text}" + ("'" if finished else "")
    inner = "".join("\\" + letter if letter in _ESCAPABLE_CHARACTERS else letter for letter in text)
    return f'"{inner}' + ('"' if finished else "")


def iterate_commands(lines: Iterator[str]) -> Iterator[tuple[int, str]]:
    """The commands of a script, each with the number of its first line; a quotation mark may span lines."""
    number = 0
    for line in lines:
        number += 1
        first, text, cut = number, [line], _WordCutter()
        try:
            cut.feed_lines(line)
            # Each line is scanned once: an open mark in a long script must not cause a scan from its beginning for
            # every line.
            while (cut.open or cut.joined) and (following := next(lines, None)) is not None:
                text.append(following)
                number += 1
                cut.feed_lines(following)
        except UsageError:
            # Shell syntax ends the command here. The runner splits its words again and reports this error.
            pass
        yield first, "".join(text)


def is_unfinished(text: str) -> bool:
    """True if a command is unfinished at the end of ``text``: a quotation mark is open, or a backslash ends it."""
    try:
        split_words(text)
    except Unfinished:
        return True
    except UsageError:
        pass
    return False


def build_unfinished_error(text: str) -> UsageError:
    """The error of a command with an open quotation mark at the end of the input; its first line is shown."""
    words = "incomplete last command: a quote is open, or the line ends with a backslash"
    if lines := text.rstrip("\n").count("\n"):
        words += f"; it includes {lines:,} more lines" if lines > 1 else "; it includes the next line"
    excerpt = text.partition("\n")[0][:_MAX_SHOWN_CHARACTERS]
    return UsageError("SOW-CLI-102", words, hint="close the quote with the same character", excerpt=excerpt)


def _build_shell_error(text: str, at: int) -> UsageError:
    begin = text.rfind("\n", 0, at) + 1
    line = text[begin:].partition("\n")[0]
    return UsageError(
        "SOW-CLI-102",
        f"unexpected '{text[at]}' outside of quotes",
        hint="quote filters; to write into a file, use --output FILE",
        excerpt=f"{line}\n{' ' * (at - begin)}^",
    )
