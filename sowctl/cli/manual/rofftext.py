"""The source of a manual page as plain text, if neither man(1), mandoc(1) nor groff(1) is installed.

It supports the requests, macros and escapes that the pages in ``man/`` use; a test fails for a page that uses another
one. Called only by :mod:`sowctl.cli.manual.viewer`.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

_SPECIAL_CHARACTERS = {
    "aq": "'", "ga": "`", "ha": "^", "ti": "~", "bu": "*", "em": "--", "en": "-", "lq": '"', "rq": '"', "dq": '"',
    "rs": "\\", "<=": "<=", ">=": ">=", "->": "->", "mu": "x",
}  # fmt: skip
"""Special characters by their two-letter names."""
_ESCAPE_PATTERN = re.compile(
    r"\\(?:f(?:\[[^\]]*\]|\(..|.)|\((?P<two>..)|\[(?P<long>[^\]]*)\]|s[+-]?\d|(?P<one>.)|$)", re.DOTALL
)
_ARGUMENT_PATTERN = re.compile(r'"([^"]*)"|((?:\\.|[^\s\\])+)')
_SIGN_ESCAPES = {
    "-": "-",
    "e": "\\",
    "&": "",
    ":": "",
    "~": " ",
    " ": " ",
    "0": " ",
    "%": "",
    "/": "",
    ",": "",
    "|": "",
}
_SILENT_REQUESTS = frozenset({"nh", "hy", "ad", "na", "PD", "YS"})
_PLAIN_FONTS = frozenset({"B", "I", "SM", "SB"})
_MIXED_FONTS = frozenset({"BR", "RB", "IR", "RI", "BI", "IB"})
_TEXT_COLUMN = 7
"""Column of running text."""
_TAG_INDENT_COLUMNS = 7
"""Indentation of the text of a tag, relative to the tag."""


class UnknownMacroError(ValueError):
    """A line of a page that this module does not support."""


def format_text(source: str, columns: int = 80) -> str:
    """The page as text of ``columns``. Raises :class:`UnknownMacroError` for an unsupported macro."""
    return "\n".join(_Page(columns).format_lines(source)) + "\n"


def decode_escapes(text: str) -> str:
    """A text line without escapes: fonts are dropped, special characters are decoded."""

    def plain(match: re.Match[str]) -> str:
        name = match["two"] or match["long"]
        if name is not None:
            # An error instead of a guess: a test formats every page, so new characters are added to the table.
            if name not in _SPECIAL_CHARACTERS:
                raise UnknownMacroError(f"\\({name}")
            return _SPECIAL_CHARACTERS[name]
        one = match["one"]
        if one is None:
            return ""
        if one not in _SIGN_ESCAPES:
            raise UnknownMacroError(f"\\{one}")
        return _SIGN_ESCAPES[one]

    return _ESCAPE_PATTERN.sub(plain, text.partition('\\"')[0] if '\\"' in text else text)


class _Page:
    """The state of one page: the words of the unfinished paragraph, and its indentation."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.words: list[str] = []
        self.tag: str | None = None
        self.awaits_tag = False
        self.nested = 0
        self.hanging = 0
        self.verbatim = False

    def format_lines(self, source: str) -> Iterator[str]:
        rows = iter(source.splitlines())
        for row in rows:
            # A leading ``\&`` marks the dot as text.
            if row.startswith((".", "'")) and not row.startswith("\\&"):
                yield from self.apply_request(row[1:], rows)
            elif self.verbatim:
                yield (" " * (self.indent + 4) + decode_escapes(row)).rstrip()
            else:
                yield from self.add_text(decode_escapes(row))
        yield from self.flush_paragraph()

    @property
    def indent(self) -> int:
        """The column of running text."""
        return _TEXT_COLUMN + 4 * self.nested + self.hanging

    def add_text(self, words: str) -> Iterator[str]:
        """A line of running text, or the line that becomes a tag."""
        # The line after ``.TP`` is always the tag.
        if self.awaits_tag:
            self.awaits_tag, self.tag = False, words
        elif words.strip():
            self.words.append(words)
        else:
            yield from self.flush_paragraph()
            yield ""

    def flush_paragraph(self) -> Iterator[str]:
        """Yield the finished paragraph, with its tag before it, or beside it if the tag is short."""
        rows = textwrap.wrap(
            " ".join(self.words), max(20, self.columns - self.indent), break_on_hyphens=False, break_long_words=False
        )
        self.words.clear()
        if self.tag is not None:
            front = " " * (self.indent - self.hanging) + self.tag
            self.tag = None
            # As in man(1): a short tag shares the first line of its text, a long one has a line of its own.
            if rows and len(front) < self.indent:
                yield front.ljust(self.indent) + rows.pop(0)
            else:
                yield front
        yield from (" " * self.indent + row for row in rows)

    def apply_request(self, line: str, rows: Iterator[str]) -> Iterator[str]:
        """Apply a macro or request, with the lines that belong to it."""
        name, _, rest = line.strip().partition(" ")
        if name.startswith('\\"') or name in _SILENT_REQUESTS or not name:
            return
        if name in _PLAIN_FONTS or name in _MIXED_FONTS:
            yield from self.add_text(decode_escapes(_read_words(line.strip(), mark="")))
        elif name == "br":
            yield from self.flush_paragraph()
        elif name == "TS":
            yield from self.flush_paragraph()
            yield from self.format_table(rows)
        else:
            yield from self.start_paragraph(name, [decode_escapes(word) for word in _split_arguments(rest)])

    def start_paragraph(self, name: str, words: list[str]) -> Iterator[str]:
        """Apply a macro that ends the previous paragraph."""
        yield from self.flush_paragraph()
        if name == "TH":
            head = f"{words[0].upper()}({words[1]})"
            yield f"{head}{'sowctl manual':^{max(0, self.columns - 2 * len(head))}}{head}"
        elif name in ("SH", "SS"):
            # A heading ends all indentation before it.
            self.nested = self.hanging = 0
            yield from ("", (" " * 3 if name == "SS" else "") + " ".join(words))
        elif name in ("PP", "P", "LP", "SY"):
            self.hanging = 0
            yield ""
            if name == "SY":
                self.words += words
        elif name == "TP":
            self.hanging, self.awaits_tag = _TAG_INDENT_COLUMNS, True
            yield ""
        elif name == "IP":
            self.hanging, self.tag = (
                (4 if words and len(words[0]) < 3 else _TAG_INDENT_COLUMNS),
                words[0] if words else None,
            )
            yield ""
        elif name in ("RS", "RE"):
            self.nested = max(0, self.nested + (1 if name == "RS" else -1))
            self.hanging = 0
        elif name in ("nf", "EX", "fi", "EE"):
            self.verbatim = name in ("nf", "EX")
        else:
            raise UnknownMacroError(f".{name}")

    def format_table(self, rows: Iterator[str]) -> Iterator[str]:
        """The lines of a tbl(1) table up to ``.TE``, its columns as wide as their longest cell."""
        cells: list[list[str]] = []
        formats = True
        for row in rows:
            if row.startswith(".TE"):
                break
            # The first lines, which describe the columns, end with a point; rules between rows are not drawn.
            if formats or row in ("_", "="):
                formats = formats and not row.rstrip().endswith(".")
                continue
            # A cell in ``T{`` and ``T}`` may span several lines.
            while row.count("T{") > row.count("T}"):
                row = f"{row} {_read_words(next(rows))}"
            bare = (cell.strip().removeprefix("T{").removesuffix("T}").strip() for cell in row.split("\t"))
            cells.append([decode_escapes(cell) for cell in bare])
        count = max(map(len, cells), default=0)
        # The last column is not measured: its text is wrapped into the remaining width.
        widths = [max(len(row[at]) for row in cells if at < len(row)) for at in range(count)]
        yield ""
        for texts in cells:
            front = " " * _TEXT_COLUMN + "".join(cell.ljust(widths[at] + 2) for at, cell in enumerate(texts[:-1]))
            room = max(20, self.columns - len(front))
            last = textwrap.wrap(texts[-1], room, break_on_hyphens=False, break_long_words=False) or [""]
            yield (front + last[0]).rstrip()
            yield from (" " * len(front) + more for more in last[1:])


def _read_words(line: str, mark: str = ".") -> str:
    """A line of text unchanged; a font macro as the words that it prints."""
    name, _, rest = line.removeprefix(mark).partition(" ")
    if not line.startswith(mark) or name not in _PLAIN_FONTS | _MIXED_FONTS:
        return line
    return (" " if name in _PLAIN_FONTS else "").join(_split_arguments(rest))


def _split_arguments(rest: str) -> list[str]:
    """The arguments of a macro: quoted texts or words; a space after a backslash does not end a word."""
    return [quoted or word for quoted, word in _ARGUMENT_PATTERN.findall(rest)]
