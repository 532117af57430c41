"""Write the state of one topic to an output: a data set, or a ``.sow`` file.

Called by the jobs that export topics and take snapshots. ``sowctl-pipeline(1)``, OUTPUT.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sowctl.engine.topics.positions import build_definition
from sowctl.spark.jobs.outputs.datasets import write_state
from sowctl.spark.jobs.outputs.output_spec import Output, WriteTotals
from sowctl.spark.jobs.outputs.storefile import write_store
from sowctl.spark.jobs.state import list_parts, plan_state, read_one_state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.remote.place import Place
    from sowctl.spark.jobs.visibility import FileVisibility


def write_topic(
    spark: SparkSession,
    instance: Instance,
    topic: TopicConfig,
    at: int | None,
    output: Output,
    place: Place,
    seen: FileVisibility,
) -> WriteTotals:
    """Write the state of ``topic`` as of ``at`` (microseconds UTC; None: now) to ``output``.

    Publishing may continue. ``place`` is a staging directory. Raises what reading the present or the past raises, and
    what writing raises.
    """
    config = instance.config
    assert config is not None

    def write(copied: bool) -> WriteTotals:
        if output.kind == "sow":
            parts = list_parts(spark, instance, topic, at, place, seen, copied=copied)
            return write_store(spark, instance, parts, output, build_definition(config.name, topic), place)
        found = plan_state(spark, instance, topic, at, place, seen, copied=copied)
        return write_state(spark, instance, topic, found, output)

    return read_one_state(instance, write)
