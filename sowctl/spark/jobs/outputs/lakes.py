"""Delta and Iceberg as outputs: formats that require additional packages (``sowctl-pipeline(1)``, OUTPUT)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sowctl.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAKE_PACKAGES = {"delta": "io.delta:delta-spark_2.13", "iceberg": "org.apache.iceberg:iceberg-spark-runtime_2.13"}
"""The package of each format, without Spark's minor version, if the name has it, and without the package version."""
_TABLE_PATTERN = re.compile(r"\w+(?:\.\w+)+")


def is_table(kind: str | None, path: str) -> bool:
    """Return whether an output is an Iceberg table given by name, such as ``catalog.schema.table``."""
    return kind == "iceberg" and _TABLE_PATTERN.fullmatch(path) is not None


def require_lake(spark: SparkSession, kind: str) -> None:
    """Raise UsageError ``SOW-SPK-114`` if the session does not have the package of a lake format."""
    package = LAKE_PACKAGES.get(kind)
    if package is None:
        return
    machine = spark._jvm
    assert machine is not None
    try:
        # Look the format up in Spark, because spark.jars, spark.jars.packages or the cluster may provide the package.
        source = machine.org.apache.spark.sql.execution.datasources.DataSource
        source.lookupDataSource(kind, spark._jsparkSession.sessionState().conf())
    except Exception:
        raise UsageError(
            "SOW-SPK-114",
            f"format {kind} requires the package {package}, which this Spark does not have",
            hint=f"add --conf spark.jars.packages={package}:VERSION, with the version for Spark {spark.version}",
        ) from None
