"""Hints of commands for mistakes of new users, which would otherwise give no output or the hint of another error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

CONFIG = """<AMPSConfig><Name>one</Name><SOW><Topic><Name>t</Name><MessageType>json</MessageType><Key>/id</Key>
<FileName>./%n.sow</FileName></Topic></SOW><TransactionLog><JournalDirectory>./journal</JournalDirectory>
<Topic><Name>t</Name><MessageType>json</MessageType></Topic></TransactionLog></AMPSConfig>"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> Path:
    """A directory with an instance of one record, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sowctl.xml").write_text(CONFIG)
    assert cli("publish", "t", stdin=b'{"id":1,"price":2}\n').status == 0
    return tmp_path


def test_an_input_of_lengths_is_named_by_its_file(shop: Path, cli: Cli) -> None:
    (shop / "in").write_bytes(b"\0\0\0\x08" + b'{"id":2}' + b'{"id":3}')
    said = cli("publish", "t", "in", "--framing", "length")
    assert (said.status, said.err.count("error[SOW-INP-003]: in@12: ")) == (7, 1), said.err
    (shop / "in").write_bytes(b"\0\0\0\x08" + b'{"id"')
    said = cli("eval", "/id", "in", "--framing", "length")
    assert "SOW-INP-002]: in@0: " in said.err, said.err


@pytest.mark.parametrize(
    ("argv", "status", "words"),
    [
        (("query", "t", "-o", "/price UP"), 2, "ASC or DESC"),
        (("query", "t", "NOSUCH(/id) = 1"), 2, "hint: sowctl functions"),
        (("query", "t", "LENGHT(/id) = 1"), 2, "did you mean LENGTH?"),
        (("publish", "t", "--expiration", "5x"), 2, "500ms"),
        (("replay", "--until", "1", "--into", "sowctl.xml"), 6, "SOW-CLI-060"),
        (("journal", "dump", "--txid", "5:1"), 2, "5:1 is empty"),
        (("validate", "empty.xml"), 4, "is empty"),
    ],
)
def test_the_hint_fits_the_fault(argv: tuple[str, ...], status: int, words: str, shop: Path, cli: Cli) -> None:
    (shop / "empty.xml").write_bytes(b"")
    said = cli(*argv)
    assert (said.status, words in said.out + said.err) == (status, True), said.out + said.err
    assert "&amp;" not in said.out


def test_explain_keeps_to_the_width_of_help(cli: Cli) -> None:
    lines = cli("explain", "SOW-JRN-021").out.splitlines()
    assert 70 < max(map(len, lines)) <= 80


def test_a_closed_standard_input_is_said(shop: Path) -> None:
    root = Path(__file__).parents[2]
    command = f"'{sys.executable}' -m sowctl publish t <&-"
    done = subprocess.run(command, shell=True, capture_output=True, env={"PYTHONPATH": str(root)}, check=False)
    assert done.returncode == 0
    assert b"standard input " in done.stderr
