"""Byte patterns that a message must contain for a filter to be true; searching for them first loses no record."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sowctl import pcre
from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.search.matcher import Matcher
from sowctl.engine.search.prefilter import (
    LiteralPattern,
    LiteralPatterns,
    build_number_pattern,
    build_text_pattern,
    find_needed_piece,
    list_literal_patterns,
)
from sowctl.expressions.compiler import compile_filter
from sowctl.expressions.environment import Environment
from sowctl.expressions.syntax.errors import MatchLimitExceededError
from sowctl.expressions.syntax.nodes import Like
from sowctl.expressions.syntax.parser import parse_filter
from sowctl.expressions.syntax.patterns import RegexPattern
from sowctl.messages.json.type import JsonType
from sowctl.store import codec, integrity
from sowctl.store.integrity import Marks
from sowctl.store.limits import STORE_LIMITS
from tests.support.examples import examples
from tests.support.instances import Lab, message

WORDS = ("red", "axb(", "a.b(", "green", 'a"b', "a\\b", "ünï", "a/b", "7", "", "\x7f")
COUNT = 90
SECRET = bytes(range(150, 162))


def fill(lab: Lab) -> None:
    lab.publish("t", *[message(id=n, v=n % 7, s=WORDS[n % len(WORDS)]) for n in range(COUNT)])


def found_by(lab: Lab, text: str) -> set[int]:
    return {json.loads(found)["id"] for found in lab.query("t", text)}


LOOKING = 4_000
"""Minimum number of records for a prefilter, unless the session's fixture sets it."""


@pytest.mark.parametrize("word", [word for word in WORDS if word])
def test_words_lose_no_record(lab: Lab, word: str) -> None:
    fill(lab)
    escaped = "".join(f"\\u{ord(character):04x}" for character in word)
    lab.publish("t", f'{{"id":-1,"s":"{escaped}"}}', message(id=-2, s=["x", word]), message(id=-3, s={"s": word}))
    literal = word.replace("\\", "\\\\")
    expected = {n for n in range(COUNT) if WORDS[n % len(WORDS)] == word} | {-1, -2}
    for text in (f"/s = '{literal}'", f"'{literal}' = /s AND /id < 100000", f"/s IN ('{literal}', 'absent')"):
        assert found_by(lab, text) == expected


def test_pieces_lose_no_record(lab: Lab) -> None:
    fill(lab)
    lab.publish("t", '{"id":-1,"s":"a\\u0062red"}', message(id=-2, s=["x", "redder"]), message(id=-3, s=True))
    red = {n for n in range(COUNT) if WORDS[n % len(WORDS)] == "red"}
    assert found_by(lab, "/s LIKE 'red'") == red | {-1, -2}
    assert found_by(lab, "/s LIKE '^red?'") == red | {-2}
    assert found_by(lab, "/s LIKE r'a/b'") == {n for n in range(COUNT) if WORDS[n % len(WORDS)] == "a/b"}
    assert found_by(lab, "/s LIKE '^1$'") == {-3}


