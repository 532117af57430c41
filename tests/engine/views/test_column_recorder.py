"""Writing of columns during a full computation of a view: its cost if a filter leaves no rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from sowctl.engine.views.column_file import ColumnFile, ColumnWriter
from sowctl.engine.views.definition import Program, build_query
from sowctl.engine.views.instant import find_entry
from sowctl.engine.views.limits import VIEW_LIMITS
from sowctl.engine.views.stored_columns import ColumnRecorder
from sowctl.values.batch import ColumnBatch
from sowctl.values.column import build_column
from sowctl.values.topicref import TopicRef
from tests.support.instances import Lab, config_xml, topic_xml

VIEW = """<View><Name>all</Name><MessageType>json</MessageType>
<UnderlyingTopic><Join>[orders]./client = [clients]./id</Join></UnderlyingTopic>
<Projection><Field>[orders]./client AS /client</Field></Projection><Grouping><Field>[orders]./client</Field></Grouping>
<Filter>[clients]./id = 'none'</Filter></View>"""
PART_RECORDS = 10


def build_part(number: int) -> ColumnBatch:
    keys = np.arange(number * PART_RECORDS, (number + 1) * PART_RECORDS).astype(np.uint64)
    texts = build_column([b"c"] * PART_RECORDS)
    return ColumnBatch(
        [texts], PART_RECORDS, txids=keys, times=np.zeros(PART_RECORDS, np.int64), keys=keys, texts=[texts]
    )


def count_copied(program: Program, parts: int) -> int:
    """Return how many numbers are concatenated while recording ``parts`` parts without rows."""
    concatenate, copied = np.concatenate, 0

    def counted(arrays: Any, *more: Any, **options: Any) -> Any:
        nonlocal copied
        copied += sum(map(len, arrays))
        return concatenate(arrays, *more, **options)

    data = bytearray()
    writer = ColumnWriter(data.extend)
    recorder = ColumnRecorder(program, [writer])
    with patch.object(np, "concatenate", counted), patch.object(VIEW_LIMITS, "column_part_records", 2 * PART_RECORDS):
        assert sum(1 for _ in recorder.record_parts(0, map(build_part, range(parts)))) == parts // 2
    writer.finish()
    file = ColumnFile(bytes(data), Path("columns"))
    assert (file.records, file.index.rows) == (parts * PART_RECORDS, [])
    return copied


def test_records_without_rows_cost_no_more_the_more_they_are(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", config_xml(topic_xml("orders") + topic_xml("clients") + VIEW, ()))
    view: Any = find_entry(lab.open(), TopicRef("all", "json"))
    program = Program(lab.open(), build_query(lab.open(), view))
    few, many = count_copied(program, 20), count_copied(program, 200)
    assert 0 < many <= 10 * few
