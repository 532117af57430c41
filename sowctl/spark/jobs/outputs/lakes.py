"""Delta and Iceberg as outputs: formats of packages that Spark does not bring (``sowctl-pipeline(1)``, OUTPUT)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sowctl.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAKE_PACKAGES = {"delta": "io.delta:delta-spark_2.13", "iceberg": "org.apache.iceberg:iceberg-spark-runtime_2.13"}
"""Formats, and the package of each, without the versions of Spark and of its own that their names also have."""
_TABLE_PATTERN = re.compile(r"\w+(?:\.\w+)+")


def is_table(kind: str | None, path: str) -> bool:
    """Return whether an output is a table by its name, ``catalog.schema.table``: Iceberg's usual form."""
    return kind == "iceberg" and _TABLE_PATTERN.fullmatch(path) is not None


def require_lake(spark: SparkSession, kind: str) -> None:
    """Raise UsageError ``SOW-SPK-114`` where the session has no such format; others than these it always has."""
    package = LAKE_PACKAGES.get(kind)
    if package is None:
        return
    machine = spark._jvm
    assert machine is not None
    try:
        # Asked of Spark itself: the package may have come by spark.jars, spark.jars.packages or the cluster's own jars.
        source = machine.org.apache.spark.sql.execution.datasources.DataSource
        source.lookupDataSource(kind, spark._jsparkSession.sessionState().conf())
    except Exception:
        raise UsageError(
            "SOW-SPK-114",
            f"format {kind} requires the package {package}, which this Spark does not have",
            hint=f"add --conf spark.jars.packages={package}:VERSION, with the version for Spark {spark.version}",
        ) from None
