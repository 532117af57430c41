"""Standard input of a subscription: bounded, whatever writes to it."""

from __future__ import annotations

import os
import threading
import time

import pytest

from sowctl.cli.commands.bodies.input_lines import InputReader, LineAssembler


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 1000])
def test_lines_come_whole_however_they_are_cut(size: int) -> None:
    text = b"one\n\n  \ntwelve-bytes\neightbyt\nninebytes\n\nlast\n" + b"x" * 50 + b"\nend\nrest"
    lines = LineAssembler(8)
    found = []
    for start in range(0, len(text), size):
        found += lines.take_lines(text[start : start + size])
        assert len(lines._rest) <= 8 + size
    assert found == [b"one", b"eightbyt", b"last", b"end"]
    assert lines.cut == 3


def test_what_is_not_taken_stays_with_who_writes_it() -> None:
    source, target = os.pipe()
    heard = InputReader(source, most=1 << 18)
    wrote = 0

    def write() -> None:
        nonlocal wrote
        while wrote < 1 << 22:
            wrote += os.write(target, b"x" * 4096)
        os.close(target)

    writer = threading.Thread(target=write)
    writer.start()
    before = -1
    while wrote != before:
        before = wrote
        time.sleep(0.2)
    # The buffered bytes, one more part, and the capacity of the pipe.
    assert wrote <= (1 << 18) + 3 * (1 << 16)
    found = 0
    while (data := heard.read()) is not None:
        found += len(data)
    writer.join()
    assert found == 1 << 22
