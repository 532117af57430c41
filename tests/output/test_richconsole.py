"""What rich draws goes where it is told, and ends as other output does."""

from __future__ import annotations

import io

import pytest

from sowctl.output.charts import draw_rates, find_busy_parts
from sowctl.output.options import Terminal
from sowctl.output.richconsole import open_console


class Left(io.BytesIO):
    """A stream whose reader has gone."""

    def write(self, data: object) -> int:
        raise BrokenPipeError


def make_row(counts: list[int]) -> dict[str, object]:
    """A topic whose messages have 10 bytes each, in intervals of a minute."""
    total = sum(counts)
    facts = {"messages": total, "bytes": 10 * total, "bytes_rate": 0.5, "peak": max(counts), "topic": "t"}
    return {**facts, "client": None, "counts": counts, "interval_seconds": 60.0}


def test_a_reader_that_has_gone_is_the_callers_business() -> None:
    with pytest.raises(BrokenPipeError), open_console(Left(), Terminal(), "utf-8") as console:
        console.print("text")
    row = {
        "messages": 3,
        "bytes": 90,
        "bytes_rate": 0.75,
        "peak": 2,
        "topic": "t",
        "client": None,
        "counts": [1, 2],
        "interval_seconds": 60.0,
    }
    with pytest.raises(BrokenPipeError):
        draw_rates([row], "2026-01-05", Terminal(), Left())


def test_the_stream_stays_open() -> None:
    out = io.BytesIO()
    with open_console(out, Terminal(columns=5), "ascii") as console:
        console.print("a ✓\nand")
    assert out.getvalue() == b"a \\u2713\nand\n"


def test_what_a_mark_of_a_sparkline_is_is_said() -> None:
    out = io.BytesIO()
    row = {
        "messages": 3,
        "bytes": 90,
        "bytes_rate": 0.75,
        "peak": 2,
        "topic": "t",
        "client": None,
        "counts": [1, 2],
        "interval_seconds": 60.0,
    }
    draw_rates([row], "2026-01-05", Terminal(), out)
    assert b"2 marks of 1m each, from 2026-01-05; peak: messages in 1m" in out.getvalue()


def test_long_times_without_messages_take_no_room() -> None:
    out = io.BytesIO()
    counts = [3] * 30 + [0] * 400_000 + [1]
    row = {
        "messages": 91,
        "bytes": 910,
        "bytes_rate": 0.5,
        "peak": 3,
        "topic": "t",
        "client": None,
        "counts": counts,
        "interval_seconds": 60.0,
    }
    draw_rates([row], "2026-01-05", Terminal(), out)
    text = out.getvalue().decode()
    assert "31 marks of 1m each" in text
    assert "277 d" in text
    assert text.splitlines()[-1].endswith("▇" * 30 + "┊▃")
    assert max(map(len, text.splitlines())) <= 80
    # Every mark is drawn where messages come now and then: nothing else tells the times between them.
    assert find_busy_parts([[1, *[0] * 5, 1]]) == [range(7)]
