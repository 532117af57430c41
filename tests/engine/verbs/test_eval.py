"""eval: the value of an expression for each message, the end of a run, and files read by several processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.engine.reports import Rejected
from sowctl.engine.verbs import eval as verb
from sowctl.engine.verbs.eval import (
    EVAL_LIMITS,
    EvalInput,
    EvalPart,
    Evaluator,
    count_processes,
    evaluate_file,
    evaluate_sources,
)
from sowctl.errors import LimitError, StorageError, UsageError
from sowctl.expressions.environment import Environment
from sowctl.forked_process import ForkedProcess, Work
from sowctl.messages.framing.frames import FrameReader
from tests.support.examples import examples

LINES = b'{"a":1,"s":"x"}\n{"a":2.50}\n\n{"s":null}\n'
HOSTILE = b'{"s":"' + b"a" * 40 + b'!"}'


def _evaluator(text: str, *, matches: bool = False, **options: object) -> Evaluator:
    return Evaluator(text, Environment(lambda: 0), matches=matches, **options)  # type: ignore[arg-type]


def _parts(evaluator: Evaluator, data: bytes, framing: str = "lines") -> list[EvalPart]:
    chunks = FrameReader(BytesIO(data), framing, chunk=64)
    return list(evaluate_sources(evaluator, [EvalInput("in", chunks)]))


def _output(parts: list[EvalPart]) -> bytes:
    return b"".join(part.output for part in parts)


def _places(parts: list[EvalPart]) -> list[str]:
    return [refused.place for part in parts for refused in part.rejected]


def test_a_value_a_line_and_every_line_is_counted() -> None:
    parts = _parts(_evaluator("/a * 2"), LINES)
    assert _output(parts) == b"2\n5.0\nnull\n"
    assert sum(part.lines for part in parts) == 4


def test_a_filter_gives_messages_as_they_came() -> None:
    assert _output(_parts(_evaluator("/a > 1", matches=True), LINES)) == b'{"a":2.50}\n'
    evaluator = _evaluator("/a > 1", matches=True, framing="length")
    framed = b"".join(len(one).to_bytes(4, "big") + one for one in (b'{"a":1}', b'{ "a":2}'))
    assert _output(_parts(evaluator, framed, "length")) == framed[11:]


def test_the_first_bad_message_ends_the_run_behind_those_before_it() -> None:
    bad = b'{"a":1}\n{"a":}\n{"a":3}\n'
    parts = _parts(_evaluator("/a"), bad)
    error = parts[-1].error
    assert error is not None
    assert (_output(parts), error.code, error.place, error.exit_status) == (b"1\n", "SOW-MSG-002", "in:2:6", 3)
    assert "--on-error skip" in str(error.hint)
    parts = _parts(_evaluator("/a", stops=False), bad)
    assert (_output(parts), _places(parts), parts[-1].error) == (b"1\n3\n", ["in:2:6"], None)


def test_no_input_is_read_behind_an_error() -> None:
    def chunks() -> Iterator[object]:
        yield from FrameReader(BytesIO(b"nope\n"), "lines")
        raise AssertionError("read on")

    parts = list(evaluate_sources(_evaluator("/a"), [EvalInput("one", chunks()), EvalInput("two", chunks())]))  # type: ignore[arg-type]
    assert [part.error is not None for part in parts] == [True]


@pytest.mark.parametrize("stops", [True, False])
def test_a_pattern_that_runs_away_ends_the_run_at_its_message(stops: bool) -> None:
    evaluator = _evaluator("/s LIKE '^(a+)+$'", matches=True, stops=stops)
    # Rejected messages after the one that ends the run were never read, so they are not reported.
    parts = _parts(evaluator, b'{"s":"aa"}\n' + HOSTILE + b"\nnope\n")
    error = parts[-1].error
    assert isinstance(error, LimitError)
    assert (_output(parts), error.place, _places(parts)) == (b'{"s":"aa"}\n', "in:2", [])


def test_message_functions_see_the_envelope() -> None:
    lines = b'{"topic":"t","sow_key":"7","timestamp":"2026-01-01T00:00:00Z","data":{"a":1}}\n{"data":{"a":2}}\n'
    text = "CONCAT(TOPIC_NAME(), '/', SOW_KEY(), '/', /a, '/', STRFTIME('%Y', LAST_UPDATED()))"
    assert _output(_parts(_evaluator(text), lines, "envelope")) == b'"t/7/1/2026"\n"//2/"\n'
    assert _output(_parts(_evaluator("MESSAGE_SIZE()"), LINES)) == b"15\n10\n10\n"


def test_only_a_number_that_is_a_sow_key_is_the_hash_of_one() -> None:
    texts = [b"7", b"007", "\u0667".encode(), b"18446744073709551616", b"k"]
    lines = b"".join(b'{"sow_key":"%s","data":{}}\n' % text for text in texts)
    evaluator = _evaluator("SOW_KEY_HASH()")
    assert _output(_parts(evaluator, lines, "envelope")) == b'"7"\n"007"\nnull\nnull\nnull\n'


def test_a_type_without_fields_takes_only_expressions_without_fields() -> None:
    assert _output(_parts(_evaluator("MESSAGE_SIZE()", message_type="binary"), b"abc\n")) == b"3\n"
    with pytest.raises(UsageError) as caught:
        _evaluator("/a", message_type="binary")
    assert caught.value.code == "SOW-QRY-003"


# Files, by several processes


def _of_file(path: Path, evaluator: Evaluator, count: int, segment: int, start: int = 0) -> list[EvalPart]:
    with mock.patch.object(EVAL_LIMITS, "segment_bytes", segment), path.open("rb") as file:
        return list(evaluate_file(evaluator, "in", file.fileno(), start, path.stat().st_size, count))


_LINE = st.one_of(
    st.integers(-5, 99).map(lambda n: b'{"a":%d}' % n),
    st.sampled_from([b"", b" \t", b"nope", b'{"a":7}\r', b"\xef\xbb\xbf{}", b'{"a":"' + b"y" * 200 + b'"}', b"\xff"]),
)


@settings(max_examples=examples(60))
@given(st.lists(_LINE, max_size=60), st.booleans(), st.booleans(), st.integers(20, 400), st.integers(1, 3))
def test_law_a_file_gives_what_its_lines_give(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], ended: bool, stops: bool, segment: int, count: int
) -> None:
    data = b"\n".join(lines) + b"\n" * ended
    path = tmp_path_factory.getbasetemp() / "law.ndjson"
    path.write_bytes(data)
    evaluator = _evaluator("/a > 5", matches=True, stops=stops)
    wanted = _parts(evaluator, data)
    found = _of_file(path, evaluator, count, segment)

    def told(parts: list[EvalPart]) -> object:
        rejected: list[Rejected] = [one for part in parts for one in part.rejected]
        error = parts[-1].error if parts else None
        return _output(parts), [(one.place, one.code) for one in rejected], error and (error.code, error.place)

    assert told(found) == told(wanted)


def test_lines_and_offsets_of_a_file_count_from_the_start_that_is_given(tmp_path: Path) -> None:
    path = tmp_path / "part.ndjson"
    path.write_bytes(b'{"a":0}\n{"a":1}\nnope\n')
    (refused,) = _of_file(path, _evaluator("/a", stops=False), 1, 1 << 20, start=8)[0].rejected
    assert (refused.line, refused.offset) == (2, 8)


def test_a_process_that_ends_early_is_an_error_and_none_is_left(tmp_path: Path) -> None:
    path = tmp_path / "big.ndjson"
    path.write_bytes(b'{"a":1}\n' * 1000)
    parent = os.getpid()

    class Dying(Evaluator):
        def evaluate_chunk(self, *arguments: object) -> EvalPart:  # type: ignore[override]
            assert os.getpid() != parent
            os._exit(3)

    begun: list[int] = []

    class Noted(ForkedProcess):
        def __init__(self, work: Work) -> None:
            super().__init__(work)
            begun.append(self.pid)

    with mock.patch.object(verb, "ForkedProcess", Noted), pytest.raises(StorageError) as caught:
        _of_file(path, Dying("/a", Environment(lambda: 0)), 2, 2000)
    assert caught.value.code == "SOW-QRY-020"
    assert len(begun) == 2
    for pid in begun:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def test_what_goes_wrong_in_a_process_is_told(tmp_path: Path) -> None:
    path = tmp_path / "big.ndjson"
    path.write_bytes(b'{"a":1}\n' * 1000)

    class Failing(Evaluator):
        def evaluate_chunk(self, *arguments: object) -> EvalPart:  # type: ignore[override]
            raise LimitError("SOW-EXP-001", "no more")

    with pytest.raises(LimitError) as caught:
        _of_file(path, Failing("/a", Environment(lambda: 0)), 2, 2000)
    assert (caught.value.code, caught.value.message) == ("SOW-EXP-001", "no more")


def test_small_files_are_not_worth_a_second_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "can_fork", lambda: True)
    assert count_processes(1 << 20) == 1
    assert count_processes(1 << 30) == min(len(os.sched_getaffinity(0)), 8)


def test_a_process_with_threads_evaluates_a_file_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threading.active_count", lambda: 2)
    assert count_processes(1 << 30) == 1
