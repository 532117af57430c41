"""Errors and notes quote the beginning of a word of thousands of characters; all that they say else is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from sowctl.errors import LimitError, shorten_words
from tests.cli.conftest import Cli, cli  # noqa: F401 - a fixture
from tests.support.instances import config_xml, topic_xml

LONG = "9" * 4000
COMMANDS: dict[str, list[str]] = {
    "at": ["query", "t", "--at", LONG],
    "key": ["query", "t", "--sow-key", LONG],
    "no record": ["get", "t", LONG],
    "topic": ["query", LONG],
    "queue": ["queue", "info", LONG],
    "timestamp": ["publish", "t", "--timestamp", LONG],
    "type": ["publish", "t", "--from", "x.csv", "--type", f"n={LONG}"],
    "clock": ["--now", LONG, "query", "t"],
    "command": [LONG],
    "digest": ["hash", "t", "--expect", LONG],
    "bookmark": ["subscribe", "t", "--bookmark", LONG],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_error_echoes_a_long_number(name: str, cli: Cli, tmp_path: Path) -> None:  # noqa: F811 - the fixture
    (tmp_path / "sowctl.xml").write_text(config_xml(topic_xml("t"), ("t",)))
    (tmp_path / "x.csv").write_text("id,n\n1,2\n")
    assert cli("publish", "t", stdin=b'{"id":1}').status == 0
    done = cli(*COMMANDS[name])
    assert done.status != 0
    assert "9" * 20 in done.err and "..." in done.err
    assert len(done.err) < 600


def test_what_is_no_longer_than_a_name_stays() -> None:
    name = "a" * 255
    assert shorten_words(f"{name}: {name}") == f"{name}: {name}"
    error = LimitError("SOW-CLI-063", f"it is {LONG} and no more", hint="less")
    assert error.message == error.summary == f"it is {LONG[:40]}... and no more"
