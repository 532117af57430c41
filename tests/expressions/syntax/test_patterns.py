"""Patterns: the plain texts that need no engine agree with the engine, and bytes stay bytes."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl import pcre
from sowctl.expressions.syntax.errors import ExpressionError, MatchLimitExceededError
from sowctl.expressions.syntax.nodes import Pattern
from sowctl.expressions.syntax.patterns import PlainPattern, RegexPattern, compile_pattern
from tests.support.examples import examples

PIECES = [
    "a",
    "b",
    "ab",
    " ",
    "é",
    "\\.",
    "\\$",
    "\\\\",
    "-",
    "/",
    "\n",
    "\\n",
    ".",
    "*",
    "+?",
    "(a|b)",
    "[ab]",
    "^",
    "$",
]
SOURCES = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join)
SUBJECTS = st.text("ab .$\\-/\né", max_size=8).map(str.encode) | st.binary(max_size=6)


def compiled(source: str) -> PlainPattern | RegexPattern | None:
    return compile_pattern(Pattern(source.encode(), False), "")


@given(SOURCES, SUBJECTS)
@settings(max_examples=examples(400))
def test_plain_texts_agree_with_the_engine(source: str, subject: bytes) -> None:
    try:
        engine = RegexPattern(source.encode())
    except Exception:
        with pytest.raises(ExpressionError):
            compiled(source)
        return
    matcher = compiled(source)
    assert matcher is not None
    assert matcher.is_found(subject) == engine.is_found(subject)
    assert list(matcher.find_spans(subject)) == list(engine.find_spans(subject))


@given(SUBJECTS.filter(bool), SUBJECTS)
def test_raw_strings_are_looked_for_as_they_are(text: bytes, subject: bytes) -> None:
    matcher = compile_pattern(Pattern(text, True), "")
    assert matcher is not None
    assert matcher.is_found(subject) == (text in subject)
    assert len(list(matcher.find_spans(subject))) == subject.count(text)


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("abc", PlainPattern),
        ("^abc", PlainPattern),
        ("abc$", PlainPattern),
        ("^a\\.b$", PlainPattern),
        ("é", PlainPattern),
        ("a.c", RegexPattern),
        ("a|b", RegexPattern),
        ("^", RegexPattern),
        ("\\Aa", RegexPattern),
        ("a\\n", RegexPattern),
        ("(?i)a", RegexPattern),
        ("a{2}", RegexPattern),
    ],
)
def test_what_needs_the_engine(source: str, kind: type) -> None:
    assert type(compiled(source)) is kind


def test_the_empty_pattern_is_null() -> None:
    assert compiled("") is None


@pytest.mark.parametrize(
    ("source", "subject", "expected"),
    [
        ("(?<x>a)\\k<x>", b"aa", True),
        ("(a)\\1", b"aa", True),
        ("a++b", b"aab", True),
        ("(?>a*)ab", b"aab", False),
        ("(?<!x)a", b"xa", False),
        ("(?s)a.b", b"a\nb", True),
        ("(?m)^b", b"a\nb", True),
        ("\\bb", b"a b", True),
        ("\\x{61}", b"a", True),
        (".", b"\xff", True),
        ("^..$", "é".encode(), True),
        ("(?i)É", "é".encode(), False),
        ("\\w", "é".encode(), False),
        ("a\\Kb", b"ab", True),
    ],
)
def test_default_options_over_bytes(source: str, subject: bytes, expected: bool) -> None:
    matcher = compiled(source)
    assert matcher is not None
    assert matcher.is_found(subject) is expected


@pytest.mark.parametrize("source", ["(*UTF)a", "(*UCP)a", "(?<=a*)b", "[b-a]", "\\k<nope>", "a{3,2}", "(", "\\p{Nope}"])
def test_rejected_patterns(source: str) -> None:
    text = f"/a LIKE '{source}'"
    with pytest.raises(ExpressionError) as caught:
        compile_pattern(Pattern(source.encode(), False, span=(8, len(text))), text)
    assert (caught.value.code, caught.value.column) == ("SOW-EXP-016", 9)


def test_limits_are_errors_and_the_small_stack_is_none() -> None:
    for source in ("^(a|aa)+$", "(*NO_JIT)^(a|aa)+$"):
        with pytest.raises(MatchLimitExceededError):
            RegexPattern(source.encode()).is_found(b"a" * 50 + b"!")
        with pytest.raises(MatchLimitExceededError):
            list(RegexPattern(source.encode()).find_spans(b"a" * 50 + b"!"))
        with pytest.raises(MatchLimitExceededError):
            RegexPattern(source.encode()).extract_groups(b"a" * 50 + b"!")
    assert RegexPattern(b"^(a|b)*$").is_found(b"ab" * 200_000)
    assert list(RegexPattern(b"(?:(a)|b)+$").find_spans(b"ab" * 20_000)) == [(0, 40_000)]


def test_other_errors_of_the_engine_are_not_taken_for_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise pcre.LibraryError(-48)

    pattern = RegexPattern(b"(a)")
    monkeypatch.setattr(pcre, "substitute_all", refuse)
    with pytest.raises(pcre.LibraryError):
        pattern.extract_groups(b"a")


def test_plain_texts_do_not_load_the_engine() -> None:
    program = (
        "import sys; from sowctl.expressions.compiler import compile_filter;"
        "compile_filter(\"/a LIKE '^x' AND /b LIKE 'y$' AND /c LIKE r'.*' AND /d BEGINS WITH 'z'\");"
        "sys.exit(any(name in sys.modules for name in ('pcre2', 'lark', 'numpy', 'fractions', 'hashlib')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@given(st.binary(max_size=30))
def test_captured_is_the_first_group_of_every_match(subject: bytes) -> None:
    assert RegexPattern(rb"[\x00-\x7f]([^a]?)b*").extract_groups(subject) == b"".join(
        re.findall(rb"[\x00-\x7f]([^a]?)b*", subject, re.DOTALL)
    )
