"""Tables: streamed with fixed widths, or laid out for a terminal; markup in data stays text."""

from __future__ import annotations

import io
import json

import pytest

from sowctl.output.display import measure_width
from sowctl.output.formats import make_renderer
from sowctl.output.options import Column, OutputOptions, TableFit, Terminal
from sowctl.output.records import OutputBatch, OutputRecord
from sowctl.output.table import SAMPLE_ROWS


def table(rows: list[dict[str, object]], terminal: Terminal | None = None) -> str:
    out = io.BytesIO()
    records = [OutputRecord(json.dumps(row, ensure_ascii=False).encode()) for row in rows]
    batch = OutputBatch("t", "json", lambda payload: payload, records)
    make_renderer("table", OutputOptions(terminal=terminal)).write([batch], out)
    return out.getvalue().decode(terminal.encoding if terminal else "utf-8")


MARKUP: list[dict[str, object]] = [{"id": 1, "note": "[red]x[/red]"}, {"id": 22, "note": "[/foo] \x1b[31m"}]


def test_piped_tables_are_never_cut() -> None:
    long = "x" * 500
    assert table([{"a": long, "b": "y"}]) == f"a{' ' * 499}  b\n{long}  y\n"


@pytest.mark.parametrize("terminal", [None, Terminal(60), Terminal(60, "iso-8859-1")])
def test_markup_is_text(terminal: Terminal | None) -> None:
    text = table(MARKUP, terminal)
    assert "[red]x[/red]" in text
    assert "[/foo] \\x1b[31m" in text


@pytest.mark.parametrize("encoding", ["utf-8", "iso-8859-1", "ascii"])
@pytest.mark.parametrize("count", [3, SAMPLE_ROWS + 5])
def test_terminal_width_holds(encoding: str, count: int) -> None:
    rows: list[dict[str, object]] = [{"n": n, "text": "ÄÖ" * 40, "more": "m" * 90} for n in range(count)]
    text = table(rows, Terminal(50, encoding))
    wide = 4 if encoding == "ascii" else 1
    assert max(map(len, text.splitlines())) <= 50 * wide
    assert len([line for line in text.splitlines() if line.strip()]) >= count + 1


def test_numbers_are_never_cut() -> None:
    rows: list[dict[str, object]] = [{"price": 1234567890.25, "text": "t" * 80, "more": "m" * 80}]
    assert "1234567890.25" in table(rows, Terminal(40))


@pytest.mark.parametrize("count", [2, SAMPLE_ROWS + 5])
def test_keys_are_never_cut(count: int) -> None:
    key = "17023530598616992373"
    rows: list[dict[str, object]] = [{"sow_key": key, "text": "t" * 80, "other": "7" * 21} for _ in range(count)]
    lines = table(rows, Terminal(40)).splitlines()
    assert all(line.startswith(key) for line in lines[-count:])
    assert "7" * 21 not in lines[-1]


def test_a_key_that_no_line_can_hold_whole_beside_the_rest_stands_in_a_block() -> None:
    row: dict[str, object] = {"sow_key": "17023530598616992373", "text": "t" * 80, "more": "m" * 80}
    text = table([row], Terminal(39))
    assert text.startswith("--- 1 ---")
    assert "17023530598616992373" in text


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_too_many_columns_become_blocks(encoding: str) -> None:
    row: dict[str, object] = {f"column{n}": "x" * 60 for n in range(8)} | {"empty": None, "wide": "東京" * 20}
    text = table([row, row], Terminal(50, encoding))
    assert text.startswith("--- 1 ---")
    assert text.count("--- 2 ---") == 1
    assert "empty" not in text
    assert text.replace("\n" + " " * 9, "").count("x" * 60) == 16
    if encoding == "utf-8":
        assert max(measure_width(line) for line in text.splitlines()) <= 50


def test_other_encodings_get_ascii_signs_only() -> None:
    text = table([{"a": "x" * 100, "b": "Zürich 東"}], Terminal(40, "iso-8859-1"))
    assert "..." in text
    assert "Zürich \\u6771" in text


def test_numbers_stand_on_the_right() -> None:
    rows: list[dict[str, object]] = [{"n": 5, "s": "5"}, {"n": None, "s": "b"}, {"n": 1234, "s": "c"}]
    assert table(rows) == "   n  s\n   5  5\n      b\n1234  c\n"


def test_wide_characters_take_two_columns() -> None:
    assert table([{"a": "東京", "b": 1}, {"a": "abcd", "b": 2}]) == "a     b\n東京  1\nabcd  2\n"


def test_color_is_only_in_the_heading() -> None:
    text = table(MARKUP, Terminal(60, "utf-8", colored=True))
    assert "\x1b[1m" in text
    assert "\x1b" not in table(MARKUP, Terminal(60, "utf-8", colored=False))
    assert "\x1b[31m" not in text


def envelopes(terminal: Terminal | None, *, expiration: int = 0, columns: tuple[Column, ...] = ()) -> str:
    out = io.BytesIO()
    record = OutputRecord(b'{"id":1}', 17023530598616992373, 1_767_607_265_123_456, expiration, 7)
    batch = OutputBatch("orders", "json", lambda payload: payload, [record] * 3)
    make_renderer("table", OutputOptions(meta=True, terminal=terminal, columns=columns)).write([batch], out)
    return out.getvalue().decode()


def test_a_terminal_shows_no_metadata_that_no_record_has() -> None:
    heading = envelopes(Terminal(120)).splitlines()[0].split()
    assert heading == ["topic", "message_type", "sow_key", "timestamp", "txid", "id"]
    assert "expiration" in envelopes(Terminal(160), expiration=1_767_607_265_123_456)
    assert "bookmark" in envelopes(None), "what goes elsewhere has always the same columns"
    assert "bookmark" in envelopes(Terminal(120), columns=("bookmark", "txid")), "asked for by name"


