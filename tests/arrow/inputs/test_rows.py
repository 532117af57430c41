"""Rows of CSV: long cells in quotation marks."""

from __future__ import annotations

import tracemalloc

import pytest

from sowctl.arrow.inputs.rows import Dialect, RowRefused, cut_cells, find_separator

CELL_BYTES = 1 << 20


@pytest.mark.parametrize("end", ['"', '" ', ""])
@pytest.mark.parametrize("unit", ["y", '""', "\r\ny"])
def test_a_long_cell_in_quotes_needs_a_few_times_its_size(unit: str, end: str) -> None:
    text = '1,"' + unit * (CELL_BYTES // len(unit)) + end
    tracemalloc.start()
    try:
        find_separator(text.encode(), ",")
        if end == '"':
            assert len(cut_cells(text, Dialect())) == 2
        else:
            with pytest.raises(RowRefused):
                cut_cells(text, Dialect())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * CELL_BYTES
