"""Rows of one record with many fields are written many at once."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from sowctl.cli.main import main
from tests.cli.conftest import Cli
from tests.support.instances import config_xml, topic_xml

MEMBERS = 5000


class Counted(io.BytesIO):
    """A stream that counts the writes to it."""

    writes = 0

    def write(self, data: object) -> int:
        """Write, counted."""
        self.writes += 1
        return super().write(data)  # type: ignore[arg-type]  # bytes of any kind


@pytest.mark.parametrize("format", ["csv", "tsv", "ndjson", "json"])
def test_blame_of_many_members(format: str, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "sowctl.xml").write_text(config_xml(topic_xml("t"), ("t",)))
    record = {"id": 1} | {f"f{number}": number for number in range(MEMBERS)}
    assert cli("publish", "t", stdin=json.dumps(record).encode()).status == 0
    out = Counted()
    words = ["blame", "t", "1", "--format", format]
    assert main(words, environ={}, stdin=io.BytesIO(), stdout=out, stderr=io.BytesIO()) == 0
    assert out.getvalue().count(b"f4999") == 1
    assert out.writes < MEMBERS / 100
