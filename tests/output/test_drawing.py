"""What rich draws goes where it is told, and ends as other output does."""

from __future__ import annotations

import io

import pytest

from sowctl.output.charts import draw_rates, number
from sowctl.output.drawing import drawing
from sowctl.output.options import Terminal


class Left(io.BytesIO):
    """A stream whose reader has gone."""

    def write(self, data: object) -> int:
        raise BrokenPipeError


def test_a_reader_that_has_gone_is_the_callers_business() -> None:
    with pytest.raises(BrokenPipeError), drawing(Left(), Terminal(), "utf-8") as console:
        console.print("text")
    row = {"messages": 3, "peak": 2, "topic": "t", "client": None, "counts": [1, 2], "interval_seconds": 60.0}
    with pytest.raises(BrokenPipeError):
        draw_rates([row], "2026-01-05", Terminal(), Left())


def test_the_stream_stays_open() -> None:
    out = io.BytesIO()
    with drawing(out, Terminal(columns=5), "ascii") as console:
        console.print("a ✓\nand")
    assert out.getvalue() == b"a \\u2713\nand\n"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (10_001, "10,001"),
        (40_207_109.25, "40,207,109"),
        (-52_778_500.5, "-52,778,500"),
        (999_999.7, "1,000,000"),
        (99_999.95, "99,999.9"),
        (1234.5, "1,234.5"),
        (2.5e300, "2.5e+300"),
    ],
)
def test_numbers_have_separators_and_no_exponents_that_people_would_write_out(value: float, words: str) -> None:
    assert number(value) == words


def test_what_a_mark_of_a_sparkline_is_is_said() -> None:
    out = io.BytesIO()
    row = {"messages": 3, "peak": 2, "topic": "t", "client": None, "counts": [1, 2], "interval_seconds": 60.0}
    draw_rates([row], "2026-01-05", Terminal(), out)
    assert b"2 marks of 1m each, from 2026-01-05; peak: messages in 1m" in out.getvalue()