def test_expired_records_do_not_push_others_out_of_their_places(lab: Lab) -> None:
    lab.publish("quotes", *[message(id=n, s="old") for n in range(20)])
    lab.clock.tick(20)
    lab.publish("quotes", *[message(id=n, s=("red", "green")[n % 2]) for n in range(20, 60)])
    for seconds, hidden in ((0, 0), (15, 20)):
        lab.clock.tick(seconds)
        result = lab.open().topic("quotes").query("/s = 'red'", index_from=None)
        assert {json.loads(record.payload)["id"] for record in result.records()} == set(range(20, 60, 2))
        assert result.statistics[0].examined == 60 - hidden


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/a = 'x'", ["x"]),
        ("'x' = /a AND (/b = 'y' AND /c <> 1) AND /d = 'x'", ["x", "y"]),
        ("/a IN ('x', 'y')", ["x|y"]),
        ("/a IN ('x', '5')", []),
        ("/a IN ('p', 'q', 'r', 's', 't', 'u', 'v')", []),
        ("/a IN ('x', 'y') AND /b = 'z' AND /c > 7", ["z", "x|y", "c:"]),
        ("/a NOT IN ('x', 'y')", []),
        ("/a = '1.5' AND /b = ' 7 '", ["a:", "b:"]),
        ("/a = 'x' OR /b = 'y'", []),
        ("NOT /a = 'x'", []),
        ("/a <> 'x' AND /b = '' AND /d = /e", []),
        ("/a = 'tab\t' AND /b = 'quote\"'", []),
        ("CONCAT(/a, 'x') = 'xx'", []),
        ("/a LIKE '^red'", ["red"]),
        ("/a LIKE '5'", ["5"]),
        ("/a LIKE '^1'", []),
        ("/a NOT LIKE 'red'", []),
        ("/a BEGINS WITH 'red' AND /b ENDS WITH ('x', 'yz')", ["red", "x|yz"]),
        ("/a BEGINS WITH ('red', '1')", []),
        ("/a ENDS WITH ('red', /b)", []),
        ("/a NOT ENDS WITH ('red', 'blue')", []),
        ("/a > 90 AND /b/c[2] <= 5 AND 7 = /d", ["a:", "c:", "d:"]),
        ("/a BETWEEN 10 AND 20", ["a:"]),
        ("/a NOT BETWEEN 10 AND 20", []),
        ("/a > -1 AND /b > 0 AND /c <> 3 AND /d + 1 > 5", []),
        ("/a > 90 AND /s = 'x'", ["x", "a:"]),
    ],
)
def test_traces_of(text: str, expected: list[str]) -> None:
    found = [(b"|".join(one.texts).decode(), one) for one in list_literal_patterns(compile_filter(text).conjuncts)]
    assert [name + ":" * (b"*+:" in one.spelled) for name, one in found] == expected


@pytest.mark.parametrize(
    ("pattern", "piece"),
    [
        ("'abc'", b"abc"),
        ("'^abc$'", b"abc"),
        ("'abc*'", b"ab"),
        ("'abc?d'", b"ab"),
        ("'abc{0,2}'", b"ab"),
        ("'abc+'", b"abc"),
        ("'abc.d'", b"abc"),
        ("'abc[d]'", b"abc"),
        ("'abc|d'", None),
        ("'abc(d|e)'", None),
        ("'(?i)abc'", None),
        ("'abc(?x) d'", None),
        ("'(abc)'", None),
        ("'\\\\Qa.b'", None),
        ("r'a+b'", b"a+b"),
    ],
)
def test_needed_piece(pattern: str, piece: bytes | None) -> None:
    node = parse_filter(f"/a LIKE {pattern}")
    assert isinstance(node, Like)
    assert find_needed_piece(node.pattern) == piece


def spelled(word: str, ways: list[int]) -> str:
    """Spell ``word`` as JSON allows: characters as they are (0), by number (1), or ``/`` with a backslash."""
    parts = zip(word, ways, strict=True)
    return "".join(f"\\u{ord(c):04X}" if way == 1 else "\\/" if way and c == "/" else c for c, way in parts)


def stored(payloads: list[bytes], check: bytes = bytes(8)) -> tuple[list[bytes], list[bytes]]:
    keys = [number.to_bytes(8, "big") for number in range(len(payloads))]
    count = range(len(payloads))
    return keys, codec.encode_plain_records(keys, [check] * len(payloads), count, count, count, payloads)


@given(
    st.sampled_from(["a/b", "aü€", "x\x7fy"]),
    st.lists(
        st.lists(
            st.tuples(st.sampled_from(["", "a/c", "\\n", "\\u00e4\\\\u"]), st.lists(st.integers(0, 2), min_size=3))
        ),
        max_size=6,
    ),
)
@pytest.mark.parametrize("several", [False, True])
def test_no_spelling_of_a_word_is_missed(several: bool, word: str, batches: list[list[tuple[str, list[int]]]]) -> None:
    marks = Marks(SECRET)
    traces = LiteralPatterns([build_text_pattern([b"q.", word.encode()] if several else [word.encode()])], marks)
    for batch in batches:
        texts = [other or spelled(word, ways[:3]) for other, ways in batch]
        keys, values = stored([f'{{"s":"{text}"}}'.encode() for text in texts])
        expected = {place for place, text in enumerate(texts) if json.loads(f'"{text}"') == word}
        for run in (integrity.build_sound_run(keys, values, marks=marks), None):
            found = traces.find_candidates(values, run)
            assert expected <= set(found)
            assert list(found) == sorted(set(found))
            assert all("\\" in texts[place] or place in expected for place in found)


