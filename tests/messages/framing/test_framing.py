"""Framing: any split of the input gives the same messages at the same positions, within bounded memory and time."""

from __future__ import annotations

import io
import os
import threading
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.errors import InputError, LimitError, StorageError, UsageError
from sowctl.messages.framing import frames as framing
from sowctl.messages.framing.chunks import Chunk
from sowctl.messages.framing.frames import FrameReader
from tests.support.examples import examples


class Pieces:
    """A stream that returns its bytes in given pieces, regardless of the requested size."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = [piece for piece in pieces if piece]

    def read(self, size: int = -1) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""


def cut(data: bytes, marks: list[int]) -> list[bytes]:
    edges = [0, *sorted(mark % (len(data) + 1) for mark in marks), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


def gathered(chunks: list[Chunk]) -> list[tuple[bytes, int, int]]:
    return [(p, c.find_line(i), c.find_offset(i)) for c in chunks for i, p in enumerate(c.payloads)]


def run(data: bytes, framing: str, marks: list[int], **options: int) -> tuple[list[tuple[bytes, int, int]], int, list]:
    chunks = list(FrameReader(Pieces(cut(data, marks)), framing, **options))
    assert not chunks or chunks[-1].end == len(data)
    refused = [(f.line, f.offset, f.code) for c in chunks for f in c.refused]
    return gathered(chunks), sum(c.blank for c in chunks), refused


def lines_by_hand(data: bytes, limit: int) -> tuple[list[tuple[bytes, int, int]], int, list]:
    """The rule for ``lines``, one line at a time."""
    found, blank, refused, offset = [], 0, [], 0
    pieces = data.split(b"\n")
    for number, piece in enumerate(pieces, 1):
        terminated = number < len(pieces)
        if not terminated and not piece:
            break
        start = offset
        if number == 1 and piece.startswith(b"\xef\xbb\xbf"):
            start = 3
        body = piece[start - offset :]
        if terminated and body.endswith(b"\r"):
            body = body[:-1]
        if not body.strip(b" \t"):
            blank += 1
        elif len(body) > limit:
            refused.append((number, start, "SOW-INP-001"))
        else:
            found.append((body, number, start))
        offset += len(piece) + 1
    return found, blank, refused


LINES = st.lists(
    st.sampled_from([b"\n", b"\r\n", b"\r", b" ", b"\t", b"a", b"bc", b"\xef\xbb\xbf", b"{}", b"x" * 9])
).map(b"".join)
MARKS = st.lists(st.integers(0, 200), max_size=8)


@given(LINES, MARKS)
def test_lines_do_not_depend_on_how_the_input_arrives(data: bytes, marks: list[int]) -> None:
    assert run(data, "lines", marks) == lines_by_hand(data, 1 << 20)


@given(st.lists(st.binary(max_size=6), max_size=8), MARKS, st.booleans())
def test_nul_round_trip(messages: list[bytes], marks: list[int], last: bool) -> None:
    messages = [message.replace(b"\0", b"\n") for message in messages]
    data = b"".join(message + b"\0" for message in messages)
    if messages and messages[-1] and not last:
        data = data[:-1]
    found, blank, _ = run(data, "nul", marks)
    starts = [sum(len(m) + 1 for m in messages[:i]) for i in range(len(messages))]
    assert found == list(zip(messages, range(1, len(messages) + 1), starts, strict=True))
    assert blank == 0


@given(st.lists(st.binary(max_size=6), max_size=8), MARKS)
def test_length_round_trip(messages: list[bytes], marks: list[int]) -> None:
    data = b"".join(len(message).to_bytes(4, "big") + message for message in messages)
    found, _, _ = run(data, "length", marks)
    starts = [sum(len(m) + 4 for m in messages[:i]) for i in range(len(messages))]
    assert found == list(zip(messages, range(1, len(messages) + 1), starts, strict=True))


@given(st.lists(st.binary(max_size=6), min_size=1, max_size=4), MARKS, st.integers(1, 100))
def test_a_cut_length_frame_is_an_error_with_its_offset(messages: list[bytes], marks: list[int], lost: int) -> None:
    data = b"".join(len(message).to_bytes(4, "big") + message for message in messages)
    frame = 4 + len(messages[-1])
    lost = 1 + lost % (frame - 1) if frame > 1 else 1
    got: list[bytes] = []
    with pytest.raises(InputError) as caught:
        for chunk in FrameReader(Pieces(cut(data[:-lost], marks)), "length"):
            got += chunk.payloads
    assert caught.value.code == "SOW-INP-002"
    assert got == messages[:-1]
    assert caught.value.facts["offset"] == len(data) - frame


@given(st.lists(st.integers(0, 12), max_size=8), MARKS)
@settings(max_examples=examples(200))
def test_lines_that_are_too_long_are_refused_and_skipped(sizes: list[int], marks: list[int]) -> None:
    data = b"".join(b"y" * size + b"\r\n" for size in sizes)
    assert run(data, "lines", marks, max_message=5) == lines_by_hand(data, 5)


@pytest.mark.parametrize(("size", "refused"), [(5, 0), (6, 1)])
@pytest.mark.parametrize("tail", [b"\n", b"\r\n", b""])
@pytest.mark.parametrize("head", [b"", b"\xef\xbb\xbf"])
def test_the_limit_counts_the_payload_alone(size: int, refused: int, tail: bytes, head: bytes) -> None:
    data = head + b"z" * size + tail
    for marks in ([], list(range(len(data)))):
        found, _, bad = run(data, "lines", marks, max_message=5)
        assert (len(found), len(bad)) == (1 - refused, refused)


def test_a_line_without_end_is_not_kept_in_memory() -> None:
    class Endless:
        left = 200

        def read(self, size: int = -1) -> bytes:
            self.left -= 1
            return b"a" * 1000 if self.left > 0 else b""

    reader = FrameReader(Endless(), "lines", max_message=5000)
    chunks = list(reader)
    assert [f.code for c in chunks for f in c.refused] == ["SOW-INP-001"]
    assert not gathered(chunks)


def test_a_frame_above_the_limit_ends_the_input_after_what_came_before() -> None:
    data = b"\0\0\0\x01a" + b'{"a"' + b"...."
    got: list[bytes] = []
    with pytest.raises(LimitError) as caught:
        for chunk in FrameReader(io.BytesIO(data), "length"):
            got += chunk.payloads
    assert got == [b"a"]
    assert caught.value.code == "SOW-INP-003"
    assert caught.value.facts["offset"] == 5
    assert "--framing lines" in (caught.value.hint or "")


@pytest.mark.parametrize(("limit", "passes"), [(3, True), (2, False)])
def test_frame_limit_on_both_sides(limit: int, passes: bool) -> None:
    frames = FrameReader(io.BytesIO(b"\0\0\0\x03abc"), "length", max_message=limit)
    if passes:
        assert [c.payloads for c in frames] == [[b"abc"]]
    else:
        with pytest.raises(LimitError):
            list(frames)


def test_unknown_framing() -> None:
    with pytest.raises(UsageError, match="framing"):
        FrameReader(io.BytesIO(), "csv")


def test_an_unreadable_input_is_a_storage_error(tmp_path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(StorageError) as caught:
            FrameReader(descriptor, "lines").poll()
        assert caught.value.code == "SOW-INP-005"
    finally:
        os.close(descriptor)


def test_a_silent_input_gives_what_is_complete() -> None:
    read_end, write_end = os.pipe()
    try:
        reader = FrameReader(read_end, "lines")
        assert reader.poll(0.0) is None
        os.write(write_end, b"one\ntwo\nthr")
        chunk = reader.poll(1.0)
        assert chunk is not None
        assert chunk.payloads == [b"one", b"two"]
        begin = time.monotonic()
        assert reader.poll(0.05) is None
        assert 0.03 < time.monotonic() - begin < 20
        assert not reader.ended
        os.write(write_end, b"ee\n")
        os.close(write_end)
        write_end = -1
        rest = list(reader)
        assert [c.payloads for c in rest] == [[b"three"]]
        assert (rest[0].find_line(0), rest[0].find_offset(0), rest[0].end) == (3, 8, 14)
        assert reader.ended
        assert reader.poll(0) is None
    finally:
        os.close(read_end)
        if write_end >= 0:
            os.close(write_end)


def test_a_long_wait_ends_on_time_and_sees_what_comes_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing.FRAME_LIMITS, "max_wait_seconds", 0.02)
    read_end, write_end = os.pipe()
    try:
        reader = FrameReader(read_end, "lines")
        begin = time.monotonic()
        assert reader.poll(0.15) is None
        assert 0.12 < time.monotonic() - begin < 20
        writer = threading.Timer(0.1, os.write, (write_end, b"one\n"))
        writer.start()
        chunk = reader.poll()
        writer.join()
        assert chunk is not None
        assert chunk.payloads == [b"one"]
    finally:
        os.close(read_end)
        os.close(write_end)


def test_a_writer_in_another_thread_is_read_to_its_end() -> None:
    read_end, write_end = os.pipe()
    messages = [b"%d" % number * 50 for number in range(5000)]

    def write() -> None:
        with os.fdopen(write_end, "wb") as out:
            for message in messages:
                out.write(message + b"\n")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        chunks = list(FrameReader(read_end, "lines", chunk=1 << 16))
    finally:
        writer.join()
        os.close(read_end)
    assert [p for c in chunks for p in c.payloads] == messages
    assert [line for c in chunks for line in c.places[0]] == list(range(1, 5001))


def test_a_regular_file_by_descriptor(tmp_path) -> None:
    path = tmp_path / "in"
    path.write_bytes(b"\xef\xbb\xbfa\n\n \nb")
    with path.open("rb") as file:
        chunks = list(FrameReader(file.fileno(), "lines"))
    assert gathered(chunks) == [(b"a", 1, 3), (b"b", 4, 8)]
    assert sum(c.blank for c in chunks) == 2
