"""Fast reader, exact reader and an independent oracle agree on every payload, alone and in batches."""

from __future__ import annotations

import importlib.util
from pathlib import Path as File

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sowctl.messages.base import SurrogateRefusal
from sowctl.messages.json import fast_reader as jsonfast
from sowctl.messages.json.type import JsonType
from sowctl.values.depth import DEPTH_LIMITS, is_deep
from sowctl.values.fields import Slot
from sowctl.values.paths import Path, Step, parse_path
from tests.support.examples import examples
from tests.support.jsontexts import NAMES, TEXTS

_spec = importlib.util.spec_from_file_location("jsonoracle", File(__file__).with_name("jsonoracle.py"))
assert _spec is not None and _spec.loader is not None
oracle = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(oracle)

FAST = JsonType()
EXACT = JsonType(fast=False)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A payload with a few bytes changed, removed, doubled or truncated."""
    data = draw(TEXTS)
    for _ in range(draw(st.integers(1, 2))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        how = draw(st.integers(0, 3))
        byte = draw(st.sampled_from([bytes([b]) for b in b'{}[]",:\\ue01.-+ntf \n\r\t\x00\x1f\x7f\x80\xc3\xed\xff']))
        if how == 0:
            data = data[:at] + byte + data[at + 1 :]
        elif how == 1:
            data = data[:at] + data[at + 1 :]
        elif how == 2:
            data = data[:at] + byte + data[at:]
        else:
            data = data[:at]
    return data


PAYLOADS = st.lists(st.one_of(TEXTS, TEXTS, damaged()), min_size=1, max_size=5)
USUAL = [parse_path(text) for text in ("/a", "/b", "/id", "/a/b", "/a/b/id", "/é", "[/x y]", "/b/a", "/😀")]
ODD_NAMES = [*NAMES, "q/", "", "\ufffd", "\x7f", ":", '"', "\\"]
STEPS = st.builds(Step, st.sampled_from(ODD_NAMES), st.sampled_from([None, None, None, None, 0, 1]))
PATHS = st.one_of(st.sampled_from(USUAL), st.lists(STEPS, min_size=1, max_size=3).map(lambda steps: Path(tuple(steps))))
SLOTS = st.lists(st.builds(Slot, PATHS, st.booleans(), st.booleans()), max_size=3)


def agree(payloads: list[bytes], slots: list[Slot]) -> None:
    trees = [oracle.read(payload) for payload in payloads]
    wrong = [index for index, tree in enumerate(trees) if tree is None]
    nothing = (None,) * len(slots)
    rows = [nothing if tree is None else tuple(oracle.slot(tree[0], slot) for slot in slots) for tree in trees]
    paths = [slot.path for slot in slots]
    keys = [nothing if tree is None else tuple(oracle.key(tree[0], path) for path in paths) for tree in trees]
    exact_rows, exact_refusals = EXACT.build_extractor(slots)(payloads)
    fast_rows, fast_refusals = FAST.build_extractor(slots)(payloads)
    assert repr(exact_rows) == repr(rows)
    assert repr(fast_rows) == repr(rows)
    assert [refusal.index for refusal in exact_refusals] == wrong
    assert fast_refusals == exact_refusals
    for kind in (FAST, EXACT):
        assert kind.check_payloads(payloads) == exact_refusals
        texts, refusals = kind.build_key_extractor(paths)(payloads)
        assert texts == keys
        halves = [refusal for refusal in refusals if isinstance(refusal, SurrogateRefusal)]
        assert [refusal for refusal in refusals if refusal not in halves] == exact_refusals
        assert {refusal.index: refusal.fields for refusal in halves} == {
            index: fields
            for index, tree in enumerate(trees)
            if tree is not None and (fields := tuple([str(path) for path in paths if oracle.is_half(tree[0], path)]))
        }
        assert [refusal.index for refusal in refusals] == sorted(refusal.index for refusal in refusals)


@given(PAYLOADS, SLOTS)
@settings(max_examples=examples(500), deadline=None)
@example([b'{"a":1}', b'{"a":1,"a":2}'], [Slot(parse_path("/a"))])
@example([b'{"\\u0061":1}', b'{"a":1,"a":2}'], [Slot(parse_path("/a"))])
@example([b'{"b":1}', b'{"a":1,"a":2}', b'{"\\u0061":2}'], [Slot(parse_path("/a"))])
@example([b'{"b":{"a":2},"a":1}', b'{"a":1,"b":{"a":2}}'], [Slot(parse_path("/a"))])
@example([b'{"b":{"a":2},"a":1,"a":0}', b'{"a":"a","b":"a"}'], [Slot(parse_path("/a"))])
@example([b'{"a":{"b":1,"b":2}}', b'{"a":{"b":1},"a":{"b":2}}', b'{"a":[{"b":1}],"a":7}'], [Slot(parse_path("/a/b"))])
@example(
    [b'{"a":{"b":-0}}', b'{"a":[-0]}', b'{"a":-0}'], [Slot(parse_path("/a"), True), Slot(parse_path("/a/b"), True)]
)
@example([b'{"a":[-0]}', b'{"a":[1,-0.0]}'], [Slot(parse_path("/a"), True)])
@example([b'{"a":1,"b":"\xff"}', b'{"\xff":1,"a":2}', b'{"b":"\xed\xa0\x80"}'], [Slot(parse_path("/a"))])
@example([b'{"a":[{"b":1,"b":2}]}', b'{"a":[[{"b":1}],{"b":[2]}]}', b'{"a":3}'], [Slot(parse_path("/a/b"))])
@example([b'{"a":[{"b":1},{"b":2}]}', b'{"a":{"b":3}}'], [Slot(parse_path("/a[1]/b")), Slot(parse_path("/a[0]/b"))])
@example(
    [b'{"a":{"b":[{"id":1},4]}}', b'{"a":[{"b":{"id":2}}]}'], [Slot(parse_path("/a/b/id")), Slot(parse_path("/a"))]
)
@example([b"{} {}", b'{"a":1,', b'"b":2}'], [Slot(parse_path("/a"))])
@example(
    [b'{"a":1.50,"b":1.50}', b'{"a":[1.0],"b":[1.0,{"x":2.0}]}', b'{"a":{"x":1.0},"b":{"x":2.0}}'],
    [Slot(parse_path("/a"), True), Slot(parse_path("/b"))],
)
@example([b"[1,", b"2]", b"", b" "], [])
@example([b'{"a":{"x":1}}', b'{"a":{}}', b'{"a":[{},{"x":1},2]}'], [Slot(parse_path("/a")), Slot(parse_path("/a/x"))])
def test_readers_agree(payloads: list[bytes], slots: list[Slot]) -> None:
    agree(payloads, slots)


def test_readers_agree_at_length(deep: bool) -> None:
    if not deep:
        pytest.skip("long form")
    given(PAYLOADS, SLOTS)(settings(max_examples=10_000, deadline=None, database=None)(agree))()


@given(st.lists(st.binary(max_size=12), max_size=3))
def test_noise(payloads: list[bytes]) -> None:
    agree(payloads, [Slot(parse_path("/a"))])


@pytest.mark.parametrize("depth", [1, 64, 255, 256, 257, 300, 5000, 100_000])
@pytest.mark.parametrize("shape", ["[", '{"a":', '[{"b":['])
def test_nesting_limit_on_both_sides(depth: int, shape: str) -> None:
    opens = (shape * (depth // shape.count("[") if "b" in shape else depth)).encode()
    opened = opens.count(b"[") + opens.count(b"{")
    closes = opens.translate(bytes.maketrans(b"[{", b"]}"), b'"ab:')[::-1]
    payload = opens + b"1" + closes
    beside = b'{"x":' + opens + b"1" + closes + b"}"
    slots = [Slot(parse_path("/a")), Slot(parse_path("/x"))]
    for kind in (FAST, EXACT):
        rows, refusals = kind.build_extractor(slots)([b'{"a":7}', payload, beside, b'{"a":8}'])
        assert (rows[0], rows[3]) == ((7, None), (8, None))
        codes = {refusal.index: refusal.code for refusal in refusals}
        assert (codes.get(1) == "SOW-MSG-003") == (opened > 256)
        assert (codes.get(2) == "SOW-MSG-003") == (opened + 1 > 256)
        assert kind.check_payloads([payload, beside]) == [
            type(r)(r.index - 1, r.code, r.message, r.offset) for r in refusals
        ]


TRICKS = [
    b'{"a":[' + b",".join([b"[[]]"] * 5000) + b'],"b":"' + b"[" * 1000 + b'"}',
    b'{"a":' + b'["]",' * 300 + b"1" + b',"["]' * 300 + b"}",
    b'{"a":' + b'["]",' * 254 + b"1" + b',"["]' * 254 + b"}",
    b'{"a":' + b'["\\"]",' * 300 + b"1" + b',"\\"["]' * 300 + b"}",
    b'{"a":' + b'["\\\\",' * 300 + b'"]"' + b"]" * 300 + b"}",
    b'{"a":"' + b"[" * 600 + b"}",
    b'{"a":1}' + b"]" * 600,
    b"[" * 600 + b'"',
]


@pytest.mark.parametrize("payload", TRICKS)
def test_brackets_in_strings_are_not_depth(payload: bytes) -> None:
    agree([payload, b'{"b":1}'], [Slot(parse_path("/a"), listed=True), Slot(parse_path("/b"))])


@pytest.mark.parametrize("payload", TRICKS)
def test_the_depth_of_a_long_payload_is_that_of_its_pieces(payload: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = (1, 2, 3, 254, 255, 256, 300, 599, 600)
    at_once = [is_deep(payload, limit) for limit in limits]
    monkeypatch.setattr(DEPTH_LIMITS, "scan_piece_bytes", 0)
    monkeypatch.setattr(DEPTH_LIMITS, "piece_strings", 2)
    assert [is_deep(payload, limit) for limit in limits] == at_once


@pytest.mark.parametrize(("extra", "refused"), [(0, False), (1, True)])
@pytest.mark.parametrize("fast", [True, False])
def test_size_limit_on_both_sides(extra: int, refused: bool, fast: bool) -> None:
    payload = b'{"a":"' + b"x" * 1000 + b'"}'
    kind = JsonType(len(payload) - extra, fast=fast)
    rows, refusals = kind.build_extractor([Slot(parse_path("/b"))])([b'{"b":1}', payload])
    assert rows == [(1,), (None,)]
    assert [(r.index, r.code) for r in refusals] == ([(1, "SOW-MSG-004")] if refused else [])
    assert kind.check_payloads([b"{}", payload]) == refusals


def test_a_deep_python_stack_changes_nothing() -> None:
    payload = b'{"a":' + b"[" * 200 + b"5" + b"]" * 200 + b"}"

    def deeper(levels: int) -> object:
        return deeper(levels - 1) if levels else FAST.build_extractor([Slot(parse_path("/a"))])([payload])

    assert deeper(700) == ([(5,)], [])


def test_only_numbers_whose_text_is_wanted_keep_it(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[str] = []
    original = jsonfast.parse_number
    monkeypatch.setattr(jsonfast, "parse_number", lambda text: kept.append(text) or original(text))
    slots = [Slot(parse_path("/a"), True), Slot(parse_path("/b"))]
    rows, _ = JsonType().build_extractor(slots)([b'{"b":1.50,"a":2.50}', b'{"a":3.5,"b":4}', b'{"c":5.5,"b":[6.5]}'])
    assert [row[1] for row in rows[:2]] == [1.5, 4]
    assert kept == ["2.50", "3.5", "6.5"]
