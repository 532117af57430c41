"""What rich draws goes where it is told, and ends as other output does."""

from __future__ import annotations

import io

import pytest

from sowctl.output.charts import draw_rates
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
