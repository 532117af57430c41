"""An error of evaluation names the record that it is about, also where a projection meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, cli  # noqa: F401 - a fixture
from tests.support.instances import config_xml, topic_xml

HOSTILE = "IF(/s LIKE '(a+)+$', 1, 0)"


@pytest.mark.parametrize("command", ["query", "subscribe"])
def test_projections_name_the_record(command: str, cli: Cli, tmp_path: Path) -> None:  # noqa: F811 - the fixture
    (tmp_path / "sowctl.xml").write_text(config_xml(topic_xml("t"), ("t",)))
    lines = b'{"id":1,"s":"b"}\n{"id":2,"s":"' + 40 * b"a" + b'b"}\n{"id":3,"s":"b"}\n'
    assert cli("publish", "t", stdin=lines).status == 0
    key = json.loads(cli("key", "t", stdin=lines.splitlines()[1]).out)["sow_key"]
    run = cli(command, "t", "--projection", f"SUM({HOSTILE}) AS /n", "--grouping", "/id")
    assert (run.status, "SOW-EXP-030" in run.err) == (7, True), run.err
    assert f"record {key}: " in run.err