@pytest.mark.parametrize(
    ("columns", "time"),
    [(120, "2026-01-05T10:01:05.123456Z"), (80, "2026-01-05T10:01:05… "), (72, "2026-01-05T10:01… ")],
)
def test_times_give_way_before_anything_else(columns: int, time: str) -> None:
    text = envelopes(Terminal(columns))
    assert time in text
    assert text.count("…") == text.count(time.strip()) * ("…" in time), "nothing else is cut"


def facts(rows: list[dict[str, object]], columns: int, fit: TableFit) -> tuple[str, tuple[str, ...]]:
    out = io.BytesIO()
    records = [OutputRecord(json.dumps(row).encode()) for row in rows]
    batch = OutputBatch("", "json", lambda payload: payload, records)
    options = OutputOptions(terminal=Terminal(columns), facts=True, fit=fit)
    rendered = make_renderer("table", options).write([batch], out)
    return out.getvalue().decode(), rendered.notes


def test_columns_that_can_be_spared_go_before_texts_are_cut() -> None:
    rows: list[dict[str, object]] = [{"name": "n" * 20, "more": "m" * 20, "less": "l" * 20, "nothing": None}]
    fit = TableFit(spare=("less", "more"))
    assert facts(rows, 70, fit)[0].splitlines()[0].split() == ["name", "more", "less"]
    assert facts(rows, 50, fit)[0].splitlines()[0].split() == ["name", "more"]
    assert facts(rows, 30, fit)[0].splitlines()[-1] == "n" * 20


def test_bookmarks_are_never_cut() -> None:
    bookmark = "11853365263938241052|502|"
    rows: list[dict[str, object]] = [{"bookmark": bookmark, "text": "t" * 80}]
    assert bookmark in table(rows, Terminal(40))


def test_objects_are_cut_to_their_headings_before_names() -> None:
    rows: list[dict[str, object]] = [
        {"name": "Bela Brandt of APAC", "tags": ["retail", "vip"], "at": {"city": "Sydney"}}
    ]
    text = table(rows, Terminal(34))
    assert "Bela Brandt of APAC" in text
    assert '["re…' in text


def test_objects_are_cut_before_names() -> None:
    text = table([{"name": "Bela Brandt of APAC", "address": {"city": "Sydney", "postalCode": "96901"}}], Terminal(40))
    assert "Bela Brandt of APAC" in text
    assert '{"city":' in text
    assert "96901" not in text


def test_the_name_of_a_file_is_kept_where_its_directory_is_enough() -> None:
    rows: list[dict[str, object]] = [{"path": "/a/long/directory/orders.sow", "n": 1, "spare": "s" * 10}]
    fit = TableFit(spare=("spare",), paths=("path",))
    text, _ = facts(rows, 32, fit)
    assert "…ctory/orders.sow" in text
    assert "s" * 10 in text
    assert "s" * 10 not in facts(rows, 26, fit)[0]


def test_a_time_that_can_be_spared_is_cut_before_it_goes() -> None:
    rows: list[dict[str, object]] = [{"at": "2026-01-05T10:01:05.123456Z", "until": "2026-01-05T10:02:05.123456Z"}]
    fit = TableFit(spare=("until",))
    assert facts(rows, 39, fit)[0].splitlines()[-1].split() == ["2026-01-05T10:01:05…", "2026-01-05T10:02…"]
    assert facts(rows, 30, fit)[0].splitlines()[-1] == "2026-01-05T10:01:05…"


def test_figures_stand_on_the_right_and_are_never_cut() -> None:
    rows: list[dict[str, object]] = [{"name": "n" * 30, "size": "256.0 KiB"}, {"name": "n", "size": "4.0 KiB"}]
    lines = facts(rows, 24, TableFit(figures=("size",)))[0].splitlines()
    assert [line[-10:] for line in lines[-2:]] == [" 256.0 KiB", "   4.0 KiB"]


def test_blocks_have_what_a_line_had_no_room_for() -> None:
    rows: list[dict[str, object]] = [{f"c{n}": "x" * 20 for n in range(6)} | {"spare": "s"}]
    text, _ = facts(rows, 40, TableFit(spare=("spare",)))
    assert text.startswith("--- 1 ---")
    assert "spare  s" in text


def test_shared_values_that_two_lines_cannot_hold_are_counted() -> None:
    rows: list[dict[str, object]] = [{f"c{n}": "x" * 20 for n in range(6)} | {"v": v} for v in range(2)]
    (note,) = facts(rows, 50, TableFit(repeated=True))[1]
    assert note.endswith(f"c1 {'x' * 20} and 4 more fields")
    assert len(note) <= 100


def test_paths_are_cut_in_front() -> None:
    rows: list[dict[str, object]] = [{"path": "/a/long/directory/orders.json.sow", "n": 1}]
    text, _ = facts(rows, 24, TableFit(paths=("path",)))
    assert "…tory/orders.json.sow" in text


def test_what_all_rows_have_in_common_is_said_once_where_a_line_does_not_fit() -> None:
    rows: list[dict[str, object]] = [{"key": "k" * 30, "v": "x" * 30}, {"key": "k" * 30, "v": "y" * 30}]
    fit = TableFit(repeated=True)
    assert facts(rows, 70, fit)[1] == ()
    text, notes = facts(rows, 50, fit)
    assert text.splitlines()[0].split() == ["v"]
    assert notes == (f"the same in each: key {'k' * 30}",)
