"""A process that reads ahead: its batches equal those of a direct read, and it ends with its user."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sowctl.engine.options import PublishOptions
from sowctl.engine.writing import read_ahead
from sowctl.engine.writing.batches import PublishBatch, iterate_batches
from sowctl.engine.writing.prepare import Preparer
from sowctl.engine.writing.read_ahead import ReadAheadProcess
from sowctl.errors import SowError, StorageError
from sowctl.journal.group import compress_payloads
from sowctl.messages.framing.frames import FrameReader
from tests.support.examples import examples
from tests.support.instances import Lab, config_xml, topic_xml

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
XML = config_xml(topic_xml("t"), ("t",))
WAIT = 20.0
LINE = st.one_of(
    st.integers(0, 9).map(lambda n: b'{"id":%d,"v":"%s"}' % (n, b"x" * n)),
    st.sampled_from(
        [b"", b"  ", b"{", b'{"v":1}', b'{"id":null}', b'{"id":1}\r', b'{"id":"' + b"l" * 70 + b'"}', b"\xff"]
    ),
)


@pytest.fixture(scope="module")
def preparer(tmp_path_factory: pytest.TempPathFactory) -> Preparer:
    instance = Lab(tmp_path_factory.mktemp("ahead"), XML).open()
    return Preparer(instance, instance.topic("t").config, PublishOptions())


def found(batch: PublishBatch) -> tuple[object, ...]:
    """Return all properties of a batch."""
    frames = [(one.line, one.offset, one.code, one.message, one.payload, one.at) for one in batch.refused]
    places = [batch.locate_message(index) for index in range(len(batch.payloads))]
    return batch.name, batch.payloads, places, batch.end_offset, batch.last_line, frames, batch.blank, batch.size


def row(
    coming: Iterator[PublishBatch], most: int | None = None
) -> tuple[list[PublishBatch], tuple[str, str | None] | None]:
    """Return the batches, at most ``most``, and the error after them."""
    had: list[PublishBatch] = []
    try:
        for batch in islice(coming, most):
            had.append(batch)
    except SowError as error:
        return had, (error.code, error.place)
    return had, None


def reading(descriptor: int, framing: str, count: int, chunk: int) -> tuple[FrameReader, Iterator[PublishBatch]]:
    source = FrameReader(descriptor, framing, name="in", max_message=60, chunk=chunk)
    return source, iterate_batches(
        "in",
        source,
        count=count,
        size=300,
        linger=9.0,
        monotonic=time.monotonic,
        before_waiting=lambda: None,
    )


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(LINE, max_size=30),
    framing=st.sampled_from(["lines", "lines", "nul", "length"]),
    bom=st.booleans(),
    ended=st.booleans(),
    count=st.integers(1, 9),
    chunk=st.sampled_from([7, 64, 1 << 20]),
    here=st.integers(0, 3),
)
def test_what_comes_from_it_is_what_would_have_been_read_here(
    preparer: Preparer, lines: list[bytes], framing: str, bom: bool, ended: bool, count: int, chunk: int, here: int
) -> None:
    """From any start: after ``here`` batches that were read directly."""
    if framing == "length":
        data = b"".join(len(line).to_bytes(4, "big") + line for line in lines)[: None if ended else -1]
    else:
        mark = b"\n" if framing == "lines" else b"\0"
        data = (b"\xef\xbb\xbf" if bom else b"") + mark.join(lines) + (mark if ended else b"")
    with tempfile.TemporaryFile() as one, tempfile.TemporaryFile() as other:
        for file in (one, other):
            file.write(data)
            file.flush()
            file.seek(0)
        expected, problem = row(reading(one.fileno(), framing, count, chunk)[1])
        source, coming = reading(other.fileno(), framing, count, chunk)
        had, also = row(coming, here)
        if len(had) < here or also is not None:
            assert [*map(found, had)] == [*map(found, expected)] and also == problem
            return
        with closing(ReadAheadProcess(coming, source, preparer)) as process:
            rest, also = row(process.receive_batches("in", lambda: None))
    assert [*map(found, had + rest)] == [*map(found, expected)] and also == problem
    for batch in rest:
        ready, refused = preparer.prepare(batch.payloads, None, None, batch.ahead)
        alone, without = preparer.prepare(batch.payloads, None)
        assert refused == without and list(ready.digests) == alone.digests
        assert ready.stored == (None if refused or not batch.payloads else compress_payloads(batch.payloads))


def pipe(preparer: Preparer, data: bytes = b"") -> tuple[int, ReadAheadProcess]:
    """Return the writing end of a pipe, and a process that reads it."""
    reading_end, writing_end = os.pipe()
    os.write(writing_end, data)
    source, coming = reading(reading_end, "lines", 1, 1 << 20)
    try:
        return writing_end, ReadAheadProcess(coming, source, preparer)
    finally:
        os.close(reading_end)


def gone(pid: int) -> bool:
    """Return whether a process ends in time; it is not a child of this one."""
    until = time.monotonic() + WAIT
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_it_ends_with_its_use_though_its_input_does_not(preparer: Preparer) -> None:
    feed, process = pipe(preparer, b'{"id":1}\n' * 3)
    waits: list[int] = []
    coming = process.receive_batches("in", lambda: waits.append(1))
    assert [next(coming).payloads for _ in range(3)] == [[b'{"id":1}']] * 3
    child = process.pid
    coming.close()  # type: ignore[attr-defined]
    process.close()
    process.close()
    assert not Path(f"/proc/{child}").exists()
    os.close(feed)


def test_an_end_from_outside_is_an_error(preparer: Preparer) -> None:
    feed, process = pipe(preparer, b'{"id":1}\n')
    with closing(process):
        coming = process.receive_batches("in", lambda: None)
        assert next(coming).payloads == [b'{"id":1}']
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(StorageError, match="terminated") as told:
            next(coming)
    assert told.value.code == "SOW-PUB-027"
    os.close(feed)


def test_what_goes_wrong_there_is_told_here(preparer: Preparer, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> object:
        raise ValueError("no such thing")

    monkeypatch.setattr(read_ahead, "_encode_batch", broken)
    outlet, process = pipe(preparer, b'{"id":1}\n')
    with closing(process), pytest.raises(RuntimeError, match="ValueError: no such thing"):
        os.close(outlet)
        list(process.receive_batches("in", lambda: None))


def test_nothing_is_started_beside_a_thread_or_without_a_processor(
    preparer: Preparer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "in").write_bytes(b'{"id":1}\n')
    with (tmp_path / "in").open("rb") as file:
        source, coming = reading(file.fileno(), "lines", 1, 64)
        monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
        assert read_ahead.is_read_ahead_useful(source, preparer)
        monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
        assert not read_ahead.is_read_ahead_useful(source, preparer)
        monkeypatch.setattr("threading.active_count", lambda: 2)
        assert read_ahead.start_read_ahead(coming, source, preparer) is None
    assert not read_ahead.is_read_ahead_useful(FrameReader(io.BytesIO(), "lines"), preparer)


# The program: a new process from its first byte on

PROGRAM = """
import os, sys
os.sched_getaffinity = lambda _: {0, 1}
from sowctl.engine.writing import publish_input
publish_input.READ_AHEAD_MIN_BYTES = int(sys.argv.pop(1))
from sowctl.cli.main import run
run()
"""


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "lab", XML)


def argv(lab: Lab, much: int, *rest: str) -> list[str]:
    return [sys.executable, "-c", PROGRAM, str(much), "publish", "t", "--config", str(lab.config), *rest]


def entries(lab: Lab) -> list[tuple[object, ...]]:
    from sowctl.engine.topics.positions import open_log

    with open_log(lab.open()) as log:
        return [
            (one.txid, one.key, one.check, one.flags, one.payload)
            for block in log.iter_blocks()
            for one in block.iter_entries()
        ]


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("form", ["file", "pipe"])
def test_a_run_says_and_writes_the_same(tmp_path: Path, form: str, skip: bool) -> None:
    """With a process that reads from the second batch on, and without one."""
    data = b"".join(b'{"id":%d,"v":%d}\n' % (n % 700, n) for n in range(3000))
    data += b'{"v":1}\n\n{"id":9,"v":"last"}\n'
    (tmp_path / "in").write_bytes(data)
    told = []
    for much in (0, 1 << 30):
        one = Lab(tmp_path / f"lab{much}", XML)
        rest = ["--batch", "100", "--summary", "json", *(("--on-error", "skip") if skip else ())]
        if form == "file":
            rest.append(str(tmp_path / "in"))
        done = subprocess.run(argv(one, much, *rest), input=data, capture_output=True, timeout=60, check=False)
        report = json.loads(done.stdout or "{}")
        report.pop("seconds", None)
        told.append((done.returncode, done.stderr, report, entries(one), sorted(one.query("t"))))
    assert told[0] == told[1]
    assert told[0][0] == 3 and len(told[0][3]) == 3000 + skip


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def until(true: Callable[[], object]) -> None:
    last = time.monotonic() + WAIT
    while not true():
        assert time.monotonic() < last
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("whole", [False, True])
def test_signals_leave_no_process_and_all_that_was_acknowledged(lab: Lab, number: signal.Signals, whole: bool) -> None:
    """To the program, or to its process group, while its input is idle."""
    process = subprocess.Popen(
        argv(lab, 0, "--batch", "2", "--tee"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdin is not None and process.stdout is not None
    with process:
        process.stdin.write(b"".join(b'{"id":%d}\n' % n for n in range(9)))
        process.stdin.flush()
        # The ninth message is alone in its batch: its acknowledgement comes from the process, after a while.
        assert [process.stdout.readline() for _ in range(9)][-1] == b'{"id":8}\n'
        [child] = children(process.pid)
        if whole:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        assert process.wait(WAIT) == (-9 if number == signal.SIGKILL else 128 + number)
        assert gone(child)
    assert len(lab.query("t")) == 9


def test_the_end_of_the_process_ends_the_run(lab: Lab) -> None:
    process = subprocess.Popen(
        argv(lab, 0, "--batch", "2"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(b"".join(b'{"id":%d}\n' % n for n in range(4)))
    process.stdin.flush()
    until(lambda: children(process.pid))
    os.kill(children(process.pid)[0], signal.SIGKILL)
    _, words = process.communicate(timeout=WAIT)
    assert process.returncode == 6 and b"SOW-PUB-027" in words
    assert len(lab.query("t")) in (2, 4)


def test_a_reader_of_what_is_told_that_goes_away_ends_both(lab: Lab) -> None:
    process = subprocess.Popen(
        argv(lab, 0, "--batch", "2", "--tee"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b"".join(b'{"id":%d}\n' % n for n in range(4)))
    process.stdin.flush()
    until(lambda: children(process.pid))
    [child] = children(process.pid)
    process.stdout.close()
    process.stdin.write(b"".join(b'{"id":%d}\n' % n for n in range(20)))
    process.stdin.flush()
    assert process.wait(WAIT) == 141 and gone(child)
    process.stdin.close()
