"""Pages as plain text: every page of the manual can be shown, with every word that groff shows."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sowctl.cli.manual.rofftext import UnknownMacroError, decode_escapes, format_text

MAN = Path(__file__).parents[2] / "man"
PAGES = sorted(path for path in MAN.iterdir() if path.suffix in (".1", ".5", ".7"))


def _words(text: str) -> list[str]:
    # a bullet is a star here but the letter o in groff's ASCII output
    return sorted(word for word in re.findall(r"[A-Za-z0-9][A-Za-z0-9/$@=<>_.:+-]*", text) if word != "o")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_page_can_be_shown(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    text = format_text(source)
    for section in re.findall(r'^\.SH "?([^"\n]+)', source, re.MULTILINE):
        assert f"\n{decode_escapes(section)}\n" in text
    assert not re.search(r"^\s*[.'][A-Z]{2} ", text, re.MULTILINE)
    assert not re.search(r"\\f[BRIP]", text)


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_no_word_is_lost(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    command = ["groff", "-t", "-man", "-Tascii", "-P-c", "-P-b", "-P-u", "-rHY=0", "-rLL=400n"]
    # lines of 400 columns, so that groff breaks no word over two lines
    shown = subprocess.run(command, input=source.encode(), capture_output=True, check=True).stdout.decode()
    body = shown.split("\n", 2)[2].rsplit("\n", 2)[0]
    mine = format_text(source, 400).split("\n", 1)[1]
    assert _words(mine) == _words(body)


def test_tags_tables_and_verbatim_lines() -> None:
    source = """'\\" t
.\\" a comment
.TH X 5 2026 y z
.SH NAME
x \\- it
.TP
.B a
short \\fItag\\fR
.TP
.B a\\-long\\-tag
after it
.RS
.IP \\(bu 2
inner
.RE
.nf
  kept   so
.fi
.TS
l l.
head\tmore
_
1\tT{
one
.IR two ,
T}
.TE
"""
    lines = [line for line in format_text(source, 60).split("\n") if line.strip()]
    assert lines[1:] == [
        "NAME",
        "       x - it",
        "       a      short tag",
        "       a-long-tag",
        "              after it",
        "           *   inner",
        "             kept   so",
        "       head  more",
        "       1     one two,",
    ]


@pytest.mark.parametrize("source", [".XX 1", "\\(zz", "\\q", ".TS\nl.\n\\(zz\n.TE"])
def test_what_it_does_not_know_is_refused(source: str) -> None:
    with pytest.raises(UnknownMacroError):
        format_text(source)
