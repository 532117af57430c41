"""Nothing that ``escape_line`` returns can steer a terminal."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowctl.output.display import (
    EXCERPT_CHARACTERS,
    clip_text,
    escape_json,
    escape_line,
    escape_lines,
    format_excerpt,
    measure_width,
)

HOSTILE = st.one_of(
    st.text(alphabet=st.characters(exclude_categories=[])),
    st.text(alphabet="\x1b\x00\x07\x7f\x85\x9b\u2028\u2029\u202e\u2066\u200f[31m]/redx\n\r\t"),
    st.binary(),
)


def unsafe(text: str) -> set[str]:
    """The characters of ``text`` that may not reach a terminal."""
    bidi = {"L", "R", "AL", "EN", "AN", "ES", "ET", "CS", "NSM", "B", "S", "WS", "ON", ""}
    return {
        c
        for c in text
        if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or unicodedata.bidirectional(c) not in (bidi | {"BN"})
    }


@given(HOSTILE)
@example("\x1b]0;title\x07")
@example(b"\xff\xfe\x9b31m")
def test_no_control_character_passes(data: bytes | str) -> None:
    assert unsafe(escape_line(data)) == set()


@given(HOSTILE)
def test_lines_keep_line_feeds_alone(data: bytes | str) -> None:
    assert unsafe(escape_lines(data)) <= {"\n"}


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_json_for_a_terminal_is_the_same_value_without_control_characters(text: str) -> None:
    shown = escape_json(json.dumps({"v": text}, ensure_ascii=False).encode())
    assert unsafe(shown.decode()) == set()
    assert json.loads(shown) == {"v": text}


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ("plain", "plain"),
        ("Zürich 東京", "Zürich 東京"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\x9b", "\\u009b"),
        ("\u202eabc", "\\u202eabc"),
        ("\U000e0041", "\\U000e0041"),
        (b"\xff\xc3\xa9", "\\xffé"),
        ("[red]x[/foo]", "[red]x[/foo]"),
    ],
)
def test_escapes(data: bytes | str, shown: str) -> None:
    assert escape_line(data) == shown


def test_json_keeps_its_line_feeds_and_tabs() -> None:
    assert escape_json(b'{\t"a":1}\n{"b":"\x7f"}\n') == b'{\t"a":1}\n{"b":"\\u007f"}\n'


@given(st.text(), st.integers(0, 30))
def test_clip_never_exceeds_its_room(text: str, columns: int) -> None:
    safe = escape_line(text)
    clipped = clip_text(safe, columns)
    assert measure_width(clipped) <= columns
    assert clipped == safe or measure_width(safe) > columns


def test_width_counts_wide_and_combining_characters() -> None:
    assert [measure_width("ab"), measure_width("東京"), measure_width("e\u0301")] == [2, 4, 1]


@pytest.mark.parametrize(
    ("text", "columns"),
    [("ที่นี่", 2), ("e\u0301", 1), ("日本", 4), ("हिन्दी", 3)],
)
def test_width_is_that_of_the_unicode_tables(text: str, columns: int) -> None:
    assert measure_width(text) == columns


def test_characters_without_width_are_shown() -> None:
    assert escape_line("a\u200bb\ufeffc\u2060") == "a\\u200bb\\ufeffc\\u2060"


@given(st.binary(max_size=400).map(lambda line: line.replace(b"\n", b"")), st.integers(0, 400))
@example(b"\x1b" * 300, 150)
@example("日本".encode() * 100, 90)
def test_an_excerpt_is_safe_and_its_caret_stands_under_the_place(line: bytes, at: int) -> None:
    text = line.decode("utf-8", "surrogateescape")
    at = min(at, len(text))
    shown, caret = format_excerpt(line, at + 1).split("\n")
    assert unsafe(shown) == set()
    assert set(caret) <= {" ", "^"}
    assert format_excerpt(line, None).isprintable() or unsafe(format_excerpt(line, None)) == set()
    begin = max(0, min(at - EXCERPT_CHARACTERS // 2, len(text) - EXCERPT_CHARACTERS))
    front = ("..." if begin else "") + escape_line(text[begin:at])
    assert shown.startswith(front)
    assert len(caret) - 1 == measure_width(front)
    assert len(text) <= EXCERPT_CHARACTERS or "..." in shown
