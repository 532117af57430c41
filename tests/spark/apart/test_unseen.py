"""A task of a data source on a machine without the files that its driver saw, told without a cluster."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

from pyspark.sql.types import LongType, StructField, StructType

from sowctl.spark.errors import CarriedError, decode_error
from sowctl.spark.origin import Origin
from sowctl.spark.reading.journalbatches import JournalQuery
from sowctl.spark.reading.journalreader import JournalReader
from sowctl.spark.reading.storereader import StoreQuery, StoreReader, sample_records
from tests.support.instances import START, Lab, config_xml, message, topic_xml

COLUMNS = StructType([StructField("_txid", LongType())])


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = Lab(tmp_path / "lab", config_xml("".join(map(topic_xml, ("t", "alone", "new", "unused"))), ("t", "unused")))
    for topic in ("t", "alone"):
        lab.publish(topic, message(id=1))
    return lab


def origin(lab: Lab, topic: str) -> Origin:
    instance = lab.open()
    return Origin(instance.config, instance.topic(topic).config, None, None, START)


def failed(reader: Any, part: Any) -> Any:
    with pytest.raises(CarriedError) as caught:
        list(reader.read(part))
    return decode_error(str(caught.value))


@pytest.mark.parametrize(
    "what", ["a store without a journal", "a store with a journal", "a store by its path", "a journal", "changes"]
)
def test_it_says_that_the_driver_saw_them(lab: Lab, what: str) -> None:
    reader: Any
    if what.endswith("path"):
        file = lab.open().topic("alone").config.file
        reader = StoreReader(StoreQuery(Origin(None, None, file, None, START)), COLUMNS)
    elif what.startswith("a store"):
        reader = StoreReader(StoreQuery(origin(lab, "t" if "with a" in what else "alone")), COLUMNS)
    else:
        query = JournalQuery(origin(lab, "t"), topic="t", message_type="json", changes=what == "changes")
        reader = JournalReader(query, COLUMNS)
    (part, *_) = reader.partitions()
    assert sum(batch.num_rows for batch in reader.read(part)) == 1
    shutil.rmtree(lab.directory)
    error = failed(reader, part)
    assert (error.code, error.exit_status) == ("SOW-SPK-141", 4)
    assert "the driver" in error.message and socket.gethostname() in error.message
    assert str(lab.directory) in error.place and "publish" not in error.hint and "mount" in error.hint


@pytest.mark.parametrize("topic", ["unused", "new"])
@pytest.mark.parametrize("at", [None, START - 1])
def test_a_topic_to_which_nothing_was_published_is_empty(lab: Lab, topic: str, at: int | None) -> None:
    """Whatever other topics have, with a journal and without one; inference of its fields finds none."""
    query = StoreQuery(origin(lab, topic), at)
    assert list(StoreReader(query, COLUMNS).partitions()) == []
    assert list(sample_records(query, None)) == []
