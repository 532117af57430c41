"""The data pipeline on Spark: data sources ``sow`` and ``sow-journal``, and one module per job (sowctl-spark(7)).

The only package that imports pyspark; it calls the engine and reads stores and journals with their own
codecs. ``sowctl.spark.register(spark)`` makes the data sources known to a session.

``session`` opens one (``jvm/``: the Java it runs in; ``submit``: the line for spark-submit). ``sources`` takes the
``options`` of a reader or writer (``paths`` among them), finds its ``origin`` and hands on to ``reading/`` and
``writing/``; ``schema`` has the columns of both; :mod:`sowctl.arrow` makes structs of payloads. ``jobs/`` are the
functions behind ``sowctl pipeline``; ``errors`` carries the project's errors through Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make the formats ``sow`` and ``sow-journal`` known to a session."""
    from sowctl.spark.sources import JournalSource, SowSource

    for source in (SowSource, JournalSource):
        spark.dataSource.register(source)
