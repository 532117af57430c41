"""Files of refused rows and of counts: what needs no Spark running."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

from sowctl.engine.bulk.staging import StagedAttempt
from sowctl.engine.reports import CommitReport, Rejected
from sowctl.engine.writing.rejects import format_reject_line
from sowctl.errors import MissingError
from sowctl.spark.writing.writers import append_counts, append_refused, require_directory


def refused(partition: int, row: int, payload: bytes) -> Rejected:
    return Rejected(f"partition {partition}", 0, row - 1, "SOW-PUB-002", "no key", payload)


def test_refused_rows_are_kept_in_the_order_of_the_rows(tmp_path: Path) -> None:
    (tmp_path / "b.rejects").write_bytes(format_reject_line(refused(1, 3, b"\xff")))
    (tmp_path / "a.rejects").write_bytes(
        format_reject_line(refused(0, 2, b"x")) + format_reject_line(refused(0, 9, b"y"))
    )
    (tmp_path / "lost.rejects").write_bytes(b"of an attempt that did not win")
    staged = [
        StagedAttempt("b", (), 5, 0, 1, (), "b.rejects", False, (1, 0)),
        StagedAttempt("a", (), 9, 0, 2, (), "a.rejects", False, (0, 0)),
        StagedAttempt("c", (), 9, 0, 0, (), None, False, (2, 0)),
    ]
    path = tmp_path / "refused.ndjson"
    path.write_text("{}\n")
    append_refused(path, tmp_path, staged, [refused(12, 1, b"z")])
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(row.get("partition"), row.get("row"), row.get("input")) for row in rows] == [
        (None, None, None),
        (0, 2, "x"),
        (0, 9, "y"),
        (1, 3, None),
        (12, 1, "z"),
    ]
    assert rows[3] == {"partition": 1, "row": 3, "code": "SOW-PUB-002", "error": "no key", "input_base64": "/w=="}


def test_counts_are_a_line_for_each_write(tmp_path: Path) -> None:
    path = tmp_path / "report"
    append_counts(path, CommitReport("orders", "json", messages=3, inserted=2, rejected=1, last_txid=7), None)
    append_counts(path, CommitReport("orders", "json"), ("feed", 5))
    first, second = [json.loads(line) for line in path.read_text().splitlines()]
    assert (first["topic"], first["messages"], first["inserted"], first["rejected"]) == ("orders", 3, 2, 1)
    assert "client" not in first and (second["client"], second["sequence"]) == ("feed", 5)


def test_a_file_that_could_not_be_written_is_refused_before(tmp_path: Path) -> None:
    require_directory(None, "rejects")
    require_directory(tmp_path / "new", "rejects")
    with pytest.raises(MissingError, match="option rejects") as caught:
        require_directory(tmp_path / "none" / "file", "rejects")
    assert (caught.value.code, caught.value.place) == ("SOW-ENG-013", str(tmp_path / "none"))
