"""What the orders of each symbol are worth, and how often each order changed: a script for spark-submit.

    export JAVA_HOME="$(sowctl doctor --java-home)"
    spark-submit samples/orders_on_spark.py sowctl.xml orders-by-symbol.parquet

spark-submit looks for Java by itself, and does not find the one that comes with the extra ``spark``: hence the first
line. Reads the topic and the journal of the demo instance (``sowctl demo``), joins both,
and writes Parquet. On a cluster the workers need sowctl and its extra ``spark``, and the instance's files by the same
paths; see sowctl-spark(7).
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import sowctl.spark


def main(config: str, target: str) -> None:
    """Read, join, write, and print what was written."""
    spark = SparkSession.builder.appName("orders on Spark").getOrCreate()
    sowctl.spark.register(spark)
    orders = (
        spark.read.format("sow")
        .options(config=str(Path(config).absolute()), topic="orders", filter="/qty > 0")
        .schema("payload STRUCT<symbol: STRING, qty: BIGINT, price: DOUBLE>, _sow_key DECIMAL(20,0)")
        .load()
        .select("payload.*", "_sow_key")
    )
    changes = (
        spark.read.format("sow-journal")
        .options(config=str(Path(config).absolute()), topic="orders", columns="_sow_key")
        .load()
        .groupBy("_sow_key")
        .count()
    )
    result = (
        orders.join(changes, "_sow_key")
        .groupBy("symbol")
        .agg(
            f.count("*").alias("orders"),
            f.sum("count").alias("changes"),
            f.round(f.sum(f.col("qty") * f.col("price")), 2).alias("value"),
        )
        .orderBy("symbol")
        .coalesce(1)
    )
    result.write.mode("overwrite").parquet(target)
    for row in spark.read.parquet(target).toJSON().collect():
        sys.stdout.write(f"{row}\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
