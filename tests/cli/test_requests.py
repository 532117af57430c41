"""Tasks of users of sqlite-utils, DuckDB, kcat, restic, jq and LMDB's tools, one by one, on the demo.

A row has the task, the command lines that solve it and patterns to be found in standard output or standard error.
If another test covers it in more detail, the row names that test.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from sowctl.cli.main import main
from tests.cli.conftest import Cli

TESTS = Path(__file__).parents[1]
NOW = "2026-01-05T11:40:00Z"


class Line(NamedTuple):
    """One command line: its status, and patterns that must be in its output; with ``!`` in front: must not be."""

    argv: list[str]
    status: int = 0
    looked_for: tuple[str, ...] = ()
    stdin: bytes = b""


class Elsewhere(NamedTuple):
    """The test that covers a row: its file below tests, and its name."""

    path: str
    name: str


def line(text: str, *looked_for: str, status: int = 0, stdin: bytes = b"") -> Line:
    """A command line as typed, with words in single quotes kept together."""
    words = [quoted or plain for quoted, plain in re.findall(r"'([^']*)'|(\S+)", text)]
    return Line(words, status, looked_for, stdin)


BAD = b'{"orderId":1}\n{bad\n\n{"orderId":2}\n'
REQUESTS: dict[str, list[Line | Elsewhere]] = {
    "1 skip malformed lines, report them, continue": [
        line(
            "publish orders --on-error skip --rejects rejects.ndjson --dry-run",
            r"2 inserted",
            r"1 rejected",
            status=3,
            stdin=BAD,
        ),
        line("publish orders --on-error skip --max-errors 1 --dry-run", "SOW-PUB", status=7, stdin=b"{a\n{b\n"),
    ],
    "2 an error names file, line, column": [
        line("publish orders bad.ndjson --dry-run", r"bad\.ndjson:2:\d+", status=3),
    ],
    "3 counts of what was inserted, replaced, ignored": [
        line("publish orders --dry-run --summary json", r'"inserted": ?1', r'"unchanged": ?0', stdin=b'{"orderId":1}'),
    ],
    "4 lines are applied as they arrive, and echoed": [
        line("publish quotes --batch 1 --tee", r'^{"symbol":"A"}$', stdin=b'{"symbol":"A"}\n'),
        Elsewhere("cli/test_exit_status.py", "test_a_silent_input_still_gets_its_batch_acknowledged"),
    ],
    "5 progress when the input is a pipe": [
        Elsewhere("cli/test_session.py", "test_tee_dry_run_and_progress"),
    ],
    "6 no progress, and no failure, without a terminal": [
        line("publish orders --dry-run", r"![\r\x1b]", stdin=b'{"orderId":1}\n'),
        Elsewhere("cli/test_progress.py", "test_nothing_is_drawn_where_nobody_looks"),
    ],
    "7 every error has a status that is not 0": [
        line("query nothere", "error", status=10),
        line("query orders '/a ='", "error", status=2),
        line("get orders nothere", status=1),
        Elsewhere("cli/test_exit_status.py", "test_status"),
    ],
    "8 different statuses for locked, missing, damaged": [
        line("query nothere.sow", status=10),
        Elsewhere("cli/test_exit_status.py", "test_11_a_lock_that_is_held"),
        Elsewhere("cli/test_exit_status.py", "test_5_damage_names_the_command_that_helps"),
    ],
    "9 a stable code in JSON": [
        line("query nothere --error-format json", r'"code": "SOW-ENG-012"', r'"exit": 10', status=10),
        line("explain SOW-ENG-012", "SOW-ENG-012"),
    ],
    "10 bulk errors are not swallowed, bad data does not hang": [
        line("publish orders --framing envelope --timeout 20s --dry-run", "SOW-INP-010", status=3, stdin=b"nonsense\n"),
        Elsewhere("cli/test_process.py", "test_a_timeout_ends_a_run_as_an_interrupt_would"),
    ],
    "11 check summarises its findings": [
        line("check --summary text", r"\d records", "no damage"),
        line("check orders --summary json", r'"records": ?\d+'),
    ],
    "12 verifying reads the data": [
        Elsewhere("store/test_damage.py", "test_no_flipped_bit_is_silent"),
        Elsewhere("journal/test_damage.py", "test_every_byte_flipped_is_reported"),
    ],
    "13 repair says its plan and loses nothing": [
        line("store repair orders --dry-run"),
        Elsewhere("cli/test_store_upkeep.py", "test_repair"),
    ],
    "14 an offline hash to compare replicas": [
        line("hash orders", r"^[0-9a-f]{32}  orders$"),
        line("hash orders --at 2026-01-05T10:00:00Z", r"^[0-9a-f]{32}"),
        line("hash orders --expect 00000000000000000000000000000000", status=1),
    ],
    "15 offline diagnosis": [
        line("doctor", "lmdb", status=1),
    ],
    "16 a range of times, with an end that is pinned": [
        line("journal dump --from 2026-01-05T09:30:00Z --to 2026-01-05T09:31:00Z", r"2026-01-05T09:30", "!T09:32"),
        line("subscribe orders --until-now --no-sow", status=0),
    ],
    "17 an unknown field is said": [
        line("query orders '/statsu = 1'", r"did you mean /?status"),
        line("query orders '/statsu = 1' --strict", "SOW-QRY-024", status=2),
    ],
    "18 diff of two states": [
        line("diff orders@2026-01-05T10:00:00Z orders --summary", r"changed", status=1),
        line("diff orders orders"),
    ],
    "19 a dry run shows the change": [
        line("delete orders --filter '/status = 1 OR /qty > 0' --dry-run", r"dry run|would|deleted"),
        line("expire --dry-run"),
        line("replay --dry-run"),
    ],
    "20 back to a point in time, never destructive": [
        line("query orders --at 2026-01-05T10:00:00Z --count", r"^\d+$"),
        line("snapshot orders --at 2026-01-05T10:00:00Z --output then.sow"),
        line("query then.sow --count", r"^\d+$"),
    ],
    "21 a log with a torn end loads without help": [
        Elsewhere("journal/test_crash_states.py", "test_every_state_holds_what_was_acknowledged"),
    ],
    "22 a readable dump of an LMDB file": [
        line("query sow/orders.json.sow --meta -n 1 --format ndjson", r'"orderId"', r'"sow_key"'),
    ],
    "23 a script runs many commands in one process": [
        line("shell --stop-on-error", r"^900$", r"^150$", stdin=b"query orders --count\nquery customers --count\n"),
        line("shell --stop-on-error", "!^150$", status=10, stdin=b"query nothere\nquery customers --count\n"),
    ],
    "24 a reader who may not write": [
        Elsewhere("cli/test_read_only.py", "test_every_reader"),
    ],
    "25 the map grows while others read": [
        Elsewhere("store/opening/test_handle.py", "test_another_process_grows_the_map_while_a_reader_is_open"),
    ],
    "26 who waits for a lock is told who holds it": [
        Elsewhere("store/opening/test_locks.py", "test_who_waits_too_long_is_told_who_holds_it"),
    ],
    "27 no traceback, and no local variables, on the terminal": [
        line("query orders '/a =' --debug", "Traceback", "!locals|│", status=2),
        line("query orders '/a ='", "!Traceback", status=2),
    ],
    "28 a fast start": [
        Elsewhere("cli/test_startup.py", "test_start_up_budget"),
    ],
    "29 a reader that goes away is no error": [
        Elsewhere("cli/test_process.py", "test_a_reader_that_goes_away_is_no_error"),
    ],
    "30 no escape sequence reaches the terminal": [
        line(
            "eval --filter '/a IS NOT NULL'",
            r"\[/foo\]",
            "!\x1b",
            stdin=b'{"a":"\\u001b[31m[/foo]"}\n',
        ),
        Elsewhere("output/test_display.py", "test_no_control_character_passes"),
        Elsewhere("output/test_table.py", "test_markup_is_text"),
    ],
    "31 large integers keep their digits": [
        line("eval --filter '/n > 1'", "12345678901234567890", stdin=b'{"n":12345678901234567890}\n'),
    ],
    "32 BOM, CRLF and blank lines": [
        line("publish orders --dry-run", r"2 inserted", stdin=b'\xef\xbb\xbf{"orderId":1}\r\n\r\n{"orderId":2}\r\n'),
    ],
    "33 a schema of all records, not of a sample": [
        line("schema orders --format ndjson", r'"/qty"', r"900 records"),
        line("schema orders --sample 10 --json-schema", r"sample of 10"),
    ],
    "34 batches of Arrow": [
        line("query orders --format arrow --output orders.arrow"),
        line("publish orders --from orders.arrow --dry-run", r"900 unchanged"),
        Elsewhere("spark/test_inference.py", "test_the_arrow_type_is_what_spark_makes_of_the_ddl"),
    ],
}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's instance, and a file with a bad line."""
    place = tmp_path_factory.mktemp("requests") / "demo"
    nowhere = io.BytesIO()
    assert main(["demo", str(place)], environ={}, stdin=nowhere, stdout=nowhere, stderr=nowhere) == 0
    (place / "bad.ndjson").write_bytes(BAD)
    return place


def test_every_request_has_an_answer() -> None:
    assert [int(name.split()[0]) for name in REQUESTS] == list(range(1, 35))
    for answers in REQUESTS.values():
        for one in answers:
            if isinstance(one, Elsewhere):
                assert f"def {one.name}(" in (TESTS / one.path).read_text(), one


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_request_is_answered(request_: str, demo: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(demo)
    for one in REQUESTS[request_]:
        if isinstance(one, Elsewhere):
            continue
        found = cli(*one.argv, stdin=one.stdin, environ={"SOWCTL_NOW": NOW})
        written = found.out + found.err
        assert found.status == one.status, written
        for pattern in one.looked_for:
            match = re.search(pattern.removeprefix("!"), written, re.MULTILINE)
            assert (match is None) is pattern.startswith("!"), (pattern, written)
