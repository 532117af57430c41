"""What ``pipeline stream --console`` prints of an entry, told without Spark."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

from sowctl.cli.commands.bodies.pipeline import format_entry
from sowctl.cli.main import main
from sowctl.spark.jobs.stream import StreamEntry, _EntryForwarder
from tests.support.instances import Lab, config_xml, message, topic_xml


class Batch:
    """As much of a DataFrame as is asked for."""

    def __init__(self, *rows: tuple[object, ...]) -> None:
        self.rows = rows

    def selectExpr(self, *columns: str) -> Batch:
        assert len(columns) == len(StreamEntry._fields)
        return self

    def toLocalIterator(self) -> object:
        return iter(self.rows)


def test_a_deletion_is_told_as_by_journal_dump(tmp_path: Path) -> None:
    lab = Lab(tmp_path, config_xml(topic_xml("t"), ("t",)))
    lab.publish("t", message(id=1))
    lab.open().topic("t").delete(filter="/id = 1")
    out = io.BytesIO()
    main(
        ["journal", "dump", "--config", str(lab.directory / "sowctl.xml"), "--format", "ndjson"],
        environ={},
        stdin=io.BytesIO(),
        stdout=out,
        stderr=io.BytesIO(),
    )
    published, deleted = map(json.loads, out.getvalue().splitlines())
    shown: list[StreamEntry] = []
    rows = [
        ("publish", bytearray(b'{"id":1}'), 1, "t", Decimal(published["sow_key"])),
        ("delete", None, 2, "t", Decimal(deleted["sow_key"])),
    ]
    showing = _EntryForwarder(shown.extend)
    showing(Batch(*rows), 0)  # type: ignore[arg-type]
    assert showing.read_totals() == (2, 8)
    first, second = map(format_entry, shown)
    assert first == b'{"id":1}'
    told = json.loads(second)
    assert list(told) == ["topic", "sow_key", "txid", "operation"]
    assert told.items() <= deleted.items() and told["operation"] == "delete"
    assert json.loads(format_entry(StreamEntry("delete", None, 7, "free", None)))["sow_key"] is None