SCALARS = st.one_of(
    st.integers(-(10**20), 10**20).map(str),
    st.integers(-120, 120).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.tuples(st.integers(-120, 120), st.integers(0, 10**22)).map("{0[0]}.{0[1]}".format),
    st.tuples(st.integers(-99, 99), st.sampled_from("eE"), st.integers(-4, 4)).map("{0[0]}{0[1]}{0[2]}".format),
    st.sampled_from(["0.99999999999999999999", "89.999999999999999999999", "9.99999999999999999999e1", "-0", "-0.0"]),
    st.sampled_from(['"95"', '"x"', '" 5 "', '"xy"', '"y\\u0078"', "true", "false", "null", "{}", "[]", '"true"']),
)
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=3).map(lambda some: f"[{', '.join(some)}]"))
NAMES = st.sampled_from(['"a"', '"\\u0061"', '"b"', '"x"', '"c"'])
MEMBERS = st.tuples(NAMES, st.sampled_from([":", ": ", " : ", "\t:\n"]), VALUES).map("".join)
INNER = st.lists(MEMBERS, max_size=2, unique_by=lambda text: text[:4]).map(lambda some: f'"b" :{{{", ".join(some)}}}')
MESSAGES = st.lists(st.one_of(MEMBERS, INNER), max_size=3).map(lambda some: f"{{{','.join(some)}}}".encode())
LITERALS = st.one_of(
    st.integers(-100, 100).map(str),
    st.sampled_from(["1", "0", "90", "99.5", "1e2", "0.1", "1e300", "-1e300", "1e19", "'95'", "'x'", "999999999999"]),
)
FIELDS = st.sampled_from(["/a", "/b/a", "/a[0]", "/b"])
CONDITIONS = st.one_of(
    st.tuples(FIELDS, st.sampled_from(["=", "<", "<=", ">", ">=", "<>"]), LITERALS).map(" ".join),
    st.tuples(LITERALS, st.sampled_from(["=", "<", ">="]), FIELDS).map(" ".join),
    st.tuples(FIELDS, LITERALS, LITERALS).map("{0[0]} BETWEEN {0[1]} AND {0[2]}".format),
    st.tuples(FIELDS, st.sampled_from(["x", "^x", "xy?", "true", "1"])).map("{0[0]} LIKE '{0[1]}'".format),
    FIELDS.map("{0} IN ('x', 'xy')".format),
    st.tuples(FIELDS, st.sampled_from(["BEGINS", "ENDS"]), st.sampled_from(["y", "5", "0", "tr"])).map(
        "{0[0]} {0[1]} WITH ('{0[2]}', 'xy')".format
    ),
)


@settings(max_examples=examples(400))
@given(st.lists(MESSAGES, min_size=1, max_size=8), st.lists(CONDITIONS, min_size=1, max_size=3).map(" AND ".join))
@example([b'{"a":0.99999999999999999999}'], "/a >= 1")
@example([b'{"a":[1, 95]}', b'{"b":{"a":95}, "a":1}'], "/a > 90")
@example([b'{"\\u0061":95}', b'{"a":1}'], "/a > 90")
@example([b'{"a":-0}', b'{"a":0.5}'], "/a = 0")
def test_looking_first_finds_what_decoding_finds(messages: list[bytes], text: str) -> None:
    def matcher(*, seen: bool) -> Matcher:
        return Matcher(text, JsonType(), "t", Environment(now=lambda: 0), seen=seen)

    keys, values = stored(messages)
    looking = matcher(seen=True)
    marks = looking.build_marks(LOOKING)
    expected = list(matcher(seen=False).find_matches(keys, values))
    assert list(looking.find_matches(keys, values)) == expected
    assert not expected or looking.can_match_run(memoryview(b"".join(messages)), len(messages))
    if marks is not None:
        assert set(expected) <= set(looking.find_possible(values, integrity.build_sound_run(keys, values, marks=marks)))


