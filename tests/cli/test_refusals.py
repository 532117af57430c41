"""Reports of refused messages: position, excerpt, hint, as text and as JSON, and a limited number of lines."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

CONFIG = """\
<AMPSConfig>
  <Name>test</Name>
  <SOW>
    <Topic><Name>t</Name><MessageType>json</MessageType><Key>/id</Key><FileName>sow/%n.sow</FileName></Topic>
    <Topic><Name>f</Name><MessageType>nvfix</MessageType><Key>/id</Key><FileName>sow/%n.sow</FileName></Topic>
  </SOW>
</AMPSConfig>
"""


@pytest.fixture
def shop(cli: Cli) -> Cli:
    """An instance without records, and the files of the cases below."""
    Path("sowctl.xml").write_text(CONFIG)
    return cli


PIPE = " | sowctl publish ..."
FOREIGN = [
    (b"BZh91AY&SY", "bzcat 'an input'" + PIPE),
    (b"\xfd7zXZ\x00", "xzcat 'an input'" + PIPE),
    (b"PAR1\x15\x04", " Parquet: sowctl publish TOPIC --format parquet"),
    ('{"id":1}\n'.encode("utf-16"), "iconv -f UTF-16 -t UTF-8 'an input'"),
    ('{"id":1}\n'.encode("utf-16-le"), "iconv -f UTF-16LE -t UTF-8 'an input'"),
    (b'{"id":1}\r{"id":2}\r', r"tr '\r' '\n' < 'an input'" + PIPE),
    (b"id,symbol\n1,IBM\n", " CSV, sowctl publish --format csv "),
]


@pytest.mark.parametrize(("content", "hint"), FOREIGN, ids=lambda value: repr(value)[:20])
@pytest.mark.parametrize("mode", ["stop", "abort", "skip"])
def test_an_input_of_another_kind_gets_its_hint(content: bytes, hint: str, mode: str, shop: Cli) -> None:
    Path("an input").write_bytes(content)
    err = shop("publish", "t", "an input", "--on-error", mode).err
    assert hint in err
    assert err.count(hint) == 1


@pytest.mark.parametrize("content", [b'{"x":1,"y":2}\n', b'{"id":1} x\n', b"oops\n", b'"a,b"\n'])
def test_a_bad_message_is_not_taken_for_another_kind(content: bytes, shop: Cli) -> None:
    for place in (0, 1):
        err = shop("publish", "t", stdin=b'{"id":1}\n' * place + content).err
        assert "hint: --on-error skip " in err
    assert "jq" not in shop("publish", "t", stdin=b'{"id":1}\n[1]\n').err
    assert "jq" not in shop("publish", "f", stdin=b"[1]\n").err


PACKED = [(gzip.compress(b'{"id":1}\n', mtime=0), "zcat"), (b"\x28\xb5\x2f\xfd\x04\x58\x41\x00\x00", "zstdcat")]


@pytest.mark.parametrize(("content", "tool"), PACKED)
def test_a_pipe_is_not_unpacked(content: bytes, tool: str, shop: Cli) -> None:
    assert f"... | {tool}{PIPE}" in shop("publish", "t", stdin=content).err


def test_the_place_is_that_of_the_input(shop: Cli) -> None:
    Path("in").write_bytes('{"id":1}\n\n{"id":"ü",bad}\n'.encode())
    said = shop("publish", "t", "in").err.splitlines()
    assert said[0].startswith("error[SOW-MSG-002]: in:3:11: ") and said[0].endswith(" 'b'")
    assert said[1:3] == ['  {"id":"ü",bad}', "            ^"]
    row = json.loads(shop("publish", "t", "in", "--error-format", "json").err)
    assert (row["place"], row["line"], row["column"], row["byte"]) == ("in:3:11", 3, 11, 10)
    assert row["excerpt"] == '{"id":"ü",bad}\n          ^'
    for command in (["eval", "/id = 1"], ["key", "t"]):
        told = shop(*command, "in", *(["--on-error", "skip"] if command[0] == "eval" else [])).err
        assert re.search(r"\[SOW-MSG-002\] in:3:11: .* 'b'\n", told)
    assert shop("eval", "/id = 1", "in").err.startswith("error[SOW-MSG-002]: in:3:11: ")


def test_a_message_of_several_lines_has_its_own_places(shop: Cli) -> None:
    said = shop("publish", "t", "-0", stdin=b'{"id":1}\0{\n"id":2,\nbad}\0').err
    assert re.match(r"error\[SOW-MSG-002\]: \(standard input\):2: .* 'b' \(line 3, column 1\)\n", said)
    assert "(standard input):2:2: " in shop("publish", "t", "-0", stdin=b'{"id":1}\0{bad\0').err


def test_an_envelope_s_data_has_columns_of_its_own(shop: Cli) -> None:
    said = shop("publish", "t", "--framing", "envelope", stdin=b'{"data_base64":"e2JhZA=="}\n').err
    assert said.startswith("error[SOW-MSG-002]: (standard input):1: ")
    assert re.search(r" 'b' \(column 2 .*\)\n", said)
    said = shop("publish", "t", "--framing", "envelope", stdin=b'{"data":{},bad}\n').err
    assert said.startswith("error[SOW-INP-010]: (standard input):1:12: invalid envelope: ")


def test_a_long_line_is_cut_around_the_place_and_shown_safely(shop: Cli) -> None:
    line = b'{"id":"' + b"x" * 500 + b'\x1b[31m"}' + b"y" * 500 + b"\n"
    said = shop("publish", "t", stdin=line).err
    assert "\x1b" not in said
    shown, caret = said.splitlines()[1:3]
    assert len(shown) < 125
    assert shown.startswith("  ...xxx")
    assert shown.endswith("yyy...")
    assert shown[caret.index("^") :].startswith("\\x1b[31m")


def test_the_first_ten_are_told_and_the_rest_are_counted(shop: Cli) -> None:
    lines = b"{bad\n" * 25 + b'{"id":1}\n'
    said = shop("publish", "t", "--on-error", "skip", stdin=lines)
    assert said.status == 3
    warnings = [line for line in said.err.splitlines() if line.startswith("warning")]
    assert len(warnings) == 11
    assert warnings[9].startswith("warning: [SOW-MSG-002] (standard input):10:2: ")
    assert warnings[10].startswith("warning: 15 more ")
    assert re.search(r"hint: .*--rejects.*--verbose", said.err)
    assert shop("publish", "t", "--on-error", "skip", "--verbose", stdin=lines).err.count("warning") == 25
    assert shop("publish", "t", "--on-error", "skip", stdin=b"{bad\n" * 10).err.count("warning") == 10
    assert "warning: one more " in shop("publish", "t", "--on-error", "skip", stdin=b"{bad\n" * 11).err
    kept = shop("publish", "t", "--on-error", "skip", "--rejects", "bad", stdin=lines)
    assert "warning" not in kept.err
    rows = [json.loads(line) for line in Path("bad").read_text().splitlines()]
    assert [(row["line"], row["column"]) for row in rows] == [(number, 2) for number in range(1, 26)]
    for command in (["eval", "1", "--on-error", "skip"], ["key", "t"]):
        assert shop(*command, stdin=lines).err.count("warning") == 11


def test_warnings_in_json_are_rows(shop: Cli) -> None:
    said = shop("publish", "t", "--on-error", "skip", "--error-format", "json", stdin=b"{bad\n" * 12).err.splitlines()
    rows = [json.loads(line) for line in said]
    assert rows[1].pop("message").endswith(" 'b'")
    assert rows[1] == {
        "level": "warning",
        "code": "SOW-MSG-002",
        "place": "(standard input):2:2",
        "file": "(standard input)",
        "line": 2,
        "column": 2,
        "byte": 5,
    }
    assert (rows[10]["message"].split()[0], rows[10]["refused"]) == ("2", 12)


def test_one_more_than_max_errors_ends_the_run_there(shop: Cli) -> None:
    Path("in").write_bytes(b'{"id":1}\n{bad\n{"id":2}\n{bad\n{"id":3}\n{bad\n')
    said = shop("publish", "t", "in", "--on-error", "skip", "--max-errors", "1", "--rejects", "bad")
    assert said.status == 7
    assert said.err.startswith("error[SOW-PUB-020]: in:4:2: 2 messages ")
    assert " line 5: tail -n +5 in\n" in said.err
    assert [json.loads(line)["line"] for line in Path("bad").read_text().splitlines()] == [2, 4]
    assert shop("query", "t", "-o", "/id").out == '{"id":1}\n{"id":2}\n'


def test_a_dry_run_promises_nothing(shop: Cli) -> None:
    said = shop("publish", "t", "--dry-run", stdin=b'{"id":1}\n')
    assert said.err.startswith("t: dry run, ") and said.err.endswith(": 1 inserted, 0 updated; 8 B\n")
    row = json.loads(shop("publish", "t", "--dry-run", "--summary", "json", stdin=b'{"id":1}\n').out)
    assert (row["dry_run"], row["durable"], row["first_txid"]) == (True, False, 0)
    assert json.loads(shop("publish", "t", "--summary", "json", stdin=b'{"id":1}\n').out)["durable"] is True
