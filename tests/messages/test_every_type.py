"""One set of tests for all message types, each as far as its type declares support (``sowctl-messages(7)``)."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.errors import InputError, UsageError
from sowctl.messages.types import DEFINED_TYPES, list_type_names
from sowctl.values.fields import FieldWrite, Row, Slot, SlotValue, ValueList
from sowctl.values.scalars import to_plain_scalar, to_text
from tests.support.examples import examples
from tests.support.messagetypes import SAMPLES, Sample

EVERY = pytest.mark.parametrize("sample", SAMPLES, ids=str)
NAMES = ("a", "n", "f", "e", "l", "q")


def able(what: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("sample", [s for s in SAMPLES if getattr(s.type(), what)], ids=str)


def unable(what: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("sample", [s for s in SAMPLES if not getattr(s.type(), what)], ids=str)


def read(sample: Sample, payload: bytes, names: Sequence[str] = NAMES) -> list[Any]:
    """Values of fields as lists of plain scalars, Strings as bytes."""
    slots = [Slot(sample.at(name), listed=True) for name in names]
    rows, refusals = sample.type().build_extractor(slots)([payload])
    assert refusals == []
    return [[as_bytes(item) for item in value.items] for value in rows[0] if isinstance(value, ValueList)]


def as_bytes(value: SlotValue) -> Any:
    scalar = to_plain_scalar(value)
    return to_text(scalar) if isinstance(scalar, str | bytes) else scalar


def alike(row: Row) -> list[Any]:
    """A row for comparison: Strings as bytes, NaN by name."""

    def one(value: SlotValue) -> object:
        if isinstance(value, ValueList):
            return [one(item) for item in value.items], value.dropped
        return value.encode() if isinstance(value, str) else repr(value) if isinstance(value, float) else value

    return [one(value) for value in row]


def test_the_samples_name_every_type() -> None:
    kinds = {sample.type().kind for sample in SAMPLES}
    assert kinds == {*list_type_names(), *DEFINED_TYPES}


@EVERY
def test_a_type_has_the_name_of_its_definition_and_a_kind(sample: Sample) -> None:
    kind = sample.type()
    if isinstance(sample.kind, str):
        assert kind.name == kind.kind == sample.kind
    else:
        assert (kind.name, kind.kind) == (sample.kind.name, sample.kind.kind)
        assert pickle.loads(pickle.dumps(sample.kind)) == sample.kind


@able("filterable")
def test_fields_are_found_by_path(sample: Sample) -> None:
    a, n, f, e, many, absent = read(sample, sample.message)
    assert (a, n, f, many, absent) == ([b"x"], [5], [2.5], [1, 2], [])
    assert e in ([], [None])


@able("filterable")
def test_a_plain_value_is_enough_where_it_says_everything(sample: Sample) -> None:
    slots = [Slot(sample.at(name)) for name in NAMES]
    rows, _ = sample.type().build_extractor(slots)([sample.message])
    a, n, f, e, many, absent = rows[0]
    assert to_text(a) == b"x"
    assert (n, f, e, absent) == (5, 2.5, None, None)
    assert many == ValueList((1, 2))


@able("filterable")
def test_subscripts_take_one_of_a_list(sample: Sample) -> None:
    paths = [f"{sample.path('l')}[{index}]" for index in range(3)]
    slots = [Slot(sample.at("l").__class__(steps=_subscripted(path))) for path in paths]
    rows, _ = sample.type().build_extractor(slots)([sample.message])
    assert rows == [(1, 2, None)]
    texts, _ = sample.type().build_key_extractor([slot.path for slot in slots])([sample.message])
    assert texts == [(b"1", b"2", None)]


def _subscripted(text: str) -> Any:
    from sowctl.values.paths import parse_path

    return parse_path(text).steps


@able("filterable")
def test_key_texts_are_those_of_the_message(sample: Sample) -> None:
    paths = [sample.at(name) for name in NAMES]
    assert sample.type().build_key_extractor(paths)([sample.message]) == ([(b"x", b"5", b"2.5", None, b"1", None)], [])


@EVERY
def test_no_slots_and_no_payloads_are_fine(sample: Sample) -> None:
    kind = sample.type()
    assert kind.build_extractor([])([sample.message]) == ([()], [])
    assert kind.build_key_extractor([])([sample.message]) == ([()], [])
    assert kind.build_extractor([Slot(sample.at("a"))])([]) == ([], [])
    assert kind.build_key_extractor([sample.at("a")])([]) == ([], [])


@EVERY
def test_a_bad_message_costs_its_neighbours_nothing(sample: Sample) -> None:
    kind = sample.type(max_message=1 << 20)
    bad = [*sample.bad, sample.message + b"\0" * (1 << 20)]
    for payload in bad:
        batch = [sample.message, payload, sample.message]
        slots = [Slot(sample.at("a")), Slot(sample.at("n"), listed=True)]
        rows, refusals = kind.build_extractor(slots)(batch)
        assert [refusal.index for refusal in refusals] == [1], payload[:20]
        assert rows[0] == rows[2]
        assert rows[1] == (None, None)
        assert refusals[0].code.startswith("SOW-MSG-0")
        assert kind.check_payloads(batch) == refusals
        texts, refused = kind.build_key_extractor([sample.at("a")])(batch)
        assert (texts[0], texts[1], refused) == (texts[2], (None,), refusals)


@EVERY
def test_refusals_say_where(sample: Sample) -> None:
    for refusal in sample.type().check_payloads(list(sample.bad)):
        assert refusal.message
        assert refusal.offset is None or 0 <= refusal.offset <= len(sample.bad[refusal.index])


@EVERY
def test_what_is_not_changed_keeps_its_bytes(sample: Sample) -> None:
    kind = sample.type()
    if kind.mergeable:
        assert kind.merge_delta(sample.message, sample.empty) == sample.message
    if kind.constructible:
        assert kind.assign_fields(sample.message, []) == sample.message
    if kind.selectable:
        assert kind.select_fields(sample.message, [(True, ())]) == sample.message


@able("mergeable")
def test_a_delta_replaces_what_it_has_and_appends_what_is_new(sample: Sample) -> None:
    merged = sample.type().merge_delta(sample.message, sample.delta)
    assert read(sample, merged, ("a", "n", "f", "l", "z")) == [[b"x"], [6], [2.5], [1, 2], [1]]
    again = sample.type().merge_delta(merged, sample.delta)
    assert read(sample, again) == read(sample, merged)


@able("mergeable")
def test_nulls_of_a_delta_count_only_where_asked(sample: Sample) -> None:
    merged = sample.type().merge_delta(sample.message, sample.delta, set_nulls=True)
    a, n, z = read(sample, merged, ("a", "n", "z"))
    assert a in ([], [None])
    assert (n, z) == ([6], [1])


@able("mergeable")
def test_a_list_of_a_delta_replaces_the_whole_list(sample: Sample) -> None:
    kind = sample.type()
    if not (kind.selectable and kind.constructible):
        assert read(sample, kind.merge_delta(sample.message, sample.message)) == read(sample, sample.message)
        return
    only = kind.select_fields(sample.message, [(False, ()), (True, sample.at("l").names)])
    longer = kind.assign_fields(sample.message, [FieldWrite(sample.at("l"), 9)])
    assert read(sample, longer, ("l",)) == [[9]]
    assert read(sample, kind.merge_delta(longer, only), ("l",)) == [[1, 2]]


@unable("mergeable")
def test_without_delta_the_new_message_counts(sample: Sample) -> None:
    assert sample.type().merge_delta(sample.message, sample.delta) == sample.delta


@able("mergeable")
def test_a_merge_says_which_message_is_bad(sample: Sample) -> None:
    kind = sample.type()
    for payload in sample.bad:
        for part, pair in {"base": (payload, sample.delta), "delta": (sample.message, payload)}.items():
            with pytest.raises(InputError) as caught:
                kind.merge_delta(*pair)
            assert caught.value.facts["part"] == part
            assert caught.value.code == kind.check_payloads([payload])[0].code
            assert "offset" in caught.value.facts


@able("constructible")
def test_written_fields_can_be_read(sample: Sample) -> None:
    kind = sample.type()
    writes = [FieldWrite(sample.at("a"), "y"), FieldWrite(sample.at("f"), None, True), FieldWrite(sample.at("q"), 1.5)]
    writes += [FieldWrite(sample.at("n"), None), FieldWrite(sample.at("l"), b"z")]
    a, n, f, _, many, q = read(sample, kind.assign_fields(sample.message, writes))
    assert (a, f, many, q) == ([b"y"], [], [b"z"], [1.5])
    assert n in ([], [None])


@able("constructible")
def test_a_field_can_be_written_and_removed_again(sample: Sample) -> None:
    kind = sample.type()
    there = kind.assign_fields(sample.message, [FieldWrite(sample.at("q"), "v")])
    assert read(sample, there, ("q",)) == [[b"v"]]
    gone = kind.assign_fields(there, [FieldWrite(sample.at("q"), None, True)])
    assert read(sample, gone) == read(sample, sample.message)


@able("constructible")
@settings(deadline=None)
@given(
    value=st.one_of(
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(min_codepoint=32, exclude_categories=["Cs"], exclude_characters=";\x7f"), min_size=1),
    )
)
def test_a_message_can_be_made_of_any_values(sample: Sample, value: Any) -> None:
    kind = sample.type()
    payload = kind.build_message(
        [(sample.at("a").names, value), (sample.at("n").names, None), (sample.at("q").names, 1)]
    )
    found, null, last = read(sample, payload, ("a", "n", "q"))
    assert null in ([], [None])
    assert last == [1]
    texts, _ = kind.build_key_extractor([sample.at("a")])([payload])
    if isinstance(value, str):
        blank = not value.strip(" \t\r\n")
        assert texts == [(to_text(value),)] or (blank and texts == [(None,)])
    else:
        assert found == [value]
        assert texts == [(to_text(value),)]


@able("constructible")
def test_a_made_message_is_read_without_refusal(sample: Sample) -> None:
    kind = sample.type()
    nan = float("nan")
    payload = kind.build_message(
        [(sample.at(name).names, value) for name, value in zip("anf", (nan, -nan, float("inf")), strict=True)]
    )
    assert kind.check_payloads([payload]) == []
    assert json.loads(kind.view(payload)) is not None


@unable("constructible")
def test_without_construction_writing_is_an_error_of_the_user(sample: Sample) -> None:
    kind = sample.type()
    with pytest.raises(UsageError) as caught:
        kind.assign_fields(sample.message, [FieldWrite(sample.at("a"), 1)])
    assert caught.value.code == "SOW-MSG-005"
    with pytest.raises(UsageError):
        kind.build_message([(("a",), 1)])


@able("selectable")
def test_a_select_list_leaves_what_it_includes(sample: Sample) -> None:
    kind = sample.type()
    only = kind.select_fields(sample.message, [(False, ()), (True, sample.at("n").names)])
    assert read(sample, only) == [[], [5], [], [], [], []]
    without = kind.select_fields(sample.message, [(False, sample.at("n").names), (False, sample.at("l").names)])
    assert read(sample, without, ("a", "n", "l")) == [[b"x"], [], []]
    nothing = kind.select_fields(sample.message, [(False, ()), (True, sample.at("q").names)])
    assert read(sample, nothing) == [[]] * 6


@unable("selectable")
def test_without_select_lists_asking_for_one_is_an_error_of_the_user(sample: Sample) -> None:
    with pytest.raises(UsageError) as caught:
        sample.type().select_fields(sample.message, [(False, ())])
    assert caught.value.code == "SOW-MSG-005"


@EVERY
def test_a_view_is_one_line_of_json(sample: Sample) -> None:
    for payload in (sample.message, sample.delta, sample.empty, *sample.bad):
        line = sample.type().view(payload)
        assert b"\n" not in line
        if sample.type().kind != "json":
            json.loads(line)


def damaged(message: bytes) -> st.SearchStrategy[bytes]:
    """The message with bytes changed, removed and inserted, and arbitrary bytes."""
    places = st.integers(0, len(message))

    def change(edits: list[tuple[int, int, bytes]]) -> bytes:
        data = message
        for start, size, new in edits:
            data = data[:start] + new + data[start + size :]
        return data

    edits = st.lists(st.tuples(places, st.integers(0, 3), st.binary(max_size=3)), min_size=1, max_size=4)
    return st.one_of(edits.map(change), st.binary(max_size=40))


@EVERY
@given(data=st.data())
@settings(max_examples=examples(150), deadline=None)
def test_damage_is_refused_or_read_alike_by_everything(sample: Sample, data: st.DataObject) -> None:
    kind = sample.type()
    payloads = data.draw(st.lists(damaged(sample.message), min_size=1, max_size=4))
    slots = [
        Slot(sample.at(name), text=text, listed=listed)
        for name in NAMES
        for text, listed in ((True, False), (False, True))
    ]
    extract = kind.build_extractor(slots)
    rows, refusals = extract(payloads)
    assert refusals == kind.check_payloads(payloads)
    texts, refused = kind.build_key_extractor([sample.at(name) for name in NAMES])(payloads)
    assert refused == refusals
    bad = {refusal.index for refusal in refusals}
    for index, payload in enumerate(payloads):
        alone, problems = extract([payload])
        assert alike(alone[0]) == alike(rows[index])
        assert [(p.code, p.message, p.offset) for p in problems] == [
            (r.code, r.message, r.offset) for r in refusals if r.index == index
        ]
        if index not in bad:
            assert list(texts[index]) == [to_text(value) for value in rows[index][::2]]
        one_line(kind.view(payload))
        changed(sample, payload, index in bad)


def one_line(text: bytes) -> None:
    assert b"\n" not in text


def changed(sample: Sample, payload: bytes, bad: bool) -> None:
    """Everything that rewrites a message refuses unreadable ones, and accepts readable ones."""
    kind = sample.type()
    calls = []
    if kind.mergeable:
        calls += [
            lambda: kind.merge_delta(sample.message, payload),
            lambda: kind.merge_delta(payload, sample.delta, set_nulls=True),
        ]
    if kind.constructible:
        calls.append(
            lambda: kind.assign_fields(
                payload, [FieldWrite(sample.at("q"), "v"), FieldWrite(sample.at("a"), None, True)]
            )
        )
    if kind.selectable:
        calls.append(lambda: kind.select_fields(payload, [(False, sample.at("n").names)]))
    for call in calls:
        try:
            made = call()
        except InputError:
            assert bad or sample.skips
        else:
            assert not bad
            assert kind.check_payloads([made]) == []
