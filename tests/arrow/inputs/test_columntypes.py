"""Types of columns of text: what is detected, and what stays text because it would not be the same."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.arrow.inputs.columntypes import TypeDetector, fits_type
from sowctl.arrow.inputs.delimited_source import RowTarget, iterate_delimited_chunks
from sowctl.arrow.inputs.input_formats import DelimitedOptions, InputFacts
from sowctl.arrow.inputs.rows import build_converter
from sowctl.arrow.message_encoder import MessageEncoder
from sowctl.messages.types import get_type
from tests.support.examples import examples

LARGEST = str(2**63 - 1)


def read(data: bytes, kind: str = "json", keys: tuple[str, ...] = (), **options: Any) -> tuple[list[bytes], InputFacts]:
    """The messages of CSV, and what it was read as."""
    facts = InputFacts("x", "csv")
    target = RowTarget(get_type(kind), None, by_user=False, keys=frozenset(keys))
    found: list[bytes] = []
    for chunk in iterate_delimited_chunks(facts, io.BytesIO(data), target, DelimitedOptions(**options)):
        assert not chunk.refused
        found += chunk.payloads
    return found, facts


def detect(*cells: str, quoted: bool = False) -> str:
    """The type of a column with these cells, beside one that is not null."""
    rows = "".join(f'x,"{cell}"\n' if quoted else f"x,{cell}\n" for cell in cells)
    return read(b"a,b\n" + rows.encode())[1].columns[1].type


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (("1", "-5", "0", "", LARGEST, str(-(2**63))), "integer"),
        (("1.5", "2", "-0.25", "0.10"), "number"),
        (("true", "false", ""), "boolean"),
        (("{}", "[1]"), "json"),
        (("",), "text"),
    ],
)
def test_what_is_detected(cells: tuple[str, ...], kind: str) -> None:
    assert detect(*cells) == kind


@pytest.mark.parametrize(
    "cells",
    [
        ("007",),
        ("1", "01"),
        ("+1",),
        ("1e5",),
        ("1", "1E5"),
        (str(2**63),),
        (str(-(2**63) - 1),),
        ("12345678901234567890123",),
        ("-0",),
        ("1.", "2"),
        (".5",),
        ("1_000",),
        ("1 ",),
        (" 1",),
        ("0x1f",),
        ("\u0661",),
        ("NaN",),
        ("Infinity",),
        ("TRUE",),
        ("true", "1"),
        ("yes",),
        ("1", "a"),
        ("1", "true"),
        ("{}", "x"),
        ("{", "}"),
        ("2026-01-05",),
        ("00123.50",),
        ("1.5", "1e3"),
    ],
)
def test_what_would_not_be_written_the_same_stays_text(cells: tuple[str, ...]) -> None:
    assert detect(*cells) == "text"


def test_quotation_marks_mean_a_text_unless_the_header_has_them_too() -> None:
    assert detect("10115", quoted=True) == "text"
    assert read(b'"a","b"\n"x","10115"\n')[1].columns[1].type == "integer"
    assert read(b'a,b\nx,"{""c"":1,""d"":2}"\n')[0] == [b'{"a":"x","b":{"c":1,"d":2}}']


def test_key_fields_and_formats_without_types() -> None:
    facts = read(b"id,n\n1.10,1.10\n", keys=("id",))[1]
    assert [one.type for one in facts.columns] == ["text", "number"]
    assert read(b"id\n110\n", keys=("id",))[1].columns[0].type == "integer"
    assert [one.type for one in read(b"id,n\n1,2.5\n", "nvfix")[1].columns] == ["text", "text"]
    assert [one.type for one in read(b"id,j\n1,{}\n", "bson")[1].columns] == ["integer", "json"]
    assert [one.type for one in read(b"id,j\n1,[7]\n", "bflat")[1].columns] == ["integer", "text"]


CELLS = st.sampled_from(
    [
        "",
        "1",
        "-7",
        "0",
        "1.50",
        "007",
        "1e5",
        "true",
        "x",
        "{}",
        '{"a": 1}',
        "[",
        'a"b',
        "é\\",
        "\t",
        LARGEST,
        "9" * 25,
    ]
)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=6))
def test_a_detected_type_keeps_every_character(rows: list[tuple[str, str]]) -> None:
    import csv

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([("a", "b"), *rows])
    data = text.getvalue().encode()
    found, facts = read(data)
    texts = [json.loads(one) for one in read(data, all_text=True)[0]]
    for message, plain in zip(found, texts, strict=True):
        members = json.loads(message, parse_int=str, parse_float=str)
        assert members.keys() == plain.keys()
        for column in facts.columns:
            if column.name in plain:
                value, cell = members[column.name], plain[column.name]
                if column.type == "boolean":
                    assert json.dumps(value) == cell
                else:
                    assert value == (json.loads(cell, parse_int=str) if column.type == "json" else cell)


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.tuples(CELLS, CELLS, CELLS, CELLS, CELLS), min_size=1, max_size=5),
    st.permutations(["text", "integer", "number", "boolean", "json"]),
)
def test_messages_made_by_columns_are_those_made_one_by_one(rows: list[tuple[str, ...]], kinds: list[str]) -> None:
    import csv

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([kinds, *rows])
    facts = InputFacts("x", "csv")
    options = DelimitedOptions(types={kind: kind for kind in kinds})
    target = RowTarget(get_type("json"), None, by_user=False)
    found: list[bytes | None] = [None] * len(rows)
    for chunk in iterate_delimited_chunks(facts, io.BytesIO(text.getvalue().encode()), target, options):
        for payload, line in zip(chunk.payloads, chunk.places[0], strict=True):
            found[line - 2] = payload
    encoder = MessageEncoder(target.kind, kinds)
    for row, message in zip(rows, found, strict=True):
        try:
            members = {
                kind: build_converter(kind, encoder.form)(cell) for kind, cell in zip(kinds, row, strict=True) if cell
            }
        except ValueError:
            assert message is None
        else:
            assert message == encoder.encode(members)


def test_a_type_is_decided_over_blocks() -> None:
    detector = TypeDetector([("integer", "number", "boolean")], quotes_text=False)
    for cells, kind in ((("1", None), "integer"), ((None,), "integer"), (("1.5",), "number"), (("a",), "text")):
        detector.add_block(_block(cells))
        assert detector.list_types() == [kind]
    assert detector.is_decided
    assert not fits_type("integer", ("1\n2",))


def _block(cells: tuple[str | None, ...]) -> Any:
    from sowctl.arrow.inputs.rows import RowBlock

    return RowBlock([cells], range(len(cells)), [], frozenset(), (), 0)
