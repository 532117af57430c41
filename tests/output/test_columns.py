"""Columns of table, csv and tsv: chosen or found, the same for the same records."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from sowctl.errors import InputError, UsageError
from sowctl.output.columns import MAX_MEMBERS, SAMPLE_RECORDS, format_heading
from sowctl.output.formats import RenderResult, make_renderer
from sowctl.output.options import OutputOptions, parse_column, parse_columns, parse_delimiter, unescape_text
from sowctl.output.records import OutputBatch, OutputRecord
from sowctl.values.rawmembers import LONG_OBJECT_LIMITS


def csv(rows: list[object], options: OutputOptions | None = None) -> tuple[str, RenderResult]:
    records = [OutputRecord(json.dumps(row).encode(), sow_key=5) for row in rows]
    out = io.BytesIO()
    batch = OutputBatch("t", "json", lambda payload: payload, records)
    rendered = make_renderer("csv", options or OutputOptions()).write([batch], out)
    return out.getvalue().decode(), rendered


def test_members_in_the_order_in_which_they_were_seen() -> None:
    text, rendered = csv([{"b": 1}, {"a": 2, "b": 3}, {"c": 4}])
    assert text == "b,a,c\n1,,\n3,2,\n,,4\n"
    assert rendered == RenderResult(3)


def test_members_after_the_sample_are_told() -> None:
    text, rendered = csv([{"a": 1}] * SAMPLE_RECORDS + [{"a": 2, "late": 3}, {"later": 4}])
    assert text.startswith("a\n")
    assert text.endswith("2\n\n")
    (note,) = rendered.notes
    assert "/late, /later" in note


def test_chosen_columns_are_paths_and_names() -> None:
    rows: list[object] = [{"a": {"b": 1.50, "c": [10, 20]}, "l": [{"x": 1}, {"x": 2}]}, {}]
    columns = parse_columns("/a/b,sow_key,/a/c[1], /l/x,topic,length")
    text, _ = csv(rows, OutputOptions(columns=columns))
    assert text == f"a/b,sow_key,a/c[1],l/x,topic,length\n1.5,5,20,1,t,{len(json.dumps(rows[0]))}\n,5,,,t,2\n"


def test_metadata_columns_keep_their_names() -> None:
    text, _ = csv([{"topic": "mine", "a": 1}], OutputOptions(meta=True))
    assert text.splitlines()[0] == (
        "topic,message_type,sow_key,timestamp,expiration,txid,bookmark,correlation_id,/topic,a"
    )
    assert text.splitlines()[1].endswith(",mine,1")


def test_what_is_no_object_is_called_data() -> None:
    assert csv([[1, 2.0], "x"])[0] == '/data\n"[1,2.0]"\nx\n'


def test_headings() -> None:
    assert [
        format_heading(parse_column(text)) for text in ("/a", "/a/b", "/txid", "txid", "[/odd name]", "sowkey")
    ] == [
        "a",
        "a/b",
        "/txid",
        "txid",
        "odd name",
        "sow_key",
    ]


def test_unknown_column() -> None:
    with pytest.raises(UsageError, match="'price' is neither") as caught:
        parse_columns("/id,price")
    assert caught.value.code == "SOW-OUT-001"
    assert str(caught.value.hint).endswith(" /price")


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("10", b"\n"),
        ("0", b"\0"),
        ("255", b"\xff"),
        ("||", b"||"),
        ("\\n", b"\n"),
        ("\\t-", b"\t-"),
        ("ü", "ü".encode()),
    ],
)
def test_delimiters(text: str, delimiter: bytes) -> None:
    assert parse_delimiter(text) == delimiter


def test_a_byte_is_at_most_255() -> None:
    with pytest.raises(UsageError) as caught:
        parse_delimiter("256")
    assert caught.value.code == "SOW-OUT-002"


def test_unescape_leaves_other_backslashes() -> None:
    assert unescape_text(r"a\nb\\c\d" + "\\") == "a\nb\\c\\d\\"


@pytest.mark.parametrize("name", ["csv", "tsv", "table"])
def test_a_record_with_too_many_members_is_refused_by_its_key(name: str) -> None:
    def shown(payload: str, chosen: tuple[Any, ...] = ()) -> bytes:
        out = io.BytesIO()
        batch = OutputBatch("orders", "json", bytes, [OutputRecord(b'{"m1":1}', 5), OutputRecord(payload.encode(), 7)])
        make_renderer(name, OutputOptions(columns=chosen)).write([batch], out)
        return out.getvalue()

    members = [f'"m{number}":"x,{{\\"y"' for number in range(MAX_MEMBERS + 1)]
    # Items of an array, members of members and commas in texts are none of the record's own members.
    items = ",".join(["0"] * 3 * MAX_MEMBERS)
    within = f'{{"m1":[{items}],"m2":{{{",".join(members)}}}}}'
    assert shown(within) and shown(f" {{{','.join(members[:-1])}}}") and shown(f"[{items}]")
    for text in (f"{{{','.join(members)}}}", f" \n{{ {', '.join(members)}}}"):
        with pytest.raises(InputError, match=f"record 7 .* {MAX_MEMBERS:,} members") as caught:
            shown(text)
        assert (caught.value.code, caught.value.place) == ("SOW-OUT-013", "orders")
        assert "--format ndjson" in (caught.value.hint or "")
        # Columns that were chosen are as few as they are.
        assert shown(text, parse_columns("/m1")) == shown('{"m1":"x,{\\"y"}', parse_columns("/m1"))


@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
def test_of_a_long_record_the_chosen_members_alone_are_made(twice: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values, paths and metadata are those of a short one; where a name is there twice, all of it is read exactly."""
    front = '"m1":{"a":[7,{"b":"x"}]},"\\u006d2":1.50,"none":null,'
    filler = ",".join(f'"f{number}":"{"y" * 60}"' for number in range(16_000))
    end = ',"last":"z"' + (',"m1":2' if twice else "")
    columns = parse_columns("sow_key,/m1/a,/m1/a[1]/b,/m2,/none,/last,/absent")

    def shown(payload: str) -> bytes:
        out = io.BytesIO()
        batch = OutputBatch("orders", "json", bytes, [OutputRecord(payload.encode(), 7)])
        make_renderer("csv", OutputOptions(columns=columns)).write([batch], out)
        return out.getvalue()

    long = f"{{{front}{filler}{end}}}"
    assert len(long) > LONG_OBJECT_LIMITS.min_object_bytes
    expected = shown(f"{{{front[:-1]}{end}}}")
    if not twice:
        monkeypatch.setattr("sowctl.output.members.read_members", None)
    assert shown(long) == expected
    assert b"1.50,,z," in expected
