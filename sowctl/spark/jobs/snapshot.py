"""snapshot: write the state of a topic at an instant as a data set or a store (``sowctl-pipeline-snapshot(1)``)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from sowctl.engine.bulk.staging import hold_staging_area
from sowctl.spark.jobs.outputs.output_spec import Output
from sowctl.spark.jobs.outputs.topics import write_topic
from sowctl.spark.jobs.report import JobReport
from sowctl.spark.jobs.visibility import require_visibility

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.remote.place import Place


def snapshot(
    spark: SparkSession,
    instance: Instance,
    topic: TopicConfig,
    at: int | None,
    output: Output,
    *,
    staging_directory: Place | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> JobReport:
    """Write the state of ``topic`` as of ``at`` (microseconds UTC; None: now) to ``output``.

    Raises what reading the past raises (MissingError ``SOW-ENG-050`` names the first instant that can be answered),
    and RefusedError ``SOW-SPK-064`` if the output exists.
    """
    started = monotonic()
    # Check before the fold, which may take long.
    output.check()
    with hold_staging_area(instance, topic, directory=staging_directory) as area:
        seen = require_visibility(spark, instance, area.place)
        written = write_topic(spark, instance, topic, at, output, area.place, seen)
    report = JobReport("snapshot", (topic.label,), output.label, written.records, written.records, written.bytes)
    report.partitions = written.partitions
    report.details["format"] = output.kind
    report.seconds = monotonic() - started
    return report
