"""``sowctl eval`` and ``sowctl functions`` in typical use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sowctl.engine.verbs.eval import EVAL_LIMITS
from tests.cli.conftest import Cli

MESSAGES = b'{"a":1,"s":"x"}\n{"a":2.50,"s":"\xc3\xa9"}\n\n{"s":null}\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "in.ndjson"
    path.write_bytes(MESSAGES)
    return path


def test_values_are_json_lines(cli: Cli, file: Path) -> None:
    assert cli("eval", "/a", str(file)).out == "1\n2.50\nnull\n"
    assert cli("eval", "/a * 2", str(file)).out == "2\n5.0\nnull\n"
    assert cli("eval", "/s", str(file)).out == '"x"\n"é"\nnull\n'
    assert cli("eval", "IF(/a = 1, 1/0, 1e999)", str(file)).out == "null\nnull\nnull\n"
    assert cli("eval", "/a > 1", str(file)).out == "false\ntrue\nfalse\n"
    assert cli("eval", "CHAR_VALUE(255)", str(file)).out == '"\ufffd"\n' * 3
    assert cli("eval", "MESSAGE_SIZE()", str(file)).out == "15\n19\n10\n"


def test_matching_messages_come_out_as_they_went_in(cli: Cli, file: Path) -> None:
    result = cli("eval", "--filter", "/a >= 1", str(file))
    assert (result.status, result.out) == (0, '{"a":1,"s":"x"}\n{"a":2.50,"s":"é"}\n')
    assert cli("eval", "--filter", "", str(file)).out.encode() == MESSAGES.replace(b"\n\n", b"\n")
    assert cli("eval", "-f", "/a = 7", str(file)).out == ""
    assert cli("eval", "--filter", "/a = 1", stdin=MESSAGES).out == '{"a":1,"s":"x"}\n'


def test_framings(cli: Cli) -> None:
    assert cli("eval", "-0", "--filter", "/a=1", stdin=b'{"a":1}\0{\n"a":1}\0{}\0').out == '{"a":1}\0{\n"a":1}\0'
    framed = b"".join(len(one).to_bytes(4, "big") + one for one in (b'{"a":1}', b'{"a":2}'))
    out = cli("eval", "--framing", "length", "--filter", "/a=2", stdin=framed).out
    assert out.encode() == framed[11:]
    lines = b'{"topic":"t","sow_key":"7","timestamp":"2026-01-01T00:00:00Z","data":{"a":1}}\n{"data":{"a":2}}\n'
    text = "CONCAT(TOPIC_NAME(), '/', SOW_KEY(), '/', /a, '/', STRFTIME('%Y', LAST_UPDATED()))"
    assert cli("eval", "--framing", "envelope", text, stdin=lines).out == '"t/7/1/2026"\n"//2/"\n'


def test_a_bad_message_stops_or_is_left_out(cli: Cli) -> None:
    bad = b'{"a":1}\n{"a":}\n\n{"a":3}\nnope\n'
    stopped = cli("eval", "/a", stdin=bad)
    assert (stopped.status, stopped.out) == (3, "1\n")
    assert "(standard input):2" in stopped.err
    assert "--on-error skip" in stopped.err
    skipped = cli("eval", "/a IS NULL", "--on-error", "skip", stdin=bad)
    assert (skipped.status, skipped.out) == (3, "false\nfalse\n")
    assert "(standard input):2" in skipped.err
    assert "(standard input):5" in skipped.err
    assert cli("eval", "--filter", "/a IS NULL", "--on-error", "skip", stdin=bad).out == ""


def test_exit_statuses(cli: Cli, file: Path, tmp_path: Path) -> None:
    assert cli("eval", "/a = ", str(file)).status == 2
    assert cli("eval", "", str(file)).status == 2
    assert cli("eval", "SUM(/a)", str(file)).status == 2
    assert cli("eval", "/a", str(tmp_path / "missing")).status == 10
    assert cli("eval", "/a", "--message-type", "smoke", str(file)).status == 2
    assert cli("eval", "/a", "--message-type", "binary", str(file)).status == 2
    hostile = json.dumps({"s": "a" * 40 + "!"}).encode()
    runaway = cli("eval", "--filter", "/s LIKE '^(a+)+$'", stdin=b'{"s":"aa"}\n' + hostile + b"\n")
    assert (runaway.status, runaway.out) == (7, '{"s":"aa"}\n')
    assert runaway.err.startswith("error[SOW-EXP-030]: (standard input):2: ") and "'^(a+)+$'" in runaway.err


def test_explain_reads_no_message(cli: Cli) -> None:
    result = cli("eval", "--explain", "--filter", "5 < /a", "/no/such/file")
    assert result.status == 0
    assert result.out.startswith("expression  5 < /a\nrewrite     field_first: 5 < /a  ->  /a > 5\n")


def test_several_processes_give_what_one_gives(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "big.ndjson"
    lines = [b'{"a":%d,"s":"%s"}' % (number, b"x" * (number % 97)) for number in range(5000)]
    path.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(lines) + b"\n\n")
    alone = cli("eval", "--filter", "/a % 7 = 3", str(path))
    values = cli("eval", "/a + 1", str(path))
    monkeypatch.setattr(EVAL_LIMITS, "segment_bytes", 10_000)
    monkeypatch.setattr("sowctl.cli.commands.bodies.eval.count_processes", lambda size: 3)
    assert cli("eval", "--filter", "/a % 7 = 3", str(path)).out == alone.out != ""
    assert cli("eval", "/a + 1", str(path)).out == values.out
    assert values.out == "".join(f"{number + 1}\n" for number in range(5000))
    lines[3333] = b"broken"
    path.write_bytes(b"\n".join(lines))
    stopped = cli("eval", "/a", str(path))
    assert (stopped.status, stopped.out) == (3, "".join(f"{number}\n" for number in range(3333)))
    assert f"{path}:3334" in stopped.err
    skipped = cli("eval", "/a", "--on-error", "skip", str(path))
    assert skipped.status == 3
    assert len(skipped.out.splitlines()) == 4999
    assert f"{path}:3334" in skipped.err


def test_functions(cli: Cli) -> None:
    everything = cli("functions").out
    assert everything.startswith("Choice:\n")
    assert "  SUBSTR(s, start [, len])" in everything
    one = cli("functions", "substr").out
    assert one.startswith("SUBSTR(s, start [, len])\n")
    assert "NULL:" in one
    assert json.loads(cli("functions", "Substr()", "--format", "json").out)["least"] == 2
    missing = cli("functions", "lenght")
    assert missing.status == 1
    assert "did you mean LENGTH?" in missing.err
    assert "lists them all" in cli("functions", "zzzzzzzz").err


@pytest.mark.parametrize(
    "odd", [b'{"a":-1,"s":"%s"}' % (b"y" * 300_000), b"", b" \t", b'{"a":-1}\r', b"\xef\xbb\xbf{}"]
)
def test_odd_lines_among_plain_ones(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: bytes) -> None:
    path = tmp_path / "odd.ndjson"
    lines = [b'{"a":%d,"s":"%s"}' % (number, b"x" * 100) for number in range(3000)]
    path.write_bytes(b"\n".join([*lines[:1500], odd, *lines[1500:2500], b"bad", *lines[2500:]]))
    argv = ("eval", "--filter", "/a % 10 = 3 OR /a < 0", "--on-error", "skip", str(path))
    alone = cli(*argv)
    monkeypatch.setattr(EVAL_LIMITS, "segment_bytes", 50_000)
    monkeypatch.setattr("sowctl.cli.commands.bodies.eval.count_processes", lambda size: 2)
    several = cli(*argv)
    assert (several.status, several.out, several.err) == (alone.status, alone.out, alone.err)
    assert f"{path}:2502" in several.err
    assert len(several.out.splitlines()) >= 300