def run_of(keys: list[bytes], values: list[bytes], marks: Marks) -> bytes:
    run = integrity.build_sound_run(keys, values, marks=marks)
    assert run is not None
    return run


def test_escapes_that_cannot_spell_a_word_are_passed_over() -> None:
    traces = LiteralPatterns([build_text_pattern([b"x"])], Marks(SECRET))
    keys, values = stored([rb'{"s":"\u00e4\u20ac\n\/\\\"\u0019"}'] * 90 + [rb'{"s":"x"}', rb'{"s":"\u0078"}'])
    assert traces.find_candidates(values[:91], run_of(keys[:91], values[:91], traces.marks)) == [90]
    assert traces.find_candidates(values) == [90, 91]


def test_traces_in_headers_and_in_other_fields_match_nothing() -> None:
    matcher = Matcher("/s = 'EMEA'", JsonType(), "t", Environment(now=lambda: 0), seen=True)
    payloads = [b'{"s":"EMEA"}', b'{"s":"APAC"}', b'{"t":"EMEA"}', b'{"s":"\\u0045MEA"}', b'{"s":1}'] + [b"{}"] * 20
    keys, values = stored(payloads, b'"EMEA"\\u')
    marks = matcher.build_marks(LOOKING)
    assert marks is not None
    assert list(matcher.find_matches(keys, values)) == [0, 3]
    assert list(matcher.find_possible(values, run_of(keys, values, marks))) == list(range(len(keys)))


