"""The driver of a test on a cluster:
``python -m tests.spark.cluster.driver MASTER ARCHIVE DIRECTORY JOB ARGUMENT...``.


A process of its own, so that it can be killed. Executors run what is in the archive. Prints what the job's report says,
or the code of its error, and ends with the status of that.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.config.derived_entries import View
from sowctl.engine.api import InstanceHandle
from sowctl.errors import SowError
from sowctl.remote.place import Place, parse_place
from sowctl.spark.errors import translate_errors
from sowctl.spark.jobs.export import export
from sowctl.spark.jobs.limits import JOB_LIMITS
from sowctl.spark.jobs.load import LoadOptions, load
from sowctl.spark.jobs.outputs.output_spec import Output
from sowctl.spark.jobs.rebuild import rebuild
from sowctl.spark.jobs.report import JobReport
from sowctl.spark.jobs.snapshot import snapshot
from sowctl.spark.jobs.stream import StreamOptions, stream
from sowctl.spark.jobs.view import view
from tests.support.instances import Lab, config_xml, topic_xml
from tests.support.processes import QUICK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VIEW = """<View><Name>totals</Name><MessageType>json</MessageType><UnderlyingTopic>orders</UnderlyingTopic>
<Projection><Field>/desk AS /desk</Field><Field>SUM(/qty) AS /sum</Field><Field>COUNT(/id) AS /n</Field></Projection>
<Grouping><Field>/desk</Field></Grouping></View>"""
SAME = "<KeyDomain>one</KeyDomain>"
XML = config_xml(topic_xml("orders", SAME) + topic_xml("copy", SAME) + VIEW, ("orders", "copy"))
SPLIT = 60_000
"""Bytes of a task of ``load``: some dozens of tasks."""


def lab_in(directory: Path) -> Lab:
    """The instance of these tests; its journal has several files."""
    return Lab(directory, XML, journal_size=400_000)


def _load(spark: SparkSession, instance: InstanceHandle, path: str) -> JobReport:
    return load(spark, instance, instance.topic("orders").config, [path], LoadOptions(split_bytes=SPLIT))


def _rebuild(spark: SparkSession, instance: InstanceHandle) -> JobReport:
    return rebuild(spark, instance, [instance.topic("orders").config])


def _export(
    spark: SparkSession, instance: InstanceHandle, path: str, stage: str = "", kind: str = "ndjson", most: str = "0"
) -> JobReport:
    # Parts as small as they are asked for.
    JOB_LIMITS.records_per_part = int(most) or JOB_LIMITS.records_per_part
    output = Output(path, kind, force=bool(stage))
    return export(spark, instance, [instance.topic("orders").config], output, staging_directory=_place(stage))


def _snapshot(spark: SparkSession, instance: InstanceHandle, at: str, path: str, stage: str = "") -> JobReport:
    topic, output = instance.topic("orders").config, Output(path, "ndjson")
    return snapshot(spark, instance, topic, int(at), output, staging_directory=_place(stage))


def _view(spark: SparkSession, instance: InstanceHandle, path: str, stage: str = "") -> JobReport:
    assert instance.config is not None
    (entry,) = instance.config.find_entries("totals")
    assert isinstance(entry, View)
    return view(spark, instance, entry, Output(path, "ndjson"), staging_directory=_place(stage))


def _place(stage: str) -> Place | None:
    return parse_place(stage) if stage else None


def _stream(spark: SparkSession, instance: InstanceHandle, checkpoint: str, most: str) -> JobReport:
    topics = instance.topic("orders").config, instance.topic("copy").config
    options = StreamOptions(checkpoint, into=topics[1], client="copier", available_now=True, max_entries=int(most))
    return stream(spark, instance, topics[0], options)


def _count(spark: SparkSession, instance: InstanceHandle) -> int:
    """The entries of a topic, by a data source."""
    assert instance.config is not None
    frame = spark.read.format("sow-journal").options(config=str(instance.config.path), topic="orders").load()
    return frame.count()


def _where(spark: SparkSession, instance: InstanceHandle) -> str:
    """What executors run, and where they look for modules."""

    def look(number: int) -> tuple[str, str, str, list[str], list[str]]:
        import pyarrow

        import sowctl

        return sys.prefix, sowctl.__file__, pyarrow.__file__, sys.path, os.environ["PATH"].split(os.pathsep)

    found = spark.sparkContext.parallelize(range(8), 8).map(look).collect()
    return json.dumps(found)


JOBS: dict[str, Callable[..., JobReport | int | str]] = {
    "load": _load,
    "rebuild": _rebuild,
    "export": _export,
    "snapshot": _snapshot,
    "view": _view,
    "stream": _stream,
    "count": _count,
    "where": _where,
}


def main() -> None:
    """Do what the arguments say; jobs that are separated by ``,`` in one session."""
    from sowctl.spark.sessions import open_session

    master, packed, directory, *rest = sys.argv[1:]
    conf = {
        "spark.driver.extraJavaOptions": QUICK,
        "spark.executor.extraJavaOptions": QUICK,
        "spark.executor.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
    }
    lab = lab_in(Path(directory))
    with open_session(master, environment=os.environ, conf=conf, app="sowctl on a cluster", packed=packed) as spark:
        while rest:
            end = rest.index(",") if "," in rest else len(rest)
            (name, *arguments), rest = rest[:end], rest[end + 1 :]
            try:
                with translate_errors():
                    told = JOBS[name](spark, lab.open(), *arguments)
            except SowError as error:
                print(f"{error.code}: {error.message}", flush=True)
                sys.exit(error.exit_status)
            print(name, told.records if isinstance(told, JobReport) else told, flush=True)


if __name__ == "__main__":
    main()