def test_looking_ends_where_it_spares_nothing() -> None:
    traces = LiteralPatterns([build_text_pattern([b"x"]), build_number_pattern(b"n", b"9")], Marks(SECRET))
    keys, values = stored([b'{"s":"x","n":1}'] * 9 + [b"{}"])
    for _ in range(QUERY_LIMITS.prefilter_trial_records // 10):
        assert traces.find_candidates(values, run_of(keys, values, traces.marks)) == []
    with_x = stored([b'{"s":"x","n":9}'] * 9 + [b'{"n":9}'])[1]
    assert list(traces.find_candidates(with_x)) == list(range(10)), "nearly all records have the word"
    assert traces.is_worthwhile
    for _ in range(QUERY_LIMITS.prefilter_trial_records):
        traces.find_candidates(with_x)
    assert not traces.is_worthwhile
    assert list(traces.find_candidates(values)) == list(range(10))


def test_a_block_in_which_nothing_shows_is_passed_over_as_a_whole() -> None:
    traces = LiteralPatterns([build_text_pattern([b"x"]), build_number_pattern(b"n", b"9")], Marks(SECRET))
    for run, shown in (
        (b'{"s":"x","n":1}{"s":"y","n":8}', False),
        (b'{"s":"x","n":1}{"s":"y","n":9}', True),
        (b'{"s":"y","n":9}', False),
        (b'{"s":"\\u0078","\\u006e":9}', True),
    ):
        assert traces.can_match_run(memoryview(run)) is shown
    for _ in range(QUERY_LIMITS.prefilter_trial_blocks):
        assert traces.can_match_run(memoryview(b'{"s":"x","n":9}'))
    assert traces.can_match_run(memoryview(b"{}")), "too many blocks had them: it is no longer asked"


def test_nothing_is_marked_where_looking_has_ended() -> None:
    matcher = Matcher("/s = 'x'", JsonType(), "t", Environment(now=lambda: 0), seen=True)
    keys, values = stored([b'{"s":"x"}'] * QUERY_LIMITS.prefilter_trial_records)
    assert matcher.build_marks(LOOKING) is not None
    assert len(matcher.find_matches(keys, values)) == QUERY_LIMITS.prefilter_trial_records
    assert matcher.build_marks(LOOKING) is None
    assert matcher.find_possible(values, None) == range(QUERY_LIMITS.prefilter_trial_records)


def test_what_few_records_have_is_looked_for_first(monkeypatch: pytest.MonkeyPatch) -> None:
    traces = LiteralPatterns([build_text_pattern([b"x"]), build_text_pattern([b"y", b"z"])], Marks(SECRET))
    _, values = stored([b'{"s":"x"}'] * 60 + [b'{"s":"x","t":"y"}'] * 10 + [b'{"t":"z"}'] * 10 + [b"{}"] * 20)
    looked: list[int] = []
    original = Marks.join_values
    monkeypatch.setattr(Marks, "join_values", lambda self, some: looked.append(len(some)) or original(self, some))
    for _ in range(2 * QUERY_LIMITS.prefilter_trial_records // len(values)):
        assert traces.find_candidates(values) == list(range(60, 70))
    assert looked[:2] == [100, 100], "first for the word, in all"
    assert looked[-2:] == [100, 20], "then for the scarce ones, and for the word where those are"


@pytest.mark.parametrize(
    "second",
    [build_text_pattern([b"y"]), build_text_pattern([b"z", b"y"]), build_text_pattern([b'"y', b"z"], whole=False)],
)
def test_scarce_words_are_found_again(second: LiteralPattern) -> None:
    traces = LiteralPatterns([build_text_pattern([b"x"]), second], Marks(SECRET))
    keys, values = stored([b"{}"] * 9 + [b'{"s":"x","t":"y"}', b'{"s":"x"}'])
    for _ in range(2):
        assert not traces.find_candidates(values[:9], run_of(keys[:9], values[:9], traces.marks))
    assert traces.find_candidates(values, run_of(keys, values, traces.marks)) == [9]


def test_values_that_are_too_large_together_are_looked_at_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STORE_LIMITS, "max_run_bytes", 400)
    traces = LiteralPatterns([build_text_pattern([b"x"])], Marks(SECRET))
    _, values = stored([b'{"s":"x"}', b"{}", b'{"s":"%b"}' % (b"y" * 500), b"{}", b'{"s":"x"}', b"{}", b"{}"])
    assert traces.find_candidates(values) == [0, 2, 4]
    assert not traces.find_candidates([])


def test_a_search_beyond_the_limits_of_the_engine_spares_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    traces = LiteralPatterns([build_text_pattern([b"x"])], Marks(SECRET))
    _, values = stored([b"{}"] * 3)

    def runaway(*_: object) -> bytes:
        raise MatchLimitExceededError(b"x")

    monkeypatch.setattr(RegexPattern, "extract_groups", runaway)
    monkeypatch.setattr(RegexPattern, "is_found", runaway)
    assert traces.find_candidates(values) == range(3)
    assert traces.can_match_run(memoryview(b"{}"))


def test_nothing_is_looked_for_without_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise pcre.LibraryError(-48)

    with monkeypatch.context() as patch:
        patch.setattr(pcre, "compile_machine_code", refuse)
        matcher = Matcher("/s = 'x'", JsonType(), "t", Environment(now=lambda: 0), seen=True)
        assert matcher.build_marks(LOOKING) is None
    keys, values = stored([b'{"s":"y"}', b'{"s":"x"}'])
    assert matcher.find_possible(values, None) == range(2)
    assert list(matcher.find_matches(keys, values)) == [1]
    matcher = Matcher("/s = 'x'", JsonType(), "t", Environment(now=lambda: 0), seen=True)
    assert matcher.build_marks(LOOKING) is not None


def test_few_records_are_decoded_without_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QUERY_LIMITS, "prefilter_min_records", LOOKING)
    keys, values = stored([b'{"s":"y"}'] * 9 + [b'{"s":"x"}'])
    for text, seen in (("/s = 'x'", True), ("/s = 'x'", False), ("/s <> 'x'", True)):
        matcher = Matcher(text, JsonType(), "t", Environment(now=lambda: 0), seen=seen)
        assert matcher.build_marks(LOOKING - 11) is None
        assert matcher.find_possible(values, None) == range(10)
        assert list(matcher.find_possible(values, None)) == ([9] if seen and "<>" not in text else list(range(10)))
        assert (matcher.build_marks(1) is not None) is (seen and "<>" not in text)
        assert list(matcher.find_matches(keys, values)) == ([9] if "<>" not in text else list(range(9)))


def test_a_word_that_is_too_long_for_a_pattern_is_not_looked_for(lab: Lab) -> None:
    fill(lab)
    long = "x" * 70_000
    lab.publish("t", message(id=-1, s=long))
    assert found_by(lab, f"/s = '{long}'") == {-1}
    assert found_by(lab, f"/s = '{long}' AND /id < 0") == {-1}
